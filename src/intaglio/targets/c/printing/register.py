"""What generated code holds: elements in memory, vectors of them in registers, and how C spells both.

A register holds IG_LANES elements of one scalar type. Its `kind` names the vector type behind `ig_`. A boolean
register is a mask: lanes of 0 or -1 as wide as the operands that were compared (`mask` is that width in bits), or 0 and
1 in bytes as in memory (`mask` is 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from intaglio.ir.dtype import DType
from intaglio.kernels.elements import BITS, FLOATS, NARROW_FLOATS, NARROW_INTEGERS, scalar_type

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

MEMORY.update(dict.fromkeys((*NARROW_FLOATS, *NARROW_INTEGERS), ("uint8_t", "u8")))


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
    return kind_of(scalar_type(dtype))


def kind_of(type: str) -> str:
    """The kind of register for values of a scalar type: truth values that somebody named are bytes."""
    return "u8" if type == "bool" else type


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


MASKS = {**BITS, "u128": 64}
"""How wide a mask of each kind of register is."""


def select(condition: Register, yes: Register, no: Register) -> Register:
    """The lanes of one vector where a condition holds, those of another elsewhere."""
    bits = MASKS[yes.kind]
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
