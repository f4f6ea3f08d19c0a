"""Text fields and element types of ONNX's protobuf messages."""

from __future__ import annotations

from collections.abc import Iterable

from intaglio.errors import LoadError
from intaglio.ir.dtype import NUMBERED, DType


def element_type(number: int, owner: str) -> DType:
    """The element type with a number; `owner` is what has it, for the message."""
    found = NUMBERED.get(number)
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
