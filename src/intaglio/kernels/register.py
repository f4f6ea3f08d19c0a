"""What generated code holds: elements in memory, vectors of them in registers, and how C spells both.

A register holds IG_LANES elements of one type. Its `kind` names the vector type behind `ig_`: f32, f64, i8 to i64, u8
to u64; float16 and bfloat16 are computed as f32 and rounded at the end of each ONNX node. A boolean register is a mask:
lanes of 0 or -1 as wide as the operands that were compared (`mask` is that width in bits), or 0 and 1 in bytes as in
memory (`mask` is 0). Of opaque types, the floats and integers of few bits and complex numbers, registers hold the bits
as they are in memory: most operators only move them, and a cast takes them apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from intaglio.ir.dtype import DType

MEMORY: dict[str, tuple[str, str]] = {
    "float32": ("float", "f32"),
    "float64": ("double", "f64"),
    "float16": ("uint16_t", "f16"),
    "bfloat16": ("uint16_t", "bf16"),
    "int8": ("int8_t", "i8"),
    "int16": ("int16_t", "i16"),
    "int32": ("int32_t", "i32"),
    "int64": ("int64_t", "i64"),
    "uint8": ("uint8_t", "u8"),
    "uint16": ("uint16_t", "u16"),
    "uint32": ("uint32_t", "u32"),
    "uint64": ("uint64_t", "u64"),
    "bool": ("uint8_t", "u8"),
    "complex64": ("uint64_t", "u64"),
    "complex128": ("uint128_t", "u128"),
}
"""The C type of an element in memory and the suffix of the functions that load and store it."""

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
"""The floats of at most 8 bits, and how functions of ig_narrow.h name them."""

NARROW_INTEGERS = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}
"""The integers of less than 8 bits, and how many they have."""

MEMORY.update(dict.fromkeys((*NARROW_FLOATS, *NARROW_INTEGERS), ("uint8_t", "u8")))

OPAQUE = frozenset({*NARROW_FLOATS, *NARROW_INTEGERS, "complex64", "complex128"})
"""The types whose registers hold bits instead of numbers."""

BITS = {"f32": 32, "f64": 64, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "u8": 8, "u16": 16, "u32": 32, "u64": 64}
BITS["u128"] = 64
"""How wide a mask of each kind of register is."""

HALVES = frozenset({"float16", "bfloat16"})
"""The floats of 16 bits, which are computed as f32."""

FLOATS = frozenset({"f32", "f64"})
"""The kinds of registers that hold floating-point numbers."""


@dataclass(frozen=True)
class Register:
    """A C variable or expression that holds a vector."""

    text: str
    kind: str
    mask: int | None = None

    @property
    def is_bool(self) -> bool:
        """Whether it holds truth values."""
        return self.mask is not None


def register_kind(dtype: DType) -> str:
    """The kind of register that computes an element type, or holds its bits."""
    return "f32" if dtype.name in HALVES else MEMORY[dtype.name][1]


def is_computable(dtype: DType) -> bool:
    """Whether generated code can hold the element type at all."""
    return dtype.name in MEMORY


def number_kind(dtype: DType) -> str:
    """The kind of register that holds numbers of an element type."""
    if dtype.name in NARROW_FLOATS:
        return "f32"
    return ("i8" if dtype.kind == "int" else "u8") if dtype.name in NARROW_INTEGERS else register_kind(dtype)


def decoded(x: Register, dtype: DType) -> Register:
    """The numbers behind the bits of a narrow type; what is in a register of another type is returned as it is."""
    if dtype.name in NARROW_FLOATS:
        return Register(f"ig_f32_from_{NARROW_FLOATS[dtype.name]}({x.text})", "f32")
    if dtype.name not in NARROW_INTEGERS:
        return x
    text = f"ig_i8_from_{dtype.name}({x.text})" if dtype.kind == "int" else low_bits(x.text, dtype)
    return Register(text, number_kind(dtype))


def low_bits(text: str, dtype: DType) -> str:
    """The bits that an integer of few bits has."""
    return f"({text} & {(1 << NARROW_INTEGERS[dtype.name]) - 1})"


def with_headers(source: str) -> str:
    """The C text with the headers that its functions need beyond those that every kernel has."""
    suffixes = [*NARROW_FLOATS.values(), "int4", "int2"]
    is_narrow = any(f"_from_{name}(" in source or f"ig_{name}_from_" in source for name in suffixes)
    found = [name for name, is_used in (("ig_narrow.h", is_narrow), ("ig_wide.h", "uint128_t" in source)) if is_used]
    return "".join(f'#include "{name}"\n' for name in found) + source


def mask_of(register: Register, bits: int) -> str:
    """A truth value as lanes of 0 or -1 with the given width."""
    if register.mask == bits:
        return register.text
    if register.mask == 0:
        return f"(-ig_cast_u8_i{bits}({register.text}))" if bits != 8 else f"(-(ig_i8){register.text})"
    return f"ig_cast_i{register.mask}_i{bits}({register.text})"


def as_bytes(register: Register) -> str:
    """A truth value as bytes of 0 and 1."""
    if register.mask == 0:
        return register.text
    return f"(ig_cast_i{register.mask}_u8({register.text}) & 1)"


def bool_register(text: str, bits: int) -> Register:
    """A truth value that came from comparing lanes of so many bits."""
    return Register(text, f"i{bits}", bits)


def select(condition: Register, yes: Register, no: Register) -> Register:
    """The lanes of one vector where a condition holds, those of another elsewhere."""
    bits = BITS[yes.kind]
    return Register(f"ig_select_{yes.kind}({mask_of(condition, bits)}, {yes.text}, {no.text})", yes.kind)


def literal(value: Any, kind: str) -> str:
    """A vector whose lanes all hold a number, printed exactly."""
    if kind in FLOATS:
        return f"ig_set_{kind}({float_literal(float(value), kind)})"
    number = int(value)
    text = (
        f"{number}ULL"
        if kind.startswith("u")
        else "(-9223372036854775807LL - 1)"
        if number == -(2**63)
        else f"{number}LL"
    )
    return f"ig_set_{kind}((ig_{kind}_element){text})"


def float_literal(value: float, kind: str) -> str:
    """A floating-point number in C, exact to the bit."""
    if np.isnan(value):
        return '__builtin_nan("")'
    if np.isinf(value):
        return "-__builtin_inf()" if value < 0 else "__builtin_inf()"
    return value.hex() + ("f" if kind == "f32" else "")


_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*"}


def combine(function: str, kind: str, left: str, right: str) -> str:
    """Two vectors added, subtracted, multiplied, or the lesser or greater of them; signed integers wrap around."""
    if function in _ARITHMETIC and not kind.startswith("i"):
        return f"({left} {_ARITHMETIC[function]} {right})"
    return f"ig_{function}_{kind}({left}, {right})"


def converted(x: Register, kind: str) -> str:
    """The numbers of a register in one of another kind."""
    return x.text if x.kind == kind else f"ig_cast_{x.kind}_{kind}({x.text})"
