"""Nodes under other names: values, and everything in bodies that means the same."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import AttributeProto

from intaglio.tools.document.parts import Attribute, Graph, Node, Numbers, copied
from intaglio.tools.editing.names import defined
from intaglio.tools.editing.selection import FreshNames


def copied_node(node: Node, numbers: Numbers, names: Mapping[str, str], fresh: FreshNames) -> Node:
    """A new node like another one that reads and makes values under other names; bodies follow.

    What bodies define gets names that the document does not have, so that nothing hides anything.
    """
    new = Node.read(node.message(), numbers)
    for body in new.bodies():
        _rename_inside(body, fresh)
    rename_node(new, names)
    return new


def _rename_inside(graph: Graph, fresh: FreshNames) -> None:
    names = {name: fresh.take(name) for name in sorted(defined(graph))}
    for info in (*graph.inputs, *graph.outputs, *graph.infos, *graph.initializers):
        info.name = names.get(info.name, info.name)
    for sparse in graph.sparse_initializers:
        sparse.values.name = names.get(sparse.values.name, sparse.values.name)
    for node in graph.nodes:
        for body in node.bodies():
            _rename_inside(body, fresh)
        rename_node(node, names)


def rename_node(node: Node, names: Mapping[str, str]) -> None:
    """Rename in place what a node reads and makes, and what its bodies take from outside. Only for new nodes."""
    node.shell.input[:] = [names.get(name, name) for name in node.shell.input]
    node.shell.output[:] = [names.get(name, name) for name in node.shell.output]
    for body in node.bodies():
        rename_graph(body, names)


def rename_graph(graph: Graph, names: Mapping[str, str]) -> None:
    """Rename in place what a new body takes from outside; what it defines itself stays."""
    own = defined(graph)
    seen = {old: new for old, new in names.items() if old not in own}
    for node in graph.nodes:
        rename_node(node, seen)
    for info in graph.outputs:
        info.name = seen.get(info.name, info.name)


def bind_attributes(node: Node, given: Mapping[str, AttributeProto], numbers: Numbers) -> None:
    """Put what the caller of a function gives in place of references to its attributes; what it does not give goes.

    Works in place, bodies included, on nodes that are new.
    """
    bound: list[Attribute] = []
    for attribute in node.attributes:
        reference = attribute.shell.ref_attr_name
        if not reference:
            bound.append(attribute)
        elif reference in given:
            value = copied(given[reference])
            value.name = attribute.name
            bound.append(Attribute.read(value, numbers))
    node.attributes[:] = bound
    for body in node.bodies():
        for inner in body.nodes:
            bind_attributes(inner, given, numbers)
