"""Whole networks as modules of PyTorch: short, right, and trainable."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import intaglio
from intaglio.conformance.exported import import_exported

torch = pytest.importorskip("torch", reason="exported PyTorch code needs PyTorch, which development does not install")

MOST_LINES = 300
RNG = np.random.default_rng(5)


def bench_model(name: str) -> tuple[Any, dict[str, Any]]:
    from bench.models import select

    (found,) = select([name])
    return found.path(), found.feeds(2)


def counting_loop() -> tuple[Any, dict[str, Any]]:
    """Newton's method for square roots, scaled by a weight, as a Loop with a state."""
    text = """
    <ir_version: 10, opset_import: ["" : 21]>
    net (float[n, 4] x) => (float[n, 4] y)
    <float[4] scale = {0.5, 0.75, 1.25, 1.5}, float half = {0.5}, int64 rounds = {6}, bool go = {1}> {
        root = Loop <body = step (int64 i, bool c, float[n, 4] guess) => (bool again, float[n, 4] better) {
            again = Identity(c)
            part = Div(x, guess)
            whole = Add(guess, part)
            better = Mul(whole, half)
        }> (rounds, go, x)
        y = Mul(root, scale)
    }
    """
    return onnx.parser.parse_model(text), {"x": RNG.uniform(1, 9, (3, 4)).astype(np.float32)}


def quantised() -> tuple[Any, dict[str, Any]]:
    """A convolution and a product between QuantizeLinear and DequantizeLinear, as quantizers of ONNX Runtime write."""
    weights = RNG.integers(-100, 100, (8, 3, 3, 3)).astype(np.int8)
    matrix = RNG.integers(-100, 100, (8, 5)).astype(np.int8)
    arrays = {
        "conv.weight": weights, "head.weight": matrix, "conv.bias": RNG.normal(size=8).astype(np.float32),
        "s": np.float32(0.05), "z": np.uint8(128), "t": np.float32(0.01), "o": np.int8(0), "u": np.float32(0.2),
    }  # fmt: skip
    node = onnx.helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        node("DequantizeLinear", ["xq", "s", "z"], ["xf"]),
        node("DequantizeLinear", ["conv.weight", "t", "o"], ["wf"]),
        node("Conv", ["xf", "wf", "conv.bias"], ["c"], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"]),
        node("QuantizeLinear", ["r", "u", "z"], ["rq"]),
        node("DequantizeLinear", ["rq", "u", "z"], ["rf"]),
        node("GlobalAveragePool", ["rf"], ["p"]),
        node("Flatten", ["p"], ["f"]),
        node("DequantizeLinear", ["head.weight", "t", "o"], ["hf"]),
        node("MatMul", ["f", "hf"], ["y"]),
    ]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "quantised",
        [value("x", onnx.TensorProto.FLOAT, ["n", 3, 8, 8])], [value("y", onnx.TensorProto.FLOAT, ["n", 5])],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    return model, {"x": RNG.normal(size=(2, 3, 8, 8)).astype(np.float32)}


MODELS: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "resnet50": lambda: bench_model("resnet50"),
    "bert_base": lambda: bench_model("bert_base"),
    "lstm": lambda: bench_model("lstm"),
    "loop": counting_loop,
    "quantised": quantised,
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in ("resnet50", "bert_base") else name for name in MODELS],
)
def test_a_network_is_short_right_and_trains(name: str, tmp_path: Path) -> None:
    source, feeds = MODELS[name]()
    intaglio.export(source, "torch", tmp_path)
    text = (tmp_path / "model.py").read_text()
    assert len(text.splitlines()) < MOST_LINES
    subprocess.run([sys.executable, "-m", "ruff", "check", "--isolated", "--quiet", str(tmp_path)], check=True)

    model = intaglio.load(source, engine="native")
    expected = list(model.run(feeds).values())
    module = import_exported(tmp_path).load()
    inputs = [torch.from_numpy(feeds[item.name]) for item in model.inputs]
    found = module(*inputs)
    for left, right in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
        np.testing.assert_allclose(left.detach().numpy(), right, rtol=1e-3, atol=2e-5 * np.abs(right).max())

    target = torch.zeros_like((found if isinstance(found, tuple) else (found,))[0])
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)
    losses: list[float] = []
    for _ in range(2):
        optimizer.zero_grad()
        given = module(*inputs)
        loss = torch.nn.functional.mse_loss(given[0] if isinstance(given, tuple) else given, target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert losses[1] < losses[0]
