"""The data of a document's tensors, wherever it is: in the message, in the mapped file, or in a file beside it."""

from __future__ import annotations

import hashlib
import math
import mmap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto

from intaglio.errors import ExternalDataError, LoadError
from intaglio.ir.dtype import DType
from intaglio.ir.op import Array
from intaglio.onnx.external import ExternalData
from intaglio.onnx.mapped import ModelFile
from intaglio.onnx.protobuf import element_type
from intaglio.onnx.tensors import checked_shape, packed_size, read_tensor
from intaglio.onnx.write_tensors import raw_bytes
from intaglio.tools.document.parts import Document, copied

CHUNK = 1 << 20
"""So many bytes are read, compared or written at a time."""


class Weights:
    """Reads the tensors of one document. What is in files is mapped, so only what is looked at is read."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._external: dict[Path | None, ExternalData] = {}

    def array(self, tensor: TensorProto) -> Array:
        """The tensor as an array, without a copy where the layout of its file allows it; raises LoadError."""
        held = self._document.held_bytes(tensor)
        if held is not None:
            return read_tensor(_header(tensor), ExternalData(None), raw_data=held)
        if tensor.data_location != TensorProto.EXTERNAL:
            return read_tensor(tensor, ExternalData(None))
        external, moved = self._place(tensor)
        return read_tensor(moved, external)

    def data(self, tensor: TensorProto) -> memoryview:
        """The bytes of the tensor as files hold them, little-endian, narrow ones packed; strings raise LoadError."""
        held = self._document.held_bytes(tensor)
        if held is not None:
            return held
        if tensor.data_location == TensorProto.EXTERNAL:
            external, moved = self._place(tensor)
            entries = [(entry.key, entry.value) for entry in moved.external_data]
            return external.read(entries, stored_bytes(tensor), f"tensor {tensor.name!r}")
        if tensor.HasField("raw_data"):
            return memoryview(tensor.raw_data)
        if tensor.data_type == TensorProto.STRING:
            raise LoadError(f"tensor {tensor.name!r} holds strings, which have no plain bytes")
        return memoryview(raw_bytes(self.array(tensor))).cast("B")

    def _place(self, tensor: TensorProto) -> tuple[ExternalData, TensorProto]:
        """Where the data of an external tensor is, and the tensor as it names it there."""
        location = external_location(tensor)
        folder, name = self._document.origins.get(location or "", (self._document.folder, location))
        if folder not in self._external:
            self._external[folder] = ExternalData(folder)
        moved = tensor
        if name != location:
            moved = copied(tensor)
            for entry in moved.external_data:
                if entry.key == "location":
                    entry.value = name or ""
        return self._external[folder], moved


def external_location(tensor: TensorProto) -> str | None:
    """The file that a tensor names for its data."""
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), None)


def stored_bytes(tensor: TensorProto) -> int:
    """The bytes that a tensor's data takes in a file, by its type and shape; strings count as none."""
    dtype: DType = element_type(tensor.data_type, f"tensor {tensor.name!r}")
    if tensor.data_type == TensorProto.STRING:
        return 0
    return packed_size(dtype, math.prod(checked_shape(tensor.dims, dtype, f"tensor {tensor.name!r}")))


def parts_of(content: memoryview) -> Iterator[memoryview]:
    """Some bytes in pieces; those of a mapped file are given back to the system one by one, so few are in memory."""
    mapped = content.obj if isinstance(content.obj, ModelFile) else None
    start = 0 if mapped is None else _address(content) - _address(memoryview(mapped))
    for place in range(0, len(content), CHUNK):
        part = content[place : place + CHUNK]
        yield part
        if mapped is not None:
            first = -(-(start + place) // mmap.PAGESIZE) * mmap.PAGESIZE
            pages = (start + place + len(part) - first) // mmap.PAGESIZE * mmap.PAGESIZE
            if pages > 0:
                mapped.madvise(mmap.MADV_DONTNEED, first, pages)


def _address(content: memoryview) -> int:
    return np.frombuffer(content, np.uint8).ctypes.data


def checksum(data: memoryview) -> str:
    """The SHA-1 of some bytes as ONNX spells it in external data."""
    found = hashlib.sha1(usedforsecurity=False)
    for part in parts_of(data):
        found.update(part)
    return found.hexdigest()


def _header(tensor: TensorProto) -> TensorProto:
    return TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)


def bare_parts(document: Document) -> tuple[ModelProto, dict[int, memoryview]]:
    """A document as a message without its large weights, and their bytes by the place of the initializer.

    Weights in files that are not in the document's own folder are among them.
    """
    message, cut, weights = document.bare_message(), dict[int, memoryview](), Weights(document)
    for place, tensor in enumerate(message.graph.initializer):
        data = document.held_bytes(tensor)
        if data is None and external_location(tensor) in document.origins:
            with suppress(ExternalDataError):
                data = weights.data(tensor)
        if data is not None:
            tensor.ClearField("data_location")
            tensor.ClearField("external_data")
            cut[place] = data
    return message, cut
