"""The algebra of views, against NumPy's own strides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intaglio.ir.dim import Dim, compare, symbol
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.substitution import evaluate
from intaglio.kernels.view import Buffer, Loops, View, collapse, row_major, whole
from intaglio.kernels.views import first_index

Array = np.ndarray[Any, Any]
SHAPES = st.lists(st.integers(0, 6), max_size=5).map(tuple)


def view_of(shape: tuple[int, ...]) -> tuple[View, Array]:
    """A view of a whole buffer, and the array of the places in it."""
    size = int(np.prod(shape, dtype=np.int64))
    return whole(Buffer("x", FLOAT32, size), shape), np.arange(size).reshape(shape)


def places(view: View) -> Array:
    """The place in the buffer of each element."""
    shape = tuple(int(dim) for dim in view.shape)
    grid = np.full(shape, int(view.offset))
    for axis, stride in enumerate(view.strides):
        line = np.arange(shape[axis]) * int(stride)
        grid = grid + line.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return grid


@st.composite
def moved(draw: st.DrawFn) -> tuple[View, Array]:
    """A view after a few transposes, windows and broadcasts, and the array after the same."""
    view, array = view_of(draw(SHAPES))
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["transpose", "window", "broadcast"]))
        if kind == "transpose":
            order = draw(st.permutations(range(array.ndim)))
            view, array = view.transpose(order), array.transpose(order)
        elif kind == "window" and array.size:
            axis = draw(st.integers(0, max(0, array.ndim - 1)))
            if array.ndim:
                start, step = draw(st.integers(0, array.shape[axis] - 1)), draw(st.sampled_from([-2, -1, 1, 2]))
                lines = range(start, array.shape[axis] if step > 0 else -1, step)
                view = view.window(axis, start, step, len(lines))
                array = np.take(array, list(lines), axis)
        else:
            shape = tuple(draw(st.integers(1, 4)) if extent == 1 else extent for extent in array.shape)
            view, array = view.broadcast((2, *shape)), np.broadcast_to(array, (2, *shape))
    return view, array


@given(pair=moved())
def test_views_are_where_numpy_puts_them(pair: tuple[View, Array]) -> None:
    view, array = pair
    assert view.shape == array.shape
    np.testing.assert_array_equal(places(view), array)


@given(pair=moved(), data=st.data())
def test_a_reshape_is_right_or_refused(pair: tuple[View, Array], data: st.DataObject) -> None:
    view, array = pair
    factors = [extent for extent in array.shape if extent > 1]
    split = [part for n in factors for part in data.draw(st.sampled_from([[n], [1, n], *_splits(n)]))]
    shape: list[int] = []
    for part in split:
        if shape and data.draw(st.booleans()):
            shape[-1] *= part
        else:
            shape.append(part)
    wanted = tuple(shape) if array.size else (*array.shape, 1)
    result = view.reshape(wanted)
    if result is not None:
        assert result.shape == wanted
        np.testing.assert_array_equal(places(result), array.reshape(wanted))
    else:
        assert not view.is_contiguous


def _splits(number: int) -> list[list[int]]:
    return [[d, number // d] for d in range(2, number) if number % d == 0]


@given(shape=SHAPES)
def test_row_major_is_numpys(shape: tuple[int, ...]) -> None:
    expected = [stride // 4 for stride in np.empty(shape, np.float32).strides] if 0 not in shape else row_major(shape)
    assert list(row_major(shape)) == list(expected)


@given(pair=moved())
def test_contiguous_means_side_by_side(pair: tuple[View, Array]) -> None:
    view, array = pair
    if view.is_contiguous and array.size:
        np.testing.assert_array_equal(array.ravel(), array.ravel()[0] + np.arange(array.size))


@given(pair=moved(), keep=st.integers(0, 2))
def test_collapsed_loops_visit_the_same_places_in_order(pair: tuple[View, Array], keep: int) -> None:
    view, array = pair
    keep = min(keep, array.ndim)
    loops = collapse(view.shape, [view], keep)
    assert isinstance(loops, Loops)
    visited = View(view.buffer, view.offset, loops.extents, loops.strides[0])
    np.testing.assert_array_equal(places(visited).ravel(), array.ravel())
    assert all(extent != 1 for extent in loops.extents)


def test_symbolic_reshapes() -> None:
    n, m = symbol("n"), symbol("m")
    view = whole(Buffer("x", FLOAT32, n * m * 6), (n, m, 6))
    assert view.reshape((n * m, 2, 3)) == View(view.buffer, 0, (n * m, 2, 3), (6, 3, 1))
    swapped = view.transpose([1, 0, 2])
    assert swapped.reshape((m, n, 2, 3)) == View(view.buffer, 0, (m, n, 2, 3), (6, m * 6, 3, 1))
    assert swapped.reshape((n * m, 6)) is None
    assert swapped.reshape((m, 1, n, 6)) == View(view.buffer, 0, (m, 1, n, 6), (6, 0, m * 6, 1))


def test_a_symbolic_window_of_a_broadcast() -> None:
    n = symbol("n")
    view = whole(Buffer("x", FLOAT32, n), (n, 1)).broadcast((n, 5)).window(0, n - 1, -1, n)
    assert (view.offset, view.strides) == (n - 1, (-1, 0))


@pytest.mark.parametrize("start", [-(2**63), -7, -6, -5, -1, 0, 1, 4, 5, 6, 2**63 - 1])
@pytest.mark.parametrize("step", [-2, -1, 1, 3])
@pytest.mark.parametrize("extent", [0, 1, 5])
def test_the_first_index_of_a_slice(start: int, step: int, extent: int) -> None:
    expected = max(slice(start, None, step).indices(extent)[0], 0)  # Python's would be -1 before the first element
    assert first_index(start, extent, step) == expected
    n = symbol("n")
    first = first_index(start, n, step)
    assert first is not None
    assert evaluate(first, {"n": extent}) == expected


def test_a_start_of_unknown_sign_is_no_view() -> None:
    n, m = symbol("n"), symbol("m")
    start: Dim = n - m
    assert compare(start, 0) is None
    assert first_index(start, 5, 1) is None
    assert first_index(n, 5, 1) is not None
