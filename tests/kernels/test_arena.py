"""Results written over operands: only where each element is read before it is written, and right even then."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

import intaglio
from intaglio.ir.dtype import FLOAT32
from intaglio.kernels.arena import Layout, layout
from intaglio.kernels.kernel import Kernel, LibraryCall
from intaglio.kernels.plan import Call, Operand, Segment
from intaglio.kernels.view import Buffer
from intaglio.runtime.engine.native import NativeEngine
from intaglio.targets.c.native import planned

KERNEL = Kernel("k", LibraryCall("nothing"))


def call(reads: list[Buffer], written: Buffer, replaces: Buffer | None = None) -> Call:
    operands = [Operand(buffer) for buffer in reads] + [Operand(written, 0, True)]
    pairs = () if replaces is None else ((written, replaces),)
    return Call(KERNEL, operands, [], 1, 1, replaces=pairs)


def buffers(count: int, size: int = 100) -> list[Buffer]:
    return [Buffer(f"b{index}", FLOAT32, size) for index in range(count)]


def test_a_result_takes_the_place_of_an_operand_that_dies() -> None:
    a, b, c = arena = buffers(3)
    step = Segment([call([], a), call([a], b, a), call([b], c, b), call([c], c)], arena=arena)
    assert layout(step) == Layout([0, 0, 0], [0], [3])
    assert planned(layout(step), [400, 400, 400]) == ([0, 0, 0], 448)


def test_an_operand_that_is_read_later_keeps_its_place() -> None:
    a, b, c = arena = buffers(3)
    step = Segment([call([], a), call([a], b, a), call([a, b], c, b)], arena=arena)
    assert layout(step).place == [0, 1, 1]


def test_one_operand_is_replaced_once() -> None:
    a, b, c = arena = buffers(3)
    first = call([a, b], c)
    first.replaces = ((c, a), (c, b))
    step = Segment([call([], a), call([], b), first], arena=arena)
    assert layout(step).place == [0, 1, 0]


def test_what_is_shared_or_not_in_the_arena_is_left_alone() -> None:
    a, b = arena = buffers(2)
    a.is_shared = True
    step = Segment([call([], a), call([a], b, a)], arena=arena)
    assert layout(step).place == [0, 1]
    outside = Buffer("input", FLOAT32, 100, "input", 0)
    step = Segment([call([outside], b, outside)], arena=[b])
    assert layout(step).place == [0]


def pairs(text: str) -> tuple[intaglio.Model, int]:
    """A model, and how many buffers of it took the place of others."""
    model = intaglio.load(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}'), engine="native")
    engine = model._main.engine  # pyright: ignore[reportPrivateUsage]
    assert isinstance(engine, NativeEngine)
    layouts = [layout(segment) for segment in engine.form.segments]
    return model, sum(len(each.place) - len(each.first) for each in layouts)


TEXTS = {
    # what is replaced, and what looks alike and must not be
    "product and sum": (
        "g (float[n, n] x) => (float[n, n] y) {"
        " a = MatMul(x, x) t = Transpose(a) s = Softmax(t) u = MatMul(s, a) v = Mul(u, t) y = MatMul(v, s) }",
        None,
    ),
    "transposed": (
        "g (float[n, n] x) => (float[n, n] y) { a = MatMul(x, x) t = Transpose(a) b = Add(a, t) y = MatMul(b, x) }",
        0,
    ),
    "reversed": (
        "g (float[n, n] x) => (float[n, n] y) { a = MatMul(x, x) s = Constant<value_ints = [-1]>()"
        " e = Constant<value_ints = [-1000]>() z = Constant<value_ints = [0]>() r = Slice(a, s, e, z, s)"
        " b = Mul(r, r) y = MatMul(b, x) }",
        0,
    ),
    "broadcast": (
        "g (float[n, n] x) => (float[n, n] y) { m = ReduceMax<keepdims = 1>(x) a = Softmax(m)"
        " b = Add(a, x) y = MatMul(b, x) }",
        0,
    ),
    "after a row kernel": (
        "g (float[n, n] x) => (float[n, n] y) { a = Softmax(x) t = Transpose(a) p = MatMul(t, x) q = Relu(t)"
        " w = Add(q, p) z = Softmax<axis = 0>(w) y = MatMul(z, x) }",
        None,
    ),
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("size", [1, 7, 64, 150])
def test_results_are_right(name: str, size: int) -> None:
    text, expected = TEXTS[name]
    model, replaced = pairs(text)
    assert expected is None or replaced == expected
    x = np.random.default_rng(size).standard_normal((size, size)).astype(np.float32) / size
    reference = intaglio.load(model.graph, engine="reference")(x)
    np.testing.assert_allclose(model(x), reference, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model(x), reference, rtol=1e-4, atol=1e-6)


def test_a_loop_between_kernels_that_fuse_nothing() -> None:
    text = (
        "g (float[n, m] x) => (float[n, m] y) { z = Constant<value_int = 0>()"
        " p = CumSum(x, z) e = Sigmoid(p) y = CumSum(e, z) }"
    )
    model, replaced = pairs(text)
    assert replaced == 1
    assert model.memory_plan(n=64, m=64).arenas == (64 * 64 * 4,)
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    expected = np.cumsum(1 / (1 + np.exp(-np.cumsum(x, 0, dtype=np.float64))), 0)
    np.testing.assert_allclose(model(x), expected, rtol=1e-4, atol=1e-5)
