"""Random numbers.

An operator with a seed gives the same numbers in every evaluation; without one they are new each time. The generator is
NumPy's, so the numbers differ from those of other runtimes.
"""

from __future__ import annotations

import struct
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir.dtype import DType, from_numpy
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op
from intaglio.ir.types import TensorType, Type
from intaglio.ops.cast import convert
from intaglio.ops.elementwise import FLOATS, check_kind
from intaglio.ops.indices import check_size, numbered_dtype


def generator(seed: float | None) -> np.random.Generator:
    """A generator that a seed determines; a float seed counts with all its bits."""
    if seed is None:
        return np.random.default_rng()
    return np.random.default_rng(int.from_bytes(struct.pack("<d", seed), "little"))


class Random(Op, abstract=True):
    """A draw of `draw` in double precision, rounded to the element type."""

    is_random: ClassVar[bool] = True
    seed: float | None = None

    def draw(self, source: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Random numbers in double precision."""
        raise NotImplementedError

    def sample(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """Random numbers of an element type."""
        check_size(shape, np.dtype(np.float64))
        return convert(np.asarray(self.draw(generator(self.seed), shape)), dtype)


def _float_type(name: str, dtype: DType) -> DType:
    check_kind(name, dtype, FLOATS)
    return dtype


class RandomOfShape(Random, abstract=True):
    """Random numbers of the shape that an attribute gives."""

    dtype: int = 1
    shape: tuple[int, ...]

    def infer(self) -> Type:
        if any(size < 0 for size in self.shape):
            raise ShapeError(f"the shape {list(self.shape)} has a negative size")
        return TensorType(_float_type(self.name, numbered_dtype(self.dtype)), tuple(self.shape))

    def reference(self) -> Array:
        return self.sample(tuple(self.shape), numbered_dtype(self.dtype))


class RandomLike(Random, abstract=True):
    """Random numbers of the shape of the input, and of its type unless another is given."""

    dtype: int | None = None

    def infer(self, input: Value) -> Type:
        dtype = input.dtype if self.dtype is None else numbered_dtype(self.dtype)
        return input.tensor.with_dtype(_float_type(self.name, dtype))

    def reference(self, input: Array) -> Array:
        return self.sample(input.shape, from_numpy(input.dtype) if self.dtype is None else numbered_dtype(self.dtype))

    def pullback(self, b: Any, inputs: Any, outputs: Any, output_bars: Any) -> tuple[None]:
        return (None,)


class RandomNormal(RandomOfShape):
    """Numbers from a normal distribution with the given mean and standard deviation."""

    mean: float = 0.0
    scale: float = 1.0

    def draw(self, source: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return source.standard_normal(shape) * self.scale + self.mean


class RandomNormalLike(RandomLike):
    """Numbers from a normal distribution, in the shape of the input."""

    mean: float = 0.0
    scale: float = 1.0

    def draw(self, source: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return source.standard_normal(shape) * self.scale + self.mean


class RandomUniform(RandomOfShape):
    """Numbers from the range from `low` to `high`, each as likely as the others."""

    high: float = 1.0
    low: float = 0.0

    def draw(self, source: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return source.random(shape) * (self.high - self.low) + self.low


class RandomUniformLike(RandomLike):
    """Numbers from the range from `low` to `high`, in the shape of the input."""

    high: float = 1.0
    low: float = 0.0

    def draw(self, source: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return source.random(shape) * (self.high - self.low) + self.low


class Bernoulli(Op):
    """One with the probability that the input gives, else zero."""

    is_random: ClassVar[bool] = True
    dtype: int | None = None
    seed: float | None = None

    def infer(self, input: Value) -> Type:
        check_kind("Bernoulli", input.dtype, FLOATS)
        return input.type if self.dtype is None else input.tensor.with_dtype(numbered_dtype(self.dtype))

    def expand(self, b: Any, input: Value) -> Value:
        is_one = b.Less(b.RandomUniformLike(input, seed=self.seed), input)
        return b.Cast(is_one, to=input.dtype.number if self.dtype is None else self.dtype)


class Multinomial(Op):
    """The numbers of `sample_size` classes for each row of unnormalized log-probabilities, drawn independently."""

    is_random: ClassVar[bool] = True
    dtype: int = 6
    sample_size: int = 1
    seed: float | None = None

    def infer(self, input: Value) -> Type:
        check_kind("Multinomial", input.dtype, FLOATS)
        dtype = numbered_dtype(self.dtype)
        if dtype.name not in ("int32", "int64"):
            raise ShapeError(f"dtype must be int32 or int64, got {dtype}")
        if input.tensor.shape is None:
            return TensorType(dtype, None)
        if input.rank != 2:
            raise ShapeError(f"the input must have the shape [batch, classes], got {input.type}")
        return TensorType(dtype, (input.shape[0], self.sample_size))

    def reference(self, input: Array) -> Array:
        rows, classes = input.shape
        if self.sample_size < 1 or classes == 0:
            raise OperatorError(f"cannot draw {self.sample_size} samples from {classes} classes")
        check_size((rows, self.sample_size), np.dtype(np.float64))
        logarithms = input.astype(np.float64)
        weights = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
        bounds = np.cumsum(weights, axis=1)
        drawn = generator(self.seed).random((rows, self.sample_size)) * bounds[:, -1:]
        numbers = [np.searchsorted(row, points, side="right") for row, points in zip(bounds, drawn, strict=True)]
        result = np.array(numbers, dtype=numbered_dtype(self.dtype).numpy).reshape(rows, self.sample_size)
        return np.minimum(result, classes - 1)
