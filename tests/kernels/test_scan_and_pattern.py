"""CumSum, CumProd, ReverseSequence, Range, EyeLike and Trilu."""

import ml_dtypes
import numpy as np
import pytest

from intaglio.errors import OperatorError
from intaglio.runtime.model.loading import load

RNG = np.random.default_rng(13)


@pytest.mark.parametrize("op", ["CumSum", "CumProd"])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_running_totals(make_model, judge, op, exclusive, reverse, axis):
    attributes = {"exclusive": exclusive, "reverse": reverse}
    opset = 26 if op == "CumProd" else 21
    model = make_model(op, {"x": (np.float32, ["a", "b", "c"])}, attributes, {"axis": np.array(axis)}, opset=opset)
    feeds = [{"x": RNG.random(shape).astype(np.float32)} for shape in [(3, 4, 5), (1, 1, 1), (2, 50, 21), (2, 0, 3)]]
    judge(model, feeds, ort=False, exact=False)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize("axis", [0, 1])
def test_running_sums_of_every_element_type(make_model, judge, dtype, axis):
    model = make_model("CumSum", {"x": (dtype, ["a", "b"])}, constants={"axis": np.array(axis)}, outputs=[("y", dtype)])
    judge(model, [{"x": RNG.integers(0, 9, shape).astype(dtype)} for shape in [(20, 30), (2, 1)]], ort=False)


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int64])
def test_reverse_sequence(make_model, judge, batch, dtype):
    attributes = {"batch_axis": batch, "time_axis": 1 - batch}
    shapes = {"x": (dtype, ["a", "b", "c"]), "n": (np.int64, ["ab"[batch]])}
    model = make_model("ReverseSequence", shapes, attributes, outputs=[("y", dtype)])
    feeds = []
    for shape in [(4, 3, 2), (1, 6, 5), (5, 5, 0)]:
        lengths = RNG.integers(1, shape[1 - batch] + 1, shape[batch])
        feeds.append({"x": RNG.integers(0, 99, shape).astype(dtype), "n": lengths})
    judge(model, feeds, ort=dtype is np.float32)


def test_reverse_sequence_checks_lengths(make_model):
    model = load(
        make_model("ReverseSequence", {"x": (np.float32, ["a", "b"]), "n": (np.int64, ["c"])}),
        engine="native",
        strict=True,
    )
    for lengths in ([1], [4, 1], [-1, 1]):
        with pytest.raises(OperatorError, match="sequence_lens"):
            model(np.ones((3, 2), np.float32), np.array(lengths))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.int32, np.int64])
def test_range_of_constants(make_model, judge, dtype):
    constants = {"s": np.array(3, dtype), "l": np.array(2000, dtype), "d": np.array(2, dtype)}
    model = make_model("Add", {"x": (dtype, [1])}, constants={"r": np.arange(3, dtype=dtype)}, outputs=[("y", dtype)])
    model.graph.initializer.pop()
    from onnx import helper, numpy_helper

    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    model.graph.node.insert(0, helper.make_node("Range", ["s", "l", "d"], ["r"]))
    judge(model, [{"x": np.zeros(1, dtype)}])


def test_range_over_a_symbolic_size(judge):
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Squeeze", ["shape"], ["n"]),
        helper.make_node("Range", ["start", "n", "step"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "range",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, None)],
        [numpy_helper.from_array(np.array(number), name) for name, number in (("start", 0), ("step", 1))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    judge(model, [{"x": np.zeros(n, np.float32)} for n in (0, 1, 7, 5000)])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.bool_])
@pytest.mark.parametrize("k", [0, 2, -3, 100, -100])
def test_eye_like(make_model, judge, dtype, k):
    model = make_model("EyeLike", {"x": (dtype, ["a", "b"])}, {"k": k}, outputs=[("y", dtype)])
    judge(model, [{"x": np.ones(shape, dtype)} for shape in [(3, 5), (5, 3), (1, 1), (0, 2), (90, 90)]], ort=False)


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.bool_])
def test_trilu(make_model, judge, upper, dtype):
    shapes = {"x": (dtype, ["n", "a", "b"]), "k": (np.int64, [])}
    model = make_model("Trilu", shapes, {"upper": upper}, outputs=[("y", dtype)])
    feeds = []
    for shape in [(2, 3, 5), (1, 6, 4), (3, 1, 1), (2, 0, 3), (2, 3, 0), (1, 80, 90)]:
        for k in (0, 1, -2, 5, -7, 2**40, -(2**40)):
            feeds.append({"x": np.ones(shape, dtype), "k": np.array(k)})
    judge(model, feeds, ort=False)
