"""Axes that only the run tells: one kernel serves them all, judged by the reference and ONNX Runtime."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import intaglio
from intaglio.errors import IntaglioError
from intaglio.ops.reduce import ReductionOrder
from intaglio.runtime.engine.specialise import PARAMETER_LIMIT

from .test_control import check

RNG = np.random.default_rng(11)
REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip
SHAPES = [(2, 3, 4), (3, 1, 5), (1, 1, 1), (5, 33, 18), (1, 40, 2)]
SUBSETS = [(), (0,), (-1,), (1,), (2, 0), (-2, -3), (1, 2), (0, 1, 2), (-1, 1, 0)]


def ints(*items: int) -> Any:
    return np.array(items, np.int64)


def positive(shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    return RNG.uniform(0.5, 1.5, shape).astype(dtype)


def reduction(make_model: Any, op: str, rank: int, dtype: Any = np.float32, count: Any = "k", **attributes: Any) -> Any:
    shapes = {"x": (dtype, [f"n{axis}" for axis in range(rank)]), "axes": (np.int64, [count])}
    return make_model(op, shapes, attributes, outputs=[("y", dtype)])


@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions(make_model: Any, judge: Any, op: str) -> None:
    feeds = [{"x": positive(shape), "axes": ints(*axes)} for shape in SHAPES for axes in SUBSETS]
    assert len(SUBSETS) > PARAMETER_LIMIT, "plans for each value would do"
    native = judge(reduction(make_model, op, 3), feeds, exact=False)
    assert native.host_runs == 0


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean", "ReduceL2", "ReduceLogSumExp"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_reductions_that_drop_their_axes(make_model: Any, judge: Any, op: str, count: int) -> None:
    chosen = list(itertools.permutations(range(-3, 3), count))
    axes = [items for items in chosen if len({item % 3 for item in items}) == count]
    feeds = [{"x": positive((3, 4, 5)), "axes": ints(*items)} for items in axes]
    judge(reduction(make_model, op, 3, count=count, keepdims=0), feeds, exact=False)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("noop", [0, 1])
def test_no_axes(make_model: Any, judge: Any, keepdims: int, noop: int) -> None:
    given = reduction(make_model, "ReduceSum", 2, count=0, keepdims=keepdims, noop_with_empty_axes=noop)
    judge(given, [{"x": positive((3, 4)), "axes": ints()}, {"x": positive((0, 4)), "axes": ints()}], exact=False)
    given = reduction(make_model, "ReduceMax", 2, noop_with_empty_axes=noop)
    judge(given, [{"x": positive((3, 4)), "axes": ints(*axes)} for axes in [(), (0,), (1,), (0, 1), ()]])


@pytest.mark.parametrize("rank", [0, 1, 2, 4, 5])
def test_ranks(make_model: Any, judge: Any, rank: int) -> None:
    subsets = [axes for count in range(rank + 1) for axes in itertools.combinations(range(rank), count)]
    shapes = [(2, 3, 4, 2, 3)[:rank], (1, 5, 1, 1, 2)[:rank], (3, 1, 1, 4, 1)[:rank]]
    feeds = [{"x": positive(shape), "axes": ints(*axes)} for shape in shapes for axes in subsets]
    judge(reduction(make_model, "ReduceMean", rank), feeds, exact=False)


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceLogSumExp"])
def test_reductions_of_nothing(make_model: Any, judge: Any, op: str) -> None:
    feeds = [
        {"x": np.zeros(shape, np.float32), "axes": ints(*axes)}
        for shape in [(2, 0, 3), (0, 2, 3), (2, 3, 0), (0, 0, 0)]
        for axes in SUBSETS
    ]
    with np.errstate(divide="ignore"):
        judge(reduction(make_model, op, 3), feeds, ort=False)


def test_the_mean_of_no_integers_is_refused(make_model: Any) -> None:
    native = intaglio.load(reduction(make_model, "ReduceMean", 2, np.int64), engine="native", strict=True)
    np.testing.assert_array_equal(native(np.ones((0, 3), np.int64), ints(1)), np.ones((0, 1), np.int64))
    with pytest.raises(IntaglioError, match=r"ReduceMean.*mean of no integers"):
        native(np.ones((0, 3), np.int64), ints(0))


NUMBERS = (np.float16, ml_dtypes.bfloat16, np.float64, np.int32, np.int64, np.uint32, np.uint64)


@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceLogSumExp"])
def test_types(make_model: Any, judge: Any, op: str, dtype: Any) -> None:
    data = RNG.integers(1, 3, (3, 5, 4)).astype(dtype)
    feeds = [{"x": data, "axes": ints(*axes)} for axes in SUBSETS]
    judge(reduction(make_model, op, 3, dtype), feeds, ort=False, exact=False)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.bool_], ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
def test_extremes_of_bytes(make_model: Any, judge: Any, op: str, dtype: Any) -> None:
    data = RNG.integers(0, 2, (3, 5, 4)).astype(dtype)
    judge(reduction(make_model, op, 3, dtype), [{"x": data, "axes": ints(*axes)} for axes in SUBSETS], ort=False)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean", "ReduceLogSumExp"])
def test_axes_that_there_are_not(make_model: Any, op: str, keepdims: int) -> None:
    model = reduction(make_model, op, 3, count=2, keepdims=keepdims)
    native = intaglio.load(model, engine="native", strict=True)
    for axes, text in [((0, 3), "axis 3 is out of"), ((-4, 1), "axis -4 is out of"), ((1, -2), r"axes \[1, -2\] name")]:
        with pytest.raises(IntaglioError, match=f"{op}.*{text}"):
            native(positive((2, 3, 4)), ints(*axes))
    assert native(positive((2, 3, 4)), ints(0, 2)).size == 3


def test_a_scalar_has_no_axes(make_model: Any) -> None:
    native = intaglio.load(reduction(make_model, "ReduceSum", 0), engine="native", strict=True)
    assert native(np.float32(4), ints()) == 4
    with pytest.raises(IntaglioError, match=r"ReduceSum.*a scalar has no axes"):
        native(np.float32(4), ints(0))


def test_a_reduction_between_other_operators() -> None:
    text = """agraph (float[a,b,c] x, int64[k] i) => (float[p,q,r] y, int64[3] n) {
      w = Exp(x) z = ReduceLogSumExp(w, i) y = Neg(z) n = Shape(z) }"""
    check(text, *((positive(shape), ints(*axes)) for shape in SHAPES for axes in SUBSETS))


def test_axes_that_change_from_round_to_round() -> None:
    text = """agraph (float[a,b] x, int64[1] i) => (float[a,b] y, float[n,u] s) {
      m = Constant<value_int=4>() t = Constant<value = bool {1}>()
      y, s = Loop (m, t, x) <body = b (int64 j, bool c, float[a,b] v) => (bool d, float[a,b] e, float[p] z) {
        d = Identity(c) one = Constant<value_ints=[1]>() two = Constant<value_ints=[2]>()
        k = Reshape(j, one) l = Add(k, i) h = Mod(l, two) z = ReduceSum<keepdims=0>(v, h) e = Add(v, v) }> }"""
    check(text, (positive((3, 3)), ints(0)), (positive((5, 5)), ints(1)))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 0, 3), (1, 4, 1, 2), (2, 1, 3, 2, 2)])
def test_what_the_order_of_a_reduction_means(shape: tuple[int, ...]) -> None:
    data = positive(shape)
    for count in range(len(shape) + 1):
        for axes in itertools.combinations(range(len(shape)), count):
            rows, columns, kept = ReductionOrder().reference(data, ints(*axes))
            half = rows.ndim // 2
            sums = [rows.sum(axis=tuple(range(half, 2 * half))), columns.sum(axis=tuple(range(half - 1, 2 * half - 1)))]
            expected = data.sum(axis=axes or None, keepdims=True)
            joined = np.concatenate([part.ravel() for part in sums]).reshape(kept)
            np.testing.assert_allclose(joined, expected, rtol=1e-5)
            assert rows.size + columns.size == data.size


def squeezing(make_model: Any, op: str, rank: int, count: int, dtype: Any = np.float32) -> Any:
    shapes = {"x": (dtype, [f"n{axis}" for axis in range(rank)]), "axes": (np.int64, [count])}
    return make_model(op, shapes, outputs=[("y", dtype)])


@pytest.mark.parametrize(("rank", "count"), [(0, 1), (0, 2), (1, 1), (2, 1), (2, 2), (3, 1), (1, 0)])
def test_unsqueeze(make_model: Any, judge: Any, rank: int, count: int) -> None:
    total, data = rank + count, positive((2, 3, 4)[:rank])
    model = squeezing(make_model, "Unsqueeze", rank, count)
    good = [
        axes
        for axes in itertools.product(range(-total, total), repeat=count)
        if len({axis % total for axis in axes}) == count
    ]
    native = judge(model, [{"x": data, "axes": ints(*axes)} for axes in good])
    assert native.host_runs == 0
    with pytest.raises(IntaglioError, match=f"Unsqueeze.*axis {total} is out of range" if count else "axes|elements"):
        native(data, ints(*(total,) * max(count, 1)))


@pytest.mark.parametrize("shape", [(1,), (1, 3), (3, 1), (1, 1), (2, 1, 3), (1, 2, 1), (1, 0, 1)])
@pytest.mark.parametrize("count", [1, 2])
def test_squeeze(make_model: Any, judge: Any, shape: tuple[int, ...], count: int) -> None:
    rank, data = len(shape), positive(shape)
    ones = [axis for axis in range(-rank, rank) if shape[axis] == 1]
    good = [axes for axes in itertools.permutations(ones, count) if len({axis % rank for axis in axes}) == count]
    if count > rank:
        return
    native = judge(squeezing(make_model, "Squeeze", rank, count), [{"x": data, "axes": ints(*axes)} for axes in good])
    bad = [axes for axes in itertools.permutations(range(-rank, rank + 1), count) if axes not in good]
    for axes in bad:
        with pytest.raises(IntaglioError, match="Squeeze"):
            native(data, ints(*axes))


def test_squeeze_names_what_is_wrong(make_model: Any) -> None:
    native = intaglio.load(squeezing(make_model, "Squeeze", 2, 1), engine="native", strict=True)
    with pytest.raises(IntaglioError, match=r"Squeeze.*axis 1 of shape \[1, 3\] has size 3"):
        native(positive((1, 3)), ints(1))
    with pytest.raises(IntaglioError, match=r"Squeeze.*axis -3 is out of range"):
        native(positive((1, 3)), ints(-3))


@pytest.mark.parametrize(
    "dtype",
    [np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.uint64, np.bool_, np.complex64],
    ids=lambda dtype: np.dtype(dtype).name,
)
def test_squeezing_moves_any_type(make_model: Any, judge: Any, dtype: Any) -> None:
    data = RNG.integers(0, 2, (2, 1, 3)).astype(dtype)
    judge(squeezing(make_model, "Squeeze", 3, 1, dtype), [{"x": data, "axes": ints(a)} for a in (1, -2)], ort=False)
    judge(squeezing(make_model, "Unsqueeze", 3, 1, dtype), [{"x": data, "axes": ints(a)} for a in (0, 3)], ort=False)


def test_squeezing_between_other_operators() -> None:
    text = """agraph (float[a,b] x, int64[1] i) => (float[p,q] y) {
      t = Transpose(x) u = Unsqueeze(t, i) e = Exp(u) s = Squeeze(e, i) y = Transpose(s) }"""
    check(text, *((positive((3, 4)), ints(axis)) for axis in range(-3, 3)))
