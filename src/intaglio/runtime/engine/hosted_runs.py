"""Plans with a few host nodes, run without checks: each host node is a function that was made ready once.

Nothing here needs a plan or its lowering, so that what was compiled before starts without them; `hosted_plans` finds
out which plans can be run like this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from intaglio.errors import IntaglioError
from intaglio.ir.limits import most_bytes
from intaglio.record import Record

if TYPE_CHECKING:
    from intaglio.ir.graph import Node
    from intaglio.runtime.engine.segment import LoadedSegment, Ready

_TEXT = frozenset({str})


class HostPart(Record):
    """A host node between places of a list of values."""

    operands: tuple[int, ...]
    results: tuple[int, ...]
    sizes: tuple[tuple[int, int, str], ...] = ()
    """The sizes that results tell: which result, which axis, and the symbol whose value it is."""


class NativePart(Record):
    """A segment between places of a list of values; an open one needs sizes that host nodes tell."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    is_open: bool = False


class Hosted(Record):
    """The steps of a plan with a few host nodes, without their code."""

    parts: tuple[HostPart | NativePart, ...]
    places: int
    """How many values there are, the inputs first."""
    outputs: tuple[tuple[int, bool], ...]
    """The places of the outputs, and whether each may be another array in other sizes."""
    texts: tuple[int, ...]
    """The inputs that are strings."""


class Prepared(NamedTuple):
    """The segments as they are prepared for the sizes of inputs, open ones aside, and those sizes."""

    segments: Sequence[tuple[LoadedSegment, Ready | None]]
    bindings: Mapping[str, int]


class QuickRun:
    """Runs the steps of a plan; `nodes` are its host nodes."""

    def __init__(self, hosted: Hosted, nodes: Sequence[Node]) -> None:
        self.hosted = hosted
        self.host_nodes = len(nodes)
        rest = iter(nodes)
        self._steps = [(part, host_function(next(rest)) if isinstance(part, HostPart) else None)
                       for part in hosted.parts]  # fmt: skip
        self._limit = most_bytes()

    def prepare(self, segments: Sequence[LoadedSegment], bindings: Mapping[str, int]) -> Prepared:
        """What runs with these sizes of inputs have in common."""
        parts = [part for part in self.hosted.parts if isinstance(part, NativePart)]
        given = dict(bindings)
        found = [(segment, None if part.is_open else segment.ready(given))
                 for part, segment in zip(parts, segments, strict=True)]  # fmt: skip
        return Prepared(found, given)

    def run(self, inputs: Sequence[Any], prepared: Prepared, time: int) -> list[Any] | None:
        """The outputs, or None where something failed, of which a run with all checks can tell more."""
        hosted = self.hosted
        if any(not _TEXT.issuperset(map(type, inputs[place].reshape(-1).tolist())) for place in hosted.texts):
            return None
        values: list[Any] = [*inputs, *[None] * (hosted.places - len(inputs))]
        try:
            is_done = self._run_parts(values, iter(prepared.segments), dict(prepared.bindings), time)
        except (ArithmeticError, LookupError, TypeError, ValueError, IntaglioError):
            return None
        return (
            [values[place].copy() if is_view else values[place] for place, is_view in hosted.outputs]
            if is_done
            else None
        )

    def _run_parts(
        self,
        values: list[Any],
        segments: Iterator[tuple[LoadedSegment, Ready | None]],
        bindings: dict[str, int],
        time: int,
    ) -> bool:
        for part, function in self._steps:
            if isinstance(part, HostPart):
                assert function is not None
                made = function(*[values[place] for place in part.operands])
                if not self._is_right(part, made, bindings):
                    return False
                places = part.results
            else:
                segment, ready = next(segments)
                arrays = [values[place] for place in part.inputs]
                status, made = segment.call(segment.ready(bindings) if ready is None else ready, arrays, time)
                if status:
                    return False
                places = part.outputs
            for place, array in zip(places, made, strict=True):
                values[place] = array
        return True

    def _is_right(self, part: HostPart, made: Sequence[Any], bindings: dict[str, int]) -> bool:
        """Whether the results of a host node are as large as the plan takes them to be, and not too large."""
        for result, axis, name in part.sizes:
            size = made[result].shape[axis]
            if bindings.setdefault(name, size) != size:
                return False
        return all(type(array) is not np.ndarray or array.nbytes <= self._limit for array in made)


def host_function(node: Node) -> Callable[..., Sequence[Any]]:
    """What gives the results of a node for those inputs that are no constants."""
    inputs = [*node.inputs]
    while inputs and inputs[-1] is None:
        inputs.pop()
    constants = [None if value is None else value.constant for value in inputs]
    function = node.op.prepare(*constants)
    if is_ready_made(node):
        return lambda *arrays: (function(*arrays),)
    count = len(node.outputs)

    def run(*arrays: Any) -> Sequence[Any]:
        with np.errstate(all="ignore"):
            made = function(*arrays)
        return made[:count] if isinstance(made, tuple) else (made,)

    return run


def is_ready_made(node: Node) -> bool:
    """Whether a node gives one result, of sizes that follow from those of its inputs, by a function made for that."""
    return (node.op.keeps_order or node.op.has("prepare")) and len(node.outputs) == 1
