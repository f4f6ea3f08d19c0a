"""Sampled convolutions of every kind, many to a model, against a naive formula and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from intaglio.runtime.model.loading import load

Array = np.ndarray[Any, Any]
Generator = np.random.Generator

CASES = 24
"""Convolutions of one model."""


@dataclass(frozen=True)
class Axis:
    """One spatial axis of a convolution; `extra` is the output padding of a transposed one."""

    size: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int
    extra: int = 0

    @property
    def extent(self) -> int:
        """From a window's first element to its last."""
        return (self.kernel - 1) * self.dilation + 1

    def output(self, is_transposed: bool) -> int:
        """The size of the result, which is at least 1 for an axis that a model may have."""
        if is_transposed:
            return (self.size - 1) * self.stride + self.extent + self.extra - self.begin - self.end
        return (self.size + self.begin + self.end - self.extent) // self.stride + 1

    def reads(self, place: int, tap: int, is_transposed: bool) -> int | None:
        """The element under a tap of the window that makes element `place`; None outside."""
        if is_transposed:
            found, rest = divmod(place + self.begin - tap * self.dilation, self.stride)
            return found if rest == 0 and 0 <= found < self.size else None
        found = place * self.stride + tap * self.dilation - self.begin
        return found if 0 <= found < self.size else None


@dataclass(frozen=True)
class Case:
    """One convolution; `channels` and `outputs` count those of one group."""

    kind: str
    batch: int
    group: int
    channels: int
    outputs: int
    axes: tuple[Axis, ...]
    dtype: Any
    has_bias: bool
    is_constant: bool
    is_symbolic: bool
    auto_pad: str = "NOTSET"

    @property
    def is_transposed(self) -> bool:
        """Whether it is a ConvTranspose."""
        return self.kind == "ConvTranspose"

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """The shape of the kernels as ONNX has it."""
        kernel = tuple(axis.kernel for axis in self.axes)
        if self.is_transposed:
            return (self.group * self.channels, self.outputs, *kernel)
        return (self.group * self.outputs, self.channels, *kernel)

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the node."""
        found: dict[str, Any] = {
            "group": self.group,
            "kernel_shape": [axis.kernel for axis in self.axes],
            "strides": [axis.stride for axis in self.axes],
            "dilations": [axis.dilation for axis in self.axes],
        }
        if self.auto_pad == "NOTSET":
            found["pads"] = [axis.begin for axis in self.axes] + [axis.end for axis in self.axes]
        else:
            found["auto_pad"] = self.auto_pad
        if self.is_transposed:
            found["output_padding"] = [axis.extra for axis in self.axes]
        return found


def naive(case: Case, x: Array, w: Array) -> Array:
    """The sums of a convolution in double precision, window by window."""
    sizes = [axis.output(case.is_transposed) for axis in case.axes]
    data = x.astype(np.float64).reshape(case.batch, case.group, case.channels, *(axis.size for axis in case.axes))
    pair = (case.channels, case.outputs) if case.is_transposed else (case.outputs, case.channels)
    kernels = w.astype(np.float64).reshape(case.group, *pair, *w.shape[2:])
    kernels = np.swapaxes(kernels, 1, 2) if case.is_transposed else kernels
    result = np.zeros((case.batch, case.group, case.outputs, *sizes))
    for place in product(*map(range, sizes)):
        for tap in product(*(range(axis.kernel) for axis in case.axes)):
            reads = [axis.reads(p, t, case.is_transposed) for axis, p, t in zip(case.axes, place, tap, strict=True)]
            if None not in reads:
                part = np.einsum("ngc,goc->ngo", data[(..., *reads)], kernels[(..., *tap)])
                result[(..., *place)] += part
    return result.reshape(case.batch, -1, *sizes)


def axes_of(generator: Generator, kind: str, style: str, rank: int) -> Iterator[Axis]:
    """Axes whose window fits: kernels of one, pads that move the window off the map, dilations beyond it."""
    count = 0
    while count < rank:
        kernel = 1 if style == "single" else 3 if style == "three" else int(generator.integers(1, 5))
        size = int(generator.choice([1, 1, 2, 3, 5, 8, 9, 17]))
        stride, dilation = (1, 1) if style == "three" else (int(generator.integers(1, 4)) for _ in range(2))
        reach = (kernel - 1) * dilation + 3
        begin, end = (int(generator.integers(0, reach)) for _ in range(2))
        extra = int(generator.integers(0, stride))
        axis = Axis(size, kernel, stride, dilation, begin, end, extra if kind == "ConvTranspose" else 0)
        if axis.output(kind == "ConvTranspose") >= 1:
            count += 1
            yield axis


def same(axis: Axis, is_upper: bool) -> Axis:
    """The axis without dilation, padded so that the result has as many elements as there are steps."""
    stride = axis.stride
    total = max((-(-axis.size // stride) - 1) * stride + axis.kernel - axis.size, 0)
    begin = total // 2 if is_upper else total - total // 2
    return Axis(axis.size, axis.kernel, stride, 1, begin, total - begin)


GROUPS = {
    "plain": lambda generator: (1, int(generator.choice([1, 3, 5, 16, 19])), int(generator.choice([1, 4, 16, 33]))),
    "three": lambda generator: (1, int(generator.choice([16, 17, 32])), int(generator.choice([16, 33]))),
    "single": lambda generator: (1, int(generator.choice([1, 3, 8, 17])), int(generator.choice([1, 10, 16]))),
    "deep": lambda generator: (int(generator.choice([1, 1, 2])), int(generator.choice([32, 35])), 17),
    "depthwise": lambda generator: (int(generator.choice([2, 3, 8, 16, 17, 40])), 1, 1),
    "multiplied": lambda generator: (int(generator.choice([2, 3, 8, 16, 17])), 1, int(generator.choice([2, 3, 4]))),
    "grouped": lambda generator: (
        int(generator.choice([2, 3, 4])),
        int(generator.choice([2, 4, 17])),
        int(generator.choice([1, 3, 16, 17])),
    ),
}


def sampled(generator: Generator, kind: str, dtype: Any) -> Case:
    """A convolution of one kind."""
    style = str(generator.choice(list(GROUPS)))
    rank = 2 if style == "three" else int(generator.choice([1, 2, 2, 3]))
    group, channels, outputs = GROUPS[style](generator)
    kernels = "single" if generator.random() < 0.3 else style
    axes = tuple(axes_of(generator, kind, style if style == "three" else kernels, rank))
    auto_pad = "NOTSET"
    if kind != "ConvTranspose" and generator.random() < 0.3:
        auto_pad = str(generator.choice(["SAME_UPPER", "SAME_LOWER"]))
        axes = tuple(same(axis, auto_pad == "SAME_UPPER") for axis in axes)
    return Case(
        kind=kind,
        batch=int(generator.choice([1, 1, 2])),
        group=group,
        channels=channels,
        outputs=outputs,
        axes=axes,
        dtype=dtype,
        has_bias=bool(generator.random() < 0.5),
        is_constant=bool(generator.random() < 0.6),
        is_symbolic=bool(generator.random() < 0.3),
        auto_pad=auto_pad,
    )


def small(generator: Generator, shape: Sequence[int], dtype: Any) -> Array:
    """Integers of which every sum is exact in every type, so that one wrong element is seen."""
    low = 0 if np.dtype(dtype).kind == "u" else -2
    return generator.integers(low, 3, shape).astype(dtype)


@dataclass
class Model:
    """A model of many convolutions, each with inputs of its own."""

    nodes: list[Any]
    inputs: list[Any]
    outputs: list[Any]
    constants: list[Any]
    feed: dict[str, Array]
    expected: dict[str, Array]

    def proto(self) -> onnx.ModelProto:
        """The model as ONNX has it."""
        graph = helper.make_graph(self.nodes, "convolutions", self.inputs, self.outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def constant(self, name: str, array: Array) -> str:
        """Add an initializer."""
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def operand(self, name: str, array: Array, case: Case, is_constant: bool) -> str:
        """Add an input with its feed, or an initializer."""
        if is_constant:
            return self.constant(name, array)
        shape = [
            f"{name}.{place}" if case.is_symbolic and place != 1 else size for place, size in enumerate(array.shape)
        ]
        self.inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape))
        self.feed[name] = array
        return name


def add(model: Model, index: int, case: Case, generator: Generator) -> None:
    """Add a case with its expected result."""
    is_integer = np.dtype(case.dtype).kind in "iu"
    shape = (case.batch, case.group * case.channels, *(axis.size for axis in case.axes))
    x, w = small(generator, shape, case.dtype), small(generator, case.weight_shape, case.dtype)
    names = [model.operand(f"x{index}", x, case, False), f"w{index}"]
    model.operand(names[1], w, case, case.is_constant or case.kind == "QLinearConv")
    name = f"y{index}"
    if is_integer:
        inputs, result = _quantized(model, index, case, names, (x, w), generator)
    else:
        result = naive(case, x, w)
        if case.has_bias:
            bias = small(generator, (result.shape[1],), case.dtype)
            names.append(model.operand(f"b{index}", bias, case, case.is_constant))
            result += bias.astype(np.float64).reshape(-1, *[1] * len(case.axes))
        inputs, result = names, result.astype(case.dtype)
    model.nodes.append(helper.make_node(case.kind, inputs, [name], name=f"node{index}", **case.attributes))
    model.outputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(result.dtype), None))
    model.expected[name] = result


def _quantized(
    model: Model, index: int, case: Case, names: list[str], operands: tuple[Array, Array], generator: Generator
) -> tuple[list[str], Array]:
    x, w = operands
    x_zero, w_zero = np.array(1, case.dtype), np.array(2, case.dtype)
    total = naive(case, x.astype(np.int32) - x_zero, w.astype(np.int32) - w_zero)
    zeros = [model.constant(f"xz{index}", x_zero), model.constant(f"wz{index}", w_zero)]
    if case.kind == "ConvInteger":
        return [*names, *zeros], total.astype(np.int32)
    scales = [model.constant(f"{what}s{index}", np.array(s, np.float32)) for what, s in (("x", 1), ("w", 1), ("y", 4))]
    y_zero = np.array(3, case.dtype)
    inputs = [names[0], scales[0], zeros[0], names[1], scales[1], zeros[1], scales[2]]
    inputs.append(model.constant(f"yz{index}", y_zero))
    if case.has_bias:
        bias = generator.integers(-9, 9, total.shape[1]).astype(np.int32)
        inputs.append(model.constant(f"b{index}", bias))
        total += bias.reshape(-1, *[1] * len(case.axes))
    limits = np.iinfo(case.dtype)
    return inputs, np.clip(np.rint(total / 4) + 3, limits.min, limits.max).astype(case.dtype)


def session(model: onnx.ModelProto) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def compare(got: Array, expected: Array, what: Any) -> None:
    """Equal but for what Winograd's transforms round; the numbers themselves are whole."""
    assert got.dtype == expected.dtype, what
    assert got.shape == expected.shape, what
    wide = [np.asarray(array, np.float64) for array in (got, expected)]
    np.testing.assert_allclose(*wide, rtol=0, atol=0.02, err_msg=str(what))


KINDS = [
    ("Conv", np.float32),
    ("Conv", np.float64),
    ("Conv", np.float16),
    ("ConvTranspose", np.float32),
    ("ConvTranspose", np.float64),
    ("ConvTranspose", np.float16),
    ("ConvInteger", np.uint8),
    ("ConvInteger", np.int8),
    ("QLinearConv", np.uint8),
    ("QLinearConv", np.int8),
]
NO_JUDGE = {("Conv", np.float64), ("ConvTranspose", np.float64), ("ConvInteger", np.int8)}
"""What ONNX Runtime does not compute on processors."""


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_sampled_convolutions(kind: str, dtype: Any, seed: int) -> None:
    generator = np.random.default_rng([KINDS.index((kind, dtype)), seed])
    model = Model([], [], [], [], {}, {})
    cases = [sampled(generator, kind, dtype) for _ in range(CASES)]
    for index, case in enumerate(cases):
        add(model, index, case, generator)
    proto = model.proto()
    judged: dict[str, Array] = {}
    if (kind, dtype) not in NO_JUDGE:
        judged = dict(zip(model.expected, session(proto).run(None, model.feed), strict=True))
    results = {engine: load(proto, engine=engine).run(model.feed) for engine in ("reference", "native")}
    for index, case in enumerate(cases):
        expected = model.expected[f"y{index}"]
        for engine, got in results.items():
            compare(got[f"y{index}"], expected, (engine, index, case))
        if judged:
            compare(judged[f"y{index}"], expected, ("ONNX Runtime", index, case))


@pytest.mark.parametrize("seed", range(2))
def test_half_precision_around_fused_layers(seed: int) -> None:
    """A network in float16 rounds where the reference does: layers, activations, residuals and pools on whole numbers.

    Its layers are computed with their channels last, as those of float32 are.
    """
    random, nodes, constants = np.random.default_rng(seed), list[Any](), list[Any]()

    def add_node(operator: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(operator, list(inputs), [f"v{len(nodes)}"], **attributes))
        return f"v{len(nodes) - 1}"

    def layer(x: str, inputs: int, outputs: int, kernel: int, group: int = 1) -> str:
        shape = (outputs, inputs // group, kernel, kernel)
        arrays = (random.random(shape) < 2 / np.prod(shape[1:])) * 1.0, random.integers(-3, 4, outputs) / 1.0
        names = [f"c{len(constants)}", f"c{len(constants) + 1}"]
        constants.extend(numpy_helper.from_array(a.astype(np.float16), n) for a, n in zip(arrays, names, strict=True))
        return add_node("Conv", x, *names, pads=[kernel // 2] * 4, group=group)

    x = add_node("Relu", layer("x", 3, 17, 3))
    for kernel, group in ((1, 1), (3, 17), (3, 1)):
        x = add_node("Add", x, add_node("Relu", layer(x, 17, 17, kernel, group)))
        x = add_node("Mul", x, add_node("HardSigmoid", layer(add_node("GlobalMaxPool", x), 17, 17, 1)))
    x = add_node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    nodes.append(helper.make_node("AveragePool", [x], ["y"], kernel_shape=[2, 2]))
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT16, s) for n, s in (("x", ["n", 3, 9, 8]), ("y", None))]
    graph = helper.make_graph(nodes, "network", infos[:1], infos[1:], constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    native, reference = (load(proto, engine=engine) for engine in ("native", "reference"))
    assert "channels last" in str(native.explain())
    for batch in (1, 3):
        data = random.integers(-4, 5, (batch, 3, 9, 8)).astype(np.float16)
        got, expected = native(data), reference(data)
        assert got.dtype == np.float16
        np.testing.assert_allclose(got.astype(np.float32), expected.astype(np.float32), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("special", [np.inf, np.nan, 1e30])
def test_weights_that_the_transform_cannot_hold(special: float) -> None:
    generator = np.random.default_rng(5)
    case = Case("Conv", 1, 1, 16, 16, (Axis(9, 3, 1, 1, 1, 1),) * 2, np.float32, False, True, False)
    model, w = Model([], [], [], [], {}, {}), small(generator, case.weight_shape, np.float32)
    w[3, 4, 0, 2] = special
    x = small(generator, (1, 16, 9, 9), np.float32)
    names = [model.operand("x", x, case, False), model.operand("w", w, case, True)]
    model.nodes.append(helper.make_node("Conv", names, ["y"], **case.attributes))
    model.outputs.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    with np.errstate(invalid="ignore"):
        expected = naive(case, x, w).astype(np.float32)
    inside = (slice(None), slice(None), slice(1, -1), slice(1, -1))  # pads times such a weight are left open
    got = load(model.proto(), engine="native").run({"x": x})["y"]
    np.testing.assert_allclose(got[inside], expected[inside], rtol=1e-6)


@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 1e30, 3e38])
def test_weights_of_a_run_may_be_any_number(kind: str, special: float) -> None:
    """One weight that no transform bears changes the results that it belongs to, as by plain sums, and no others.

    At the border a transposed convolution may count a zero times an infinity or not.
    """
    generator = np.random.default_rng([kind == "Conv", int(np.isnan(special))])
    x = generator.standard_normal((2, 16, 9, 7)).astype(np.float32)
    w = generator.standard_normal((16, 16, 3, 3)).astype(np.float32)
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in (("x", x), ("w", w))]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    node = helper.make_node(kind, ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    graph = helper.make_graph([node], "weights", inputs, outputs)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    reference, native = (load(proto, engine=engine) for engine in ("reference", "native"))
    np.testing.assert_allclose(native(x, w), reference(x, w), rtol=1e-4, atol=1e-4)
    for place in ((3, 2, 0, 1), (0, 15, 1, 1), (15, 0, 2, 2)):
        changed = w.copy()
        changed[place] = special
        with np.errstate(all="ignore"):
            expected = reference(x, changed)
        inner = (..., slice(1, -1), slice(1, -1)) if kind == "ConvTranspose" and not np.isfinite(special) else ...
        np.testing.assert_allclose(native(x, changed)[inner], expected[inner], rtol=1e-4, atol=1e-4)
