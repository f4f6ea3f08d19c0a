"""Matrix products against NumPy in double precision."""

from typing import Any, get_args

import numpy as np
import pytest

from intaglio.targets.c.structured.gemm import Left, Right, gemm
from intaglio.targets.c.structured.pack import Unpacked, pack_b, pack_kernel

GENERATOR = np.random.default_rng(7)
SHAPES = [(0, 3, 2), (3, 0, 2), (3, 2, 0), (1, 1, 1), (1, 70, 33), (2, 31, 5), (3, 32, 64), (5, 33, 7), (6, 16, 300)]
SHAPES += [(int(m), int(n), int(k)) for m, n, k in GENERATOR.integers(1, 71, (12, 3))] + [(45, 40, 1100)]
SHAPES += [(2, 9, 40), (3, 5, 48), (4, 33, 64), (5, 30, 97), (7, 66, 112), (13, 7, 300), (16, 35, 260), (15, 2, 239)]
SHAPES += [(301, 150, 530), (37, 1, 64), (1, 1, 40), (5, 2, 70), (50, 4, 129), (17, 3, 96), (33, 1, 31)]


def operand(shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    return GENERATOR.standard_normal(shape).astype(dtype)


def expected(a: Any, b: Any) -> Any:
    return np.matmul(a.astype(np.float64), b.astype(np.float64))


def sizes_of(a: Any, b: Any, left: Left, right: Right) -> dict[str, int]:
    """The sizes of a single product; `a` and `b` in their mathematical orientation."""
    (m, k), n = a.shape, b.shape[1]
    return {
        "M": m, "N": n, "K": k, "outer": 1, "inner": 1,
        "a_step": k if left == "rows" else m, "b_step": {"rows": n, "columns": k, "packed": 0}[right],
    }  # fmt: skip


def stored(a: Any, b: Any, left: Left, right: Right, target: Any, element: Any = "float32") -> list[Any]:
    """The operands as the kernel wants them in memory."""
    right_operand = {"rows": lambda: b, "columns": lambda: b.T, "packed": lambda: pack_b(b, target, element)}[right]()
    return [np.ascontiguousarray(a if left == "rows" else a.T), np.ascontiguousarray(right_operand)]


@pytest.mark.parametrize("right", get_args(Right))
@pytest.mark.parametrize("left", get_args(Left))
def test_products_of_odd_sizes(left: Left, right: Right, target: Any, runner: Any) -> None:
    built = runner(gemm(target, "float32", left, right), target, "plain")
    for m, n, k in SHAPES:
        a, b = operand((m, k)), operand((k, n))
        sizes = sizes_of(a, b, left, right)
        for threads in (1, 3):
            out = np.full((m, n), np.nan, np.float32)
            result = built.run(stored(a, b, left, right, target), out, sizes, [n], threads=threads)
            np.testing.assert_allclose(result, expected(a, b), rtol=1e-5, atol=2e-5 * max(1, k) ** 0.5)


@pytest.mark.parametrize("element", ["float32", "float64"])
@pytest.mark.parametrize("left", get_args(Left))
def test_narrow_products(left: Left, element: Any, target: Any, runner: Any) -> None:
    built = runner(gemm(target, element, left, narrow=True), target, "plain" if element == "float32" else "plain64")
    for m, n, k in [*SHAPES[:9], (1, 10, 300), (40, 10, 1500), (29, 1, 7), (100, 7, 64)]:
        a, b = operand((m, k), element), operand((k, n), element)
        operands = [np.ascontiguousarray(a if left == "rows" else a.T), pack_b(b, target, element, narrow=True)]
        out, sizes = np.full((m, n), np.nan, element), sizes_of(a, b, left, "packed")
        result = built.run(operands, out, sizes, [n])
        np.testing.assert_allclose(result, expected(a, b), rtol=1e-5, atol=2e-5 * max(1, k) ** 0.5)
        np.testing.assert_array_equal(built.run(operands, out, sizes, [n], threads=3, step=1), result)


@pytest.mark.parametrize("right", get_args(Right))
def test_bits_do_not_depend_on_the_split(right: Right, target: Any, runner: Any) -> None:
    built = runner(gemm(target, "float32", "rows", right), target, "plain")
    for m, n, k in [(1, 70, 300), (4, 70, 300), (14, 33, 230), (37, 70, 700), (60, 33, 41), (60, 2, 90)]:
        a, b = operand((m, k)), operand((k, n))
        operands, sizes = stored(a, b, "rows", right, target), sizes_of(a, b, "rows", right)
        out = np.full((m, n), np.nan, np.float32)
        whole = built.run(operands, out, sizes, [n])
        for threads, step in [(1, 1), (2, 2), (7, 3), (64, None)]:
            np.testing.assert_array_equal(built.run(operands, out, sizes, [n], threads=threads, step=step), whole)
        again = built.run(operands, out, sizes | {"depth_block": 13}, [n])
        np.testing.assert_array_equal(again, whole)


@pytest.mark.parametrize("right", get_args(Right))
def test_code_for_known_sizes_gives_the_same_bits(right: Right, target: Any, runner: Any) -> None:
    whole = runner(gemm(target, "float32", "rows", right), target, "plain")
    seen: dict[str, Any] = {}
    for m, n, k in SHAPES:
        kernel = gemm(target, "float32", "rows", right, extents=(m, n, k))
        built = seen.setdefault(kernel.instance.text, runner(kernel, target, "plain"))
        a, b = operand((m, k)), operand((k, n))
        operands, sizes = stored(a, b, "rows", right, target), sizes_of(a, b, "rows", right)
        found = [each.run(operands, np.full((m, n), np.nan, np.float32), sizes, [n]) for each in (built, whole)]
        np.testing.assert_array_equal(*found)
    assert len(seen) == (4 if right == "columns" else 2)


@pytest.mark.parametrize("right", get_args(Right))
@pytest.mark.parametrize("left", get_args(Left))
def test_double_precision(left: Left, right: Right, target: Any, runner: Any) -> None:
    built = runner(gemm(target, "float64", left, right), target, "plain64")
    for m, n, k in [*SHAPES[:14], (3, 6, 50), (7, 9, 113), (16, 5, 257)]:
        a, b = operand((m, k), np.float64), operand((k, n), np.float64)
        result = built.run(stored(a, b, left, right, target, "float64"), np.full((m, n), np.nan),
                           sizes_of(a, b, left, right), [n])  # fmt: skip
        np.testing.assert_allclose(result, a @ b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("right", get_args(Right))
def test_batches_with_broadcast_operands(right: Right, target: Any, runner: Any) -> None:
    built = runner(gemm(target, "float32", "rows", right), target, "plain")
    for m, n, k in [(1, 7, 5), (9, 35, 20), (30, 3, 64)]:
        a, b = operand((4, m, k)), operand((3, 4, k, n))
        matrices = {"rows": lambda b=b: b, "columns": lambda b=b: np.swapaxes(b, -1, -2),
                    "packed": lambda b=b: pack_b(b, target)}[right]()  # fmt: skip
        matrices = np.ascontiguousarray(matrices)
        step = matrices[0, 0].size
        sizes = {"M": m, "N": n, "K": k, "outer": 3, "inner": 4, "a_step": k, "a_outer": 0, "a_inner": m * k}
        sizes |= {"b_step": n if right == "rows" else k, "b_outer": 4 * step, "b_inner": step}
        for threads in (1, 2):
            result = built.run([a, matrices], np.zeros((3, 4, m, n), np.float32), sizes, [n], threads=threads)
            np.testing.assert_allclose(result, expected(a, b), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize("element", ["float32", "float64"])
def test_packing_kernel_packs_as_numpy_does(layout: Unpacked, element: Any, target: Any, runner: Any) -> None:
    built = runner(pack_kernel(target, element, layout), target, "")
    for n, k in [(1, 1), (32, 16), (33, 40), (70, 0), (65, 31)]:
        b = operand((2, k, n), element)
        memory = np.ascontiguousarray(b if layout == "rows" else np.swapaxes(b, 1, 2))
        wanted = pack_b(b, target, element)
        sizes = {"N": n, "K": k, "batch": 2, "b_step": n if layout == "rows" else k, "b_batch": n * k}
        np.testing.assert_array_equal(built.run([memory], np.full_like(wanted, np.nan), sizes), wanted)
