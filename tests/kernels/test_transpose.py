"""Transposed copies: every element size, sizes around the tiles, symbolic and empty."""

import ml_dtypes
import numpy as np
import pytest

from intaglio.targets.c.printing.transpose import exchanges, final_rows

RNG = np.random.default_rng(3)


@pytest.mark.parametrize(("lanes", "unit"), [(2, 2), (4, 2), (8, 2), (4, 4), (8, 4), (16, 4), (8, 8)])
def test_exchanges_transpose_a_square(lanes, unit):
    rows = list(np.arange(lanes * lanes).reshape(lanes, lanes))
    for low, high, picks in exchanges(lanes, unit):
        both = np.concatenate([rows[low], rows[high]])
        rows[low], rows[high] = both[picks[0]], both[picks[1]]
    found = np.array([rows[place] for place in final_rows(lanes, unit)])
    assert found.tolist() == np.arange(lanes * lanes).reshape(lanes, lanes).T.tolist()


def _is_blocked(model):
    return "transposed copy" in model.c_source()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8, np.int64, np.bool_, ml_dtypes.bfloat16])
def test_matrices_of_every_element_size(make_model, judge, dtype):
    model = make_model("Transpose", {"x": (dtype, ["a", "b"])}, {"perm": [1, 0]}, outputs=[("y", dtype)])
    shapes = [(1, 1), (3, 200), (200, 3), (64, 64), (65, 130), (16, 33), (70, 0), (0, 5), (1, 70), (90, 1)]
    feeds = [{"x": RNG.integers(0, 2 if dtype is np.bool_ else 100, shape).astype(dtype)} for shape in shapes]
    assert _is_blocked(judge(model, feeds, ort=False))


@pytest.mark.parametrize("perm", [(0, 2, 3, 1), (0, 3, 1, 2), (3, 2, 1, 0), (1, 0, 3, 2), (2, 3, 0, 1), (3, 0, 2, 1)])
def test_permutations_of_four_axes(make_model, judge, perm):
    model = make_model("Transpose", {"x": (np.float32, ["a", "b", "c", "d"])}, {"perm": list(perm)})
    shapes = [(2, 3, 4, 5), (1, 64, 7, 9), (2, 17, 1, 70), (1, 3, 20, 30), (5, 20, 3, 18)]
    assert _is_blocked(judge(model, [{"x": RNG.random(shape).astype(np.float32)} for shape in shapes]))


@pytest.mark.parametrize("perm", [(0, 2, 1, 3), (2, 0, 1, 3), (0, 1, 2, 3)])
def test_the_last_axis_in_place_needs_no_blocks(make_model, judge, perm):
    model = make_model("Transpose", {"x": (np.float32, ["a", "b", "c", 4])}, {"perm": list(perm)})
    assert not _is_blocked(
        judge(model, [{"x": RNG.random(shape).astype(np.float32)} for shape in [(2, 3, 4, 4), (1, 9, 8, 4)]])
    )
