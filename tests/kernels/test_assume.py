"""Broadcasts that only the run can decide: right for every size, and cheap for the usual ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import parser

from intaglio.errors import IntaglioError
from intaglio.ir.build import Builder
from intaglio.ir.clone import clone
from intaglio.ir.dim import Dim, broadcast, floordiv, maximum, symbol
from intaglio.ir.dtype import FLOAT32, INT64
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType
from intaglio.kernels.assume import Assumptions, _Sizes
from intaglio.onnx.reader import read_model
from intaglio.onnx.writer import write_model
from intaglio.ops.evaluate import evaluate
from intaglio.runtime.engine.native import NativeEngine
from intaglio.runtime.model.loading import load
from intaglio.targets.c.compiler import Compiler

N, M, K = symbol("n"), symbol("m"), symbol("k")


def graph_of(build: Callable[..., Value | Sequence[Value]], *shapes: tuple[Dim, ...]) -> Graph:
    graph = Graph("assume")
    values = [graph.add_input(f"x{i}", TensorType(FLOAT32, shape)) for i, shape in enumerate(shapes)]
    builder = Builder(graph)
    with builder.active():
        result = build(builder, *values)
    graph.set_outputs([result] if isinstance(result, Value) else result)
    return graph


def numbers(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(np.float32)


def check(engine: NativeEngine, *shapes: tuple[int, ...]) -> None:
    inputs = [numbers(shape, seed) for seed, shape in enumerate(shapes)]
    for got, expected in zip(engine.run(inputs), evaluate(engine.graph, inputs), strict=True):
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def assumed(graph: Graph) -> list[tuple[Dim, Dim]]:
    assumptions = Assumptions()
    assumptions.settle(graph)
    return assumptions.pairs


def test_two_sizes_are_taken_to_be_equal() -> None:
    graph = graph_of(lambda b, x, y: b.Add(x, y), (N,), (M,))
    copy = clone(graph)
    assert len(assumed(copy)) == 1
    left, right = (value.shape for value in copy.inputs)
    assert left == right == copy.outputs[0].shape


def test_nothing_is_assumed_of_what_is_certain() -> None:
    graph = graph_of(lambda b, x, y: b.Mul(b.Add(x, y), 2.0), (N, M), (1, M))
    assert assumed(clone(graph)) == []


@pytest.mark.parametrize(
    ("build", "shapes", "wrong"),
    [
        (lambda b, x, y: b.Concat(x, y, axis=0), ((2, 3), (4, 3)), ((2, 3), (2, 5))),
        (lambda b, x, y: b.Concat(x, y, axis=-1), ((2, 3), (2, 5)), ((2, 3), (4, 3))),
        (lambda b, x, y: b.MatMul(x, y), ((2, 3), (3, 5)), ((2, 3), (5, 3))),
        (lambda b, x, y: b.MatMulInteger(b.Cast(x, to=3), b.Cast(y, to=3)), ((2, 3), (3, 5)), ((2, 3), (5, 3))),
    ],
)
def test_sizes_that_must_be_equal(build: Any, shapes: Any, wrong: Any) -> None:
    engine = NativeEngine(graph_of(build, (N, K), (M, symbol("j"))), 2).load()
    check(engine, *shapes)
    assert not engine.form.hosts
    with pytest.raises(IntaglioError):
        engine.run([numbers(shape, 1) for shape in wrong])


@pytest.mark.parametrize("sizes", [(5, 5), (1, 5), (5, 1), (1, 1), (0, 0), (1, 0), (0, 1), (33, 33)])
def test_equal_or_one_at_run_time(sizes: tuple[int, int]) -> None:
    build = lambda b, x, y: [b.Softmax(b.Add(b.Exp(b.Neg(b.Abs(x))), y)), b.Less(x, y)]  # noqa: E731
    n, m = sizes
    engine = NativeEngine(graph_of(build, (3, N), (3, M)), 1).load()
    check(engine, (3, n), (3, m))
    check(engine, (3, 4), (3, 4))
    check(engine, (3, n), (3, m))


def test_sizes_that_do_not_fit_are_refused_by_both() -> None:
    engine = NativeEngine(graph_of(lambda b, x, y: b.Add(x, y), (N,), (M,)), 1).load()
    inputs = [numbers((4,), 0), numbers((3,), 1)]
    with pytest.raises(IntaglioError):
        engine.run(inputs)
    with pytest.raises(IntaglioError):
        evaluate(engine.graph, inputs)


@pytest.mark.parametrize("sizes", [(4, 4, 4), (4, 1, 4), (1, 1, 4), (1, 4, 1), (4, 4, 1), (1, 1, 1)])
def test_three_sizes(sizes: tuple[int, int, int]) -> None:
    build = lambda b, x, y, z: b.Where(b.Less(x, y), b.Mul(y, z), z)  # noqa: E731
    engine = NativeEngine(graph_of(build, (N, 3), (M, 3), (K, 1)), 1).load()
    check(engine, *((size, 3) for size in sizes[:2]), (sizes[2], 1))


@pytest.mark.parametrize("size", [0, 1, 2, 17, 512])
def test_a_table_cut_to_the_length_of_the_input(size: int) -> None:
    """Position embeddings: the first n of 512 rows, which are min(512, n)."""
    table = numbers((512, 8), 5)

    def build(b: Any, x: Value) -> Value:
        length = b.Gather(b.Shape(x), [0])
        return b.Relu(b.Add(x, b.Slice(b.constant(table), [0], length, [0])))

    check(NativeEngine(graph_of(build, (N, 8)), 1).load(), (size, 8))


def test_a_size_and_its_double() -> None:
    """x has n columns and y twice as many: they fit only where n is 1 in one of them, or 0."""
    build = lambda b, x, y: b.Add(x, b.Concat(y, y, axis=0))  # noqa: E731
    engine = NativeEngine(graph_of(build, (N,), (M,)), 1).load()
    check(engine, (6,), (3,))
    check(engine, (1,), (3,))
    check(engine, (0,), (0,))


EARLY: dict[str, tuple[Callable[..., Value], Callable[[int], int]]] = {
    "n": (lambda b, x: b.Neg(x), lambda n: n),
    "2n": (lambda b, x: b.Concat(x, x, axis=0), lambda n: 2 * n),
    "2n + 3": (lambda b, x: b.Pad(b.Concat(x, x, axis=0), [1, 0, 2, 0]), lambda n: 2 * n + 3),
    "n // 2": (lambda b, x: b.Slice(x, [1], [2**40], [0], [2]), lambda n: n // 2),
    "max(n, 5)": (
        lambda b, x: b.Pad(x, b.Concat([0, 0], b.Max(5 - b.Shape(x, end=1), [0]), [0], axis=0)), lambda n: max(n, 5)
    ),
}  # fmt: skip
LATE: dict[str, Callable[..., Value]] = {
    "Reshape": lambda b, rows, flat, size: b.Reshape(flat, b.Concat(size, [4], axis=0)),
    "Expand": lambda b, rows, flat, size: b.Expand(b.Slice(rows, [0], [1], [0]), b.Concat(size, [4], axis=0)),
    "Slice": lambda b, rows, flat, size: b.Slice(b.Concat(rows, rows, axis=0), [0], size, [0]),
    "Pad": lambda b, rows, flat, size: b.Pad(
        b.Slice(rows, [0], [1], [0]), b.Concat([0, 0], b.Sub(size, [1]), [0], axis=0)
    ),
    "Compress": lambda b, rows, flat, size: b.Compress(
        rows, b.Greater(b.ReduceSum(b.Abs(rows), [1], keepdims=0), -1.0), axis=0
    ),
    "Tile": lambda b, rows, flat, size: b.Tile(b.Slice(rows, [0], [1], [0]), b.Concat(size, [1], axis=0)),
}
MEETS: dict[str, Callable[..., Value]] = {
    "Add": lambda b, known, found: b.Add(known, found),
    "Concat": lambda b, known, found: b.Concat(found, known, axis=1),
    "MatMul": lambda b, known, found: b.MatMul(b.Transpose(found, perm=[1, 0]), known),
    "Gemm": lambda b, known, found: b.Gemm(known, found, None, transA=1),
    "Where": lambda b, known, found: b.Where(b.Less(known, found), known, found),
}


@pytest.mark.parametrize("known", EARLY)
@pytest.mark.parametrize("late", LATE)
def test_a_size_that_is_known_is_never_replaced_by_one_that_is_found_later(known: str, late: str) -> None:
    """A known size meets the same size found in the run: what was computed with the first before must stay right."""
    early, size_of = EARLY[known]

    def build(b: Any, x: Value, size: Value) -> list[Value]:
        before = early(b, x)
        softmax = b.Softmax(b.Add(before, 1.0), axis=0)
        found = LATE[late](b, before, b.Reshape(before, [-1]), size)
        return [softmax, found, *(meet(b, softmax, found) for meet in MEETS.values()), b.Relu(b.Sub(before, found))]

    graph = Graph("order")
    x = graph.add_input("x", TensorType(FLOAT32, (N, 4)))
    size = graph.add_input("size", TensorType(INT64, (1,)))
    builder = Builder(graph)
    with builder.active():
        graph.set_outputs(build(builder, x, size))
    engine = NativeEngine(graph, 2).load()
    assert not engine.form.hosts
    for n in (3, 8, 4, 3):
        inputs = [numbers((n, 4), n) + 0.5, np.array([size_of(n)])]
        for got, expected in zip(engine.run(inputs), evaluate(engine.graph, inputs), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_a_size_told_by_a_node_that_was_merged_with_another() -> None:
    """Both NonZero find the same size; the readers of the second one know it by its own name."""

    def build(b: Any, x: Value) -> list[Value]:
        first, second = b.NonZero(b.Greater(x, 0.0)), b.NonZero(b.Greater(x, 0.0))
        rows = [b.GatherND(x, b.Transpose(places, perm=[1, 0])) for places in (first, second)]
        target = b.Concat(b.Shape(second, start=1), [1], axis=0)
        return [
            b.Add(rows[0], b.Exp(rows[1])),
            b.Reshape(rows[1], target),
            b.Mul(b.Expand(b.constant(2.0, FLOAT32), b.Shape(rows[1])), rows[0]),
        ]

    graph = graph_of(build, (N, 4))
    engine = NativeEngine(graph, 1).load()
    assert not engine.form.hosts
    for n in (3, 8, 0, 3):
        check(engine, (n, 4))
    model = load(write_model(graph))
    for n in (5, 2):
        x = numbers((n, 4), n)
        for got, expected in zip(model.run({"x0": x}).values(), evaluate(graph, [x]), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize("sizes", [(5, 5), (1, 5), (5, 1), (1, 1)])
def test_an_assumption_is_checked_although_nobody_reads_what_tells_the_size(sizes: tuple[int, int]) -> None:
    """Where both sizes are equal the Expand does nothing, and then nobody reads the Reshape that tells one of them."""
    graph = Graph("expand")
    x = graph.add_input("x", TensorType(FLOAT32, (N,)))
    flat = graph.add_input("flat", TensorType(FLOAT32, (M,)))
    target = graph.add_input("target", TensorType(INT64, (2,)))
    b = Builder(graph)
    graph.set_outputs([b.Neg(b.Expand(x, b.Shape(b.Reshape(flat, target), end=1)))])
    engine = NativeEngine(graph, 1).load()
    for n, m in ((3, 3), sizes, (3, 3)):
        inputs = [numbers((n,), 1), numbers((2 * m,), 2), np.array([m, 2])]
        np.testing.assert_array_equal(engine.run(inputs)[0], evaluate(graph, inputs)[0])


def test_one_element_of_an_axis_is_repeated_along_it() -> None:
    """A slice of one element is taken not to be empty, and nothing else is assumed of the axis."""
    build = lambda b, x: b.Sub(x, b.Mul(b.Slice(x, [0], [1], [1]), b.Slice(x, [0], [1], [0])))  # noqa: E731
    graph = graph_of(build, (N, M))
    assert {str(pair) for pair in assumed(clone(graph))} == {"(min(1, m), 1)", "(min(1, n), 1)"}
    engine = NativeEngine(graph, 1).load()
    for sizes in ((4, 5), (1, 1), (0, 3), (3, 0), (2, 9)):
        check(engine, sizes)
    assert len(engine.all_engines()) == 3  # one for each of the empty ones


@pytest.mark.parametrize("group", [1, 4])
@pytest.mark.parametrize("way", ["strides", "pools"])
@pytest.mark.parametrize("is_first", [False, True])
def test_views_whose_sizes_are_written_in_two_ways(way: str, is_first: bool, group: int) -> None:
    """A part of a sum is added to a convolution: both have the same sizes, by different expressions."""

    def build(b: Builder, x: Value) -> Sequence[Value]:
        left, step = b.MaxPool(x, kernel_shape=(2, 2), strides=(2, 2)), 2
        if way == "pools":
            left, step = b.MaxPool(left, kernel_shape=(2, 2), strides=(2, 2)), 4
        weights = b.constant(np.ones((8, 8, 1, 1) if step == 2 else (8, 8, 4, 4)) / 8, FLOAT32)
        right = b.Conv(x, weights, strides=(step, step))
        total = b.Add(left, right) if is_first else b.Add(right, left)
        first, second = b.Split(total, [4, 4], axis=1, outputs=2)
        filters = b.constant(np.arange(36 * 4 // group).reshape(4, 4 // group, 3, 3) / 36, FLOAT32)
        inner = b.Add(b.Conv(first, filters, pads=(1, 1, 1, 1), group=group), second)
        return inner, b.Add(b.Concat(inner, second, axis=1), left)

    engine = NativeEngine(graph_of(build, (N, 8, M, K)), 1).load()
    assert not engine.form.hosts
    for height, width in ((16, 8), (4, 4), (12, 20)):
        inputs = [numbers((2, 8, height, width), height)]
        for got, expected in zip(engine.run(inputs), evaluate(engine.graph, inputs), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-3)


def sampled_size(rng: np.random.Generator, depth: int = 2) -> Dim:
    """A size of inputs a, b and of values c.0 and d.0 that the run finds."""
    size: Dim = symbol(str(rng.choice(["a", "b", "c.0", "d.0"])))
    match int(rng.integers(5)) if depth else 0:
        case 1:
            size = size + int(rng.integers(1, 3))
        case 2:
            size = floordiv(size, 2) + 1
        case 3:
            size = broadcast(sampled_size(rng, depth - 1), sampled_size(rng, depth - 1))
        case 4:
            size = size * 2
        case _:
            pass
    return size


@pytest.mark.parametrize("seed", range(150))
def test_any_sizes_in_any_order_are_written_in_one_way(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = _Sizes()
    sizes.when = {"a": 0, "b": 0, "c.0": 1, "d.0": 2}
    pool = [sampled_size(rng) for _ in range(5)]
    pairs = [(pool[int(i)], pool[int(j)]) for i, j in rng.integers(0, 5, (6, 2))]
    added: list[tuple[Dim, Dim]] = []
    for left, right in pairs:
        added += sizes.assume((left, right), bool(rng.integers(2)))
        for dim in (left, right, *pool):
            assert sizes.apply(sizes.apply(dim)) == sizes.apply(dim)
        for one, other in added:
            assert sizes.apply(one) == sizes.apply(other)


@pytest.mark.parametrize("pairs", [
    [(N + 1, broadcast(N + 1, M + 2))],
    [(broadcast(2 * N, M + 2), 2 * N)],
    [(N + 1, M + 1), (N, M)],
    [(N + 1, M + 2), (K + 2, symbol("j") + 1), (symbol("j"), N), (K, M)],
])  # fmt: skip
def test_sizes_that_become_the_same_stand_for_themselves(pairs: list[tuple[Dim, Dim]]) -> None:
    sizes = _Sizes()
    sizes.when = dict.fromkeys(["n", "m", "k", "j"], 0)
    for pair in pairs:
        sizes.assume(pair, False)
    for left, right in pairs:
        assert sizes.apply(left) == sizes.apply(right)


FITTING = {
    "channels": "w = Constant<value = float[2,1,1] {1,2}>()  r = Unsqueeze(y, two)  z = Conv(r, w)",
    "window": "z = Conv(long, y3)",
    "product": "w = Constant<value = float[1,3] {1,2,3}>()  z = MatMul(y, w)",
    "scaled product": "w = Constant<value = float[3,1] {1,2,3}>()  z = Gemm<transB = 1>(y, w)",
    "sum of products": 'w = Constant<value = float[1,3] {1,2,3}>()  z = Einsum<equation = "ij,jk->ik">(y, w)',
    "new shape": "s = Constant<value_ints = [2,1]>()  z = Reshape(y, s)",
    "fewer axes": "s = Constant<value_ints = [1]>()  z = Squeeze(y, s)",
    "expanded": "s = Constant<value_ints = [2,5]>()  z = Expand(y, s)",
    "joined": "w = Constant<value = float[1,1] {1}>()  z = Concat<axis = 0>(y, w)",
    "normalised": "w = Constant<value = float[1] {2}>()  z = LayerNormalization<axis = -1>(y, w)",
}
"""Operators that take a y of sizes [2, d] only where d is 1; a window may also be shorter than the axis."""


@pytest.mark.parametrize("is_before", [True, False], ids=["broadcast first", "broadcast last"])
@pytest.mark.parametrize("fitting", sorted(FITTING))
def test_what_may_be_broadcast_is_not_assumed_against_what_must_fit(fitting: str, is_before: bool) -> None:
    """A size that meets 7 in a sum, and that another node takes only where it is 1."""
    lines = ["q = Add(x, y)", FITTING[fitting]]
    model = parser.parse_model(f"""
        <ir_version: 10, opset_import: ["" : 21]>
        g (float[2,7] x, float[2,d] y, float[1,1,d] y3, float[1,1,5] long) => (q, z) {{
            two = Constant<value_ints = [2]>()
            {"  ".join(lines if is_before else lines[::-1])}
        }}""")
    generator = np.random.default_rng(0)
    feeds = [generator.standard_normal(shape).astype(np.float32) for shape in [(2, 7), (2, 1), (1, 1, 1), (1, 1, 5)]]
    native, reference = (load(model, engine=engine)(*feeds) for engine in ("native", "reference"))
    for got, expected in zip(native, reference, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


SLOPES = [
    ("d,1,15", "d,d", (1, 1, 15), (1, 1)),
    ("1,8,a", "s,t,u", (1, 8, 3), (1, 1, 3)),
    ("1,8,a", "s,t,u", (1, 8, 3), (1, 8, 1)),
    ("1,8,a", "s,t,u", (1, 8, 3), (2, 8, 1)),
    ("n,m", "m", (2, 3), (3,)),
    ("n,m", "k", (2, 3), (1,)),
    ("n,m", "k", (2, 1), (3,)),
    ("n,m", "p,k", (1, 3), (2, 3)),
]


@pytest.mark.parametrize(("data", "slope", "sizes", "slopes"), SLOPES)
def test_a_slope_is_repeated_and_never_the_data(
    data: str, slope: str, sizes: tuple[int, ...], slopes: tuple[int, ...]
) -> None:
    """PRelu is read where its slope may fit, and refused in the run where it does not."""
    text = f"g (float[{data}] x, float[{slope}] s) => (y) {{ y = PRelu(x, s) }}"
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}')
    x, s = numbers(sizes, 0), numbers(slopes, 1)
    for engine in ("native", "reference"):
        if np.broadcast_shapes(sizes, slopes) != sizes:
            with pytest.raises(IntaglioError):
                load(model, engine=engine)(x, s)
            continue
        np.testing.assert_array_equal(load(model, engine=engine)(x, s), np.where(x < 0, x * s, x), strict=True)


EXPORTED = """<ir_version: 8, opset_import: ["" : 17]>
g (float[B,3,H,W] x, float[8,3,7,7] k, float[8,8,8,8] r) => (y) {
  one = Constant<value_int = 1>()  four = Constant<value_int = 4>()  eight = Constant<value_int = 8>()
  less = Constant<value_int = -1>()  seven = Constant<value_int = -7>()  flat = Constant<value_ints = [-1]>()
  c = Conv<kernel_shape = [7, 7], strides = [4, 4], pads = [3, 3, 3, 3]>(x, k)
  s = Shape(x)  zero = Constant<value_int = 0>()  two = Constant<value_int = 2>()  three = Constant<value_int = 3>()
  b = Gather(s, zero)  h = Gather(s, two)  w = Gather(s, three)  bs = Reshape(b, flat)  cs = Reshape(eight, flat)
  h1 = Add(h, less)  w1 = Add(w, less)  hd = Div(h1, four)  wd = Div(w1, four)  hq = Add(hd, one)  wq = Add(wd, one)
  n = Mul(hq, wq)  ns = Reshape(n, flat)
  t1 = Concat<axis = 0>(bs, cs, ns)  rows = Reshape(c, t1)  query = Transpose<perm = [0, 2, 1]>(rows)
  d = Conv<kernel_shape = [8, 8], strides = [8, 8]>(c, r)
  he = Add(hd, seven)  we = Add(wd, seven)  hf = Div(he, eight)  wf = Div(we, eight)
  hg = Add(hf, one)  wg = Add(wf, one)  m = Mul(hg, wg)  ms = Reshape(m, flat)
  t2 = Concat<axis = 0>(bs, cs, ms)  key = Reshape(d, t2)
  y = MatMul(query, key) }"""


def test_sizes_that_a_file_divides_are_those_of_its_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's exporter writes the sizes of convolutions with integer divisions, which round towards zero."""
    key = read_model(parser.parse_model(EXPORTED)).graph.outputs[0].shape[2]
    height, width = (floordiv(maximum(floordiv(maximum(side - 1, 0), 4) - 7, 0), 8) for side in map(symbol, "HW"))
    assert key == (height + 1) * (width + 1)
    model = load(parser.parse_model(EXPORTED), engine="native", strict=True)
    monkeypatch.setattr(Compiler, "compile_unit", None)  # whatever is compiled from here on fails
    reference = load(parser.parse_model(EXPORTED), engine="reference")
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=shape).astype(np.float32) / 20 for shape in ((8, 3, 7, 7), (8, 8, 8, 8))]
    for shape in ((2, 3, 64, 40), (1, 3, 33, 70), (3, 3, 29, 29)):
        x = rng.normal(size=shape).astype(np.float32)
        np.testing.assert_allclose(model(x, *weights), reference(x, *weights), rtol=1e-4, atol=1e-4)


def test_powers_of_sizes_are_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A square picture's number of pixels, as PyTorch's exporter writes it, is that of the flat picture."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[B,N,N] x, float[B,N,N] z) => (y) {
      s = Shape<start = 1, end = 2>(x)  two = Constant<value_ints = [2]>()  p = Pow(s, two)  b = Shape<end = 1>(x)
      t = Concat<axis = 0>(b, p)  flat = Reshape(x, t)  u = Constant<value_ints = [0, -1]>()  other = Reshape(z, u)
      y = Add(flat, other) }"""
    model = load(parser.parse_model(text), engine="native", strict=True)
    assert str(read_model(parser.parse_model(text)).graph.outputs[0].type) == "float32[B, N*N]"
    monkeypatch.setattr(Compiler, "compile_unit", None)
    for batch, side in ((2, 3), (1, 1), (3, 8)):
        x = np.arange(batch * side * side, dtype=np.float32).reshape(batch, side, side)
        np.testing.assert_array_equal(model(x, x), 2 * x.reshape(batch, -1))
