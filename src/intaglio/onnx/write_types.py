"""The IR's types to TypeProto."""

from __future__ import annotations

from onnx import TypeProto

from intaglio.ir.types import MapType, OptionalType, SequenceType, TensorType, Type
from intaglio.onnx.protobuf import ELEMENT_NUMBERS


def type_proto(type: Type | None) -> TypeProto:
    """The message for a type; an empty one for None. A symbolic dimension keeps its text as the dimension's name."""
    proto = TypeProto()
    if isinstance(type, TensorType):
        _write_tensor(type, proto.tensor_type)
    elif isinstance(type, SequenceType):
        proto.sequence_type.elem_type.CopyFrom(type_proto(type.element))
    elif isinstance(type, OptionalType):
        proto.optional_type.elem_type.CopyFrom(type_proto(type.element))
    elif isinstance(type, MapType):
        proto.map_type.key_type = ELEMENT_NUMBERS[type.key.name]
        proto.map_type.value_type.CopyFrom(type_proto(type.value))
    return proto


def _write_tensor(type: TensorType, proto: TypeProto.Tensor) -> None:
    proto.elem_type = ELEMENT_NUMBERS[type.dtype.name]
    if type.shape is None:
        return
    proto.shape.SetInParent()
    for size in type.shape:
        dimension = proto.shape.dim.add()
        if isinstance(size, int):
            dimension.dim_value = size
        else:
            dimension.dim_param = str(size)
