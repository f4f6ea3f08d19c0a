"""The element types of ONNX, each with the NumPy dtype that carries it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class DType:
    """One element type: `name` is its spelling in text, `kind` one of float, int, uint, bool, complex, string.

    `bits` is the width in a packed file; in NumPy memory every element takes at least one byte. `number` is the type's
    number in ONNX files and attributes.
    """

    name: str
    numpy: np.dtype[Any]
    bits: int
    kind: str
    number: int

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        """Whether this is a real floating-point type of any width."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether this is a signed or unsigned integer type of any width."""
        return self.kind in ("int", "uint")

    @property
    def is_narrow(self) -> bool:
        """Whether NumPy itself does not know the type and `ml_dtypes` carries it."""
        return self.numpy.kind == "V" or self.numpy.type.__module__.startswith("ml_dtypes")


def _make(name: str, numpy: Any, bits: int, kind: str, number: int) -> DType:
    return DType(name, np.dtype(numpy), bits, kind, number)


FLOAT64 = _make("float64", np.float64, 64, "float", 11)
FLOAT32 = _make("float32", np.float32, 32, "float", 1)
FLOAT16 = _make("float16", np.float16, 16, "float", 10)
BFLOAT16 = _make("bfloat16", ml_dtypes.bfloat16, 16, "float", 16)
FLOAT8E4M3FN = _make("float8e4m3fn", ml_dtypes.float8_e4m3fn, 8, "float", 17)
FLOAT8E4M3FNUZ = _make("float8e4m3fnuz", ml_dtypes.float8_e4m3fnuz, 8, "float", 18)
FLOAT8E5M2 = _make("float8e5m2", ml_dtypes.float8_e5m2, 8, "float", 19)
FLOAT8E5M2FNUZ = _make("float8e5m2fnuz", ml_dtypes.float8_e5m2fnuz, 8, "float", 20)
FLOAT8E8M0 = _make("float8e8m0", ml_dtypes.float8_e8m0fnu, 8, "float", 24)
FLOAT6E2M3 = _make("float6e2m3", ml_dtypes.float6_e2m3fn, 6, "float", 27)
FLOAT6E3M2 = _make("float6e3m2", ml_dtypes.float6_e3m2fn, 6, "float", 28)
FLOAT4E2M1 = _make("float4e2m1", ml_dtypes.float4_e2m1fn, 4, "float", 23)
INT64 = _make("int64", np.int64, 64, "int", 7)
INT32 = _make("int32", np.int32, 32, "int", 6)
INT16 = _make("int16", np.int16, 16, "int", 5)
INT8 = _make("int8", np.int8, 8, "int", 3)
INT4 = _make("int4", ml_dtypes.int4, 4, "int", 22)
INT2 = _make("int2", ml_dtypes.int2, 2, "int", 26)
UINT64 = _make("uint64", np.uint64, 64, "uint", 13)
UINT32 = _make("uint32", np.uint32, 32, "uint", 12)
UINT16 = _make("uint16", np.uint16, 16, "uint", 4)
UINT8 = _make("uint8", np.uint8, 8, "uint", 2)
UINT4 = _make("uint4", ml_dtypes.uint4, 4, "uint", 21)
UINT2 = _make("uint2", ml_dtypes.uint2, 2, "uint", 25)
BOOL = _make("bool", np.bool_, 8, "bool", 9)
STRING = _make("string", np.object_, 64, "string", 8)
COMPLEX64 = _make("complex64", np.complex64, 64, "complex", 14)
COMPLEX128 = _make("complex128", np.complex128, 128, "complex", 15)

DTYPES: dict[str, DType] = {value.name: value for value in tuple(globals().values()) if isinstance(value, DType)}
NUMBERED: dict[int, DType] = {dtype.number: dtype for dtype in DTYPES.values()}
_BY_NUMPY: dict[np.dtype[Any], DType] = {dtype.numpy: dtype for dtype in DTYPES.values()}


def from_numpy(dtype: np.dtype[Any]) -> DType:
    """The element type that a NumPy dtype carries; byte order is ignored, any string dtype is `string`.

    >>> from_numpy(np.dtype("float32"))
    float32
    """
    if dtype.kind in "USOT":
        return STRING
    found = _BY_NUMPY.get(dtype if dtype.isnative else dtype.newbyteorder("="))
    if found is None:
        raise TypeError(f"NumPy dtype {dtype} has no ONNX element type")
    return found
