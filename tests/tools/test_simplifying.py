"""`intaglio.tools.simplify`: fewer nodes, the same answers, and everything that people rely on kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from intaglio.errors import InputError
from intaglio.onnx.reader import read_model
from intaglio.tools import simplify
from intaglio.tools.samples import make_feeds
from intaglio.tools.simplifying.checking import check

onnxruntime: Any = pytest.importorskip("onnxruntime")
GENERATOR = np.random.default_rng(0)


def weights(**arrays: Any) -> list[TensorProto]:
    return [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]


def normal(*shape: int) -> Any:
    return GENERATOR.standard_normal(shape).astype(np.float32)


def model_of(
    nodes: list[Any], inputs: dict[str, Any], outputs: dict[str, Any], held: Any = (), opset: int = 17
) -> ModelProto:
    """A model of float32 tensors."""
    values = [
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in each.items()] for each in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "g", *values, initializer=list(held))
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    made.producer_name, made.doc_string = "tester", "what it says"
    made.metadata_props.add(key="author", value="somebody")
    onnx.checker.check_model(made, full_check=True)
    return made


def node(operator: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(operator, inputs.split(), outputs.split(), name=f"{operator}_{outputs}", **attributes)


def answers(model: ModelProto, feeds: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(
        None, feeds
    )


def judged(model: ModelProto, **options: Any) -> list[str]:
    """The operators that are left, after ONNX Runtime found the answers equal and the checker the file valid."""
    found = simplify(model, **options).message()
    onnx.checker.check_model(found, full_check=True)
    feeds = make_feeds(read_model(model).graph, 0)
    for expected, got in zip(answers(model, feeds), answers(found, feeds), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    assert [v.name for v in found.graph.input] == [v.name for v in model.graph.input]
    assert [v.name for v in found.graph.output] == [v.name for v in model.graph.output]
    return [each.op_type for each in found.graph.node]


def test_everything_around_a_convolution_goes_into_its_weights() -> None:
    nodes = [
        node("Mul", "x factor", "scaled"),
        node("Conv", "scaled w c", "conv", pads=[1, 1, 1, 1], group=2),
        node("Add", "conv shift", "shifted"),
        node("BatchNormalization", "shifted g b m v", "normal"),
        node("Div", "normal by", "y"),
    ]
    held = weights(
        factor=normal(1, 4, 1, 1), w=normal(6, 2, 3, 3), c=normal(6), shift=normal(6, 1, 1), g=normal(6), b=normal(6),
        m=normal(6), v=np.abs(normal(6)) + 0.5, by=np.float32(2.5),
    )  # fmt: skip
    model = model_of(nodes, {"x": ["batch", 4, 8, 8]}, {"y": ["batch", 6, 8, 8]}, held)
    assert judged(model) == ["Conv"]
    assert judged(model, exact=True) == ["Mul", "Conv", "Add", "BatchNormalization", "Div"]


def test_a_transposed_convolution_with_groups_is_scaled_by_its_outputs() -> None:
    nodes = [
        node("ConvTranspose", "x w", "conv", group=2),
        node("Mul", "factor conv", "scaled"),
        node("Sub", "scaled shift", "y"),
    ]
    held = weights(w=normal(4, 3, 2, 2), factor=normal(1, 6, 1, 1), shift=normal(6, 1, 1))
    assert judged(model_of(nodes, {"x": [2, 4, 5, 5]}, {"y": [2, 6, 6, 6]}, held)) == ["ConvTranspose"]


@pytest.mark.parametrize("place", [(1, 1, 8), (8,), (1, 4, 1, 1), (4, 8, 8)])
def test_a_constant_along_other_axes_stays(place: tuple[int, ...]) -> None:
    nodes = [node("Conv", "x w", "conv", pads=[1, 1, 1, 1]), node("Add", "conv shift", "y")]
    held = weights(w=normal(4, 4, 3, 3), shift=normal(*place))
    expected = ["Conv"] if place == (1, 4, 1, 1) else ["Conv", "Add"]
    assert judged(model_of(nodes, {"x": [2, 4, 8, 8]}, {"y": [2, 4, 8, 8]}, held)) == expected


def test_a_convolution_that_others_read_stays() -> None:
    nodes = [node("Conv", "x w", "z"), node("Mul", "z factor", "y")]
    held = weights(w=normal(4, 4, 1, 1), factor=np.float32(3))
    model = model_of(nodes, {"x": [2, 4, 8, 8]}, {"y": [2, 4, 8, 8], "z": [2, 4, 8, 8]}, held)
    assert judged(model) == ["Conv", "Mul"]


def test_products_become_gemm() -> None:
    nodes = [
        node("Transpose", "x", "turned", perm=[1, 0]),
        node("MatMul", "turned w", "product"),
        node("Mul", "product by", "scaled"),
        node("Add", "scaled c", "y"),
    ]
    held = weights(w=normal(4, 5), by=normal(5), c=normal(5))
    assert judged(model_of(nodes, {"x": [4, 3]}, {"y": [3, 5]}, held)) == ["Gemm"]
    three = [node("MatMul", "x w", "product"), node("Add", "product c", "y")]
    assert judged(model_of(three, {"x": [2, 3, 4]}, {"y": [2, 3, 5]}, weights(w=normal(4, 5), c=normal(5)))) == [
        "MatMul",
        "Add",
    ]


@pytest.mark.parametrize("opset", [9, 11, 13, 17])
def test_an_operator_set_stays_and_its_own_spelling_comes_back(opset: int) -> None:
    last = [node("Softmax", "pooled", "y", axis=1)]
    middle = [
        node("BatchNormalization", "x g b m v", "n"),
        node("Relu", "n", "r"),
        node("GlobalAveragePool", "r", "pooled"),
    ]
    held = weights(g=normal(4), b=normal(4), m=normal(4), v=np.abs(normal(4)) + 0.5)
    model = model_of(middle + last, {"x": ["n", 4, 8, 8]}, {"y": ["n", 4, 1, 1]}, held, opset)
    assert judged(model) == ["BatchNormalization", "Relu", "GlobalAveragePool", "Softmax"]
    assert simplify(model).message().opset_import[0].version == opset


@pytest.mark.parametrize(("opset", "written"), [(9, "Upsample"), (10, "Resize"), (11, "Resize"), (12, "Resize")])
def test_resize_is_written_as_it_was(opset: int, written: str) -> None:
    inputs = "x s" if opset < 11 else "x r s"
    nodes = [
        node(
            written,
            inputs,
            "y",
            mode="nearest",
            **({} if opset < 11 else {"coordinate_transformation_mode": "asymmetric"}),
        )
    ]
    held = weights(s=np.array([1, 1, 2, 2], np.float32), **({} if opset < 11 else {"r": np.zeros(0, np.float32)}))
    model = model_of(nodes, {"x": [1, 2, 4, 4]}, {"y": [1, 2, 8, 8]}, held, opset)
    assert judged(model) == [written]


def test_zero_states_are_left_out() -> None:
    nodes = [
        node("ConstantOfShape", "shape", "zeros"),
        node("LSTM", "x w r  zeros zeros".replace("  ", " none none "), "y", hidden_size=3),
    ]
    nodes[1].input[3:5] = ["", ""]
    held = weights(shape=np.array([1, 2, 3]), w=normal(1, 12, 4), r=normal(1, 12, 3))
    model = model_of(nodes, {"x": [5, 2, 4]}, {"y": [5, 1, 2, 3]}, held)
    assert judged(model) == ["LSTM"]
    assert len(simplify(model).message().graph.node[0].input) == 3


def test_equal_constants_are_one_and_negative_zero_is_not_zero() -> None:
    nodes = [node("Add", "x a", "p"), node("Add", "x b", "q"), node("Div", "p z", "y"), node("Div", "q m", "w")]
    held = weights(
        a=normal(700), b=np.zeros(700, np.float32), z=np.zeros(700, np.float32), m=-np.zeros(700, np.float32)
    )
    held[1].CopyFrom(numpy_helper.from_array(numpy_helper.to_array(held[0]), "b"))
    model = model_of(nodes, {"x": [700]}, {"y": [700], "w": [700]}, held)
    assert judged(model) == ["Add", "Div", "Div"]


def test_names_sizes_and_metadata_stay() -> None:
    nodes = [node("Identity", "x", "i"), node("MatMul", "i weight", "p"), node("Relu", "p", "y")]
    model = model_of(nodes, {"x": ["rows", 4]}, {"y": ["rows", 5]}, weights(weight=normal(4, 5)))
    found = simplify(model).message()
    assert (found.producer_name, found.doc_string, found.ir_version) == ("tester", "what it says", 8)
    assert [(each.key, each.value) for each in found.metadata_props] == [("author", "somebody")]
    assert list(found.graph.input) == list(model.graph.input)
    assert list(found.graph.output) == list(model.graph.output)
    assert [tensor.name for tensor in found.graph.initializer] == ["weight"]


def _chain() -> ModelProto:
    nodes = [node("Conv", "x w", "conv"), node("Add", "conv c", "sum"), node("Relu", "sum", "y")]
    return model_of(
        nodes, {"x": ["n", 4, 8, 8]}, {"y": ["n", 4, 8, 8]}, weights(w=normal(4, 4, 1, 1), c=normal(4, 1, 1))
    )


def test_what_must_stay_stays() -> None:
    assert judged(_chain()) == ["Conv", "Relu"]
    assert judged(_chain(), keep=["conv"]) == ["Conv", "Add", "Relu"]
    assert judged(_chain(), disable=["fold-affine"]) == ["Conv", "Add", "Relu"]
    assert judged(_chain(), only=["dead-code"]) == ["Conv", "Add", "Relu"]


def test_other_outputs_and_sizes() -> None:
    found = simplify(_chain(), outputs=["sum"], shapes={"x": [3, 4, 2, 2]}).message()
    assert [value.name for value in found.graph.output] == ["sum"]
    assert [size.dim_value for size in found.graph.output[0].type.tensor_type.shape.dim] == [3, 4, 2, 2]
    assert [
        size.dim_value for size in simplify(_chain(), dims={"n": 7}).message().graph.input[0].type.tensor_type.shape.dim
    ][:1] == [7]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"disable": ["fuse-batchnorn"]}, "did you mean 'fuse-batchnorm'"),
        ({"only": ["nothing"]}, "the passes are equal-constants"),
        ({"keep": ["con"]}, "did you mean 'conv'"),
        ({"dims": {"m": 2}}, "the dimensions are \\['n'\\]"),
        ({"shapes": {"z": [1]}}, "the inputs are 'x'"),
        ({"shapes": {"x": [1, 4]}}, "has 4 dimensions"),
        ({"shapes": {"x": [1, 5, 8, 8]}}, "does not take these sizes"),
    ],
)
def test_wrong_wishes(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        simplify(_chain(), **options)


def test_large_constants_are_folded_or_not() -> None:
    nodes = [node("ConstantOfShape", "shape", "c"), node("Add", "x c", "y")]
    model = model_of(nodes, {"x": [512, 512]}, {"y": [512, 512]}, weights(shape=np.array([512, 512])))
    assert judged(model) == ["Add"]
    assert judged(model, largest=1000) == ["ConstantOfShape", "Add"]


def test_check_compares_with_the_original(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(_chain(), path)
    found = simplify(path)
    assert all(each.relative < 1e-5 for each in check(path, found, 2))
    weight = next(value for value in found.written.graph.constants() if value.rank == 4)
    weight.constant = np.asarray(weight.constant) * 2
    with pytest.raises(InputError, match="answers otherwise"):
        check(path, found, 1)


def test_external_data_stays_external(tmp_path: Path) -> None:
    nodes = [node("MatMul", "x weight", "p"), node("Relu", "p", "y")]
    model = model_of(nodes, {"x": ["rows", 200]}, {"y": ["rows", 200]}, weights(weight=normal(200, 200)))
    copy = ModelProto.FromString(model.SerializeToString())
    onnx.save(copy, tmp_path / "in.onnx", save_as_external_data=True, location="in.data", size_threshold=0)
    found = simplify(tmp_path / "in.onnx")
    assert found.save(tmp_path / "out.onnx") == [tmp_path / "out.onnx", tmp_path / "out.onnx.data"]
    assert found.save(tmp_path / "whole.onnx", external_data=False) == [tmp_path / "whole.onnx"]
    feeds = {"x": normal(3, 200)}
    for name in ("out", "whole"):
        np.testing.assert_allclose(answers(onnx.load(tmp_path / f"{name}.onnx"), feeds)[0], answers(model, feeds)[0])


def test_bodies_are_simplified_too() -> None:
    def branch(name: str, nodes: Callable[[], list[Any]]) -> Any:
        return helper.make_graph(nodes(), name, [], [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)])

    then = branch("then", lambda: [node("Identity", "x", "i"), node("Relu", "i", "z")])
    other = branch("else", lambda: [node("Neg", "x", "n"), node("Neg", "n", "m"), node("Abs", "m", "z")])
    nodes = [
        node("ReduceSum", "x", "s", keepdims=0),
        node("Greater", "s zero", "c"),
        node("If", "c", "y", then_branch=then, else_branch=other),
    ]
    model = model_of(nodes, {"x": [3]}, {"y": [3]}, weights(zero=np.float32(0)))
    assert judged(model) == ["ReduceSum", "Greater", "If"]
    found = simplify(model)
    assert (found.before.nodes, found.after.nodes) == (8, 5)
