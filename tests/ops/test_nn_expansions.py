"""Operators with both a reference and an expansion: they must agree, in every width and for symbolic sizes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from intaglio.ir import dim, substitution
from intaglio.ir.build import infer_by_expansion, reference_by_expansion
from intaglio.ir.dtype import from_numpy
from intaglio.ir.graph import Value
from intaglio.ir.op import Op
from intaglio.ir.types import TensorType
from intaglio.ops.attention import Attention, RotaryEmbedding
from intaglio.ops.convolution import Conv, ConvTranspose
from intaglio.ops.einsum import Einsum
from intaglio.ops.linear import Gemm, MatMul
from intaglio.ops.linear_attention import CausalConvWithState, LinearAttention
from intaglio.ops.loss import SoftmaxCrossEntropyLoss
from intaglio.ops.normalization import (
    LRN,
    BatchNormalization,
    Dropout,
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
    LpNormalization,
    MeanVarianceNormalization,
    RMSNormalization,
)
from intaglio.ops.pooling import AveragePool, GlobalAveragePool, GlobalLpPool, LpPool, MaxPool, MaxUnpool
from intaglio.ops.recurrent import GRU, LSTM, RNN
from intaglio.ops.reduce import (
    ReduceL1,
    ReduceL2,
    ReduceLogSum,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMean,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
)
from intaglio.ops.signal import DFT, Det
from intaglio.ops.softmax import Hardmax, LogSoftmax, Softmax
from intaglio.ops.vision_nn import AffineGrid, DeformConv, GridSample, RoiAlign

Case = tuple[Op, list[Any]]
GENERATOR = np.random.default_rng(14)


def numbers(*shape: int) -> Any:
    return GENERATOR.uniform(0.5, 2, shape).astype(np.float32)


COMPOSITES: list[Case] = [
    (Softmax(axis=1), [numbers(2, 3, 4)]),
    (LogSoftmax(axis=0), [numbers(2, 3)]),
    (Hardmax(axis=-1), [numbers(2, 3)]),
    (Gemm(alpha=0.5, beta=2.0, transA=1), [numbers(4, 2), numbers(4, 3), numbers(3)]),
    (Einsum(equation="bqhd,bkhd->bhqk"), [numbers(1, 3, 2, 4), numbers(1, 5, 2, 4)]),
    (BatchNormalization(), [numbers(2, 3, 4), *(numbers(3) for _ in range(4))]),
    (BatchNormalization(training_mode=1), [numbers(2, 3, 4), *(numbers(3) for _ in range(4))]),
    (LayerNormalization(axis=1), [numbers(2, 3, 4), numbers(3, 4), numbers(4)]),
    (RMSNormalization(), [numbers(2, 3, 4), numbers(4)]),
    (LRN(size=3), [numbers(2, 7, 4)]),
    (Dropout(), [numbers(2, 3)]),
    (LpPool(kernel_shape=(3, 2), p=3, pads=(1, 0, 0, 1), strides=(2, 2)), [numbers(1, 2, 6, 5)]),
    (MaxUnpool(kernel_shape=(2,), strides=(3,), pads=(1, 0)), [numbers(1, 2, 3), np.array([[[0, 3, 6], [8, 10, 12]]])]),
    (Attention(is_causal=1, softcap=3.0), [numbers(1, 4, 3, 8), numbers(1, 2, 5, 8), numbers(1, 2, 5, 6)]),
    (RotaryEmbedding(interleaved=1), [numbers(1, 2, 3, 8), numbers(1, 3, 4), numbers(1, 3, 4)]),
]

ONLY_EXPANDED: list[Case] = [
    (ReduceL1(), [numbers(2, 3)]),
    (ReduceL2(keepdims=0), [numbers(2, 3)]),
    (ReduceLogSum(), [numbers(2, 3)]),
    (ReduceLogSumExp(keepdims=0), [numbers(2, 3)]),
    (ReduceSumSquare(), [numbers(2, 3)]),
    (GlobalAveragePool(), [numbers(2, 3, 4)]),
    (GlobalLpPool(), [numbers(2, 3, 4)]),
    (InstanceNormalization(), [numbers(2, 3, 4), numbers(3), numbers(3)]),
    (GroupNormalization(num_groups=2), [numbers(2, 4, 3), numbers(4), numbers(4)]),
    (LpNormalization(), [numbers(2, 3)]),
    (MeanVarianceNormalization(), [numbers(2, 3, 4, 5)]),
    (CausalConvWithState(activation="silu"), [numbers(1, 3, 5), numbers(3, 1, 4), numbers(3)]),
]

LINEAR = LinearAttention(q_num_heads=2, kv_num_heads=1, update_rule="linear")
PRIMITIVES: list[Case] = [
    (ReduceSum(), [numbers(2, 30)]),
    (ReduceProd(), [numbers(2, 3)]),
    (ReduceMean(), [numbers(2, 30)]),
    (ReduceMax(), [numbers(2, 3)]),
    (MatMul(), [numbers(2, 3), numbers(3, 4)]),
    (Conv(), [numbers(1, 2, 5, 5), numbers(3, 2, 3, 3), numbers(3)]),
    (ConvTranspose(strides=(2, 2)), [numbers(1, 2, 3, 3), numbers(2, 3, 3, 3)]),
    (MaxPool(kernel_shape=(2,)), [numbers(1, 2, 5)]),
    (AveragePool(kernel_shape=(2,)), [numbers(1, 2, 5)]),
    (LpPool(kernel_shape=(2,)), [numbers(1, 2, 5)]),
    (RNN(), [numbers(2, 1, 3), numbers(1, 2, 3), numbers(1, 2, 2)]),
    (GRU(), [numbers(2, 1, 3), numbers(1, 6, 3), numbers(1, 6, 2), numbers(1, 12)]),
    (LSTM(), [numbers(2, 1, 3), numbers(1, 8, 3), numbers(1, 8, 2), numbers(1, 16)]),
    (LINEAR, [numbers(1, 2, 8), numbers(1, 2, 4), numbers(1, 2, 3)]),
    (Det(), [numbers(3, 3)]),
    (DFT(), [numbers(1, 4, 2)]),
    (GridSample(), [numbers(1, 1, 3, 3), numbers(1, 2, 2, 2)]),
    (DeformConv(), [numbers(1, 1, 3, 3), numbers(1, 1, 2, 2), numbers(1, 8, 2, 2)]),
]


def labels(cases: list[Case]) -> list[str]:
    return [op.name for op, _ in cases]


def as_tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def narrowed(arrays: list[Any], dtype: Any) -> list[Any]:
    return [array.astype(dtype) if array.dtype == np.float32 else array for array in arrays]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("op", "arrays"), COMPOSITES, ids=labels(COMPOSITES))
def test_expansion_agrees(op: Op, arrays: list[Any], dtype: Any) -> None:
    inputs = narrowed(arrays, dtype)
    tolerance = {np.float64: 1e-12, np.float32: 1e-5, np.float16: 2e-3}.get(dtype, 2**-7)
    for left, right in zip(as_tuple(op.reference(*inputs)), as_tuple(reference_by_expansion(op, inputs)), strict=True):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        np.testing.assert_allclose(right.astype(np.float64), left.astype(np.float64), rtol=tolerance, atol=tolerance)


ALL = COMPOSITES + ONLY_EXPANDED + PRIMITIVES


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("op", "arrays"), ALL, ids=labels(ALL))
def test_narrow_floats_are_rounded_once(op: Op, arrays: list[Any], dtype: Any) -> None:
    inputs = narrowed(arrays, dtype)
    wide = [array.astype(np.float32) if array.dtype == dtype else array for array in inputs]
    for narrow, exact in zip(as_tuple(op.reference(*inputs)), as_tuple(op.reference(*wide)), strict=True):
        if narrow.dtype != dtype:  # statistics that are kept in single precision
            assert narrow.dtype == exact.dtype
            continue
        np.testing.assert_array_equal(narrow.astype(np.float32), exact.astype(dtype).astype(np.float32))


def symbolic_value(array: Any, position: int, bindings: dict[str, int]) -> Value:
    names = [f"x{position}_{axis}" for axis in range(array.ndim)]
    bindings.update(zip(names, array.shape, strict=True))
    shape = tuple(dim.symbol(name) for name in names)
    return Value(f"x{position}", TensorType(from_numpy(array.dtype), shape))


@pytest.mark.parametrize(("op", "arrays"), COMPOSITES + ONLY_EXPANDED[:-1], ids=labels(COMPOSITES + ONLY_EXPANDED[:-1]))
def test_expansion_of_symbolic_sizes(op: Op, arrays: list[Any]) -> None:
    bindings: dict[str, int] = {}
    values = [symbolic_value(array, i, bindings) for i, array in enumerate(arrays)]
    results = as_tuple(op.reference(*arrays))
    for types in (as_tuple(op.infer(*values)), as_tuple(infer_by_expansion(op, values))):
        for type, result in zip(types, results, strict=True):
            assert type.dtype.numpy == result.dtype
            assert len(type.shape) == result.ndim
            for size, found in zip(type.shape, result.shape, strict=True):
                assert not dim.symbols(size) <= set(bindings) or substitution.evaluate(size, bindings) == found


@pytest.mark.parametrize(("op", "arrays"), ALL, ids=labels(ALL))
def test_unknown_ranks_are_accepted(op: Op, arrays: list[Any]) -> None:
    values = [Value(f"x{i}", TensorType(from_numpy(array.dtype), None)) for i, array in enumerate(arrays)]
    results = as_tuple(op.reference(*arrays))
    for type, result in zip(as_tuple(op.infer(*values)), results, strict=True):
        assert type.dtype.numpy == result.dtype
        assert type.shape is None or len(type.shape) == result.ndim


def test_hanging_windows_expand_for_known_sizes() -> None:
    op, x = LpPool(kernel_shape=(3, 2), strides=(3, 3), pads=(1, 0, 1, 0), ceil_mode=1), numbers(1, 2, 6, 6)
    np.testing.assert_allclose(reference_by_expansion(op, [x]), op.reference(x), rtol=1e-5)


def test_unpooling_into_a_larger_image() -> None:
    inputs = [numbers(1, 1, 2, 2), np.array([[[[0, 3], [8, 15]]]]), np.array([1, 1, 5, 6])]
    op = MaxUnpool(kernel_shape=(2, 2), strides=(2, 2))
    np.testing.assert_array_equal(reference_by_expansion(op, inputs), op.reference(*inputs))


def test_cross_entropy_keeps_wide_probabilities_inside() -> None:
    scores = np.array([[12.0, 0.0, -3.0]], np.float16)
    loss, log_prob = SoftmaxCrossEntropyLoss().reference(scores, np.array([0]))
    assert loss.dtype == log_prob.dtype == np.float16
    assert 0 < loss < 1e-5


@pytest.mark.parametrize(("op", "extra"), [(AffineGrid(), np.array([1, 1, 2, 3])), (RoiAlign(), np.array([0]))])
def test_index_inputs_stay_integers(op: Op, extra: Any) -> None:
    first = numbers(1, 2, 3) if isinstance(op, AffineGrid) else numbers(1, 1, 4, 4)
    inputs = [first, extra] if isinstance(op, AffineGrid) else [first, numbers(1, 4), extra]
    assert op.reference(*narrowed(inputs, np.float16)).dtype == np.float16
