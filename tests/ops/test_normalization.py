"""Normalizations against ONNX Runtime and ONNX's own evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir.build import Builder, reference_by_expansion
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.normalization import (
    LRN,
    BatchNormalization,
    Dropout,
    LayerNormalization,
    LpNormalization,
    RMSNormalization,
)

SHAPES = [(2, 3), (2, 3, 4), (2, 3, 4, 5)]


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(8).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("training", [0, 1])
def test_batch_normalization(agree: Any, shape: tuple[int, ...], training: int) -> None:
    vectors = [numbers(3), numbers(3) + 1, numbers(3), np.abs(numbers(3))]
    outputs = 3 if training else 1
    options = {"epsilon": 1e-3, "momentum": 0.7, "training_mode": training, "outputs": outputs}
    agree("BatchNormalization", numbers(*shape), *vectors, opset=15, atol=1e-5, **options)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("has_bias", [False, True])
def test_layer_normalization(agree: Any, shape: tuple[int, ...], has_bias: bool) -> None:
    for axis in range(-len(shape), len(shape)):
        part = shape[axis:] if axis else shape
        bias = numbers(*part) if has_bias else None
        agree("LayerNormalization", numbers(*shape), numbers(*part), bias, axis=axis, outputs=3, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_layer_normalization_types(agree: Any, dtype: Any) -> None:
    x, scale = numbers(2, 3, 4, dtype=dtype), numbers(4, dtype=dtype)
    tolerance = 1e-12 if dtype == np.float64 else 2e-3
    agree("LayerNormalization", x, scale, rtol=tolerance, atol=tolerance)


def test_statistics_of_nothing_are_nan() -> None:
    empty, vectors = numbers(2, 0), [numbers(2)] * 4
    y, mean, inverse = LayerNormalization().reference(empty, numbers(0))
    assert y.shape == RMSNormalization().reference(empty, numbers(0)).shape == (2, 0)
    assert np.isnan(mean).all()
    assert np.isnan(inverse).all()
    y, *running = BatchNormalization(training_mode=1).reference(numbers(0, 2, 3), *vectors)
    assert y.shape == (0, 2, 3)
    assert np.isnan(running).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_rms_normalization(agree: Any, shape: tuple[int, ...]) -> None:
    agree("RMSNormalization", numbers(*shape), numbers(shape[-1]), opset=23)
    agree("RMSNormalization", numbers(*shape), numbers(*shape[1:]), axis=1, opset=23)


def test_instance_normalization(agree: Any) -> None:
    agree("InstanceNormalization", numbers(2, 3, 4, 5), numbers(3), numbers(3), epsilon=1e-3, atol=1e-5)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_normalization(agree: Any, groups: int) -> None:
    x, scale, bias = numbers(2, 6, 3, 4), numbers(6), numbers(6)
    agree("GroupNormalization", x, scale, bias, num_groups=groups, opset=21, atol=1e-5)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_lp_normalization(agree: Any, p: int, axis: int) -> None:
    agree("LpNormalization", numbers(2, 3, 4), p=p, axis=axis)


def test_lp_normalization_of_zeros_is_zero() -> None:
    assert LpNormalization().reference(np.zeros((2, 3), np.float32)).tolist() == [[0] * 3] * 2


def test_mean_variance_normalization(agree: Any) -> None:
    agree("MeanVarianceNormalization", numbers(2, 3, 4, 5), atol=1e-5)
    agree("MeanVarianceNormalization", numbers(2, 3, 4, 5), axes=[1, -1], opset=13, atol=1e-5)


@pytest.mark.parametrize("size", [1, 3, 5, 9])
def test_lrn(agree: Any, size: int) -> None:
    agree("LRN", numbers(2, 7, 4, 5), size=size, alpha=0.3, beta=0.5, bias=2.0)


def test_lrn_of_an_even_size_looks_further_ahead() -> None:
    x = numbers(2, 7, 4)
    near = np.stack([(x[:, max(c - 1, 0) : c + 3] ** 2).sum(axis=1) for c in range(7)], axis=1)
    expected = x / (2 + 0.3 / 4 * near) ** 0.5
    np.testing.assert_allclose(LRN(size=4, alpha=0.3, beta=0.5, bias=2.0).reference(x), expected, rtol=1e-5)


def test_dropout_in_use_is_the_identity(agree: Any) -> None:
    x = numbers(3, 4)
    output, mask = agree("Dropout", x, np.array(0.3, np.float32), np.array(False), outputs=2, opset=13)
    assert (output == x).all()
    assert mask.all()


def test_dropout_in_training_scales_what_stays() -> None:
    x = np.ones((100, 100), np.float32)
    output, mask = Dropout(seed=1).reference(x, np.array(0.25, np.float32), np.array(True))
    assert set(np.unique(output)) == {np.float32(0), np.float32(1 / 0.75)}
    assert ((output != 0) == mask).all()
    assert abs(mask.mean() - 0.75) < 0.02
    again, _ = Dropout(seed=1).reference(x, np.array(0.25, np.float32), np.array(True))
    assert (again == output).all()


def test_dropout_ratio_must_be_below_one() -> None:
    with pytest.raises(OperatorError, match="ratio is 1"):
        Dropout().reference(np.ones(3, np.float32), np.array(1.0, np.float32), np.array(True))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda b, x, v: b.BatchNormalization(x, v, v, v, v), "channels of X"),
        (lambda b, x, v: b.GroupNormalization(x, v, v, num_groups=2), "2 groups"),
        (lambda b, x, v: b.InstanceNormalization(x, v, v), "channels"),
        (lambda b, x, v: b.LayerNormalization(x, v, axis=4), "axis 4"),
        (lambda b, x, v: b.LayerNormalization(x, v, stash_type=7), "stash_type is 7"),
        (lambda b, x, v: b.LpNormalization(x, p=3), "p is 3"),
        (lambda b, x, v: b.LRN(x, size=0), "size is 0"),
    ],
)
def test_wrong_operands(build: Any, message: str) -> None:
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType(FLOAT32, (1, 3, 5, 5)))
    vector = b.graph.add_input("v", TensorType(FLOAT32, (4,)))
    with pytest.raises(ShapeError, match=message):
        build(b, x, vector)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("is_training", [False, True])
def test_dropout_expands_to_the_same_numbers(dtype: Any, is_training: bool) -> None:
    x = np.random.default_rng(0).standard_normal((4, 5)).astype(dtype)
    inputs = [x, np.array(0.3, np.float32), np.array(is_training)]
    for found, expected in zip(
        reference_by_expansion(Dropout(seed=1), inputs), Dropout(seed=1).reference(*inputs), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
