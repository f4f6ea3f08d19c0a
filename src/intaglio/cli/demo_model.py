"""A small residual network with fixed weights, which the command line can show without any file."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

CLASSES = 10
SIDE = 32


class _Network:
    """Nodes and weights, one layer after another."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(7)
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []

    def weight(self, name: str, shape: tuple[int, ...], scale: float) -> str:
        values = self.generator.standard_normal(shape) * scale
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def conv(self, x: str, name: str, inner: int, outer: int, stride: int = 1, kernel: int = 3) -> str:
        weight = self.weight(f"{name}.weight", (outer, inner, kernel, kernel), (inner * kernel * kernel) ** -0.5)
        bias = self.weight(f"{name}.bias", (outer,), 0.1)
        pads = [kernel // 2] * 4
        return self.node("Conv", [x, weight, bias], name, strides=[stride, stride], pads=pads)

    def block(self, x: str, name: str, inner: int, outer: int, stride: int) -> str:
        """relu(conv(relu(conv(x))) + shortcut(x))."""
        first = self.node("Relu", [self.conv(x, f"{name}.conv1", inner, outer, stride)], f"{name}.relu1")
        second = self.conv(first, f"{name}.conv2", outer, outer)
        shortcut = x if inner == outer else self.conv(x, f"{name}.shortcut", inner, outer, stride, kernel=1)
        return self.node("Relu", [self.node("Add", [second, shortcut], f"{name}.add")], f"{name}.relu2")


def demo_model() -> ModelProto:
    """A residual network of 78 thousand parameters: images [batch, 3, 32, 32] to probabilities [batch, 10]."""
    net = _Network()
    x = net.node("Relu", [net.conv("image", "stem", 3, 16)], "stem.relu")
    for name, inner, outer, stride in (("block1", 16, 16, 1), ("block2", 16, 32, 2), ("block3", 32, 64, 2)):
        x = net.block(x, name, inner, outer, stride)
    x = net.node("Flatten", [net.node("GlobalAveragePool", [x], "pool")], "features")
    x = net.node(
        "Gemm", [x, net.weight("head.weight", (64, CLASSES), 1.0), net.weight("head.bias", (CLASSES,), 0.1)], "logits"
    )
    net.node("Softmax", [x], "probabilities", axis=-1)
    graph = helper.make_graph(
        net.nodes,
        "resnet-tiny",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", CLASSES])],
        net.weights,
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10, producer_name="intaglio"
    )
