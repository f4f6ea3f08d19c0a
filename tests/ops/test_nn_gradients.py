"""Reverse-mode rules of reductions, softmax, products and convolution against numerical derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.present import constant

from intaglio.ir.build import EagerBuilder, constant_value
from intaglio.ir.op import Op
from intaglio.ops.convolution import Conv
from intaglio.ops.linear import MatMul
from intaglio.ops.pooling import MaxPool
from intaglio.ops.reduce import ReduceL2, ReduceMax, ReduceMean, ReduceMin, ReduceSum
from intaglio.ops.softmax import LogSoftmax, Softmax

GENERATOR = np.random.default_rng(15)


def numbers(*shape: int) -> Any:
    return GENERATOR.standard_normal(shape)


AXES = np.array([1, -1])
CASES: list[tuple[Op, list[Any]]] = [
    *[
        (op(keepdims=keepdims), [numbers(2, 3, 4), *axes])
        for op in (ReduceSum, ReduceMean, ReduceMax, ReduceMin)
        for keepdims in (0, 1)
        for axes in ([], [AXES], [np.array([], np.int64)])
    ],
    (ReduceSum(noop_with_empty_axes=1, keepdims=0), [numbers(2, 3)]),
    (Softmax(axis=1), [numbers(2, 3, 4)]),
    (LogSoftmax(), [numbers(2, 3)]),
    (MatMul(), [numbers(2, 3), numbers(3, 4)]),
    (MatMul(), [numbers(5, 1, 2, 3), numbers(6, 3, 4)]),
    (MatMul(), [numbers(3), numbers(5, 3, 4)]),
    (MatMul(), [numbers(5, 2, 3), numbers(3)]),
    (MatMul(), [numbers(3), numbers(3)]),
    (MaxPool(kernel_shape=(3,), strides=(2,), pads=(1, 1)), [numbers(2, 3, 8)]),
    (MaxPool(kernel_shape=(2, 2), storage_order=1), [numbers(1, 2, 4, 5)]),
    (Conv(), [numbers(2, 3, 5), numbers(4, 3, 2), numbers(4)]),
    (Conv(strides=(2, 3), pads=(1, 0, 2, 1), dilations=(1, 2)), [numbers(2, 4, 7, 9), numbers(3, 4, 3, 2)]),
    (Conv(group=2, strides=(2, 2)), [numbers(1, 4, 6, 6), numbers(6, 2, 3, 3), numbers(6)]),
    (Conv(auto_pad="SAME_UPPER", strides=(2, 2)), [numbers(1, 2, 6, 5), numbers(2, 2, 3, 3)]),
]


def first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


def numerical(op: Op, arrays: list[Any], position: int, bar: Any) -> Any:
    """The derivative of sum(bar * op(arrays)) by one input, from differences."""
    step, result = 1e-6, np.zeros_like(arrays[position])
    for index in np.ndindex(result.shape):
        values = []
        for sign in (1, -1):
            moved = [array.copy() for array in arrays]
            moved[position][index] += sign * step
            values.append(np.sum(bar * first(op.reference(*moved))))
        result[index] = (values[0] - values[1]) / (2 * step)
    return result


@pytest.mark.parametrize(("op", "arrays"), CASES, ids=[op.name for op, _ in CASES])
def test_pullback(op: Op, arrays: list[Any]) -> None:
    builder = EagerBuilder()
    y = first(op.reference(*arrays))
    bar = numbers(*y.shape)
    inputs = tuple(constant_value(array) for array in arrays)
    with builder.active():
        found = op.pullback(builder, inputs, (constant_value(y),), (constant_value(bar),))  # pyright: ignore[reportAttributeAccessIssue]
    assert len(found) == len(arrays)
    for position, array in enumerate(arrays):
        if array.dtype == np.float64:
            gradient = found[position].constant
            assert gradient.shape == array.shape
            np.testing.assert_allclose(gradient, numerical(op, arrays, position, bar), rtol=1e-5, atol=1e-7)


def test_a_length_of_zero_has_no_slope() -> None:
    x, op, builder = np.array([[0.0, 0.0], [3.0, 4.0]]), ReduceL2(keepdims=0), EagerBuilder()
    axes = np.array([1])
    with builder.active():
        values = [constant_value(array) for array in (x, axes, op.reference(x, axes), np.array([1.0, 2.0]))]
        found = op.pullback(builder, values[:2], values[2:3], values[3:])
    assert found[0] is not None
    np.testing.assert_allclose(constant(found[0]), [[0, 0], [1.2, 1.6]])


def test_ties_share_the_gradient() -> None:
    x = np.array([[2.0, 2.0, 1.0]])
    builder = EagerBuilder()
    op = ReduceMax()
    with builder.active():
        values = [constant_value(array) for array in (x, op.reference(x), np.ones((1, 1)))]
        found = op.pullback(builder, values[:1], values[1:2], values[2:])
    assert found[0] is not None
    assert found[0].constant is not None
    assert found[0].constant.tolist() == [[0.5, 0.5, 0]]
