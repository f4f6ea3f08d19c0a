"""Buffers, and views of them: the strided windows that transposes, slices and broadcasts are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from intaglio.ir.dim import Dim, product
from intaglio.ir.dtype import DType

BufferKind = Literal["input", "output", "constant", "arena", "late", "place"]


@dataclass(eq=False)
class Buffer:
    """Contiguous memory of one materialised value; `size` counts elements. Where it lies is decided by the plan.

    A buffer that `is_late` is allocated in the run, when its size becomes known; one that `is_shared` may hold another
    buffer's memory after a while, so it cannot become an output.
    One that is a "place" has no memory of its own: it is `place_offset` elements behind the begin of another buffer,
    its `place`, or where a pointer of the driver says, which a loop's rounds change.
    """

    name: str
    dtype: DType
    size: Dim
    kind: BufferKind = "arena"
    index: int = -1
    is_late: bool = False
    is_shared: bool = False
    shape: tuple[Dim, ...] = ()
    place: Buffer | None = None
    place_offset: Dim = 0

    @property
    def home(self) -> Buffer:
        """The buffer whose memory this one's is."""
        return self if self.place is None else self.place.home

    @property
    def home_offset(self) -> Dim:
        """How many elements behind the begin of its home it begins."""
        return 0 if self.place is None else self.place_offset + self.place.home_offset

    @property
    def bytes(self) -> Dim:
        """The size in bytes."""
        return self.size * self.dtype.itemsize


@dataclass(frozen=True)
class View:
    """Elements of a buffer: element i of the view lies at offset + sum(i * strides)."""

    buffer: Buffer
    offset: Dim
    shape: tuple[Dim, ...]
    strides: tuple[Dim, ...]

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie side by side in row-major order."""
        expected = row_major(self.shape)
        return all(s == e or d == 1 for s, e, d in zip(self.strides, expected, self.shape, strict=True))

    @property
    def is_whole(self) -> bool:
        """Whether these are all elements of the buffer, side by side in row-major order."""
        return self.is_contiguous and self.offset == 0 and product(self.shape) == self.buffer.size

    def transpose(self, permutation: Sequence[int]) -> View:
        """The view with its axes in another order."""
        shape = tuple(self.shape[axis] for axis in permutation)
        return View(self.buffer, self.offset, shape, tuple(self.strides[axis] for axis in permutation))

    def broadcast(self, shape: tuple[Dim, ...]) -> View:
        """The view repeated along axes of extent 1 to a larger shape."""
        missing = len(shape) - len(self.shape)
        strides: list[Dim] = [0] * missing
        for extent, wanted, stride in zip(self.shape, shape[missing:], self.strides, strict=True):
            strides.append(0 if extent == 1 and wanted != 1 else stride)
        return View(self.buffer, self.offset, shape, tuple(strides))

    def spelled(self, shape: tuple[Dim, ...]) -> View:
        """The same view with its sizes written in another way: by expressions that the plan takes to be equal."""
        strides = row_major(shape) if self.is_contiguous else self.strides
        return self if shape == self.shape else View(self.buffer, self.offset, shape, strides)

    def window(self, axis: int, start: Dim, step: Dim, extent: Dim) -> View:
        """Every `step`-th element along an axis, from `start` on."""
        shape, strides = list(self.shape), list(self.strides)
        offset = self.offset + start * strides[axis]
        shape[axis], strides[axis] = extent, strides[axis] * step
        return View(self.buffer, offset, tuple(shape), tuple(strides))

    def reshape(self, shape: tuple[Dim, ...]) -> View | None:
        """The same elements in another shape, or None where that needs a copy."""
        if self.is_contiguous:
            return View(self.buffer, self.offset, shape, row_major(shape))
        kept = [(d, s) for d, s in zip(self.shape, self.strides, strict=True) if d != 1]
        if [d for d, _ in kept] != [d for d in shape if d != 1]:
            return self._split_or_merge(shape)
        remaining = iter(kept)
        strides = tuple(0 if d == 1 else next(remaining)[1] for d in shape)
        return View(self.buffer, self.offset, shape, strides)

    def _split_or_merge(self, shape: tuple[Dim, ...]) -> View | None:
        """Match groups of axes with equal products, each group being contiguous within itself."""
        strides: list[Dim] = []
        old = [(d, s) for d, s in zip(self.shape, self.strides, strict=True) if d != 1]
        new = [d for d in shape if d != 1]
        while new:
            if not old:
                return None
            taken, given = [old.pop(0)], [new.pop(0)]
            while product(d for d, _ in taken) != product(given):
                if len(taken) > len(given) and new:
                    given.append(new.pop(0))
                elif old and len(taken) <= len(given) and _is_larger(given, taken):
                    taken.append(old.pop(0))
                elif new:
                    given.append(new.pop(0))
                else:
                    return None
            if any(taken[i][1] != taken[i + 1][1] * taken[i + 1][0] for i in range(len(taken) - 1)):
                return None
            strides += [stride * taken[-1][1] for stride in row_major(tuple(given))]
        if old:
            return None
        remaining = iter(strides)
        return View(self.buffer, self.offset, shape, tuple(0 if d == 1 else next(remaining) for d in shape))


def _is_larger(given: list[Dim], taken: list[tuple[Dim, Dim]]) -> bool:
    left, right = product(given), product(d for d, _ in taken)
    return not isinstance(left, int) or not isinstance(right, int) or left > right


def row_major(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The strides of a contiguous tensor, in elements.

    >>> row_major((2, 3, 4))
    (12, 4, 1)
    """
    strides: list[Dim] = []
    step: Dim = 1
    for extent in reversed(shape):
        strides.append(step)
        step = extent * step
    return tuple(reversed(strides))


def whole(buffer: Buffer, shape: tuple[Dim, ...]) -> View:
    """All of a buffer, in row-major order."""
    return View(buffer, 0, shape, row_major(shape))


@dataclass(frozen=True)
class Loops:
    """An iteration space shared by several views: extents, and the strides of each view along them."""

    extents: tuple[Dim, ...]
    strides: tuple[tuple[Dim, ...], ...]

    @property
    def rank(self) -> int:
        """The number of loops."""
        return len(self.extents)


def collapse(shape: tuple[Dim, ...], views: Sequence[View], keep: int = 0) -> Loops:
    """Merge neighbouring axes along which all views advance evenly, and drop axes of extent 1.

    `keep` is the number of trailing axes that must not merge with those before them.
    """
    border = len(shape) - keep
    strides = [view.strides for view in views]
    front = collapse_strides(shape[:border], [row[:border] for row in strides])
    back = collapse_strides(shape[border:], [row[border:] for row in strides])
    joined = tuple(left + right for left, right in zip(front.strides, back.strides, strict=True))
    return Loops(front.extents + back.extents, joined)


def collapse_strides(extents: Sequence[Dim], strides: Sequence[Sequence[Dim]]) -> Loops:
    """Merge neighbouring loops along which every operand advances evenly, and drop loops of extent 1."""
    merged: list[Dim] = []
    kept: list[list[Dim]] = [[] for _ in strides]
    for axis, extent in enumerate(extents):
        if extent == 1:
            continue
        columns = [rows[axis] for rows in strides]
        if merged and all(rows[-1] == column * extent for rows, column in zip(kept, columns, strict=True)):
            merged[-1] = merged[-1] * extent
            for rows, column in zip(kept, columns, strict=True):
                rows[-1] = column
            continue
        merged.append(extent)
        for rows, column in zip(kept, columns, strict=True):
            rows.append(column)
    return Loops(tuple(merged), tuple(tuple(rows) for rows in kept))
