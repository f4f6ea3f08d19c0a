"""Loop kernels against the reference: broadcasts, views, reductions with what is fused around them, row operators."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from intaglio.errors import CompileError
from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim, symbol
from intaglio.ir.dtype import DTYPES, from_numpy
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType
from intaglio.kernels.schedule import Facts
from intaglio.ops.evaluate import evaluate
from intaglio.runtime.engine.native import NativeEngine
from intaglio.runtime.model.batch import compile_together
from intaglio.targets import executor_for
from intaglio.targets.c import cache
from intaglio.targets.c.compiler import find_compiler
from intaglio.targets.c.target import Target, host_target, named_target

Array = np.ndarray[Any, Any]
Build = Callable[..., Value | Sequence[Value]]

LENGTHS = [0, 1, 2, 15, 16, 17, 31, 33, 1000]
F32 = DTYPES["float32"]


@dataclass(frozen=True)
class Problem:
    """A graph, inputs for it, and how far the native results may be from the reference."""

    title: str
    graph: Graph
    inputs: tuple[Array, ...]
    rtol: float = 0.0
    atol: float = 0.0


def make_graph(build: Build, types: Sequence[TensorType]) -> Graph:
    graph = Graph("problem")
    values = [graph.add_input(f"x{i}", type) for i, type in enumerate(types)]
    builder = Builder(graph)
    with builder.active():
        result = build(builder, *values)
    graph.set_outputs([result] if isinstance(result, Value) else result)
    return graph


def problem(title: str, build: Build, *inputs: Array, rtol: float = 0.0, atol: float = 0.0) -> Problem:
    graph = make_graph(build, [TensorType(from_numpy(a.dtype), a.shape) for a in inputs])
    return Problem(title, graph, inputs, rtol, atol)


def numbers(*shape: int, dtype: Any = np.float32, seed: int = 1) -> Array:
    """Small numbers, of which sums are exact in single precision."""
    return np.random.default_rng([seed, *shape]).integers(-8, 9, shape).astype(dtype)


def broadcasts() -> Iterator[Problem]:
    shapes: list[tuple[tuple[int, ...], ...]] = [
        ((), ()), ((), (5,)), ((1,), ()), ((3, 1), (1, 5)), ((4, 5), (5,)), ((4, 5), (4, 1)), ((2, 3, 4), (3, 1)),
        ((2, 1, 4), (1, 3, 1)), ((1, 1), (7, 33)), ((2, 3, 4, 5), (2, 1, 4, 1)),
        ((2, 1, 2, 1, 2, 1), (1, 3, 1, 3, 1, 3)),
        ((2, 2, 2, 2, 2, 2), (2, 1, 2, 1, 2)), ((0,), (1,)), ((3, 0), (3, 1)), ((0, 4), (1,)), ((1, 17), (9, 1)),
        ((1,), (40000,)), ((3, 20000), (3, 1)),
    ]  # fmt: skip
    for left, right in shapes:
        for dtype in (np.float32, np.int8, np.float16):
            arrays = numbers(*left, dtype=dtype), numbers(*right, dtype=dtype, seed=2)
            yield problem(f"Sub-{left}-{right}-{np.dtype(dtype)}", lambda b, x, y: b.Sub(x, y), *arrays)
        condition = numbers(*left) > 0
        yield problem(
            f"Where-{left}-{right}", lambda b, c, x: b.Where(c, x, b.constant(3.0, x.dtype)), condition, numbers(*right)
        )


def views() -> Iterator[Problem]:
    x = numbers(4, 6, 20)
    moves: dict[str, Build] = {
        "transpose": lambda b, x: b.Transpose(x, perm=[2, 0, 1]),
        "reverse": lambda b, x: b.Slice(x, [-1, -1], [-100, -100], [0, 2], [-1, -1]),
        "steps": lambda b, x: b.Slice(x, [1, 17], [6, 0], [1, 2], [2, -3]),
        "empty": lambda b, x: b.Slice(x, [5], [2], [1]),
        "expand": lambda b, x: b.Expand(b.Slice(x, [2], [3], [1]), [4, 6, 20]),
        "split": lambda b, x: b.Split(x, [5, 9, 6], axis=2, outputs=3)[1],
        "reshape": lambda b, x: b.Reshape(b.Transpose(x, perm=[1, 0, 2]), [6, 80]),
        "reshape of a slice": lambda b, x: b.Reshape(b.Slice(x, [1], [3], [0]), [12, 20]),
        "unsqueeze": lambda b, x: b.Unsqueeze(b.Transpose(x), [0, 2]),
        "all": lambda b, x: b.Slice(b.Transpose(b.Slice(x, [5], [-100], [1], [-2])), [0], [20], [0], [3]),
    }
    for title, move in moves.items():
        yield problem(f"view-{title}", lambda b, x, m=move: b.Add(b.Exp(m(b, x)), m(b, x)), x, rtol=3e-6)
        yield problem(f"copy-{title}", lambda b, x, m=move: m(b, x), x)
        yield problem(f"sum-{title}", lambda b, x, m=move: b.ReduceSum(m(b, x), [-1]), x)
        yield problem(f"behind-{title}", lambda b, x, m=move: b.Neg(m(b, b.Add(x, x))), x)
    for dtype in (np.bool_, np.int16, np.float64, np.float16, np.uint64):
        narrow = numbers(5, 7, 3, dtype=dtype)
        yield problem(f"copy-{np.dtype(dtype)}", lambda b, x: b.Slice(b.Transpose(x), [-1], [-9], [1], [-2]), narrow)


AXES: list[tuple[tuple[int, ...], list[int] | None]] = [
    ((33,), [0]), ((4, 33), [1]), ((33, 5), [0]), ((3, 17, 40), [1]), ((3, 17, 40), [0]), ((3, 17, 40), [0, 2]),
    ((3, 17, 40), [1, 2]), ((3, 17, 40), [0, 1]), ((3, 17, 40), None), ((2, 3, 4, 5), [1, 3]), ((2, 3, 4, 5), [0, 2]),
    ((2, 3, 2, 3, 2, 3), [-1, 0, 3]), ((0, 5), [0]), ((0, 5), [1]), ((5, 0), [1]), ((0,), None), ((4, 1), [1]),
    ((1, 1), None), ((), None), ((), []), ((1, 70), [0]), ((7, 1, 9), [1]),
]  # fmt: skip


def reductions() -> Iterator[Problem]:
    names = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")
    for (shape, axes), keepdims in itertools.product(AXES, (0, 1)):
        x = numbers(*shape)
        for name in names:
            build: Build = lambda b, x, n=name, a=axes, k=keepdims: getattr(b, n)(x, a, keepdims=k)  # noqa: E731
            yield problem(f"{name}-{shape}-{axes}-{keepdims}", build, x, rtol=1e-6)
            fused: Build = lambda b, x, n=name, a=axes, k=keepdims: b.Sqrt(  # noqa: E731
                b.Abs(getattr(b, n)(b.Mul(b.Add(x, x), b.Exp(b.Neg(b.Abs(x)))), a, keepdims=k))
            )
            yield problem(f"fused-{name}-{shape}-{axes}-{keepdims}", fused, x, rtol=3e-6, atol=1e-6)
        if keepdims:
            both: Build = lambda b, x, a=axes: [b.Sub(x, b.ReduceMean(x, a)), b.ReduceMax(b.Neg(x), a)]  # noqa: E731
            yield problem(f"both-{shape}-{axes}", both, x, rtol=1e-6, atol=1e-6)
    yield from typed_reductions()


def typed_reductions() -> Iterator[Problem]:
    names = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")
    for dtype in ("int32", "int64", "uint32", "uint64", "float16", "bfloat16", "float64", "int8", "uint8"):
        numpy = DTYPES[dtype].numpy
        for name, axis in itertools.product(names, (0, 1)):
            if dtype in ("int8", "uint8") and name not in ("ReduceMax", "ReduceMin"):
                continue
            x = numbers(6, 21, dtype=numpy)
            if DTYPES[dtype].is_integer and (name, dtype) != ("ReduceMean", "int64"):
                info = np.iinfo(numpy)
                x[0, :4], x[1, 2:5] = info.max, info.min
            if name == "ReduceProd":
                x = np.where(np.arange(21) < 9, x, 1).astype(numpy)
            build: Build = lambda b, x, n=name, a=axis: getattr(b, n)(x, [a])  # noqa: E731
            yield problem(f"{name}-{dtype}-{axis}", build, x, rtol=1e-6 if dtype == "float64" else 0)
    special = np.array([[1, np.nan, 3], [np.inf, -np.inf, 0], [-np.inf, -np.inf, -np.inf], [np.inf, 1, 2]], np.float32)
    for name, axis, width in itertools.product(names, (0, 1), (3, 40)):
        wide = np.pad(special, ((0, 0), (0, width - 3)), constant_values=1)
        yield problem(f"{name}-special-{axis}-{width}", lambda b, x, n=name, a=axis: getattr(b, n)(x, [a]), wide)


def norms(x: Array) -> dict[str, tuple[Build, Sequence[Array]]]:
    """The row operators on [rows, columns]."""
    columns = x.shape[-1]
    scale, bias = numbers(columns, seed=3), numbers(columns, seed=4)
    image = x[:, None, :] if x.ndim == 2 else x
    one = numbers(1, seed=5)
    pair, ones, twos = np.concatenate([image, image + 1], 1), numbers(2, seed=6), numbers(2, seed=7)
    return {
        "Softmax": (lambda b, x: b.Softmax(x), [x]),
        "Softmax0": (lambda b, x: b.Softmax(x, axis=0), [x]),
        "LogSoftmax": (lambda b, x: b.LogSoftmax(x), [x]),
        "LayerNormalization": (lambda b, *v: b.LayerNormalization(*v), [x, scale, bias]),
        "RMSNormalization": (lambda b, *v: b.RMSNormalization(*v), [x, scale]),
        "InstanceNormalization": (lambda b, *v: b.InstanceNormalization(*v), [image, one, one]),
        "GroupNormalization": (lambda b, *v: b.GroupNormalization(*v, num_groups=2), [pair, ones, twos]),
        "ReduceLogSumExp": (lambda b, x: b.ReduceLogSumExp(x, [-1]), [x]),
        "ReduceL2": (lambda b, x: b.ReduceL2(x, [-1]), [x]),
    }


def rows() -> Iterator[Problem]:
    for length in LENGTHS:
        for title, (build, inputs) in norms(numbers(3, length)).items():
            yield problem(f"{title}-{length}", build, *inputs, rtol=2e-5, atol=2e-6)
    huge = np.array([[1e38, -1e38, 3e38], [-3e38, -3e38, -2.9e38], [88, 89, 1000], [-1000, -2000, 0], [1e4, 1e4, 1e4]])
    for title in ("Softmax", "Softmax0", "LogSoftmax", "ReduceLogSumExp"):
        build, inputs = norms(np.tile(huge, (1, 7)).astype(np.float32))[title]
        yield problem(f"{title}-huge", build, *inputs, rtol=2e-6, atol=2e-6)
    infinite = np.array([[-np.inf, 0, 1], [-np.inf] * 3, [np.inf, 0, 1], [np.nan, 0, 1]], np.float32)
    for title in ("Softmax", "LogSoftmax", "ReduceLogSumExp"):
        build, inputs = norms(infinite)[title]
        yield problem(f"{title}-infinite", build, *inputs, rtol=2e-6, atol=2e-6)
    for dtype, tolerance in (("float16", 2e-3), ("bfloat16", 1e-2), ("float64", 1e-13)):
        x = numbers(3, 33).astype(DTYPES[dtype].numpy)
        for title in ("Softmax", "LogSoftmax", "ReduceL2"):
            yield problem(f"{title}-{dtype}", norms(x)[title][0], x, rtol=tolerance, atol=tolerance / 8)


def groups() -> Iterator[Problem]:
    x, y = numbers(5, 33), numbers(33, seed=2)

    def many(b: Any, x: Value, y: Value) -> list[Value]:
        value, kept = x, list[Value]()
        for i in range(60):
            value = (value * 0.5 + y) if i % 3 else b.Where(b.Less(value, y), value, b.Neg(value))
            kept += [value] if i % 10 == 0 else []
        return [value, *kept]

    yield problem("many nodes", many, x, y, rtol=1e-5, atol=1e-5)
    yield problem(
        "siblings", lambda b, x, y: b.Mul(b.Exp(b.Mul(x, y)), b.Tanh(b.Sub(x, y))), x, y, rtol=1e-5, atol=1e-6
    )
    yield problem(
        "two levels",
        lambda b, x, y: (lambda r: [r, b.Add(b.Softmax(r), b.ReduceMean(b.Mul(r, y), [1]))])(b.Add(x, b.Exp(b.Neg(x)))),
        x, y, rtol=1e-5, atol=1e-4,
    )  # fmt: skip
    yield problem("masks", lambda b, x, y: b.Not(b.Or(b.Less(x, y), b.And(b.Equal(x, y), b.IsNaN(x)))), x, y)
    yield problem(
        "mixed widths",
        lambda b, x, y: b.Where(
            b.Xor(b.Less(x, y), b.Greater(b.Cast(x, to=DTYPES["float64"].number), b.constant(1.5, DTYPES["float64"]))),
            b.Cast(x, to=DTYPES["int8"].number),
            b.Cast(y, to=DTYPES["int8"].number),
        ),
        x, y,
    )  # fmt: skip
    yield problem("bool sums", lambda b, x, y: b.ReduceSum(b.Cast(b.Less(x, y), to=DTYPES["int64"].number), [1]), x, y)
    yield problem("a bool kept for a later pass", _mask_of_maximum, x, y)
    yield problem("a long row", lambda b, x: b.Relu(x), numbers(3 * Facts().chunk + 5))
    yield problem("long rows", lambda b, x, y: b.Add(x, y), numbers(3, Facts().chunk + 1), numbers(3, 1))
    yield problem("an input as output", lambda b, x, y: [b.Identity(x), b.Add(x, y), b.Add(x, y)], x, y)


def _mask_of_maximum(b: Any, x: Value, y: Value) -> list[Value]:
    small = b.Less(x, y)
    chosen = b.Where(small, x, b.constant(-9.0, x.dtype))
    top = b.ReduceMax(chosen, [1])
    return [b.Where(b.And(small, b.Equal(chosen, top)), top, x), small]


PROBLEMS = {p.title: p for p in itertools.chain(broadcasts(), views(), reductions(), rows(), groups())}


@pytest.fixture(scope="module")
def engines() -> dict[str, NativeEngine]:
    """An engine for each problem, all compiled together."""
    found = {title: NativeEngine(p.graph, 2) for title, p in PROBLEMS.items()}
    compile_together(found.values())
    return {title: engine.load() for title, engine in found.items()}


def check(got: Sequence[Array], expected: Sequence[Array], rtol: float, atol: float) -> None:
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        if ours.dtype.kind in "biu":
            np.testing.assert_array_equal(ours, theirs)
        else:
            np.testing.assert_allclose(ours.astype(np.float64), theirs.astype(np.float64), rtol, atol)


def reference(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing
        return evaluate(graph, list(inputs))


@pytest.mark.parametrize("title", PROBLEMS)
def test_agrees_with_the_reference(title: str, engines: dict[str, NativeEngine]) -> None:
    p, engine = PROBLEMS[title], engines[title]
    assert not engine.form.hosts
    check(engine.run(p.inputs), reference(p.graph, p.inputs), p.rtol, p.atol)


@pytest.mark.parametrize("name", ["c", "sse2", "avx2"])
def test_agrees_on_other_targets(name: str) -> None:
    try:
        target = named_target(name)
    except CompileError as error:
        pytest.skip(str(error))
    chosen = list(PROBLEMS.values())[::5]
    for p, engine in zip(chosen, compiled_for(target, chosen), strict=True):
        check(engine.run(p.inputs), reference(p.graph, p.inputs), p.rtol, p.atol)


def compiled_for(target: Target, problems: Sequence[Problem]) -> list[NativeEngine]:
    made = [NativeEngine(p.graph, 1, executor_for(target=target)) for p in problems]
    functions = dict.fromkeys(function for engine in made for function in engine.functions())
    cache.ensure(list(functions), find_compiler(), target)
    return [engine.load() for engine in made]


def run_sanitized() -> None:
    """Run a sample of the problems with sanitizers that end the process; called in one that has them loaded."""
    os.environ.pop("LD_PRELOAD", None)  # the compiler, whose memory is limited, does without
    flags = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-sanitize=vptr")
    target = replace(host_target(), flags=(*host_target().flags, *flags))
    chosen = list(PROBLEMS.values())[::9]
    for p, engine in zip(chosen, compiled_for(target, chosen), strict=True):
        check(engine.run(p.inputs), reference(p.graph, p.inputs), p.rtol, p.atol)


@pytest.mark.slow
def test_kernels_do_nothing_undefined() -> None:
    compiler = shutil.which("gcc")
    library = "" if compiler is None else subprocess.check_output([compiler, "-print-file-name=libasan.so"], text=True)
    used = find_compiler()
    if not os.path.isabs(library.strip()) or used is None or used.kind != "gcc":
        pytest.skip("gcc with its sanitizers is needed")
    environment = {**os.environ, "LD_PRELOAD": library.strip(), "ASAN_OPTIONS": "detect_leaks=0"}
    code = f"import runpy; runpy.run_path({__file__!r})['run_sanitized']()"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


def symbolic_graph() -> Graph:
    rows, columns = symbol("rows"), symbol("columns")

    def build(b: Any, x: Value, y: Value, z: Value) -> list[Value]:
        shifted = b.Add(b.Transpose(b.Relu(x)), y)
        weights = b.Softmax(b.Slice(b.Mul(shifted, z), [-1], [-(2**62)], [1], [-1]))
        halves = b.Split(b.Concat(weights, weights, axis=1), axis=1, num_outputs=2, outputs=2)
        return [weights, b.ReduceMean(b.Exp(halves[1]), [0]), b.Reshape(b.Tanh(shifted), [-1])]

    shapes: list[tuple[Dim, ...]] = [(rows, columns), (columns, 1), (columns, rows)]
    return make_graph(build, [TensorType(F32, shape) for shape in shapes])


@pytest.fixture(scope="module")
def symbolic_engine() -> NativeEngine:
    return NativeEngine(symbolic_graph(), 2).load()


def symbolic_inputs(rows: int, columns: int) -> list[Array]:
    return [numbers(rows, columns), numbers(columns, 1, seed=2), numbers(columns, rows, seed=3)]


def test_one_engine_serves_any_size_without_another_compile(
    symbolic_engine: NativeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any) -> Any:
        raise AssertionError("a size must not need the compiler")

    monkeypatch.setattr(cache, "ensure", refuse)
    generator = np.random.default_rng(7)
    sizes = [(0, 0), (0, 3), (3, 0), (1, 1), (1, 9), (9, 1), *generator.integers(1, 70, (94, 2)).tolist()]
    for rows, columns in sizes:
        inputs = symbolic_inputs(rows, columns)
        check(symbolic_engine.run(inputs), reference(symbolic_engine.graph, inputs), 1e-5, 1e-5)


def test_any_number_of_threads_gives_the_same_bits() -> None:
    x = np.random.default_rng(3).standard_normal((257, 1031)).astype(np.float32)
    scale = np.ones(1031, np.float32)

    def build(b: Any, x: Value, scale: Value) -> list[Value]:
        y = b.LayerNormalization(b.Mul(x, 3.0), scale)
        return [y, b.Softmax(y), b.ReduceSum(y), b.ReduceSum(b.Exp(y), [0]), b.Gelu(y), b.ReduceMax(y, [1])]

    graph = make_graph(build, [TensorType(F32, x.shape), TensorType(F32, scale.shape)])
    first, *others = [NativeEngine(graph, threads).load().run([x, scale]) for threads in (1, 2, 3, 8)]
    for other in others:
        for left, right in zip(first, other, strict=True):
            assert left.tobytes() == right.tobytes()


SHAPES = st.lists(st.integers(0, 5), max_size=6).map(tuple)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(shape=SHAPES, data=st.data())
def test_any_broadcast_and_reduction(shape: tuple[int, ...], data: st.DataObject) -> None:
    """Operands with any axes of extent 1 or missing, a permutation, and a reduction along any axes."""
    rank = len(shape)
    other = tuple(1 if data.draw(st.booleans()) else extent for extent in shape)[data.draw(st.integers(0, rank)) :]
    order = data.draw(st.permutations(range(rank)))
    axes = data.draw(st.lists(st.integers(0, rank - 1), unique=True)) if rank else []

    def build(b: Any, x: Value, y: Value) -> list[Value]:
        moved = b.Transpose(b.Sub(x, y), perm=list(order)) if rank else b.Sub(x, y)
        total = b.ReduceSum(moved, axes)
        return [moved, total, b.Mul(moved, total) if axes else b.Neg(total), b.ReduceMax(x, axes, keepdims=0)]

    inputs = [numbers(*shape), numbers(*other, seed=2)]
    graph = make_graph(build, [TensorType(F32, array.shape) for array in inputs])
    check(NativeEngine(graph, 1).load().run(inputs), reference(graph, inputs), 0, 0)
