"""Tensors of PyTorch in and out, without copies. PyTorch is never imported here: who has a tensor has imported it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, cast

import numpy as np


def is_tensor(data: object) -> bool:
    """Whether something is a tensor of PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(data, getattr(torch, "Tensor", ()))


def has_tensor(items: Iterable[Any]) -> bool:
    """Whether a tensor of PyTorch is among what a model was given, also inside of lists."""
    if "torch" not in sys.modules:
        return False
    return any(has_tensor(cast("list[Any]", i)) if isinstance(i, (list, tuple)) else is_tensor(i) for i in items)


def array_of(tensor: Any) -> np.ndarray[Any, Any]:
    """The memory of a tensor as an array: nothing is copied unless the tensor is a conjugate or negative view.

    Types that NumPy lacks keep their bits. Raises what PyTorch raises for tensors that have no such memory.
    """
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    bits, dtype = _carriers()[tensor.dtype]
    plain = tensor.detach()
    return plain.numpy() if bits is None else plain.view(bits).numpy().view(dtype)


def tensor_of(array: Any) -> Any:
    """An array as a tensor in the same memory, and lists and dictionaries of arrays likewise.

    What PyTorch has no tensor for (strings, types of fewer than 8 bits) stays as it is.
    """
    if isinstance(array, list):
        return [tensor_of(item) for item in cast("list[Any]", array)]
    if isinstance(array, dict):
        return {key: tensor_of(item) for key, item in cast("dict[Any, Any]", array).items()}
    if not isinstance(array, (np.ndarray, np.generic)):
        return array
    made = _makers().get(array.dtype, _same)(np.asarray(array))
    return made if array.size or made is array else made.new_empty(array.shape)  # strides of 0, which PyTorch never has


def tensors_of(arrays: Sequence[Any]) -> list[Any]:
    """All outputs of a run as tensors."""
    return [tensor_of(array) for array in arrays]


def _same(array: np.ndarray[Any, Any]) -> Any:
    return array


_NARROW = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
_PLAIN = (
    *("float64", "float32", "float16", "complex64", "complex128", "bool"),
    *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"),
)


@cache
def _carriers() -> dict[Any, tuple[Any, np.dtype[Any] | None]]:
    """For each dtype of PyTorch: the integers of its width where NumPy lacks it, and what the array is of."""
    import ml_dtypes

    torch = sys.modules["torch"]
    plain = [getattr(torch, name) for name in _PLAIN if hasattr(torch, name)]
    found: dict[Any, tuple[Any, np.dtype[Any] | None]] = dict.fromkeys(plain, (None, None))
    for name in _NARROW:
        if hasattr(torch, name):
            dtype = np.dtype(getattr(ml_dtypes, name))
            found[getattr(torch, name)] = (torch.int16 if dtype.itemsize == 2 else torch.uint8, dtype)
    return found


@cache
def _makers() -> dict[np.dtype[Any], Callable[[np.ndarray[Any, Any]], Any]]:
    """For each dtype of NumPy that PyTorch has too: what makes a tensor of an array."""
    torch = sys.modules["torch"]
    found: dict[np.dtype[Any], Callable[[np.ndarray[Any, Any]], Any]] = {}
    for dtype, (_, narrow) in _carriers().items():
        if narrow is None:
            found[np.dtype(str(dtype).removeprefix("torch."))] = torch.from_numpy
        else:
            found[narrow] = _narrow_maker(torch, np.int16 if narrow.itemsize == 2 else np.uint8, dtype)
    return found


def _narrow_maker(torch: Any, bits: Any, dtype: Any) -> Callable[[np.ndarray[Any, Any]], Any]:
    return lambda array: torch.from_numpy(array.view(bits)).view(dtype)
