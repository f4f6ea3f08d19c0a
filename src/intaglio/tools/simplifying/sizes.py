"""Other sizes for the inputs of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from intaglio.errors import GraphError, InputError
from intaglio.ir.dim import Dim, lone_atom, symbols
from intaglio.ir.graph import Graph
from intaglio.ir.resize import rewrite_sizes, type_symbols
from intaglio.ir.substitution import substitute
from intaglio.ir.types import TensorType
from intaglio.passes.driver import infer_graph


def set_sizes(graph: Graph, dims: Mapping[str, int], shapes: Mapping[str, Sequence[int]]) -> Graph:
    """The graph with numbers for sizes that have names, and with other shapes of inputs; it is changed in place.

    Raises InputError for a name that is not there and for a shape that does not fit.
    """
    if not dims and not shapes:
        return graph
    named = {name for value in graph.inputs for name in type_symbols(value.type)}
    unknown = sorted(dims.keys() - named)
    if unknown:
        raise InputError(f"there is no dimension {unknown[0]!r}; the dimensions are {sorted(named) or 'all numbers'}")
    _set(graph, dims, shapes)
    return graph


def _set(graph: Graph, dims: Mapping[str, int], shapes: Mapping[str, Sequence[int]]) -> None:
    inputs, known = {value.name: value for value in graph.inputs}, dict[str, Dim](dims)
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
    try:
        infer_graph(graph)
    except GraphError as error:
        raise InputError(f"the model does not take these sizes: {error}") from None
