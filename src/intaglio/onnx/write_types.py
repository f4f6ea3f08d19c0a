"""The IR's types to TypeProto."""

from __future__ import annotations

from onnx import TypeProto

from intaglio.ir.dim import Expr, Symbol
from intaglio.ir.types import MapType, OptionalType, SequenceType, TensorType, Type
from intaglio.onnx.types import is_made_up


def type_proto(type: Type | None) -> TypeProto:
    """The message for a type; an empty one for None.

    A symbolic dimension keeps its text as its name; a symbol that was made up for one without a name loses it again.
    """
    proto = TypeProto()
    if isinstance(type, TensorType):
        _write_tensor(type, proto.tensor_type)
    elif isinstance(type, SequenceType):
        proto.sequence_type.elem_type.CopyFrom(type_proto(type.element))
    elif isinstance(type, OptionalType):
        proto.optional_type.elem_type.CopyFrom(type_proto(type.element))
    elif isinstance(type, MapType):
        proto.map_type.key_type = type.key.number
        proto.map_type.value_type.CopyFrom(type_proto(type.value))
    return proto


def _write_tensor(type: TensorType, proto: TypeProto.Tensor) -> None:
    proto.elem_type = type.dtype.number
    if type.shape is None:
        return
    proto.shape.SetInParent()
    for size in type.shape:
        dimension = proto.shape.dim.add()
        if isinstance(size, int):
            dimension.dim_value = size
        elif not is_made_up(dim_text(size)):
            dimension.dim_param = dim_text(size)


def dim_text(size: Expr) -> str:
    """The name of a dimension that is one symbol, else its formula."""
    match size.terms:
        case (((Symbol(name),), 1),):
            return name
        case _:
            return str(size)
