"""The protocol's datatypes: their names, and their bytes as arrays and back.

Every array is made of data that is there already: a shape is compared with the length of the data first, in Python's
integers, which do not overflow.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from intaglio.ir import dtype as dtypes
from intaglio.ir.dtype import DType
from intaglio.serve.messages import RequestError

MOST_AXES = 32
"""NumPy's arrays have up to 64; no model here has as many as this."""

DATATYPES: dict[str, DType] = {
    "BOOL": dtypes.BOOL,
    "UINT8": dtypes.UINT8,
    "UINT16": dtypes.UINT16,
    "UINT32": dtypes.UINT32,
    "UINT64": dtypes.UINT64,
    "INT8": dtypes.INT8,
    "INT16": dtypes.INT16,
    "INT32": dtypes.INT32,
    "INT64": dtypes.INT64,
    "FP16": dtypes.FLOAT16,
    "FP32": dtypes.FLOAT32,
    "FP64": dtypes.FLOAT64,
    "BF16": dtypes.BFLOAT16,
    "BYTES": dtypes.STRING,
}
NAMES: dict[DType, str] = {dtype: name for name, dtype in DATATYPES.items()}


def check_datatype(name: Any, place: str) -> DType:
    """The element type of a datatype; raises RequestError for one that the protocol does not have."""
    found = DATATYPES.get(name) if isinstance(name, str) else None
    if found is None:
        raise RequestError(f"{place} has datatype {short(name)}, expected one of {', '.join(DATATYPES)}")
    return found


def check_shape(shape: Any, place: str) -> tuple[int, ...]:
    """A shape as a tuple; raises RequestError where it is none."""
    if not isinstance(shape, Sequence) or isinstance(shape, (str, bytes)) or len(shape) > MOST_AXES:
        raise RequestError(f"{place} has shape {short(shape)}, expected a list of at most {MOST_AXES} sizes")
    sizes = tuple(shape)
    for size in sizes:
        if type(size) is not int or size < 0 or size >= 1 << 63:
            raise RequestError(f"{place} has {short(size)} in its shape, expected integers of at least 0")
    return sizes


def short(value: Any) -> str:
    """A value of a client as part of a message, cut where it is long."""
    text = repr(value) if isinstance(value, (str, int, float, bool, type(None))) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def array_of_bytes(dtype: DType, shape: tuple[int, ...], data: memoryview, place: str) -> np.ndarray[Any, Any]:
    """The array that bytes hold, as a view of them; raises RequestError where their number is another one."""
    if dtype is dtypes.STRING:
        return _texts_of_bytes(shape, data, place)
    expected = math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise RequestError(f"{place} has {len(data)} bytes, expected {expected} for {NAMES[dtype]} {list(shape)}")
    array = np.frombuffer(data, dtype.numpy).reshape(shape)
    if dtype is dtypes.BOOL and array.size and int(array.view(np.uint8).max()) > 1:
        raise RequestError(f"{place} has a byte that is neither 0 nor 1, expected BOOL")
    return _aligned(array)


def _aligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same elements at an address that suits their type."""
    return array if array.flags.aligned else array.copy()


def _texts_of_bytes(shape: tuple[int, ...], data: memoryview, place: str) -> np.ndarray[Any, Any]:
    """Elements that each have their length before them, as four bytes."""
    count, size = math.prod(shape), len(data)
    if 4 * count > size:
        raise RequestError(f"{place} has {size} bytes, expected at least {4 * count} for BYTES {list(shape)}")
    items: list[str] = []
    at = 0
    while at < size and len(items) < count:
        if at + 4 > size:
            break
        end = at + 4 + struct.unpack_from("<I", data, at)[0]
        if end > size:
            raise RequestError(f"{place}: element {len(items)} has more bytes than there are left")
        items.append(bytes(data[at + 4 : end]).decode("utf-8", "surrogateescape"))
        at = end
    if at != size or len(items) != count:
        raise RequestError(f"{place} has {len(items)} elements in {at} of {size} bytes, expected {count} in all")
    return _objects(items, shape)


def _objects(items: list[str], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    found = np.empty(len(items), object)
    found[:] = items
    return found.reshape(shape)


def bytes_of_array(array: np.ndarray[Any, Any]) -> bytes | memoryview:
    """The bytes of an array in the protocol's order; a view of the array where it has them."""
    if array.dtype == object:
        parts: list[bytes] = []
        for item in array.ravel().tolist():
            data = str(item).encode("utf-8", "surrogateescape")
            parts += (struct.pack("<I", len(data)), data)
        return b"".join(parts)
    whole = np.ascontiguousarray(array)
    return memoryview(cast("Any", whole.reshape(-1).view(np.uint8))).cast("B") if whole.size else b""


def array_of_numbers(dtype: DType, shape: tuple[int, ...], data: Any, place: str) -> np.ndarray[Any, Any]:
    """The array of a JSON list, flat or nested as the shape; raises RequestError where it does not fit."""
    items = _flat(data, shape, place)
    if len(items) != math.prod(shape):
        raise RequestError(f"{place} has {len(items)} elements, expected {math.prod(shape)} for shape {list(shape)}")
    kinds = set(map(type, items))
    if dtype is dtypes.STRING:
        _check_kinds(kinds, {str}, dtype, place)
        return _objects(items, shape)
    if dtype is dtypes.BOOL:
        _check_kinds(kinds, {bool} if kinds != {int} or not set(items) <= {0, 1} else {int}, dtype, place)
    else:
        _check_kinds(kinds, {int, float} if dtype.is_float else {int}, dtype, place)
    return _numbers(items, dtype, place).reshape(shape)


def _numbers(items: list[Any], dtype: DType, place: str) -> np.ndarray[Any, Any]:
    try:
        with np.errstate(over="ignore"):
            array = np.array(items, dtype.numpy)
        fits = not dtype.is_float or bool(np.isfinite(array).all())
    except OverflowError:
        raise RequestError(f"{place} has a number that {NAMES[dtype]} cannot hold") from None
    if not fits:
        raise RequestError(f"{place} has a number that {NAMES[dtype]} cannot hold; infinity is sent as binary data")
    return array


def _check_kinds(kinds: set[type], allowed: set[type], dtype: DType, place: str) -> None:
    wrong = kinds - allowed
    if wrong:
        raise RequestError(f"{place} has elements that are {sorted(kind.__name__ for kind in wrong)[0]}, "
                           f"expected {NAMES[dtype]}")  # fmt: skip


def _flat(data: Any, shape: tuple[int, ...], place: str) -> list[Any]:
    """The elements of a list that is flat, or nested as deep as the shape has axes."""
    if type(data) is not list:
        raise RequestError(f"{place} has data that is {short(data)}, expected a list")
    items: list[Any] = data
    for depth in range(len(shape)):
        kinds = set(map(type, items))
        if list not in kinds:
            break
        sizes = set(map(len, items)) if kinds == {list} else set[int]()
        if depth + 1 >= len(shape) or len(sizes) != 1 or len(items) != math.prod(shape[: depth + 1]):
            raise RequestError(f"{place} has lists in its data that do not have the shape {list(shape)}")
        if sizes != {shape[depth + 1]}:
            raise RequestError(f"{place} has a list of {sizes.pop()} elements, expected {shape[depth + 1]}")
        items = [item for part in items for item in part]
    return items


def numbers_of_array(array: np.ndarray[Any, Any], name: str) -> list[Any]:
    """The elements of an array as JSON spells them, in one list; raises RequestError where JSON cannot."""
    flat = array.ravel()
    if array.dtype == object:
        items = [str(item) for item in flat.tolist()]
        if any("\ud800" <= char <= "\udfff" for item in items for char in item):
            raise RequestError(f"output {name!r} has text that is not UTF-8; ask for it with binary_data", 422)
        return items
    if array.dtype.kind in "biu":
        return flat.tolist()
    wide = flat if array.dtype.kind == "f" else flat.astype(np.float32)
    if not np.isfinite(wide).all():
        raise RequestError(f"output {name!r} has NaN or infinity, which JSON has not; ask for it with binary_data", 422)
    return wide.tolist()
