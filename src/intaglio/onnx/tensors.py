"""TensorProto and SparseTensorProto to NumPy arrays, every length checked before anything is allocated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import SparseTensorProto, TensorProto

from intaglio.errors import LimitError, LoadError
from intaglio.ir import dtype as dtypes
from intaglio.ir.dtype import DType
from intaglio.ir.op import Array
from intaglio.onnx.external import ExternalData
from intaglio.onnx.protobuf import element_type, shorten, text

MAX_BYTES = 2**62
"""No tensor may claim more bytes than this: sizes stay far from the end of int64."""

_FIELDS: dict[str, str] = {
    "float32": "float_data",
    "complex64": "float_data",
    "float64": "double_data",
    "complex128": "double_data",
    "int64": "int64_data",
    "uint32": "uint64_data",
    "uint64": "uint64_data",
    "string": "string_data",
}
"""The typed field that holds an element type; `int32_data` holds all others."""

_ALL_FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
_FIELD_NUMPY = {
    "float_data": np.float32,
    "double_data": np.float64,
    "int64_data": np.int64,
    "uint64_data": np.uint64,
    "int32_data": np.int32,
}


def read_tensor(
    proto: TensorProto, external: ExternalData, owner: str = "", raw_data: memoryview | None = None
) -> Array:
    """The array that a TensorProto holds, read-only and without a copy where the file's layout allows it.

    `raw_data` is what was cut out of the message, of which the array is a view.
    """
    owner = owner or f"tensor {shorten(text(proto.name))!r}"
    dtype = element_type(proto.data_type, owner)
    shape = checked_shape(proto.dims, dtype, owner)
    if proto.HasField("segment"):
        raise LoadError(f"{owner} is stored in segments, which ONNX no longer allows: save the model again")
    is_external, is_raw = (
        proto.data_location == TensorProto.EXTERNAL,
        raw_data is not None or proto.HasField("raw_data"),
    )
    field = _checked_field(proto, dtype, is_external, is_raw, owner)
    if is_external:
        array = _from_bytes(_external_bytes(proto, dtype, shape, external, owner), dtype, shape, owner)
    elif raw_data is not None:
        array = _from_bytes(raw_data, dtype, shape, owner)
    elif is_raw:
        array = _from_bytes(proto.raw_data, dtype, shape, owner)
    else:
        array = _from_field(getattr(proto, field), field, dtype, shape, owner)
    array.flags.writeable = False
    return array


def checked_shape(dims: Sequence[int], dtype: DType, owner: str) -> tuple[int, ...]:
    """The dims as a shape; raises LoadError where one is negative or their product is absurd."""
    shape = tuple(int(size) for size in dims)
    if len(shape) > 64:
        raise LoadError(f"{owner} has {len(shape)} dimensions; at most 64 are possible")
    if any(size < 0 for size in shape):
        raise LoadError(f"{owner} has a negative dimension: {list(shape)}")
    claimed = math.prod(size for size in shape if size) * max(dtype.itemsize, 1)
    if claimed > MAX_BYTES:
        raise LoadError(f"{owner} claims the shape {list(shape)}: its size overflows")
    return shape


def _checked_field(proto: TensorProto, dtype: DType, is_external: bool, is_raw: bool, owner: str) -> str:
    """The typed field of the element type; any other one must be empty, and all of them beside raw data."""
    expected = _FIELDS.get(dtype.name, "int32_data")
    filled = [field for field in _ALL_FIELDS if len(getattr(proto, field))]
    if is_external and is_raw:
        raise LoadError(f"{owner} has both external data and raw data")
    if (is_raw or is_external) and dtype is dtypes.STRING:
        raise LoadError(f"{owner} holds strings, which must stand in string_data")
    if (is_raw or is_external) and filled:
        raise LoadError(f"{owner} has both raw data and {', '.join(filled)}")
    wrong = [field for field in filled if field != expected]
    if wrong:
        raise LoadError(f"{owner} of {dtype} has data in {', '.join(wrong)}; expected it in {expected}")
    return expected


def _external_bytes(
    proto: TensorProto, dtype: DType, shape: tuple[int, ...], external: ExternalData, owner: str
) -> Any:
    entries = [(text(entry.key), text(entry.value)) for entry in proto.external_data]
    return external.read(entries, packed_size(dtype, math.prod(shape)), owner)


def packed_size(dtype: DType, count: int) -> int:
    """The bytes that so many elements take in a file: narrow elements share bytes."""
    return -(-count * dtype.bits // 8)


def _from_bytes(data: Any, dtype: DType, shape: tuple[int, ...], owner: str) -> Array:
    expected = packed_size(dtype, math.prod(shape))
    if len(data) != expected:
        raise LoadError(f"{owner} of {dtype}{list(shape)} has {len(data)} bytes of data, expected {expected}")
    if dtype.bits < 8:
        return unpack(np.frombuffer(data, np.uint8), dtype, math.prod(shape)).reshape(shape)
    if dtype is dtypes.BOOL:
        return (np.frombuffer(data, np.uint8) != 0).reshape(shape)
    return np.frombuffer(data, dtype.numpy.newbyteorder("<")).astype(dtype.numpy, copy=False).reshape(shape)


def unpack(packed: Array, dtype: DType, count: int) -> Array:
    """Elements of 2, 4 or 6 bits, the first in the lowest bits, as one byte each."""
    bits = np.unpackbits(packed, bitorder="little", count=count * dtype.bits) if dtype.bits == 6 else None
    if bits is not None:
        weights = np.left_shift(1, np.arange(6)).astype(np.uint8)
        return (bits.reshape(count, 6) * weights).sum(axis=1, dtype=np.uint8).view(dtype.numpy)
    per_byte = 8 // dtype.bits
    shifts = np.arange(0, 8, dtype.bits, dtype=np.uint8)
    wide = (packed[:, None] >> shifts) & np.uint8(2**dtype.bits - 1)
    return wide.reshape(packed.size * per_byte)[:count].view(dtype.numpy)


def pack(array: Array, dtype: DType) -> bytes:
    """The inverse of `unpack`, the last byte filled up with zeros."""
    elements = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    bits = np.unpackbits(elements[:, None], axis=1, bitorder="little", count=dtype.bits)
    return np.packbits(bits, bitorder="little").tobytes()


def _from_field(data: Any, field: str, dtype: DType, shape: tuple[int, ...], owner: str) -> Array:
    count = math.prod(shape)
    stored = count * 2 if dtype.kind == "complex" else count
    if field == "int32_data" and dtype.bits < 8 and dtype.bits != 6:
        stored = packed_size(dtype, count)
    if len(data) != stored:
        raise LoadError(f"{owner} of {dtype}{list(shape)} has {len(data)} entries in {field}, expected {stored}")
    if dtype is dtypes.STRING:
        return _strings(data, shape)
    elements = np.fromiter(data, _FIELD_NUMPY[field], count=stored)
    return _narrowed(elements, dtype, count, owner).reshape(shape)


def _narrowed(elements: Array, dtype: DType, count: int, owner: str) -> Array:
    """The elements of a typed field as the tensor's type; narrow types keep their bits in the low end."""
    if dtype.kind == "complex":
        return elements.view(dtype.numpy)
    if dtype.is_integer and dtype.bits >= 8:
        narrow = elements.astype(dtype.numpy)
        if not np.array_equal(narrow.astype(elements.dtype), elements) and not _is_same_bits(narrow, elements):
            raise LoadError(f"{owner} of {dtype} has an element out of its range")
        return narrow
    if dtype is dtypes.BOOL:
        return elements != 0
    if dtype.bits == 6:
        return (elements & 0x3F).astype(np.uint8).view(dtype.numpy)
    if dtype.bits < 8:
        return unpack(elements.astype(np.uint8), dtype, count)
    if dtype.bits < 32:
        return elements.astype(np.uint16 if dtype.bits == 16 else np.uint8).view(dtype.numpy)
    return elements


def _is_same_bits(narrow: Array, elements: Array) -> bool:
    """Whether signed elements were stored as their unsigned bit pattern, as some writers do."""
    unsigned = narrow.view(f"u{narrow.dtype.itemsize}")
    return np.array_equal(unsigned.astype(elements.dtype), elements)


def _strings(data: Sequence[bytes], shape: tuple[int, ...]) -> Array:
    result = np.empty(len(data), object)
    result[:] = [decode(item) for item in data]
    return result.reshape(shape)


def decode(data: bytes) -> str:
    """Bytes as text; what is not UTF-8 survives as surrogates, so that it can be written back."""
    return data.decode("utf-8", "surrogateescape")


def read_sparse(proto: SparseTensorProto, external: ExternalData, limit: int, owner: str = "") -> Array:
    """The dense array of a sparse tensor; indices are checked, and the dense size against `limit` bytes."""
    owner = owner or f"sparse tensor {shorten(text(proto.values.name))!r}"
    values = read_tensor(proto.values, external, f"{owner} (values)")
    indices = read_tensor(proto.indices, external, f"{owner} (indices)")
    dtype = dtypes.from_numpy(values.dtype)
    shape = checked_shape(proto.dims, dtype, owner)
    size = math.prod(shape) * dtype.itemsize
    if size > limit:
        raise LimitError(f"{owner} of {dtype}{list(shape)} takes {size} bytes when dense; the limit is {limit}")
    if values.ndim != 1 or indices.dtype != np.int64:
        raise LoadError(f"{owner} needs values in one dimension and int64 indices")
    dense = np.zeros(math.prod(shape), values.dtype) if dtype is not dtypes.STRING else np.full(math.prod(shape), "")
    dense = dense.astype(values.dtype, copy=False)
    dense[_flat_indices(indices, shape, len(values), owner)] = values
    dense = dense.reshape(shape)
    dense.flags.writeable = False
    return dense


def _flat_indices(indices: Array, shape: tuple[int, ...], count: int, owner: str) -> Array:
    if indices.shape == (count,):
        bounds, strides = np.asarray([math.prod(shape)]), np.asarray([1])
    elif indices.shape == (count, len(shape)):
        bounds = np.asarray(shape, np.int64)
        strides = np.asarray([math.prod(shape[axis + 1 :]) for axis in range(len(shape))], np.int64)
    else:
        expected = f"[{count}] or [{count}, {len(shape)}]"
        raise LoadError(f"{owner} has indices of shape {list(indices.shape)}, expected {expected}")
    columns: Array = indices.reshape(count, len(bounds))
    if np.any((columns < 0) | (columns >= bounds)):
        raise LoadError(f"{owner} has an index outside of the shape {list(shape)}")
    flat: Array = columns @ strides
    if np.any(flat[1:] <= flat[:-1]):
        raise LoadError(f"{owner} has indices that are not in ascending order or occur twice")
    return flat
