"""Operators that change or read shapes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intaglio.errors import LimitError, OperatorError, ShapeError
from intaglio.ir import dim
from intaglio.ir.dtype import INT64
from intaglio.ir.op import Tensor
from intaglio.ops.shape import reshaped

from .operands import arange, ints, reference, value

I64 = np.int64
N, M = dim.symbol("N"), dim.symbol("M")


@pytest.mark.parametrize(
    ("shape", "target", "allowzero"),
    [
        ((2, 3, 4), [4, 6], 0),
        ((2, 3, 4), [0, -1], 0),
        ((2, 3, 4), [2, 0, 2, -1], 0),
        ((), [1, 1], 0),
        ((1,), [], 0),
        ((0, 3), [3, 0], 1),
        ((0, 4), [4, 0, 5], 1),
        ((6,), [-1, 1], 0),
    ],
)
def test_reshape_agrees_with_runtime(agree, shape, target, allowzero):
    agree("Reshape", arange(*shape), ints(*target), allowzero=allowzero)


def test_reshape_of_strings(agree):
    agree("Reshape", np.array(["a", "b"], object), ints(2, 1))


@pytest.mark.parametrize(
    ("shape", "target", "message"),
    [
        ((6,), [4, -1], "does not divide"),
        ((6,), [-1, -1], "more than one"),
        ((6,), [2, 2], "cannot have the shape"),
        ((6,), [6, 0], "copies dimension 1"),
        ((6,), [-2, 3], "below -1"),
    ],
)
def test_reshape_refuses(shape, target, message):
    with pytest.raises(ShapeError, match=message):
        reference("Reshape", arange(*shape), ints(*target))


def test_reshape_is_symbolic(b):
    x = value(b, N, 3, M)
    assert b.Reshape(x, [0, -1]).shape == (N, M * 3)
    assert b.Reshape(x, [-1, 3]).shape == (N * M, 3)
    assert b.Reshape(x, b.Concat(b.Shape(x, end=1), [-1], axis=0)).shape == (N, M * 3)


def test_reshape_computes_a_size_beside_an_empty_copied_one():
    assert reference("Reshape", np.zeros((0, 6), np.float32), ints(0, -1, 2)).shape == (0, 3, 2)
    assert reshaped((N, 6), [0, -1, 2], False) == (N, 3, 2)


@pytest.mark.parametrize("axes", [None, [0], [-1], [0, 3], [-4, 3]])
def test_squeeze_agrees_with_runtime(agree, axes):
    agree("Squeeze", arange(1, 2, 3, 1), None if axes is None else ints(*axes))


def test_squeeze_refuses_a_size_above_one(b):
    with pytest.raises(ShapeError, match="only size 1"):
        reference("Squeeze", arange(2, 1), ints(0))
    with pytest.raises(ShapeError, match="only size 1"):
        b.Squeeze(value(b, 2, 1), [0])


def test_squeeze_of_unknown_sizes_has_unknown_rank(b):
    x = value(b, N, 1)
    assert b.Squeeze(x).tensor.shape is None
    assert b.Squeeze(x, [1]).shape == (N,)


@pytest.mark.parametrize("axes", [[0], [-1], [1, 3], [-1, 0], [4, 0, 2]])
def test_unsqueeze_agrees_with_runtime(agree, axes):
    agree("Unsqueeze", arange(2, 3), ints(*axes))


@pytest.mark.parametrize("axes", [[3], [-4], [0, 0], [0, -4]])
def test_unsqueeze_refuses(axes):
    with pytest.raises(ShapeError, match=r"out of range|twice"):
        reference("Unsqueeze", arange(2, 2), ints(*axes))


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1, -3])
def test_flatten_agrees_with_runtime(agree, axis):
    agree("Flatten", arange(2, 3, 4), axis=axis)


def test_flatten_of_a_scalar(agree):
    agree("Flatten", np.array(3, np.float32), axis=0)
    with pytest.raises(ShapeError, match="expected 0 to 0"):
        reference("Flatten", np.zeros((), np.float32))


@pytest.mark.parametrize(("start", "end"), [(0, None), (1, None), (-1, None), (0, -1), (-9, 9), (2, 1)])
def test_shape_agrees_with_runtime(agree, start, end):
    agree("Shape", arange(2, 3, 4), start=start, **({} if end is None else {"end": end}))


def test_size_agrees_with_runtime(agree):
    for shape in [(2, 3), (), (0, 4)]:
        agree("Size", arange(*shape))


def test_shape_and_size_carry_dimensions(b):
    x = value(b, N, 3, M)
    assert b.Shape(x, start=1).contents.tolist() == [3, M]
    assert b.Size(x).contents.item() == N * M * 3


@pytest.mark.parametrize("target", [[2, 3], [3, 2, 1], [1], [], [4, 1, 3]])
def test_expand_agrees_with_runtime(agree, target):
    agree("Expand", arange(2, 3) if target != [4, 1, 3] else arange(4, 2, 1), ints(*target))


def test_expand_refuses():
    with pytest.raises(ValueError, match="shape mismatch"):
        reference("Expand", arange(2, 3), ints(4, 3))
    with pytest.raises(OperatorError, match="negative"):
        reference("Expand", arange(1), ints(-1))


@pytest.mark.parametrize("repeats", [[1, 1], [2, 3], [0, 2]])
def test_tile_agrees_with_runtime(agree, repeats):
    agree("Tile", arange(2, 3), ints(*repeats))


def test_tile_refuses():
    with pytest.raises(OperatorError, match="3 repeats for a tensor of rank 2"):
        reference("Tile", arange(2, 2), ints(1, 1, 1))
    with pytest.raises(OperatorError, match="negative"):
        reference("Tile", arange(2), ints(-1))


@pytest.mark.parametrize("fill", [None, np.array([7], np.int64), np.array([2.5], np.float64), np.array([True])])
@pytest.mark.parametrize("shape", [[2, 3], [0], []])
def test_constant_of_shape_agrees_with_runtime(agree, fill, shape):
    from onnx import numpy_helper

    options = {} if fill is None else {"value": numpy_helper.from_array(fill)}
    agree("ConstantOfShape", ints(*shape), **options)


def test_constant_of_shape_is_bounded(b):
    with pytest.raises(LimitError, match="over the limit"):
        reference("ConstantOfShape", ints(2**40, 2**20))
    fill = Tensor(np.array([1], np.int64))
    assert b.ConstantOfShape([2**40], value=fill).contents is None
    assert b.ConstantOfShape([2], value=fill).contents.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("start", "limit", "delta", "dtype"),
    [
        (0, 5, 1, np.int64),
        (10, 4, -2, np.int64),
        (3, 9, 3, np.int32),
        (5, 0, 1, np.int64),
        (0.0, 1.0, 0.1, np.float32),
        (1.0, -1.0, -0.25, np.float64),
        (-3, 3, 2, np.int16),
    ],
)
def test_range_agrees_with_runtime(agree, start, limit, delta, dtype):
    agree("Range", *(np.array(item, dtype) for item in (start, limit, delta)))


def test_range_is_symbolic(b):
    x = value(b, N, M)
    size = b.Squeeze(b.Shape(x, end=1), [0])
    zero, one = b.constant(0, INT64), b.constant(1, INT64)
    assert b.Range(zero, size, one).shape == (N,)
    assert b.Range(one, b.constant(4, INT64), one).contents.tolist() == [1, 2, 3]


def test_range_refuses():
    with pytest.raises(OperatorError, match="delta is 0"):
        reference("Range", np.array(0), np.array(1), np.array(0))
    with pytest.raises(OperatorError, match="no length"):
        reference("Range", *(np.array(x, np.float32) for x in (0, np.inf, 1)))


def test_range_in_half_precision_steps_in_single():
    result = reference("Range", *(np.array(x, np.float16) for x in (2048, 2052, 1)))
    assert result.dtype == np.float16
    assert result.tolist() == [2048, 2048, 2050, 2052]


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ({"value_int": 3}, np.array(3, np.int64)),
        ({"value_ints": (1, 2)}, np.array([1, 2], np.int64)),
        ({"value_float": 0.5}, np.array(0.5, np.float32)),
        ({"value_floats": (0.5, 1.0)}, np.array([0.5, 1], np.float32)),
        ({"value_string": "a"}, np.array("a", object)),
        ({"value_strings": ("a", "b")}, np.array(["a", "b"], object)),
        ({"value": Tensor(np.eye(2))}, np.eye(2)),
        ({"sparse_value": Tensor(np.eye(2))}, np.eye(2)),
    ],
)
def test_constant(b, attribute, expected):
    result = reference("Constant", **attribute)
    assert result.dtype == expected.dtype
    assert result.tolist() == expected.tolist()
    assert b.Constant(**attribute).shape == expected.shape


def test_constant_needs_one_attribute(b):
    with pytest.raises(ShapeError, match="exactly one attribute, got none"):
        b.Constant()


@pytest.mark.parametrize("k", [0, 1, -2, 9])
@pytest.mark.parametrize("dtype", [None, 7])
def test_eye_like_agrees_with_runtime(agree, k, dtype):
    agree("EyeLike", arange(3, 4), k=k, **({} if dtype is None else {"dtype": dtype}))


@given(st.lists(st.integers(0, 4), max_size=4), st.data())
def test_reshape_to_any_order_of_its_sizes(shape, data):
    target = data.draw(st.permutations(shape))
    assert reference("Reshape", arange(*shape), ints(*target), allowzero=1).shape == tuple(target)
