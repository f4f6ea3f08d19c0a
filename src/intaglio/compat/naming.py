"""Types in ONNX Runtime's spelling."""

from __future__ import annotations

from typing import Any

import numpy as np

from intaglio.errors import InputError
from intaglio.ir.dtype import NUMBERED, DType, from_numpy
from intaglio.ir.types import MapType, OptionalType, SequenceType, TensorType, Type
from intaglio.onnx.types import is_made_up
from intaglio.onnx.write_types import dim_text

_TYPE_NAMES = {"float32": "float", "float64": "double"}


def dtype_name(dtype: DType) -> str:
    """An element type, such as `float` or `int64`."""
    return _TYPE_NAMES.get(dtype.name, dtype.name)


def type_name(type: Type) -> str:
    """A type in ONNX Runtime's spelling, such as `tensor(float)` or `seq(tensor(int64))`."""
    if isinstance(type, TensorType):
        return f"tensor({dtype_name(type.dtype)})"
    if isinstance(type, MapType):
        return f"map({dtype_name(type.key)},{type_name(type.value)})"
    kind = {SequenceType: "seq", OptionalType: "optional"}[type.__class__]
    return f"{kind}({type_name(type.element)})"


def dim_name(dim: Any) -> int | str | None:
    """A dimension: a number, its name, or None where it has neither."""
    if isinstance(dim, int):
        return dim
    name = dim_text(dim)
    return None if is_made_up(name) else name


def numpy_type(element_type: Any) -> np.dtype[Any]:
    """The NumPy dtype of what is a dtype already, or ONNX's number of an element type."""
    if isinstance(element_type, int) and not isinstance(element_type, bool):
        if element_type not in NUMBERED:
            raise InputError(f"ONNX has no element type of the number {element_type}")
        return NUMBERED[element_type].numpy
    try:
        dtype: np.dtype[Any] = np.dtype(element_type)  # pyright: ignore[reportCallIssue, reportArgumentType]
        return from_numpy(dtype).numpy
    except TypeError as error:
        raise InputError(f"{element_type!r} is no element type: {error}") from None
