"""Made-up inputs: random numbers, and indices below what they select from."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from intaglio.ir.dtype import DType
from intaglio.ir.graph import Node, Value
from intaglio.ir.types import TensorType

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
            elif current in node.inputs[: _passed_on(node)] and node.outputs[0] not in seen:
                seen.add(node.outputs[0])
                waiting.append(node.outputs[0])
    return min(limits, default=None)


def _passed_on(node: Node) -> int:
    """How many operands there are whose numbers come out again."""
    return 1 if node.op.name == "Cast" else node.op.chooses_from


def _extent(node: Node) -> list[int]:
    data = node.inputs[0]
    if data is None or not isinstance(data.type, TensorType) or not data.type.shape:
        return []
    extent = data.type.shape[getattr(node.op, "axis", 0)]
    return [extent] if isinstance(extent, int) else []


def random_array(
    dtype: DType, shape: list[int], generator: np.random.Generator, limit: int | None = None
) -> np.ndarray[Any, Any]:
    """Normal numbers; integers below `limit`, bytes of the whole range, or else zeros and ones."""
    if dtype.kind == "string":
        return np.full(shape, "text", dtype=object)
    if dtype.is_float or dtype.kind == "complex":
        return generator.standard_normal(shape).astype(dtype.numpy)
    if limit is None and dtype.bits == 8 and dtype.is_integer:
        least = int(np.iinfo(cast("Any", dtype.numpy)).min)
        return generator.integers(least, least + 256, shape).astype(dtype.numpy)
    return generator.integers(0, max(1, limit or 2), shape).astype(dtype.numpy)
