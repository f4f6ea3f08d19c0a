"""Which nodes the library in Zig has words for."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from intaglio.emit.pythonic.block import UnprintableError
from intaglio.ir.graph import Node, Value
from intaglio.ir.types import MapType, OptionalType, SequenceType, TensorType, Type

LIBRARY = Path(__file__).parent / "library"
CONTROL = frozenset({"If", "Loop", "Scan", "SequenceMap"})


@cache
def operators() -> frozenset[str]:
    """The names of the operators that the library has."""
    text = (LIBRARY / "operators.zig").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^pub const (\w+) =", text, re.MULTILINE)) | CONTROL


def check(node: Node) -> None:
    """Raises UnprintableError where the library has no words for a node."""
    op = node.op
    if op.domain != "" or op.name not in operators():
        raise UnprintableError(f"{op.name} has no words")
    if op.name == "BatchNormalization" and op.training_mode:
        raise UnprintableError("BatchNormalization in training has no words")
    for value in (*node.inputs, *node.outputs):
        if value is not None:
            _check_type(value, value.type)


def _check_type(value: Value, type: Type) -> None:
    if isinstance(type, MapType):
        raise UnprintableError(f"%{value.name} is a map")
    if isinstance(type, OptionalType):
        _check_type(value, type.element)
    if isinstance(type, SequenceType) and not isinstance(type.element, TensorType):
        raise UnprintableError(f"%{value.name} is a sequence of what are no tensors")
