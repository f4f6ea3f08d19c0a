from __future__ import annotations

import numpy as np
import pytest

from intaglio.ops.shared.products import matrix_product


@pytest.mark.parametrize("rows", [1, 3, 7, 64, 111])
def test_equal_rows_give_equal_results(rows: int) -> None:
    left = np.full((rows, 147), 0.02, np.float32)
    right = np.random.default_rng(0).random((147, 301), np.float32)
    found = matrix_product(left, right)
    assert found.dtype == np.float32
    assert (found == found[:1]).all()
    exact = left.astype(np.float64) @ right.astype(np.float64)
    assert (np.abs(found - exact) <= np.spacing(found) / 2 * 1.001).all()


@pytest.mark.parametrize("last", [-1, np.nan, np.inf])
def test_what_may_overflow_is_left_to_single_precision(last: float) -> None:
    left, right = np.full((1, 3), 3e38, np.float32), np.array([[1], [1], [last]], np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(matrix_product(left, right), np.matmul(left, right))


def test_other_types_are_multiplied_in_their_own() -> None:
    integers = np.array([[2**62, 2**62]])
    assert matrix_product(integers, np.array([[2], [2]])).tolist() == [[0]]
    assert matrix_product(np.zeros((0, 3), np.float32), np.zeros((3, 2), np.float32)).shape == (0, 2)
    assert matrix_product(np.zeros((2, 0), np.float32), np.zeros((0, 2), np.float32)).tolist() == [[0, 0], [0, 0]]
