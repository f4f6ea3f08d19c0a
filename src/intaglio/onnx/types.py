"""TypeProto to the IR's types."""

from __future__ import annotations

import re

from onnx import TensorShapeProto, TypeProto

from intaglio.errors import LoadError
from intaglio.ir import dim as dims
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import DType
from intaglio.ir.types import MapType, OptionalType, SequenceType, Shape, TensorType, Type
from intaglio.onnx.protobuf import element_type, shorten, text

MAX_DIM = 2**48
"""No declared dimension may be larger."""

MAX_TYPE_DEPTH = 16
"""Sequences of optionals of maps and so on may nest this deep."""


def read_type(proto: TypeProto, name: str, depth: int = 0) -> Type | None:
    """The declared type of a value called `name`; None where nothing is declared.

    A dimension without a number or a name becomes a symbol named after the value and the axis; so does -1, which some
    exporters write for "any".
    """
    if depth > MAX_TYPE_DEPTH:
        raise LoadError(f"the type of {shorten(name)!r} is nested more than {MAX_TYPE_DEPTH} deep")
    kind = proto.WhichOneof("value")
    if kind is None:
        return None
    if kind == "tensor_type":
        return _tensor_type(proto.tensor_type, name)
    if kind == "sequence_type":
        return SequenceType(_element(proto.sequence_type.elem_type, name, depth))
    if kind == "optional_type":
        return OptionalType(_element(proto.optional_type.elem_type, name, depth))
    if kind == "map_type":
        return MapType(_map_key(proto, name), _element(proto.map_type.value_type, name, depth))
    raise LoadError(f"{shorten(name)!r} has the type {kind}, which no operator takes")


def _element(proto: TypeProto, name: str, depth: int) -> Type:
    element = read_type(proto, name, depth + 1)
    if element is None:
        raise LoadError(f"the type of {shorten(name)!r} does not say what its elements are")
    return element


def _map_key(proto: TypeProto, name: str) -> DType:
    key = element_type(proto.map_type.key_type, f"the map {shorten(name)!r}")
    if not key.is_integer and key.kind != "string":
        raise LoadError(f"the map {shorten(name)!r} has keys of {key}; they must be integers or strings")
    return key


def _tensor_type(proto: TypeProto.Tensor, name: str) -> Type | None:
    if proto.elem_type == 0 and not proto.HasField("shape"):
        return None
    dtype = element_type(proto.elem_type, f"{shorten(name)!r}")
    return TensorType(dtype, read_shape(proto.shape, name) if proto.HasField("shape") else None)


def read_shape(proto: TensorShapeProto, name: str) -> Shape:
    """The declared dimensions."""
    if len(proto.dim) > 64:
        raise LoadError(f"{shorten(name)!r} has {len(proto.dim)} dimensions; at most 64 are possible")
    return tuple(_dim(dim, name, axis) for axis, dim in enumerate(proto.dim))


def _dim(proto: TensorShapeProto.Dimension, name: str, axis: int) -> Dim:
    """A declared dimension; exporters write `?` for one without a name, also for several that differ."""
    kind = proto.WhichOneof("value")
    if kind == "dim_value":
        if not -1 <= proto.dim_value <= MAX_DIM:
            raise LoadError(f"{shorten(name)!r} declares the dimension {proto.dim_value} at axis {axis}")
        return int(proto.dim_value) if proto.dim_value >= 0 else dims.symbol(f"{name}.{axis}")
    if kind == "dim_param" and proto.dim_param.strip(" ?"):
        return dims.symbol(_symbol_name(text(proto.dim_param)))
    return dims.symbol(f"{name}.{axis}")


def _symbol_name(name: str) -> str:
    """The name of a declared dimension, kept apart from all that are made up and from those that are kept apart."""
    return f"{name}~" if _TAKEN.search(name) else name


_TAKEN = re.compile(r"(?:\.[0-9]+|:[a-z_]+[0-9]*)~*$")
"""How the names of dimensions end that are made up: `x.0` for the size of a value, `x:first0` for other numbers."""


def is_made_up(symbol: str) -> bool:
    """Whether a symbol's name has the form of those that stand for dimensions without a name."""
    return re.search(r"\.[0-9]+$", symbol) is not None


def merged_type(declared: Type | None, given: Type | None) -> Type | None:
    """The declared type, with what it lacks taken from `given`."""
    if declared is None:
        return given
    if isinstance(declared, TensorType) and declared.shape is None and isinstance(given, TensorType):
        return declared.with_shape(given.shape)
    return declared


def contradiction(declared: Type, actual: Type) -> str | None:
    """Why a value of type `actual` can never be of the declared type; None where it can."""
    if not isinstance(declared, TensorType) or not isinstance(actual, TensorType):
        return None if type(declared) is type(actual) else "they are different kinds of values"
    if declared.dtype != actual.dtype:
        return "the element types differ"
    if declared.shape is None or actual.shape is None:
        return None
    if len(declared.shape) != len(actual.shape):
        return f"the ranks {len(declared.shape)} and {len(actual.shape)} differ"
    for axis, (expected, size) in enumerate(zip(declared.shape, actual.shape, strict=True)):
        if dims.compare(expected, size) in (-1, 1):
            return f"axis {axis} has the size {size}"
    return None
