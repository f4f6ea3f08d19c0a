"""Activation functions against ONNX Runtime, the reference evaluator and their own expansions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tests.present import tensor

from intaglio.errors import ShapeError
from intaglio.ir.build import infer_types, reference_by_expansion
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph
from intaglio.ir.op import OPERATORS
from intaglio.ir.types import TensorType

CASES = [
    ("Relu", {}),
    ("Sigmoid", {}),
    ("Softplus", {}),
    ("LeakyRelu", {}),
    ("LeakyRelu", {"alpha": 0.3}),
    ("Elu", {}),
    ("Elu", {"alpha": 2.0}),
    ("Selu", {}),
    ("Selu", {"alpha": 2.0, "gamma": 3.0}),
    ("Celu", {}),
    ("Celu", {"alpha": 2.5}),
    ("ThresholdedRelu", {}),
    ("ThresholdedRelu", {"alpha": -0.5}),
    ("HardSigmoid", {}),
    ("HardSigmoid", {"alpha": 0.6, "beta": 0.1}),
    ("HardSwish", {}),
    ("Softsign", {}),
    ("Gelu", {}),
    ("Gelu", {"approximate": "tanh"}),
    ("Mish", {}),
    ("Shrink", {}),
    ("Shrink", {"lambd": 1.5, "bias": 1.5}),
]
IDS = [f"{name}{attributes or ''}" for name, attributes in CASES]
VALUES = np.array([-100, -20, -3, -1, -0.5, -1e-4, 0, 1e-4, 0.25, 0.5, 1, 1.5, 3, 20, 100], np.float32)


def operator(name, **attributes):
    return OPERATORS[("", name)](**attributes)


@pytest.mark.parametrize(("name", "attributes"), CASES, ids=IDS)
def test_activations_agree_with_onnx_runtime(name, attributes, runtime):
    (expected,) = runtime(name, VALUES, opset=20 if name == "Gelu" else 18, **attributes)
    result = operator(name, **attributes).reference(VALUES)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize(("name", "attributes"), [*CASES, ("Swish", {}), ("Swish", {"alpha": 1.7})])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_expansions_mean_the_same(name, attributes, dtype):
    op = operator(name, **attributes)
    if not op.has("expand"):
        return
    x = VALUES[2:-2].astype(dtype)
    tolerance = 8 * float(ml_dtypes.finfo(dtype).eps)
    expanded = reference_by_expansion(op, [x])
    assert expanded.dtype == x.dtype
    np.testing.assert_allclose(
        expanded.astype(np.float64), op.reference(x).astype(np.float64), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize(("name", "attributes"), CASES, ids=IDS)
def test_infinities_and_nan(name, attributes):
    x = np.array([np.inf, -np.inf, np.nan], np.float32)
    result = operator(name, **attributes).reference(x)
    if name not in ("ThresholdedRelu", "Shrink"):
        assert np.isnan(result[2])
    if name not in ("Sigmoid", "HardSigmoid", "Softsign"):
        assert np.isposinf(result[0])


def test_overflow_is_avoided():
    x = np.array([-1000, 1000], np.float32)
    np.testing.assert_array_equal(operator("Sigmoid").reference(x), [0, 1])
    np.testing.assert_array_equal(operator("Softplus").reference(x), [0, 1000])
    assert operator("Sigmoid").reference(np.array([-100], np.float32))[0] > 0


@pytest.mark.parametrize("shape", [(3, 1, 1), (1,), (), (2, 3, 4, 5), (5,)])
def test_prelu_broadcasts_its_slope(shape, runtime):
    x = np.linspace(-3, 3, 120, dtype=np.float32).reshape(2, 3, 4, 5)
    slope = np.random.default_rng(1).random(shape, dtype=np.float32)
    (expected,) = runtime("PRelu", x, slope)
    np.testing.assert_allclose(operator("PRelu").reference(x, slope), expected, rtol=1e-6)
    np.testing.assert_allclose(reference_by_expansion(operator("PRelu"), [x, slope]), expected, rtol=1e-6)


def infer(name, *shapes, **attributes):
    graph = Graph("test")
    values = [graph.add_input("x", TensorType(FLOAT32, shape)) for shape in shapes]
    return tensor(infer_types(operator(name, **attributes), values, 1, "y")[0])


def test_prelu_refuses_a_slope_larger_than_its_input():
    with pytest.raises(ShapeError, match="cannot be broadcast to"):
        infer("PRelu", (1, 3), (2, 3))
    with pytest.raises(ShapeError, match="cannot be broadcast to"):
        infer("PRelu", (3,), (1, 3))
    assert infer("PRelu", (2, 3), None).shape == (2, 3)


def test_swiglu_is_gated_and_does_not_broadcast():
    gate, value = np.array([[-1, 2]], np.float32), np.array([[3, -4]], np.float32)
    expected = gate / (1 + np.exp(-1.5 * gate)) * value
    op = operator("SwiGLU", alpha=1.5)
    np.testing.assert_allclose(op.reference(gate, value), expected, rtol=1e-6)
    np.testing.assert_allclose(reference_by_expansion(op, [gate, value]), expected, rtol=1e-6)
    with pytest.raises(ShapeError, match="must have one shape"):
        infer("SwiGLU", (2, 3), (2, 1))


def test_gelu_refuses_an_unknown_approximation():
    with pytest.raises(ShapeError, match="approximate is 'fast'"):
        infer("Gelu", (2,), approximate="fast")


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint8])
def test_shrink_of_integers_agrees_with_onnx_runtime(dtype, runtime):
    x = np.arange(0, 6).astype(dtype) - np.array(3 if np.dtype(dtype).kind == "i" else 0, dtype)
    (expected,) = runtime("Shrink", x, lambd=1.5, bias=1.5)
    op = operator("Shrink", lambd=1.5, bias=1.5)
    np.testing.assert_array_equal(op.reference(x), expected)
    np.testing.assert_array_equal(reference_by_expansion(op, [x]), expected)
