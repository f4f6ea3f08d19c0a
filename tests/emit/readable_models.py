"""Models whose PyTorch source must read well: without names, with names that are taken, of integers."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tests.emit.models import drawn, parse

RESERVED = ("input", "self", "class", "torch", "nn", "functional", "forward", "training", "type", "Model", "load")


def blocks() -> onnx.ModelProto:
    """A stem, three residual blocks of convolutions, a pool and a linear layer, with numbers for names."""
    nodes = ["v0 = Conv <pads = [1, 1, 1, 1]> (image, w0)", "v1 = Relu (v0)"]
    weights = {"w0": drawn(4, 3, 3, 3), "w9": drawn(4, 2), "w10": drawn(2)}
    last = 1
    for block in range(3):
        first, second = f"w{2 * block + 1}", f"w{2 * block + 2}"
        weights |= {first: drawn(4, 4, 3, 3) / 4, second: drawn(4, 4, 3, 3) / 5}
        nodes += [
            f"v{last + 1} = Conv <pads = [1, 1, 1, 1]> (v{last}, {first})",
            f"v{last + 2} = Relu (v{last + 1})",
            f"v{last + 3} = Conv <pads = [1, 1, 1, 1]> (v{last + 2}, {second})",
            f"v{last + 4} = Add (v{last + 3}, v{last})",
            f"v{last + 5} = Relu (v{last + 4})",
        ]
        last += 5
    nodes += [f"p = GlobalAveragePool (v{last})", "f = Flatten (p)", "v99 = Gemm (f, w9, w10)"]
    return parse(f"net (float[batch, 3, 6, 6] image) => (float[batch, 2] v99) {{ {' '.join(nodes)} }}", **weights)


def reserved() -> onnx.ModelProto:
    """Every name is one that Python, PyTorch or the written module has for something else."""
    node, value = helper.make_node, helper.make_tensor_value_info
    arrays = {"forward": drawn(3, 3), "training": drawn(3), "type": drawn(3), "parameters": drawn(3, 3)}
    nodes = [
        node("MatMul", ["input", "forward"], ["torch"]),
        node("Add", ["torch", "training"], ["nn"]),
        node("Mul", ["nn", "self"], ["functional"]),
        node("Mul", ["functional", "type"], ["class"]),
        node("Sigmoid", ["class"], ["lambda"]),
        node("MatMul", ["lambda", "parameters"], ["load"]),
        node("Add", ["load", "input"], ["return"]),
    ]
    graph = helper.make_graph(
        nodes,
        "Model",
        [value(name, TensorProto.FLOAT, ["n", 3]) for name in ("input", "self")],
        [value("return", TensorProto.FLOAT, ["n", 3]), value("class", TensorProto.FLOAT, ["n", 3])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def integers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-90, 90, shape).astype(np.int8)


def rounded() -> onnx.ModelProto:
    """Layers between QuantizeLinear and DequantizeLinear, with one scale and with one for each channel."""
    return parse(
        """net (float[n, 3, 6, 6] x) => (float[n, 5] y) {
            a = QuantizeLinear (x, s, z) b = DequantizeLinear (a, s, z)
            k = DequantizeLinear <axis = 0> (w, t, o)
            c = Conv <pads = [1, 1, 1, 1]> (b, k, bias)
            r = Relu (c)
            d = QuantizeLinear (r, u, z) e = DequantizeLinear (d, u, z)
            g = QuantizeLinear <axis = 1> (e, t, o) h = DequantizeLinear <axis = 1> (g, t, o)
            p = GlobalAveragePool (h)
            f = Flatten (p)
            m = DequantizeLinear (v, u, i)
            y = MatMul (f, m) }""",
        w=integers(4, 3, 3, 3),
        v=integers(4, 5),
        bias=drawn(4),
        s=np.array(0.05, np.float32),
        z=np.array(120, np.uint8),
        t=np.array([0.01, 0.02, 0.015, 0.03], np.float32),
        o=np.zeros(4, np.int8),
        u=np.array(0.04, np.float32),
        i=np.array(3, np.int8),
    )


def whole_numbers() -> onnx.ModelProto:
    """Layers of bytes, and one of floats whose range is found as they come."""
    return parse(
        """net (float[n, 3, 6, 6] x) => (float[n, 5] y, uint8[n, 5] q, float[n, 2] d) {
            a = QuantizeLinear (x, s, z)
            c = QLinearConv <pads = [1, 1, 1, 1], strides = [2, 2]> (a, s, z, w, t, o, u, z, bias)
            e = DequantizeLinear (c, u, z)
            p = ReduceMean <keepdims = 0> (e, axes)
            g = QuantizeLinear (p, s, z)
            q = QLinearMatMul (g, s, z, v, u, i, u, z)
            y = DequantizeLinear (q, u, z)
            h, hs, hz = DynamicQuantizeLinear (y)
            m = MatMulInteger (h, l, hz, i)
            j = Cast <to = 1> (m)
            f = Mul (hs, u)
            k = Mul (j, f)
            d = Add (k, b) }""",
        w=integers(4, 3, 3, 3),
        v=integers(4, 5),
        l=integers(5, 2),
        bias=np.array([5, -90, 700, 31], np.int32),
        s=np.array(0.05, np.float32),
        z=np.array(120, np.uint8),
        t=np.array([0.01, 0.02, 0.015, 0.03], np.float32),
        o=np.zeros(4, np.int8),
        u=np.array(0.04, np.float32),
        i=np.array(3, np.int8),
        axes=np.array([2, 3]),
        b=drawn(2),
    )


def without_names(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with a number for every name but those of inputs and outputs, and without scopes."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    graph = found.graph
    kept = {value.name for value in (*graph.input, *graph.output)} | {""}
    names: dict[str, str] = {}

    def new(name: str) -> str:
        return name if name in kept else names.setdefault(name, f"v{len(names)}")

    for tensor in graph.initializer:
        tensor.name = new(tensor.name)
    for node in graph.node:
        node.name = ""
        del node.metadata_props[:]
        node.input[:] = [new(name) for name in node.input]
        node.output[:] = [new(name) for name in node.output]
    del graph.value_info[:]
    return found


READABLE = {"blocks": blocks, "reserved": reserved, "rounded": rounded, "whole_numbers": whole_numbers}
"""The models of snapshots that only PyTorch has."""

READABLE_FEEDS = {
    "blocks": [drawn(2, 3, 6, 6)],
    "reserved": [drawn(2, 3), drawn(3, 2).T.copy()],
    "rounded": [3 * drawn(2, 3, 6, 6)],
    "whole_numbers": [3 * drawn(2, 3, 6, 6)],
}
