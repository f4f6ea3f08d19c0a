"""Which operator set version a graph can be written in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING
from functools import cache
from typing import Any

from onnx import defs

from intaglio.errors import UnsupportedError
from intaglio.ir.dtype import DType
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.op import Op
from intaglio.ir.types import OptionalType, SequenceType, TensorType, Type
from intaglio.onnx.adapters import find_adapter
from intaglio.onnx.schema import NEWEST, Schema

USUAL_OPSET = 17
"""What is written where the graph would allow an older one: runtimes have dropped the oldest versions."""

_ELEMENTS = {"float32": "float", "float64": "double"}


def minimal_opsets(graph: Graph) -> dict[str, int]:
    """For each domain the lowest version in which every operator of the graph means what it means here."""
    versions: dict[str, int] = {}
    for node in graph.all_nodes():
        domain = node.op.domain
        versions[domain] = max(versions.get(domain, 1), minimal_version(node))
    return versions


def target_opsets(graph: Graph, opset: int | None) -> dict[str, int]:
    """The versions to write; raises UnsupportedError naming the operators that `opset` does not have."""
    lowest = {"": 1, **minimal_opsets(graph)}
    if opset is None:
        return {**lowest, "": max(lowest[""], USUAL_OPSET)}
    if opset > NEWEST[""]:
        raise UnsupportedError(f"opset {opset} is not known; the newest is {NEWEST['']}")
    if lowest[""] > opset:
        needed = {node.op.name: minimal_version(node) for node in graph.all_nodes() if node.op.domain == ""}
        newer = sorted(f"{name} ({version})" for name, version in needed.items() if version > opset)
        raise UnsupportedError(f"opset {opset} is too old for {', '.join(newer)}")
    return {**lowest, "": opset}


def minimal_version(node: Node) -> int:
    """The lowest version of its domain whose schema takes the node as it is."""
    lowest: int | None = None
    for schema in versions(node.op.domain, node.op.name):
        if schema.deprecated:
            continue
        if lowest is not None and not is_same_meaning(schema, node):
            break
        lowest = schema.since_version
    return lowest or 1


@cache
def versions(domain: str, name: str) -> tuple[Schema, ...]:
    """All schemas of an operator, newest first."""
    found = [s for s in _history() if s.name == name and s.domain == domain]
    return tuple(sorted(found, key=lambda schema: -schema.since_version))


@cache
def _history() -> tuple[Schema, ...]:
    return tuple(defs.get_all_schemas_with_history())


def is_same_meaning(schema: Schema, node: Node) -> bool:
    """Whether an older version takes this node's inputs and attributes and means the same."""
    if find_adapter(schema.domain, schema.name, schema.since_version) is not None:
        return False
    is_fitting = schema.min_input <= len(node.inputs) <= schema.max_input and len(node.outputs) <= schema.max_output
    given = given_attributes(node.op).keys()
    needed = {name for name, attribute in schema.attributes.items() if attribute.required}
    return is_fitting and needed <= given <= set(schema.attributes) and _takes_types(schema, node)


def given_attributes(op: Op) -> dict[str, Any]:
    """The attributes that differ from their defaults."""
    values = {attribute.name: (getattr(op, attribute.name), attribute.default) for attribute in op.attributes()}
    return {name: v for name, (v, default) in values.items() if v is not None and (default is MISSING or v != default)}


def _takes_types(schema: Schema, node: Node) -> bool:
    allowed = {constraint.type_param_str: constraint.allowed_type_strs for constraint in schema.type_constraints}
    for formal, value in _with_formals(schema, node):
        known = allowed.get(formal.type_str)
        text = type_text(value.type)
        if (text not in known) if known is not None else (text != formal.type_str):
            return False
    return True


def _with_formals(schema: Schema, node: Node) -> Iterator[tuple[Any, Value]]:
    for values, formals in ((node.inputs, schema.inputs), (node.outputs, schema.outputs)):
        for position, value in enumerate(values):
            if value is not None and formals:
                yield formals[min(position, len(formals) - 1)], value


def type_text(type: Type) -> str:
    """A type as schemas spell it: `tensor(float)`, `seq(tensor(int64))`."""
    if isinstance(type, TensorType):
        return f"tensor({_element(type.dtype)})"
    if isinstance(type, SequenceType):
        return f"seq({type_text(type.element)})"
    if isinstance(type, OptionalType):
        return f"optional({type_text(type.element)})"
    return f"map({_element(type.key)}, {type_text(type.value)})"


def _element(dtype: DType) -> str:
    return _ELEMENTS.get(dtype.name, dtype.name)
