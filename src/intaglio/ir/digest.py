"""A hash of everything that decides what a graph computes: equal graphs of different processes have one digest."""

from __future__ import annotations

import hashlib

import numpy as np

from intaglio.ir.graph import Graph
from intaglio.ir.op import Array
from intaglio.ir.text import format_graph


def digest(graph: Graph) -> str:
    """A hash of a graph's operators, attributes, types, names and constants, those of subgraphs included.

    Graphs that print the same text and hold the same bytes have the same digest, in every process.
    """
    found = hashlib.sha256()
    numbers: dict[int, int] = {}

    def keep(array: Array) -> int:
        if id(array) not in numbers:
            numbers[id(array)] = len(numbers)
            found.update(f"{array.dtype} {array.shape}\0".encode())
            _add_elements(found, array)
        return numbers[id(array)]

    text = format_graph(graph, keep)
    found.update(text.encode("utf-8", "surrogatepass"))
    for value in graph.inputs:  # the text of an input has a default, but not what its elements are known to be
        if value.contents is not None:
            found.update(f"\0{value.name} {value.contents.tolist()}".encode())
    return found.hexdigest()


def _add_elements(found: hashlib._Hash, array: Array) -> None:
    if array.dtype.hasobject:
        found.update(repr(array.tolist()).encode("utf-8", "surrogatepass"))
    else:
        found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
