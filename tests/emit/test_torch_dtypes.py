"""PyTorch modules of models in double and half precision: every layer that the exporter knows, in every float type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import intaglio
from intaglio.conformance.exported import ExportBackend

torch = pytest.importorskip("torch", reason="exported PyTorch code needs PyTorch, which development does not install")

DTYPES = {
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}


@dataclass
class Row:
    """A node with constant weights of some shapes, the shape of what is fed to it, and its attributes.

    A shape of None is an operand that is left out. `layer` is the class of torch.nn that single and double precision
    have for it.
    """

    name: str
    shape: tuple[int, ...]
    weights: tuple[tuple[int, ...] | None, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    layer: str | None = None
    outputs: int = 1

    def __str__(self) -> str:
        return f"{self.name}-{self.layer or 'function'}"


def drawn(*shape: int) -> np.ndarray:
    """Numbers between a half and one and a half, whose signs change."""
    generator = np.random.default_rng(sum(shape))
    return generator.uniform(0.5, 1.5, shape) * generator.choice([-1, 1], shape)


def model_of(row: Row, dtype: np.dtype[Any]) -> onnx.ModelProto:
    """The model of one row: its first operand is fed, the others are constants."""
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    size = 0.5 if row.name in ("LSTM", "GRU", "RNN") else 1.0
    weights = {f"w{i}": shape for i, shape in enumerate(row.weights) if shape is not None}
    names = [f"w{i}" if shape is not None else "" for i, shape in enumerate(row.weights)]
    arrays = {name: size * drawn(*shape) for name, shape in weights.items()}
    if row.name == "BatchNormalization":
        arrays["w3"] = np.abs(arrays["w3"])
    if row.name == "Resize":
        names[1:] = ["factors"]
    outputs = [f"y{i}" for i in range(row.outputs)]
    graph = helper.make_graph(
        [helper.make_node(row.name, ["x", *names], outputs, **row.attributes)],
        "net",
        [helper.make_tensor_value_info("x", kind, row.shape)],
        [helper.make_tensor_value_info(name, kind, None) for name in outputs],
        [numpy_helper.from_array(array.astype(dtype), name) for name, array in arrays.items()],
    )
    if row.name == "Resize":
        graph.initializer.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "factors"))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)


IMAGE, LINE, VOLUME = (2, 4, 5, 5), (2, 4, 7), (2, 4, 5, 5, 5)
LAYERS = [
    Row("Conv", LINE, ((6, 4, 3), (6,)), {"pads": [1, 1]}, "Conv1d"),
    Row("Conv", IMAGE, ((6, 2, 3, 3), (6,)), {"group": 2}, "Conv2d"),
    Row("Conv", VOLUME, ((6, 4, 2, 2, 2),), {}, "Conv3d"),
    Row("ConvTranspose", LINE, ((4, 3, 3), (3,)), {}, "ConvTranspose1d"),
    Row("ConvTranspose", IMAGE, ((4, 3, 3, 3),), {"strides": [2, 2]}, "ConvTranspose2d"),
    Row("ConvTranspose", VOLUME, ((4, 3, 2, 2, 2), (3,)), {}, "ConvTranspose3d"),
    Row("BatchNormalization", LINE, ((4,),) * 4, {"epsilon": 1e-3}, "BatchNorm1d"),
    Row("BatchNormalization", IMAGE, ((4,),) * 4, {}, "BatchNorm2d"),
    Row("BatchNormalization", VOLUME, ((4,),) * 4, {}, "BatchNorm3d"),
    Row("LayerNormalization", LINE, ((7,), (7,)), {"epsilon": 0.01}, "LayerNorm"),
    Row("RMSNormalization", LINE, ((7,),), {"epsilon": 0.01}, "RMSNorm"),
    Row("GroupNormalization", IMAGE, ((4,), (4,)), {"num_groups": 2}, "GroupNorm"),
    Row("PRelu", LINE, ((4, 1),), {}, "PReLU"),
    Row("PRelu", IMAGE, ((1,),), {}, "PReLU"),
    Row("MatMul", LINE, ((7, 3),), {}, "Linear"),
    Row("Gemm", (3, 7), ((5, 7), (5,)), {"transB": 1}, "Linear"),
    Row("LSTM", (3, 2, 4), ((1, 20, 4), (1, 20, 5), (1, 40)), {"hidden_size": 5}, "LSTM", 3),
    Row(
        "LSTM",
        (3, 2, 4),
        ((2, 20, 4), (2, 20, 5), None, None, (2, 2, 5), (2, 2, 5)),
        {"hidden_size": 5, "direction": "bidirectional"},
        "LSTM",
        3,
    ),
    Row("GRU", (3, 2, 4), ((1, 15, 4), (1, 15, 5), (1, 30)), {"hidden_size": 5, "linear_before_reset": 1}, "GRU", 2),
    Row("RNN", (3, 2, 4), ((1, 5, 4), (1, 5, 5), (1, 10)), {"hidden_size": 5}, "RNN", 2),
]
FUNCTIONS = [
    Row("Conv", IMAGE, ((6, 4, 3, 3), (6,)), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    Row("InstanceNormalization", IMAGE, ((4,), (4,))),
    Row("PRelu", LINE, ((4, 7),)),
    Row("PRelu", (7,), ((7,),)),
    Row("Gemm", (3, 7), ((7, 5), (5,)), {"alpha": 0.3, "beta": 0.7}),
    Row("MatMul", (7,), ((7, 3),)),
    Row("LayerNormalization", LINE, ((7,),), {"axis": 2}),
    Row("Attention", (2, 3, 4, 8), ((2, 3, 6, 8), (2, 3, 6, 8), (4, 6)), {"scale": 0.3}),
    Row("Resize", IMAGE, (None, None), {"mode": "linear"}),
    Row("AveragePool", IMAGE, (), {"kernel_shape": [2, 2], "ceil_mode": 1}),
    Row("MaxPool", IMAGE, (), {"kernel_shape": [2, 2], "pads": [0, 1, 1, 0]}),
    Row("LpPool", IMAGE, (), {"kernel_shape": [2, 2]}),
    Row("GlobalAveragePool", IMAGE),
    Row("LRN", IMAGE, (), {"size": 3}),
    Row("GridSample", IMAGE, ((2, 3, 3, 2),)),
    Row("Einsum", (3, 7), ((7, 5),), {"equation": "ij,jk->ik"}),
    Row("MeanVarianceNormalization", IMAGE),
    Row("Softmax", LINE),
    Row("LogSoftmax", LINE),
    Row("LpNormalization", LINE),
    *(Row(name, LINE, ((),)) for name in ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min")),
    Row("Mod", LINE, ((),), {"fmod": 1}),
    *(Row(name, LINE, ((1,),)) for name in ("Add", "Mul", "Max")),
    Row("Clip", LINE, ((),)),
    Row("Sum", LINE, ((), (7,))),
    Row("Mean", LINE, ((), (7,))),
    *(Row(name, LINE, (), {"alpha": 0.3}) for name in ("LeakyRelu", "Elu", "Celu", "ThresholdedRelu", "Swish")),
    *(
        Row(name, LINE)
        for name in (
            "Relu", "Sigmoid", "Tanh", "Softplus", "Softsign", "HardSwish", "Mish", "HardSigmoid", "Selu", "Gelu",
            "Erf", "Exp", "Sin", "Reciprocal", "Shrink", "ReduceMean", "ReduceL2", "ReduceLogSumExp", "ReduceSum",
        )
    ),
]  # fmt: skip


def check(row: Row, dtype: np.dtype[Any]) -> Callable[..., Any]:
    """Compare the module with the reference engine; returns the module."""
    model, x = model_of(row, dtype), drawn(*row.shape).astype(dtype)
    x = np.abs(x) if row.name == "Pow" else x
    return compare(model, [x], dtype)


def compare(model: onnx.ModelProto, feeds: list[np.ndarray], coarsest: np.dtype[Any]) -> Callable[..., Any]:
    """Compare results to a few roundings of the coarsest type in which a model computes; returns the module."""
    expected = intaglio.load(model, engine="reference")(*feeds)
    exported = ExportBackend("torch").prepare(model)
    wanted = expected if isinstance(expected, tuple) else (expected,)
    unit = 16 * float(ml_dtypes.finfo(coarsest).eps)
    for found, right in zip(exported.run(feeds), wanted, strict=True):
        assert (found.dtype, found.shape) == (right.dtype, right.shape)
        right = right.astype(np.float64)
        np.testing.assert_allclose(found.astype(np.float64), right, rtol=unit, atol=unit * np.abs(right).max() / 8)
    return exported.model


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("row", LAYERS, ids=str)
def test_layers(row: Row, kind: str) -> None:
    module = check(row, DTYPES[kind])
    classes = {type(each).__name__ for each in module.modules()} - {"Model"}
    assert classes == {row.layer}
    wanted = {getattr(torch, kind)}
    assert {tensor.dtype for tensor in module.state_dict().values() if tensor.is_floating_point()} == wanted


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("row", FUNCTIONS, ids=str)
def test_functions(row: Row, kind: str) -> None:
    check(row, DTYPES[kind])


@pytest.mark.parametrize("kind", DTYPES)
def test_embeddings(kind: str) -> None:
    graph = helper.make_graph(
        [helper.make_node("Gather", ["w", "x"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", onnx.TensorProto.INT64, [3])],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(drawn(5, 4).astype(DTYPES[kind]), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)
    module = compare(model, [np.array([4, 0, 2])], DTYPES[kind])
    assert {type(each).__name__ for each in module.modules()} == {"Model", "Embedding"}


@dataclass
class Mixed:
    """A node whose operands have floats of several types, which ONNX allows where it names their types apart."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    is_first: tuple[bool, ...]
    """Which operands have the type of the first one."""


HEADS = ((2, 3, 4, 8), (2, 3, 6, 8), (2, 3, 6, 8))
MIXED = [
    Mixed("BatchNormalization", (LINE, (4,), (4,), (4,), (4,)), (True, False, False, False, False)),
    Mixed("BatchNormalization", (LINE, (4,), (4,), (4,), (4,)), (True, True, True, False, False)),
    Mixed("RMSNormalization", (LINE, (7,)), (True, False)),
    Mixed("Attention", HEADS, (True, True, False)),
    Mixed("Attention", (*HEADS, (4, 6)), (True, True, True, False)),
    Mixed("GridSample", (IMAGE, (2, 3, 3, 2)), (True, False)),
    Mixed("Pow", (LINE, (7,)), (True, False)),
]


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("kinds", [("float16", "float32"), ("float32", "float16"), ("bfloat16", "float64"),
                                   ("float64", "float32")], ids="-".join)  # fmt: skip
@pytest.mark.parametrize("row", MIXED, ids=lambda row: row.name)
def test_floats_of_several_types(row: Mixed, kinds: tuple[str, str], is_constant: bool) -> None:
    arrays = [np.abs(drawn(*shape)).astype(DTYPES[kinds[not same]])
              for shape, same in zip(row.shapes, row.is_first, strict=True)]  # fmt: skip
    names = [f"x{i}" for i in range(len(arrays))]
    fed = 1 if is_constant else len(arrays)
    infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
             for name, array in zip(names, arrays, strict=True)]  # fmt: skip
    weights = [numpy_helper.from_array(array, name) for name, array in zip(names, arrays, strict=True)]
    node = helper.make_node(row.name, names, ["y"])
    graph = helper.make_graph([node], "net", infos[:fed], [onnx.ValueInfoProto(name="y")], weights[fed:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)
    compare(model, arrays[:fed], max((DTYPES[kind] for kind in kinds), key=lambda each: ml_dtypes.finfo(each).eps))
