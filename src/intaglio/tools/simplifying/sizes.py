"""Other sizes for the inputs of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from intaglio.errors import InputError
from intaglio.ir.dim import lone_atom, substitute, symbols
from intaglio.ir.graph import Graph
from intaglio.ir.resize import rewrite_sizes
from intaglio.ir.types import TensorType
from intaglio.passes.driver import infer_graph
from intaglio.runtime.engine.specialise import fix_sizes


def set_sizes(graph: Graph, dims: Mapping[str, int], shapes: Mapping[str, Sequence[int]]) -> Graph:
    """A graph whose named sizes are numbers, and whose inputs have other shapes.

    Raises InputError for a name that is not there and for a shape that does not fit.
    """
    graph = fix_sizes(graph, dims)
    if not shapes:
        return graph
    inputs, known = {value.name: value for value in graph.inputs}, dict[str, int]()
    for name, shape in shapes.items():
        if name not in inputs or not isinstance(inputs[name].type, TensorType):
            raise InputError(f"there is no input {name!r}; the inputs are {', '.join(map(repr, inputs))}")
        value = inputs[name]
        old = value.tensor.shape
        if old is not None and len(old) != len(shape):
            raise InputError(f"input {name!r} has {len(old)} dimensions, and {list(shape)} has {len(shape)}")
        for dim, size in zip(old or (), shape, strict=False):
            if symbols(dim) and lone_atom(dim) is not None:
                known[next(iter(symbols(dim)))] = size
        value.type = value.tensor.with_shape(tuple(shape))
    rewrite_sizes(graph, lambda dim: substitute(dim, known))
    infer_graph(graph)
    return graph
