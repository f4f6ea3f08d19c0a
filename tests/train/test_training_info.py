"""The training information of ONNX models: algorithms of the operators Gradient, Adam, Adagrad and Momentum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import intaglio
from intaglio import train

PREVIEW = "ai.onnx.preview.training"
RNG = np.random.default_rng(0)
W = RNG.standard_normal((3, 2)).astype(np.float32)
X = RNG.standard_normal((5, 3)).astype(np.float32)
Y = RNG.standard_normal((5, 2)).astype(np.float32)


def tensor_info(name: str, *shape: Any, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def make(optimizer: str, slots: int, initialization: bool = False, **attributes: Any) -> onnx.ModelProto:
    """y = x @ w, and an algorithm that brings y nearer to a target."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "model",
        [tensor_info("x", "N", 3)], [tensor_info("y", "N", 2)], [numpy_helper.from_array(W, "w")],
    )  # fmt: skip
    names = [f"slot{i}" for i in range(slots)]
    nodes = [
        helper.make_node("Sub", ["y", "target"], ["difference"]),
        helper.make_node("Mul", ["difference", "difference"], ["square"]),
        helper.make_node("ReduceMean", ["square"], ["loss"], keepdims=0),
        helper.make_node("Gradient", ["w"], ["slope"], domain=PREVIEW, xs=["w"], y="loss"),
        helper.make_node(
            optimizer, ["rate", "count", "w", "slope", *names], ["w_new", *(f"{n}_new" for n in names)],
            domain=PREVIEW, **attributes,
        ),
        helper.make_node("Add", ["count", "one"], ["count_new"]),
    ]  # fmt: skip
    tensors = [numpy_helper.from_array(np.zeros_like(W), name) for name in names]
    tensors += [numpy_helper.from_array(np.array(value), name) for name, value in (("count", 0), ("one", 1))]
    tensors.append(numpy_helper.from_array(np.array(0.1, np.float32), "rate"))
    outputs = [tensor_info("loss"), *(tensor_info(f"{n}_new", 3, 2) for n in ("w", *names))]
    outputs.append(tensor_info("count_new", kind=TensorProto.INT64))
    info = onnx.TrainingInfoProto()
    info.algorithm.CopyFrom(helper.make_graph(nodes, "step", [tensor_info("target", "N", 2)], outputs, tensors))
    for name in ("w", *names, "count"):
        info.update_binding.add(key=name, value=f"{name}_new")
    if initialization:
        begin = helper.make_node("Constant", [], ["begin"], value=numpy_helper.from_array(W * 2))
        info.initialization.CopyFrom(helper.make_graph([begin], "begin", [], [tensor_info("begin", 3, 2)]))
        info.initialization_binding.add(key="w", value="begin")
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(PREVIEW, 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    model.training_info.append(info)
    return model


def momentum(w: Any, g: Any, slots: Any, step: int) -> Any:
    slots[0] = 0.9 * slots[0] + (0.5 if step else 1.0) * g
    return w - 0.1 * slots[0]


def adagrad(w: Any, g: Any, slots: Any, step: int) -> Any:
    slots[0] = slots[0] + g * g
    return w - 0.1 / (1 + 0.2 * step) * g / (np.sqrt(slots[0]) + 1e-6)


def adam(w: Any, g: Any, slots: Any, step: int) -> Any:
    slots[0], slots[1] = 0.8 * slots[0] + 0.2 * g, 0.9 * slots[1] + 0.1 * g * g
    rate = 0.1 * np.sqrt(1 - 0.9**step) / (1 - 0.8**step) if step else 0.1
    return w - rate * slots[0] / (np.sqrt(slots[1]) + 1e-6)


CASES: dict[str, Any] = {
    "Momentum": (1, momentum, {"alpha": 0.9, "beta": 0.5, "mode": "standard", "norm_coefficient": 0.0}),
    "Adagrad": (1, adagrad, {"decay_factor": 0.2, "epsilon": 1e-6}),
    "Adam": (2, adam, {"alpha": 0.8, "beta": 0.9, "epsilon": 1e-6}),
}


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("name", CASES)
def test_an_algorithm_runs(name: str, engine: str, tmp_path: Path) -> None:
    slots, judge, attributes = CASES[name]
    onnx.save(make(name, slots, **attributes), tmp_path / "m.onnx")
    step = train.training_step(tmp_path / "m.onnx", engine=engine)
    assert [item.name for item in step.inputs] == ["x", "target"]
    assert [item.name for item in step.outputs] == ["y", "loss"]
    w, held = W.astype(np.float64), [np.zeros_like(W)] * slots
    for number in range(6):
        y, loss = step(X, Y)
        np.testing.assert_allclose(y, X @ w, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(loss, ((X @ w - Y) ** 2).mean(), rtol=1e-4)
        w = judge(w, 2 * X.T @ (X @ w - Y) / Y.size, held, number)
        np.testing.assert_allclose(step.state["w"], w, rtol=1e-4, atol=1e-5)
        assert step.state["count"] == number + 1


def test_the_initialization_gives_the_first_values() -> None:
    step = train.training_step(make("Momentum", 1, True, **CASES["Momentum"][2]))
    np.testing.assert_array_equal(step.state["w"], W * 2)


@pytest.mark.parametrize("as_bytes", [False, True])
def test_large_tensors_are_state_too(as_bytes: bool, tmp_path: Path) -> None:
    model = make("Momentum", 1, **CASES["Momentum"][2])
    large = np.random.default_rng(1).standard_normal((3, 100_000)).astype(np.float32)
    for tensor in (model.graph.initializer[0], model.training_info[0].algorithm.initializer[0]):
        tensor.CopyFrom(numpy_helper.from_array(large, tensor.name))
    for value in (
        model.graph.output[0],
        *model.training_info[0].algorithm.input,
        *model.training_info[0].algorithm.output,
    ):
        if len(value.type.tensor_type.shape.dim) == 2:
            value.type.tensor_type.shape.dim[1].dim_value = 100_000
    onnx.save(model, tmp_path / "m.onnx")
    step = train.training_step((tmp_path / "m.onnx").read_bytes() if as_bytes else tmp_path / "m.onnx")
    step(X, np.zeros((5, 100_000), np.float32))
    slope = 2 * X.T @ (X @ large) / (5 * 100_000)
    np.testing.assert_allclose(step.state["w"], large - 0.1 * (0.9 * large + slope), rtol=1e-4, atol=1e-5)


def test_the_model_itself_tells_of_it() -> None:
    model = intaglio.load(make("Momentum", 1, **CASES["Momentum"][2]))
    np.testing.assert_allclose(model(X), X @ W, rtol=1e-5)
    assert any("training_step" in text for text in model.info.warnings)


def test_training_information_that_is_wrong() -> None:
    def changed(edit: Any) -> onnx.ModelProto:
        model = make("Momentum", 1, **CASES["Momentum"][2])
        edit(model.training_info[0])
        return model

    def rename(info: Any) -> None:
        info.update_binding[0].value = "nothing"

    def twice(info: Any) -> None:
        info.update_binding.add(key="w", value="w_new")

    def unknown(info: Any) -> None:
        info.update_binding[0].key = "v"

    for edit, text in [(rename, "no output of the algorithm"), (twice, "twice"), (unknown, "no initializer")]:
        with pytest.raises(intaglio.LoadError, match=text):
            train.training_step(changed(edit))
    with pytest.raises(intaglio.LoadError, match="has 1 training algorithms, and number 1"):
        train.training_step(make("Momentum", 1, **CASES["Momentum"][2]), index=1)


def test_integers_that_sizes_may_depend_on_are_no_state() -> None:
    with intaglio.build("g", inputs={"x": "float32[N]"}) as g:
        from intaglio import ops

        g.output(y=ops.Reshape(g["x"], g.constant(np.array([-1, 1]), "shape")))
    with pytest.raises(intaglio.InputError, match="only an input of integers can be state"):
        intaglio.stateful(g.graph, {"shape": np.array([1, -1])})
