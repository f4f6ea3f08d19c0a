"""What is in the tensors of a model or of a run."""

from intaglio.tools.inspecting.inspect import Inspection, inspect
from intaglio.tools.inspecting.measure import Facts, measure

__all__ = ["Facts", "Inspection", "inspect", "measure"]
