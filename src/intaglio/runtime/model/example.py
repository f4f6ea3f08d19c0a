"""Type rules by example: a function is tried on arrays of a few sizes, and its result's shape is told from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from intaglio.errors import ShapeError
from intaglio.ir import dim as dims
from intaglio.ir import substitution
from intaglio.ir.build import type_of
from intaglio.ir.dim import Dim
from intaglio.ir.graph import Value
from intaglio.ir.op import Array
from intaglio.ir.types import TensorType, Type

TRIALS = 3
"""A dimension of a result is taken for an expression that holds in so many trials."""

_ADVICE = "give the operator a type rule of its own"


def infer_by_example(name: str, compute: Callable[..., Any], inputs: Sequence[Value | None]) -> Type | tuple[Type, ...]:
    """The types of what `compute` gives, from trials on arrays of ones, with constants as they are.

    A size that is none of the inputs' dimensions, nor a simple expression in them, depends on data for all we know.
    Raises ShapeError where a trial fails, or the trials differ in element type or rank.
    """
    names = sorted(set[str]().union(*(_symbols(value) for value in inputs if value is not None)))
    sizes = [_sizes(names, trial) for trial in range(TRIALS if names else 1)]
    trials = [_try(name, compute, inputs, bindings) for bindings in sizes]
    first = trials[0]
    for other in trials[1:]:
        if [(t.dtype, t.rank) for t in other] != [(t.dtype, t.rank) for t in first]:
            raise ShapeError(f"{name} gives other element types or ranks for other sizes; {_ADVICE}")
    known = [dim for value in inputs if value is not None for dim in value.shape]
    types = [_joined([trial[position] for trial in trials], known, names, sizes) for position in range(len(first))]
    return types[0] if len(types) == 1 else tuple(types)


def _symbols(value: Value) -> set[str]:
    if not isinstance(value.type, TensorType) or value.type.shape is None:
        raise ShapeError(f"the shape of {value.name}: {value.type} is not known before the run; {_ADVICE}")
    return set[str]().union(*(dims.symbols(dim) for dim in value.type.shape))


def _sizes(names: Sequence[str], trial: int) -> dict[str, int]:
    """A size for each symbol: no two are alike in one trial, and none is the same in two."""
    return {name: 4 + 3 * position * (trial + 1) + trial * (5 + 2 * trial) for position, name in enumerate(names)}


def _try(
    name: str, compute: Callable[..., Any], inputs: Sequence[Value | None], bindings: Mapping[str, int]
) -> list[TensorType]:
    arrays = [None if value is None else _example(value, bindings) for value in inputs]
    try:
        with np.errstate(all="ignore"):
            result = compute(*arrays)
    except Exception as error:
        given = ", ".join("nothing" if array is None else f"{array.dtype}{list(array.shape)}" for array in arrays)
        cause = f"{type(error).__name__}: {error}"
        raise ShapeError(f"{name} was tried on ({given}) to find its type, and failed: {cause}; {_ADVICE}") from error
    types = [type_of(item) for item in (result if isinstance(result, tuple) else (result,))]
    if not all(isinstance(type, TensorType) for type in types):
        raise ShapeError(f"{name} gives something other than tensors; {_ADVICE}")
    return [type for type in types if isinstance(type, TensorType)]


def _example(value: Value, bindings: Mapping[str, int]) -> Array:
    if value.constant is not None:
        return value.constant
    dtype = value.dtype.numpy
    if value.contents is not None and all(dims.symbols(item) <= bindings.keys() for item in value.contents.flat):
        items = [substitution.evaluate(item, bindings) for item in value.contents.flat]
        return np.array(items, dtype).reshape(value.contents.shape)
    shape = tuple(substitution.evaluate(dim, bindings) for dim in value.shape)
    return np.full(shape, "", dtype) if value.dtype.kind == "string" else np.ones(shape, dtype)


def _joined(
    trials: Sequence[TensorType], known: Sequence[Dim], names: Sequence[str], sizes: Sequence[Mapping[str, int]]
) -> TensorType:
    """One type that stands for those of all trials."""
    shapes = [trial.dims for trial in trials]
    found = [_expression([shape[axis] for shape in shapes], known, names, sizes) for axis in range(trials[0].rank)]
    return trials[0].with_shape(tuple(found))


def _expression(
    seen: Sequence[Dim], known: Sequence[Dim], names: Sequence[str], sizes: Sequence[Mapping[str, int]]
) -> Dim:
    """The first simple expression that gives the sizes seen in all trials; a fresh symbol where there is none."""
    if len(set(seen)) == 1:
        return seen[0]
    for candidate in _candidates(seen, known, names, sizes):
        if [substitution.evaluate(candidate, bindings) for bindings in sizes] == list(seen):
            return candidate
    return dims.fresh()


def _candidates(
    seen: Sequence[Dim], known: Sequence[Dim], names: Sequence[str], sizes: Sequence[Mapping[str, int]]
) -> Iterator[Dim]:
    """Dimensions of the inputs, factor * symbol + offset, products and sums of two dimensions, all of one input."""
    unique = list(dict.fromkeys(known))
    yield from unique
    for name in names:
        change = sizes[1][name] - sizes[0][name]
        factor, rest = divmod(substitution.evaluate(seen[1] - seen[0], {}), change)
        if not rest and factor > 0:
            yield dims.symbol(name) * factor + (seen[0] - factor * sizes[0][name])
    for left, right in combinations_with_replacement(unique, 2):
        yield left * right
        yield left + right
    yield dims.product(known)
