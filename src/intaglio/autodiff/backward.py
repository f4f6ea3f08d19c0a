"""Backward passes for plain graphs."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from intaglio.autodiff.reverse import gradients
from intaglio.errors import InputError
from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol, symbols
from intaglio.ir.graph import Graph, Value
from intaglio.ir.resize import type_symbols


def add_backward(
    graph: Graph, of: Value | str, wrt: Sequence[Value | str], *, straight_through: bool = False
) -> dict[str, Value]:
    """Add to a graph the gradients of a value by others, as further outputs, and return them by the others' names.

    Values are given as such or by name. Each gradient is named like its value with `.gradient` behind.
    """
    values = [_find(graph, each) for each in wrt]
    found = gradients(graph, _find(graph, of), values, straight_through=straight_through)
    for value, gradient in zip(values, found, strict=True):
        if gradient.producer is not None and not gradient.is_output:
            gradient.name = graph.unique_name(f"{value.name}.gradient")
    graph.set_outputs([*graph.outputs, *found])
    return {value.name: gradient for value, gradient in zip(values, found, strict=True)}


def input_like(b: Builder, name: str, value: Value) -> Value:
    """A further input of the builder's graph with a number for each element of a value.

    Sizes that the value has of data get names of their own: an input would bind them before the data is there.
    """
    known = set[str]().union(*(type_symbols(each.type) for each in b.graph.inputs))
    shape = value.tensor.shape
    if shape is None or all(symbols(size) <= known for size in shape):
        return b.graph.add_input(name, value.type)
    sizes = (s if symbols(s) <= known else symbol(f"{name}.{i}") for i, s in enumerate(shape))
    given = b.graph.add_input(name, value.tensor.with_shape(tuple(sizes)))
    return b.Reshape(given, b.Shape(value), allowzero=1)


def _find(graph: Graph, wanted: Value | str) -> Value:
    if isinstance(wanted, Value):
        return wanted
    known = {value.name: value for value in (*graph.constants(), *graph.values(), *graph.outputs)}
    if wanted not in known:
        near = get_close_matches(wanted, known, 3)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"it has {', '.join(map(repr, known))}"
        raise InputError(f"the graph has no value {wanted!r}; {hint}")
    return known[wanted]
