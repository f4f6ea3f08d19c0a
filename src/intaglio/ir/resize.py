"""Sizes of a graph's values written another way: everywhere at once, in types and in known contents."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from intaglio.ir.dim import Dim, Expr
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import OptionalType, SequenceType, TensorType, Type


def every_value(graph: Graph) -> Iterator[Value]:
    """The inputs and results of a graph, and those of all its subgraphs."""
    yield from graph.values()
    for node in graph.nodes:
        for _, inner in node.op.subgraphs():
            yield from every_value(inner)


def rewrite_sizes(graph: Graph, rewrite: Callable[[Dim], Dim]) -> None:
    """Write every dimension of the graph as `rewrite` says."""
    for value in every_value(graph):
        value.type = _rewritten(value.type, rewrite)
        contents = value.contents if value.constant is None else None
        if contents is not None and any(isinstance(item, Expr) for item in contents.flat):
            items = np.empty(contents.size, dtype=object)
            items[:] = [rewrite(item) for item in contents.ravel().tolist()]
            value.contents = items.reshape(contents.shape)


def _rewritten(type: Type, rewrite: Callable[[Dim], Dim]) -> Type:
    if isinstance(type, TensorType):
        if type.shape is None or type.is_static:
            return type
        return type.with_shape(tuple(rewrite(dim) for dim in type.shape))
    if isinstance(type, SequenceType):
        return SequenceType(_rewritten(type.element, rewrite))
    if isinstance(type, OptionalType):
        return OptionalType(_rewritten(type.element, rewrite))
    return type
