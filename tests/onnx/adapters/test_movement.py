"""Older versions of shape, movement, indexing and selection operators, judged by ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from intaglio.errors import OperatorError, ShapeError
from intaglio.onnx.reader import read_model


def arange(*shape, dtype=np.float32):
    return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)


def ints(*values):
    return np.array(values, np.int64)


def test_reshape_1(agree):
    agree("Reshape", arange(2, 6), opset=1, expected=[arange(2, 3, 2)], shape=[0, 3, -1])


@pytest.mark.parametrize("opset", [5, 13])
def test_reshape_5(agree, opset):
    agree("Reshape", arange(2, 6), ints(0, 3, -1), opset=max(opset, 7))


@pytest.mark.parametrize("opset", [7, 11, 12])
@pytest.mark.parametrize("axes", [None, [0], [0, 3]])
def test_squeeze_1(agree, opset, axes):
    agree("Squeeze", arange(1, 2, 3, 1), opset=opset, **({} if axes is None else {"axes": axes}))


def test_squeeze_11_counts_from_the_end(agree):
    agree("Squeeze", arange(1, 2, 1), opset=11, axes=[-1])


@pytest.mark.parametrize("opset", [7, 11])
def test_unsqueeze_1(agree, opset):
    agree("Unsqueeze", arange(2, 3), opset=opset, axes=[0, 3])


def test_tile_1(agree):
    tiles, axis = np.array([2], np.float32), np.array([1], np.float32)
    agree("Tile", arange(2, 3), tiles, axis, opset=1, expected=[np.tile(arange(2, 3), (1, 2))])


def test_tile_6(agree):
    agree("Tile", arange(2, 3), ints(2, 1), opset=7)


def test_concat_1_joins_axis_1(agree):
    agree("Concat", arange(2, 3), arange(2, 1), opset=1, expected=[np.concatenate([arange(2, 3), arange(2, 1)], 1)])


def test_concat_4(agree):
    agree("Concat", arange(2, 3), arange(2, 1), opset=7, axis=1)


@pytest.mark.parametrize("opset", [7, 11])
def test_split_2(agree, opset):
    agree("Split", arange(2, 6), opset=opset, outputs=3, axis=1)
    agree("Split", arange(2, 6), opset=opset, outputs=2, axis=1, split=[1, 5])


def test_split_1(agree):
    parts = [arange(2, 6)[:, :1], arange(2, 6)[:, 1:]]
    agree("Split", arange(2, 6), opset=1, outputs=2, axis=1, split=[1, 5], expected=parts)
    agree("Split", arange(2, 6), np.array([1, 5], np.float32), opset=1, outputs=2, axis=1, expected=parts)


def test_split_13(agree):
    agree("Split", arange(2, 6), opset=13, outputs=3, axis=1)
    agree("Split", arange(2, 6), ints(4, 2), opset=13, outputs=2, axis=-1)


def test_split_before_18_refuses_uneven_parts(agree):
    graph = helper.make_graph(
        [helper.make_node("Split", ["x"], ["a", "b"], axis=1)],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 5])],
        [onnx.ValueInfoProto(name="a"), onnx.ValueInfoProto(name="b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    with pytest.raises(ShapeError, match="cannot be split into 2 equal parts"):
        read_model(model)
    with pytest.raises(OperatorError, match="do not make up the size 5"):
        agree("Split", arange(2, 5), opset=13, outputs=2, axis=1, expected=[])


@pytest.mark.parametrize(
    ("starts", "ends", "axes"), [([1, 0], [9, -1], None), ([-2], [2**31 - 1], [1]), ([3], [1], [0])]
)
def test_slice_1(agree, starts, ends, axes):
    agree("Slice", arange(4, 5), opset=7, starts=starts, ends=ends, **({} if axes is None else {"axes": axes}))


@pytest.mark.parametrize("opset", [10, 11])
def test_slice_10(agree, opset):
    agree("Slice", arange(4, 5), ints(3, 0), ints(0, 4), ints(0, 1), ints(-1, 2), opset=opset)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad_2(agree, mode):
    agree("Pad", arange(3, 4), opset=7, mode=mode, pads=[1, 2, 0, 1], **({"value": 2.5} if mode == "constant" else {}))


def test_pad_1(agree):
    agree("Pad", arange(1, 2), opset=1, paddings=[0, 1, 0, 0], value=3.0, expected=[np.array([[3, 0, 1]], np.float32)])


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_pad_11(agree, opset):
    agree("Pad", arange(3, 4), ints(1, 2, 0, -1), np.array(5, np.float32), opset=opset)


@pytest.mark.parametrize("opset", [9, 10])
def test_scatter_9(agree, opset):
    agree("Scatter", arange(3, 3), np.array([[1, 0, 2]], np.int64), -arange(1, 3), opset=opset, axis=0)


@pytest.mark.parametrize("opset", [11, 13, 16])
def test_scatter_elements_11(agree, opset):
    agree("ScatterElements", arange(3, 3), np.array([[1, 0, 2]], np.int64), -arange(1, 3), opset=opset, axis=1)


@pytest.mark.parametrize("opset", [7, 11])
def test_old_versions_that_mean_the_same(agree, opset):
    agree("Gather", arange(3, 3), ints(2, 0), opset=opset, axis=1)
    agree("Transpose", arange(2, 3), opset=opset)
    agree("Flatten", arange(2, 3, 4), opset=opset, axis=2)
    agree("Shape", arange(2, 3), opset=opset)
    agree("Size", arange(2, 3), opset=opset)
    agree("DepthToSpace", arange(1, 8, 2, 3), opset=opset, blocksize=2)
    agree("SpaceToDepth", arange(1, 2, 4, 6), opset=opset, blocksize=2)


def test_one_hot_9(agree):
    agree("OneHot", np.array([0, 2, 5], np.int64), np.array([3], np.int64), np.array([0, 1], np.float32), opset=9)


@pytest.mark.parametrize("opset", [7, 9])
def test_top_k_1(agree, opset):
    agree("TopK", np.array([[3, 1, 2], [4, 9, 4]], np.float32), opset=opset, outputs=2, k=2, axis=1)


def test_top_k_10(agree):
    agree("TopK", np.array([[3, 1, 2], [4, 9, 4]], np.float32), ints(2), opset=10, outputs=2)


@pytest.mark.parametrize("opset", [9, 11, 20])
def test_constant_of_shape_9(agree, opset):
    agree("ConstantOfShape", ints(2, 3), opset=opset)


def test_constant_in_all_its_versions():
    for opset in (1, 9, 11, 12, 13, 19):
        node = helper.make_node("Constant", [], ["y"], value=numpy_helper.from_array(arange(2)))
        graph = helper.make_graph([node], "g", [], [onnx.ValueInfoProto(name="y")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        assert read_model(model).graph.outputs[0].shape == (2,)
