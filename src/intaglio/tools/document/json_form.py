"""A document as JSON and back: structure, attributes and types, with a number for every node.

What has no form of its own here, such as quantization annotations, stands as protobuf spells it in JSON, under `other`
or `proto`. So nothing is lost but fields that this version of `onnx` does not know.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from google.protobuf import json_format
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
)

from intaglio.errors import LoadError
from intaglio.ir.dtype import DTYPES, NUMBERED
from intaglio.tools.document.parts import Attribute, Document, Function, Graph, Node, Numbers, copied

FORMAT = "intaglio-graph"
VERSION = 1

_LISTED = 1024
"""Tensors of at most so many elements are lists of numbers; others are base64."""

_KINDS = AttributeProto.AttributeType
_FIELDS = {
    _KINDS.FLOAT: "f", _KINDS.INT: "i", _KINDS.STRING: "s", _KINDS.TENSOR: "t", _KINDS.TYPE_PROTO: "tp",
    _KINDS.SPARSE_TENSOR: "sparse_tensor", _KINDS.FLOATS: "floats", _KINDS.INTS: "ints", _KINDS.STRINGS: "strings",
    _KINDS.TENSORS: "tensors", _KINDS.SPARSE_TENSORS: "sparse_tensors", _KINDS.TYPE_PROTOS: "type_protos",
}  # fmt: skip

Json = dict[str, Any]


def document_to_json(document: Document) -> Json:
    """A document as what `json.dumps` takes. Weights that are in the file are in it: strip the document to have none.

    `id` of a node is its number in the document.
    """
    tensors = list(document.message().graph.initializer) if document.held else None
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": _to_dict(document.shell),
        "graph": _graph(document.graph, tensors) if document.has_graph else None,
        "functions": [_function(each) for each in document.functions],
    }


def document_from_json(data: Any) -> Document:
    """The document that `document_to_json` spelled; raises LoadError for anything else. Nodes keep their numbers."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise LoadError(f"the JSON is no graph of ours: expected an object with the format {FORMAT!r}")
    if data.get("version") != VERSION:
        raise LoadError(f"the JSON is of version {data.get('version')!r}, and only {VERSION} is known")
    try:
        graph = _read_graph(data["graph"]) if data["graph"] is not None else Graph(GraphProto())
        functions = [_read_function(each) for each in data["functions"]]
        document = Document(_from_dict(data["model"], ModelProto()), graph, functions, Numbers())
    except (KeyError, TypeError, ValueError, AttributeError, json_format.ParseError) as error:
        raise LoadError(f"the JSON is no graph of ours: {type(error).__name__}: {error}") from None
    document.has_graph = data["graph"] is not None
    _renumber(document)
    return document


def _renumber(document: Document) -> None:
    """Let new nodes get numbers behind those that are taken; nodes without one get a new one."""
    nodes = list(document.all_nodes())
    taken = {node.number for node in nodes}
    for _ in range(max(taken, default=-1) + 1):
        document.numbers.take()
    for node in nodes:
        if node.number < 0:
            node.number = document.numbers.take()


def _to_dict(message: Any) -> Json:
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def _from_dict(data: Mapping[str, Any], message: Any) -> Any:
    return json_format.ParseDict(dict(data), message)


def _checked(message: Any, spell: Callable[[Any], Json], read: Callable[[Json], Any]) -> Json:
    """A message in its own form, where that says all of it, else in protobuf's."""
    try:
        data = spell(message)
        if read(data) == message:
            return data
    except (KeyError, ValueError, TypeError):
        pass
    return {"proto": _to_dict(message)}


def _rest(message: Any, *fields: str) -> Json:
    """What a message has besides some fields, under `other`; nothing where it has no more."""
    rest = copied(message)
    for field in fields:
        rest.ClearField(field)
    found = _to_dict(rest)
    return {"other": found} if found else {}


def _graph(graph: Graph, tensors: list[TensorProto] | None = None) -> Json:
    return {
        "name": graph.shell.name,
        **_rest(graph.shell, "name"),
        "inputs": [_info(each) for each in graph.inputs],
        "outputs": [_info(each) for each in graph.outputs],
        "nodes": [_node(each) for each in graph.nodes],
        "initializers": [_tensor(each) for each in (graph.initializers if tensors is None else tensors)],
        "sparse_initializers": [{"proto": _to_dict(each)} for each in graph.sparse_initializers],
        "values": [_info(each) for each in graph.infos],
    }


def _read_graph(data: Json) -> Graph:
    shell = _from_dict(data.get("other", {}), GraphProto())
    if data["name"]:
        shell.name = data["name"]
    return Graph(
        shell,
        [_read_node(each) for each in data["nodes"]],
        [_read_info(each) for each in data["inputs"]],
        [_read_info(each) for each in data["outputs"]],
        [_read_info(each) for each in data["values"]],
        [_read_tensor(each) for each in data["initializers"]],
        [_from_dict(each["proto"], SparseTensorProto()) for each in data["sparse_initializers"]],
    )


def _function(function: Function) -> Json:
    return {"function": _to_dict(function.shell), "nodes": [_node(each) for each in function.nodes]}


def _read_function(data: Json) -> Function:
    return Function(_from_dict(data["function"], FunctionProto()), [_read_node(each) for each in data["nodes"]])


_NODE_FIELDS = {"name": "name", "operator": "op_type", "domain": "domain", "overload": "overload"}


def _node(node: Node) -> Json:
    texts = {key: getattr(node.shell, field) for key, field in _NODE_FIELDS.items() if node.shell.HasField(field)}
    return {
        "id": node.number,
        **texts,
        "inputs": node.inputs,
        "outputs": node.outputs,
        "attributes": [_attribute(each) for each in node.attributes],
        **_rest(node.shell, "input", "output", *_NODE_FIELDS.values()),
    }


def _read_node(data: Json) -> Node:
    shell = _from_dict(data.get("other", {}), NodeProto())
    for key, field in _NODE_FIELDS.items():
        if key in data:
            setattr(shell, field, data[key])
    shell.input[:], shell.output[:] = data["inputs"], data["outputs"]
    return Node(int(data.get("id", -1)), shell, [_read_attribute(each) for each in data["attributes"]])


def _attribute(attribute: Attribute) -> Json:
    if attribute.graph is None and not attribute.graphs:
        return _checked(attribute.shell, _plain_attribute, _read_plain_attribute)
    graphs = [] if attribute.graph is None else [_graph(attribute.graph)]
    return {
        "name": attribute.name,
        "attribute": _to_dict(attribute.shell),
        "graph": graphs,
        "graphs": [_graph(each) for each in attribute.graphs],
    }


def _read_attribute(data: Json) -> Attribute:
    if "attribute" not in data:
        return Attribute(_read_plain_attribute(data))
    graph = _read_graph(data["graph"][0]) if data["graph"] else None
    shell = _from_dict(data["attribute"], AttributeProto())
    return Attribute(shell, graph, [_read_graph(each) for each in data["graphs"]])


def _plain_attribute(message: AttributeProto) -> Json:
    field = _FIELDS[message.type]
    value = getattr(message, field)
    is_list = field.endswith("s") and len(field) > 1
    spelled = [_spell(each) for each in value] if is_list else _spell(value)
    return {"name": message.name, "type": _KINDS.Name(message.type), "value": spelled}


def _read_plain_attribute(data: Json) -> AttributeProto:
    if "proto" in data:
        return _from_dict(data["proto"], AttributeProto())
    message = AttributeProto(name=data["name"], type=data["type"])
    field, value = _FIELDS[message.type], data["value"]
    if isinstance(value, list):
        for each in value:
            _put(message, field, each)
    else:
        _put(message, field, value)
    return message


def _put(message: AttributeProto, field: str, value: Any) -> None:
    """Set a field, or add to it where it is a list."""
    read = _unspell(field, value)
    if field in ("f", "i", "s"):
        setattr(message, field, read)
    elif field in ("t", "tp", "sparse_tensor"):
        getattr(message, field).CopyFrom(read)
    else:
        getattr(message, field).append(read)


def _spell(value: Any) -> Any:
    if isinstance(value, bytes):
        text = value.decode("utf-8", "surrogateescape")
        return text if text.isprintable() else {"base64": base64.b64encode(value).decode()}
    if isinstance(value, TensorProto):
        return _tensor(value)
    if isinstance(value, float):
        return _number(value)
    return value if isinstance(value, int) else {"proto": _to_dict(value)}


def _unspell(field: str, value: Any) -> Any:
    if field.startswith("t") and not field.startswith(("tp", "type")):
        return _read_tensor(value)
    if field.startswith(("tp", "type")):
        return _from_dict(value["proto"], TypeProto())
    if field.startswith("sparse"):
        return _from_dict(value["proto"], SparseTensorProto())
    if isinstance(value, dict):
        return base64.b64decode(value["base64"])
    return value.encode() if field in ("s", "strings") else float(value) if field in ("f", "floats") else int(value)


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _info(info: ValueInfoProto) -> Json:
    return _checked(info, _plain_info, _read_info)


def _plain_info(info: ValueInfoProto) -> Json:
    data: Json = {"name": info.name}
    if info.HasField("type"):
        data["type"] = _checked(info.type, _type, _read_type)
    return data | _rest(info, "name", "type")


def _read_info(data: Json) -> ValueInfoProto:
    if "proto" in data:
        return _from_dict(data["proto"], ValueInfoProto())
    info = _from_dict(data.get("other", {}), ValueInfoProto())
    info.name = data["name"]
    if "type" in data:
        info.type.CopyFrom(_read_type(data["type"]))
    return info


def _type(proto: TypeProto) -> Json:
    tensor = proto.tensor_type
    data: Json = {"tensor": NUMBERED[tensor.elem_type].name}
    if tensor.HasField("shape"):
        data["shape"] = [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim]
    return data


def _read_type(data: Json) -> TypeProto:
    if "proto" in data:
        return _from_dict(data["proto"], TypeProto())
    proto = TypeProto()
    proto.tensor_type.elem_type = DTYPES[data["tensor"]].number
    if "shape" in data:
        proto.tensor_type.shape.SetInParent()
        for size in data["shape"]:
            dimension = proto.tensor_type.shape.dim.add()
            if isinstance(size, str):
                dimension.dim_param = size
            elif size is not None:
                dimension.dim_value = size
    return proto


def _tensor(tensor: TensorProto) -> Json:
    return _checked(tensor, _plain_tensor, _read_tensor)


def _plain_tensor(tensor: TensorProto) -> Json:
    dtype = NUMBERED[tensor.data_type]
    data: Json = {"name": tensor.name, "dtype": dtype.name, "shape": list(tensor.dims)}
    if tensor.data_location == TensorProto.EXTERNAL:
        return data | {"external": {entry.key: entry.value for entry in tensor.external_data}}
    raw = tensor.raw_data
    if math.prod(tensor.dims) <= _LISTED and dtype.bits >= 8 and not dtype.is_narrow and dtype.kind != "complex":
        array = np.frombuffer(raw, dtype.numpy.newbyteorder("<"))
        return data | {"data": [_number(each) if isinstance(each, float) else each for each in array.tolist()]}
    return data | {"base64": base64.b64encode(raw).decode()}


def _read_tensor(data: Json) -> TensorProto:
    if "proto" in data:
        return _from_dict(data["proto"], TensorProto())
    dtype = DTYPES[data["dtype"]]
    tensor = TensorProto(data_type=dtype.number, dims=data["shape"])
    if data["name"]:
        tensor.name = data["name"]
    if "external" in data:
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in data["external"].items():
            tensor.external_data.add(key=key, value=value)
    elif "data" in data:
        numbers = [float(each) if isinstance(each, str) else each for each in data["data"]]
        tensor.raw_data = np.array(numbers, dtype.numpy.newbyteorder("<")).tobytes()
    else:
        tensor.raw_data = base64.b64decode(data["base64"])
    return tensor
