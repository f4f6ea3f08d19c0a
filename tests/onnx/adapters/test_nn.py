"""Older versions of reductions, products, pools, normalizations and layers against ONNX Runtime or their equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate

GENERATOR = np.random.default_rng(16)


def numbers(*shape: int) -> Any:
    return GENERATOR.standard_normal(shape).astype(np.float32)


def run(operator: str, *inputs: Any, opset: int, outputs: int = 1, **attributes: Any) -> list[Any]:
    """What we make of one node of an operator set that ONNX Runtime does not run."""
    names = [f"x{i}" for i in range(len(inputs))]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(operator, names, results, **attributes)
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in zip(names, inputs, strict=True)
    ]
    graph = helper.make_graph([node], "single", infos, [onnx.ValueInfoProto(name=name) for name in results])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7)
    return evaluate(read_model(model).graph, list(inputs))


@pytest.mark.parametrize("opset", [7, 11, 12])
@pytest.mark.parametrize("name", ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"])
def test_axes_as_attribute(agree: Any, name: str, opset: int) -> None:
    x = np.abs(numbers(2, 3, 4))
    agree(f"Reduce{name}", x, opset=opset)
    agree(f"Reduce{name}", x, opset=opset, axes=[0, 2], keepdims=0)
    if name not in ("Sum",) and opset > 11:
        agree(f"Reduce{name}", x, opset=17, axes=[-1])


@pytest.mark.parametrize("opset", [7, 11, 12])
@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, 3])
def test_all_axes_from_one_on_are_one(agree: Any, name: str, opset: int, axis: int | None) -> None:
    agree(name, numbers(2, 3, 4, 5), opset=opset, **({} if axis is None else {"axis": axis}))


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "Hardmax"])
def test_axis_from_the_back(agree: Any, name: str) -> None:
    agree(name, numbers(2, 3, 4), opset=11, axis=-2)


def test_softmax_meant_something_else() -> None:
    x = numbers(2, 3, 4)
    (old,) = run("Softmax", x, opset=12)
    np.testing.assert_allclose(old.sum(axis=(1, 2)), [1, 1], rtol=1e-5)
    (new,) = run("Softmax", x, opset=13)
    np.testing.assert_allclose(new.sum(axis=2), np.ones((2, 3)), rtol=1e-5)


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize("shape", [(2, 3), (3,)])
def test_gemm_broadcast(opset: int, shape: tuple[int, ...]) -> None:
    a, b, c = numbers(2, 4), numbers(3, 4), numbers(*shape)
    (result,) = run("Gemm", a, b, c, opset=opset, broadcast=1, transB=1, alpha=0.5, beta=2.0)
    np.testing.assert_allclose(result, 0.5 * (a @ b.T) + 2 * c, rtol=1e-5, atol=1e-6)


def test_gemm_7(agree: Any) -> None:
    agree("Gemm", numbers(2, 4), numbers(4, 3), numbers(1, 3), opset=7)


@pytest.mark.parametrize("p", [2.0, 3.0, 1.5])
def test_fractional_norms(p: float) -> None:
    x = numbers(1, 2, 5)
    (pooled,) = run("LpPool", x, opset=1, p=p, kernel_shape=[2], pads=[1, 0])
    padded = np.abs(np.pad(x, [(0, 0), (0, 0), (1, 0)])) ** p
    np.testing.assert_allclose(pooled, (padded[..., :-1] + padded[..., 1:]) ** (1 / p), rtol=1e-4)
    (whole,) = run("GlobalLpPool", x, opset=1, p=p)
    np.testing.assert_allclose(whole, (np.abs(x) ** p).sum(axis=2, keepdims=True) ** (1 / p), rtol=1e-4)


@pytest.mark.parametrize("opset", [7, 8, 10, 11, 12])
def test_older_pools(agree: Any, opset: int) -> None:
    x = numbers(1, 2, 7, 8)
    agree("AveragePool", x, opset=opset, kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 2], count_include_pad=1)
    agree("MaxPool", x, opset=opset, kernel_shape=[3, 2], auto_pad="SAME_LOWER", outputs=2 if opset > 7 else 1)
    if opset >= 10:
        agree("AveragePool", x, opset=opset, kernel_shape=[3, 2], strides=[2, 3], ceil_mode=1)


def channels(*shape: int) -> list[Any]:
    return [numbers(*shape), numbers(*shape), numbers(*shape), np.abs(numbers(*shape))]


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
def test_batch_normalization_in_use(agree: Any, opset: int) -> None:
    agree("BatchNormalization", numbers(2, 3, 4, 5), *channels(3), opset=opset, epsilon=1e-3, atol=1e-5)


def by_hand(x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + bias


@pytest.mark.parametrize(
    ("opset", "options"), [(1, {"consumed_inputs": [0] * 5, "is_test": 1}), (6, {"is_test": 1}), (7, {})]
)
def test_statistics_per_element(opset: int, options: dict[str, Any]) -> None:
    x, vectors = numbers(2, 3, 4), channels(3, 4)
    (result,) = run("BatchNormalization", x, *vectors, opset=opset, spatial=0, **options)
    np.testing.assert_allclose(result, by_hand(x, *vectors), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("opset", "options"), [(6, {"is_test": 0}), (7, {}), (9, {})])
def test_training_with_five_outputs(opset: int, options: dict[str, Any]) -> None:
    x, vectors = numbers(4, 3, 5), channels(3)
    results = run("BatchNormalization", x, *vectors, opset=opset, outputs=5, momentum=0.75, **options)
    mean, variance = x.mean(axis=(0, 2)), x.var(axis=(0, 2))
    column = [vector[:, None] for vector in (*vectors[:2], mean, variance)]
    np.testing.assert_allclose(results[0], by_hand(x, *column), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(results[1], 0.75 * vectors[2] + 0.25 * mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(results[2], 0.75 * vectors[3] + 0.25 * variance, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(results[3], mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(results[4], variance, rtol=1e-4, atol=1e-5)


def test_instance_normalization_1() -> None:
    x, scale, bias = numbers(2, 3, 4), numbers(3), numbers(3)
    (old,) = run("InstanceNormalization", x, scale, bias, opset=1, consumed_inputs=[0, 0, 0])
    (new,) = run("InstanceNormalization", x, scale, bias, opset=22)
    np.testing.assert_array_equal(old, new)


def test_group_normalization_18(agree: Any) -> None:
    x, scale, bias = numbers(2, 6, 3, 4), numbers(3), numbers(3)
    agree("GroupNormalization", x, scale, bias, num_groups=3, opset=18, atol=1e-5)


@pytest.mark.parametrize("opset", [7, 10])
def test_dropout_in_use(agree: Any, opset: int) -> None:
    x = numbers(3, 4)
    (output,) = agree("Dropout", x, opset=opset, ratio=0.4)
    assert (output == x).all()


@pytest.mark.parametrize(("opset", "dtype"), [(1, np.float32), (6, np.float32), (7, np.float32), (10, np.bool_)])
def test_dropout_mask_type(opset: int, dtype: Any) -> None:
    options = {"is_test": 1} if opset < 7 else {}
    output, mask = run("Dropout", numbers(3, 4), opset=opset, outputs=2, **options)
    assert output.shape == mask.shape == (3, 4)
    assert mask.dtype == dtype
    assert mask.all()


def test_dropout_trains_where_it_is_not_a_test() -> None:
    output, mask = run("Dropout", np.ones((50, 50), np.float32), opset=6, outputs=2, is_test=0, ratio=0.5)
    assert set(np.unique(output)) == {0, 2}
    assert ((output != 0) == (mask != 0)).all()


@pytest.mark.parametrize(("name", "gates", "opset"), [("RNN", 1, 1), ("GRU", 3, 1), ("GRU", 3, 3), ("LSTM", 4, 1)])
def test_layers_with_output_sequence(name: str, gates: int, opset: int) -> None:
    inputs = (numbers(5, 2, 3), numbers(1, gates * 4, 3), numbers(1, gates * 4, 4))
    old = run(name, *inputs, opset=opset, outputs=2, hidden_size=4, output_sequence=1)
    new = run(name, *inputs, opset=22, outputs=2, hidden_size=4)
    for left, right in zip(old, new, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("axis", [None, 1, 2, -2])
@pytest.mark.parametrize("length", [None, 6])
def test_dft_axis_as_attribute(agree: Any, axis: int | None, length: int | None) -> None:
    options = {} if axis is None else {"axis": axis}
    inputs = (numbers(2, 8, 3, 1), None if length is None else np.array(length))
    agree("DFT", *inputs, opset=17, rtol=1e-4, atol=1e-4, **options)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample_16(agree: Any, mode: str) -> None:
    grid = numbers(2, 4, 7, 2)
    agree("GridSample", numbers(2, 3, 5, 6), grid, opset=16, mode=mode, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_roi_align_10(agree: Any, mode: str) -> None:
    regions = np.array([[0, 0, 3, 4], [1, 2, 5, 5]], np.float32)
    options = {"mode": mode, "output_height": 2, "output_width": 3, "sampling_ratio": 2}
    agree("RoiAlign", numbers(2, 3, 6, 7), regions, np.array([0, 1]), opset=10, atol=1e-5, **options)
