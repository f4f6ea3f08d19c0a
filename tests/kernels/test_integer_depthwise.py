"""Depthwise convolutions of bytes: sampled windows, channels and zero points, judged by the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.kernels.test_quantised import extremes, has_kernel, random, target  # noqa: F401  (a fixture)

from intaglio.runtime.model.loading import load

CHANNELS = (1, 3, 7, 8, 15, 16, 17, 33, 48)
LAYERS = 24


def _layer(generator: np.random.Generator, index: int, left: Any) -> tuple[dict[str, Any], tuple[int, ...], list[Any]]:
    """Attributes, the input's shape, and weights with the zero points of the input and of each channel."""

    def pick(*choices: int) -> int:
        return choices[generator.integers(len(choices))]

    axes, channels = pick(1, 2, 2, 2, 3), CHANNELS[index % len(CHANNELS)]
    sizes = [pick(1, 5, 9, 14) for _ in range(axes - 1)] + [pick(1, 7, 20, 67, 131)]
    kernel = [pick(1, 2, 3, 5) for _ in range(axes)]
    dilations = [pick(1, 1, 2, 40 if index % 6 == 5 else 1) for _ in range(axes)]
    strides = [pick(1, 1, 2, 3, 5) for _ in range(axes)]
    least = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    begin = [pick(0, 1, k // 2) for k in kernel]
    end = [max(pick(0, 1, 2), need - size - before) for need, size, before in zip(least, sizes, begin, strict=True)]
    right = (np.int8, np.uint8)[index % 2]
    weights = random(index, (channels, 1, *kernel), right)
    zeros = (np.zeros, lambda *_: random(index, (channels,), right), lambda *_: np.full(channels, 128, right))
    kind = index % 3 if right == np.uint8 else index % 2
    attributes = {"group": channels, "dilations": dilations, "strides": strides, "pads": begin + end}
    zero = [random(index, (), left), *extremes(left)][index % 3]
    return attributes, (pick(1, 2), channels, *sizes), [weights, zero, zeros[kind](channels, right).astype(right)]


def _model(left: Any, seed: int) -> tuple[onnx.ModelProto, dict[str, Any]]:
    generator, number = np.random.default_rng(seed), helper.np_dtype_to_tensor_dtype
    nodes, inputs, outputs, constants, feeds = [], [], [], [], {}
    for index in range(LAYERS):
        attributes, shape, arrays = _layer(generator, index, left)
        names = [f"{name}{index}" for name in "xwuv"]
        nodes.append(helper.make_node("ConvInteger", names, [f"y{index}"], **attributes))
        inputs.append(helper.make_tensor_value_info(names[0], number(np.dtype(left)), shape))
        outputs.append(helper.make_tensor_value_info(f"y{index}", onnx.TensorProto.INT32, None))
        constants += [numpy_helper.from_array(array, name) for array, name in zip(arrays, names[1:], strict=True)]
        feeds[names[0]] = random(seed + index, shape, left)
    graph = helper.make_graph(nodes, "depthwise", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), feeds


@pytest.mark.parametrize("left", [np.uint8, np.int8])
@pytest.mark.parametrize("target", ["host", "avx2", "c"], indirect=True)
def test_depthwise_layers(left: Any, target: str) -> None:  # noqa: F811
    del target
    proto, feeds = _model(left, seed=0)
    expected = load(proto, engine="reference").run(feeds)
    for threads in (1, 2):
        found = load(proto, engine="native", strict=True, threads=threads)
        for name, array in found.run(feeds).items():
            np.testing.assert_array_equal(array, expected[name], err_msg=name)
        assert has_kernel(found, "as integer_depthwise")
        assert has_kernel(found, "as integer_far_depthwise")
