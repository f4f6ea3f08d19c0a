"""How NumPy says operators: the table of printers, and what they share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from intaglio.emit.pythonic.block import (
    INLINE,
    Language,
    Printer,
    Site,
    UnprintableError,
    Writer,
    has_literal_shape,
    is_plain,
    literal,
    quoted,
)
from intaglio.emit.pythonic.control import CONTROL
from intaglio.emit.pythonic.functions import Library
from intaglio.emit.weights import Weights
from intaglio.ir.dtype import BOOL, STRING, DType
from intaglio.ir.graph import Node, Value
from intaglio.ir.op import Op
from intaglio.ir.types import TensorType

_MODULES = ("basic", "recurrent", "windows", "indexing", "sampling", "text")
LIBRARY = Library([f"intaglio.emit.python.library.{name}" for name in _MODULES])


PRINTERS: dict[tuple[str, str], Printer] = dict(CONTROL)


_ML_DTYPES = {
    "bfloat16": "bfloat16",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
    "float6e2m3": "float6_e2m3fn",
    "float6e3m2": "float6_e3m2fn",
    "float4e2m1": "float4_e2m1fn",
    "int4": "int4",
    "uint4": "uint4",
    "int2": "int2",
    "uint2": "uint2",
}


def dtype_text(dtype: DType) -> str:
    """An element type as NumPy or ml_dtypes spell it."""
    if dtype == STRING:
        return "object"
    if dtype == BOOL:
        return "bool"
    return f"ml_dtypes.{_ML_DTYPES[dtype.name]}" if dtype.name in _ML_DTYPES else f"xp.{dtype.name}"


def array_text(text: str, dtype: DType) -> str:
    """An array from numbers in nested lists."""
    return f"xp.asarray({text}, dtype={dtype_text(dtype)})"


def language(weights: Weights) -> Language:
    """NumPy, with the weights that a module reads."""

    def constant(value: Value, writer: Writer) -> str:
        array = value.constant
        assert array is not None
        if isinstance(array, list):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UnprintableError(f"%{value.name} is a constant sequence")
        is_small = array.size <= INLINE and (array.dtype.kind in "iub" or array.size == 1)
        if array.dtype.kind == "O" or (is_small and is_plain(array) and has_literal_shape(array)):
            return array_text(literal(array), value.dtype)
        key = f"w[{quoted(weights.key(value))}]"
        return f"{key}.view({dtype_text(value.dtype)})" if value.dtype.is_narrow else key

    return Language(PRINTERS, LIBRARY, constant, array_text, dtype_text, RESERVED)


RESERVED = frozenset(
    {"xp", "np", "w", "self", "math", "ml_dtypes", "itertools", "functools", "re", "json", "Any", "Path"}
)


def prints(*names: str, domain: str = "") -> Callable[[Printer], Printer]:
    """Register a printer."""

    def register(printer: Printer) -> Printer:
        for name in names:
            PRINTERS[domain, name] = printer
        return printer

    return register


def is_narrow(value: Value) -> bool:
    """Whether NumPy cannot compute with a type, or only roughly."""
    return isinstance(value.type, TensorType) and value.dtype.is_float and value.dtype.bits <= 16


def wide(site: Site, position: int) -> str:
    """An operand in a type that sums and products can be computed in."""
    text = site.x(position)
    return f"{text}.astype(xp.float32)" if is_narrow(site.value(position)) else text


def rounded(site: Site, text: str, output: int = 0) -> str:
    """A result that was computed in a wider type, in its own."""
    value = site.node.outputs[output]
    if not is_narrow(value):
        return text
    return f"{text if _is_call(text) else f'({text})'}.astype({site.dtype(value.dtype)})"


def _is_call(text: str) -> bool:
    """Whether a text is one call, so that a method of its result can follow."""
    depth = 0
    for place, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if depth == 0 and char in ")]" and place + 1 < len(text) and text[place + 1] not in ".([":
            return False
        if depth == 0 and char == " ":
            return False
    return text.endswith(")")


def short(node: Node, number: float) -> str:
    """An attribute as the shortest number that means it in the type in which a node computes."""
    return literal(np.array(number, np.float64 if is_double(node) else np.float32))


def shortened(node: Node, number: float) -> float:
    """The number that `short` writes."""
    return number if is_double(node) else float(short(node, number))


def is_double(node: Node) -> bool:
    """Whether a node computes in double precision, where an attribute is not what it was rounded from."""
    values = [value for value in (*node.inputs, *node.outputs) if value is not None]
    types = [value.type for value in values if isinstance(value.type, TensorType)]
    return any(type.dtype.name in ("float64", "complex128") for type in types)


def has_defaults(op: Op, *ignored: str) -> bool:
    """Whether all attributes of an operator but some have their defaults."""
    fields = [field for field in op.attributes() if field.name not in ignored]
    return all(getattr(op, field.name) == field.default for field in fields)
