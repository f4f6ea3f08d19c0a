"""Distances in units in the last place, against what each type's own arithmetic says about its neighbours."""

from __future__ import annotations

import math

import numpy as np
import pytest

from intaglio.conformance.ulp import distance, scaled, steps, worst
from intaglio.ir.dtype import DTYPES, FLOAT8E8M0

FLOATS = [dtype for dtype in DTYPES.values() if dtype.is_float]
SMALL = [dtype for dtype in FLOATS if dtype.bits <= 16]


@pytest.mark.parametrize("type", [np.float16, np.float32, np.float64])
def test_neighbours_are_one_apart(type) -> None:
    values = np.array([0.0, -0.0, 1.0, -1.0, 0.1, -3.0, 1e-7, np.finfo(type).max, np.finfo(type).tiny], type)
    for towards in (np.inf, -np.inf):
        with np.errstate(over="ignore"):
            neighbours = np.nextafter(values, type(towards))
        assert distance(values, neighbours).tolist() == [1.0] * len(values)


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_distance_counts_the_values_between(dtype) -> None:
    """All values of a type in order lie one apart, so two of them are as far apart as their places."""
    codes = np.arange(1 << dtype.bits, dtype=f"u{dtype.itemsize}")
    values = codes.view(dtype.numpy)
    with np.errstate(invalid="ignore"):  # NaNs that signal
        numbers = values.astype(np.float64)
    ordered = np.unique(numbers[~np.isnan(numbers)])
    chosen = np.random.default_rng(0).integers(0, len(ordered), (2, 300))
    left, right = (ordered[places].astype(dtype.numpy) for places in chosen)
    assert distance(left, right).tolist() == np.abs(chosen[0] - chosen[1]).tolist()


@pytest.mark.parametrize("dtype", [dtype for dtype in FLOATS if dtype.bits >= 8], ids=str)
def test_nan_equals_nan_and_nothing_else(dtype) -> None:
    one, nan = np.ones(1, dtype.numpy), np.full(1, np.nan).astype(dtype.numpy)
    assert np.isnan(nan.astype(np.float64)).all()
    assert distance(nan, nan).tolist() == [0.0]
    assert distance(nan, one).tolist() == distance(one, nan).tolist() == [math.inf]


def test_nan_of_any_bits_is_nan() -> None:
    odd = np.array([0x7FC00001, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert distance(odd, np.full(2, np.nan, np.float32)).tolist() == [0.0, 0.0]


def test_zeros_infinities_and_the_whole_range() -> None:
    zero, infinity = np.zeros(1), np.full(1, np.inf)
    assert distance(zero, -zero).tolist() == [0.0]
    assert distance(infinity, infinity).tolist() == [0.0]
    assert distance(infinity, np.full(1, np.finfo(np.float64).max)).tolist() == [1.0]
    assert distance(-infinity, infinity).tolist() == [2.0 * 0x7FF0000000000000]
    assert distance(np.full(1, 5e-324), np.full(1, -5e-324)).tolist() == [2.0]


def test_a_type_without_sign_is_ordered_by_its_bits() -> None:
    powers = np.array([1.0, 2.0, 4.0, 2.0**-127]).astype(FLOAT8E8M0.numpy)
    assert distance(powers, powers[::-1]).tolist() == [127.0, 1.0, 1.0, 127.0]


def test_memory_order_and_rank_do_not_matter() -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    moved = np.nextafter(values, np.float32(100))
    assert distance(values.T, moved.T).tolist() == np.ones((4, 3)).tolist()
    assert distance(np.array(1, np.float32), np.array(1, np.float32)).shape == ()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_scaled_counts_steps_at_the_largest_number(dtype) -> None:
    step = np.finfo(dtype).eps
    expected = np.array([0, 1.5, -1.25, np.inf, np.nan], dtype)
    assert scaled(expected, expected) == 0.0
    found = np.array([step / 4, 1.5, -1.25 + 2 * step, np.inf, np.nan], dtype)
    assert scaled(expected, found) == 2.0
    found[2] = expected[2]
    assert scaled(expected, found) == 0.25
    assert steps(expected, found) > 1000
    found[3] = 1
    assert scaled(expected, found) == math.inf
    assert scaled(expected[4:], expected[:1]) == math.inf


def test_denormals_count_as_zero_in_scaled_distances_alone() -> None:
    for dtype in (np.float32, np.float64):
        zero, denormal = np.zeros(1, dtype), np.full(1, np.finfo(dtype).smallest_subnormal, dtype) * 1000
        assert (steps(zero, denormal), scaled(zero, denormal)) == (1000.0, 0.0)
        assert scaled(zero, np.full(1, np.finfo(dtype).tiny)) > 1000
    half = np.array([0, 6e-8], np.float16)
    assert scaled(half[:1], half[1:]) == 1.0


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_scaled_and_plain_steps_agree_at_the_largest_number(dtype) -> None:
    largest = np.ones(1, dtype.numpy)
    below = (largest.view(f"u{dtype.itemsize}") - 1).astype(f"u{dtype.itemsize}").view(dtype.numpy)
    assert scaled(largest, below) == steps(largest, below) == 1.0


def test_worst_goes_into_sequences_and_complex_numbers() -> None:
    one, next_one = np.array([1.0], np.float32), np.nextafter(np.array([1.0], np.float32), np.float32(2))
    assert worst([one, [one, one]], [one, [one, next_one]]) == 1.0
    assert worst([one + 1j * one], [(one + 1j * next_one).astype(np.complex64)]) == 1.0
    assert (
        worst([np.array([1], np.int64), np.array(["a"], object)], [np.array([5], np.int64), np.array(["b"], object)])
        is None
    )
    assert worst([], []) is None
    assert worst([np.zeros((0, 2), np.float32)], [np.zeros((0, 2), np.float32)]) == 0.0


@pytest.mark.parametrize(
    "found",
    [[], [np.array([1], np.float64)], [np.array([1, 1], np.float32)], [[np.array([1], np.float32)]], [None]],
    ids=str,
)
def test_another_type_or_shape_is_infinitely_far(found) -> None:
    assert worst([np.array([1], np.float32)], found) == math.inf
