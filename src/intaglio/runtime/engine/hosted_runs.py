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
    from intaglio.targets.step import Ready, Step

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

    segments: Sequence[tuple[Step, Ready | None]]
    bindings: Mapping[str, int]


class HostedRun:
    """Runs the steps of a plan; `nodes` are its host nodes."""

    def __init__(self, hosted: Hosted, nodes: Sequence[Node]) -> None:
        self.hosted = hosted
        self.host_nodes = len(nodes)
        rest, limit = iter(nodes), most_bytes()
        self._steps: list[tuple[Run | None, Any]] = [
            (_ready(part, next(rest), limit) if isinstance(part, HostPart) else None, part) for part in hosted.parts
        ]

    def prepare(self, segments: Sequence[Step], bindings: Mapping[str, int]) -> Prepared:
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
        segments: Iterator[tuple[Step, Ready | None]],
        bindings: dict[str, int],
        time: int,
    ) -> bool:
        for host, part in self._steps:
            if host is not None:
                if not host(values, bindings):
                    return False
                continue
            segment, ready = next(segments)
            arrays = [values[place] for place in part.inputs]
            status, made = segment.call(segment.ready(bindings) if ready is None else ready, arrays, time)
            if status:
                return False
            for place, array in zip(part.outputs, made):  # noqa: B905 the plan has as many
                values[place] = array
        return True


Run = Callable[[list[Any], dict[str, int]], bool]
"""Puts the results of a host node in their places; whether they are as large as the plan takes them to be."""


def _ready(part: HostPart, node: Node, limit: int) -> Run:
    """A host node, ready to run; `limit` bounds the bytes of a result that the operator itself may not bound."""
    inputs = [*node.inputs]
    while inputs and inputs[-1] is None:
        inputs.pop()
    function = node.op.prepare(*[None if value is None else value.constant for value in inputs])
    run = _single(part, function) if is_ready_made(node) else _slow(part, function, limit)
    return _measured(part, run) if part.sizes else run


def _single(part: HostPart, function: Callable[..., Any]) -> Run:
    """A node whose function was made for runs without checks."""
    operands, (result,) = part.operands, part.results

    def of_one(values: list[Any], bindings: dict[str, int]) -> bool:
        values[result] = function(values[operand])
        return True

    def of_many(values: list[Any], bindings: dict[str, int]) -> bool:
        values[result] = function(*[values[place] for place in operands])
        return True

    operand = operands[0] if operands else 0
    return of_one if len(operands) == 1 else of_many


def _slow(part: HostPart, function: Callable[..., Any], limit: int) -> Run:
    """A node that is run as the operator says."""

    def run(values: list[Any], bindings: dict[str, int]) -> bool:
        with np.errstate(all="ignore"):
            made = function(*[values[place] for place in part.operands])
        for place, array in zip(part.results, made if isinstance(made, tuple) else (made,), strict=False):
            if array.nbytes > limit:
                return False
            values[place] = array
        return True

    return run


def _measured(part: HostPart, run: Run) -> Run:
    """A node that tells sizes."""
    sizes = [(part.results[result], axis, name) for result, axis, name in part.sizes]

    def measured(values: list[Any], bindings: dict[str, int]) -> bool:
        if not run(values, bindings):
            return False
        for place, axis, name in sizes:
            size = values[place].shape[axis]
            if bindings.setdefault(name, size) != size:
                return False
        return True

    return measured


def is_ready_made(node: Node) -> bool:
    """Whether a node gives one result, by a function that was made for runs without checks."""
    return (node.op.keeps_order or node.op.has("prepare")) and len(node.outputs) == 1
