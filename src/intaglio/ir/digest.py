"""A hash of everything that decides what a graph computes: equal graphs of different processes have one digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from intaglio.errors import GraphError
from intaglio.ir.graph import Graph
from intaglio.ir.op import Array
from intaglio.ir.text import format_graph


def digest(graph: Graph) -> str:
    """A hash of a graph's operators, attributes, types, names and constants, those of subgraphs included.

    Graphs that print the same text and hold the same bytes have the same digest, in every process. Raises GraphError
    for a graph that has no text: one with constants that are sequences, or attributes of other kinds than ONNX's.
    """
    found = hashlib.sha256()
    numbers: dict[int, int] = {}

    def keep(array: Array) -> int:
        if id(array) not in numbers:
            numbers[id(array)] = len(numbers)
            found.update(f"{array.dtype} {array.shape}\0".encode())
            _add_elements(found, array)
        return numbers[id(array)]

    if not all(isinstance(array, np.ndarray) for array in _arrays(graph)):
        raise GraphError("a constant or a default is no array: the graph has no digest")
    text = format_graph(graph, keep)
    found.update(text.encode("utf-8", "surrogatepass"))
    for value in graph.inputs:  # the text of an input has a default, but not what its elements are known to be
        if value.contents is not None:
            found.update(f"\0{value.name} {value.contents.tolist()}".encode())
    return found.hexdigest()


def _arrays(graph: Graph) -> Iterator[Any]:
    yield from (value.constant for value in graph.constants())
    inner = (body for node in graph.all_nodes() for _, body in node.op.subgraphs())
    yield from (value.default for each in (graph, *inner) for value in each.inputs if value.default is not None)


def _add_elements(found: hashlib._Hash, array: Array) -> None:
    if array.dtype.hasobject:
        found.update(repr(array.tolist()).encode("utf-8", "surrogatepass"))
    else:
        found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
