"""Values in files as programs in Zig read them: sizes as 64-bit numbers, then the elements."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from intaglio.ir.types import OptionalType, SequenceType, TensorType, Type


def write_values(values: Iterable[tuple[Any, Type]]) -> bytes:
    """Values one after the other, each at a multiple of eight bytes."""
    return b"".join(_written(value, type) for value, type in values)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def _number(value: int) -> bytes:
    return struct.pack("<Q", value)


def _written(value: Any, type: Type) -> bytes:
    if isinstance(type, OptionalType):
        return _number(0) if value is None else _number(1) + _written(value, type.element)
    if isinstance(type, SequenceType):
        return _number(len(value)) + b"".join(_written(item, type.element) for item in value)
    assert isinstance(type, TensorType)
    array = np.asarray(value)
    sizes = _number(array.ndim) + b"".join(map(_number, array.shape))
    if type.dtype.kind != "string":
        return sizes + _padded(np.ascontiguousarray(array).tobytes())
    texts = [str(item).encode("utf-8", "surrogateescape") for item in array.ravel()]
    return sizes + b"".join(_number(len(text)) + _padded(text) for text in texts)


def read_values(data: bytes, types: Sequence[Type]) -> list[Any]:
    """The values of these types that a program wrote."""
    reader = _Reader(data)
    return [reader.value(type) for type in types]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        found = self.data[self.at : self.at + size]
        self.at += size + -size % 8
        return found

    def number(self) -> int:
        return struct.unpack("<Q", self.take(8))[0]

    def value(self, type: Type) -> Any:
        if isinstance(type, OptionalType):
            return self.value(type.element) if self.number() else None
        if isinstance(type, SequenceType):
            return [self.value(type.element) for _ in range(self.number())]
        assert isinstance(type, TensorType)
        shape = tuple(self.number() for _ in range(self.number()))
        count = int(np.prod(shape, dtype=np.int64))
        if type.dtype.kind != "string":
            data = self.take(count * type.dtype.itemsize)
            return np.frombuffer(data, type.dtype.numpy).reshape(shape).copy()
        texts = [self.take(self.number()).decode("utf-8", "surrogateescape") for _ in range(count)]
        array = np.empty(count, object)
        array[:] = texts
        return array.reshape(shape)
