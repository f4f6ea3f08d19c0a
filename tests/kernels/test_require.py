"""What plans need of sizes: found for each graph, checked by the runtime or by the driver."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser
from tests.kernels.test_control import HEADER

import intaglio
from intaglio.errors import IntaglioError, ShapeError
from intaglio.kernels.plan import REQUIREMENT, Check, walk
from intaglio.kernels.plan_form import PlanForm
from intaglio.onnx.reader import read_model
from intaglio.passes import simplify
from intaglio.runtime.engine.native import NativeEngine


def graph_of(text: str):
    graph = read_model(parser.parse_model(HEADER + text)).graph
    simplify(graph)
    return graph


def engine_of(text: str) -> NativeEngine:
    return NativeEngine(graph_of(text), 1).load()


def checks(form: PlanForm) -> list[Check]:
    actions = [action for segment in form.segments for action in walk(segment.actions)]
    return [action for action in actions if isinstance(action, Check) and action.status == REQUIREMENT]


def block(*shape: int):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


PRODUCT = "agraph (float[a,b] x, float[c,d] y) => (float[p,q] z) { z = MatMul(x, y) }"


def test_a_plan_says_what_must_be_equal() -> None:
    plan = engine_of(PRODUCT).form
    assert [str(each.pairs) for each in plan.requirements] == ["((b, c),)"]
    assert not checks(plan)


def test_sizes_that_are_numbers_or_the_same_symbol_need_no_check() -> None:
    text = "agraph (float[n,4] x, float[4,m] y, float[m] c) => (float[p,q] z) { t = MatMul(x, y) z = Add(t, c) }"
    assert not engine_of(text).form.requirements


def test_each_set_of_sizes_is_checked_and_named() -> None:
    engine = engine_of(PRODUCT)
    for rows in (2, 3):
        (result,) = engine.run([block(rows, 3), block(3, 4)])
        np.testing.assert_array_equal(result, block(rows, 3) @ block(3, 4))
        for _ in range(2):
            with pytest.raises(ShapeError, match=r"MatMul at .*: the dimensions to sum over: 3 and 5 differ"):
                engine.run([block(rows, 3), block(5, 4)])


def test_a_branch_that_is_not_taken_needs_nothing() -> None:
    text = """agraph (float[a,b] x, float[c,d] y, bool s) => (float[p,q] z) {
      z = If (s) <then_branch = t () => (float[e,f] u) { u = MatMul(x, y) },
                  else_branch = o () => (float[g,h] v) { v = Neg(x) }> }"""
    engine = engine_of(text)
    assert not engine.form.requirements
    assert len(checks(engine.form)) == 1
    x, y = block(2, 3), block(5, 4)
    np.testing.assert_array_equal(engine.run([x, y, np.array(False)])[0], -x)
    np.testing.assert_array_equal(engine.run([x, y[:3], np.array(True)])[0], x @ y[:3])
    with pytest.raises(IntaglioError, match="MatMul"):
        engine.run([x, y, np.array(True)])


def test_sizes_that_data_decides_are_checked_by_the_driver() -> None:
    text = """agraph (float[a,b] x, float[c] w, int64[1] k) => (float[p,q] z) {
      zero = Constant<value_ints=[0]>() one = Constant<value_ints=[1]>()
      part = Slice(x, zero, k, one)
      mask = Cast<to=9>(w) kept = Compress(w, mask) row = Unsqueeze(kept, one)
      z = MatMul(part, row) }"""
    engine = engine_of(text)
    assert len(checks(engine.form)) == 1
    weights = np.array([1, 0, 2, 3], np.float32)
    (result,) = engine.run([block(2, 5), weights, np.array([3])])
    np.testing.assert_array_equal(result, block(2, 5)[:, :3] @ weights[weights != 0][:, None])
    with pytest.raises(IntaglioError, match="MatMul"):
        engine.run([block(2, 5), weights, np.array([4])])


def test_states_of_a_loop_are_checked_in_each_round() -> None:
    text = """agraph (float[n] x, float[m] y, int64 rounds) => (float[p] z) {
      z = Loop (rounds, , x) <body = b (int64 i, bool g, float[r] v) => (bool g2, float[s] w) {
        g2 = Identity(g) t = Mul(v, y) w = Concat<axis=0>(t, y) }> }"""
    model = parser.parse_model(HEADER + text)
    native, reference = intaglio.load(model), intaglio.load(model, engine="reference")
    x, y = block(2), block(2) + 1
    for rounds in (0, 1):
        np.testing.assert_array_equal(native(x, y, np.array(rounds)), reference(x, y, np.array(rounds)))
    for engine in (native, reference):
        with pytest.raises(IntaglioError, match="broadcast"):
            engine(x, y, np.array(2))


def test_a_size_of_zero_that_asks_reshape_for_a_copy() -> None:
    text = """agraph (float[a,b] x, float[c,d] y) => (float[p,q] z) {
      s = Shape(y) z = Reshape(x, s) }"""
    engine = engine_of(text)
    np.testing.assert_array_equal(engine.run([block(2, 6), block(3, 4)])[0], block(3, 4))
    np.testing.assert_array_equal(engine.run([block(2, 6), block(0, 6)])[0], block(2, 6))
    with pytest.raises(ShapeError, match="12 elements"):
        engine.run([block(2, 6), block(0, 5)])
