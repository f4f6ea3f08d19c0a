"""What the engine needs of a plan to run it: it follows from the plan, and takes a tenth of the time to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intaglio.ir.dim import Dim
from intaglio.ir.requirements import Requirement
from intaglio.ir.types import Type
from intaglio.kernels.frame import Frame
from intaglio.record import Record

if TYPE_CHECKING:
    from intaglio.kernels.plan_form import PlanForm


class Port(Record):
    """An input or output of a model; an optional one has a default."""

    name: str
    type: Type
    is_optional: bool = False
    default: None = None
    """Always None: a default is in the graph."""


class Outline(Record):
    """A plan without its actions."""

    inputs: tuple[Port, ...]
    """What a run is given."""
    outputs: tuple[str, ...]
    """The ids of what it gives."""
    frames: tuple[Frame, ...] = ()
    """The segments; there is one, and no more where there are no host nodes."""
    assumptions: tuple[tuple[Dim, Dim], ...] = ()
    requirements: tuple[Requirement, ...] = ()
    parameters: tuple[int, ...] = ()
    """The inputs whose values decide what is run: there is a plan for each."""
    is_for_sizes: bool = False
    """Whether the sizes of inputs decide what is run."""


def outline_of(form: PlanForm) -> Outline:
    """The outline of a plan."""
    from intaglio.kernels.plan_frames import frames_of

    return Outline(
        inputs=tuple([Port(name, form.value(name).type) for name in form.inputs]),
        outputs=tuple(form.outputs),
        frames=tuple(frames_of(form)),
        assumptions=tuple(form.assumptions),
        requirements=tuple(form.requirements),
    )
