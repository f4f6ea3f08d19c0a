"""Functions that are recognised keep the precision of float64: attributes are float32."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import intaglio
from intaglio.onnx.reader import read_model
from intaglio.passes import simplify
from intaglio.runtime.engine.engine import EngineName

FORMULAS = {
    "swish": "a = Mul(x, c)  s = Sigmoid(a)  y = Mul(x, s)",
    "swish by division": "a = Div(x, c)  s = Sigmoid(a)  y = Mul(x, s)",
    "hard sigmoid": "a = Add(x, three)  h = Clip(a, zero, six)  y = Div(h, six)",
    "hard swish": "a = Add(x, three)  h = Clip(a, zero, six)  m = Mul(x, h)  y = Div(m, six)",
    "hard swish of an operator": "h = HardSigmoid<alpha = 0.16666667, beta = 0.5>(x)  y = Mul(x, h)",
    "gelu": "a = Div(x, root)  e = Erf(a)  o = Add(e, one)  m = Mul(x, o)  y = Mul(m, half)",
    "nearly gelu": "a = Mul(x, nearly)  e = Erf(a)  o = Add(e, one)  m = Mul(x, o)  y = Mul(m, half)",
    "attention": "t = Transpose<perm=[0,1,3,2]>(x)  p = MatMul(x, t)  m = Mul(p, c)  w = Softmax(m)  y = MatMul(w, x)",
    "attention, scaled before": "q = Mul(x, c)  t = Transpose<perm=[0,1,3,2]>(x)  p = MatMul(q, t)  w = Softmax(p)"
    "  y = MatMul(w, x)",
    "root mean square": "q = Mul(x, x)  m = ReduceMean(q, last)  e = Add(m, c)  r = Sqrt(e)  y = Div(x, r)",
}


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("formula", sorted(FORMULAS))
def test_simplifying_keeps_float64(formula: str, engine: EngineName) -> None:
    for number in (0.1, 1 / np.sqrt(7), 0.5):
        model = parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]>
            g (double[1,2,N,8] x) => (double[1,2,N,8] y) {{
              c = Constant<value = double {{{float(number)!r}}}>()  zero = Constant<value = double {{0}}>()
              one = Constant<value = double {{1}}>()  half = Constant<value = double {{0.5}}>()
              three = Constant<value = double {{3}}>()  six = Constant<value = double {{6}}>()
              root = Constant<value = double {{1.4142135623730951}}>()  last = Constant<value_ints = [-1]>()
              nearly = Constant<value = double {{0.7071067}}>()
              {FORMULAS[formula]} }}""")
        x = np.random.default_rng(0).standard_normal((1, 2, 5, 8))
        plain = intaglio.load(model, engine="reference", simplify=False)(x)
        got = intaglio.load(model, engine=engine)(x)
        np.testing.assert_allclose(got, plain, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("digits", "is_meant"), [("1.4142135", True), ("1.4142", True), ("1.41", False), ("1.415", False)]
)
def test_a_constant_that_is_only_near_is_kept(digits: str, is_meant: bool) -> None:
    model = parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 21]> g (float[N] x) => (float[N] y) {{
        c = Constant<value = float {{{digits}}}>()  one = Constant<value = float {{1}}>()
        half = Constant<value = float {{0.5}}>()
        a = Div(x, c)  e = Erf(a)  o = Add(e, one)  m = Mul(x, o)  y = Mul(m, half) }}""")
    graph = read_model(model).graph
    simplify(graph)
    assert any(node.op.name == "Gelu" for node in graph.nodes) == is_meant
