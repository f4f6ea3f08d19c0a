"""Constants of compiled code: held once a process, and the pages behind their originals given back."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import mmap
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SHARED = 4096
"""Constants of at least so many bytes are shared."""

SAMPLES = 1024
"""So many places of a constant decide whether it is worth comparing with another one."""

COPIED_AT_ONCE = 2**22
MAPPED = 2**18
"""Arrays of at least so many bytes have pages of their own."""

HUGE_PAGE = 2**21
"""Bytes of the pages that large arrays ask for: products read weights up to a quarter faster than from small pages."""

_shared: weakref.WeakValueDictionary[tuple[Any, ...], Array] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def share(array: Array) -> Array:
    """An array of the same type, shape and bytes that some model holds already, or this one, read-only from now on.

    A few samples find the candidate and a comparison of every byte decides, so that the first model pays next to
    nothing and no two different arrays are ever taken for one.
    """
    if array.nbytes < SHARED or array.dtype.hasobject or not array.flags.c_contiguous:
        return array
    bits = _bits(array)
    key = (array.dtype, array.shape, bits[:: max(1, bits.size // SAMPLES)].tobytes())
    with _lock:
        found = _shared.get(key)
        if found is None:
            array.flags.writeable = False
            _shared[key] = array
            return array
    return found if np.array_equal(_bits(found), bits) else array


def _bits(array: Array) -> Array:
    flat = array.reshape(-1).view(np.uint8)
    return flat.view(np.uint64) if array.nbytes % 8 == 0 and flat.ctypes.data % 8 == 0 else flat


class _Memory(mmap.mmap):
    """Pages of no file, which go back to the system as soon as nobody holds them."""


def allocated(shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
    """An array with undefined contents for weights.

    A large one is a mapping of its own: the C library keeps what other threads than the first have freed. Only whole
    huge pages are asked for, so that none is held for the sake of a few bytes.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < MAPPED:
        return np.empty(shape, dtype)
    memory = _Memory(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = -np.frombuffer(memory, np.uint8).ctypes.data % HUGE_PAGE
    if size >= HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without huge pages
            memory.madvise(mmap.MADV_HUGEPAGE, start, size - size % HUGE_PAGE)
    return np.frombuffer(memory, dtype, math.prod(shape), start).reshape(shape)


def drop_pages(array: Any) -> None:
    """Take the pages of a mapped file that lie wholly inside an array out of memory; they come back when read.

    Arrays that are no view of a mapped file keep theirs.
    """
    mapping = _mapping(array)
    if mapping is None or array.size == 0:
        return
    start = array.ctypes.data - np.frombuffer(mapping, np.uint8).ctypes.data
    reach = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
    end = start + sum(step for step in reach if step > 0) + array.itemsize
    start += sum(step for step in reach if step < 0)
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    length = (end - first) // mmap.PAGESIZE * mmap.PAGESIZE
    if length > 0:
        mapping.madvise(mmap.MADV_DONTNEED, first, length)


def copied(array: Array) -> Array:
    """A copy of an array; pages of a mapped file are dropped on the way, so that it is never in memory twice."""
    if not array.flags.c_contiguous:
        return np.ascontiguousarray(array)
    copy = allocated(array.shape, array.dtype)
    source, target = array.reshape(-1), copy.reshape(-1)
    step = max(1, COPIED_AT_ONCE // max(1, array.itemsize))
    for first in range(0, source.size, step):
        part = source[first : first + step]
        target[first : first + step] = part
        drop_pages(part)
    return copy


def _mapping(array: Any) -> mmap.mmap | None:
    while isinstance(array, np.ndarray):
        array = array.base
    owner = array.obj if isinstance(array, memoryview) else array
    return owner if isinstance(owner, mmap.mmap) and not isinstance(owner, _Memory) else None


def trim() -> None:
    """Give the memory back to the system that was freed but is kept by the C library."""
    function = _malloc_trim()
    if function is not None:
        function(0)


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
