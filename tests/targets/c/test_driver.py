"""Drivers: names from a model cannot break out of comments, and any dimension is valid C."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim, Expr, Symbol, evaluate, floordiv, maximum, minimum, mod, symbol
from intaglio.ir.dtype import BOOL, FLOAT32, INT32, INT64, UINT8
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.evaluate import evaluate as evaluate_graph
from intaglio.runtime.native import NativeEngine
from intaglio.targets.c.driver import comment, dim_text

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
    assert not engine.plan.host_steps
    data = np.zeros((3, 4), np.float32)
    for got, expected in zip(engine.run([data]), evaluate_graph(graph, [data]), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)
