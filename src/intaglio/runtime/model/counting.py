"""`model.count()`: what the runs inside of a block did, how often, and how long it took."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from intaglio.errors import GraphError, UnsupportedError
from intaglio.ir.dim import Dim
from intaglio.ir.substitution import evaluate
from intaglio.ir.types import TensorType
from intaglio.kernels.plan import Action, Call, Fill, FindSizes, NodeForm, operands_of, walk
from intaglio.runtime.engine.binding import bind
from intaglio.runtime.engine.counting import Counting, Span, Timed
from intaglio.runtime.engine.native import NativeEngine
from intaglio.runtime.model.variant import Variant

BETWEEN = "between kernels"
"""The title of what drivers do themselves: sizes, decisions, memory."""


@dataclass(frozen=True)
class CountedRow:
    """One thing that runs did: a kernel, a shape or a size that a driver found, a host node, or what is between.

    `seconds` are those of all `calls` together, `waited` the part in which the calling thread waited for others, and
    `best` those of the shortest call; that is 0 where it is not known.
    `flops` and `bytes` are those of one call; None where they depend on data, or are not known. `live` is what the
    arena holds meanwhile. The time of a row that `is_inside` belongs to the body of a host node, whose own row is
    without it.
    """

    kind: str
    title: str
    calls: int
    seconds: float
    waited: float = 0.0
    best: float = 0.0
    kernel: str = ""
    nodes: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    flops: int | None = None
    bytes: int | None = None
    live: int | None = None
    is_inside: bool = False


@dataclass
class Counts:
    """What was counted; filled when the block ends."""

    rows: tuple[CountedRow, ...] = ()
    spans: tuple[Span, ...] = field(default=(), repr=False)
    """When each thing began and ended, as far as there was room for it; `row` is a place in `rows`."""

    @property
    def seconds(self) -> float:
        """The time of all rows together."""
        return sum(row.seconds for row in self.rows)


@contextmanager
def counting(main: Variant, feeds: Mapping[str, Any], most_spans: int) -> Generator[Counts]:
    """Count what an engine does, with the sizes of these inputs."""
    engine = main.engine
    if not isinstance(engine, NativeEngine):
        raise UnsupportedError("only runs of the native engine are counted, and this model has the reference engine")
    counts, counter = Counts(), Counting(engine, most_spans)
    try:
        yield counts
    finally:
        counter.end()
        sizes = _sizes(main, feeds)
        memory = _memory(engine, sizes)
        counts.rows = tuple(_row(timed, sizes, memory) for timed in counter.rows())
        counts.spans = tuple(counter.spans())


def _sizes(main: Variant, feeds: Mapping[str, Any]) -> dict[str, int]:
    """What the named dimensions are with these inputs."""
    bindings: dict[str, int] = {}
    for value in main.inputs:
        shape = getattr(feeds.get(value.name), "shape", None)
        if isinstance(value.type, TensorType) and shape is not None:
            bind(value.type.shape, tuple(shape), bindings, f"input {value.name!r}")
    return bindings


def _row(timed: Timed, sizes: Mapping[str, int], memory: Mapping[int, _Memory]) -> CountedRow:
    if timed.host is not None:
        node = timed.host.form.node
        return _described("host", str(node), [node], timed)
    action = timed.action
    if action is None:
        return CountedRow("driver", BETWEEN, timed.count, timed.seconds, is_inside=timed.is_inside)
    kind = "kernel" if isinstance(action, Call) else "shape" if isinstance(action, Fill) else "size"
    title = action.title or _title(action.served)
    around = memory.get(id(action))
    live = None if around is None else around.live
    if not isinstance(action, Call):
        return _described(kind, title, action.served, timed, live=live)
    flops, moved = _known(action.flops, sizes), None if around is None else around.moved
    return _described(kind, title, action.served, timed, kernel=action.kernel.hint, flops=flops, bytes=moved, live=live)


def _described(kind: str, title: str, nodes: Sequence[NodeForm], timed: Timed, **more: Any) -> CountedRow:
    return CountedRow(
        kind, title, timed.count, timed.seconds, timed.waited, timed.best,
        nodes=tuple(dict.fromkeys(map(str, nodes))),
        operators=tuple(dict.fromkeys(node.operator for node in nodes)), is_inside=timed.is_inside, **more,
    )  # fmt: skip


def _title(nodes: Sequence[NodeForm]) -> str:
    return " + ".join(map(str, nodes)) or BETWEEN


def _known(size: Dim, sizes: Mapping[str, int]) -> int | None:
    try:
        return evaluate(size, sizes)
    except GraphError:  # a size that the run finds out
        return None


class _Memory(NamedTuple):
    """What the arena holds during an action, and the bytes of all that the action reads and writes, where known."""

    live: int
    moved: int | None


def _memory(engine: NativeEngine, sizes: dict[str, int]) -> dict[int, _Memory]:
    """The memory around each action that is timed, by the action's identity."""
    found: dict[int, _Memory] = {}
    for each in engine.all_engines():
        for step, form in each.segments():
            layout = step.frame.layout
            rooms = [_known(room.bytes, sizes) or 0 for room in step.frame.arena]
            blocks = [(layout.first[i], layout.last[i], rooms[holder]) for i, holder in enumerate(layout.holders)]
            for moment, action in enumerate(walk(form.actions)):
                if isinstance(action, (Call, Fill, FindSizes)):
                    live = sum(size for first, last, size in blocks if first <= moment <= last)
                    found[id(action)] = _Memory(live, _moved(action, each, sizes))
    return found


def _moved(action: Action, engine: NativeEngine, sizes: Mapping[str, int]) -> int | None:
    """The bytes of all buffers that an action touches; those of constants are known of their arrays."""
    buffers = dict.fromkeys(operand.buffer for operand in operands_of(action))
    constants = [buffer for buffer in buffers if buffer.kind == "constant"]
    moved: Dim = sum((buffer.bytes for buffer in buffers if buffer.kind != "constant"), 0)
    known = _known(moved, sizes)
    return None if known is None else known + sum(engine.constants[buffer.index].nbytes for buffer in constants)
