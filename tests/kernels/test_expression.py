"""Every elementwise operator in every type that the native engine compiles, against the reference at the extremes.

While a model runs, denormal floats count as zero (bfloat16 ones too, which are denormal in single precision); those of
float16 are ordinary numbers in single precision and stay. So denormals are left out of the extremes, a result that is
one may come back as zero, and a test of their own says what becomes of operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from intaglio.errors import CompileError, ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import DTYPES, DType
from intaglio.ir.graph import Graph, Value
from intaglio.ir.origin import Origin
from intaglio.ir.types import TensorType
from intaglio.kernels.elements import OPAQUE
from intaglio.kernels.elementwise import TRANSLATIONS, can_translate, scalar_constant
from intaglio.ops.cast import integer_limits
from intaglio.ops.evaluate import evaluate
from intaglio.runtime.engine.native import NativeEngine
from intaglio.runtime.model.batch import compile_together
from intaglio.targets import executor_for
from intaglio.targets.c import cache
from intaglio.targets.c.compiler import find_compiler
from intaglio.targets.c.printing.register import MEMORY, float_literal, literal
from intaglio.targets.c.target import named_target

Array = np.ndarray[Any, Any]
Build = Callable[[Any, Sequence[Value]], Value]

TYPES = [DTYPES[name] for name in MEMORY if name not in OPAQUE]
FLOATS = [dtype for dtype in TYPES if dtype.is_float]
BOOL = DTYPES["bool"]

UNARY = [
    "Abs", "Neg", "Sign", "Reciprocal", "Relu", "BitwiseNot", "Identity", "Ceil", "Floor", "Round", "Sqrt", "Exp",
    "Log", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atanh", "Erf",
    "Sigmoid", "Not", "IsNaN", "Elu", "Selu", "Celu",
]  # fmt: skip
BINARY = [
    "Add", "Sub", "Mul", "Div", "Min", "Max", "Sum", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Less",
    "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor", "Pow",
]  # fmt: skip

ULPS = {"Pow": 2, "Exp": 4, "Log": 4, "Sin": 4, "Cos": 4, "Tan": 8, "Tanh": 6, "Erf": 4, "Sigmoid": 4, "Sinh": 4}
ULPS |= dict.fromkeys(("Asin", "Acos", "Atan", "Cosh", "Asinh", "Acosh", "Atanh", "Elu", "Selu", "Celu"), 4)
"""How far the approximations of a function may be from NumPy's, which is off by a few units itself."""


@dataclass
class Problem:
    """An operator on inputs; `ulps` is the distance allowed to the reference, which is 0 for the exact operators."""

    title: str
    graph: Graph
    inputs: list[Array]
    ulps: int = 0
    signed_zero: bool = True


def make_graph(build: Build, dtypes: Sequence[DType], shapes: Sequence[Sequence[Any]]) -> Graph:
    graph = Graph("problem")
    values = [
        graph.add_input(f"x{i}", TensorType(d, tuple(s))) for i, (d, s) in enumerate(zip(dtypes, shapes, strict=True))
    ]
    builder = Builder(graph)
    with builder.active():
        graph.set_outputs([build(builder, values)])
    return graph


def extremes(dtype: DType) -> Array:
    if dtype == BOOL:
        return np.array([False, True])
    if dtype.is_integer:
        low, high = integer_limits(dtype)
        near = [low, low + 1, low // 2, -129, -128, -7, -3, -2, -1, 0, 1, 2, 3, 5, 7, 8, 15, 31, 63, 64, 65, 127, 128,
                200, high // 2, high // 2 + 1, high - 1, high]  # fmt: skip
        return np.array([n for n in dict.fromkeys(near) if low <= n <= high], dtype.numpy)
    info = ml_dtypes.finfo(dtype.numpy)
    tiny = float(info.smallest_normal)
    sizes = [0.0, tiny, tiny * 3, 1e-3, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 7.25, 20.0, 60.5, 87.0, 88.9, 127.0,
             128.0, 255.5, 256.0, 1000.0, 32768.0, 65535.0, 2.0**31, 2.0**31 + 256, 2.0**32, 3e9, 2.0**63, 2.0**64,
             1e30, float(info.max), np.inf]  # fmt: skip
    with np.errstate(over="ignore"):
        return np.array([*sizes, *(-size for size in sizes), np.nan], np.float64).astype(dtype.numpy)


def pairs(left: Array, right: Array) -> list[Array]:
    """Every element of one with every element of the other."""
    return [np.repeat(left, right.size), np.tile(right, left.size)]


def is_compiled(graph: Graph) -> bool:
    return all(can_translate(node) for node in graph.nodes)


def try_problem(
    title: str, build: Build, inputs: list[Array], dtypes: Sequence[DType], **options: Any
) -> Iterator[Problem]:
    count = symbol("n")  # vectors of any length; bounds of Clip keep their shape
    shapes = [(count,) if array.size != 1 else array.shape for array in inputs]
    try:
        graph = make_graph(build, dtypes, shapes)
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
        wide = values.astype(np.float64)
        is_odd_root = (number == 0.5) & ((wide == -np.inf) | ((wide == 0) & np.signbit(wide)))
        kept = values[~is_odd_root]  # where pow(x, 0.5) is not the square root, NumPy takes that nevertheless
        yield from try_problem(f"Pow{number}-{dtype}", build, [kept], [dtype], ulps=2)
    for other in TYPES:
        if other not in (dtype, BOOL):
            yield from try_problem(
                f"Pow-{dtype}-{other}", lambda b, v: b.Pow(*v), pairs(values, extremes(other)), [dtype, other], ulps=2
            )


def cast_problems() -> Iterator[Problem]:
    for source in TYPES:
        values = extremes(source)
        for to in TYPES:
            build: Build = lambda b, v, t=to: b.Cast(v[0], to=t.number)  # noqa: E731
            yield from try_problem(f"Cast-{source}-{to}", build, [values], [source])
            like: Build = lambda b, v: b.CastLike(*v)  # noqa: E731
            empty = np.zeros(values.shape, to.numpy)
            yield from try_problem(f"CastLike-{source}-{to}", like, [values, empty], [source, to])
        if source.bits == 8:
            yield from try_problem(
                f"BitCast-{source}", lambda b, v: b.BitCast(v[0], to=BOOL.number), [values], [source]
            )


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
        least = 8 * tiny if got.dtype != np.float16 else 0.0  # one term of a sum may be denormal where the sum is not
        is_flushed = (np.abs(wide_expected) <= least) & (np.abs(wide_got) <= least)
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
    assert not engine.form.hosts
    (expected,) = evaluate(problem.graph, problem.inputs)
    (got,) = engine.run(problem.inputs)
    check(got, expected, problem)


def test_every_emitter_is_tried() -> None:
    tried = {node.op.name for problem in PROBLEMS.values() for node in problem.graph.nodes}
    assert tried | {"QuantizeLinear"} == set(TRANSLATIONS)  # test_narrow and test_quantised try all of its types


@pytest.mark.parametrize("name", ["c", "sse2", "avx2"])
def test_agrees_on_other_targets(name: str) -> None:
    """One problem of each operator for float32 and for an integer type, and all casts between five types."""
    try:
        target = named_target(name)
    except CompileError as error:
        pytest.skip(str(error))
    kinds = {"float32", "int64", "uint8", "float16", "float64", "bool"}
    chosen = [p for p in PROBLEMS.values() if {str(value.dtype) for value in p.graph.inputs} <= kinds]
    chosen = [p for p in chosen if not p.title.startswith(("CastLike", "Clip-", "Pow-"))]
    made = [NativeEngine(problem.graph, 1, executor_for(target=target)) for problem in chosen]
    functions = list(dict.fromkeys(function for engine in made for function in engine.functions()))
    cache.ensure(functions, find_compiler(), target)
    for problem, engine in zip(chosen, made, strict=True):
        (got,) = engine.load().run(problem.inputs)
        check(got, evaluate(problem.graph, problem.inputs)[0], problem)


def flushed(array: Array) -> Array:
    """The array without the denormals that the native engine takes for zeros."""
    if array.dtype.kind in "biu" or array.dtype == np.float16:
        return array
    tiny = ml_dtypes.finfo(array.dtype).smallest_normal
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return np.where(np.abs(array.astype(np.float64)) < float(tiny), np.zeros((), array.dtype), array)


def elements(dtype: DType, count: int) -> st.SearchStrategy[Array]:
    """Arrays of any bits, and of ordinary numbers."""
    if dtype == BOOL:
        return hnp.arrays(np.bool_, count)
    bits = hnp.arrays(np.dtype(f"u{dtype.numpy.itemsize}"), count).map(lambda array: array.view(dtype.numpy))
    if dtype.is_integer:
        return bits
    numbers = st.floats(-65000, 65000, allow_subnormal=False)
    small = hnp.arrays(np.float64, count, elements=numbers).map(lambda a: a.astype(dtype.numpy))
    return st.one_of(bits, small).map(flushed)


SAMPLED = {"float32", "float64", "float16", "bfloat16", "int8", "int64", "uint64"}
EXACT = [
    title
    for title, problem in PROBLEMS.items()
    if problem.ulps == 0
    and (title.startswith("Cast-") or len(problem.graph.inputs) == 2)
    and not title.startswith(("CastLike", "Bitwise"))
    and {str(value.dtype) for value in problem.graph.inputs} <= SAMPLED
]


@pytest.mark.parametrize("title", EXACT)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_agrees_on_any_elements(title: str, data: st.DataObject, engines: dict[str, NativeEngine]) -> None:
    problem = PROBLEMS[title]
    count = data.draw(st.integers(0, 40))
    inputs = [data.draw(elements(value.dtype, count)) for value in problem.graph.inputs]
    (got,) = engines[title].run(inputs)
    with np.errstate(all="ignore"):
        (expected,) = evaluate(problem.graph, inputs)
        check(got, expected, Problem(title, problem.graph, inputs, signed_zero=problem.signed_zero))


@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(
    "operator", ["Abs", "Neg", "Add", "Mul", "Div", "Sqrt", "Log", "Max", "Less", "Equal", "Floor"]
)
def test_denormals_count_as_themselves_or_as_zero(operator: str, name: str, engines: dict[str, NativeEngine]) -> None:
    problem, dtype = PROBLEMS[f"{operator}-{name}"], DTYPES[name].numpy
    least = float(ml_dtypes.finfo(dtype).smallest_subnormal)
    denormal = np.array([least, 5 * least, -least, 1.0, 0.0] * 4, np.float64).astype(dtype)
    inputs = [denormal, np.roll(denormal, 1)][: len(problem.graph.inputs)]
    (got,) = engines[problem.title].run(inputs)
    kept, zeroed = (evaluate(problem.graph, list(arrays))[0] for arrays in (inputs, [flushed(a) for a in inputs]))
    is_same = [(got == either) | (np.isnan(got) & np.isnan(either)) for either in (kept, zeroed)]
    with np.errstate(invalid="ignore"):
        is_flushed = np.abs(got.astype(np.float64) - kept.astype(np.float64)) <= float(
            ml_dtypes.finfo(dtype).smallest_normal
        )
    assert np.all(is_same[0] | is_same[1] | is_flushed), (got, kept, zeroed)


def run_both(graph: Graph, inputs: list[Array]) -> tuple[list[Array], list[Array]]:
    return NativeEngine(graph, 1).load().run(inputs), evaluate(graph, inputs)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_each_operator_rounds_once_though_fused(name: str) -> None:
    """60000 + 60000 is infinite in float16, and stays so for the operators that follow in the same kernel."""
    dtype = DTYPES[name]

    def build(b: Any, v: Sequence[Value]) -> Value:
        total = b.Add(v[0], v[1])
        return b.Floor(b.Div(b.Mul(b.Sub(total, v[1]), v[1]), v[1]))

    values = np.array([60000, 1, 3, 2049, 0.1, 1e-7, 255.9], np.float64).astype(dtype.numpy)
    inputs = pairs(values, values)
    got, expected = run_both(make_graph(build, [dtype] * 2, [inputs[0].shape] * 2), inputs)
    np.testing.assert_array_equal(got[0].astype(np.float64), expected[0].astype(np.float64))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "operator", ["Gelu", "HardSwish", "Elu", "Selu", "Mish", "Softsign", "Swish", "Softplus", "Celu"]
)
def test_an_expanded_operator_rounds_once(operator: str, name: str) -> None:
    """Within one unit of the reference, which computes the whole operator in single precision."""
    dtype, graph = DTYPES[name], Graph("expanded")
    x = graph.add_input("x", TensorType(dtype, (200,)))
    builder = Builder(graph, origin="#0 (node)")
    doubled = builder.Add(x, x)
    builder.origin = Origin("#1 (node)")
    y = getattr(builder, operator)(doubled)
    builder.origin = Origin("#2 (node)")
    graph.set_outputs([builder.Add(y, y)])
    values = np.linspace(-3, 3, 200).astype(dtype.numpy)
    got, expected = run_both(graph, [values])
    atol = float(ml_dtypes.finfo(dtype.numpy).eps) / 8  # near zero the expansions cancel in single precision
    problem = Problem(operator, graph, [values], ulps=1)
    check(np.where(np.abs(expected[0].astype(np.float64)) < atol, expected[0], got[0]), expected[0], problem)


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize(("operator", "alpha"), [("Elu", 0.5), ("Selu", 1.5), ("Celu", 2.0), ("Celu", -0.7)])
def test_exponential_units_are_exact_near_zero(operator: str, alpha: float, name: str) -> None:
    """exp(x) - 1, written so, has no digit left where x is small."""
    dtype = DTYPES[name]
    small = np.logspace(-30, 1.5, 300)
    values = np.concatenate([-small, small, [0, -0.0, -np.inf, np.inf, np.nan]]).astype(dtype.numpy)
    graph = make_graph(lambda b, v: getattr(b, operator)(*v, alpha=alpha), [dtype], [values.shape])
    got, expected = run_both(graph, [values])
    np.testing.assert_allclose(got[0], expected[0], rtol=4 * np.finfo(dtype.numpy).eps, atol=0)


def test_a_sum_that_wraps_is_not_assumed_greater() -> None:
    """Signed overflow is undefined in C, so a compiler might take x + 1 > x for true."""
    dtype = DTYPES["int32"]
    x = np.array([2**31 - 1, 0, -(2**31)] * 8, np.int32)
    graph = make_graph(lambda b, v: b.Greater(b.Add(v[0], b.constant(1, dtype)), v[0]), [dtype], [x.shape])
    got, expected = run_both(graph, [x])
    np.testing.assert_array_equal(got[0], expected[0])


def test_clip_of_a_scalar_by_bounds_of_one_element() -> None:
    dtype = DTYPES["float32"]
    graph = make_graph(lambda b, v: b.Clip(*v), [dtype] * 3, [(), (1,), (1,)])
    inputs = [np.array(n, np.float32).reshape(s) for n, s in ((7, ()), (0, (1,)), (2, (1,)))]
    got, expected = run_both(graph, inputs)
    assert got[0] == expected[0] == 2
    assert got[0].shape == ()


@pytest.mark.parametrize("value", [0.1, -0.0, 1e-45, 3.4028234663852886e38, 1.0, -2.5, 5e-324])
def test_a_float_literal_is_exact(value: float) -> None:
    assert float.fromhex(float_literal(value, "f64")) == value
    assert np.signbit(float.fromhex(float_literal(value, "f64"))) == np.signbit(value)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (-(2**63), "i64", "ig_set_i64((ig_i64_element)(-9223372036854775807LL - 1))"),
        (2**64 - 1, "u64", "ig_set_u64((ig_u64_element)18446744073709551615ULL)"),
        (-1, "i8", "ig_set_i8((ig_i8_element)-1LL)"),
        (float("-inf"), "f32", "ig_set_f32(-__builtin_inf())"),
        (float("nan"), "f64", 'ig_set_f64(__builtin_nan(""))'),
        (0.5, "f32", "ig_set_f32(0x1.0000000000000p-1f)"),
    ],
)
def test_literals(value: Any, kind: str, text: str) -> None:
    assert literal(value, kind) == text


def test_constants_become_literals_only_where_that_is_exact() -> None:
    graph = Graph("constants")
    values = [1.0, -1.0, 0.0, -0.0, 3.0]
    assert [scalar_constant(graph.constant(np.array(n, np.float32))) for n in values] == [1.0, -1.0, 0.0, None, None]
    assert scalar_constant(graph.constant(np.ones(2, np.float32))) is None
    assert scalar_constant(graph.constant(np.array(True))) is None
