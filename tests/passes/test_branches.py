"""Convolutions of one value that are added up: sampled windows, run before and after."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import DTYPES
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType
from intaglio.ir.verify import verify
from intaglio.ops.evaluate import evaluate
from intaglio.passes import PIPELINE, simplify

MERGE = [each for each in PIPELINE if each.name in ("fuse-batchnorm", "merge-branches")]


class Sampled:
    """A graph of branches over one input, of sampled structure."""

    def __init__(self, seed: int, dtype: str = "float32") -> None:
        self.random = np.random.default_rng(seed)
        self.axes, self.channels = self.pick(1, 2), 4
        self.group, self.stride = self.pick(1, 2, 4), self.pick(1, 1, 2)
        self.graph, self.dtype = Graph("branches"), DTYPES[dtype]
        sizes = [symbol(name) for name in "HW"[: self.axes]]
        self.x = self.graph.add_input("x", TensorType(self.dtype, (2, self.channels, *sizes)))
        self.b = Builder(self.graph)

    def pick(self, *choices: int) -> int:
        return choices[self.random.integers(len(choices))]

    def array(self, *shape: int) -> Any:
        return self.random.standard_normal(shape).astype(self.dtype.numpy)

    def convolution(self, kernel: int, dilation: int = 1, shift: int = 0) -> Value:
        """Windows around each place, `shift` to the left of it."""
        reach = (kernel - 1) * dilation
        begin, end = [reach // 2 + shift] * self.axes, [reach - reach // 2 - shift] * self.axes
        weights = [self.array(self.channels, self.channels // self.group, *[kernel] * self.axes)]
        if self.pick(0, 1):
            weights.append(self.array(self.channels))
        return self.b.Conv(
            self.x, *map(self.b.constant, weights), pads=(*begin, *end), group=self.group,
            strides=(self.stride,) * self.axes, dilations=(dilation,) * self.axes,
        )  # fmt: skip

    def normalization(self) -> Value:
        parameters = [self.array(self.channels) for _ in range(3)] + [np.abs(self.array(self.channels))]
        return self.b.BatchNormalization(self.x, *map(self.b.constant, parameters))

    def check(self, total: Value, operators: int, rtol: float = 1e-4) -> None:
        """So many nodes remain, and the results are the same at several sizes."""
        self.graph.set_outputs([total])
        inputs = [self.array(2, self.channels, *sizes[: self.axes]) for sizes in ((9, 12), (8, 7), (5, 6))]
        before = [evaluate(self.graph, [each])[0] for each in inputs]
        simplify(self.graph, pipeline=MERGE)
        verify(self.graph)
        assert len(list(self.graph.nodes)) == operators, str(self.graph)
        for each, old in zip(inputs, before, strict=True):
            np.testing.assert_allclose(evaluate(self.graph, [each])[0], old, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("seed", range(30))
def test_branches_of_one_value_become_one_convolution(seed: int) -> None:
    sampled = Sampled(seed, ("float32", "float64")[seed % 2])
    total = sampled.convolution(sampled.pick(1, 3, 5))
    branches = [sampled.convolution(kernel) for kernel in (1, 5, 3)[: sampled.pick(1, 2, 3)]]
    if sampled.stride == 1 and sampled.pick(0, 1):
        branches.append(sampled.normalization())
    if sampled.stride == 1 and sampled.group == sampled.channels:
        branches.append(sampled.x)
    for place in sampled.random.permutation(len(branches)):
        operands = (total, branches[place]) if sampled.pick(0, 1) else (branches[place], total)
        total = sampled.b.Add(*operands) if sampled.pick(0, 1) else sampled.b.Sub(*operands)
    sampled.check(total, operators=1)


def test_the_middle_tap_of_a_dilated_window_is_found() -> None:
    sampled = Sampled(1)
    sampled.stride = 1
    sampled.check(sampled.b.Add(sampled.convolution(3, dilation=2), sampled.convolution(1)), operators=1)


@pytest.mark.parametrize("reason", ["dilation", "group", "weights", "input", "reader", "window"])
def test_branches_that_differ_stay(reason: str) -> None:
    sampled = Sampled(3)
    sampled.stride = sampled.group = 1
    left, weights = sampled.convolution(3), sampled.array(4, 4, *[1] * sampled.axes)
    if reason == "group":
        sampled.group = 2
    right = sampled.convolution(3, dilation=2 if reason == "dilation" else 1)
    if reason == "input":
        right = sampled.b.Conv(sampled.b.Neg(sampled.x), sampled.b.constant(weights))
    if reason == "weights":
        right = sampled.b.Conv(sampled.x, sampled.graph.add_input("w", TensorType(sampled.dtype, weights.shape)))
    if reason == "window":
        pads = [0] * (sampled.axes - 1) + [2]
        wide = sampled.array(4, 4, *[1] * (sampled.axes - 1), 5)
        right = sampled.b.Conv(sampled.x, sampled.b.constant(wide), pads=(*pads, *pads))
        if sampled.axes == 1:
            left = sampled.convolution(3, shift=2)
    total = sampled.b.Add(left, right)
    sampled.graph.set_outputs([total, left] if reason == "reader" else [total])
    simplify(sampled.graph, pipeline=MERGE)
    assert len([node for node in sampled.graph.nodes if node.op.name == "Conv"]) == 2, str(sampled.graph)


def test_weights_whose_sum_overflows_stay() -> None:
    sampled = Sampled(4, "float16")
    large = sampled.b.constant(np.full((4, 4, *[1] * sampled.axes), 60000, np.float16))
    sampled.graph.set_outputs([sampled.b.Add(*(sampled.b.Conv(sampled.x, large) for _ in range(2)))])
    simplify(sampled.graph, pipeline=MERGE)
    assert len(list(sampled.graph.nodes)) == 3


def test_exact_models_keep_their_branches() -> None:
    sampled = Sampled(5)
    sampled.graph.set_outputs([sampled.b.Add(sampled.convolution(3), sampled.convolution(1))])
    simplify(sampled.graph, exact=True)
    assert len([node for node in sampled.graph.nodes if node.op.name == "Conv"]) == 2
