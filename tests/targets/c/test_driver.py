"""Drivers: names from a model cannot break out of comments, and any dimension is valid C."""

from __future__ import annotations

import ctypes
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.present import compiler

from intaglio.ir.build import Builder
from intaglio.ir.dim import (
    THREADS,
    Dim,
    Expr,
    Symbol,
    at_most,
    ceildiv,
    equal,
    floordiv,
    less,
    maximum,
    minimum,
    mod,
    pieces,
    select,
    symbol,
)
from intaglio.ir.dtype import BOOL, FLOAT32, INT32, INT64, UINT8
from intaglio.ir.graph import Graph
from intaglio.ir.substitution import evaluate, substitute
from intaglio.ir.types import TensorType
from intaglio.kernels.plan import Call, walk
from intaglio.ops.evaluate import evaluate as evaluate_graph
from intaglio.runtime.engine.native import NativeEngine
from intaglio.targets.c.lines import comment
from intaglio.targets.c.size_text import Words, cost_text, dim_text, helper_text
from intaglio.targets.c.target import host_target

HOSTILE = [
    "*/ int x = (1/0); /*",
    "line\nbreak\r\n#include \"secret.h\"",
    "ends with a backslash\\",
    "trigraph ??/",
    '"quoted" \'text\'',
    "naïve – ünïcode \u2028 \U0001f600",
    "// /* nested /* */ */",
    "IG_FUNCTION",
    "%s %n {0} {}",
    "\x00\x1b[31m\x7f",
    "x" * 5000,
    "*", "/", "*//*/",
]  # fmt: skip


def hostile_engine(name: str) -> NativeEngine:
    graph = Graph(name)
    extent = Expr((((Symbol(name),), 1),))
    x = graph.add_input(name, TensorType(FLOAT32, (extent, 3)))
    builder = Builder(graph, origin=name)
    values = builder.add(builder.Exp(x).producer.op, (x,), names=[name])  # pyright: ignore[reportOptionalMemberAccess]
    shape = builder.Shape(values[0])
    graph.set_outputs([values[0], builder.Softmax(values[0]), shape])
    return NativeEngine(graph, 1)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_compiles_and_runs(name: str) -> None:
    engine = hostile_engine(name)
    for function in engine.functions():
        bodies = re.split(r"/\*.*?\*/", function.source, flags=re.DOTALL)
        assert "secret" not in "".join(bodies)
        assert "1/0" not in "".join(bodies)
        assert function.source.isascii()
    x = np.ones((2, 3), np.float32)
    for got, expected in zip(engine.load().run([x]), evaluate_graph(engine.graph, [x]), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


@given(text=st.text() | st.text(alphabet="*/\\?\n \"'x"))
def test_a_comment_is_one_short_line_that_nothing_ends(text: str) -> None:
    safe = comment(text)
    assert safe.isascii()
    assert safe.isprintable()
    assert len(safe) <= 200
    assert not any(mark in f" {safe} " for mark in ("*/", "/*", "\\", "??"))


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (0, "0"),
        (-5, "-5"),
        (2**31, "2147483648LL"),
        (-(2**31), "(-2147483648LL)"),
        (2**63 - 1, "9223372036854775807LL"),
        (-(2**63), "(-9223372036854775807LL - 1)"),
        (symbol("n") - 2**63, "(n0 + (-9223372036854775807LL - 1))"),
        (symbol("n") * -3 + 1, "((-3LL) * n0 + 1LL)"),
    ],
)
def test_dimensions_as_c(dim: Dim, text: str) -> None:
    assert dim_text(dim, {"n": "n0"}) == text


def python_text(text: str) -> str:
    """A driver's expression as Python."""
    return re.sub(r"(\d)LL", r"\1", text).replace("IG_FUNCTION_", "call_")


CALLS: dict[str, Any] = {
    "call_floordiv": lambda a, b: a // b if b else 0,
    "call_mod": lambda a, b: a % b if b else 0,
    "call_min": min,
    "call_max": max,
    "call_broadcast": lambda a, b: b if a == 1 else a,
}


@st.composite
def dims(draw: st.DrawFn) -> Dim:
    dim: Dim = symbol(draw(st.sampled_from("nm")))
    for _ in range(draw(st.integers(0, 5))):
        other: Dim = draw(st.integers(-(2**40), 2**40)) if draw(st.booleans()) else symbol("m")
        kind = draw(st.sampled_from(["add", "mul", "min", "max", "div", "mod"]))
        if kind in ("div", "mod"):
            divisor = draw(st.integers(1, 9))
            dim = floordiv(dim, divisor) if kind == "div" else mod(dim, divisor)
        elif kind in ("min", "max"):
            dim = minimum(dim, other) if kind == "min" else maximum(dim, other)
        else:
            dim = dim + other if kind == "add" else dim * draw(st.integers(-9, 9))
    return dim


@given(dim=dims(), n=st.integers(0, 1000), m=st.integers(0, 1000))
def test_the_text_of_a_dimension_means_the_dimension(dim: Dim, n: int, m: int) -> None:
    text = python_text(dim_text(dim, {"n": "n", "m": "m"}))
    assert eval(text, {**CALLS, "n": n, "m": m}) == evaluate(dim, {"n": n, "m": m})


def choices(generator: random.Random, depth: int) -> Dim:
    """A dimension with every function in it, of which no part divides by zero."""
    if depth == 0:
        return generator.choice([symbol("n"), symbol("m"), THREADS, generator.randint(0, 40)])
    left, right, yes, no = (choices(generator, depth - 1) for _ in range(4))
    return generator.choice([
        lambda: left + right * 3, lambda: left * right - yes, lambda: floordiv(left, maximum(right, 1)),
        lambda: ceildiv(left, maximum(right, 1)), lambda: pieces(maximum(left, 0), maximum(right, 1)),
        lambda: mod(left, generator.randint(1, 9)), lambda: minimum(left, right), lambda: maximum(left, right),
        lambda: select(less(left, right), yes, no), lambda: select(equal(left, yes) * at_most(yes, no), left, right),
        lambda: maximum(less(left, right), equal(yes, no)),
    ])()  # fmt: skip


def test_the_c_of_a_dimension_computes_it(tmp_path: Path) -> None:
    generator = random.Random(7)
    found = [choices(generator, generator.randint(1, 4)) for _ in range(80)]
    names = {"n": "n", "m": "m"}
    lines = [f"    out[{place}] = {dim_text(dim, names)};" for place, dim in enumerate(found)]
    rough = 1 + floordiv(symbol("n") * symbol("m") * 7 + minimum(symbol("n"), 30), 10) * THREADS
    lines.append(f"    *cost = {cost_text(rough, names)};")
    source = "\n".join([
        '#include "ig.h"', "#pragma GCC visibility push(default)", *helper_text(Words(prefix="test_")),
        "struct call { int64_t threads; };",
        "void test(int64_t n, int64_t m, const struct call *call, int64_t *out, int64_t *cost);",
        "void test(int64_t n, int64_t m, const struct call *call, int64_t *out, int64_t *cost)", "{",
        *(line.replace("IG_FUNCTION", "test") for line in lines), "}", "",
    ])  # fmt: skip
    compiler().compile_unit(source, tmp_path / "dims.so", host_target(), "-O1")
    library = ctypes.CDLL(str(tmp_path / "dims.so"))
    for n, m, threads in ((0, 0, 1), (1, 0, 2), (5, 3, 7), (40, 41, 64), (1000, 17, 3)):
        out, cost, call = (ctypes.c_int64 * len(found))(), ctypes.c_int64(), ctypes.c_int64(threads)
        library.test(ctypes.c_int64(n), ctypes.c_int64(m), ctypes.byref(call), out, ctypes.byref(cost))
        expected = [evaluate(dim, {"n": n, "m": m}, threads) for dim in found]
        assert list(out) == expected
        assert [substitute(dim, {"n": n, "m": m}, threads) for dim in found] == expected
        assert abs(cost.value - evaluate(rough, {"n": n, "m": m}, threads)) <= threads
    library.test(ctypes.c_int64(2**40), ctypes.c_int64(2**40), ctypes.byref(call), out, ctypes.byref(cost))
    assert cost.value == 10**15, "a cost does not overflow"


def test_a_driver_reads_like_the_model() -> None:
    """Each call has the path of its nodes above it and its sizes by name, and no line is long."""
    graph = Graph("readable")
    n = symbol("batch")
    x = graph.add_input("tokens", TensorType(FLOAT32, (n, 12, 64)))
    for layer in range(3):
        builder = Builder(graph, origin=f"/encoder/layer.{layer}/mlp/dense_with_a_rather_long_name_in_the_model")
        weights = builder.constant(np.full((64, 64), 0.01), FLOAT32)
        x = builder.Softmax(builder.Transpose(builder.Relu(builder.MatMul(x, weights)), perm=(1, 0, 2)))
        x = builder.Transpose(x, perm=(1, 0, 2))
    graph.set_outputs([x])
    engine = NativeEngine(graph, 1)
    (driver,) = [function.source for function in engine.functions() if function.symbol_hint == "driver"]
    assert max(map(len, driver.splitlines())) <= 120
    texts = [text for text in driver.split("\n    }\n") if "call->parallel(" in text]
    (step,) = engine.form.segments
    calls = [action for action in walk(step.actions) if isinstance(action, Call)]
    assert sum(bool(call.served) for call in calls) >= 6
    for text, action in zip(texts, calls, strict=True):
        heading, call = text[text.rindex("    /* ", 0, text.index("    {\n")) :].split("    {\n", 1)
        assert all(node.path in heading for node in action.served)
        names, _, values = call[call.index("const struct { int64_t ") + len("const struct { int64_t ") :].partition(";")
        assert re.findall(r"\w+", names) == re.findall(r"\.(\w+) =", values)


@pytest.mark.parametrize("start", [-(2**63), -3, 2**63 - 1])
def test_slices_from_far_outside_compile(start: int) -> None:
    """Exporters write the least and the greatest integer for "from the end"."""
    graph = Graph("slice")
    x = graph.add_input("x", TensorType(INT64, (symbol("n"),)))
    builder = Builder(graph)
    graph.set_outputs([builder.Neg(builder.Slice(x, [start], [-(2**63) + 1], [0], [-1]))])
    engine = NativeEngine(graph, 1).load()
    for size in (0, 1, 5, 40):
        data = np.arange(size)
        np.testing.assert_array_equal(engine.run([data])[0], evaluate_graph(graph, [data])[0])


@pytest.mark.parametrize("shape", [(3, 4), (symbol("n"), 4), (symbol("n"), symbol("m"))])
def test_numbers_and_truth_values_made_of_shapes(shape: tuple[Dim, ...]) -> None:
    graph = Graph("shapes")
    x = graph.add_input("x", TensorType(FLOAT32, shape))
    builder = Builder(graph)
    sizes, other = builder.Shape(x), builder.constant([3, 5], INT64)
    is_equal, is_less = builder.Equal(sizes, other), builder.Less(sizes, other)
    results = [is_equal, is_less, builder.Not(is_equal), builder.Xor(is_equal, is_less), builder.Greater(sizes, other)]
    results += [
        builder.Cast(value, to=kind.number) for value in (sizes, is_less) for kind in (BOOL, UINT8, INT32, INT64)
    ]
    results += [builder.Where(is_equal, sizes, other), builder.Mul(sizes, other), builder.Neg(sizes)]
    graph.set_outputs(results)
    engine = NativeEngine(graph, 1).load()
    assert not engine.form.hosts
    data = np.zeros((3, 4), np.float32)
    for got, expected in zip(engine.run([data]), evaluate_graph(graph, [data]), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)
