"""What comes of a comparison."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from intaglio.tools.comparing.measures import Difference


@dataclass(frozen=True)
class Operand:
    """What a node read: its range where it is numbers, and whether it was as expected."""

    name: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    least: float | None = None
    largest: float | None = None
    not_finite: int = 0
    is_equal: bool | None = None


@dataclass(frozen=True)
class NodeReport:
    """The first node, in the order of the file, one of whose results differs."""

    path: str
    operator: str
    opset: int | None
    number: int
    tensor: str
    inputs: tuple[Operand, ...] = ()
    is_seen_alone: bool = False
    """Whether the difference shows only where the tensors before are not asked for: a fault of what is fused."""

    def __str__(self) -> str:
        version = "" if self.opset is None else f", opset {self.opset}"
        return f"{self.operator} {self.path!r} (node {self.number}{version}), in {self.tensor!r}"


@dataclass(frozen=True)
class Experiment:
    """One way to run the model, and whether its outputs agreed."""

    title: str
    is_equal: bool


@dataclass(frozen=True)
class Bisection:
    """What is to blame: `kind` is pass, kernel, fusion, threads, rounding, weight, meaning
    or unknown, and `guilty` names it; `text` is the finding in a sentence."""

    kind: str
    guilty: tuple[str, ...]
    text: str
    experiments: tuple[Experiment, ...]


@dataclass
class Comparison:
    """What came of a comparison. `is_equal` where every tensor that was looked at is within its tolerance."""

    subject: str
    against: str
    samples: int
    outputs: list[Difference] = field(default_factory=list[Difference])
    tensors: list[Difference] = field(default_factory=list[Difference])
    """Tensors in between, in the order of the file, as far as they were compared."""
    weights: list[Difference] = field(default_factory=list[Difference])
    """Weights that differ, where two models are compared."""
    first: NodeReport | None = None
    bisection: Bisection | None = None
    notes: list[str] = field(default_factory=list[str])
    are_tensors_judged: bool = False

    @property
    def is_equal(self) -> bool:
        """Whether everything that was asked for agrees."""
        judged = [*self.outputs, *(self.tensors if self.are_tensors_judged else ())]
        return all(each.is_equal for each in judged)

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain data."""
        return {
            "subject": self.subject,
            "against": self.against,
            "samples": self.samples,
            "is_equal": self.is_equal,
            "outputs": [each.to_dict() for each in self.outputs],
            "tensors": [each.to_dict() for each in self.tensors],
            "weights": [each.to_dict() for each in self.weights],
            "first": None if self.first is None else asdict(self.first),
            "bisection": None if self.bisection is None else asdict(self.bisection),
            "notes": self.notes,
        }
