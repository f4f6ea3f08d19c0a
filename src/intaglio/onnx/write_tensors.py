"""Arrays to TensorProto, inline or in a file beside the model."""

from __future__ import annotations

from typing import Any, BinaryIO

import numpy as np
from onnx import TensorProto

from intaglio.errors import UnsupportedError
from intaglio.ir import dtype as dtypes
from intaglio.ir.dtype import DType, from_numpy
from intaglio.ir.op import Array
from intaglio.onnx.protobuf import shorten
from intaglio.onnx.tensors import pack, packed_size

_PAGE = 4096
_LINE = 64


class TensorWriter:
    """Writes tensors into their messages."""

    def write(self, name: str, array: Any) -> TensorProto:
        """The message that holds `array`."""
        proto = tensor_header(name, array)
        if from_numpy(array.dtype) is dtypes.STRING:
            proto.string_data.extend(_encode(item) for item in array.ravel())
        else:
            proto.raw_data = bytes(raw_bytes(array))
        return proto


class ExternalTensorWriter(TensorWriter):
    """Writes tensors of at least `threshold` bytes into a file; their messages say where they are in it."""

    def __init__(self, file: BinaryIO, location: str, threshold: int) -> None:
        self._file = file
        self._location = location
        self._threshold = threshold
        self.is_used = False

    def write(self, name: str, array: Any) -> TensorProto:
        """The message that holds `array`, or names its place in the file."""
        size = stored_size(array)
        if from_numpy(array.dtype) is dtypes.STRING or size < self._threshold:
            return super().write(name, array)
        self.is_used = True
        self._align(_PAGE if size >= _PAGE else _LINE)
        proto = tensor_header(name, array)
        proto.data_location = TensorProto.EXTERNAL
        entries = {"location": self._location, "offset": str(self._file.tell()), "length": str(size)}
        for key, value in entries.items():
            proto.external_data.add(key=key, value=value)
        self._file.write(raw_bytes(array))
        return proto

    def _align(self, step: int) -> None:
        self._file.write(b"\0" * (-self._file.tell() % step))


def tensor_header(name: str, array: Any) -> TensorProto:
    """The message without its data."""
    if not isinstance(array, np.ndarray):
        raise UnsupportedError(
            f"the constant {shorten(name)!r} is a {type(array).__name__}; only tensors can be stored"
        )
    return TensorProto(name=name, data_type=from_numpy(array.dtype).number, dims=array.shape)


def stored_size(array: Array) -> int:
    """The bytes that an array takes in a file."""
    return packed_size(from_numpy(array.dtype), array.size)


def raw_bytes(array: Array) -> Any:
    """The array as it stands in a file: little-endian, narrow elements packed; a view where that is possible."""
    dtype: DType = from_numpy(array.dtype)
    if dtype.bits < 8:
        return pack(array, dtype)
    little = array.astype(array.dtype.newbyteorder("<"), copy=False) if not dtype.is_narrow else array
    return np.ascontiguousarray(little).reshape(-1).view(np.uint8).data


def _encode(item: Any) -> bytes:
    return item if isinstance(item, bytes) else str(item).encode("utf-8", "surrogateescape")
