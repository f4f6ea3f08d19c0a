"""Every elementwise operator in every type that the native engine compiles, against the reference at the extremes.

While a model runs, denormal floats count as zero (bfloat16 ones too, which are denormal in single precision); those of
float16 are ordinary numbers in single precision and stay. So denormals are left out of the extremes, a result that is
one may come back as zero, and a test of their own says what becomes of operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from intaglio.c.target import TARGETS, named_target
from intaglio.errors import CompileError, ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import DTYPES, DType
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType
from intaglio.kernels.expression import EMITTERS, MEMORY, can_emit, float_literal, literal, scalar_constant
from intaglio.ops.cast import dtype_number, integer_limits
from intaglio.ops.evaluate import evaluate
from intaglio.runtime.batch import compile_together
from intaglio.runtime.native import NativeEngine

Array = np.ndarray[Any, Any]
Build = Callable[[Any, Sequence[Value]], Value]

TYPES = [DTYPES[name] for name in MEMORY]
FLOATS = [dtype for dtype in TYPES if dtype.is_float]
BOOL = DTYPES["bool"]

UNARY = sorted(
    "Abs Neg Sign Reciprocal Relu BitwiseNot Identity Ceil Floor Round Sqrt Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh "
    "Tanh Asinh Acosh Atanh Erf Sigmoid Not IsNaN".split()
)
BINARY = sorted(
    "Add Sub Mul Div Min Max Sum BitwiseAnd BitwiseOr BitwiseXor Equal Less LessOrEqual Greater GreaterOrEqual And Or "
    "Xor Pow".split()
)

ULPS = {"Pow": 2, "Exp": 4, "Log": 4, "Sin": 4, "Cos": 4, "Tan": 8, "Tanh": 6, "Erf": 4, "Sigmoid": 4, "Sinh": 4}
ULPS |= dict.fromkeys("Asin Acos Atan Cosh Asinh Acosh Atanh".split(), 4)
"""How far the approximations of a function may be from NumPy's, which is off by a few units itself."""


@dataclass
class Problem:
    """An operator on inputs; `ulps` is the distance allowed to the reference, which is 0 for the exact operators."""

    title: str
    graph: Graph
    inputs: list[Array]
    ulps: int = 0
    signed_zero: bool = True
    engine: NativeEngine | None = field(default=None, repr=False)


def make_graph(build: Build, dtypes: Sequence[DType], shapes: Sequence[Sequence[Any]]) -> Graph:
    graph = Graph("problem")
    values = [graph.add_input(f"x{i}", TensorType(d, tuple(s))) for i, (d, s) in enumerate(zip(dtypes, shapes, strict=True))]
    builder = Builder(graph)
    with builder.active():
        graph.set_outputs([build(builder, values)])
    return graph


def extremes(dtype: DType) -> Array:
    if dtype == BOOL:
        return np.array([False, True])
    if dtype.is_integer:
        low, high = integer_limits(dtype)
        near = [low, low + 1, low // 2, -129, -128, -7, -3, -2, -1, 0, 1, 2, 3, 5, 7, 8, 15, 31, 63, 64, 65, 127, 128, 200,
                high // 2, high // 2 + 1, high - 1, high]  # fmt: skip
        return np.array([n for n in dict.fromkeys(near) if low <= n <= high], dtype.numpy)
    info = ml_dtypes.finfo(dtype.numpy)
    tiny = float(info.smallest_normal)
    sizes = [0.0, tiny, tiny * 3, 1e-3, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 7.25, 20.0, 60.5, 87.0, 88.9, 127.0,
             128.0, 255.5, 256.0, 1000.0, 32768.0, 65535.0, 2.0**31, 2.0**31 + 256, 2.0**32, 3e9, 2.0**63, 2.0**64,
             1e30, float(info.max), np.inf]  # fmt: skip
    with np.errstate(over="ignore"):
        values = np.array([*sizes, *(-size for size in sizes), np.nan], np.float64).astype(dtype.numpy)
    return values


def pairs(left: Array, right: Array) -> list[Array]:
    """Every element of one with every element of the other."""
    return [np.repeat(left, right.size), np.tile(right, left.size)]


def is_compiled(graph: Graph) -> bool:
    return all(can_emit(node) for node in graph.nodes)


def try_problem(title: str, build: Build, inputs: list[Array], dtypes: Sequence[DType], **options: Any) -> Iterator[Problem]:
    try:
        graph = make_graph(build, dtypes, [a.shape for a in inputs])
    except ShapeError:
        return
    if is_compiled(graph):
        yield Problem(title, graph, inputs, **options)


def is_zero_free(name: str) -> bool:
    """Whether the sign of a zero is told: NumPy's own choice between 0 and -0 depends on its vector unit."""
    return name not in ("Min", "Max", "Relu")


def operator_problems() -> Iterator[Problem]:
    for dtype in TYPES:
        values = extremes(dtype)
        for name in UNARY:
            ulps = ULPS.get(name, 0)
            yield from try_problem(
                f"{name}-{dtype}", lambda b, v, n=name: getattr(b, n)(v[0]), [values], [dtype],
                ulps=ulps, signed_zero=is_zero_free(name),
            )  # fmt: skip
        for name in BINARY:
            yield from try_problem(
                f"{name}-{dtype}", lambda b, v, n=name: getattr(b, n)(*v), pairs(values, values), [dtype, dtype],
                ulps=ULPS.get(name, 0), signed_zero=is_zero_free(name),
            )  # fmt: skip
        yield from more_problems(dtype, values)


def more_problems(dtype: DType, values: Array) -> Iterator[Problem]:
    """The operators with attributes, or more than two operands."""
    two, types = pairs(values, values), [dtype, dtype]
    for fmod in (0, 1):
        yield from try_problem(f"Mod{fmod}-{dtype}", lambda b, v, f=fmod: b.Mod(*v, fmod=f), two, types)
    for direction in ("LEFT", "RIGHT"):
        build: Build = lambda b, v, d=direction: b.BitShift(*v, direction=d)  # noqa: E731  (closes over the direction)
        yield from try_problem(f"BitShift-{direction}-{dtype}", build, two, types)
    for flags in ((0, 0), (0, 1), (1, 0), (1, 1)):
        build = lambda b, v, f=flags: b.IsInf(v[0], detect_negative=f[0], detect_positive=f[1])  # noqa: E731
        yield from try_problem(f"IsInf-{flags}-{dtype}", build, [values], [dtype])
    yield from try_problem(f"LeakyRelu-{dtype}", lambda b, v: b.LeakyRelu(v[0], alpha=0.1), [values], [dtype])
    condition = np.arange(two[0].size) % 3 == 0
    yield from try_problem(f"Where-{dtype}", lambda b, v: b.Where(*v), [condition, *two], [BOOL, dtype, dtype])
    three = [*two, np.roll(two[0], 7)]
    for name in ("Min", "Max", "Sum"):
        build = lambda b, v, n=name: getattr(b, n)(*v)  # noqa: E731
        yield from try_problem(f"{name}3-{dtype}", build, three, [dtype] * 3, signed_zero=False)
    yield from try_problem(f"Max1-{dtype}", lambda b, v: b.Max(v[0]), [values], [dtype])
    yield from clip_problems(dtype, values)
    yield from power_problems(dtype, values)


def clip_problems(dtype: DType, values: Array) -> Iterator[Problem]:
    if dtype == BOOL:
        return
    bounds = [(-1, 2), (2, -1), (None, 2), (1, None), (None, None), (0, 0)]
    bounds += [(np.nan, 1), (0, np.nan), (-np.inf, np.inf)] if dtype.is_float else []
    for low, high in bounds:
        if dtype.kind == "uint" and -1 in (low, high):
            continue
        def build(b: Any, v: Sequence[Value], ends: Any = (low, high)) -> Value:
            return b.Clip(v[0], *(None if end is None else b.constant(end, v[0].dtype) for end in ends))

        yield from try_problem(f"Clip-{low}-{high}-{dtype}", build, [values], [dtype], signed_zero=False)
    for shape in ((), (1,)):
        fed = [values, np.full(shape, 1).astype(dtype.numpy), np.full(shape, 3).astype(dtype.numpy)]
        yield from try_problem(f"Clip-{shape}-{dtype}", lambda b, v: b.Clip(*v), fed, [dtype] * 3, signed_zero=False)


def power_problems(dtype: DType, values: Array) -> Iterator[Problem]:
    for number in (0.0, 1.0, 2.0, 3.0, 0.5, -1.0, -2.0):
        build: Build = lambda b, v, n=number: b.Pow(v[0], b.constant(n, v[0].dtype))  # noqa: E731
        yield from try_problem(f"Pow{number}-{dtype}", build, [values], [dtype], ulps=2)
    for other in TYPES:
        if other not in (dtype, BOOL):
            yield from try_problem(
                f"Pow-{dtype}-{other}", lambda b, v: b.Pow(*v), pairs(values, extremes(other)), [dtype, other], ulps=2
            )


def cast_problems() -> Iterator[Problem]:
    for source in TYPES:
        values = extremes(source)
        for to in TYPES:
            build: Build = lambda b, v, t=to: b.Cast(v[0], to=dtype_number(t))  # noqa: E731
            yield from try_problem(f"Cast-{source}-{to}", build, [values], [source])
            like: Build = lambda b, v: b.CastLike(*v)  # noqa: E731
            empty = np.zeros(0, to.numpy)
            yield from try_problem(f"CastLike-{source}-{to}", like, [values, empty], [source, to])


PROBLEMS = {problem.title: problem for problem in [*operator_problems(), *cast_problems()]}


@pytest.fixture(scope="module")
def engines() -> dict[str, NativeEngine]:
    """An engine for each problem, all compiled together."""
    found = {title: NativeEngine(problem.graph, 1) for title, problem in PROBLEMS.items()}
    compile_together(found.values())
    return {title: engine.load() for title, engine in found.items()}


def ordinals(array: Array) -> Array:
    """Integers in the order of the floats, neighbours one apart, with 0 and -0 the same."""
    bits = np.ascontiguousarray(array).view(f"i{array.dtype.itemsize}").astype(np.int64)
    low = -(1 << (8 * array.dtype.itemsize - 1))
    return np.where(bits < 0, low - bits, bits)


def check(got: Array, expected: Array, problem: Problem) -> None:
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    if got.dtype.kind in "biu":
        wrong = got != expected
    else:
        tiny = float(ml_dtypes.finfo(got.dtype).smallest_normal)
        wide_got, wide_expected = got.astype(np.float64), expected.astype(np.float64)
        is_flushed = (np.abs(wide_expected) <= tiny) & (np.abs(wide_got) <= tiny) if got.dtype != np.float16 else False
        distance = np.abs(ordinals(got).astype(object) - ordinals(expected).astype(object))
        same = (distance <= problem.ulps) | is_flushed | (np.isnan(wide_got) & np.isnan(wide_expected))
        same &= np.isnan(wide_got) == np.isnan(wide_expected)
        if problem.signed_zero:
            same &= (wide_expected != 0) | (wide_got != 0) | (np.signbit(wide_got) == np.signbit(wide_expected))
        wrong = ~same.astype(bool)
    if np.any(wrong):
        rows = [(*(np.broadcast_to(a, got.shape)[wrong][:8].tolist() for a in problem.inputs if a.size),)]
        raise AssertionError(f"{problem.title}: of {rows} got {got[wrong][:8]}, expected {expected[wrong][:8]}")


@pytest.mark.parametrize("title", PROBLEMS)
def test_agrees_at_the_extremes(title: str, engines: dict[str, NativeEngine]) -> None:
    problem, engine = PROBLEMS[title], engines[title]
    assert not engine.plan.host_steps
    (expected,) = evaluate(problem.graph, problem.inputs)
    (got,) = engine.run(problem.inputs)
    check(got, expected, problem)
