"""Writing a graph as an ONNX model: `write_model` as a message, `save_model` as files."""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, helper

from intaglio.errors import InputError, LimitError, UnsupportedError
from intaglio.ir.clone import clone_with_values
from intaglio.ir.expand import expand_in_place, expand_until
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.op import Tensor
from intaglio.ir.types import MapType, OptionalType, SequenceType, TensorType
from intaglio.onnx.mapped import check_files
from intaglio.onnx.opsets import given_attributes, target_opsets
from intaglio.onnx.protobuf import shorten
from intaglio.onnx.reader import ModelInfo
from intaglio.onnx.schema import find_schema
from intaglio.onnx.wire import joined_model
from intaglio.onnx.write_tensors import ExternalTensorWriter, HeldTensorWriter, TensorWriter, stored_size
from intaglio.onnx.write_types import type_proto

MESSAGE_LIMIT = 2**31 - 1
"""Protobuf cannot hold larger messages."""

_ALWAYS_INLINE = 1024
"""With `external_data=True` smaller tensors stay in the model file."""

_LEAST_IR_VERSION = 8

OWN_DOMAIN = "intaglio"
"""The domain of operators that only Intaglio knows."""

_KINDS = AttributeProto.AttributeType


def write_model(graph: Graph, info: ModelInfo | None = None, *, opset: int | None = None) -> ModelProto:
    """The graph as a message: at the lowest operator set version that has its operators, or at `opset`.

    Raises LimitError where the weights do not fit in one message: `save_model` puts them in a file of their own.
    """
    graph = _in_onnx_operators(graph)
    size = stored_bytes(graph)
    if size > MESSAGE_LIMIT:
        raise LimitError(_too_large(size))
    return _GraphWriter(TensorWriter()).model(graph, info, opset)


def write_structure(graph: Graph, info: ModelInfo | None = None, *, opset: int | None = None) -> ModelProto:
    """The graph as a message in which the data of large weights is left out."""
    return _GraphWriter(HeldTensorWriter()).model(_in_onnx_operators(graph), info, opset)


def _too_large(size: int) -> str:
    return f"the model's tensors take {size} bytes, more than a message can hold: use external data"


def _write_whole(
    graph: Graph,
    target: Path,
    info: ModelInfo | None,
    opset: int | None,
    finish: Callable[[ModelProto], None] | None,
) -> None:
    """Write one file, into which large weights go one after the other."""
    tensors = HeldTensorWriter()
    model = _GraphWriter(tensors).model(graph, info, opset)
    if finish is not None:
        finish(model)
    pieces = joined_model(_serialize(model), tensors.data_of)
    if sum(map(len, pieces)) > MESSAGE_LIMIT:
        raise LimitError(_too_large(sum(map(len, pieces))))
    with temporary_file(target) as (file, keep):
        for piece in pieces:
            file.write(piece)
        keep()


def save_model(
    graph: Graph,
    path: str | os.PathLike[str],
    info: ModelInfo | None = None,
    *,
    opset: int | None = None,
    external_data: bool | int | None = None,
    finish: Callable[[ModelProto], None] | None = None,
) -> None:
    """Write the graph to a file that appears at once or not at all; `finish` may change the message before.

    `external_data` moves tensors to `<name>.data` beside it: True all but small ones, a number those of at least so
    many bytes, None only where the model would be too large for one file. A symbolic link in the way is refused.
    """
    target = Path(path)
    graph = _in_onnx_operators(graph)
    threshold = _threshold(graph, external_data)
    if threshold is None:
        check_target(target)
        if stored_bytes(graph) > MESSAGE_LIMIT:
            raise LimitError(_too_large(stored_bytes(graph)))
        _write_whole(graph, target, info, opset, finish)
        return
    data_target = target.with_name(target.name + ".data")
    check_target(target)
    check_target(data_target)
    with temporary_file(data_target) as (file, keep):
        tensors = ExternalTensorWriter(file, data_target.name, threshold)
        model = _GraphWriter(tensors).model(graph, info, opset)
        if finish is not None:
            finish(model)
        message = _serialize(model)
        if tensors.is_used:
            keep()
    _write_atomically(target, message)


def _in_onnx_operators(graph: Graph) -> Graph:
    """The graph, or a copy of it, in which operators of our own that others do not know are expanded."""

    def is_known(node: Node) -> bool:
        return node.op.domain != OWN_DOMAIN or not node.op.has("expand")

    if all(map(is_known, graph.all_nodes())):
        return graph
    copy = clone_with_values(graph)[0]
    expand_until(copy, is_known, expand=expand_in_place, bodies=True)
    return copy


def stored_bytes(graph: Graph) -> int:
    """The bytes that all constants and defaults of a graph take in a file."""
    constants = [v.constant for v in graph.constants()] + [v.default for v in graph.inputs]
    return sum(stored_size(array) for array in constants if array is not None)


def _threshold(graph: Graph, external_data: bool | int | None) -> int | None:
    if external_data is None:
        return _ALWAYS_INLINE if stored_bytes(graph) > MESSAGE_LIMIT * 9 // 10 else None
    if isinstance(external_data, bool):
        return _ALWAYS_INLINE if external_data else None
    return external_data


def _serialize(model: ModelProto) -> bytes:
    try:
        return model.SerializeToString(deterministic=True)
    except Exception as error:  # protobuf raises ValueError, EncodeError or SystemError by version
        raise LimitError(f"the model cannot be written as one message: {error}; use external data") from None


def check_target(target: Path) -> None:
    """Raise InputError where a file cannot be written safely: over a link or a folder, or into no folder."""
    if target.is_symlink():
        raise InputError(f"{str(target)!r} is a symbolic link; remove it or write to where it points")
    if target.exists() and not target.is_file():
        raise InputError(f"{str(target)!r} exists and is not a regular file")
    if not target.parent.is_dir():
        raise InputError(f"there is no folder {str(target.parent)!r} to write {target.name!r} into")


@contextmanager
def temporary_file(target: Path) -> Generator[tuple[BinaryIO, Callable[[], None]]]:
    """A new file beside `target` that takes its name at the end, if it was asked to; else it vanishes."""
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}")
    is_kept: list[bool] = []
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file, lambda: is_kept.append(True)
            file.flush()
            os.fsync(descriptor)
        if is_kept:
            os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _write_atomically(target: Path, data: bytes) -> None:
    with temporary_file(target) as (file, keep):
        file.write(data)
        keep()


class _GraphWriter:
    def __init__(self, tensors: TensorWriter) -> None:
        self._tensors = tensors
        self._names: set[str] = set()
        self._copies: set[str] = set()
        self._opsets: dict[str, int] = {}

    def model(self, graph: Graph, info: ModelInfo | None, opset: int | None) -> ModelProto:
        self._opsets = target_opsets(graph, opset)
        imports = [helper.make_opsetid(domain, version) for domain, version in sorted(self._opsets.items())]
        least = helper.find_min_ir_version_for(imports, ignore_unknown=True)
        proto = ModelProto(ir_version=max(least, _LEAST_IR_VERSION), opset_import=imports)
        _write_info(proto, info)
        self._write(graph, proto.graph)
        for value in graph.constants():
            proto.graph.initializer.append(self._tensors.write(value.name, value.constant))
        for value in graph.inputs:
            if value.default is not None:
                proto.graph.initializer.append(self._tensors.write(value.name, value.default))
        check_files(graph)
        return proto

    def _write(self, graph: Graph, proto: GraphProto, is_inner: bool = False) -> None:
        """Everything but constants: those of subgraphs stand in the main graph too, where all can read them."""
        proto.name = graph.name
        proto.doc_string = graph.doc
        for key, value in graph.metadata.items():
            proto.metadata_props.add(key=key, value=value)
        for value in graph.inputs:
            proto.input.add(name=value.name, type=type_proto(value.type))
        for node in graph.nodes:
            proto.node.append(self._node(node))
        own = {value for node in graph.nodes for value in node.outputs}
        self._write_outputs(graph, proto, own if is_inner else None)

    def _write_outputs(self, graph: Graph, proto: GraphProto, own: set[Value] | None) -> None:
        """The outputs; one that repeats or, in a subgraph, comes from outside gets an Identity, as ONNX asks."""
        seen: set[Value] = set()
        for value in graph.outputs:
            name = value.name
            if value in seen or (own is not None and value not in own):
                name = self._copy_name(graph, value.name)
                proto.node.add(op_type="Identity", input=[value.name], output=[name])
            seen.add(value)
            proto.output.add(name=name, type=type_proto(value.type))

    def _copy_name(self, graph: Graph, name: str) -> str:
        """A name that nothing has yet; the graph itself is left as it is."""
        numbered = (f"{name}_copy{number}" for number in itertools.count(1))
        found = next(copy for copy in numbered if copy not in graph.names and copy not in self._copies)
        self._copies.add(found)
        return found

    def _node(self, node: Node) -> NodeProto:
        proto = NodeProto(op_type=node.op.name, domain=node.op.domain, name=self._node_name(node))
        proto.input.extend("" if value is None else value.name for value in node.inputs)
        proto.output.extend(value.name for value in node.outputs)
        schema = find_schema(node.op.domain, node.op.name, self._opsets.get(node.op.domain, 1))
        for name, value in given_attributes(node.op).items():
            declared = None if schema is None else schema.attributes.get(name)
            kind = attribute_kind(value) if declared is None else int(declared.type.value)
            self._write_attribute(proto.attribute.add(name=name, type=kind), kind, value)  # pyright: ignore[reportArgumentType]
        return proto

    def _node_name(self, node: Node) -> str:
        """The name of the ONNX node that it came from, once."""
        name = node.origin.path.removesuffix(f" ({node.op.name})")
        if name.rpartition("/")[2].startswith("#") or name in self._names:
            return ""
        self._names.add(name)
        return name

    def _write_attribute(self, proto: AttributeProto, kind: int, value: Any) -> None:
        match _KINDS.Name(kind):  # pyright: ignore[reportArgumentType]
            case "FLOAT":
                proto.f = value
            case "INT":
                proto.i = int(value)
            case "STRING":
                proto.s = value.encode("utf-8", "surrogateescape")
            case "FLOATS":
                proto.floats.extend(value)
            case "INTS":
                proto.ints.extend(int(item) for item in value)
            case "STRINGS":
                proto.strings.extend(item.encode("utf-8", "surrogateescape") for item in value)
            case _:
                self._write_message(proto, _KINDS.Name(kind), value)  # pyright: ignore[reportArgumentType]

    def _write_message(self, proto: AttributeProto, kind: str, value: Any) -> None:
        match kind:
            case "TENSOR":
                proto.t.CopyFrom(TensorWriter().write("", value.array))
            case "TENSORS":
                proto.tensors.extend(TensorWriter().write("", item.array) for item in value)
            case "GRAPH":
                self._write(value, proto.g, is_inner=True)
            case "TYPE_PROTO":
                proto.tp.CopyFrom(type_proto(value))
            case _:
                raise UnsupportedError(f"the attribute {shorten(proto.name)!r} of kind {kind} cannot be written")


def attribute_kind(value: Any) -> int:
    """The kind of attribute that holds a Python value, for operators without a schema."""
    if isinstance(value, (tuple, list)):
        items: Sequence[Any] = value
        kinds = {attribute_kind(item) for item in items}
        one = max(kinds, default=int(_KINDS.INT)) if kinds <= {_KINDS.INT, _KINDS.FLOAT} else kinds.pop()
        return int(_KINDS.Value(_KINDS.Name(one) + "S"))  # pyright: ignore[reportArgumentType]
    for types, kind in _PYTHON_KINDS:
        if isinstance(value, types):
            return int(kind)
    raise UnsupportedError(f"a {type(value).__name__} cannot be written as an attribute")


_PYTHON_KINDS: tuple[tuple[Any, int], ...] = (
    ((bool, int), _KINDS.INT),
    (float, _KINDS.FLOAT),
    (str, _KINDS.STRING),
    (Tensor, _KINDS.TENSOR),
    (Graph, _KINDS.GRAPH),
    ((TensorType, SequenceType, OptionalType, MapType), _KINDS.TYPE_PROTO),
)


def _write_info(proto: ModelProto, info: ModelInfo | None) -> None:
    if info is None:
        proto.producer_name = "intaglio"
        return
    proto.producer_name = info.producer_name
    proto.producer_version = info.producer_version
    proto.domain = info.domain
    proto.model_version = info.model_version
    proto.doc_string = info.doc
    for key, value in info.metadata_props.items():
        proto.metadata_props.add(key=key, value=value)
