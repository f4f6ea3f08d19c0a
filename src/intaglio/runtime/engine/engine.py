"""What engines have in common: what runs a graph, and the options it is made with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from intaglio.ir.limits import Limits
from intaglio.record import Record
from intaglio.runtime.engine.limits import settled
from intaglio.targets import executor_for

if TYPE_CHECKING:
    from intaglio.runtime.engine.deadline import Deadline
    from intaglio.runtime.engine.repeated_runs import Shapes
    from intaglio.targets.executor import Host
    from intaglio.targets.step import Direct, Into

EngineName = Literal["native", "reference"]
Progress = Callable[[int, int], None]


class Engine(Protocol):
    """What runs a graph."""

    @property
    def host_runs(self) -> int:
        """How many nodes the reference engine has run beside compiled ones."""
        ...

    def run(self, inputs: Sequence[Any], deadline: Deadline | None = None, into: Into | None = None) -> list[Any]:
        """The outputs for arrays in the order of the graph's inputs.

        Those for which `into` has an array may be written to it; they need not, and the caller looks. No such array
        shares memory with an input or with another one.
        """
        ...

    def forget_sizes(self) -> None:
        """Keep no plan of memory for the sizes that were run before."""
        ...

    def host_reasons(self) -> list[str]:
        """The nodes that the reference engine runs beside compiled ones, each with the reason."""
        ...

    def direct(self, shapes: Shapes) -> Direct | None:
        """What runs the engine on addresses of contiguous memory, for inputs of shapes that were run before.

        None where there was no such run, or where a run is more than one call of compiled code.
        """
        ...

    def prepare(self, shapes: Shapes) -> None:
        """Make ready for inputs of these shapes, so that `run_again` can run the first of them, where it can at all."""
        ...

    def run_again(self, inputs: Sequence[Any], time: int = 0, into: Into | None = None) -> list[Any] | None:
        """The outputs where these arrays need no check, conversion or preparation any more; None where they do.

        The run ends after `time` nanoseconds with RunTimeoutError, where that is not 0. Outputs for which `into` has an
        array may be written to it, as in `run`.
        """
        ...


LOAD_OPTIONS = (
    "engine",
    "threads",
    "simplify",
    "disable",
    "exact",
    "quick",
    "strict",
    "implementations",
    "limits",
    "shared_weights",
)
"""The options of `load` that a model keeps, and that its copies and derivatives are loaded with."""


class Options(Record):
    """How a model is run: what `load` was given."""

    engine: EngineName
    threads: int
    simplify: bool = True
    disable: tuple[str, ...] = ()
    exact: bool = False
    strict: bool = False
    implementations: tuple[tuple[str, str], ...] = ()
    limits: Limits = field(default_factory=lambda: settled(None))
    donate: tuple[tuple[str, str], ...] = ()
    """Inputs whose memory outputs take: pairs of names. A model's copies have it, its derivatives do not."""
    is_state: bool = False
    """Whether these inputs are a state that must be changed as a whole or not at all."""
    quick: bool = False
    device: str = "cpu"
    target: Any = None
    """What the code of a compiled model is for, in the words of its executor; None is this machine."""
    shared_weights: bool = False
    """Whether the weights are those of a mapped file, which other processes map too."""

    def keywords(self) -> dict[str, Any]:
        """The options as `load` takes them, by the names in `LOAD_OPTIONS`."""
        return {name: getattr(self, name) for name in LOAD_OPTIONS} | {"implementations": dict(self.implementations)}

    @property
    def executor(self) -> Host:
        """What runs the model."""
        return executor_for(self.device, self.target, is_quick=self.quick)
