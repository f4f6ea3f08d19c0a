"""Convolutions against a plain NumPy reference in double precision."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from intaglio.targets.c.structured.conv import conv, conv_by_taps, conv_transpose, pack_conv, pack_conv_transpose
from intaglio.targets.c.structured.winograd import pack_winograd, winograd

GENERATOR = np.random.default_rng(11)


@dataclass(frozen=True)
class Problem:
    """A convolution in the terms of the operator; tuples have one entry for each spatial axis."""

    images: int
    channels: int
    outputs: int
    extent: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]
    groups: int = 1

    @property
    def out(self) -> tuple[int, ...]:
        axes = zip(self.extent, self.kernel, self.stride, self.dilation, self.begin, self.end, strict=True)
        return tuple((n + b + e - (k - 1) * d - 1) // s + 1 for n, k, s, d, b, e in axes)

    @property
    def transposed_out(self) -> tuple[int, ...]:
        axes = zip(self.extent, self.kernel, self.stride, self.dilation, self.begin, self.end, strict=True)
        return tuple((n - 1) * s + (k - 1) * d + 1 - b - e for n, k, s, d, b, e in axes)

    def sizes(self, out: tuple[int, ...]) -> dict[str, int]:
        def axes(names: str, values: tuple[int, ...], fill: int) -> dict[str, int]:
            return dict(zip(names.split(), (fill,) * (3 - len(values)) + values, strict=True))

        sizes = {"images": self.images, "C": self.channels, "OC": self.outputs, "groups": self.groups}
        sizes |= axes("D H W", self.extent, 1) | axes("OD OH OW", out, 1) | axes("KD KH KW", self.kernel, 1)
        sizes |= axes("stride_d stride_h stride_w", self.stride, 1) | axes("pad_d pad_h pad_w", self.begin, 0)
        return sizes | axes("dilation_d dilation_h dilation_w", self.dilation, 1)


def random_problem(rank: int, groups: int = 1) -> Problem:
    draw = GENERATOR.integers
    while True:
        axes = [tuple(int(v) for v in draw(low, high, rank)) for low, high in
                ((1, 20 if rank < 3 else 7), (1, 5), (1, 4), (1, 4), (0, 4), (0, 4))]  # fmt: skip
        channels, outputs = (int(draw(1, 41 if groups == 1 else 8)) * groups for _ in range(2))
        problem = Problem(int(draw(1, 3)), channels, outputs, *axes, groups=groups)
        if min(problem.out) > 0 and min(problem.transposed_out) > 0:
            return problem


def reference(x: Any, w: Any, problem: Problem) -> Any:
    """Channels last; x is NC..., w is OI...."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    padded = np.pad(x, [(0, 0), (0, 0), *zip(problem.begin, problem.end, strict=True)])
    out = np.zeros((problem.images, *problem.out, problem.outputs))
    grouped = w.reshape(problem.groups, -1, *w.shape[1:])
    for tap in itertools.product(*map(range, problem.kernel)):
        window = tuple(
            slice(t * d, t * d + (o - 1) * s + 1, s)
            for t, d, o, s in zip(tap, problem.dilation, problem.out, problem.stride, strict=True)
        )
        values = padded[(slice(None), slice(None), *window)]
        values = values.reshape(problem.images, problem.groups, -1, *problem.out)
        product = np.einsum("ngc...,goc->n...go", values, grouped[(..., *tap)])
        out += product.reshape(out.shape)
    return out


def transposed_reference(x: Any, w: Any, problem: Problem) -> Any:
    """Channels last; x is NC..., w is IO...."""
    full = tuple(o + b + e for o, b, e in zip(problem.transposed_out, problem.begin, problem.end, strict=True))
    out = np.zeros((problem.images, *full, problem.outputs))
    values = x.astype(np.float64).reshape(problem.images, problem.groups, -1, *problem.extent)
    grouped = w.astype(np.float64).reshape(problem.groups, -1, *w.shape[1:])
    for tap in itertools.product(*map(range, problem.kernel)):
        window = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, problem.dilation, problem.extent, problem.stride, strict=True)
        )
        product = np.einsum("ngc...,gco->n...go", values, grouped[(..., *tap)])
        out[(slice(None), *window)] += product.reshape(*product.shape[:-2], problem.outputs)
    inner = tuple(slice(b, b + o) for b, o in zip(problem.begin, problem.transposed_out, strict=True))
    return out[(slice(None), *inner)]


def operand(*shape: int) -> Any:
    return GENERATOR.standard_normal(shape).astype(np.float32)


PROBLEMS = [random_problem(rank, groups) for rank in (1, 2, 3) for groups in (1, 1, 1, 2, 5) for _ in range(3)]
PROBLEMS += [
    Problem(1, 3, 64, (30, 230), (7, 7), (2, 2), (1, 1), (3, 3), (3, 3)),
    Problem(2, 64, 40, (14, 15), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
    Problem(1, 140, 33, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)),
    Problem(1, 8, 8, (2, 2), (3, 3), (1, 1), (4, 4), (9, 9), (9, 9)),
]


def check(result: Any, wanted: Any, depth: int) -> None:
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=2e-5 * max(1, depth) ** 0.5)


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_convolution(layout: Any, target: Any, runner: Any) -> None:
    built = runner(conv(target, layout), target, "plain")
    for problem in PROBLEMS:
        x = operand(problem.images, problem.channels, *problem.extent)
        w = operand(problem.outputs, problem.channels // problem.groups, *problem.kernel)
        stored = np.ascontiguousarray(np.moveaxis(x, 1, -1) if layout == "nhwc" else x)
        out = np.full((problem.images, *problem.out, problem.outputs), np.nan, np.float32)
        arguments = [stored, pack_conv(w, problem.groups, target, layout)], out, problem.sizes(problem.out)
        result = built.run(*arguments, [problem.outputs])
        check(result, reference(x, w, problem), w[0].size)
        for threads, step in [(3, 1), (8, 3)]:
            np.testing.assert_array_equal(built.run(*arguments, [problem.outputs], threads=threads, step=step), result)


def test_convolution_by_taps(target: Any, runner: Any) -> None:
    built = runner(conv_by_taps(target), target, "plain")
    for problem in PROBLEMS:
        x = operand(problem.images, problem.channels, *problem.extent)
        w = operand(problem.outputs, problem.channels // problem.groups, *problem.kernel)
        stored = np.ascontiguousarray(np.moveaxis(x, 1, -1))
        out = np.full((problem.images, *problem.out, problem.outputs), np.nan, np.float32)
        arguments = [stored, pack_conv(w, problem.groups, target)], out, problem.sizes(problem.out)
        result = built.run(*arguments, [problem.outputs])
        check(result, reference(x, w, problem), w[0].size)
        np.testing.assert_array_equal(built.run(*arguments, [problem.outputs], threads=5, step=1), result)


@pytest.mark.parametrize("by_taps", [False, True])
def test_convolution_to_few_channels(by_taps: bool, target: Any, runner: Any) -> None:
    kernel = conv_by_taps(target, narrow=True) if by_taps else conv(target, narrow=True)
    built = runner(kernel, target, "plain")
    for problem in PROBLEMS:
        x = operand(problem.images, problem.channels, *problem.extent)
        w = operand(problem.outputs, problem.channels // problem.groups, *problem.kernel)
        stored = np.ascontiguousarray(np.moveaxis(x, 1, -1))
        out = np.full((problem.images, *problem.out, problem.outputs), np.nan, np.float32)
        arguments = [stored, pack_conv(w, problem.groups, target, narrow=True)], out, problem.sizes(problem.out)
        result = built.run(*arguments, [problem.outputs])
        check(result, reference(x, w, problem), w[0].size)
        np.testing.assert_array_equal(built.run(*arguments, [problem.outputs], threads=5, step=1), result)


def test_transposed_convolution(target: Any, runner: Any) -> None:
    built = runner(conv_transpose(target), target, "plain")
    for problem in PROBLEMS:
        if min(problem.transposed_out) < 1:
            continue
        x = operand(problem.images, problem.channels, *problem.extent)
        w = operand(problem.channels, problem.outputs // problem.groups, *problem.kernel)
        stored = np.ascontiguousarray(np.moveaxis(x, 1, -1))
        out = np.full((problem.images, *problem.transposed_out, problem.outputs), np.nan, np.float32)
        operands, sizes = [stored, pack_conv_transpose(w, problem.groups, target)], problem.sizes(out.shape[1:-1])
        result = built.run(operands, out, sizes, [problem.outputs])
        check(result, transposed_reference(x, w, problem), w[:, 0].size)
        np.testing.assert_array_equal(built.run(operands, out, sizes, [problem.outputs], threads=5, step=1), result)


@pytest.mark.parametrize("output", [2, 4])
def test_winograd(output: Any, target: Any, runner: Any) -> None:
    built = runner(winograd(target, output), target, "plain")
    ones = (1, 1)
    for images, channels, outputs, extent, begin, end in [
        (1, 1, 1, (3, 3), (0, 0), (0, 0)), (2, 5, 33, (7, 9), (1, 1), (1, 1)), (1, 64, 40, (14, 14), (1, 1), (1, 1)),
        (3, 17, 70, (1, 2), (2, 2), (1, 3)), (1, 40, 16, (30, 11), (0, 2), (2, 0)),
    ]:  # fmt: skip
        problem = Problem(images, channels, outputs, extent, (3, 3), ones, ones, begin, end)
        x, w = operand(images, channels, *extent), operand(outputs, channels, 3, 3)
        operands = [np.ascontiguousarray(np.moveaxis(x, 1, -1)), pack_winograd(w, target, output)]
        out = np.full((images, *problem.out, outputs), np.nan, np.float32)
        result = built.run(operands, out, problem.sizes(problem.out), [outputs])
        wanted = reference(x, w, problem)
        np.testing.assert_allclose(result, wanted, rtol=0, atol=(2e-5 if output == 4 else 4e-6) * np.abs(wanted).max())
        again = built.run(operands, out, problem.sizes(problem.out), [outputs], threads=5, step=1)
        np.testing.assert_array_equal(again, result)


SPECIAL = [np.inf, -np.inf, np.nan, 2e37, -2e37, 1e30, -1e9, 2.0**20]


@pytest.mark.parametrize("output", [2, 4])
def test_winograd_of_special_values(output: Any, target: Any, runner: Any) -> None:
    """What is not finite, or large, shows in the windows that hold it and nowhere else, as in a direct convolution."""
    built, random = runner(winograd(target, output), target, "plain"), np.random.default_rng(7)
    for _ in range(24):
        images, channels, outputs = (int(random.choice(sizes)) for sizes in ((1, 2), (1, 7, 16, 33), (3, 16, 40)))
        extent = tuple(int(size) for size in random.integers(3, 15, 2))
        begin, end = ((int(a), int(b)) for a, b in random.integers(0, 3, (2, 2)))
        problem = Problem(images, channels, outputs, extent, (3, 3), (1, 1), (1, 1), begin, end)
        x, w = operand(images, channels, *extent), operand(outputs, channels, 3, 3)
        w[random.random(w.shape) < random.choice([0, 0.2])] = 0
        for place in random.integers(0, x.size, int(random.integers(1, 4))):
            x.flat[place] = random.choice(SPECIAL)
        operands = [np.ascontiguousarray(np.moveaxis(x, 1, -1)), pack_winograd(w, target, output)]
        out = np.zeros((images, *problem.out, outputs), np.float32)
        result = built.run(operands, out, problem.sizes(problem.out), [outputs])
        with np.errstate(invalid="ignore"):
            wanted = reference(x, w, problem)
            largest = np.broadcast_to(np.abs(w).max((2, 3), keepdims=True), w.shape)
            rounding = 2e-6 * reference(np.abs(x), largest, problem)
        ordinary = np.where(np.abs(x) < 100, x, 0)
        rounding = np.nan_to_num(rounding, posinf=0) + 2e-5 * np.abs(reference(ordinary, w, problem)).max()
        finite = np.isfinite(wanted)
        np.testing.assert_array_equal(result[~finite], wanted[~finite])
        assert (np.abs(result[finite] - wanted[finite]) <= rounding[finite]).all()
        again = built.run(operands, out, problem.sizes(problem.out), [outputs], threads=3, step=1)
        np.testing.assert_array_equal(again, result)
