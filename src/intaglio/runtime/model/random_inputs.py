"""Made-up inputs: random numbers, and indices below what they select from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from intaglio.errors import InputError
from intaglio.ir.dim import Dim, symbols
from intaglio.ir.dtype import DType
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.substitution import evaluate
from intaglio.ir.types import MapType, SequenceType, TensorType, Type
from intaglio.runtime.engine.binding import bind

LARGE_SIDE, MIDDLE_SIDE = 64, 8
"""Sizes for dimensions that have only a name: those of images, and others; the first dimension is taken as 1."""

_INDEXING = frozenset({"Gather", "GatherElements"})


def index_limit(value: Value) -> int | None:
    """The smallest extent that the values of an input select from, following it through casts and views."""
    limits: list[int] = []
    waiting, seen = [value], {value}
    while waiting:
        current = waiting.pop()
        for node in current.readers:
            if node.op.name in _INDEXING and len(node.inputs) > 1 and node.inputs[1] is current:
                limits += _gathered_extent(node)
            elif current in node.inputs[: _passed_on(node)] and node.outputs[0] not in seen:
                seen.add(node.outputs[0])
                waiting.append(node.outputs[0])
    return min(limits, default=None)


def _passed_on(node: Node) -> int:
    """How many operands there are whose numbers come out again."""
    return 1 if node.op.name == "Cast" else node.op.chooses_from


def _gathered_extent(node: Node) -> list[int]:
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


def make_feeds(
    graph: Graph, given: Mapping[str, Any], dims: Mapping[str, int], seed: int, rows: int = 1
) -> dict[str, Any]:
    """Random values for the inputs that are not given and have no default; sizes of one name agree.

    `rows` is the size of a first dimension that has only a name. Raises InputError for a dimension that is not there
    and for an input that nothing can be made up for.
    """
    known = {symbol for value in graph.inputs for symbol in _symbols(value.type)}
    unknown = [name for name in dims if name not in known]
    if unknown:
        raise InputError(f"there is no dimension {unknown[0]!r}; the dimensions are {sorted(known) or 'all numbers'}")
    bindings = dict(dims)
    for value in graph.inputs:
        if isinstance(value.type, TensorType) and isinstance(given.get(value.name), np.ndarray):
            bind(value.type.shape, given[value.name].shape, bindings, f"input {value.name!r}")
    generator = np.random.default_rng(seed)
    missing = [value for value in graph.inputs if value.name not in given and value.default is None]
    return {value.name: _make(value.type, value, bindings, generator, rows) for value in missing}


def _symbols(type: Type) -> set[str]:
    return {name for dim in (type.shape or () if isinstance(type, TensorType) else ()) for name in symbols(dim)}


def _make(type: Type, value: Value, bindings: dict[str, int], generator: np.random.Generator, rows: int) -> Any:
    if isinstance(type, TensorType):
        if type.shape is None:
            raise InputError(f"input {value.name!r} has no known rank, so nothing can be made up: give it")
        shape = [_size(dim, axis, len(type.shape), bindings, rows) for axis, dim in enumerate(type.shape)]
        return random_array(type.dtype, shape, generator, index_limit(value))
    if isinstance(type, MapType):
        raise InputError(f"input {value.name!r} is {type}, which can be given in Python only")
    made = _make(type.element, value, bindings, generator, rows)
    return [made] if isinstance(type, SequenceType) else made


def _size(dim: Dim, axis: int, rank: int, bindings: dict[str, int], rows: int) -> int:
    for name in symbols(dim):
        bindings.setdefault(name, rows if axis == 0 else LARGE_SIDE if rank >= 4 and axis >= rank - 2 else MIDDLE_SIDE)
    return max(0, evaluate(dim, bindings))
