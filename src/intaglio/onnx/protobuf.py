"""Text fields and element types of ONNX's protobuf messages."""

from __future__ import annotations

from collections.abc import Iterable

from intaglio.errors import LoadError
from intaglio.ir import dtype as dtypes
from intaglio.ir.dtype import DType

ELEMENT_TYPES: dict[int, DType] = {
    1: dtypes.FLOAT32,
    2: dtypes.UINT8,
    3: dtypes.INT8,
    4: dtypes.UINT16,
    5: dtypes.INT16,
    6: dtypes.INT32,
    7: dtypes.INT64,
    8: dtypes.STRING,
    9: dtypes.BOOL,
    10: dtypes.FLOAT16,
    11: dtypes.FLOAT64,
    12: dtypes.UINT32,
    13: dtypes.UINT64,
    14: dtypes.COMPLEX64,
    15: dtypes.COMPLEX128,
    16: dtypes.BFLOAT16,
    17: dtypes.FLOAT8E4M3FN,
    18: dtypes.FLOAT8E4M3FNUZ,
    19: dtypes.FLOAT8E5M2,
    20: dtypes.FLOAT8E5M2FNUZ,
    21: dtypes.UINT4,
    22: dtypes.INT4,
    23: dtypes.FLOAT4E2M1,
    24: dtypes.FLOAT8E8M0,
    25: dtypes.UINT2,
    26: dtypes.INT2,
    27: dtypes.FLOAT6E2M3,
    28: dtypes.FLOAT6E3M2,
}
"""The element types by their number in `TensorProto.DataType`."""

ELEMENT_NUMBERS: dict[str, int] = {dtype.name: number for number, dtype in ELEMENT_TYPES.items()}


def element_type(number: int, owner: str) -> DType:
    """The element type with a number; `owner` is what has it, for the message."""
    found = ELEMENT_TYPES.get(number)
    if found is None:
        what = "no element type" if number == 0 else f"the unknown element type {number}"
        raise LoadError(f"{owner} has {what}")
    return found


def text(field: str | bytes) -> str:
    """A text field; protobuf hands out the bytes where they are not UTF-8, and that is refused."""
    if isinstance(field, bytes):
        raise LoadError(f"the model holds text that is not UTF-8: {shorten(repr(field))}")
    return field


def texts(fields: Iterable[str | bytes]) -> list[str]:
    """The items of a repeated text field."""
    return [text(item) for item in fields]


def shorten(message: str, limit: int = 200) -> str:
    """The text itself, or its ends with the length between them where it is longer than `limit`."""
    if len(message) <= limit:
        return message
    half = limit // 2
    return f"{message[:half]} ... ({len(message)} characters) ... {message[-half:]}"


def printable(name: str) -> str:
    """A name from a model for a message: short, on one line, without control characters."""
    short = shorten(name)
    return short if short.isprintable() else short.encode("unicode_escape").decode()
