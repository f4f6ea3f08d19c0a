"""Arrays to TensorProto, inline or in a file beside the model."""

from __future__ import annotations

import secrets
from typing import Any, BinaryIO

import numpy as np
from onnx import TensorProto

from intaglio.errors import UnsupportedError
from intaglio.ir import dtype as dtypes
from intaglio.ir.dtype import DType, from_numpy
from intaglio.ir.op import Array
from intaglio.onnx.protobuf import shorten
from intaglio.onnx.tensors import pack, packed_size
from intaglio.onnx.wire import LARGE

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


class HeldTensorWriter(TensorWriter):
    """Leaves the data of large tensors out of their messages, for `intaglio.onnx.wire.joined_model` to put in."""

    def __init__(self) -> None:
        self._prefix = f"\0{secrets.token_hex(16)}/"
        self._arrays: dict[str, Array] = {}

    def write(self, name: str, array: Any) -> TensorProto:
        """The message that holds `array`, or a location for it that nobody can guess."""
        if from_numpy(array.dtype) is dtypes.STRING or stored_size(array) < LARGE:
            return super().write(name, array)
        location = f"{self._prefix}{len(self._arrays)}"
        self._arrays[location] = array
        proto = tensor_header(name, array)
        proto.data_location = TensorProto.EXTERNAL
        proto.external_data.add(key="location", value=location)
        return proto

    def data_of(self, message: bytes) -> tuple[bytes, memoryview] | None:
        """What `joined_model` asks for: a tensor without its data, and the data; None where it has it already."""
        if not self._arrays:
            return None
        proto = TensorProto.FromString(message)
        array = self._arrays.get(proto.external_data[0].value) if proto.external_data else None
        if array is None:
            return None
        proto.ClearField("data_location")
        proto.ClearField("external_data")
        return proto.SerializeToString(deterministic=True), memoryview(raw_bytes(array))


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
