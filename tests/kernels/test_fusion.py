"""What is computed together, and what must not be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx.parser
import pytest

from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import DTYPES
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType
from intaglio.kernels.fusion import GROUP_LIMIT
from intaglio.kernels.plan_form import HostForm
from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate
from intaglio.runtime.engine.native import NativeEngine

F32 = DTYPES["float32"]
SHAPE = (6, 20)


def graph_of(build: Callable[..., Value | Sequence[Value]], *shapes: tuple[Any, ...]) -> Graph:
    graph = Graph("fusion")
    values = [graph.add_input(f"x{i}", TensorType(F32, shape)) for i, shape in enumerate(shapes or (SHAPE,))]
    builder = Builder(graph)
    with builder.active():
        result = build(builder, *values)
    graph.set_outputs([result] if isinstance(result, Value) else result)
    return graph


def kernels(graph: Graph) -> list[str]:
    """The operators of each call in order; host nodes in brackets."""
    titles: list[str] = []
    for step in NativeEngine(graph, 1).form.parts:
        if isinstance(step, HostForm):
            titles.append(f"[{step.node.operator}]")
        else:
            titles += [action.title.split(" -> ")[0].split(" of ")[0] for action in step.actions]
    return titles


def check(graph: Graph) -> None:
    generator = np.random.default_rng(1)
    inputs = [generator.standard_normal([int(n) for n in v.shape]).astype(v.dtype.numpy) for v in graph.inputs]
    for got, expected in zip(NativeEngine(graph, 1).load().run(inputs), evaluate(graph, inputs), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


CASES: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "a chain": (lambda b, x: b.Relu(b.Add(b.Exp(x), x)), ["Exp + Add + Relu"]),
    "siblings that meet": (lambda b, x: b.Mul(b.Exp(b.Neg(x)), b.Tanh(b.Abs(x))), ["Neg + Exp + Abs + Tanh + Mul"]),
    "a composite": (lambda b, x: b.Gelu(x), ["Mul + Erf + Add"]),
    "two outputs": (lambda b, x: [b.Exp(x), b.Neg(b.Exp(x))], ["Exp + Neg"]),
    "a row operator": (lambda b, x: b.Softmax(b.Neg(x)), ["Neg + ReduceMax + Sub + Exp + ReduceSum + Div"]),
    "rows behind a reduction": (lambda b, x: b.Sqrt(b.ReduceSum(b.Mul(x, x), [1])), ["Mul + ReduceSum + Sqrt"]),
    "siblings, one of them reduced": (
        lambda b, x: b.Sub(b.Exp(x), b.ReduceMax(b.Abs(x), [1])), ["Exp + Abs + ReduceMax + Sub"]
    ),
    "strangers": (lambda b, x: [b.Exp(x), b.Tanh(x)], ["Exp", "Tanh"]),
    "a value that a view reads in between": (
        lambda b, x: (lambda y: [b.Neg(b.Transpose(y)), b.Add(y, x)])(b.Exp(x)), ["Exp", "Neg", "Add"],
    ),
    "a sibling that a view reads in between": (
        lambda b, x: (lambda y: [b.Transpose(y), b.Mul(b.Tanh(x), y)])(b.Exp(x)),
        ["Exp", "Tanh + Mul", "transposed copy"],
    ),
    "two reductions along different axes": (
        lambda b, x: b.ReduceSum(b.Sub(x, b.ReduceMax(x, [1])), [0]), ["ReduceMax + Sub", "ReduceSum"],
    ),
    "what was broadcast": (lambda b, x: b.Mul(b.Exp(b.Slice(x, [0], [1], [0])), x), ["Exp", "Mul"]),
}  # fmt: skip


@pytest.mark.parametrize("title", CASES)
def test_what_fuses(title: str) -> None:
    build, expected = CASES[title]
    graph = graph_of(build)
    assert kernels(graph) == expected
    check(graph)


def test_a_cycle_through_another_kernel_is_not_closed() -> None:
    """The sum reads both the exponential and a product of it, so it cannot be in the exponential's kernel."""
    graph = graph_of(lambda b, x, w: (lambda y: b.Add(y, b.MatMul(y, w)))(b.Exp(x)), (8, 16), (16, 16))
    assert [text.split(" 8 x")[0] for text in kernels(graph)] == ["Exp", "MatMul + Add"]
    check(graph)


def test_siblings_with_a_path_between_them_stay_apart() -> None:
    def build(b: Any, x: Value, w: Value) -> Value:
        left = b.Exp(x)
        right = b.Neg(b.Transpose(b.MatMul(left, w)))
        return b.Mul(left, b.Transpose(b.Abs(right)))

    graph = graph_of(build, (16, 16), (16, 16))
    assert kernels(graph)[0] == "Exp"
    check(graph)


def test_a_value_that_a_subgraph_reads_is_there_before_it_runs() -> None:
    """The branch reads `y`, so the sum that reads `y` behind it must not draw the computation of `y` there."""
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 21]>
        g (float[4] x, bool c) => (float[4] r, float[4] z) {
            y = Exp(x)
            r = If(c) <
                then_branch = t () => (float[4] p) { p = Neg(y) },
                else_branch = e () => (float[4] q) { q = Identity(y) }
            >
            z = Add(y, x)
        }
    """)
    graph = read_model(model).graph
    engine = NativeEngine(graph, 1).load()
    x = np.arange(4, dtype=np.float32)
    for condition in (True, False):
        inputs = [x, np.array(condition)]
        for got, expected in zip(engine.run(inputs), evaluate(graph, inputs), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("channels", "is_apart"), [(1, False), (2, True), (3, True), (4, True), (5, False), (16, False)]
)
def test_dear_functions_of_few_channels_have_whole_vectors(channels: int, is_apart: bool) -> None:
    def build(b: Builder, x: Value, w: Value) -> Value:
        return b.Sigmoid(b.Relu(b.Conv(x, w, pads=(1, 1, 1, 1))))

    graph = graph_of(build, (1, 8, 6, 7), (channels, 8, 3, 3))
    titles = kernels(graph)
    assert ("Sigmoid" in titles) == is_apart
    assert any(title.startswith("Conv + Relu") for title in titles)
    check(graph)


def test_a_kernel_holds_so_many_nodes() -> None:
    def build(b: Any, x: Value) -> Value:
        for _ in range(GROUP_LIMIT + 5):
            x = b.Sqrt(b.Abs(x))
        return x

    graph = graph_of(build)
    form = NativeEngine(graph, 1).form
    counts = [len(action.served) for segment in form.segments for action in segment.actions]
    assert max(counts) == GROUP_LIMIT
    assert sum(counts) == 2 * GROUP_LIMIT + 10
    check(graph)


def test_symbolic_shapes_fuse_where_they_are_the_same() -> None:
    n = symbol("n")
    same = graph_of(lambda b, x, y: b.Mul(b.Exp(x), y), (n, 4), (n, 4))
    assert kernels(same) == ["Exp + Mul"]
    repeated = graph_of(lambda b, x, y: b.Mul(b.Exp(y), x), (n, 4), (1, 4))
    assert kernels(repeated) == ["Exp", "Mul"]


def test_the_mean_of_integers_is_compiled() -> None:
    for extent in (5, symbol("n")):
        graph = Graph("mean")
        x = graph.add_input("x", TensorType(DTYPES["int32"], (3, extent)))
        graph.set_outputs([Builder(graph).ReduceMean(x, [1])])
        assert kernels(graph) == ["ReduceMean"]


PRODUCTS: dict[str, tuple[Callable[..., Value], tuple[int, ...]]] = {
    "MatMul": (lambda b, h, w: b.MatMul(h, w), (16, 16)),
    "MatMul of itself": (lambda b, h, w: b.MatMul(b.MatMul(h, h), w), (16, 16)),
    "Gemm": (lambda b, h, w: b.Gemm(h, w, None, transB=1), (16, 16)),
    "Einsum": (lambda b, h, w: b.Einsum(h, w, equation="ij,jk->ik"), (16, 16)),
    "Conv 1x1": (lambda b, h, w: b.Conv(h, w, None, kernel_shape=[1, 1]), (16, 16, 1, 1)),
    "Conv 3x3": (lambda b, h, w: b.Conv(h, w, None, kernel_shape=[3, 3], pads=[1] * 4), (16, 16, 3, 3)),
    "depthwise": (lambda b, h, w: b.Conv(h, w, None, kernel_shape=[3, 3], pads=[1] * 4, group=16), (16, 1, 3, 3)),
}
BEFORE: dict[str, Callable[..., Value]] = {
    "one": lambda b, x: b.Relu(x),
    "two": lambda b, x: b.Add(b.Mul(x, x), x),
    "a scale": lambda b, x: b.Mul(x, b.constant(0.5, x.dtype)),
}
BEHIND: dict[str, Callable[..., Value]] = {
    "a sum": lambda b, h, m: b.Add(h, m),
    "a gate": lambda b, h, m: b.Mul(h, b.Sigmoid(m)),
    "a chain": lambda b, h, m: b.Sub(b.Add(b.Relu(m), h), b.Mul(h, m)),
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("readers", ["the epilogue", "an output", "a node behind"])
@pytest.mark.parametrize("product", PRODUCTS)
def test_what_a_kernel_reads_is_not_computed_in_its_epilogue(product: str, readers: str, dtype: str) -> None:
    """`h + product(h)`: whoever else reads `h`, it must be in memory before the product runs."""
    build, weights = PRODUCTS[product]
    graph = Graph("residual")
    shape = (16, 16) if len(weights) == 2 else (1, 16, 6, 6)
    x = graph.add_input("x", TensorType(DTYPES[dtype], shape))
    w = graph.add_input("w", TensorType(DTYPES[dtype], weights))
    b = Builder(graph)
    outputs: list[Value] = []
    for before in BEFORE.values():
        for behind in BEHIND.values():
            h = before(b, x)
            outputs.append(behind(b, h, build(b, h, w)))
            outputs += {"the epilogue": [], "an output": [h], "a node behind": [b.Neg(h)]}[readers]
    graph.set_outputs(outputs)
    generator = np.random.default_rng(2)
    inputs = [generator.uniform(-0.2, 0.2, [int(n) for n in v.shape]).astype(v.dtype.numpy) for v in graph.inputs]
    expected = evaluate(graph, inputs)
    tolerance = 1e-5 if dtype == "float32" else 4e-3
    for got, wanted in zip(NativeEngine(graph, 1).load().run(inputs), expected, strict=True):
        np.testing.assert_allclose(got.astype(float), np.asarray(wanted).astype(float), rtol=tolerance, atol=tolerance)
