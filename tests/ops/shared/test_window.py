"""The size arithmetic of windows: against a count by hand, and the same for symbolic sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intaglio.errors import ShapeError
from intaglio.ir import dim, substitution
from intaglio.ops.shared.window import (
    Window,
    output_dim,
    pad_for_windows,
    resolve_pads,
    resolve_transposed_windows,
    resolve_windows,
    slide,
)

sizes = st.integers(1, 12)
small = st.integers(1, 4)
pads = st.integers(0, 3)


def count_windows(size: int, kernel: int, stride: int, dilation: int, begin: int, end: int, ceil_mode: bool) -> int:
    """How many windows fit, counted one by one; in ceil mode one may hang over but must start before the end pad."""
    count, reach = 0, (kernel - 1) * dilation + 1
    while True:
        start = count * stride
        fits = start + reach <= size + begin + end
        hangs = start + reach < size + begin + end + stride and start < size + begin
        if not (fits or (ceil_mode and hangs)) or (ceil_mode and start >= size + begin):
            return count
        count += 1


@given(sizes, small, small, small, pads, pads, st.booleans())
def test_output_dim(size: int, kernel: int, stride: int, dilation: int, begin: int, end: int, ceil_mode: bool) -> None:
    expected = count_windows(size, kernel, stride, dilation, begin, end, ceil_mode)
    assert max(int(output_dim(size, kernel, stride, dilation, begin, end, ceil_mode)), 0) == expected


@given(sizes, small, small, small, pads, pads, st.booleans())
def test_symbolic_size_means_the_same(
    size: int, kernel: int, stride: int, dilation: int, begin: int, end: int, ceil_mode: bool
) -> None:
    symbolic = output_dim(dim.symbol("N"), kernel, stride, dilation, begin, end, ceil_mode)
    plain = output_dim(size, kernel, stride, dilation, begin, end, ceil_mode)
    assert substitution.evaluate(symbolic, {"N": size}) == plain


@given(sizes, small, small, small, st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID"]))
def test_automatic_pads(size: int, kernel: int, stride: int, dilation: int, auto_pad: str) -> None:
    ((begin, end),) = resolve_pads(auto_pad, None, [size], [kernel], [stride], [dilation])
    if auto_pad == "VALID":
        assert (begin, end) == (0, 0)
        return
    assert output_dim(size, kernel, stride, dilation, begin, end) == -(-size // stride)
    assert 0 <= (end - begin if auto_pad == "SAME_UPPER" else begin - end) <= 1
    symbolic = resolve_pads(auto_pad, None, [dim.symbol("N")], [kernel], [stride], [dilation])
    assert [substitution.evaluate(pad, {"N": size}) for pad in symbolic[0]] == [begin, end]


def test_same_pads_of_stride_one_need_no_size() -> None:
    ((begin, end),) = resolve_pads("SAME_UPPER", None, [dim.symbol("N")], [4], [1], [1])
    assert (begin, end) == (1, 2)


@given(sizes, small, small, small, pads, pads, st.booleans())
def test_windows_are_what_they_read(
    size: int, kernel: int, stride: int, dilation: int, begin: int, end: int, ceil_mode: bool
) -> None:
    if output_dim(size, kernel, stride, dilation, begin, end, ceil_mode) < 0:
        return
    windows = resolve_windows([size], [kernel], [stride], [dilation], [begin, end], ceil_mode=ceil_mode)
    views = slide(pad_for_windows(np.arange(size), windows, -1), windows)
    assert views.shape == (windows[0].output, kernel)
    for i, j in np.ndindex(views.shape):
        place = i * stride + j * dilation - begin
        assert views[i, j] == (place if 0 <= place < size else -1)


@given(sizes, small, small, small, pads, pads)
def test_transposed_windows_undo_windows(
    size: int, kernel: int, stride: int, dilation: int, begin: int, end: int
) -> None:
    room = size + begin + end - (kernel - 1) * dilation - 1
    if room < 0:
        return
    (forward,) = resolve_windows([size], [kernel], [stride], [dilation], [begin, end])
    (back,) = resolve_transposed_windows(
        [forward.output], [kernel], [stride], [dilation], [begin, end], output_padding=[room % stride]
    )
    assert back.output == size


def test_reach_of_no_windows_is_zero() -> None:
    assert Window(1, 3, 1, 1, 0, 0, 0).reach == 2
    assert Window(0, 1, 2, 1, 0, 0, 0).reach == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strides": [0, 1]}, "strides"),
        ({"dilations": [1]}, "dilations"),
        ({"pads": [1, 1]}, "pads"),
        ({"pads": [0, 0, -1, 0]}, "negative"),
        ({"auto_pad": "SAME"}, "auto_pad"),
        ({"kernel_shape": [3]}, "kernel_shape"),
        ({"kernel_shape": [9, 1]}, "does not fit"),
    ],
)
def test_wrong_attributes(options: dict[str, object], message: str) -> None:
    arguments = {"input_dims": [5, 5], "kernel_shape": [3, 3], **options}
    with pytest.raises(ShapeError, match=message):
        resolve_windows(**arguments)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("pads", [[2**40, 0], [0, 2**40]])
def test_huge_pads_are_refused(pads: list[int]) -> None:
    with pytest.raises(ShapeError, match="no number may be over 2147483647"):
        resolve_windows([5], [3], [1], [1], pads)
