"""How PyTorch says operators: the table of printers, and what they share."""

from __future__ import annotations

from collections.abc import Callable

from intaglio.emit.pythonic.block import Language, Printer, Site, UnprintableError, Writer
from intaglio.emit.pythonic.control import CONTROL
from intaglio.emit.pythonic.functions import Library
from intaglio.ir.dtype import DType
from intaglio.ir.graph import Value
from intaglio.ir.types import OptionalType, SequenceType, TensorType, Type

LIBRARY = Library([f"intaglio.emit.torch.library.{name}" for name in ("tensors", "layers", "quantized")])
PRINTERS: dict[tuple[str, str], Printer] = {}

RESERVED = frozenset(
    {
        "torch",
        "nn",
        "functional",
        "Tensor",
        "self",
        "math",
        "itertools",
        "Any",
        "Path",
        "load",
        "Model",
        "cls",
        "folder",
    }
)

FLOATS = frozenset(["float64", "float32", "float16", "bfloat16"])
"""The element types that the weights of a layer may have."""

KNOWN = FLOATS | frozenset(
    [
        "int64",
        "int32",
        "int16",
        "int8",
        "uint8",
        "bool",
        "complex64",
        "complex128",
    ]
)
"""The element types that PyTorch computes with."""


def dtype_text(dtype: DType) -> str:
    """An element type as PyTorch spells it."""
    if dtype.name not in KNOWN:
        raise UnprintableError(f"PyTorch does not compute with {dtype.name}")
    return f"torch.{dtype.name}"


def array_text(text: str, dtype: DType) -> str:
    """A tensor from numbers in nested lists."""
    return f"torch.tensor({text}, dtype={dtype_text(dtype)})"


def language(constant: Callable[[Value, Writer], str]) -> Language:
    """PyTorch, with what spells constants."""
    return Language(PRINTERS, LIBRARY, constant, array_text, dtype_text, RESERVED)


def prints(*names: str, domain: str = "") -> Callable[[Printer], Printer]:
    """Register a printer, for nodes of types that PyTorch computes with."""

    def register(printer: Printer) -> Printer:
        for name in names:
            PRINTERS[domain, name] = checked(printer)
        return printer

    return register


def checked(printer: Printer) -> Printer:
    """A printer that refuses values of types that PyTorch does not compute with."""

    def print_known(site: Site) -> str | None:
        for value in (*site.node.inputs, *site.node.outputs):
            if value is not None:
                _check_type(value.type)
        return printer(site)

    return print_known


def _check_type(type: Type) -> None:
    if isinstance(type, (SequenceType, OptionalType)):
        _check_type(type.element)
    elif not isinstance(type, TensorType):
        raise UnprintableError(f"{type} is no tensor")
    elif type.dtype.name not in KNOWN:
        raise UnprintableError(f"PyTorch does not compute with {type.dtype.name}")


for _key, _printer in CONTROL.items():
    PRINTERS[_key] = checked(_printer)
