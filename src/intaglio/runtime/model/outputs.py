"""Arrays of the caller that a run writes its outputs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from intaglio.errors import InputError
from intaglio.ir.types import TensorType
from intaglio.runtime.engine.binding import format_shape
from intaglio.runtime.model.arrays import Typed

if TYPE_CHECKING:
    from intaglio.targets.step import Into

Array = np.ndarray[Any, Any]


def check_targets(out: Mapping[str, Any], names: Sequence[str], outputs: Sequence[Typed]) -> dict[str, Array]:
    """The arrays that outputs are to be written to; raises InputError for one that no output can be written to."""
    if not isinstance(out, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"out is a {type(out).__name__}, expected a dict of arrays by the names of outputs")
    types = {output.name: output.type for output in outputs}
    found = {name: _check_target(name, array, names, types.get(name)) for name, array in out.items()}
    for name, array in found.items():
        twin = next((each for each, other in found.items() if each != name and np.may_share_memory(array, other)), None)
        if twin is not None:
            raise InputError(f"out[{name!r}] and out[{twin!r}] share memory, expected an array for each")
    return found


def _check_target(name: str, array: Any, names: Sequence[str], type: Any) -> Array:
    if name not in names:
        near = get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"the outputs are {', '.join(map(repr, names))}"
        raise InputError(f"out has an array for {name!r}, which is no output of this run; {hint}")
    if not isinstance(array, np.ndarray):
        raise InputError(f"out[{name!r}] is a {array.__class__.__name__}, expected a NumPy array")
    if not array.flags.c_contiguous or not array.flags.writeable or not array.dtype.isnative:
        wrong = "read-only" if not array.flags.writeable else "not contiguous (in C order, native bytes)"
        raise InputError(f"out[{name!r}] is {wrong}; give it an array such as numpy.empty makes")
    if type is not None:
        _check_type(name, array, type)
    return array


def _check_type(name: str, array: Array, type: Any) -> None:
    if not isinstance(type, TensorType) or type.dtype.kind == "string":
        raise InputError(f"out[{name!r}]: the output is {type}, and only tensors of numbers are written to arrays")
    if array.dtype != type.dtype.numpy:
        raise InputError(f"out[{name!r}] has dtype {array.dtype}, the output is {type.dtype}")
    dims = type.shape
    sizes = zip(dims or (), array.shape, strict=False)
    if dims is not None and (len(dims) != array.ndim or any(isinstance(d, int) and d != s for d, s in sizes)):
        raise InputError(f"out[{name!r}] has shape {list(array.shape)}, the output has {format_shape(dims)}")


def not_overlapping(targets: Into, values: Sequence[Any]) -> Into:
    """The arrays that share no memory with what is read; to the others a result is copied after the run."""
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    return [None if t is None or any(np.may_share_memory(t, array) for array in arrays) else t for t in targets]


def written(name: str, result: Any, target: Array) -> Array:
    """The target once it holds the result."""
    if result is target:
        return target
    if result.shape != target.shape or result.dtype != target.dtype:
        raise InputError(
            f"out[{name!r}] is {target.dtype}{list(target.shape)}, the output of this run is "
            f"{result.dtype}{list(result.shape)}"
        )
    np.copyto(target, result)
    return target
