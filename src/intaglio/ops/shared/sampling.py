"""Images read at fractional places, in operators that have gradients: what the derivatives of sampling are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.dtype import INT64
from intaglio.ir.graph import Value
from intaglio.ops.shared.operand import cast, wide

Neighbours = list[tuple[Value, Value]]
"""Whole places along one axis, as floats, each with its weight."""


def scalar(b: Builder, value: Value) -> Value:
    """A tensor of one element as a scalar."""
    return b.Reshape(value, b.constant(np.zeros(0, np.int64)))


def size_of(b: Builder, value: Value, axis: int) -> Value:
    """The size of an axis as an int64 scalar."""
    return scalar(b, b.Shape(value, start=axis, end=axis + 1))


def count_up(b: Builder, count: Value) -> Value:
    """The integers from 0 on, so many."""
    return b.Range(b.constant(0, INT64), count, b.constant(1, INT64))


class Pixels:
    """The pixels of a batch of images [batch, channel, axes...] as rows of channels, read by batch and whole places."""

    def __init__(self, b: Builder, images: Value) -> None:
        rank = images.rank
        self.sizes = [size_of(b, images, axis) for axis in range(2, rank)]
        last = b.Transpose(wide(b, images), perm=(0, *range(2, rank), 1))
        channels = b.Shape(images, start=1, end=2)
        self._rows = b.Reshape(last, b.Concat(b.constant(np.array([-1])), channels, axis=0))
        self.dtype = last.dtype

    def read(self, b: Builder, batch: Value, places: Sequence[Value]) -> Value:
        """The channels, behind the axes of the places, which are floats and need not be inside."""
        index = batch
        for place, size in zip(places, self.sizes, strict=True):
            index = index * size + inside(b, place, size)
        return b.Gather(self._rows, index, axis=0)


def inside(b: Builder, place: Value, size: Value) -> Value:
    """Whole places as indices, those outside moved to the border; what is no number becomes 0."""
    zero = b.constant(0, place.dtype)
    number = b.Where(b.IsNaN(place), zero, place)
    return cast(b, b.Clip(number, zero, cast(b, size - 1, place.dtype)), INT64)


def is_inside(b: Builder, place: Value, size: Value) -> Value:
    """Whether whole places lie in the image."""
    return b.And(place >= 0, b.Less(place, cast(b, size, place.dtype)))


def sample(
    b: Builder,
    pixels: Pixels,
    batch: Value,
    axes: Sequence[Neighbours],
    fold: Callable[[Value, Value], Value] | None = None,
) -> Value:
    """The weighted sum over all corners; without `fold`, which moves places into the image, those outside are zero."""
    parts: list[Value] = []
    for corner in product(*axes):
        places = [place for place, _ in corner]
        weight = reduce(lambda a, c: a * c, (share for _, share in corner))
        if fold is None:
            near = [is_inside(b, place, size) for place, size in zip(places, pixels.sizes, strict=True)]
            weight = b.Where(reduce(b.And, near), weight, b.constant(0, weight.dtype))
        else:
            places = [fold(place, size) for place, size in zip(places, pixels.sizes, strict=True)]
        read = pixels.read(b, batch, places)
        parts.append(read * b.Unsqueeze(cast(b, weight, pixels.dtype), [-1]))
    return reduce(lambda a, c: a + c, parts)


def linear(b: Builder, place: Value) -> Neighbours:
    """The two pixels around a place."""
    base = b.Floor(place)
    rest = place - base
    return [(base, 1 - rest), (base + 1, rest)]


def cubic(b: Builder, place: Value) -> Neighbours:
    """The four pixels around a place, by cubic convolution with its free parameter at -0.75."""
    base, a = b.Floor(place), -0.75
    rest = place - base

    def near(t: Value) -> Value:
        return ((a + 2) * t - (a + 3)) * t * t + 1

    def far(t: Value) -> Value:
        return ((t - 5) * t + 8) * t * a - 4 * a

    return [(base - 1, far(rest + 1)), (base, near(rest)), (base + 1, near(1 - rest)), (base + 2, far(2 - rest))]
