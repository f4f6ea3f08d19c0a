"""Who holds a model's weights: the engine what its code reads, the graph only views of the file, and nobody a copy."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable

import numpy as np

from intaglio.ir.graph import Graph, Value
from intaglio.ir.op import Array
from intaglio.memory.constants import copied, drop_pages, share
from intaglio.onnx.mapped import files_of, model_file

LARGE = 2**16
"""Constants of at least so many bytes are let go where nobody reads them any more."""


class HeldGraph:
    """A graph that can be let go, if somebody knows how to make it anew."""

    def __init__(self, graph: Graph, make: Callable[[], Graph] | None = None) -> None:
        self._graph: Graph | None = graph
        self._make = make
        self._last: Callable[[], Graph | None] = lambda: None

    def get(self) -> Graph:
        """The graph, made anew if it was let go and nobody else holds it."""
        graph = self._graph if self._graph is not None else self._last()
        if graph is None:
            assert self._make is not None
            graph = self._make()
            self._last = weakref.ref(graph)
        return graph

    def release(self) -> None:
        """Hold the graph no longer, and free its constants at once, where they are large; nobody else may hold it."""
        if self._make is None or self._graph is None:
            return
        large = [value for value in self._graph.constants() if is_large(value)]
        if large:
            self._graph = None
        for value in large:
            value.constant = None


def is_large(value: Value) -> bool:
    """Whether a value has a constant that is let go where nobody reads it any more."""
    return value.constant is not None and value.constant.nbytes >= LARGE


def signature(graph: Graph) -> list[Value]:
    """The graph's inputs without the graph: their names, types and defaults."""
    found: list[Value] = []
    for value in graph.inputs:
        alone = Value(value.name, value.type)
        alone.default = value.default
        found.append(alone)
    return found


def own_constants(arrays: Iterable[Array]) -> list[Array]:
    """Constants as compiled code reads them: in memory of this process, contiguous, aligned, and each held once."""
    return [_own_constant(array) for array in arrays]


def _own_constant(array: Array) -> Array:
    own = np.require(in_memory(array), requirements=("C", "A"))
    return own if own.flags.writeable and own is array else share(own)


def in_memory(array: Array) -> Array:
    """The array itself, or a read-only copy where it is a view of the model's file."""
    if model_file(array) is None:
        return array
    copy = copied(array)
    copy.flags.writeable = False
    return copy


def drop_files(graph: Graph) -> None:
    """Take the pages of the model's file out of memory; they come back where somebody reads them."""
    for value in graph.constants():
        drop_pages(value.constant)


def share_weights(graph: Graph, *, is_mapped: bool) -> None:
    """Let a graph hold the constants that other models hold too; without `is_mapped`, none in the model's file.

    Arrays that somebody may still write to are left alone. Raises LoadError where a file was rewritten meanwhile.
    """
    files = files_of(graph)
    for value in graph.constants():
        value.constant = _shared_weight(value.constant, is_mapped)
    for value in graph.inputs:
        value.default = _shared_weight(value.default, is_mapped)
    for file in files:
        file.check()


def _shared_weight(array: Array | None, is_mapped: bool) -> Array | None:
    if not isinstance(array, np.ndarray) or array.flags.writeable or (is_mapped and model_file(array) is not None):
        return array
    return share(in_memory(array))
