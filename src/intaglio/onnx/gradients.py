"""The operator Gradient of ai.onnx.preview.training: ordinary nodes that differentiate the graph around it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from intaglio.autodiff import gradients
from intaglio.errors import LoadError, UnsupportedError
from intaglio.ir.build import Builder
from intaglio.ir.graph import Graph, Node, Value
from intaglio.onnx.protobuf import shorten
from intaglio.onnx.scope import Broken, Scope
from intaglio.ops.training import Gradient


def differentiate(op: Gradient, inputs: Sequence[Value | None], scope: Scope, builder: Builder) -> list[Value] | None:
    """The derivatives of the tensor `y` by the tensors `xs`, at the values that the inputs give for `xs` and `zs`.

    None where one of the tensors could not be read.
    """
    names = (*op.xs, *(op.zs or ()))
    found = [scope.find(name) for name in (*names, op.y)]
    values = [value for value in found if isinstance(value, Value)]
    if any(isinstance(value, Broken) for value in found):
        return None
    given = [value for value in inputs if value is not None]
    if len(values) != len(found) or len(given) != len(names):
        raise LoadError(f"has {len(given)} inputs for the {len(names)} tensors {shorten(', '.join(names))}")
    *variables, y = values
    if given != variables:
        y = _computed_from(builder, y, dict(zip(variables, given, strict=True)))
    return gradients(scope.graph, y, given[: len(op.xs)], builder=builder)


def _computed_from(b: Builder, y: Value, replaced: dict[Value, Value]) -> Value:
    """The value as it is computed from others in place of some: a copy of the nodes in between."""
    copies = dict(replaced)
    for node in list(_nodes_before(b.graph, y)):
        if copies.keys().isdisjoint(value for value in (*node.inputs, *node.captures()) if value is not None):
            continue
        if copies.keys() >= set(node.outputs):
            continue
        if any(node.op.subgraphs()):
            raise UnsupportedError(f"the derivative at other values through {node.op.name} is not supported")
        inputs = [None if value is None else copies.get(value, value) for value in node.inputs]
        results = b.add(node.op, inputs, len(node.outputs))
        for value, copy in zip(node.outputs, results, strict=True):
            copies.setdefault(value, copy)
    return copies.get(y, y)


def _nodes_before(graph: Graph, y: Value) -> Iterator[Node]:
    """The nodes of a graph up to the one that computes a value."""
    for node in graph.nodes:
        yield node
        if node is y.producer:
            return
