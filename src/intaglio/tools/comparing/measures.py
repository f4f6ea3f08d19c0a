"""How far two tensors are apart, part by part, so that large ones need little memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np

from intaglio.ir.dtype import DType, from_numpy
from intaglio.ir.steps import distance
from intaglio.tools.comparing.tolerances import Tolerances

PART = 1 << 18
"""So many elements are compared at a time."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Difference:
    """How far a tensor is from what is expected of it. `text` says what is wrong, and is empty where nothing is.

    `absolute`, `relative` and `ulp` are the largest distances of elements that are finite on both sides; `cosine` is
    that of the angle between both, and `psnr` the peak signal-to-noise ratio in decibels; None where there is none.
    """

    name: str
    text: str = ""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    elements: int = 0
    wrong: int = 0
    absolute: float = 0.0
    relative: float = 0.0
    ulp: float | None = None
    cosine: float | None = None
    psnr: float | None = None
    rtol: float = 0.0
    atol: float = 0.0
    sample: int = 0

    @property
    def is_equal(self) -> bool:
        """Whether the tensor is within its tolerance."""
        return not self.text

    def to_dict(self) -> dict[str, Any]:
        """The difference as plain data; numbers that JSON lacks are text."""
        found = asdict(self) | {"shape": list(self.shape), "is_equal": self.is_equal}
        return {key: _plain(value) for key, value in found.items()}


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def worse(first: Difference | None, second: Difference) -> Difference:
    """The one of two differences of one tensor that is further from what is expected."""
    if first is None or (first.is_equal, -first.absolute) > (second.is_equal, -second.absolute):
        return second
    return first


def compare_values(name: str, expected: Any, found: Any, tolerances: Tolerances, sample: int = 0) -> Difference:
    """How far a value is from what is expected, whatever kind of value it is; the items of a list count together."""
    if isinstance(expected, (list, tuple)) or isinstance(found, (list, tuple)):
        return _compare_lists(name, expected, found, tolerances, sample)
    if expected is None or found is None or isinstance(expected, dict) or isinstance(found, dict):
        text = "" if _is_same(expected, found) else f"is {_brief(found)} where {_brief(expected)} is expected"
        return Difference(name, text, type(expected).__name__, sample=sample, wrong=1 if text else 0)
    return compare_arrays(name, np.asarray(expected), np.asarray(found), tolerances, sample)


def _is_same(expected: Any, found: Any) -> bool:
    if type(expected) is not type(found):
        return False
    if not isinstance(expected, dict):
        return bool(expected == found)
    ours, theirs = cast("dict[Any, Any]", expected), cast("dict[Any, Any]", found)
    return ours.keys() == theirs.keys() and all(
        np.allclose(np.asarray(ours[key]), np.asarray(theirs[key]), rtol=1e-4, equal_nan=True) for key in ours
    )


def _brief(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _compare_lists(name: str, expected: Any, found: Any, tolerances: Tolerances, sample: int) -> Difference:
    if not isinstance(expected, (list, tuple)) or not isinstance(found, (list, tuple)):
        return Difference(
            name, f"is {_brief(found)} where {_brief(expected)} is expected", "list", wrong=1, sample=sample
        )
    ours, theirs = cast("list[Any]", found), cast("list[Any]", expected)
    if len(ours) != len(theirs):
        text = f"has {len(ours)} items where {len(theirs)} are expected"
        return Difference(name, text, "list", (len(theirs),), wrong=1, sample=sample)
    worst: Difference | None = None
    for right, left in zip(theirs, ours, strict=True):
        worst = worse(worst, compare_values(name, right, left, tolerances, sample))
    return worst or Difference(name, dtype="list", shape=(0,), sample=sample)


def compare_arrays(name: str, expected: Array, found: Array, tolerances: Tolerances, sample: int = 0) -> Difference:
    """How far an array is from what is expected."""
    dtype = from_numpy(expected.dtype)
    common: dict[str, Any] = {"dtype": dtype.name, "shape": expected.shape, "elements": expected.size, "sample": sample}
    if from_numpy(found.dtype) != dtype:
        text = f"is {from_numpy(found.dtype)} where {dtype} is expected"
        return Difference(name, text, wrong=expected.size, **common)
    if found.shape != expected.shape:
        text = f"has the shape {list(found.shape)} where {list(expected.shape)} is expected"
        return Difference(name, text, wrong=expected.size, **common)
    if dtype.kind == "string":
        wrong = int(np.count_nonzero(expected.astype(str) != found.astype(str)))
        return Difference(name, _count_text(wrong, expected.size, None, expected.shape), wrong=wrong, **common)
    return _compare_numbers(name, expected, found, dtype, tolerances, common)


def _compare_numbers(
    name: str, expected: Array, found: Array, dtype: DType, tolerances: Tolerances, common: dict[str, Any]
) -> Difference:
    rtol, atol = tolerances.of(name, dtype.name)
    if atol is None:
        atol = rtol * _typical(expected)
    sums = _Sums(rtol, atol, dtype)
    for start, right, left in _parts(expected, found):
        sums.add(start, right, left)
    text = _count_text(sums.wrong, expected.size, sums.first, expected.shape)
    if text and sums.first is not None:
        text += f": {found.reshape(-1)[sums.first]!s} where {expected.reshape(-1)[sums.first]!s} is expected"
    return Difference(
        name,
        text,
        wrong=sums.wrong,
        absolute=sums.absolute,
        relative=sums.relative,
        ulp=sums.ulp if dtype.is_float else None,
        cosine=sums.cosine,
        psnr=sums.psnr,
        rtol=rtol,
        atol=atol,
        **common,
    )


def _count_text(wrong: int, size: int, first: int | None, shape: tuple[int, ...]) -> str:
    if not wrong:
        return ""
    place = "" if first is None else f", first at {[int(i) for i in np.unravel_index(first, shape)]}"
    return f"{wrong} of {size} elements differ{place}"


def _typical(array: Array) -> float:
    """The root of the mean square of the finite elements: errors of a sum are measured by it, also next to zero."""
    total, count = 0.0, 0
    for _, part, _ in _parts(array, array):
        finite = part[np.isfinite(part)]
        total, count = total + float(np.square(np.abs(finite)).sum()), count + finite.size
    return math.sqrt(total / count) if count and math.isfinite(total) else 0.0


def _parts(expected: Array, found: Array) -> Iterator[tuple[int, Array, Array]]:
    """Both arrays in parts of double precision, each with the place of its first element."""
    right, left = expected.reshape(-1), found.reshape(-1)
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    for start in range(0, right.size, PART):
        window = slice(start, start + PART)
        if right.dtype == left.dtype and right.dtype.kind in "iub" and right.dtype.itemsize == 8:
            yield start, right[window], left[window]  # double precision would not hold them
        else:
            yield start, right[window].astype(wide), left[window].astype(wide)


class _Sums:
    """What is known of two arrays after some of their parts."""

    def __init__(self, rtol: float, atol: float, dtype: DType) -> None:
        self.rtol, self.atol, self.dtype = rtol, atol, dtype
        self.wrong, self.first = 0, None
        self.absolute = self.relative = self.ulp = 0.0
        self._dot = self._right = self._left = self._error = self._peak = 0.0
        self._count = 0
        self.first: int | None = None

    def add(self, start: int, right: Array, left: Array) -> None:
        """Take one part in."""
        if right.dtype.kind not in "fc":
            self._add_integers(start, right, left)
            return
        with np.errstate(all="ignore"):
            apart = np.abs(left - right)
            finite = np.isfinite(left) & np.isfinite(right)
            is_near = finite & (apart <= self.atol + self.rtol * np.abs(right))
            is_same = (left == right) | (np.isnan(left) & np.isnan(right))
        self._note(start, ~(is_near | is_same))
        self._add_finite(right[finite], left[finite], apart[finite])

    def _add_integers(self, start: int, right: Array, left: Array) -> None:
        apart = np.where(right > left, right - left, left - right).astype(np.uint64).astype(np.float64)
        self._note(start, apart > self.atol + self.rtol * np.abs(right.astype(np.float64)))
        self._add_finite(right.astype(np.float64), left.astype(np.float64), apart)

    def _note(self, start: int, is_wrong: Array) -> None:
        count = int(np.count_nonzero(is_wrong))
        if count and self.first is None:
            self.first = start + int(np.argmax(is_wrong))
        self.wrong += count

    def _add_finite(self, right: Array, left: Array, apart: Array) -> None:
        if not right.size:
            return
        with np.errstate(all="ignore"):
            self.absolute = max(self.absolute, float(apart.max()))
            ratio = apart / np.abs(right)
            self.relative = max(self.relative, float(np.where(apart > 0, ratio, 0.0).max()))
            self._dot += float(np.real(np.vdot(right, left)))
            self._right += float(np.square(np.abs(right)).sum())
            self._left += float(np.square(np.abs(left)).sum())
            self._error += float(np.square(apart).sum())
        self._peak = max(self._peak, float(np.abs(right).max()))
        self._count += right.size
        if self.dtype.is_float:
            steps = distance(right.astype(self.dtype.numpy), left.astype(self.dtype.numpy))
            self.ulp = max(self.ulp, float(steps.max()))

    @property
    def cosine(self) -> float | None:
        """The cosine of the angle between the arrays."""
        size = math.sqrt(self._right) * math.sqrt(self._left)
        return min(1.0, self._dot / size) if size > 0 and math.isfinite(size) else None

    @property
    def psnr(self) -> float | None:
        """The peak signal-to-noise ratio; infinite where the arrays are equal."""
        if not self._count or self._peak == 0 or not math.isfinite(self._error):
            return None
        mean = self._error / self._count
        return math.inf if mean == 0 else 10 * math.log10(self._peak**2 / mean)
