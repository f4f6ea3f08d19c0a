"""Operators that move elements."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim, substitution
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.types import TensorType
from intaglio.ops.movement import clamped_slice, slice_size

from .operands import arange, ints, reference

N, M = dim.symbol("N"), dim.symbol("M")
FAR = 2**63 - 1


def value(b, *shape):
    return b.graph.add_input("x", TensorType(FLOAT32, shape))


@pytest.mark.parametrize("perm", [None, (0, 1, 2), (2, 0, 1), (1, 0, 2)])
def test_transpose_agrees_with_runtime(agree, perm):
    agree("Transpose", arange(2, 3, 4), **({} if perm is None else {"perm": perm}))


def test_transpose_refuses(b):
    with pytest.raises(ShapeError, match="not an order of the 2 axes"):
        b.Transpose(value(b, 2, 3), perm=(0, 0))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat_agrees_with_runtime(agree, axis):
    other = arange(4, 3) if axis == 0 else arange(2, 5)
    agree("Concat", arange(2, 3), other, arange(2, 3), axis=axis)


def test_concat_unifies_sizes(b):
    assert b.Concat(value(b, N, 3), value(b, 2, M), axis=1).shape == (2, M + 3)
    with pytest.raises(ShapeError, match="must be equal, got 2 and 3"):
        b.Concat(value(b, 2, 3), value(b, 3, 3), axis=1)
    with pytest.raises(ShapeError, match="one rank"):
        b.Concat(value(b, 2), value(b, 2, 1), axis=0)


def test_concat_of_very_many_inputs(b):
    inputs = [value(b, dim.symbol(f"N{i}"), 3) for i in range(5000)]
    joined = b.Concat(*inputs, axis=0).shape[0]
    assert len(dim.symbols(joined)) == 5000


@pytest.mark.parametrize(("sizes", "axis"), [([1, 4], 1), ([0, 5], 1), ([2], 0), ([1, 1], -2)])
def test_split_agrees_with_runtime(agree, sizes, axis):
    agree("Split", arange(2, 5), ints(*sizes), outputs=len(sizes), axis=axis)


@pytest.mark.parametrize(("size", "count"), [(6, 3), (7, 4), (7, 1)])
def test_split_in_even_parts_agrees_with_runtime(agree, size, count):
    agree("Split", arange(2, size), outputs=count, axis=1, num_outputs=count)


def test_split_refuses(b):
    with pytest.raises(OperatorError, match="do not make up the size 5"):
        reference("Split", arange(5), ints(2, 2), output_count=2)
    with pytest.raises(ShapeError, match="into 3 parts on a node with 2"):
        b.Split(value(b, 6), num_outputs=3, outputs=2)
    with pytest.raises(ShapeError, match="cannot be split"):
        b.Split(value(b, 5), num_outputs=4, outputs=4)


SLICES = [
    ([0], [2], None, None),
    ([1, 0], [9, 3], None, None),
    ([0], [FAR], [1], [2]),
    ([-3], [-1], [1], None),
    ([-1], [-FAR], [1], [-1]),
    ([FAR], [-9], [0], [-2]),
    ([3], [1], [1], None),
    ([4], [1], [-1], [-2]),
    ([-100], [100], [0], [3]),
    ([1], [-100], [1], [-1]),
    ([0, 1], [2, 4], [1, 0], [1, 2]),
    ([5], [9], [1], None),
    ([], [], [], None),
]


@pytest.mark.parametrize(("starts", "ends", "axes", "steps"), SLICES)
def test_slice_agrees_with_runtime(agree, starts, ends, axes, steps):
    optional = [None if item is None else ints(*item) for item in (axes, steps)]
    agree("Slice", arange(4, 5), ints(*starts), ints(*ends), *optional)


@given(st.integers(0, 6), st.integers(-9, 9), st.integers(-9, 9), st.integers(-4, 4).filter(bool))
def test_slice_size_is_the_length_of_the_slice(size, start, end, step):
    length = len(range(size)[clamped_slice(size, start, end, step)])
    assert slice_size(size, start, end, step) == length
    assert substitution.evaluate(slice_size(N, start, end, step), {"N": size}) == length


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((0, FAR, 1), N),
        ((0, 2**31 - 1, 1), N),
        ((1, FAR, 1), dim.maximum(N - 1, 0)),
        ((0, -1, 1), dim.maximum(N - 1, 0)),
        ((-1, FAR, 1), dim.minimum(N, 1)),
        ((-1, -FAR, -1), N),
        ((0, M, 1), dim.minimum(N, M)),
    ],
)
def test_slices_of_a_symbolic_size(bounds, expected):
    assert slice_size(N, *bounds) == expected


def test_slice_refuses(b):
    with pytest.raises(OperatorError, match="step is 0"):
        reference("Slice", arange(4), ints(0), ints(1), ints(0), ints(0))
    with pytest.raises(ShapeError, match="step is 0"):
        b.Slice(value(b, 4), [0], [1], [0], [0])
    with pytest.raises(OperatorError, match="axis 2 is out of range"):
        reference("Slice", arange(4), ints(0), ints(1), ints(2))
    with pytest.raises(OperatorError, match="differ in length"):
        reference("Slice", arange(4, 4), ints(0, 0), ints(1))


def test_slices_of_shapes_keep_their_contents(b):
    shape = b.Shape(value(b, N, 3, M))
    assert b.Slice(shape, [1], [FAR]).contents.tolist() == [3, M]
    assert b.Slice(shape, [-1], [-FAR], None, [-2]).contents.tolist() == [M, N]


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize(
    ("pads", "axes"),
    [([1, 2, 0, 1], None), ([0, 0, 0, 0], None), ([2, 1], [1]), ([1, 1, 2, 0], [-1, 0]), ([-1, 2, 1, -1], None)],
)
def test_pad_agrees_with_runtime(agree, mode, pads, axes):
    fill = np.array(7, np.float32) if mode == "constant" else None
    agree("Pad", arange(3, 4), ints(*pads), fill, None if axes is None else ints(*axes), mode=mode)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.float64, np.bool_, np.float16])
def test_pad_of_every_type_agrees_with_runtime(agree, dtype):
    agree("Pad", arange(2, 2, dtype=dtype), ints(1, 0, 0, 1))


def test_pad_of_narrow_types_and_strings():
    narrow = np.array([1, 2], ml_dtypes.bfloat16)
    assert reference("Pad", narrow, ints(1, 0)).tolist() == [0, 1, 2]
    assert reference("Pad", np.array(["a"], object), ints(0, 1)).tolist() == ["a", ""]


def test_pad_refuses(b):
    with pytest.raises(OperatorError, match="cut more than"):
        reference("Pad", arange(2), ints(-2, -1))
    with pytest.raises(OperatorError, match="nothing to pad with"):
        reference("Pad", arange(0), ints(1, 0), mode="edge")
    with pytest.raises(ShapeError, match="3 pads for 1 axes, expected 2"):
        b.Pad(value(b, 4), [1, 1, 1])
    with pytest.raises(ShapeError, match="mode 'mirror' is none of"):
        b.Pad(value(b, 4), [1, 1], mode="mirror")


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_agrees_with_runtime(agree, mode):
    agree("DepthToSpace", arange(2, 8, 2, 3), blocksize=2, mode=mode)


def test_space_to_depth_agrees_with_runtime(agree):
    agree("SpaceToDepth", arange(2, 3, 4, 6), blocksize=2)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_space_to_depth_undoes_depth_to_space(mode):
    data = arange(2, 8, 2, 3)
    spread = reference("DepthToSpace", data, blocksize=2, mode=mode)
    np.testing.assert_array_equal(reference("SpaceToDepth", spread, blocksize=2, mode=mode), data)


def test_depth_to_space_is_symbolic(b):
    assert b.DepthToSpace(value(b, N, 8, M, 3), blocksize=2).shape == (N, 2, M * 2, 6)
    with pytest.raises(ShapeError, match="rank 3, expected 4"):
        b.DepthToSpace(value(b, 1, 4, 2), blocksize=2)


@pytest.mark.parametrize(("time_axis", "lengths"), [(0, [1, 2, 3]), (1, [3, 0, 2, 1])])
def test_reverse_sequence_agrees_with_runtime(agree, time_axis, lengths):
    data = arange(4, 3, 2)
    agree("ReverseSequence", data, ints(*lengths), time_axis=time_axis, batch_axis=1 - time_axis)


def test_reverse_sequence_refuses():
    with pytest.raises(OperatorError, match="expected 2 lengths of 0 to 3"):
        reference("ReverseSequence", arange(3, 2), ints(1, 4))


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, 0, 2, -1, -9])
def test_trilu_agrees_with_runtime(agree, upper, k):
    agree("Trilu", arange(2, 3, 4, dtype=np.int64), None if k is None else np.array(k, np.int64), upper=upper)


@pytest.mark.parametrize(("shape", "axes"), [([3, 3], None), ([10, 1], None), ([4], (1,)), ([7, 2], (-1, 0))])
def test_center_crop_pad_agrees_with_runtime(agree, shape, axes):
    agree("CenterCropPad", arange(5, 6), ints(*shape), **({} if axes is None else {"axes": axes}))
