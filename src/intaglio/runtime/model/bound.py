"""A model bound to the sizes of its inputs: the one hot path of all calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from intaglio.errors import InputError, ShapeError
from intaglio.ir.types import TensorType
from intaglio.runtime.engine.binding import bind
from intaglio.runtime.model.arrays import Typed, as_input

if TYPE_CHECKING:
    from intaglio.runtime.model.model import Model
    from intaglio.targets.step import Into

_SHORTEST, _LONGEST = 1e-4, 1e9
"""Seconds; a timeout beyond these is left to the way with all checks."""


def nanoseconds(timeout: float | None) -> int | None:
    """A timeout as engines take it, 0 where there is none; None where it must be looked at more closely."""
    if timeout is None:
        return 0
    return int(timeout * 1e9) if type(timeout) in (float, int) and _SHORTEST <= timeout <= _LONGEST else None


def free_targets(out: Mapping[str, Any], names: Sequence[str], inputs: Sequence[Any]) -> Into | None:
    """The arrays of `out` in the order of the outputs, where a run may write to all of them without a further look.

    None where one is no writable contiguous array, shares memory with another array, or has the name of no output.
    """
    into: list[Any] = []
    arrays = list(inputs)
    for name in names:
        target = out.get(name)
        into.append(target)
        if target is not None:
            if type(target) is not np.ndarray:
                return None
            flags = target.flags
            if not (flags.c_contiguous and flags.writeable):
                return None
            for array in arrays:
                if np.may_share_memory(target, array):
                    return None
            arrays.append(target)
    return into if len(arrays) - len(inputs) == len(out) else None


class Bound:
    """A model for inputs of fixed sizes, as `Model.bind` makes it: `bound(*inputs, out=None, timeout=None)`.

    What depends on sizes was worked out when it was made: the first call is as fast as all others. Safe to call from
    several threads at once, with an `out` for each; it holds no state but the model's.
    """

    def __init__(self, model: Model, fed: Sequence[Typed], outputs: Sequence[str], shapes: Sequence[Any]) -> None:
        self.model = model
        self.shapes: tuple[tuple[int, ...] | None, ...] = tuple(shapes)
        """The shape of each input; None for an input that is no tensor."""
        self._fed, self._outputs = tuple(fed), tuple(outputs)

    def __call__(self, *inputs: Any, out: Mapping[str, Any] | None = None, timeout: float | None = None) -> Any:
        """Run on arrays in the order of the inputs; returns the output, or a tuple of them where there are several.

        `out` has arrays by the names of outputs, which are written to and returned. A run that takes longer than
        `timeout` seconds raises RunTimeoutError. Both mean what they mean for `Model.run`. Raises ShapeError for inputs
        of other sizes than those that the model was bound to.
        """
        if len(inputs) != len(self.shapes):
            raise InputError(f"{len(inputs)} inputs were given, expected {len(self.shapes)}: {self._names()}")
        for array, shape in zip(inputs, self.shapes):  # noqa: B905  (the numbers were compared)
            if type(array) is not np.ndarray or array.shape != shape:
                inputs = self._checked(inputs)
                break
        results = self.model.run_arrays(inputs, out, timeout)
        return results[0] if len(results) == 1 else tuple(results)

    def _checked(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The inputs as arrays; raises ShapeError for one of another size."""
        for item, given, shape in zip(self._fed, inputs, self.shapes, strict=True):
            array = as_input(item, given)
            if shape is not None and array.shape != shape:
                raise ShapeError(
                    f"input {item.name!r} has shape {list(array.shape)}, and the model is bound to {list(shape)}; "
                    "bind the model to the other size too, or call the model itself, which takes every size"
                )
        return tuple(inputs)

    def _names(self) -> str:
        return ", ".join(item.name for item in self._fed)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{item.name}: {shape}" for item, shape in zip(self._fed, self.shapes, strict=True))
        return f"<Bound ({sizes}) of {self.model!r}>"


def shape_of(item: Typed, given: Any) -> tuple[int, ...] | None:
    """The shape that an example or a shape fixes for an input; None for an input that is no tensor."""
    if not isinstance(item.type, TensorType):
        as_input(item, given)
        return None
    is_shape = isinstance(given, (tuple, list)) and all(isinstance(size, (int, np.integer)) for size in given)  # pyright: ignore
    if not is_shape:
        return as_input(item, given).shape
    shape = tuple([int(size) for size in given])
    if any(size < 0 for size in shape):
        raise ShapeError(f"input {item.name!r}: the shape {list(shape)} has a size below 0")
    bind(item.type.shape, shape, {}, f"input {item.name!r}")
    return shape
