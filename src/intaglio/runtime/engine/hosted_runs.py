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
        rest, limit = iter(nodes), most_bytes()
        self._steps: list[_Host | NativePart] = [
            _Host(part, next(rest), limit) if isinstance(part, HostPart) else part for part in hosted.parts
        ]

    def prepare(self, segments: Sequence[LoadedSegment], bindings: Mapping[str, int]) -> Prepared:
        """What runs with these sizes of inputs have in common."""
        parts = [part for part in self.hosted.parts if isinstance(part, NativePart)]
        given = dict(bindings)
        found = [
            (segment, None if part.is_open else segment.ready(given))
            for part, segment in zip(parts, segments, strict=True)
        ]
        return Prepared(found, given)

    def run(self, inputs: Sequence[Any], prepared: Prepared, time: int) -> list[Any] | None:
        """The outputs, or None where something failed, of which a run with all checks can tell more."""
        hosted = self.hosted
        for place in hosted.texts:
            if not _TEXT.issuperset(map(type, inputs[place].reshape(-1).tolist())):
                return None
        values: list[Any] = [*inputs, *[None] * (hosted.places - len(inputs))]
        try:
            is_done = self._run_steps(values, iter(prepared.segments), dict(prepared.bindings), time)
        except (ArithmeticError, LookupError, TypeError, ValueError, IntaglioError):
            return None
        if not is_done:
            return None
        return [values[place].copy() if is_view else values[place] for place, is_view in hosted.outputs]

    def _run_steps(
        self,
        values: list[Any],
        segments: Iterator[tuple[LoadedSegment, Ready | None]],
        bindings: dict[str, int],
        time: int,
    ) -> bool:
        for step in self._steps:
            if isinstance(step, _Host):
                if not step.run(values, bindings):
                    return False
                continue
            segment, ready = next(segments)
            arrays = [values[place] for place in step.inputs]
            status, made = segment.call(segment.ready(bindings) if ready is None else ready, arrays, time)
            if status:
                return False
            for place, array in zip(step.outputs, made):  # noqa: B905 the plan has as many
                values[place] = array
        return True


class _Host:
    """A host node, ready to run: its function gives one result where that was made for it, else what the operator does.

    `limit` bounds the bytes of a result that the operator itself may not bound.
    """

    __slots__ = ("function", "is_single", "limit", "operands", "results", "sizes")

    def __init__(self, part: HostPart, node: Node, limit: int) -> None:
        self.operands, self.results, self.sizes = part.operands, part.results, part.sizes
        self.is_single, self.limit = is_ready_made(node), limit
        inputs = [*node.inputs]
        while inputs and inputs[-1] is None:
            inputs.pop()
        self.function: Callable[..., Any] = node.op.prepare(
            *[None if value is None else value.constant for value in inputs]
        )

    def run(self, values: list[Any], bindings: dict[str, int]) -> bool:
        """Put the results in their places; whether they are as large as the plan takes them to be."""
        arrays = [values[place] for place in self.operands]
        if self.is_single:
            values[self.results[0]] = self.function(*arrays)
        elif not self._run_slowly(arrays, values):
            return False
        for result, axis, name in self.sizes:
            size = values[self.results[result]].shape[axis]
            if bindings.setdefault(name, size) != size:
                return False
        return True

    def _run_slowly(self, arrays: Sequence[Any], values: list[Any]) -> bool:
        with np.errstate(all="ignore"):
            made = self.function(*arrays)
        for place, array in zip(self.results, made if isinstance(made, tuple) else (made,), strict=False):
            if array.nbytes > self.limit:
                return False
            values[place] = array
        return True


def is_ready_made(node: Node) -> bool:
    """Whether a node gives one result, by a function that was made for runs without checks."""
    return (node.op.keeps_order or node.op.has("prepare")) and len(node.outputs) == 1
