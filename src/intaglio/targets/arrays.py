"""Arrays on their way into compiled code and out of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from intaglio.errors import LimitError
from intaglio.ir.limits import check_size


class LateArray:
    """Placeholder for an output of unknown shape: the code calls it with the shape, and it makes the array."""

    __slots__ = ("array", "dtype", "maker")

    def __init__(self, dtype: np.dtype[Any], maker: Callable[[], str]) -> None:
        self.dtype = dtype
        self.maker = maker

    def __call__(self, owner: object, address: int, *shape: int) -> np.ndarray[Any, Any]:
        """An array of memory that the owner frees, or of fresh memory where there is no address."""
        if address:
            self.array = adopted(owner, address, shape, self.dtype)
            return self.array
        try:
            self.array = np.empty(check_size(shape, self.dtype), self.dtype)
        except LimitError as error:
            raise LimitError(f"{self.maker()}: {error}") from None
        except (MemoryError, ValueError) as error:
            raise LimitError(f"{self.maker()}: {list(shape)} elements do not fit into memory") from error
        return exportable(self.array)


def contiguous(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array with its elements side by side, copied where they are not."""
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def exportable(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array as one that the buffer protocol knows: contiguous, and narrow floats as their bits."""
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    if array.dtype.kind == "V" or array.dtype.num >= 256:
        return array.view(np.uint16 if array.dtype.itemsize == 2 else np.uint8)
    return array


class _Adopted:
    """Memory of a run that has become an array's; the owner frees it."""

    def __init__(self, owner: object, address: int, shape: Sequence[int], dtype: np.dtype[Any]) -> None:
        self.owner = owner
        kind = f"|V{dtype.itemsize}" if dtype.num >= 256 else dtype.str
        self.__array_interface__ = {"version": 3, "data": (address, False), "shape": tuple(shape), "typestr": kind}


def adopted(owner: object, address: int, shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An array in memory that was allocated for it, and that goes with it."""
    return np.asarray(_Adopted(owner, address, shape, dtype)).view(dtype)


def is_adopted(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array lies in memory that `adopted` gave it."""
    base: Any = array.base
    while isinstance(base, np.ndarray):
        base = cast("Any", base).base
    return isinstance(base, _Adopted)
