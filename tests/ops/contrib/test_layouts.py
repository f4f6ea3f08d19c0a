"""Files that ONNX Runtime has optimised fully: random networks, written by it in blocks of channels, run here."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema
from onnxruntime.transformers.fusion_nhwc_conv import FusionNhwcConv
from onnxruntime.transformers.onnx_model import OnnxModel

import intaglio
from intaglio.errors import IntaglioError
from intaglio.ir.op import OPERATORS
from intaglio.ops.contrib import layouts as contrib_layouts
from intaglio.ops.contrib.layouts import BLOCKED, block_size

SEEDS = 24
WIDTHS = [3, 8, 12, 16, 16, 16, 24, 32, 32, 32, 40, 48]


class Net:
    """A network under construction: nodes, weights, and the values made so far by their number of channels."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def weight(self, array: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def conv(self, x: str, channels: int) -> tuple[str, int]:
        outputs, group = self.rng.choice(WIDTHS), 1
        kind = self.rng.choice(["plain", "plain", "pointwise", "depthwise", "grouped"])
        size = 1 if kind == "pointwise" else 3
        if kind == "depthwise":
            outputs = group = channels
        elif kind == "grouped" and channels in (16, 32):
            outputs, group = self.rng.choice([16, 32]), 2
        kernel = self.numbers.normal(size=(outputs, channels // group, size, size)) / 8
        inputs = [x, self.weight(kernel.astype(np.float32))]
        if self.rng.random() < 0.8:
            inputs.append(self.weight(self.numbers.normal(size=outputs).astype(np.float32)))
        dilation = self.rng.choice([1, 1, 2]) if size == 3 else 1
        pads = [dilation * (size // 2)] * 4
        return self.add(
            "Conv", *inputs, group=group, pads=pads, dilations=[dilation] * 2, kernel_shape=[size, size]
        ), outputs

    def activation(self, x: str) -> str:
        kind = self.rng.choice(["Relu", "LeakyRelu", "Sigmoid", "Tanh", "Clip", "HardSwish", "none"])
        if kind == "Clip":
            return self.add("Clip", x, self.weight(np.float32(0)), self.weight(np.float32(1)))
        return x if kind == "none" else self.add(kind, x)

    def step(self, x: str, channels: int) -> tuple[str, int]:
        """One random layer; all keep the size of the picture."""
        match self.rng.choice(["conv", "conv", "conv", "residual", "pool", "concat", "upsample", "gate"]):
            case "residual":
                y, width = self.conv(x, channels)
                return self.activation(self.add("Add", y, x) if width == channels else y), width
            case "pool":
                kind, options = self.rng.choice([("MaxPool", {}), ("AveragePool", {"count_include_pad": 0})])
                return self.add(kind, x, kernel_shape=[3, 3], pads=[1] * 4, **options), channels
            case "concat":
                y, width = self.conv(x, channels)
                return self.add("Concat", x, y, axis=1), channels + width
            case "upsample":
                scales = self.weight(np.array([1, 1, 2, 2], np.float32))
                mode = self.rng.choice(["nearest", "linear"])
                how = {"mode": mode, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
                large = self.add("Resize", x, "", scales, **how)
                return self.add("MaxPool", large, kernel_shape=[2, 2], strides=[2, 2]), channels
            case "gate":
                mean = self.add(self.rng.choice(["GlobalAveragePool", "GlobalMaxPool"]), x)
                return self.add("Mul", x, self.add("Sigmoid", mean)), channels
            case _:
                y, width = self.conv(x, channels)
                return self.activation(y), width

    def model(self) -> onnx.ModelProto:
        x, channels = "x", self.rng.choice([3, 8, 12, 16, 32])
        first = channels
        for _ in range(self.rng.randint(3, 7)):
            x, channels = self.step(x, channels)
        info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", first, 9, 7])
        result = helper.make_tensor_value_info(x, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "net", [info], [result], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def optimised(model: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """The model as ONNX Runtime writes it with all its rewrites."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return onnx.load(path)


def run_there(model: onnx.ModelProto, x: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"]).run(
        None, {"x": x}
    )[0]


def close(found: Any, expected: Any) -> None:
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_networks(seed: int, tmp_path: Path) -> None:
    net = Net(seed)
    model = net.model()
    written = optimised(model, tmp_path / "net.onnx")
    x = net.numbers.normal(size=(2, model.graph.input[0].type.tensor_type.shape.dim[1].dim_value, 9, 7)).astype(
        np.float32
    )
    expected = run_there(model, x)
    for engine in ("native", "reference"):
        loaded = intaglio.load(written, engine=engine)
        close(loaded(x), expected)
        is_blocked = any(node.domain == BLOCKED for node in written.graph.node)
        assert any("optimised this file" in text for text in loaded.info.warnings) == is_blocked


def test_the_networks_have_every_operator(tmp_path: Path) -> None:
    found: Counter[str] = Counter()
    for seed in range(SEEDS):
        nodes = optimised(Net(seed).model(), tmp_path / "net.onnx").graph.node
        found.update(node.op_type for node in nodes if node.domain == BLOCKED)
    assert set(found) == {name for domain, name in OPERATORS if domain == BLOCKED}


def test_the_operators_are_those_of_onnx_runtime() -> None:
    schemas = {each.name: each for each in get_all_operator_schema() if each.domain == BLOCKED}
    assert set(schemas) == {name for domain, name in OPERATORS if domain == BLOCKED}
    for name, schema in schemas.items():
        ours = OPERATORS[BLOCKED, name]
        assert {attribute.name for attribute in ours.attributes()} == set(schema.attributes)
        assert [each.name for each in ours.parameters()] == [each.name for each in schema.inputs]


@pytest.mark.parametrize("channels", [8, 24])
def test_other_blocks_are_refused(channels: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(0)
    kernel = net.weight(np.ones((channels, 3, 3, 3), np.float32))
    y = net.add("Relu", net.add("Conv", "x", kernel, kernel_shape=[3, 3]))
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])
    result = helper.make_tensor_value_info(y, TensorProto.FLOAT, None)
    graph = helper.make_graph(net.nodes, "net", [info], [result], net.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    written = optimised(model, tmp_path / "net.onnx")
    other = 16 if block_size() == 8 else 8
    monkeypatch.setattr(contrib_layouts, "block_size", lambda: other)
    with pytest.raises(IntaglioError, match="other blocks of channels"):
        intaglio.load(written)


@pytest.mark.parametrize("update_weight", [False, True])
@pytest.mark.parametrize("group", [1, 2])
def test_channels_last_as_onnx_runtime_makes_them(group: int, update_weight: bool) -> None:
    rng = np.random.default_rng(group)
    net = Net(1)
    kernel = net.weight(rng.normal(size=(6, 4 // group, 3, 2)).astype(np.float32))
    bias = net.weight(rng.normal(size=6).astype(np.float32))
    y = net.add("Conv", "x", kernel, bias, group=group, pads=[1, 0, 1, 1], strides=[2, 1], kernel_shape=[3, 2])
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4, "h", "w"])
    result = helper.make_tensor_value_info(y, TensorProto.FLOAT, None)
    graph = helper.make_graph(net.nodes, "net", [info], [result], net.weights)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    x = rng.normal(size=(2, 4, 7, 9)).astype(np.float32)
    expected = run_there(model, x)
    rewritten = OnnxModel(onnx.ModelProto.FromString(model.SerializeToString()))
    FusionNhwcConv(rewritten, update_weight=update_weight).apply()
    rewritten.topological_sort()
    assert "NhwcConv" in {node.op_type for node in rewritten.model.graph.node}
    for engine in ("native", "reference"):
        close(intaglio.load(rewritten.model, engine=engine)(x), expected)


@pytest.mark.parametrize("activation", [None, "Relu", "Clip"])
@pytest.mark.parametrize("has_sum", [False, True])
def test_fused_with_channels_last(activation: str | None, has_sum: bool) -> None:
    rng = np.random.default_rng(3)
    parameters: dict[str, Any] = {"activation": activation} if activation else {}
    if activation == "Clip":
        parameters["activation_params"] = [-0.5, 0.5]
    names = ["x", "w", "b", *(["z"] if has_sum else [])]
    shapes = {"x": (2, 7, 9, 4), "w": (6, 4, 3, 3), "b": (6,), "z": (2, 7, 9, 6)}
    feeds = {name: rng.normal(size=shapes[name]).astype(np.float32) for name in names}
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in names]
    options = {"pads": [1] * 4, "kernel_shape": [3, 3]}

    def model(nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph(nodes, "net", infos, [result])
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8)

    ours = model([helper.make_node("NhwcFusedConv", names, ["y"], domain="com.microsoft", **options, **parameters)])
    nodes = [helper.make_node("Transpose", ["x"], ["x1"], perm=[0, 3, 1, 2])]
    nodes += [helper.make_node("Transpose", ["z"], ["z1"], perm=[0, 3, 1, 2])] if has_sum else []
    inputs = ["x1", "w", "b", *(["z1"] if has_sum else [])]
    nodes += [helper.make_node("FusedConv", inputs, ["y1"], domain="com.microsoft", **options, **parameters)]
    nodes += [helper.make_node("Transpose", ["y1"], ["y"], perm=[0, 2, 3, 1])]
    session = onnxruntime.InferenceSession(model(nodes).SerializeToString(), providers=["CPUExecutionProvider"])
    close(intaglio.load(ours)(*feeds.values()), session.run(None, feeds)[0])
