"""Sizes of a graph's values written another way: everywhere at once, in types and in known contents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from intaglio.ir.dim import Dim, Expr, Symbol, lone_atom, symbols
from intaglio.ir.graph import Graph, Value
from intaglio.ir.substitution import substitute
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
        value.type = rewritten_type(value.type, rewrite)
        contents = value.contents if value.constant is None else None
        if contents is not None and any(isinstance(item, Expr) for item in contents.flat):
            items = np.empty(contents.size, dtype=object)
            items[:] = [rewrite(item) for item in contents.ravel().tolist()]
            value.contents = items.reshape(contents.shape)


def type_symbols(type: Type) -> set[str]:
    """The symbols in the sizes of a type."""
    if isinstance(type, TensorType):
        return set[str]().union(*(symbols(dim) for dim in type.shape or ()))
    return type_symbols(type.element) if isinstance(type, (SequenceType, OptionalType)) else set()


def own_symbols(value: Value) -> set[str]:
    """The symbols in the sizes and in the known contents of a value."""
    contents = value.contents if value.constant is None else None
    items = [] if contents is None else contents.ravel().tolist()
    return type_symbols(value.type).union(*(symbols(item) for item in items))


def rewritten_type(type: Type, rewrite: Callable[[Dim], Dim]) -> Type:
    """A type with its dimensions written another way."""
    if isinstance(type, TensorType):
        if type.shape is None or type.is_static:
            return type
        return type.with_shape(tuple(rewrite(dim) for dim in type.shape))
    if isinstance(type, SequenceType):
        return SequenceType(rewritten_type(type.element, rewrite))
    if isinstance(type, OptionalType):
        return OptionalType(rewritten_type(type.element, rewrite))
    return type


def renamed_sizes(old: Type, new: Type, known: Mapping[str, Dim]) -> dict[str, Dim] | None:
    """What symbols of one type are in another, of a value that has both; None where they differ in more than that.

    `known` are symbols that are something else already.
    """
    if old == new:
        return {}
    if not isinstance(old, TensorType) or not isinstance(new, TensorType) or old.dtype != new.dtype:
        return None
    if old.shape is None or new.shape is None or len(old.shape) != len(new.shape):
        return None
    sizes: dict[str, Dim] = {}
    for left, right in zip(old.shape, new.shape, strict=True):
        left, right = substitute(left, known), substitute(right, known)
        atom = lone_atom(left)
        if isinstance(atom, Symbol) and left != right:
            sizes.setdefault(atom.name, right)
        if substitute(left, sizes) != right:
            return None
    return sizes


def keep_sizes(graph: Graph, pairs: Iterable[tuple[Type, Type]]) -> None:
    """Write sizes that new nodes of a graph tell as those that they replace, which others know by their names.

    A pair is the type of a value that was replaced and of the one that took its place.
    """
    sizes: dict[str, Dim] = {}
    for old, new in pairs:
        sizes |= renamed_sizes(new, old, sizes) or {}
    if sizes:
        rewrite_sizes(graph, lambda dim: substitute(dim, sizes))
