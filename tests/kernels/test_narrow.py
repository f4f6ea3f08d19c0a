"""Floats and integers of few bits, every pattern of them, natively and by the reference: the bits must be equal.

Sums do not tell the sign of zero or NaN, so quantization is not asked for it; and where dequantization gives a
denormal, compiled code may give zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from intaglio.errors import CompileError, OperatorError
from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import BOOL, DTYPES, DType
from intaglio.ir.graph import Graph, Value
from intaglio.ir.op import Tensor
from intaglio.ir.types import TensorType
from intaglio.kernels.elements import NARROW_FLOATS, NARROW_INTEGERS, OPAQUE
from intaglio.ops.cast import convert, integer_limits
from intaglio.ops.evaluate import evaluate
from intaglio.runtime.engine.native import NativeEngine
from intaglio.runtime.model.batch import compile_together
from intaglio.targets import executor_for
from intaglio.targets.c import cache
from intaglio.targets.c.compiler import find_compiler
from intaglio.targets.c.printing.register import MEMORY
from intaglio.targets.c.target import named_target

Array = np.ndarray[Any, Any]

NARROW = [DTYPES[name] for name in (*NARROW_FLOATS, *NARROW_INTEGERS)]
PLAIN = [DTYPES[name] for name in MEMORY if name not in OPAQUE]
POWERS = DTYPES["float8e8m0"]


@dataclass
class Problem:
    """A graph and what to feed it."""

    title: str
    graph: Graph
    inputs: list[Array]


def problem(title: str, build: Callable[..., Any], types: Sequence[TensorType], inputs: list[Array]) -> Problem:
    graph = Graph(title)
    values = [graph.add_input(f"x{index}", type) for index, type in enumerate(types)]
    builder = Builder(graph, origin="node")
    with builder.active():
        result = build(builder, *values)
    graph.set_outputs([result] if isinstance(result, Value) else list(result))
    return Problem(title, graph, inputs)


def compiled(problems: Sequence[Problem]) -> dict[str, tuple[Problem, NativeEngine]]:
    engines = [NativeEngine(each.graph, 1) for each in problems]
    compile_together(engines)
    return {each.title: (each, engine.load()) for each, engine in zip(problems, engines, strict=True)}


def bits(array: Array) -> Array:
    plain = np.ascontiguousarray(array).reshape(array.shape if array.dtype.itemsize <= 8 else -1)
    return plain.view(f"u{min(8, array.dtype.itemsize)}")


def both(pair: tuple[Problem, NativeEngine]) -> Iterator[tuple[Array, Array]]:
    """What each output is, natively without any host node, and by the reference."""
    given, engine = pair
    assert not engine.form.hosts
    for got, expected in zip(engine.run(given.inputs), evaluate(given.graph, given.inputs), strict=True):
        assert got.dtype == expected.dtype
        assert got.shape == expected.shape
        yield np.asarray(got), np.asarray(expected)


def patterns(dtype: DType) -> Array:
    """Every byte, also those with more bits than the type has."""
    return np.arange(256, dtype=np.uint8).view(dtype.numpy)


def numbers(dtype: DType) -> Array:
    """All bits of types up to 16, of wider ones what is near a number of a narrow type, near a tie, or far out."""
    if dtype == BOOL:
        return np.array([False, True])
    if dtype in NARROW:
        return patterns(dtype)
    if dtype.bits == 8:
        return np.arange(256, dtype=np.uint8).view(dtype.numpy)
    if dtype.bits == 16:
        return np.arange(65536, dtype=np.uint16).view(dtype.numpy)
    return integers(dtype) if dtype.is_integer else floats(dtype)


def integers(dtype: DType) -> Array:
    low, high = integer_limits(dtype)
    factors = product(range(dtype.bits), (1, 3, 5, 7, 9, 17), (1, -1), (-1, 0, 1))
    found = {sign * (factor << shift) + near for shift, factor, sign, near in factors}
    return np.array(sorted(n for n in found | {low, high} | set(range(-600, 600)) if low <= n <= high), dtype.numpy)


def floats(dtype: DType) -> Array:
    powers = 2.0 ** np.arange(-150, 151)
    sizes = [powers, powers * 1.25, powers * 1.5, np.array([0, np.inf, np.nan, 1e300, 1e-300, 5e-324])]
    for name in NARROW_FLOATS:
        steps = patterns(DTYPES[name]).astype(np.float64)
        steps = np.unique(np.abs(steps[np.isfinite(steps)]))
        sizes += [steps, (steps[1:] + steps[:-1]) / 2, (3 * steps[-1:] - steps[-2:-1]) / 2]
    with np.errstate(over="ignore"):
        exact = np.concatenate(sizes).astype(dtype.numpy)
    near = [exact, np.nextafter(exact, dtype.numpy.type(np.inf)), np.nextafter(exact, dtype.numpy.type(0))]
    some = np.random.default_rng(0).integers(0, 2**64, 4000, np.uint64, endpoint=False)
    return np.concatenate([*near, *(-each for each in near), some.astype(f"u{dtype.itemsize}").view(dtype.numpy)])


def cast_options(to: DType) -> list[dict[str, Any]]:
    if to == POWERS:
        return [{"saturate": s, "round_mode": mode} for s in (0, 1) for mode in ("up", "down", "nearest")]
    return [{"saturate": 0}, {"saturate": 1}] if to.name.startswith("float8") else [{}]


def casts() -> Iterator[Problem]:
    for source, to in product([*NARROW, *PLAIN], repeat=2):
        for options in cast_options(to) if source != to and (source in NARROW or to in NARROW) else []:
            yield problem(
                f"{source} {to} {' '.join(map(str, options.values()))}",
                lambda b, x, o=options, t=to: b.Cast(x, to=t.number, **o),
                [TensorType(source, (symbol("n"),))],
                [numbers(source)],
            )


@pytest.fixture(scope="module")
def cast_engines() -> dict[str, tuple[Problem, NativeEngine]]:
    return compiled(list(casts()))


@pytest.mark.parametrize("source", [*NARROW, *PLAIN], ids=str)
def test_casts(source: DType, cast_engines: dict[str, tuple[Problem, NativeEngine]]) -> None:
    chosen = {title: pair for title, pair in cast_engines.items() if title.split()[0] == source.name}
    assert len(chosen) >= len(NARROW) - 1
    for title, pair in chosen.items():
        ((got, expected),) = both(pair)
        wrong = np.flatnonzero(bits(got) != bits(expected))
        given = pair[0].inputs[0]
        assert not wrong.size, f"{title}: of {given[wrong[:5]]} got {got[wrong[:5]]}, expected {expected[wrong[:5]]}"


@pytest.mark.parametrize("name", ["c", "sse2", "avx2"])
def test_casts_on_other_targets(name: str) -> None:
    """From single and double precision and back."""
    try:
        target = named_target(name)
    except CompileError as error:
        pytest.skip(str(error))
    plain = {each.name for each in PLAIN}
    chosen = [each for each in casts() if set(each.title.split()[:2]) & plain <= {"float32", "float64"}]
    chosen = [each for each in chosen if set(each.title.split()[:2]) & plain]
    engines = [NativeEngine(each.graph, 1, executor_for(target=target)) for each in chosen]
    functions = list(dict.fromkeys(function for engine in engines for function in engine.functions()))
    cache.ensure(functions, find_compiler(), target)
    for pair in zip(chosen, engines, strict=True):
        pair[1].load()
        ((got, expected),) = both(pair)
        np.testing.assert_array_equal(bits(got), bits(expected), err_msg=pair[0].title)


@pytest.mark.parametrize("to", [DTYPES[name] for name in NARROW_FLOATS if name != "float8e8m0"], ids=str)
def test_single_precision_agrees_with_ml_dtypes(to: DType) -> None:
    """The reference itself is judged where it does not saturate: ml_dtypes rounds single precision once."""
    given = floats(DTYPES["float32"])
    is_finite_type = to.bits < 8
    kept = given if is_finite_type else given[np.isfinite(given)]
    with np.errstate(all="ignore"):
        expected = kept.astype(to.numpy)
    np.testing.assert_array_equal(bits(convert(kept, to, saturate=False)), bits(expected))


def test_doubles_are_rounded_once() -> None:
    """Single precision on the way would make a tie of each of these."""
    above = np.array([1 + 2**-4 + 2**-40, 1.25 + 2**-40, -0.25 - 2**-50, 1 + 2**-8 + 2**-40], np.float64)
    for to, index, expected in (("float8e4m3fn", 0, 1.125), ("float4e2m1", 1, 1.5), ("float4e2m1", 2, -0.5)):
        assert convert(above, DTYPES[to])[index] == expected
    assert convert(above, DTYPES["bfloat16"])[3] == 1 + 2**-7


def bit_casts() -> list[Problem]:
    pairs = [(a, b) for a, b in product(map(DTYPES.get, MEMORY), repeat=2) if a and b and a.bits == b.bits]
    shape = (symbol("n"), symbol("m"))
    return [
        problem(
            f"{source} {to}",
            lambda b, x, t=to: b.BitCast(b.Transpose(x), to=t.number),
            [TensorType(source, shape)],
            [raw(source, (37, 19))],
        )
        for source, to in pairs
    ]


def raw(dtype: DType, shape: tuple[int, ...], seed: int = 1) -> Array:
    """Elements with any bits."""
    top = 2 if dtype == BOOL else 1 << min(dtype.bits, 8)
    some = np.random.default_rng(seed).integers(0, top, (*shape, dtype.itemsize), np.uint8)
    return some.view(dtype.numpy).reshape(shape)


def test_bit_casts() -> None:
    for title, pair in compiled(bit_casts()).items():
        ((got, expected),) = both(pair)
        assert np.array_equal(bits(got), bits(expected)), title


GRAINS: list[tuple[tuple[int, ...], dict[str, int]]] = [
    ((), {}), ((24,), {"axis": 1}), ((7, 6), {"block_size": 4}), ((7, 5), {"axis": -1, "block_size": 5}),
    ((1, 24), {"axis": -2, "block_size": 7}),
]  # fmt: skip
QUANTIZED = [*(each for each in NARROW if each != POWERS), DTYPES["int8"], DTYPES["uint8"], DTYPES["int16"]]
SCALES = [DTYPES[name] for name in ("float32", "float16", "bfloat16", "float8e8m0")]


def scales(dtype: DType, shape: tuple[int, ...]) -> Array:
    generator = np.random.default_rng(2)
    if dtype == POWERS:
        return generator.choice([0, 1, 100, 120, 127, 130, 200, 254], shape).astype(np.uint8).view(dtype.numpy)
    return convert(np.asarray(generator.uniform(0.01, 2, shape)), dtype)


def reals(dtype: DType, shape: tuple[int, ...]) -> Array:
    generator = np.random.default_rng(3)
    some = np.asarray(generator.standard_normal(shape) * np.exp(generator.uniform(-12, 12, shape)))
    some.flat[:6] = [0, -0.0, np.inf, -np.inf, np.nan, 1e30]
    return convert(some, dtype)


def quantizations() -> Iterator[Problem]:
    for number, (to, scale, (shape, options)) in enumerate(product(QUANTIZED, SCALES, GRAINS)):
        given = scale if scale != POWERS else DTYPES["float32"]
        types = [TensorType(given, (7, 24)), TensorType(scale, shape), TensorType(to, shape)]
        fed = [reals(given, (7, 24)), scales(scale, shape), raw(to, shape)]
        if number % 2:
            types, fed, options = types[:2], fed[:2], {**options, "output_dtype": to.number}
        variants = [options]
        if to.name.startswith("float8"):
            variants += [{**options, "saturate": 0}, {**options, "precision": DTYPES["float16"].number}]
        for each in variants:
            title = f"{to} {scale} {each}"
            yield problem(title, lambda b, *v, o=each: b.QuantizeLinear(*v, **o), types, fed)


def test_quantization() -> None:
    for title, pair in compiled(list(quantizations())).items():
        ((got, expected),) = both(pair)
        numbers = [each.astype(np.float32) for each in (got, expected)]
        np.testing.assert_array_equal(*numbers, err_msg=title)


def dequantizations() -> Iterator[Problem]:
    for number, (given, scale, (shape, options)) in enumerate(product(QUANTIZED, SCALES, GRAINS)):
        rows = 7 if "block_size" in options else symbol("n")
        types = [TensorType(given, (rows, 24)), TensorType(scale, shape), TensorType(given, shape)]
        fed = [raw(given, (7, 24)), scales(scale, shape), raw(given, shape, 4)]
        if number % 2:
            types, fed = types[:2], fed[:2]
        target = DTYPES[("float32", "float16", "bfloat16")[number % 3]]
        chosen = {**options, "output_dtype": target.number} if scale == POWERS or number % 4 == 0 else options
        title = f"{given} {scale} {chosen}"
        yield problem(title, lambda b, *v, o=chosen: b.DequantizeLinear(*v, **o), types, fed)


def test_dequantization() -> None:
    for title, pair in compiled(list(dequantizations())).items():
        ((got, expected),) = both(pair)
        tiny = float(ml_dtypes.finfo(np.float32).smallest_normal)
        sizes = [np.abs(each.astype(np.float64)) for each in (got, expected)]
        is_flushed = (sizes[0] <= tiny) & (sizes[1] <= tiny)
        is_nan = np.isnan(sizes[0]) & np.isnan(sizes[1])
        assert np.all(is_flushed | is_nan | (bits(got) == bits(expected))), title


def moved(b: Any, x: Value, y: Value, chosen: Value, places: Value) -> list[Value]:
    """One value for each way of moving elements; the operands have the shape [n, 12]."""
    halves = b.Split(x, num_outputs=2, axis=1, outputs=2)
    return [
        b.Identity(b.Transpose(x)), b.Reshape(x, [-1, 4]), b.Concat(x, y, axis=0), b.Where(chosen, x, y),
        b.Slice(x, [10], [-13], [1], [-3]), b.Gather(x, places, axis=1), b.GatherND(x, b.Unsqueeze(places, [1])),
        b.GatherElements(x, b.Expand(places, b.Shape(x))),
        b.Pad(x, [0, 1, 0, 2], b.constant(np.ones((), x.dtype.numpy))), b.Pad(x, [0, 1, 0, 2], mode="reflect"),
        b.Tile(x, [2, 1]), b.Expand(b.Unsqueeze(x, [1]), [1, 3, 1]), b.Squeeze(b.Unsqueeze(y, [0]), [0]), *halves,
        b.ScatterElements(x, b.Expand(places, b.Shape(y)), y, axis=1), b.Flatten(x), b.Trilu(x),
        b.ConstantOfShape(b.Shape(x), value=Tensor(np.ones(1, x.dtype.numpy))),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", [*NARROW, DTYPES["complex64"], DTYPES["complex128"]], ids=str)
def test_movement_keeps_bits(dtype: DType) -> None:
    tensor = TensorType(dtype, (symbol("n"), 12))
    types = [tensor, tensor, tensor.with_dtype(BOOL), TensorType(DTYPES["int64"], (12,))]
    fed = [raw(dtype, (12, 12)), raw(dtype, (12, 12), 2), raw(BOOL, (12, 12)), np.arange(12)[::-1] * 5 % 12]
    pair = compiled([problem(f"moved {dtype}", moved, types, fed)])[f"moved {dtype}"]
    for index, (got, expected) in enumerate(both(pair)):
        assert np.array_equal(bits(got), bits(expected)), index


@pytest.mark.parametrize("dtype", [DTYPES[name] for name in NARROW_FLOATS if name.startswith("float8")], ids=str)
def test_special_values_are_found(dtype: DType) -> None:
    def build(b: Any, x: Value) -> list[Value]:
        return [b.IsNaN(x), *(b.IsInf(x, detect_negative=n, detect_positive=p) for n, p in ((1, 1), (1, 0), (0, 1)))]

    given = problem("special", build, [TensorType(dtype, (symbol("n"),))], [patterns(dtype)])
    for got, expected in both(compiled([given])["special"]):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("axis", [0, 1])
def test_extremes_of_truth_values(op: str, axis: int) -> None:
    for shape in ((5, 19), (19, 5), (3, 0), (0, 3), (1, 1)):
        types = [TensorType(BOOL, (symbol("n"), symbol("m")))]
        for likely in (0.1, 0.9):
            fed = [np.random.default_rng(5).random(shape) < likely]
            given = problem("truth", lambda b, x: getattr(b, op)(b.Not(x), [axis]), types, fed)
            ((got, expected),) = both(compiled([given])["truth"])
            np.testing.assert_array_equal(bits(got), bits(expected))


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
def test_the_mean_of_integers_counts_them_at_run_time(dtype: str) -> None:
    types = [TensorType(DTYPES[dtype], (symbol("n"), symbol("m")))]
    for axis, shape in product((0, 1), ((5, 19), (3, 70))):
        fed = [raw(DTYPES[dtype], shape)]
        given = problem("mean", lambda b, x, a=axis: b.ReduceMean(x, [a]), types, fed)
        pair = compiled([given])["mean"]
        ((got, expected),) = both(pair)
        np.testing.assert_array_equal(got, expected)
        for empty in ((0, 0), (0, 3) if axis == 0 else (3, 0)):
            with pytest.raises(OperatorError, match="mean of no integers"):
                pair[1].run([np.zeros(empty, dtype)])


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
def test_the_place_of_an_extreme_in_little(op: str) -> None:
    for dtype, shape in product((BOOL, DTYPES["float16"], DTYPES["int32"]), ((), (1,), (40,), (3, 40))):
        for last in (0, 1):
            types = [TensorType(dtype, shape)]
            build: Callable[..., Value] = lambda b, x, s=last: getattr(b, op)(x, axis=-1, select_last_index=s)  # noqa: E731
            ((got, expected),) = both(compiled([problem("place", build, types, [raw(dtype, shape)])])["place"])
            np.testing.assert_array_equal(got, expected, strict=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_range_may_be_rounded_at_each_step(dtype: str) -> None:
    def build(b: Any, start: Value, step: Value) -> Value:
        return b.Range(start, b.constant(3000, DTYPES[dtype]), step, stash_type=0)

    scalar = TensorType(DTYPES[dtype], ())
    fed = [np.array(0.3, DTYPES[dtype].numpy), np.array(7.7, DTYPES[dtype].numpy)]
    graph = problem("range", build, [scalar, scalar], fed)
    ((got, expected),) = zip(NativeEngine(graph.graph, 1).load().run(fed), evaluate(graph.graph, fed), strict=True)
    np.testing.assert_array_equal(bits(got), bits(expected))
