"""What a test knows to be there although its type allows that it is missing; the test fails where it is not."""

from __future__ import annotations

from typing import Any

from intaglio.ir.graph import Array, Graph, Node, Value
from intaglio.ir.op import OPERATORS
from intaglio.ir.types import TensorType, Type
from intaglio.targets.c.compiler import Compiler, find_compiler


def compiler() -> Compiler:
    """The compiler of this machine."""
    found = find_compiler()
    assert found is not None, "no C compiler was found"
    return found


def producer(value: Value) -> Node:
    """The node that computes the value."""
    assert value.producer is not None, f"no node computes {value.name}"
    return value.producer


def last_node(graph: Graph) -> Node:
    """The node at the end of the graph."""
    assert graph.last is not None, f"{graph.name} has no nodes"
    return graph.last


def contents(value: Value) -> Any:
    """The elements of a tensor of sizes, as lists, or as a number where it has no axes."""
    assert value.contents is not None, f"the contents of {value.name} are not known"
    return value.contents.tolist()


def constant(value: Value) -> Array:
    """The array that the value is."""
    assert value.constant is not None, f"{value.name} is no constant"
    return value.constant


def tensor(type: Type | None) -> TensorType:
    """The type, which is a tensor's."""
    assert isinstance(type, TensorType), f"{type} is no tensor"
    return type


def operator(name: str, domain: str = "", **attributes: Any) -> Any:
    """An operator of the table, of which a type checker knows neither the attributes nor what it computes."""
    kind: Any = OPERATORS[(domain, name)]
    return kind(**attributes)
