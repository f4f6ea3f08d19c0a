"""Parts of models as models: some of the nodes, fed with what the whole model computes."""

from intaglio.tools.cutting.cut import Plan, cut, plan_cut, reads_of
from intaglio.tools.cutting.recording import Recorder

__all__ = ["Plan", "Recorder", "cut", "plan_cut", "reads_of"]
