"""Backward passes for plain graphs."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from intaglio.autodiff.reverse import gradients
from intaglio.errors import InputError
from intaglio.ir.graph import Graph, Value


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


def _find(graph: Graph, wanted: Value | str) -> Value:
    if isinstance(wanted, Value):
        return wanted
    known = {value.name: value for value in (*graph.constants(), *graph.values(), *graph.outputs)}
    if wanted not in known:
        near = get_close_matches(wanted, known, 3)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"it has {', '.join(map(repr, known))}"
        raise InputError(f"the graph has no value {wanted!r}; {hint}")
    return known[wanted]
