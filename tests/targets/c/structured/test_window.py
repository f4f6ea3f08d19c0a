"""Depthwise convolution and pooling against plain NumPy."""

import copy
import itertools
from typing import Any

import numpy as np
import pytest

from intaglio.targets.c.structured.depthwise import depthwise, depthwise_rows, fits_rows, grouped, pack_depthwise
from intaglio.targets.c.structured.pool import pool

GENERATOR = np.random.default_rng(3)


def axes(names: str, values: Any, fill: int) -> dict[str, int]:
    return dict(zip(names.split(), (fill,) * (3 - len(values)) + tuple(values), strict=True))


class Problem:
    """A random window problem of a rank; `out` may reach behind the padded input, as rounding up allows."""

    def __init__(self, rank: int) -> None:
        while True:

            def draw(low: int, high: int) -> tuple[int, ...]:
                return tuple(int(v) for v in GENERATOR.integers(low, high, rank))

            self.extent, self.kernel, self.stride, self.dilation = (
                draw(1, 25 if rank < 3 else 8),
                draw(1, 5),
                draw(1, 4),
                draw(1, 3),
            )
            self.begin, self.end = (tuple(int(GENERATOR.integers(0, k)) for k in self.kernel) for _ in range(2))
            self.images, self.channels = int(GENERATOR.integers(1, 3)), int(GENERATOR.integers(1, 41))
            self.round_up = bool(GENERATOR.integers(0, 2))
            if min(self.out) > 0:
                return

    @property
    def out(self) -> tuple[int, ...]:
        out: list[int] = []
        for n, k, s, d, b, e in zip(
            self.extent, self.kernel, self.stride, self.dilation, self.begin, self.end, strict=True
        ):
            room = n + b + e - (k - 1) * d - 1
            if room < 0:
                return (0,)
            count = (-(-room // s) if self.round_up else room // s) + 1
            if self.round_up and (count - 1) * s >= n + b:
                count -= 1
            out.append(count)
        return tuple(out)

    def sizes(self) -> dict[str, int]:
        sizes = {"images": self.images, "C": self.channels, "OC": self.channels}
        sizes |= axes("D H W", self.extent, 1) | axes("OD OH OW", self.out, 1) | axes("KD KH KW", self.kernel, 1)
        sizes |= axes("stride_d stride_h stride_w", self.stride, 1) | axes("pad_d pad_h pad_w", self.begin, 0)
        return (
            sizes | axes("dilation_d dilation_h dilation_w", self.dilation, 1) | axes("end_d end_h end_w", self.end, 0)
        )

    def windows(self, x: Any) -> Any:
        """(taps, images, channels, *out) of the NC... input, NaN outside of it, and whether a tap lies in the pads."""
        far = [(b, e + 64) for b, e in zip(self.begin, self.end, strict=True)]
        padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *far], constant_values=np.nan)
        inside = np.pad(np.ones(self.extent), list(zip(self.begin, self.end, strict=True)), constant_values=1)
        inside = np.pad(inside, [(0, 64)] * len(self.extent))
        taps, counted = [], []
        for tap in itertools.product(*map(range, self.kernel)):
            cut = tuple(slice(t * d, t * d + (o - 1) * s + 1, s)
                        for t, d, o, s in zip(tap, self.dilation, self.out, self.stride, strict=True))  # fmt: skip
            taps.append(padded[(slice(None), slice(None), *cut)])
            counted.append(inside[cut])
        return np.stack(taps), np.stack(counted)


def replace_channels(problem: Problem, channels: int) -> Problem:
    """The same problem with another number of channels."""
    changed = copy.copy(problem)
    changed.channels = channels
    return changed


PROBLEMS = [Problem(rank) for rank in (1, 2, 3) for _ in range(14)]


def last(x: Any) -> Any:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def check_depthwise(built: Any, problems: list[Problem]) -> None:
    for problem in problems:
        x = GENERATOR.standard_normal((problem.images, problem.channels, *problem.extent)).astype(np.float32)
        w = GENERATOR.standard_normal((problem.channels, 1, *problem.kernel)).astype(np.float32)
        taps = np.nan_to_num(problem.windows(x)[0])
        wanted = last(np.einsum("tnc...,ct->nc...", taps, w.reshape(len(w), -1).astype(np.float64)))
        out = np.full(wanted.shape, np.nan, np.float32)
        result = built.run([last(x), pack_depthwise(w)], out, problem.sizes(), [len(w)])
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)
        again = built.run([last(x), pack_depthwise(w)], out, problem.sizes(), [len(w)], threads=4, step=1)
        np.testing.assert_array_equal(again, result)


def test_depthwise(target: Any, runner: Any) -> None:
    check_depthwise(runner(depthwise(target), target, "plain"), PROBLEMS)


def along_rows(problem: Problem, taps: int, stride: int) -> Problem:
    """The same problem with other windows along its last axis, which is long enough for several tiles of pixels."""
    changed = copy.copy(problem)
    changed.kernel, changed.stride = (*problem.kernel[:-1], taps), (*problem.stride[:-1], stride)
    changed.dilation, changed.extent = (*problem.dilation[:-1], 1), (*problem.extent[:-1], problem.extent[-1] + taps)
    return changed


@pytest.mark.parametrize(("taps", "stride"), [(3, 1), (3, 2), (7, 2), (11, 1)])
def test_depthwise_along_rows(taps: int, stride: int, target: Any, runner: Any) -> None:
    if not fits_rows(target, taps, stride, dilation=1):
        pytest.skip(f"the registers of {target.name} do not hold {taps} taps")
    built = runner(depthwise_rows(target, taps, stride), target, "plain")
    check_depthwise(built, [along_rows(problem, taps, stride) for problem in PROBLEMS])


@pytest.mark.parametrize("is_whole", [True, False])
def test_kernels_for_a_known_number_of_channels(is_whole: bool, target: Any, runner: Any) -> None:
    """Whole vectors of channels alone, or a part of one."""
    channels = 2 * target.lanes if is_whole else target.lanes - 1
    problems = [replace_channels(problem, channels) for problem in PROBLEMS[::3]]
    check_depthwise(runner(depthwise(target, channels), target, "plain"), problems)
    built = runner(depthwise_rows(target, 3, 1, channels), target, "plain")
    check_depthwise(built, [along_rows(problem, 3, 1) for problem in problems])
    check_pool(runner(pool(target, "max", channels), target, "plain"), "max", problems)


@pytest.mark.parametrize("groups", [2, 3, 9, 16, 17])
def test_grouped(groups: int, target: Any, runner: Any) -> None:
    built = runner(grouped(target), target, "plain")
    for problem in PROBLEMS[::2]:
        inputs, outputs = (int(n) for n in GENERATOR.integers(1, target.lanes + 1, 2))
        problem = replace_channels(problem, groups * inputs)
        x = GENERATOR.standard_normal((problem.images, problem.channels, *problem.extent)).astype(np.float32)
        w = GENERATOR.standard_normal((groups * outputs, inputs, *problem.kernel)).astype(np.float32)
        taps = np.nan_to_num(problem.windows(x)[0])
        taps = taps.reshape(len(taps), problem.images, groups, inputs, *problem.out)
        kernels = w.reshape(groups, outputs, inputs, -1).astype(np.float64)
        sums = np.einsum("tngi...,goit->ngo...", taps, kernels)
        wanted = last(sums.reshape(problem.images, groups * outputs, *problem.out))
        sizes = problem.sizes() | {"OC": len(w), "groups": groups}
        out = np.full(wanted.shape, np.nan, np.float32)
        result = built.run([last(x), pack_depthwise(w)], out, sizes, [len(w)])
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-4)
        again = built.run([last(x), pack_depthwise(w)], out, sizes, [len(w)], threads=4, step=1)
        np.testing.assert_array_equal(again, result)


@pytest.mark.parametrize("kind", ["max", "average", "average_with_pads"])
def test_pool(kind: Any, target: Any, runner: Any) -> None:
    check_pool(runner(pool(target, kind), target, "plain"), kind, PROBLEMS)


def check_pool(built: Any, kind: str, problems: list[Problem]) -> None:
    for problem in problems:
        x = GENERATOR.standard_normal((problem.images, problem.channels, *problem.extent)).astype(np.float32)
        taps, counted = problem.windows(x)
        known = ~np.isnan(taps)
        count = counted.sum(0) if kind == "average_with_pads" else known.sum(0)
        with np.errstate(all="ignore"):
            wanted = np.where(known, taps, -np.inf).max(0) if kind == "max" else np.nansum(taps, 0) / count
        wanted = last(wanted)
        result = built.run([last(x)], np.full(wanted.shape, 9, np.float32), problem.sizes(), [wanted.shape[-1]])
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


def test_maximum_keeps_nan(target: Any, runner: Any) -> None:
    problem = Problem(1)
    problem.extent, problem.kernel, problem.stride, problem.dilation = (6,), (3,), (1,), (1,)
    problem.begin, problem.end, problem.images, problem.channels, problem.round_up = (0,), (0,), 1, 1, False
    x = np.array([1, np.nan, 2, 3, -np.inf, 0], np.float32).reshape(1, 6, 1)
    result = runner(pool(target, "max"), target, "plain").run([x], np.zeros((4,), np.float32), problem.sizes(), [1])
    np.testing.assert_array_equal(result, [np.nan, np.nan, 3, 3])
