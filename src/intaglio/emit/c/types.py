"""Element types in C."""

from __future__ import annotations

import numpy as np

from intaglio.ir.dtype import DType
from intaglio.ir.op import Array

_NAMES = {
    "float32": "float",
    "float64": "double",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "bool": "bool",
    "complex64": "float",
    "complex128": "double",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


def c_type(dtype: DType) -> str:
    """The type of elements in memory; those of fewer than 8 bits lie in bytes, complex numbers are pairs.

    >>> from intaglio.ir.dtype import FLOAT16, INT4
    >>> c_type(FLOAT16), c_type(INT4)
    ('uint16_t', 'int8_t')
    """
    small = "uint8_t" if dtype.kind != "int" else "int8_t"
    return _NAMES.get(dtype.name, small)


def parts(dtype: DType) -> int:
    """How many numbers of C an element is."""
    return 2 if dtype.kind == "complex" else 1


def array_type(array: Array) -> str:
    """The type of the numbers in which an array is written down."""
    kind = _plain(array).dtype
    if kind.kind == "f":
        return "float" if kind.itemsize == 4 else "double"
    return "bool" if kind.kind == "b" else f"{'u' if kind.kind == 'u' else ''}int{8 * kind.itemsize}_t"


def literals(array: Array) -> list[str]:
    """The elements as C writes them, exactly."""
    plain = _plain(array).ravel()
    if plain.dtype.kind == "b":
        return ["true" if item else "false" for item in plain.tolist()]
    if plain.dtype.kind == "f":
        suffix = "f" if plain.dtype.itemsize == 4 else ""
        return [_FLOATS.get(text, f"{text}{suffix}") for text in plain.astype(str).tolist()]
    if plain.dtype == np.int64:
        return ["INT64_MIN" if item == -(2**63) else f"{item}" for item in plain.tolist()]
    return [f"{item}u" if plain.dtype == np.uint64 else str(item) for item in plain.tolist()]


_FLOATS = {"nan": "NAN", "inf": "INFINITY", "-inf": "-INFINITY", "-nan": "NAN"}


def _plain(array: Array) -> Array:
    """The array as numbers that NumPy itself has: halves and narrow floats as their bits, complex numbers as pairs."""
    array = np.ascontiguousarray(array)
    if array.dtype.kind == "c":
        return array.view(np.float32 if array.dtype.itemsize == 8 else np.float64)
    if array.dtype.kind == "V" or array.dtype.num >= 256 or array.dtype == np.float16:
        return array.view(np.uint16 if array.dtype.itemsize == 2 else np.uint8)
    return array
