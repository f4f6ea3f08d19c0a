"""Random numbers.

They come from Philox 4x64-10, a generator whose numbers are a function of a key and of their place: so any part of a
tensor can be drawn by itself, and compiled code draws the same numbers. An operator with a seed gives the same numbers
in every evaluation; without one the key is new each time.
"""

from __future__ import annotations

import math
import os
import struct
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import DType, from_numpy
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op, Rows
from intaglio.ir.types import TensorType, Type
from intaglio.ops.cast import convert
from intaglio.ops.shared.elementwise import FLOATS, check_kind
from intaglio.ops.shared.indices import check_size, numbered_dtype
from intaglio.ops.shared.operand import cast, wide_dtype


def key_of(seed: float | None) -> Array:
    """The key of the generator: all bits of the seed, or a new one."""
    if seed is None:
        return np.frombuffer(os.urandom(16), np.uint64)
    return np.array([int.from_bytes(struct.pack("<d", seed), "little"), 0], np.uint64)


def words(seed: float | None, count: int) -> Array:
    """So many random words of 64 bits."""
    return np.random.Philox(key=key_of(seed)).random_raw(count)


def fractions(random: Array, bits: int = 53) -> Array:
    """Numbers from 0 to below 1, from the leading bits of random words."""
    return (random >> np.uint64(64 - bits)) * 2.0**-bits


def uniform_bits(dtype: DType) -> int:
    """How many bits an element type holds exactly: with so many, no number is rounded up to 1."""
    return {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}.get(dtype.name, 4)


def normals(random: Array) -> Array:
    """Numbers from the normal distribution, two from each pair of words, by the method of Box and Muller."""
    length, turns = fractions(random).reshape(-1, 2).T
    length, quarters = np.sqrt(-2 * np.log(1 - length)), np.rint(4 * turns)
    angle, quadrant = (4 * turns - quarters) * (np.pi / 2), quarters.astype(np.int64) % 4
    cosine, sine = np.cos(angle), np.sin(angle)
    first = np.choose(quadrant, [cosine, -sine, -cosine, sine])
    second = np.choose(quadrant, [sine, cosine, -sine, -cosine])
    return (length[:, None] * np.stack([first, second], axis=1)).reshape(-1)


class Random(Op, abstract=True):
    """A draw of `draw` in double precision, rounded to the element type."""

    is_random: ClassVar[bool] = True
    seed: float | None = None

    def draw(self, count: int, dtype: DType) -> Array:
        """Random numbers in double precision."""
        raise NotImplementedError

    def sample(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """Random numbers of an element type."""
        check_size(shape, np.dtype(np.float64))
        return convert(self.draw(math.prod(shape), dtype).reshape(shape), dtype)


class Normal(Random, abstract=True):
    """Numbers from a normal distribution with the given mean and standard deviation."""

    mean: float = 0.0
    scale: float = 1.0

    def draw(self, count: int, dtype: DType) -> Array:
        return normals(words(self.seed, count + count % 2))[:count] * self.scale + self.mean


class Uniform(Random, abstract=True):
    """Numbers from the range from `low` to `high`, each as likely as the others."""

    high: float = 1.0
    low: float = 0.0

    def draw(self, count: int, dtype: DType) -> Array:
        return fractions(words(self.seed, count), uniform_bits(dtype)) * (self.high - self.low) + self.low


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

    def pullback(self, b: Builder, inputs: Any, outputs: Any, output_bars: Any) -> tuple[None]:
        return (None,)


class RandomNormal(RandomOfShape, Normal):
    """Numbers from a normal distribution with the given mean and standard deviation."""

    no_gradient = "its results are random"


class RandomNormalLike(RandomLike, Normal):
    """Numbers from a normal distribution, in the shape of the input."""

    keeps_rows = Rows.BY_AXES

    no_gradient = "its results are random"


class RandomUniform(RandomOfShape, Uniform):
    """Numbers from the range from `low` to `high`, each as likely as the others."""

    no_gradient = "its results are random"


class RandomUniformLike(RandomLike, Uniform):
    """Numbers from the range from `low` to `high`, in the shape of the input."""

    keeps_rows = Rows.BY_AXES

    no_gradient = "its results are random"


class Bernoulli(Op):
    """One with the probability that the input gives, else zero."""

    keeps_rows = Rows.BY_AXES

    no_gradient = "its results are random"
    is_random: ClassVar[bool] = True
    dtype: int | None = None
    seed: float | None = None

    def infer(self, input: Value) -> Type:
        check_kind("Bernoulli", input.dtype, FLOATS)
        return input.type if self.dtype is None else input.tensor.with_dtype(numbered_dtype(self.dtype))

    def expand(self, b: Builder, input: Value) -> Value:
        dtype = wide_dtype(input.dtype)  # a narrow type has too few numbers for small chances
        is_one = b.Less(b.RandomUniformLike(input, seed=self.seed, dtype=dtype.number), cast(b, input, dtype))
        return b.Cast(is_one, to=input.dtype.number if self.dtype is None else self.dtype)


class Multinomial(Op):
    """The numbers of `sample_size` classes for each row of unnormalized log-probabilities, drawn independently."""

    no_gradient = "its results are integers"
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
        drawn = fractions(words(self.seed, rows * self.sample_size)).reshape(rows, self.sample_size) * bounds[:, -1:]
        numbers = [np.searchsorted(row, points, side="right") for row, points in zip(bounds, drawn, strict=True)]
        result = np.array(numbers, dtype=numbered_dtype(self.dtype).numpy).reshape(rows, self.sample_size)
        return np.minimum(result, classes - 1)
