"""Scans: kernels with running sums and products, printed over vectors or element by element, give what NumPy gives."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.present import compiler

from intaglio.ir.substitution import evaluate
from intaglio.kernels.language_check import check_kernel
from intaglio.kernels.language_text import parse_kernel
from intaglio.kernels.schedule import schedule
from intaglio.targets.c.kernel_source import kernel_source
from intaglio.targets.c.printing.loops import FACTS
from intaglio.targets.c.printing.scans import Scans
from intaglio.targets.c.target import TARGETS

COLUMNS = """\
kernel columns
about a walk over vectors
loops n0, n1, n2
in x0: float32[n0: x0.n0, n1: x0.n1, n2: 1]
in x1: float32[n0: 0, n1: 1, n2: 0]
out x2: float32[n0: x0.n0, n1: x0.n1, n2: 1]
out x3: float32[n0: 1, n1: x3.n1, n2: x3.n2]
  v0: f32 = load x0
  v1: f32 = load x1
  v2: f32 = scan sum mul(v0, v1) along n1 {first}
  v3: f32 = scan product add(v0, 0.5:f32) along n1 {second}
  store x2, neg(v2)
  store x3, v3
"""

ROWS = """\
kernel rows
about a walk element by element
loops n0, n1
in x0: {dtype}[n0: x0.n0, n1: 1]
out x1: {dtype}[n0: x1.n0, n1: 1]
  v0: {type} = load x0
  v1: {type} = scan product add(v0, 1:{type}) along n1 {first}
  store x1, neg(v1)
"""


def run(text: str, sizes: dict[str, int], arrays: list[Any], folder: Path) -> None:
    """Print a kernel, compile it and run all of its tasks."""
    kernel = parse_kernel(text)
    check_kernel(kernel)
    call = Scans(kernel, sizes, schedule(kernel, FACTS)).call()
    library = folder / "kernel.so"
    source = '#include "ig.h"\n#include "ig_math.h"\n#include "ig_loop.h"\n'
    body = kernel_source(call.kernel).replace("IG_FUNCTION", "kernel_of_scans")
    source += f"#pragma GCC visibility push(default)\n{body}\n#pragma GCC visibility pop\n"
    compiler().compile_unit(source, library, TARGETS["c"])
    function = ctypes.CDLL(str(library)).kernel_of_scans
    pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    numbers = [evaluate(size, {}) for _, size in call.sizes]
    tasks = evaluate(call.tasks, {})
    function(pointers, (ctypes.c_int64 * len(numbers))(*numbers), ctypes.c_int64(0), ctypes.c_int64(tasks), None)


def scanned(function: Any, values: Any, axis: int, how: str, identity: int) -> Any:
    """What NumPy says of a scan."""
    values = np.flip(values, axis) if "reversed" in how else values
    result = function(values, axis=axis, dtype=values.dtype)
    if "exclusive" in how:
        first = np.full_like(np.take(values, [0], axis), identity)
        result = np.concatenate([first, np.delete(result, -1, axis)], axis)
    return np.flip(result, axis) if "reversed" in how else result


@pytest.mark.parametrize("way", ["", "reversed"])
@pytest.mark.parametrize("columns", [1, 7, 64, 130])
def test_vectors_walk_along_the_scanned_loop(tmp_path: Path, columns: int, way: str) -> None:
    rng = np.random.default_rng(columns)
    outer, steps = 3, 5
    x = rng.normal(size=(outer, steps, columns)).astype(np.float32)
    factor = rng.normal(size=steps).astype(np.float32)
    y, z = np.zeros_like(x), np.zeros((steps, columns, outer), np.float32)
    sizes = {"n0": outer, "n1": steps, "n2": columns, "x0.n0": steps * columns, "x0.n1": columns}
    sizes |= {"x3.n1": columns * outer, "x3.n2": outer}
    first, second = f"exclusive {way}".strip(), way
    run(COLUMNS.format(first=first, second=second).replace("n1 \n", "n1\n"), sizes, [x, factor, y, z], tmp_path)
    sums = scanned(np.cumsum, x * factor[:, None], 1, first, 0)
    np.testing.assert_allclose(y, -sums, rtol=1e-5, atol=1e-6)
    products = scanned(np.cumprod, x + np.float32(0.5), 1, second, 1)
    np.testing.assert_allclose(z, products.transpose(1, 2, 0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", ["", "exclusive", "reversed", "exclusive reversed"])
@pytest.mark.parametrize(("dtype", "type"), [("int64", "i64"), ("int8", "i8"), ("uint32", "u32")])
def test_a_walk_element_by_element_wraps_around(tmp_path: Path, dtype: str, type: str, way: str) -> None:
    x = np.random.default_rng(1).integers(0, 100, (4, 33)).astype(dtype)
    y = np.zeros((4, 40), dtype)
    sizes = {"n0": 4, "n1": 33, "x0.n0": 33, "x1.n0": 40}
    run(ROWS.format(dtype=dtype, type=type, first=way).replace("n1 \n", "n1\n"), sizes, [x, y], tmp_path)
    with np.errstate(over="ignore"):
        expected = (0 - scanned(np.cumprod, x + np.ones(1, dtype), 1, way, 1)).astype(dtype)
    np.testing.assert_array_equal(y[:, :33], expected)
    assert not y[:, 33:].any()
