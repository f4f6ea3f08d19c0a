"""The element types that kernels hold, and the scalar types in which they compute.

Kernels compute in f32, f64, i8 to i64, u8 to u64 and bool. float16 and bfloat16 are computed as f32 and rounded where
an ONNX node ends. Of opaque types, the floats and integers of few bits and complex numbers, kernels hold the bits as
they are in memory: most operators only move them, and a cast takes them apart.
"""

from __future__ import annotations

from intaglio.ir.dtype import DType

SCALARS = ("f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "u128", "bool")
"""The types of values in kernels."""

FLOATS = frozenset({"f32", "f64"})
"""The scalar types that are floating-point numbers."""

BITS = {"bool": 8} | {name: int(name[1:]) for name in SCALARS if name != "bool"}
"""How wide each scalar type is in memory."""

HALVES = {"float16": "f16", "bfloat16": "bf16"}
"""The floats of 16 bits, which are computed as f32, and how rounding to them is named."""

NARROW_FLOATS = {
    "float8e4m3fn": "e4m3fn",
    "float8e4m3fnuz": "e4m3fnuz",
    "float8e5m2": "e5m2",
    "float8e5m2fnuz": "e5m2fnuz",
    "float8e8m0": "e8m0",
    "float6e2m3": "e2m3",
    "float6e3m2": "e3m2",
    "float4e2m1": "e2m1",
}
"""The floats of at most 8 bits, and how their formats are named."""

NARROW_INTEGERS = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}
"""The integers of less than 8 bits, and how many they have."""

OPAQUE = frozenset({*NARROW_FLOATS, *NARROW_INTEGERS, "complex64", "complex128"})
"""The types of which kernels hold bits instead of numbers."""

_NUMBERS = {
    "float32": "f32", "float64": "f64", "float16": "f32", "bfloat16": "f32",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "bool",
    "complex64": "u64", "complex128": "u128", **dict.fromkeys((*NARROW_FLOATS, *NARROW_INTEGERS), "u8"),
}  # fmt: skip


def is_computable(dtype: DType) -> bool:
    """Whether kernels can hold the element type at all."""
    return dtype.name in _NUMBERS


def scalar_type(dtype: DType) -> str:
    """The type in which kernels compute an element type, or hold its bits.

    >>> from intaglio.ir.dtype import FLOAT16
    >>> scalar_type(FLOAT16)
    'f32'
    """
    return _NUMBERS[dtype.name]


def number_type(dtype: DType) -> str:
    """The type that holds numbers of an element type.

    >>> from intaglio.ir.dtype import INT4
    >>> number_type(INT4), scalar_type(INT4)
    ('i8', 'u8')
    """
    if dtype.name in NARROW_FLOATS:
        return "f32"
    return ("i8" if dtype.kind == "int" else "u8") if dtype.name in NARROW_INTEGERS else scalar_type(dtype)
