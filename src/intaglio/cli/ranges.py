"""How large an integer input may be, read from what it indexes."""

from __future__ import annotations

from intaglio.ir.graph import Node, Value
from intaglio.ir.types import TensorType

_PASSING = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Expand", "Slice"})
_INDEXING = frozenset({"Gather", "GatherElements"})


def index_limit(value: Value) -> int | None:
    """The smallest extent that the values of an input select from, following it through casts and views."""
    limits: list[int] = []
    waiting, seen = [value], {value}
    while waiting:
        current = waiting.pop()
        for node in current.readers:
            if node.op.name in _INDEXING and len(node.inputs) > 1 and node.inputs[1] is current:
                limits += _extent(node)
            elif node.op.name in _PASSING and current in node.inputs[:1] and node.outputs[0] not in seen:
                seen.add(node.outputs[0])
                waiting.append(node.outputs[0])
    return min(limits, default=None)


def _extent(node: Node) -> list[int]:
    data = node.inputs[0]
    if data is None or not isinstance(data.type, TensorType) or not data.type.shape:
        return []
    extent = data.type.shape[getattr(node.op, "axis", 0)]
    return [extent] if isinstance(extent, int) else []
