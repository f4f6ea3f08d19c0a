"""Parts of a tensor that are taken one by one."""

from __future__ import annotations

from intaglio.ir.build import Builder
from intaglio.ir.graph import Node, Value
from intaglio.ops.shared.indices import resolve_axis
from intaglio.passes.driver import Result, rule
from intaglio.passes.match import integers, rank_of


@rule("Gather")
def gathered_one_by_one(b: Builder, node: Node) -> Result:
    """gather(x, 0), gather(x, 1), ..., gather(x, n - 1) -> split(x), whose gradient is one concatenation"""
    x, place = node.input, _place(node)
    if place is None:
        return None
    axis, index = place
    count = x.shape[axis]
    others = [_place(reader) for reader in x.readers if reader.op.name == "Gather"]
    taken = {other[1] for other in others if other is not None and other[0] == axis} | _split(x, axis)
    if not isinstance(count, int) or count < 2 or taken != set(range(count)):
        return None
    parts = b.Split(x, num_outputs=count, axis=axis, outputs=count)
    return b.Squeeze(parts[index], [axis])


def _place(node: Node) -> tuple[int, int] | None:
    """The axis and the index of a Gather of one index that is known."""
    x, found = node.input, integers(node.needed(1))
    if rank_of(x) is None or found is None or node.needed(1).rank != 0:
        return None
    axis = resolve_axis(node.op.axis, x.rank)
    count = x.shape[axis]
    if not isinstance(count, int) or not -count <= found[0] < count:
        return None
    return axis, found[0] % count


def _split(x: Value, axis: int) -> set[int]:
    """The parts that a Split of x along an axis gives already."""
    splits = [node for node in x.readers if node.op.name == "Split" and resolve_axis(node.op.axis, x.rank) == axis]
    return {index for node in splits if len(node.outputs) == x.shape[axis] for index in range(len(node.outputs))}
