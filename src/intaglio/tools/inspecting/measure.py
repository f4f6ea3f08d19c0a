"""The facts about one tensor, found in two walks over its parts, so that mapped files are not loaded whole."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import ml_dtypes
import numpy as np

from intaglio.ir.dtype import DType, from_numpy

PART = 1 << 20
"""So many elements are looked at at a time."""
FINE = 1 << 16
"""Quantiles of larger tensors are the middles of bins of a histogram of so many."""
QUANTILES = (0.001, 0.01, 0.25, 0.5, 0.75, 0.99, 0.999)
BARS = "▁▂▃▄▅▆▇█"

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Facts:
    """What is in a tensor. Ranges, quantiles and the histogram are of the finite elements."""

    name: str
    kind: str
    """weight, input, output or tensor."""
    dtype: str
    shape: tuple[int, ...]
    elements: int = 0
    bytes: int = 0
    nan: int = 0
    infinite: int = 0
    zeros: int = 0
    denormal: int = 0
    least: float | None = None
    largest: float | None = None
    mean: float | None = None
    deviation: float | None = None
    quantiles: tuple[tuple[float, float], ...] = ()
    """Shares of the elements, and the numbers below which they are."""
    histogram: tuple[int, ...] = ()
    """How many elements there are in each of equal parts of the range."""
    advice: tuple[str, ...] = ()

    @property
    def sparsity(self) -> float:
        """The share of elements that are zero."""
        return self.zeros / self.elements if self.elements else 0.0

    def sparkline(self, width: int = 16) -> str:
        """The histogram as a line of blocks; a bar that is not empty is never invisible."""
        if not self.histogram:
            return ""
        counts = [int(part.sum()) for part in np.array_split(np.array(self.histogram), min(width, len(self.histogram)))]
        top = max(max(counts), 1)
        return "".join(" " if not count else BARS[min(7, int(count / top * 7.999))] for count in counts)

    def to_dict(self) -> dict[str, Any]:
        """The facts as plain data."""
        return asdict(self) | {"shape": list(self.shape), "sparsity": self.sparsity, "advice": list(self.advice)}


def measure(name: str, array: Array, kind: str = "tensor", bins: int = 32) -> Facts:
    """The facts about an array; of text and complex numbers only the type, the shape and the size."""
    dtype = from_numpy(array.dtype)
    common: dict[str, Any] = {"elements": array.size, "bytes": array.nbytes}
    if dtype.kind in ("string", "complex") or not array.size:
        return Facts(name, kind, dtype.name, array.shape, **common)
    walk = _Walk(array, dtype)
    histogram, quantiles = _spread(array, walk, bins)
    return Facts(
        name,
        kind,
        dtype.name,
        array.shape,
        nan=walk.nan,
        infinite=walk.infinite,
        zeros=walk.zeros,
        denormal=walk.denormal,
        least=walk.least,
        largest=walk.largest,
        mean=walk.mean,
        deviation=walk.deviation,
        quantiles=quantiles,
        histogram=histogram,
        advice=tuple(walk.advice()),
        **common,
    )


def _parts(array: Array) -> Iterator[Array]:
    flat = array.reshape(-1)
    for start in range(0, flat.size, PART):
        yield flat[start : start + PART].astype(np.float64)


class _Walk:
    """What one walk over an array finds."""

    def __init__(self, array: Array, dtype: DType) -> None:
        self.dtype, self.size = dtype, array.size
        self.nan = self.infinite = self.zeros = self.denormal = self.count = 0
        self.halves = self.brains = self.whole = 0
        self.least: float | None = None
        self.largest: float | None = None
        self._sum = self._squares = 0.0
        for part in _parts(array):
            self._add(part)

    def _add(self, part: Array) -> None:
        self.nan += int(np.isnan(part).sum())
        self.infinite += int(np.isinf(part).sum())
        self.zeros += int((part == 0).sum())
        finite = part[np.isfinite(part)]
        if self.dtype.name in ("float32", "float64"):
            tiny = float(np.finfo(self.dtype.numpy).tiny)
            self.denormal += int(((finite != 0) & (np.abs(finite) < tiny)).sum())
        if not finite.size:
            return
        self.count += finite.size
        self._sum += float(finite.sum())
        with np.errstate(over="ignore"):
            self._squares += float(np.square(finite).sum())
            self.halves += int((finite.astype(np.float16).astype(np.float64) == finite).sum())
        self.brains += int((finite.astype(ml_dtypes.bfloat16).astype(np.float64) == finite).sum())
        self.whole += int((finite == np.rint(finite)).sum())
        least, largest = float(finite.min()), float(finite.max())
        self.least = least if self.least is None else min(self.least, least)
        self.largest = largest if self.largest is None else max(self.largest, largest)

    @property
    def mean(self) -> float | None:
        """The mean of the finite elements."""
        return self._sum / self.count if self.count else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the finite elements."""
        if not self.count or not math.isfinite(self._squares):
            return None
        return math.sqrt(max(0.0, self._squares / self.count - (self._sum / self.count) ** 2))

    def advice(self) -> Iterator[str]:
        """What could be done about the element type, and what is suspicious."""
        if self.nan:
            yield f"{self.nan} elements are NaN"
        if self.denormal:
            yield f"{self.denormal} elements are denormal: slow, and zero in some runtimes"
        if self.least is None or self.largest is None or self.size < 2:
            return
        if self.least == self.largest and self.count == self.size:
            yield f"all elements are {self.least:g}"
        elif self.zeros >= self.size / 2:
            yield f"{self.zeros / self.size:.0%} are zero"
        yield from self._narrower(max(-self.least, self.largest))

    def _narrower(self, bound: float) -> Iterator[str]:
        if self.dtype.name in ("int64", "int32"):
            names = [name for name, bits in (("int8", 7), ("int16", 15), ("int32", 31)) if bound < 2**bits]
            if names and names[0] != self.dtype.name:
                yield f"{names[0]} would hold them"
        if self.dtype.name not in ("float64", "float32"):
            return
        if self.whole == self.count and bound < 128 and self.count == self.size:
            yield "whole numbers: int8 would hold them"
        elif self.halves == self.count:
            yield "float16 holds them exactly"
        elif self.brains == self.count:
            yield "bfloat16 holds them exactly"
        elif bound > 65504:
            yield f"too large for float16 (up to {bound:.3g}); bfloat16 has the range"


def _spread(array: Array, walk: _Walk, bins: int) -> tuple[tuple[int, ...], tuple[tuple[float, float], ...]]:
    """The histogram of the finite elements, and their quantiles."""
    if walk.least is None or walk.largest is None:
        return (), ()
    low, high = walk.least, walk.largest
    if not math.isfinite(high - low):
        return (), ()
    if low == high:
        return (walk.count,), tuple((share, low) for share in QUANTILES)
    fine = bins * max(1, FINE // bins)
    counts = np.zeros(fine, np.int64)
    for part in _parts(array):
        counts += np.histogram(part[np.isfinite(part)], fine, (low, high))[0]
    coarse = tuple(int(count) for count in counts.reshape(bins, -1).sum(1))
    if array.size <= PART:
        finite = next(_parts(array))
        found = np.quantile(finite[np.isfinite(finite)], QUANTILES)
    else:
        places = np.searchsorted(np.cumsum(counts), np.array(QUANTILES) * walk.count)
        found = low + (np.minimum(places, fine - 1) + 0.5) * (high - low) / fine
    return coarse, tuple((share, float(number)) for share, number in zip(QUANTILES, found, strict=True))
