"""Integer products over guarded memory: nothing is read or written past the operands, and tasks may be split anyhow."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.present import compiler

from intaglio.targets.c.kernel_file import instance
from intaglio.targets.c.structured.igemm import integer_gemm, integer_pack_kernel
from intaglio.targets.c.structured.integer_tile import integer_tile, pack_integer
from intaglio.targets.c.structured.source import StructuredKernel, plain_epilogue
from intaglio.targets.c.target import Target, host_target

from .conftest import Runner

GENERATOR = np.random.default_rng(3)
SHAPES = [(1, 1, 1), (1, 40, 67), (3, 33, 5), (16, 32, 64), (17, 31, 130), (33, 70, 127), (70, 100, 200)]


@pytest.fixture(params=["whole", "no matrices", "no quads"])
def variant(request: pytest.FixtureRequest, target: Target) -> Target:
    """A target without the extensions that an integer kernel prefers, one after the other."""
    lost = {"whole": (), "no matrices": ("amx_int8",), "no quads": ("amx_int8", "avx512_vnni", "avx_vnni")}[
        request.param
    ]
    if request.param != "whole" and not target.features & set(lost):
        pytest.skip("this target has no such extension")
    return replace(target, features=target.features - set(lost))


def build(kernel: StructuredKernel, target: Target, folder: Path, epilogue: str) -> Runner:
    """A kernel compiled with the vectors and loops that generated kernels see."""
    path = folder / f"{kernel.hint}.so"
    source = '#include "ig.h"\n#include "ig_math.h"\n#include "ig_loop.h"\n#pragma GCC visibility push(default)\n'
    compiler().compile_unit(source + kernel.named("kernel", epilogue), path, target)
    return Runner(kernel, ctypes.CDLL(str(path)))


def bytes_of(shape: tuple[int, ...], dtype: Any) -> Any:
    limits = np.iinfo(dtype)
    return GENERATOR.integers(limits.min, limits.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("right", ["uint8", "int8"])
@pytest.mark.parametrize("left", ["uint8", "int8"])
def test_products(left: Any, right: Any, variant: Target, tmp_path: Path) -> None:
    kernel = integer_gemm(variant, left, has_zero=True)
    epilogue = instance(plain_epilogue("int32", len(kernel.buffers), len(kernel.sizes))).text
    built, tile = build(kernel, variant, tmp_path, epilogue), integer_tile(variant, left)
    for m, n, k in SHAPES:
        a, b, u, v = bytes_of((m, k), left), bytes_of((k, n), right), bytes_of((1,), left), bytes_of((n,), right)
        sizes = {"M": m, "N": n, "K": k, "outer": 1, "inner": 1, "a_step": k}
        expected = (a.astype(np.int64) - u.astype(np.int64)) @ (b.astype(np.int64) - v.astype(np.int64))
        for threads, step in [(1, None), (3, 1)]:
            out = np.full((m, n), -1, np.int32)
            result = built.run([a, pack_integer(b, v, tile), u], out, sizes, [n], threads=threads, step=step)
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("right", ["uint8", "int8"])
@pytest.mark.parametrize("left", ["uint8", "int8"])
def test_packing_at_run_time(left: Any, right: Any, variant: Target, tmp_path: Path) -> None:
    kernel = integer_pack_kernel(variant, left, right)
    built, tile = build(kernel, variant, tmp_path, ""), integer_tile(variant, left)
    for _, n, k in SHAPES:
        b, v = bytes_of((k, n), right), bytes_of((n,), right)
        expected = pack_integer(b, v, tile)
        for operand, k_step, n_step in ((b, n, 1), (np.ascontiguousarray(b.T), 1, k)):
            sizes = {"N": n, "K": k, "outer": 1, "inner": 1, "k_step": k_step, "n_step": n_step, "zero_step": 1}
            result = built.run([operand, v], np.zeros_like(expected), sizes)
            np.testing.assert_array_equal(result, expected)


def test_the_host_uses_what_it_has() -> None:
    tile = integer_tile(host_target())
    assert tile.quads == bool(host_target().features & {"avx512_vnni", "avx_vnni"})
