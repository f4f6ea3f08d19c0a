"""Whether a model computes what somebody else computes, and which node is the first that does not."""

from intaglio.tools.comparing.compare import compare
from intaglio.tools.comparing.measures import Difference
from intaglio.tools.comparing.results import Bisection, Comparison, Experiment, NodeReport
from intaglio.tools.comparing.subjects import PeerError
from intaglio.tools.comparing.tolerances import Tolerances

__all__ = ["Bisection", "Comparison", "Difference", "Experiment", "NodeReport", "PeerError", "Tolerances", "compare"]
