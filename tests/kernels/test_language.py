"""The kernel language: text in, text out; what is broken is told; and every kernel of sampled graphs is whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from intaglio.errors import GraphError
from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import BOOL, DTYPES, FLOAT16, FLOAT32, INT64
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.kernels.elements import SCALARS, is_computable, scalar_type
from intaglio.kernels.language import FUNCTIONS, LoopKernel, Name, Number
from intaglio.kernels.language_check import check_kernel
from intaglio.kernels.language_text import format_expression, format_kernel, parse_expression, parse_kernel
from intaglio.kernels.lower import lower
from intaglio.targets.c.target import TARGETS
from intaglio.targets.c.target_rules import CRules

SOFTMAX = """\
kernel reducemax_sub_exp_reducesum_and_1_more
about ReduceMax, Sub, Exp, ReduceSum, Div
loops n0, m0 reduced
in x0: float32[n0: x0.n0, m0: 1]
out x1: float32[n0: x1.n0, m0: 1]
  v0: f32 = load x0
  v1: f32 = reduce max v0
  v2: f32 = sub(v0, v1)
  v3: f32 = exp(v2)
  v4: f32 = reduce sum v3
  v5: f32 = div(v3, v4)
  store x1, v5
"""


def kernels_of(graph: Graph) -> list[LoopKernel]:
    found = [kernel.loops for kernel in lower(graph, CRules(TARGETS["avx2"])).kernels]
    return [code for code in found if code is not None]


def graph_of(build: Any, *types: TensorType) -> Graph:
    graph = Graph("g")
    inputs = [graph.add_input(f"x{i}", type) for i, type in enumerate(types)]
    builder = Builder(graph)
    with builder.active():
        result = build(builder, *inputs)
    graph.set_outputs(list(result) if isinstance(result, tuple) else [result])
    return graph


def test_softmax_is_this_kernel() -> None:
    (kernel,) = kernels_of(
        graph_of(lambda b, x: b.Softmax(x, axis=-1), TensorType(FLOAT32, (symbol("n"), symbol("m"))))
    )
    assert format_kernel(kernel) == SOFTMAX


def test_text_is_read_as_it_was_written() -> None:
    kernel = parse_kernel(SOFTMAX)
    check_kernel(kernel)
    assert format_kernel(kernel) == SOFTMAX
    assert kernel.sizes == ("n0", "m0", "x0.n0", "x1.n0")
    assert [loop.name for loop in kernel.kept] == ["n0"]


CUMSUM = """\
kernel cumsum
about CumSum
loops n0, n1, n2
in x0: float32[n0: x0.n0, n1: x0.n1, n2: 1]
out x1: float32[n0: x1.n0, n1: x1.n1, n2: 1]
  v0: f32 = load x0
  v1: f32 = scan sum v0 along n1 exclusive reversed
  store x1, v1
"""


def test_a_running_sum_is_this_kernel() -> None:
    type = TensorType(FLOAT32, (symbol("n"), symbol("m"), 4, 7))
    graph = graph_of(lambda b, x: b.CumSum(x, b.constant(1, INT64), exclusive=1, reverse=1), type)
    (kernel,) = kernels_of(graph)
    assert format_kernel(kernel) == CUMSUM
    assert parse_kernel(CUMSUM) == kernel
    check_kernel(kernel)


BROKEN_SCANS = {
    "middle is no scan": ("scan sum", "scan middle"),
    "n3 is no loop to scan along": ("along n1", "along n3"),
    "n1 is no loop to scan along": ("n0, n1, n2", "n0, n1 reduced, n2 reduced"),
    "v1 is a scan of f32 giving i64": ("v1: f32 = scan", "v1: i64 = scan"),
    "its scans go along several loops": ("store x1, v1", "v2: f32 = scan sum v1 along n2\n  store x1, v2"),
    "it has scans and reductions": ("store x1, v1", "v2: f32 = reduce sum v1\n  store x1, v2"),
}


@pytest.mark.parametrize("problem", BROKEN_SCANS)
def test_what_is_broken_of_a_scan_is_told(problem: str) -> None:
    with pytest.raises(GraphError, match=problem):
        check_kernel(parse_kernel(CUMSUM.replace(*BROKEN_SCANS[problem])))


def test_halves_are_rounded_where_an_operator_ends() -> None:
    def build(b: Any, x: Any, y: Any) -> Any:
        return b.Mul(b.Add(x, y), b.constant(2.0, FLOAT16))

    half = TensorType(FLOAT16, (symbol("n"),))
    (kernel,) = kernels_of(graph_of(build, half, half))
    assert "round[f16](add(v0, v1))" in format_kernel(kernel)
    assert "v3: f32 = mul(v2, 2.0:f32)\n  store x2, v3" in format_kernel(kernel)  # a store rounds by itself


def test_a_copy_of_halves_moves_bits() -> None:
    half = TensorType(FLOAT16, (symbol("n"), 3))
    (kernel,) = kernels_of(graph_of(lambda b, x: b.Slice(x, [0], [3], [1], [2]), half))
    assert "v0: u16 = load x0" in format_kernel(kernel)


CASES = [
    lambda b, x, y, c, i: b.Where(c, b.Exp(x), b.LeakyRelu(y, alpha=0.1)),
    lambda b, x, y, c, i: b.Cast(b.Clip(x, b.constant(-1.5, FLOAT32), b.constant(7.0, FLOAT32)), to=1),
    lambda b, x, y, c, i: b.And(c, b.Not(b.IsInf(x))),
    lambda b, x, y, c, i: b.Pow(i, b.constant(-3, INT64)),
    lambda b, x, y, c, i: b.ReduceMean(i, b.constant([1], INT64), keepdims=1),
    lambda b, x, y, c, i: b.Cast(x, to=17),
    lambda b, x, y, c, i: b.Cast(b.Cast(i, to=22), to=1),
    lambda b, x, y, c, i: b.LayerNormalization(b.Add(x, y), b.constant(np.ones(7), FLOAT32), axis=-1),
    lambda b, x, y, c, i: b.ReduceMax(c, b.constant([0], INT64)),
    lambda b, x, y, c, i: (b.Sum(x, y, x), b.Mod(i, b.constant(3, INT64)), b.Sigmoid(b.Mul(x, y))),
]


@pytest.mark.parametrize("build", CASES)
def test_kernels_are_whole_and_their_text_reads_back(build: Any) -> None:
    shape = (symbol("n"), 7)
    types = [TensorType(dtype, shape) for dtype in (FLOAT32, FLOAT32, BOOL, INT64)]
    kernels = kernels_of(graph_of(build, *types))
    assert kernels
    for kernel in kernels:
        check_kernel(kernel)
        assert parse_kernel(format_kernel(kernel)) == kernel


BROKEN = {
    "v2 is read before it is defined": ("v2: f32 = sub(v0, v1)\n  ", ""),
    "x1 is no buffer to read": ("load x0", "load x1"),
    "v0 is defined twice": ("v5: f32 = div(v3, v4)\n  store x1, v5", "v0: f32 = div(v3, v4)\n  store x1, v0"),
    "x1 holds f32 and is given bool": ("store x1, v5", "store x1, lt(v5, v5)"),
    "middle is no reduction": ("reduce max", "reduce middle"),
    "x0 has 1 steps for 2 loops": ("x0: float32[n0: x0.n0, m0: 1]", "x0: float32[n0: x0.n0]"),
    "a kept loop stands inside": ("n0, m0 reduced", "n0 reduced, m0"),
}


@pytest.mark.parametrize("problem", BROKEN)
def test_what_is_broken_is_told(problem: str) -> None:
    text = SOFTMAX.replace(*BROKEN[problem])
    if problem.startswith("v2"):
        text = SOFTMAX
        kernel = parse_kernel(text)
        kernel = replace(kernel, body=tuple(s for s in kernel.body if getattr(s, "name", "") != "v2"))
    else:
        kernel = parse_kernel(text)
    with pytest.raises(GraphError, match=problem):
        check_kernel(kernel)


@pytest.mark.parametrize("text", ["v9: f32 = exp(v0", "v9: f32 = unheard(v0)", "v9 = 3", "v9: f32 = exp(nothing)"])
def test_lines_that_are_none(text: str) -> None:
    with pytest.raises(GraphError, match="no line of a kernel"):
        parse_kernel(SOFTMAX + f"  {text}\n")


def sampled_numbers() -> Iterator[Number]:
    generator = np.random.default_rng(5)
    for type, numpy in (("f32", np.float32), ("f64", np.float64)):
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, np.finfo(numpy).tiny, np.finfo(numpy).max, 2.0**27, 1]
        drawn = np.frombuffer(generator.bytes(500 * np.dtype(numpy).itemsize), numpy)
        denormal = np.finfo(numpy).smallest_subnormal * np.arange(1, 50, dtype=numpy)
        yield from (Number(float(number), type) for number in (*special, *drawn, *denormal, *-denormal))
    for name in SCALARS:
        if name not in ("f32", "f64", "bool"):
            bits = int(name[1:])
            low = 0 if name[0] == "u" else -(2 ** (bits - 1))
            yield from (Number(number, name) for number in (low, low + (1 << bits) - 1, 0, 1, 1.0))
    yield from (Number(True, "bool"), Number(False, "bool"))


def test_numbers_keep_every_bit() -> None:
    for value in sampled_numbers():
        text = format_expression(value)
        again = parse_expression(text, {})
        assert again == value
        assert repr(again) == repr(value)
        assert format_expression(again) == text


def test_numbers_are_equal_where_their_bits_are() -> None:
    assert parse_expression("-5:i8", {}) == Number(-5, "i8")
    assert Number(1, "f32") == Number(1.0, "f32")
    assert Number(1.0, "i32") == Number(True, "i32")
    assert Number(0.0, "f32") != Number(-0.0, "f32")
    assert Number(1, "f32") != Number(1, "i32")
    assert Number(float("nan"), "f64") == Number(float("nan"), "f64")
    with pytest.raises(GraphError, match="no number of the type i32"):
        Number(0.5, "i32")
    with pytest.raises(GraphError, match="no line of a kernel"):
        parse_expression("1e5:i32", {})


def test_names_are_expressions() -> None:
    assert parse_expression("v0", {"v0": "f64"}) == Name("v0", "f64")


def test_every_element_type_has_a_scalar_type() -> None:
    assert {scalar_type(dtype) for dtype in DTYPES.values() if is_computable(dtype)} <= set(SCALARS)
    assert [name for name, dtype in DTYPES.items() if not is_computable(dtype)] == ["string"]
    assert set(FUNCTIONS.values()) == {"same", "float", "compare", "logic", "select", "convert"}
