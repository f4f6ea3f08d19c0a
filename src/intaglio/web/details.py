"""What panels say about one node or one value."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from onnx import AttributeProto, TensorProto, ValueInfoProto

from intaglio.errors import InputError, LoadError
from intaglio.ir.origin import Origin
from intaglio.onnx.schema_objects import Default, ParameterSchema, Schema
from intaglio.tools.diffing.difference import attribute_text
from intaglio.tools.document import Document, Graph, Node
from intaglio.tools.document.weights import Weights, stored_bytes
from intaglio.tools.drawing.picture import is_constant, tensor_type
from intaglio.tools.editing.names import did_you_mean, find_node
from intaglio.tools.editing.types import type_text
from intaglio.web.structure import find_schema, stated_types

MOST_TEXT = 20_000
"""Characters of one text of the model that a panel is sent."""
Types = Mapping[str, ValueInfoProto]
Json = dict[str, Any]


def node_details(document: Document, number: int, types: Types) -> Json:
    """A node with its attributes, inputs and outputs, beside what its operator's schema says; raises InputError."""
    node, _ = find_node(document, number)
    shell = node.shell
    known = find_schema(document, shell.domain, shell.op_type)
    metadata = {entry.key: entry.value[:MOST_TEXT] for entry in shell.metadata_props}
    scopes = [scope.name for scope in Origin(node.name, node.operator, metadata=metadata).scopes]
    return {
        "id": number,
        "name": node.name[:MOST_TEXT],
        "op": shell.op_type,
        "domain": shell.domain,
        "overload": shell.overload,
        "since": None if known is None else known.since_version,
        "doc": shell.doc_string[:MOST_TEXT],
        "description": "" if known is None else known.doc,
        "attributes": _attributes(node, known),
        "inputs": _ends(node.inputs, () if known is None else known.inputs, types),
        "outputs": _ends(node.outputs, () if known is None else known.outputs, types),
        "origin": {"scope": "/".join(scopes), "operator": node.operator},
        "metadata": metadata,
    }


def _attributes(node: Node, known: Schema | None) -> list[Json]:
    """The attributes of a node, those that only its schema has included."""
    schemas = {} if known is None else {each.name: each for each in known.attributes}
    found: list[Json] = []
    for attribute in node.attributes:
        described = schemas.pop(attribute.name, None)
        value = "" if attribute.bodies() else attribute_text(attribute.shell)
        found.append({
            "name": attribute.name[:MOST_TEXT],
            "kind": AttributeProto.AttributeType.Name(attribute.shell.type),
            "value": value,
            **_full(attribute.shell, value),
            "default": None if described is None else _default(described.default),
            "doc": "" if described is None else described.doc,
            "required": described is not None and described.is_required,
            "set": True,
        })  # fmt: skip
    for name, described in schemas.items():
        found.append({
            "name": name, "kind": described.type, "value": None, "default": _default(described.default),
            "doc": described.doc, "required": described.is_required, "set": False,
        })  # fmt: skip
    return found


def _default(value: Default) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _full(attribute: AttributeProto, shown: str) -> Json:
    """The whole value as JSON and as text, where it is a number, a text or a list of them that is not too long."""
    kinds = AttributeProto.AttributeType
    value: Any = None
    match attribute.type:
        case kinds.INT:
            value = attribute.i
        case kinds.FLOAT:
            value = _number(attribute.f)
        case kinds.STRING:
            value = attribute.s.decode(errors="replace")[:MOST_TEXT]
        case kinds.INTS:
            value = list(attribute.ints[:MOST_TEXT])
        case kinds.FLOATS:
            value = [_number(each) for each in attribute.floats[:MOST_TEXT]]
        case kinds.STRINGS:
            value = [each.decode(errors="replace")[:200] for each in attribute.strings[:1000]]
        case _:
            pass
    if value is None:
        return {}
    text = value if isinstance(value, str) else json.dumps(value)
    return {"json": value, **({"full": text} if len(text) > len(shown) else {})}


def _number(value: float) -> float | str:
    """A number as JSON can spell it: what is not finite is text."""
    return float(f"{value:.9g}") if np.isfinite(value) else str(value)


def _ends(names: Iterable[str], schemas: tuple[ParameterSchema, ...], types: Types) -> list[Json]:
    found: list[Json] = []
    for place, name in enumerate(names):
        described = schemas[min(place, len(schemas) - 1)] if schemas else None
        if described is not None and place >= len(schemas) and described.kind != "variadic":
            described = None
        found.append({
            "name": described.name if described is not None else str(place),
            "value": name[:MOST_TEXT],
            "type": _type_of(name, types),
            "doc": described.doc if described is not None else "",
            "kind": described.kind if described is not None else "",
        })  # fmt: skip
    return found


def _type_of(name: str, types: Types) -> str:
    text = type_text(types.get(name))
    return "" if text == "unknown" else text


def value_details(document: Document, name: str, types: Types) -> Json:
    """A value: its type, who makes it and who reads it; raises InputError for a name that is not there."""
    makers, readers, graph = _uses(document, name)
    tensor = find_tensor(document, name)
    inputs = {info.name for info in document.graph.inputs}
    outputs = {info.name for info in document.graph.outputs}
    if not makers and not readers and tensor is None and name not in inputs | outputs:
        known = [*inputs, *outputs, *(each.name for each in document.graph.initializers)]
        raise InputError(f"there is no value {name[:200]!r}{did_you_mean(name, known)}")
    kind = "output" if name in outputs else "input" if name in inputs else "intermediate"
    if tensor is not None:
        kind = "constant" if makers else "initializer"
    stated = stated_types(document.graph if graph is None else graph).get(name)
    found: Json = {
        "name": name[:MOST_TEXT],
        "kind": kind,
        "type": _type_of(name, types) or _stated(stated),
        "declared": _stated(stated),
        "inferred": _type_of(name, types),
        "shape": [] if stated is None else sizes_of(types.get(name, stated)),
        "maker": makers[0] if makers else None,
        "readers": readers[:1000],
        "bytes": 0,
        "elements": 0,
        "doc": (stated.doc_string if stated is not None else "")[:MOST_TEXT],
    }
    if tensor is not None:
        found |= {"type": tensor_type(tensor), **tensor_size(tensor)}
    return found


def tensor_size(tensor: TensorProto) -> Json:
    """The bytes and elements that a stored tensor says it has."""
    elements = 1
    for size in tensor.dims:
        elements *= max(0, size)
    try:
        return {"bytes": stored_bytes(tensor), "elements": elements}
    except (LoadError, ValueError, MemoryError, NotImplementedError):
        return {"bytes": 0, "elements": elements}


def _stated(info: ValueInfoProto | None) -> str:
    text = type_text(info)
    return "" if text == "unknown" else text


def sizes_of(info: ValueInfoProto) -> list[int | str]:
    """The sizes of a tensor's type; names and `?` where they are no numbers."""
    shape = info.type.tensor_type.shape
    return [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in shape.dim]


def _uses(document: Document, name: str) -> tuple[list[int], list[int], Graph | None]:
    """The nodes that make a value and those that read it, in whatever graph."""
    makers: list[int] = []
    readers: list[int] = []
    found: Graph | None = None
    for graph in document.graph.all_graphs():
        for node in graph.nodes:
            if name in node.shell.output:
                makers.append(node.number)
                found = found or graph
            if name in node.shell.input:
                readers.append(node.number)
    return makers, readers, found


def find_tensor(document: Document, name: str) -> TensorProto | None:
    """The constant of a name: an initializer of any graph, or the value of a Constant node."""
    for graph in document.graph.all_graphs():
        for tensor in graph.initializers:
            if tensor.name == name:
                return tensor
        for node in graph.nodes:
            if name in node.shell.output and is_constant(node):
                attribute = node.attribute("value")
                return None if attribute is None else attribute.shell.t
    return None


def tensor_array(document: Document, name: str) -> np.ndarray[Any, Any]:
    """The elements of a constant; raises InputError where there is none, LoadError where its data cannot be read."""
    tensor = find_tensor(document, name)
    if tensor is not None:
        return Weights(document).array(tensor)
    for graph in document.graph.all_graphs():
        for node in graph.nodes:
            if name in node.shell.output and is_constant(node):
                return _plain_constant(node)
    raise InputError(f"{name[:200]!r} is no constant of the file; a run shows what it is")


def _plain_constant(node: Node) -> np.ndarray[Any, Any]:
    """What a Constant node says without a tensor."""
    for attribute in node.attributes:
        shell = attribute.shell
        match attribute.name:
            case "value_int":
                return np.array(shell.i, np.int64)
            case "value_ints":
                return np.array(list(shell.ints), np.int64)
            case "value_float":
                return np.array(shell.f, np.float32)
            case "value_floats":
                return np.array(list(shell.floats), np.float32)
            case "value_string":
                return np.array(shell.s.decode(errors="replace"), object)
            case "value_strings":
                return np.array([each.decode(errors="replace") for each in shell.strings], object)
            case _:
                continue
    raise InputError("the constant has no value that can be shown")
