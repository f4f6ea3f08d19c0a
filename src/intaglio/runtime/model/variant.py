"""An engine for the outputs that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from intaglio.record import Record
from intaglio.runtime.model.donation import DonatingRuns, Donation

if TYPE_CHECKING:
    from intaglio.ir.graph import Value
    from intaglio.passes import Report
    from intaglio.runtime.engine.deadline import Deadline
    from intaglio.runtime.engine.engine import Engine
    from intaglio.runtime.engine.outline import Port
    from intaglio.runtime.engine.weights import HeldGraph
    from intaglio.runtime.model.implementations import Choice
    from intaglio.targets.step import Into


class Runs(Protocol):
    """What runs an engine; see `Engine`."""

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None, into: Into | None = None) -> list[Any]:
        """The outputs for arrays in the order of the inputs."""
        ...

    def run_again(self, inputs: Sequence[Any], time: int = 0, into: Into | None = None) -> list[Any] | None:
        """The outputs where these arrays need no check, conversion or preparation any more; None where they do."""
        ...


class Variant(Record):
    """An engine for one choice of outputs and fed inputs; `held` is its graph, unless it came from a stored plan."""

    engine: Engine
    inputs: Sequence[Value | Port]
    names: list[str]
    held: HeldGraph | None = None
    report: Report | None = None
    choices: tuple[Choice, ...] = ()
    donation: Donation | None = None
    """The inputs that are given away, where there are some."""
    runs: Runs = field(default=None)  # pyright: ignore[reportAssignmentType]
    """What runs the engine: itself, or with what inputs that are given away need."""

    def __post_init__(self) -> None:
        runs = self.engine if self.donation is None else DonatingRuns(self.engine, self.donation)
        object.__setattr__(self, "runs", runs)
