"""Models in QDQ form as integer arithmetic: against ONNX Runtime, and as it is with `exact` or without the pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from intaglio.runtime.model.loading import load
from intaglio.runtime.model.model import Model

Array = np.ndarray[Any, Any]
GENERATOR = np.random.default_rng(11)


class Network:
    """A QDQ model under construction: every value is quantized behind the node that makes it."""

    def __init__(self, shape: tuple[Any, ...], activation: Any = np.uint8) -> None:
        self.activation = activation
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)]
        self.zero_point = np.asarray(128 if activation == np.uint8 else 3, activation)

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def node(self, op: str, inputs: list[str], **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def pair(self, x: str, scale: float, zero: Any = None) -> str:
        """QuantizeLinear and DequantizeLinear."""
        parameters = [self.constant(np.float32(scale)), self.constant(self.zero_point if zero is None else zero)]
        return self.node("DequantizeLinear", [self.node("QuantizeLinear", [x, *parameters]), *parameters])

    def weights(self, shape: tuple[int, ...], axis: int) -> tuple[str, Array]:
        """Signed bytes with a scale for each output, dequantized, and the scales."""
        array = GENERATOR.integers(-127, 128, shape).astype(np.int8)
        scales = GENERATOR.uniform(0.005, 0.02, shape[axis]).astype(np.float32)
        names = [self.constant(array), self.constant(scales), self.constant(np.zeros(shape[axis], np.int8))]
        return self.node("DequantizeLinear", names, axis=axis), scales

    def bias(self, scales: Array) -> str:
        array = GENERATOR.integers(-4000, 4000, scales.shape).astype(np.int32)
        names = [self.constant(array), self.constant(scales), self.constant(np.zeros(scales.shape, np.int32))]
        return self.node("DequantizeLinear", names, axis=0)

    def build(self, output: str, opset: int = 19) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "qdq",
            self.inputs,
            [helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None)],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def runtime(proto: onnx.ModelProto, x: Array) -> Array:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


def kernels(model: Model) -> str:
    return " ".join(f"{call.kernel} {call.title}" for call in model.explain().calls)


def assert_near(got: Array, expected: Array, step: float) -> None:
    """Nearly all results the same, and none off by more than one step of the last quantization."""
    difference = np.abs(got.astype(np.float64) - expected)
    assert difference.max(initial=0) <= step * 1.001
    assert (difference > step / 2).mean() <= 0.01


def block(activation: Any) -> tuple[onnx.ModelProto, float]:
    """Convolution and Relu, pool, depthwise and pointwise convolutions, a residual sum, reshape, Gemm, MatMul."""
    net = Network((2, 3, 16, 16), activation)
    step = 0.05
    low = np.asarray(np.iinfo(activation).min, activation)
    x = net.pair("x", 0.03)
    w, scales = net.weights((24, 3, 3, 3), 0)
    first = net.node("Conv", [x, w, net.bias(scales * np.float32(0.03))], pads=[1, 1, 1, 1])
    first = net.pair(net.node("Relu", [first]), step, low)
    pooled = net.pair(net.node("MaxPool", [first], kernel_shape=[2, 2], strides=[2, 2]), step, low)
    w, scales = net.weights((24, 1, 3, 3), 0)
    deep = net.pair(net.node("Conv", [pooled, w, net.bias(scales * np.float32(step))], group=24, pads=[1] * 4), 0.06)
    w, scales = net.weights((24, 24, 1, 1), 0)
    wide = net.pair(net.node("Conv", [deep, w, net.bias(scales * np.float32(0.06))]), 0.2)
    total = net.pair(net.node("Add", [wide, pooled]), 0.25)
    flat = net.pair(net.node("Reshape", [total, net.constant(np.array([2, -1], np.int64))]), 0.25)
    w, scales = net.weights((10, 1536), 0)
    scores = net.pair(net.node("Gemm", [flat, w, net.bias(scales * np.float32(0.25))], transB=1), 3.0)
    w, _ = net.weights((10, 20), 1)
    return net.build(net.pair(net.node("MatMul", [scores, w]), 4.0)), 4.0


@pytest.mark.parametrize("activation", [np.uint8, np.int8])
def test_a_network_of_every_kind_of_layer(activation: Any) -> None:
    proto, step = block(activation)
    native, reference = load(proto, engine="native", strict=True), load(proto, engine="reference", simplify=False)
    text = kernels(native)
    for name in ("integer_conv", "integer_gemm", "integer_depthwise", "integer_max_pool"):
        assert name in text
    assert "Div" not in text
    x = np.random.default_rng(3).standard_normal((2, 3, 16, 16)).astype(np.float32)
    got = native.run({"x": x})
    (result,) = got.values()
    assert_near(result, runtime(proto, x), step)
    assert_near(result, next(iter(reference.run({"x": x}).values())), step)


@pytest.mark.parametrize("options", [{"exact": True}, {"disable": ["integer-arithmetic"]}])
def test_the_rewrite_can_be_left_out(options: dict[str, Any]) -> None:
    proto, step = block(np.uint8)
    native = load(proto, engine="native", strict=True, **options)
    assert "Integer" not in kernels(native)
    x = np.random.default_rng(3).standard_normal((2, 3, 16, 16)).astype(np.float32)
    assert_near(next(iter(native.run({"x": x}).values())), runtime(proto, x), step)
    report = load(proto).report
    assert report is not None
    assert report.changes_rounding


def test_float_outputs_and_float_biases_stay_floats() -> None:
    net = Network((4, 32))
    w, _ = net.weights((32, 9), 1)
    product = net.node("MatMul", [net.pair("x", 0.02), w])
    proto = net.build(net.node("Add", [product, net.constant(GENERATOR.standard_normal(9).astype(np.float32))]))
    native = load(proto, engine="native", strict=True)
    assert "MatMulInteger + Cast + Mul + Add" in kernels(native)
    x = GENERATOR.standard_normal((4, 32)).astype(np.float32)
    (result,) = native.run({"x": x}).values()
    np.testing.assert_allclose(result, runtime(proto, x), rtol=1e-5, atol=1e-5)


def test_a_depth_that_int32_cannot_hold_is_refused() -> None:
    net = Network((1, 40000))
    w, _ = net.weights((40000, 3), 1)
    proto = net.build(net.node("MatMul", [net.pair("x", 0.02), w]))
    model = load(proto, engine="native", strict=True)
    assert "may not fit int32" in str(model.report)
    assert "Integer" not in kernels(model)


def test_dynamic_quantization_of_a_product() -> None:
    """The form that ONNX Runtime's dynamic quantization writes: bytes, integer product, scales multiplied, bias."""
    net = Network(("M", 48))
    weights = GENERATOR.integers(-127, 128, (48, 33)).astype(np.int8)
    net.nodes.append(helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]))
    zero = net.constant(np.int8(0))
    product = net.node("Cast", [net.node("MatMulInteger", ["q", net.constant(weights), "z", zero])], to=1)
    scale = net.node("Mul", ["s", net.constant(np.float32(0.01))])
    scaled = net.node("Mul", [product, scale])
    proto = net.build(net.node("Add", [scaled, net.constant(GENERATOR.standard_normal(33).astype(np.float32))]))
    native, reference = load(proto, engine="native", strict=True), load(proto, engine="reference")
    assert "MatMulInteger + Cast + Mul + Add" in kernels(native)
    for rows in (1, 7, 40):
        x = GENERATOR.standard_normal((rows, 48)).astype(np.float32)
        (got,), (expected,) = native.run({"x": x}).values(), reference.run({"x": x}).values()
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(got, runtime(proto, x), rtol=1e-5, atol=1e-5)
