"""Reductions whose contiguous axis is kept: operators, element types, fused neighbours, symbolic and empty sizes."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import intaglio

RNG = np.random.default_rng(5)
SHAPES = [(2, 3, 4, 5), (1, 7, 7, 130), (3, 2, 2, 64), (1, 1, 1, 1), (2, 30, 30, 17), (2, 3, 3, 0), (1, 600, 1, 9)]


def _is_columns(model):
    return "column by column" in model.c_source()


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"])
@pytest.mark.parametrize("axes", [(1, 2), (0,), (1,), (0, 2)])
def test_reductions_that_keep_the_last_axis(make_model, judge, op, axes):
    constants = {"axes": np.array(axes)}
    model = make_model(op, {"x": (np.float32, ["a", "b", "c", "d"])}, {"keepdims": 0}, constants)
    feeds = [{"x": 1 + RNG.random(shape).astype(np.float32) / 100} for shape in SHAPES]
    assert _is_columns(judge(model, feeds, exact=False))


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.uint8, np.int32, np.int64])
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax", "ReduceMin"])
def test_column_reductions_of_every_element_type(make_model, judge, dtype, op):
    model = make_model(op, {"x": (dtype, ["a", "b"])}, constants={"axes": np.array([0])}, outputs=[("y", dtype)])
    feeds = [{"x": RNG.integers(0, 4, shape).astype(dtype)} for shape in [(5, 40), (300, 3), (9, 1), (0, 7), (20, 200)]]
    judge(model, feeds, ort=False)


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean", "ReduceProd"])
@pytest.mark.parametrize("width", [5, 40, 1000])
def test_equal_columns_have_equal_results(make_model, op, width):
    """Also columns in the last vector, which is not full: a Softmax behind them shows every difference."""
    model = make_model(op, {"x": (np.float32, ["a", "b"])}, constants={"axes": np.array([0])})
    column = 1 + RNG.random((700, 1)).astype(np.float32) / 100
    found = intaglio.load(model, engine="native")(np.repeat(column, width, axis=1))
    assert np.unique(found).size == 1


def test_no_rows_give_what_the_reference_gives(make_model, judge):
    for op in ("ReduceSum", "ReduceMax", "ReduceProd"):
        model = make_model(op, {"x": (np.float32, ["a", "b"])}, constants={"axes": np.array([0])})
        judge(model, [{"x": np.ones((0, 5), np.float32)}], ort=False)


def test_a_long_sum_keeps_its_precision(make_model, judge):
    model = make_model("ReduceSum", {"x": (np.float32, ["a", "b"])}, constants={"axes": np.array([0])})
    x = np.full((100_000, 3), 0.1, np.float32)
    found = judge(model, [])(x)
    np.testing.assert_allclose(found, x.sum(0, dtype=np.float64)[None], rtol=2e-6)


def _graph(nodes, inputs, constants):
    graph = helper.make_graph(
        nodes,
        "columns",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_what_follows_is_fused(judge):
    nodes = [
        helper.make_node("ReduceMean", ["x", "axes"], ["m"]),
        helper.make_node("Add", ["m", "bias"], ["s"]),
        helper.make_node("Mul", ["s", "scale"], ["t"]),
        helper.make_node("Sigmoid", ["t"], ["y"]),
    ]
    constants = {"axes": np.array([1, 2]), "bias": RNG.random(13).astype(np.float32)}
    model = _graph(nodes, {"x": ["n", "h", "w", 13], "scale": ["n", 1, 1, 1]}, constants)
    feeds = []
    for n, h, w in [(2, 3, 4), (1, 9, 1), (3, 20, 20)]:
        feeds.append(
            {"x": RNG.random((n, h, w, 13)).astype(np.float32), "scale": RNG.random((n, 1, 1, 1)).astype(np.float32)}
        )
    native = judge(model, feeds, exact=False)
    assert _is_columns(native)
    assert native.c_source().count("static void kernel_") == 1


def test_what_comes_before_is_fused(judge):
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Sub", ["t", "shift"], ["d"]),
        helper.make_node("Mul", ["d", "d"], ["q"]),
        helper.make_node("ReduceSum", ["q", "axes"], ["s"]),
        helper.make_node("Sqrt", ["s"], ["y"]),
    ]
    constants = {"axes": np.array([2, 3])}
    model = _graph(nodes, {"x": ["n", "h", "w", "c"], "shift": [1, "c", 1, 1]}, constants)
    feeds = []
    for n, h, w, c in [(2, 3, 4, 5), (1, 9, 1, 70), (2, 11, 30, 200)]:
        feeds.append(
            {"x": RNG.random((n, h, w, c)).astype(np.float32), "shift": RNG.random((1, c, 1, 1)).astype(np.float32)}
        )
    native = judge(model, feeds, exact=False)
    assert _is_columns(native)
    assert native.c_source().count("static void kernel_") == 1


def test_sums_that_depend_on_sums_walk_along_rows(judge):
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("ReduceMean", ["t", "axes"], ["m"]),
        helper.make_node("Sub", ["t", "m"], ["d"]),
        helper.make_node("Mul", ["d", "d"], ["q"]),
        helper.make_node("ReduceMean", ["q", "axes"], ["y"]),
    ]
    model = _graph(nodes, {"x": ["a", "b"]}, {"axes": np.array([1])})
    judge(model, [{"x": RNG.random(shape).astype(np.float32)} for shape in [(3, 4), (50, 70)]], exact=False)
