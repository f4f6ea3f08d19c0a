"""Models that were exported in training mode: trained so, and predicted, measured and saved as they are used."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import intaglio
from intaglio import ops, train
from intaglio.runtime.engine.engine import EngineName

RNG = np.random.default_rng(5)
X = RNG.standard_normal((12, 4)).astype(np.float32) * 3 + 1
Y = RNG.integers(0, 3, 12)


def exported(is_training: bool, has_statistics: bool = False) -> onnx.ModelProto:
    """A layer, a normalization and a dropout, as exporters write them."""
    weights = {
        "w": np.arange(12).reshape(4, 3) / 7, "scale": np.ones(3), "bias": np.zeros(3),
        "mean": np.full(3, 0.25), "var": np.full(3, 2.0), "ratio": np.array(0.5), "mode": np.array(True),
    }  # fmt: skip
    tensors = [
        numpy_helper.from_array(a if a.dtype == bool else a.astype(np.float32), name) for name, a in weights.items()
    ]
    normalized = ["n", "new_mean", "new_var"] if is_training else ["n"]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node(
            "BatchNormalization", ["h", "scale", "bias", "mean", "var"], normalized, training_mode=int(is_training)
        ),
        helper.make_node("Dropout", ["n", "ratio", *(["mode"] if is_training else [])], ["y"]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])]
    if has_statistics:
        outputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in normalized[1:]]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])], outputs, tensors
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_model_in_training_mode_is_used_in_inference_mode(engine: EngineName, tmp_path: Path) -> None:
    trainers = [train.Trainer(exported(mode), lr=0.05, engine=engine, seed=3) for mode in (True, False)]
    for _ in range(4):
        assert trainers[0].step(X, Y) == trainers[1].step(X, Y), "training is the same"
    found = [trainer.predict(X) for trainer in trainers]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], trainers[0].predict(X), err_msg="nothing is random")
    assert trainers[0].evaluate((X, Y)) == trainers[1].evaluate((X, Y))
    trainers[0].save(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    np.testing.assert_allclose(np.asarray(session.run(None, {"x": X})[0]), found[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(trainers[0].predict(X[:1])[0], found[0][0], rtol=1e-5, atol=1e-6)


def test_running_statistics_that_are_outputs_are_those_in_use() -> None:
    trainer = train.Trainer(exported(True, has_statistics=True), output="y", lr=0.05, engine="reference")
    trainer.step(X, Y)
    _, mean, variance = trainer.predict(X)
    np.testing.assert_array_equal(mean, trainer.state["mean"])
    np.testing.assert_array_equal(variance, trainer.state["var"])
    assert [item.name for item in trainer.trained_model().outputs] == ["y", "new_mean", "new_var"]
    assert (mean != 0.25).all()


def test_a_file_of_pytorch_in_training_mode() -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch exports the model")
    pytest.importorskip("onnxscript", reason="PyTorch exports with it")
    torch.manual_seed(0)
    layers = [torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 3)]
    module = torch.nn.Sequential(*layers).train()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module, (torch.tensor(X),), dynamo=True, optimize=False, verbose=False, dynamic_shapes=({0: "N"},)
        )
    trainer = train.Trainer(program.model_proto, lr=0.01, engine="reference")
    assert "0.weight" in trainer.trained
    assert "1.weight" in trainer.trained
    losses = {trainer.step(X, Y) for _ in range(2)}
    assert len(losses) == 2
    np.testing.assert_array_equal(trainer.predict(X), trainer.predict(X))
    assert trainer.predict(X[:1]).shape == (1, 3)
    assert intaglio.load(trainer.to_onnx(), engine="reference")(X).shape == (12, 3)


@pytest.mark.parametrize("batch", ["N", "1"])
def test_a_batch_of_one_number_for_a_channel_is_refused_as_pytorch_does(batch: str) -> None:
    """Its normalization gave zeros and moved the running variance towards 0."""
    ones = np.ones(4, np.float32)
    with intaglio.build("normalized", inputs={"x": f"float32[{batch}, 4]"}) as g:
        parts = [g.constant(ones, name) for name in ("scale", "bias", "mean", "var")]
        normalized = ops.BatchNormalization(g["x"], *parts)
        g.output(y=ops.MatMul(normalized, g.constant(np.eye(4, 3, dtype=np.float32), "w")))
    trainer = train.Trainer(g.graph, engine="reference")
    x, label = np.arange(8, dtype=np.float32).reshape(2, 4), np.array([0, 1])
    for call in (trainer.step, trainer.gradients):
        with pytest.raises(intaglio.InputError, match=r"BatchNormalization.* one number for each channel"):
            call(x[:1], label[:1])
    assert trainer.state["var"].tolist() == [1, 1, 1, 1]
    assert np.isfinite(trainer.step(x, label))
    assert trainer.predict(x[:1]).shape == (1, 3)
    frozen = train.Trainer(g.graph, engine="reference", frozen=["scale", "bias"])
    assert np.isfinite(frozen.step(x[:1], label[:1]))
