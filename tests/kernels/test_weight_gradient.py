"""Gradients of convolutions by their kernels: sampled, many to a model, against a naive formula and ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import onnxruntime
import pytest

import intaglio
from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import from_numpy
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.convolution import ConvWeightGradient

Array = np.ndarray[Any, Any]
Generator = np.random.Generator

CASES = 16
"""Gradients of one model."""


@dataclass(frozen=True)
class Case:
    """The operator, the shape of its data, the output channels, and how many windows of each axis are left out."""

    op: ConvWeightGradient
    shape: tuple[int, ...]
    outputs: int
    left: tuple[int, ...]

    @property
    def bars(self) -> tuple[int, ...]:
        """The shape of the output's gradient."""
        sizes = (int(w.output) - left for w, left in zip(self.op.windows(self.shape[2:]), self.left, strict=True))
        return self.shape[0], self.outputs, *sizes


def sampled(rng: Generator, axes: int, kind: str) -> Case:
    """A case of so many spatial axes: depthwise, in groups, or plain."""
    kernel, strides, dilations = (tuple(int(n) for n in rng.integers(1, most, axes)) for most in (6, 4, 3))
    pads = tuple(int(n) for n in rng.integers(0, 3, 2 * axes))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    sizes = [
        max(1, int(rng.integers(r, r + (23 if axes < 3 else 5))) - pads[i] - pads[axes + i])
        for i, r in enumerate(reach)
    ]
    sizes = [max(size, r - pads[i] - pads[axes + i]) for i, (size, r) in enumerate(zip(sizes, reach, strict=True))]
    group = {"depthwise": int(rng.integers(2, 40)), "groups": int(rng.integers(2, 4)), "plain": 1}[kind]
    inner, outer = (1, 1) if kind == "depthwise" else (int(rng.integers(1, 60)), int(rng.integers(1, 60)))
    op = ConvWeightGradient(kernel_shape=kernel, strides=strides, dilations=dilations, pads=pads, group=group)
    shape = (int(rng.integers(0, 5)), group * inner, *sizes)
    counts = [int(window.output) for window in op.windows(shape[2:])]
    return Case(op, shape, group * outer, tuple(int(rng.integers(0, min(count, 2))) for count in counts))


def naive(case: Case, x: Array, bars: Array) -> Array:
    """The sum over images and windows, place by place."""
    op, group = case.op, case.op.group
    windows = op.windows(case.shape[2:])
    inner, outer = case.shape[1] // group, case.outputs // group
    result = np.zeros((case.outputs, inner, *op.kernel_shape))
    for place in product(*(range(size) for size in op.kernel_shape)):
        for output in product(*(range(size) for size in bars.shape[2:])):
            axes = zip(output, place, windows, strict=True)
            at = tuple(o * w.stride + k * w.dilation - int(w.begin) for o, k, w in axes)
            if all(0 <= i < size for i, size in zip(at, case.shape[2:], strict=True)):
                pixel, bar = x[(..., *at)].astype(np.float64), bars[(..., *output)].astype(np.float64)
                for g in range(group):
                    part = bar[:, g * outer : (g + 1) * outer].T @ pixel[:, g * inner : (g + 1) * inner]
                    result[(slice(g * outer, (g + 1) * outer), slice(None), *place)] += part
    return result


def model_of(cases: list[Case], dtype: Any) -> Graph:
    """All cases in one graph; batches are symbols."""
    graph = Graph("gradients")
    builder, outputs = Builder(graph), []
    for i, case in enumerate(cases):
        shapes = case.shape, case.bars
        values = [
            graph.add_input(f"{name}{i}", TensorType(from_numpy(np.dtype(dtype)), (symbol(f"n{i}"), *shape[1:])))
            for name, shape in zip("xy", shapes, strict=True)
        ]
        outputs += builder.add(case.op, values, names=[f"w{i}"])
    graph.set_outputs(outputs)
    return graph


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sampled_gradients(axes: int, dtype: Any) -> None:
    rng = np.random.default_rng([axes, np.dtype(dtype).itemsize])
    kinds = ("depthwise", "plain", "groups", "plain")
    cases = [sampled(rng, axes, kinds[i % 4]) for i in range(CASES)]
    graph = model_of(cases, dtype)
    feeds: dict[str, Array] = {}
    for i, case in enumerate(cases):
        for name, shape in (("x", case.shape), ("y", case.bars)):
            feeds[f"{name}{i}"] = rng.integers(-8, 9, shape).astype(dtype)  # sums of these are exact
    expected = {f"w{i}": naive(case, feeds[f"x{i}"], feeds[f"y{i}"]) for i, case in enumerate(cases)}
    reference = intaglio.load(graph, engine="reference")
    for model in (reference, intaglio.load(graph, strict=True), intaglio.load(graph, strict=True, threads=2)):
        for name, array in model.run(feeds).items():
            np.testing.assert_array_equal(array, expected[name], err_msg=f"{cases[int(name[1:])]}")


def test_saved_gradients_run_in_onnx_runtime() -> None:
    rng = np.random.default_rng(4)
    cases = [case for kind in ("depthwise", "groups", "plain") * 4 if (case := sampled(rng, 2, kind)).shape[0]]
    assert len(cases) > 6
    graph = model_of(cases, np.float32)
    feeds = {
        f"{name}{i}": rng.standard_normal(shape).astype(np.float32)
        for i, case in enumerate(cases)
        for name, shape in (("x", case.shape), ("y", case.bars))
    }
    session = onnxruntime.InferenceSession(intaglio.load(graph, engine="reference").to_onnx().SerializeToString())
    answers = map(np.asarray, session.run(None, feeds))
    for i, (case, array) in enumerate(zip(cases, answers, strict=True)):
        expected = naive(case, feeds[f"x{i}"], feeds[f"y{i}"])
        np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-4, err_msg=f"{case}")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_numbers_are_summed_in_single_precision(dtype: str) -> None:
    from ml_dtypes import bfloat16

    rng = np.random.default_rng(5)
    cases = [sampled(rng, 2, kind) for kind in ("depthwise", "plain")]
    element = np.dtype(bfloat16 if dtype == "bfloat16" else np.float16)
    graph = model_of(cases, element)
    feeds = {
        f"{name}{i}": rng.integers(-4, 5, shape).astype(element)
        for i, case in enumerate(cases)
        for name, shape in (("x", case.shape), ("y", case.bars))
    }
    found = intaglio.load(graph, strict=True).run(feeds)
    for name, array in intaglio.load(graph, engine="reference").run(feeds).items():
        np.testing.assert_array_equal(found[name].astype(np.float32), array.astype(np.float32))


def test_any_number_of_threads_gives_the_same_bits() -> None:
    rng = np.random.default_rng(6)
    cases = [sampled(rng, 2, kind) for kind in ("depthwise", "plain", "groups", "plain")]
    graph = model_of(cases, np.float32)
    feeds = {
        f"{name}{i}": rng.standard_normal((7, *shape[1:])).astype(np.float32)
        for i, case in enumerate(cases)
        for name, shape in (("x", case.shape), ("y", case.bars))
    }
    first, *others = (intaglio.load(graph, threads=threads).run(feeds) for threads in (1, 2, 3, 8))
    for other in others:
        for name, array in other.items():
            np.testing.assert_array_equal(array, first[name])
