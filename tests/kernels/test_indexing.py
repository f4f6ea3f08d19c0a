"""Gathers and scatters: every element size, symbolic sizes, empty tensors, indices from both ends and out of range."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from intaglio.errors import OperatorError, ShapeError
from intaglio.runtime.model.loading import load

DTYPES = [np.float32, np.float64, np.float16, np.int8, np.int64, np.bool_, ml_dtypes.bfloat16]
REAL = [np.float32, np.float64, np.int8, np.uint16, np.int32, np.int64]
RNG = np.random.default_rng(7)


def _array(dtype, *shape):
    return RNG.integers(0, 2 if dtype is np.bool_ else 100, shape).astype(dtype)


def _indices(dtype, extent, *shape):
    return RNG.integers(-extent, max(extent, 1), shape).astype(dtype) if extent else np.zeros(shape, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_gather_of_every_element_size(make_model, judge, dtype, index):
    model = make_model("Gather", {"x": (dtype, ["n", "m"]), "i": (index, ["k"])}, outputs=[("y", dtype)])
    feeds = [
        {"x": _array(dtype, n, m), "i": _indices(index, n, k)}
        for n, m, k in [(5, 3, 4), (2, 1, 9), (3, 0, 2), (4, 4, 0)]
    ]
    judge(model, feeds, ort=dtype is not ml_dtypes.bfloat16)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_gather_along_each_axis(make_model, judge, axis, rank):
    model = make_model(
        "Gather", {"x": (np.float32, ["a", "b", "c"]), "i": (np.int64, ["p", "q"][:rank])}, {"axis": axis}
    )
    shapes = [(2, 3, 4), (5, 1, 300), (1, 700, 2)]
    feeds = [{"x": _array(np.float32, *s), "i": _indices(np.int64, s[axis], *(3, 2)[:rank])} for s in shapes]
    judge(model, feeds)


@pytest.mark.parametrize("indices", [1, -1, [0, 1, 2], [2, 1, 0], [-1, -2], [1, 1], [0, 2, 1], [[0, 1]]])
def test_gather_at_constant_indices(make_model, judge, indices):
    constants = {"i": np.array(indices, np.int64)}
    model = make_model("Gather", {"x": (np.float32, ["n", 3, 4])}, {"axis": 1}, constants)
    judge(model, [{"x": _array(np.float32, n, 3, 4)} for n in (2, 0)])


def test_gather_at_a_constant_of_an_axis_that_may_be_empty(make_model):
    model = load(
        make_model("Gather", {"x": (np.float32, ["n", 4])}, {"axis": 0}, {"i": np.array(0, np.int64)}), engine="native"
    )
    assert model(np.ones((2, 4), np.float32)).shape == (4,)
    with pytest.raises(OperatorError, match="index 0 is out of range for size 0"):
        model(np.ones((0, 4), np.float32))


@pytest.mark.parametrize("bad", [3, -4, 2**62])
def test_gather_out_of_range_says_so(make_model, bad):
    model = load(make_model("Gather", {"x": (np.float32, ["n"]), "i": (np.int64, ["k"])}), engine="native", strict=True)
    with pytest.raises(OperatorError, match=f"index {bad} is out of range for size 3"):
        model(np.ones(3, np.float32), np.array([0, bad]))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("symbols", ["abc", "dbc", "abd", "dbe", "dfe"])
def test_gather_elements(make_model, judge, axis, symbols):
    sizes = {"a": 4, "b": 3, "c": 5, "d": 2, "e": 1, "f": 3}
    model = make_model(
        "GatherElements", {"x": (np.float32, ["a", "b", "c"]), "i": (np.int64, list(symbols))}, {"axis": axis}
    )
    feeds = []
    for scale in (1, 20):
        shape = tuple(sizes[s] * scale for s in "abc")
        feeds.append(
            {
                "x": _array(np.float32, *shape),
                "i": _indices(np.int64, shape[axis], *(sizes[s] * scale for s in symbols)),
            }
        )
    judge(model, feeds)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gather_elements_of_every_element_size(make_model, judge, dtype):
    model = make_model(
        "GatherElements", {"x": (dtype, ["n", 4]), "i": (np.int32, ["k", 4])}, {"axis": 0}, outputs=[("y", dtype)]
    )
    feeds = [{"x": _array(dtype, n, 4), "i": _indices(np.int32, n, k, 4)} for n, k in [(3, 5), (1, 1), (2, 0)]]
    judge(model, feeds, ort=dtype is not ml_dtypes.bfloat16)


def test_gather_elements_beyond_the_data_says_so(make_model):
    model = make_model("GatherElements", {"x": (np.float32, ["n", "m"]), "i": (np.int64, ["k", "l"])}, {"axis": 0})
    run = load(model, engine="native", strict=True)
    with pytest.raises(OperatorError, match="reach past"):
        run(np.ones((2, 2), np.float32), np.zeros((2, 3), np.int64))
    with pytest.raises(OperatorError, match="out of range"):
        run(np.ones((2, 2), np.float32), np.full((2, 2), 2))


@pytest.mark.parametrize(("batch", "length"), [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (2, 1)])
def test_gather_nd(make_model, judge, batch, length):
    shapes = {"x": (np.float32, ["a", "b", "c"]), "i": (np.int64, [*["a", "b"][:batch], "k", length])}
    model = make_model("GatherND", shapes, {"batch_dims": batch})
    feeds = []
    for a, b, c, k in [(2, 3, 4, 5), (1, 1, 1, 1), (3, 2, 600, 7), (2, 2, 2, 0)]:
        extents = (a, b, c)[batch : batch + length]
        entries = [_indices(np.int64, e, *(a, b)[:batch], k) for e in extents]
        feeds.append({"x": _array(np.float32, a, b, c), "i": np.stack(entries, -1)})
    judge(model, feeds)


def test_gather_nd_checks_batches_and_indices(make_model):
    model = load(
        make_model("GatherND", {"x": (np.float32, ["a", "b"]), "i": (np.int64, ["c", "k", 1])}, {"batch_dims": 1}),
        engine="native",
    )
    with pytest.raises(ShapeError, match="batch"):
        model(np.ones((2, 3), np.float32), np.zeros((4, 1, 1), np.int64))
    with pytest.raises(OperatorError, match="out of range"):
        model(np.ones((2, 3), np.float32), np.full((2, 1, 1), 3))


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", [*REAL, np.float16, ml_dtypes.bfloat16])
def test_scatter_elements(make_model, judge, reduction, dtype):
    shapes = {"x": (dtype, ["n", "m"]), "i": (np.int64, ["k", "l"]), "u": (dtype, ["k", "l"])}
    feeds = []
    for n, m, k, l in [(3, 4, 5, 4), (2, 3, 1, 2), (3, 3, 0, 3), (4, 900, 6, 900)]:
        feeds.append({"x": _array(dtype, n, m) % 5, "i": _indices(np.int64, n, k, l), "u": _array(dtype, k, l) % 3})
    model = make_model("ScatterElements", shapes, {"axis": 0, "reduction": reduction}, outputs=[("y", dtype)])
    if reduction == "none":  # the order of writes to one place is the implementation's choice
        for feed in feeds:
            feed["i"] = np.argsort(RNG.random((max(feed["x"].shape[0], 1), feed["i"].shape[1])), axis=0)[
                : len(feed["i"])
            ]
            feed["u"] = feed["u"][: len(feed["i"])]
    judge(model, feeds, ort=dtype is np.float32)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scatter_elements_along_each_axis(make_model, judge, axis):
    shapes = {"x": (np.float32, ["a", "b", "c"]), "i": (np.int64, ["d", "e", "f"]), "u": (np.float32, ["d", "e", "f"])}
    model = make_model("ScatterElements", shapes, {"axis": axis, "reduction": "add"})
    feeds = []
    for data, index in [((4, 3, 5), (2, 3, 4)), ((4, 3, 5), (4, 3, 5)), ((1, 1, 1), (1, 1, 1)), ((2, 2, 2), (0, 2, 2))]:
        feeds.append(
            {
                "x": _array(np.float32, *data),
                "i": _indices(np.int64, data[axis], *index),
                "u": _array(np.float32, *index),
            }
        )
    judge(model, feeds)


@pytest.mark.parametrize("reduction", ["add", "max", "min"])
def test_scatter_of_nan(make_model, judge, reduction):
    shapes = {"x": (np.float32, ["n"]), "i": (np.int64, ["k"]), "u": (np.float32, ["k"])}
    model = make_model("ScatterElements", shapes, {"reduction": reduction})
    feed = {
        "x": np.array([1, np.nan, 2], np.float32),
        "i": np.array([0, 1, 2, 2]),
        "u": np.array([np.nan, 1, 3, 1], np.float32),
    }
    judge(model, [feed], ort=False)


def test_scatter_elements_checks_shapes_and_indices(make_model):
    shapes = {"x": (np.float32, ["n", "m"]), "i": (np.int64, ["k", "l"]), "u": (np.float32, ["p", "q"])}
    model = load(make_model("ScatterElements", shapes), engine="native", strict=True)
    x = np.ones((2, 2), np.float32)
    for index, update, text in [
        ((2, 2), (2, 1), "updates"),
        ((2, 3), (2, 3), "reach past"),
        ((0, 2), (1, 2), "updates"),
    ]:
        with pytest.raises(OperatorError, match=text):
            model(x, np.zeros(index, np.int64), np.ones(update, np.float32))
    with pytest.raises(OperatorError, match="out of range"):
        model(x, np.full((1, 2), 2), np.ones((1, 2), np.float32))
    assert model(x, np.zeros((0, 3), np.int64), np.ones((0, 3), np.float32)).tolist() == x.tolist()


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_scatter_nd(make_model, judge, reduction, length):
    rest = ["b", "c"][length - 1 :]
    shapes = {"x": (np.float32, ["a", "b", "c"]), "i": (np.int64, ["k", length]), "u": (np.float32, ["k", *rest])}
    model = make_model("ScatterND", shapes, {"reduction": reduction})
    feeds = []
    for a, b, c, k in [(3, 4, 2, 6), (1, 1, 1, 1), (5, 2, 5000, 3), (2, 2, 2, 0), (2, 0, 2, 1)]:
        extents = (a, b, c)[:length]
        if 0 in extents:
            continue
        k = min(k, a) if reduction == "none" else k
        first = RNG.permutation(a)[:k] if reduction == "none" else _indices(np.int64, a, k)
        index = np.stack([first, *(_indices(np.int64, e, k) for e in extents[1:])], -1).astype(np.int64)
        feeds.append(
            {"x": _array(np.float32, a, b, c) % 4, "i": index, "u": _array(np.float32, k, *(b, c)[length - 1 :]) % 3}
        )
    judge(model, feeds)


@pytest.mark.parametrize("dtype", [*REAL, np.float16, np.bool_])
@pytest.mark.parametrize("reduction", ["none", "add", "mul"])
def test_scatter_nd_of_every_element_type(make_model, judge, dtype, reduction):
    shapes = {"x": (dtype, ["n"]), "i": (np.int64, ["k", 1]), "u": (dtype, ["k"])}
    model = make_model("ScatterND", shapes, {"reduction": reduction}, outputs=[("y", dtype)])
    feeds = [
        {"x": _array(dtype, n), "i": RNG.permutation(n)[:k, None], "u": _array(dtype, k)} for n, k in [(4, 3), (2, 0)]
    ]
    judge(model, feeds, ort=False)


def test_scatter_nd_checks_updates_and_indices(make_model):
    shapes = {"x": (np.float32, ["n", "m"]), "i": (np.int64, ["k", 1]), "u": (np.float32, ["p", "q"])}
    model = load(make_model("ScatterND", shapes), engine="native", strict=True)
    x = np.ones((2, 2), np.float32)
    with pytest.raises(OperatorError, match="expected"):
        model(x, np.zeros((1, 1), np.int64), np.ones((1, 3), np.float32))
    with pytest.raises(OperatorError, match="out of range"):
        model(x, np.full((1, 1), -3), np.ones((1, 2), np.float32))


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("with_starts", [True, False])
def test_tensor_scatter(make_model, judge, mode, with_starts):
    shapes: dict[str, Any] = {"x": (np.float16, ["b", "h", "s", 4]), "u": (np.float16, ["b", "h", "t", 4])}
    if with_starts:
        shapes["w"] = (np.int64, ["b"])
    model = make_model("TensorScatter", shapes, {"mode": mode}, outputs=[("y", np.float16)], opset=24)
    feeds = []
    for b, h, s, t in [(2, 3, 5, 2), (1, 1, 3, 3), (2, 2, 4, 0)]:
        feed: dict[str, Any] = {"x": _array(np.float16, b, h, s, 4), "u": _array(np.float16, b, h, t, 4)}
        if with_starts:
            feed["w"] = RNG.integers(0, s - t + 1 if mode == "linear" else 9, b)
        feeds.append(feed)
    judge(model, feeds, ort=False)


def test_tensor_scatter_past_the_end_says_so(make_model):
    shapes = {"x": (np.float32, ["b", "s", 1]), "u": (np.float32, ["b", "t", 1]), "w": (np.int64, ["b"])}
    model = load(make_model("TensorScatter", shapes, {"axis": 1}, opset=24), engine="native", strict=True)
    with pytest.raises(OperatorError, match="do not fit"):
        model(np.ones((1, 3, 1), np.float32), np.ones((1, 2, 1), np.float32), np.array([2]))


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("index", [np.int64, np.int32, np.float32, np.uint8])
def test_one_hot(make_model, judge, axis, index):
    constants = {"d": np.array(4, np.int64), "v": np.array([2, 5], np.float32)}
    model = make_model("OneHot", {"i": (index, ["n", "m"])}, {"axis": axis}, constants)
    feeds = []
    for shape in [(3, 4), (1, 1), (0, 2), (70, 90)]:
        feeds.append({"i": (RNG.integers(0, 6, shape) - (0 if index is np.uint8 else 5)).astype(index)})
    judge(model, feeds, ort=index in (np.int64,))
