"""Operators as functions on arrays and values, and models built by hand, judged by ONNX Runtime."""

from __future__ import annotations

import inspect
import pickle
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import intaglio
from intaglio import GraphError, InputError, OperatorError, ShapeError, ops
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Value
from intaglio.ir.types import TensorType

EXAMPLES = Path(__file__).parent.parent / "examples"

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


class ArrayLike:
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return X if dtype is None else X.astype(dtype)


def test_attributes_and_named_inputs() -> None:
    image, kernel = np.ones((1, 2, 5, 5), np.float32), np.ones((3, 2, 3, 3), np.float32)
    assert ops.Conv(image, kernel, strides=[2, 2]).shape == (1, 3, 2, 2)
    assert ops.Conv(X=image, W=kernel, strides=np.array([2, 2])).shape == (1, 3, 2, 2)
    biased = ops.Conv(image, kernel, B=np.array([1, 2, 3], np.float32))
    np.testing.assert_array_equal(biased[0, :, 1, 1], [19, 20, 21])


@pytest.mark.parametrize("given", [X, X.tolist(), ArrayLike(), X.astype(">f4"), X.T.copy().T])
def test_array_likes(given: Any) -> None:
    result = ops.Relu(given)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, np.maximum(X, 0))


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (lambda: ops.Add(np.array([1, 2], np.int8), 3), np.array([4, 5], np.int8)),
        (lambda: ops.Add([1, 2], 3), np.array([4, 5], np.int64)),
        (lambda: ops.Mul(0.5, np.array([2], np.float16)), np.array([1], np.float16)),
        (lambda: ops.Relu([1.0, -1]), np.array([1, 0], np.float32)),
        (lambda: ops.Where(np.array([True, False]), np.array([1, 2], np.float64), 0.5), np.array([1, 0.5], np.float64)),
        (lambda: ops.Where([True, False], 1.0, 0.0), np.array([1, 0], np.float32)),
        (lambda: ops.Reshape(np.zeros(3, np.float32), [3, 1]), np.zeros((3, 1), np.float32)),
        (lambda: ops.And([True, True], False), np.array([False, False])),
        (lambda: ops.StringConcat(["a", "b"], "c"), np.array(["ac", "bc"], object)),
        (lambda: ops.Cast([1.7], to=np.int32), np.array([1], np.int32)),
        (lambda: ops.Cast([1.7], to="float16"), np.array([1.7], np.float16)),
        (lambda: ops.Cast([1.7], to=7), np.array([1], np.int64)),
        (lambda: ops.ConstantOfShape([2], value=np.array([3], np.int32)), np.array([3, 3], np.int32)),
        (lambda: ops.Concat(inputs=[[1], [2]], axis=0), np.array([1, 2], np.int64)),
        (lambda: ops.SequenceAt([np.ones(2), np.zeros(3)], np.int64(1)), np.zeros(3)),
        (lambda: ops.domain("ai.onnx.ml").Scaler([[4.0]], offset=[2.0], scale=[0.5]), np.array([[1]], np.float32)),
    ],
)
def test_plain_python_takes_the_type_that_fits(result: Any, expected: Any) -> None:
    np.testing.assert_array_equal(result(), expected, strict=True)


def test_several_outputs_are_a_tuple() -> None:
    values, indices = ops.TopK([3.0, 1.0, 2.0], [2], outputs=2)
    assert (values.tolist(), indices.tolist()) == ([3, 2], [0, 2])
    assert ops.TopK([3.0, 1.0, 2.0], [2]).tolist() == [3, 2]
    assert [part.tolist() for part in ops.Split(np.arange(3), num_outputs=3, outputs=3)] == [[0], [1], [2]]


def test_results_belong_to_the_caller() -> None:
    given = X.copy()
    for result in (ops.Identity(given), ops.Transpose(given), ops.Reshape(given, [-1])):
        result[...] = 0
    np.testing.assert_array_equal(given, X)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ops.Conv(X), GraphError, "Conv needs its input 'W'"),
        (lambda: ops.Relu(X, X), GraphError, "Relu takes at most 1 inputs, got 2"),
        (lambda: ops.Conv(X, X, stride=1), InputError, "no attribute or input 'stride'; did you mean 'strides'"),
        (lambda: ops.Conv(X, X, W=X), InputError, "got its input 'W' by position and by name"),
        (lambda: ops.Conv(X, X, strides="ab"), InputError, "for its attribute 'strides', got 'ab'"),
        (lambda: ops.Conv(X, X, group=1.5), InputError, "takes int for its attribute 'group'"),
        (lambda: ops.Concat(X), InputError, "Concat needs the attribute 'axis'"),
        (lambda: ops.Add(X, X.astype(np.float64)), ShapeError, "expected one element type, got A: float32, B: float64"),
        (lambda: ops.Add(X, np.ones(3, np.float32)), ShapeError, "dimensions 4 and 3 cannot be broadcast"),
        (lambda: ops.Add(np.array([1], np.int8), 300), InputError, "300, which int8 cannot represent"),
        (lambda: ops.Add(np.array([1], np.int8), 0.5), InputError, "the number 0.5 beside int8 tensors"),
        (lambda: ops.Gather(X, [5]), OperatorError, "index 5 is out of range"),
        (lambda: ops.Relu([[1.0], [1.0, 2.0]]), InputError, "Relu cannot take a list"),
        (lambda: ops.Relu(np.zeros(1, "datetime64[s]")), InputError, "no ONNX element type"),
        (lambda: ops.Relu(X, outputs=2), GraphError, "Relu has 1 outputs, the node asks for 2"),
        (lambda: ops.Relu(X, outputs=0), InputError, "cannot have 0 outputs"),
        (lambda: ops.Convv, AttributeError, "no operator 'Convv' in 'ai.onnx'; did you mean Conv"),
        (lambda: ops.domain("nowhere").Relu, AttributeError, "no operator 'Relu' in 'nowhere'"),
    ],
)
def test_mistakes(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_functions_are_documented_listed_and_picklable() -> None:
    signature = inspect.signature(ops.LeakyRelu)
    assert list(signature.parameters) == ["X", "alpha", "outputs"]
    assert "computes" in (inspect.getdoc(ops.LeakyRelu) or "")
    assert {"Conv", "activation", "domain"} <= set(dir(ops))
    assert "Scaler" in dir(ops.domain("ai.onnx.ml"))
    assert pickle.loads(pickle.dumps(ops.Conv)) is ops.Conv
    assert inspect.ismodule(ops.cast)


def run_runtime(path: Path, feeds: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return list(onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"]).run(None, feeds))


def agree(g: intaglio.ModelBuilder, tmp_path: Path, **feeds: Any) -> list[Any]:
    """The outputs on both engines and of the saved file, found equal to those of ONNX Runtime."""
    path = tmp_path / "model.onnx"
    g.save(path)
    onnx.checker.check_model(str(path))
    judged = run_runtime(path, feeds)
    results: list[Any] = []
    for model in (g.model(), g.model(engine="reference"), intaglio.load(path)):
        results = list(model.run(feeds).values())
        for result, expected in zip(results, judged, strict=True):
            assert result.dtype == expected.dtype
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    return results


def test_a_model_by_hand(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    w1, b1 = rng.normal(size=(16, 8)).astype(np.float32), rng.normal(size=8).astype(np.float32)
    with intaglio.build("mlp", inputs={"x": "float32[N, 16]"}, doc="two layers") as g:
        h = ops.Relu(ops.Gemm(g["x"], w1, b1))
        g.output(y=ops.Softmax(2 * h + [1.0] - b1), h=h)
    y, h = agree(g, tmp_path, x=rng.normal(size=(5, 16)).astype(np.float32))
    assert (y.shape, h.shape) == ((5, 8), (5, 8))
    model = g.model()
    assert [(each.name, str(each.type)) for each in model.outputs] == [("y", "float32[N, 8]"), ("h", "float32[N, 8]")]
    assert model.info.doc == "two layers"
    assert model.info.opset_imports[""] >= 17
    assert g.to_onnx(opset=21).opset_import[0].version == 21


def test_arithmetic_takes_arrays_on_either_side(tmp_path: Path) -> None:
    with intaglio.build("arithmetic", {"x": "float32[4, 4]"}) as g:
        x = g["x"]
        matrix = np.eye(4, dtype=np.float32)
        g.output(y=(matrix @ x @ matrix + 1) / matrix.max() - 2 ** ops.Abs(x) + (-x) ** 2, z=matrix < x)
    given = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
    y, z = agree(g, tmp_path, x=given)
    np.testing.assert_allclose(y, given + 1 - 2 ** np.abs(given) + given**2, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(z, np.eye(4) < given)


def test_outputs_that_are_inputs_constants_or_outputs_already(tmp_path: Path) -> None:
    with intaglio.build("outputs", {"x": "int64[N]"}) as g:
        total = ops.ReduceSum(g["x"])
        g.output(a=g["x"], b=total, c=total, d=g.constant([1, 2], "weights"))
        g.output(ops.Neg(total))
    results = agree(g, tmp_path, x=np.array([3, 4]))
    assert [np.ravel(each).tolist() for each in results] == [[3, 4], [7], [7], [1, 2], [-7]]


def test_defaults_of_inputs() -> None:
    with intaglio.build("defaults") as g:
        x = g.input("x", "float32[2]")
        scale = g.input("scale", "float32[]", default=2)
        g.output(y=x * scale)
    model = g.model()
    assert model([1.0, 2.0]).tolist() == [2, 4]
    assert model.run({"x": [1.0, 2.0], "scale": 3.0})["y"].tolist() == [3, 6]


def test_subgraphs(tmp_path: Path) -> None:
    with intaglio.build("branches", {"x": "float32[N]", "positive": "bool[]"}) as g:
        with g.body("yes") as yes:
            yes.output(ops.Relu(g["x"]))
        with g.body("no") as no:
            no.output(g["x"] * 2)
        g.output(y=ops.If(g["positive"], then_branch=yes, else_branch=no.graph))
    assert agree(g, tmp_path, x=np.array([-1, 1], np.float32), positive=np.array(True))[0].tolist() == [0, 1]
    assert agree(g, tmp_path, x=np.array([-1, 1], np.float32), positive=np.array(False))[0].tolist() == [-2, 2]


def test_arrays_still_compute_while_a_model_is_built() -> None:
    with intaglio.build("mixed", {"x": "float32[2]"}) as g:
        folded = ops.Exp(np.zeros(2, np.float32))
        assert isinstance(folded, np.ndarray)
        noise = ops.RandomUniform(shape=[2])
        assert isinstance(noise, Value)
        g.output(y=g["x"] + folded, noise=noise)
    assert g.model()(np.array([1, 2], np.float32))[0].tolist() == [2, 3]


def test_constants_are_copies_and_the_model_does_not_change_with_the_builder() -> None:
    weight = np.ones(2, np.float32)
    with intaglio.build("copies", {"x": "float32[2]"}) as g:
        g.output(y=g["x"] * weight)
    weight[:] = 7
    model = g.model()
    with g:
        g.output(z=ops.Neg(g["x"]))
    assert model(np.array([1, 2], np.float32)).tolist() == [1, 2]
    assert len(g.model().outputs) == 2


def test_types_given_as_objects() -> None:
    with intaglio.build("types", {"x": TensorType(FLOAT32, (2,)), "s": "seq(float32[...])"}) as g:
        g.output(y=ops.Concat(g["x"], ops.SequenceAt(g["s"], np.int64(0)), axis=0))
    assert g.model()(np.array([1, 2], np.float32), [np.array([3], np.float32)]).tolist() == [1, 2, 3]
    assert "Concat" in str(g)


def test_mistakes_in_building() -> None:
    with pytest.raises(InputError, match=r"the input 'x', 'flaot32\[N\]', cannot be read: .*did you mean float32"):
        intaglio.build("m", {"x": "flaot32[N]"})
    with pytest.raises(InputError, match="expected the end of the type"):
        intaglio.build("m", {"x": "float32[N] extra"})
    with intaglio.build("m", {"image": "float32[N]"}) as g:
        with pytest.raises(InputError, match="there is no input 'imgae'; did you mean 'image'"):
            g["imgae"]
        with pytest.raises(ShapeError, match=r"MatMul cannot take \(%image: float32\[N\], %constant"):
            _ = g["image"] @ np.ones((3, 3))
        with pytest.raises(InputError, match="an output must be a value of the graph, got a ndarray"):
            g.output(y=np.ones(2))
        with pytest.raises(InputError, match="Concat was given a list of values"):
            ops.Concat([g["image"], g["image"]], axis=0)
        with pytest.raises(GraphError, match="the name 'image' is taken"):
            g.output(image=ops.Relu(g["image"]))
        with pytest.raises(GraphError, match="the name 'image' is taken"):
            g.input("image", "float32[]")
    with pytest.raises(GraphError, match="'m' has no outputs"):
        g.model()
    with pytest.raises(GraphError, match="Relu was given %image, a value of a graph, but no graph is being built"):
        ops.Relu(g["image"])
    with intaglio.build("other") as other:
        other.output(y=ops.Relu(g["image"]))
    with pytest.raises(GraphError, match=r"%image.* is neither an input nor defined"):
        other.model()


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "model_by_hand.py"))
    assert "probabilities: float32[N, 4]" in capsys.readouterr().out
