"""AttributeProto to Python values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx import AttributeProto, GraphProto

from intaglio.errors import LoadError
from intaglio.ir.graph import Graph
from intaglio.ir.op import Tensor
from intaglio.onnx.external import ExternalData
from intaglio.onnx.limits import ReadLimits
from intaglio.onnx.protobuf import shorten, text
from intaglio.onnx.tensors import decode, read_sparse, read_tensor
from intaglio.onnx.types import read_type

_KINDS = AttributeProto.AttributeType
_FIELDS: dict[int, str] = {
    _KINDS.FLOAT: "f",
    _KINDS.INT: "i",
    _KINDS.STRING: "s",
    _KINDS.TENSOR: "t",
    _KINDS.GRAPH: "g",
    _KINDS.SPARSE_TENSOR: "sparse_tensor",
    _KINDS.TYPE_PROTO: "tp",
    _KINDS.FLOATS: "floats",
    _KINDS.INTS: "ints",
    _KINDS.STRINGS: "strings",
    _KINDS.TENSORS: "tensors",
    _KINDS.GRAPHS: "graphs",
    _KINDS.SPARSE_TENSORS: "sparse_tensors",
    _KINDS.TYPE_PROTOS: "type_protos",
}
"""The field that holds each kind of attribute, by the kind's number."""

_REPEATED = frozenset(field for field in _FIELDS.values() if field.endswith("s") and field != "s")

ReadGraph = Callable[[str, GraphProto], Graph]


class AttributeReader:
    """Converts attributes; graphs are read by the function that the caller passes, since they see its scope."""

    def __init__(self, external: ExternalData, limits: ReadLimits) -> None:
        self._external = external
        self._limits = limits

    def read(self, proto: AttributeProto, expected: int | None, read_graph: ReadGraph) -> Any:
        """The value: numbers, str, Tensor, Graph or Type, and tuples of them; `expected` is the schema's kind."""
        name = text(proto.name)
        kind = attribute_kind(proto, expected)
        if expected is not None and kind != expected:
            got, wanted = _KINDS.Name(kind), _KINDS.Name(expected)
            raise LoadError(f"the attribute {shorten(name)!r} is of kind {got}, expected {wanted}")
        field = _FIELDS[kind]
        stray = [other for other in _FIELDS.values() if other != field and _is_set(proto, other)]
        if stray:
            raise LoadError(f"the attribute {shorten(name)!r} has several values: {field} and {', '.join(stray)}")
        if field in _REPEATED:
            return tuple(self._convert(field, item, name, read_graph) for item in getattr(proto, field))
        return self._convert(field, getattr(proto, field), name, read_graph)

    def _convert(self, field: str, item: Any, name: str, read_graph: ReadGraph) -> Any:
        owner = f"the attribute {shorten(name)!r}"
        if field in ("t", "tensors"):
            return Tensor(read_tensor(item, self._external, owner))
        if field in ("sparse_tensor", "sparse_tensors"):
            return Tensor(read_sparse(item, self._external, self._limits.dense_bytes, owner))
        if field in ("g", "graphs"):
            return read_graph(name, item)
        if field in ("tp", "type_protos"):
            return read_type(item, name)
        return decode(item) if field in ("s", "strings") else item


def attribute_kind(proto: AttributeProto, expected: int | None) -> int:
    """The kind that an attribute says it has, or that of its filled field: files of IR version 1 say nothing."""
    if proto.type in _FIELDS:
        return proto.type
    filled = [kind for kind, field in _FIELDS.items() if _is_set(proto, field)]
    if len(filled) == 1:
        return filled[0]
    if not filled and expected is not None and _FIELDS[expected] in _REPEATED:
        return expected
    raise LoadError(f"the attribute {shorten(text(proto.name))!r} has no kind")


def _is_set(proto: AttributeProto, field: str) -> bool:
    return bool(len(getattr(proto, field))) if field in _REPEATED else proto.HasField(field)
