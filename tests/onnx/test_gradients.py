"""The operator Gradient: names of tensors in the graph become nodes that differentiate it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, parser

from intaglio.errors import LimitError, LoadError, UnsupportedError
from intaglio.ir.verify import verify
from intaglio.onnx.limits import ReadLimits
from intaglio.onnx.reader import check_model, read_model
from intaglio.ops.evaluate import evaluate

A, B = np.array([1, 2], np.float32), np.array([3, -4], np.float32)


def parse(body: str) -> ModelProto:
    opsets = '"" : 26, "ai.onnx.preview.training" : 1'
    named = body.replace("D.", "ai.onnx.preview.training.")
    return parser.parse_model(f"<ir_version: 8, opset_import: [{opsets}]> {named}")


def run(body: str, *arrays: Any) -> list[Any]:
    graph = read_model(parse(body)).graph
    verify(graph)
    assert "Gradient" not in {node.op.name for node in graph.nodes}
    return [array.tolist() for array in evaluate(graph, list(arrays))]


def test_first_and_second_derivative_under_their_names() -> None:
    body = """g (float[2] a, float[2] b) => (float[2] c, float[2] da, float[2] db, float[2] ddb) {
        p = Mul(a, a)
        c = Mul(p, b)
        da, db = D.Gradient <xs = ["a", "b"], y = "c"> (a, b)
        ddb = D.Gradient <xs = ["a"], zs = ["b"], y = "db"> (a, b)
    }"""
    graph = read_model(parse(body)).graph
    assert [value.name for value in graph.outputs] == ["c", "da", "db", "ddb"]
    assert run(body, A, B) == [(A * A * B).tolist(), (2 * A * B).tolist(), (A * A).tolist(), (2 * A).tolist()]


def test_outputs_may_be_left_out() -> None:
    body = """g (float[2] a, float[2] b) => (float[2] db) {
        c = Mul(a, b)
        , db = D.Gradient <xs = ["a", "b"], y = "c"> (a, b)
    }"""
    assert run(body, A, B) == [A.tolist()]


def test_an_intermediate_tensor_is_independent() -> None:
    body = """g (float[2] a) => (float[2] dh) {
        h = Mul(a, a)
        c = Mul(h, h)
        dh = D.Gradient <xs = ["h"], y = "c"> (h)
    }"""
    assert run(body, A) == [(2 * A * A).tolist()]


def test_the_inputs_are_the_values_to_differentiate_at() -> None:
    body = """g (float[2] a, float[2] b, float[2] z) => (float[2] c, float[2] dh, float[2] da) {
        h = Mul(a, z)
        c = Mul(h, h)
        dh = D.Gradient <xs = ["h"], zs = ["z"], y = "c"> (b, z)
        da = D.Gradient <xs = ["a"], zs = ["z"], y = "c"> (b, z)
    }"""
    z = np.array([2, 3], np.float32)
    assert run(body, A, B, z) == [((A * z) ** 2).tolist(), (2 * B).tolist(), (2 * B * z * z).tolist()]


def test_composite_operators_are_expanded_and_keep_their_outputs() -> None:
    body = """g (float[2] a) => (float[2] s, float[2] da) {
        s = LogSoftmax(a)
        n = HardSwish(s)
        da = D.Gradient <xs = ["a"], y = "n"> (a)
    }"""
    s, _ = run(body, A)
    np.testing.assert_allclose(s, A - np.log(np.exp(A).sum()), rtol=1e-6)


def test_a_gradient_may_stand_before_what_it_differentiates() -> None:
    body = """g (float[2] a) => (float[2] da) {
        da = D.Gradient <xs = ["a"], y = "c"> (a)
        c = Mul(a, a)
    }"""
    assert run(body, A) == [(2 * A).tolist()]


@pytest.mark.parametrize(
    ("node", "error", "message"),
    [
        ('D.Gradient <xs = ["a"], y = "nothing"> (a)', LoadError, "reads 'nothing', which nothing defines"),
        ('D.Gradient <xs = ["a", "c"], y = "c"> (a)', LoadError, "1 inputs for the 2 tensors a, c"),
        ('D.Gradient <xs = ["a"], y = "n"> (a)', UnsupportedError, r"1 operator .*\n  CumProd: at"),
        ('D.Gradient <y = "c"> (a)', LoadError, "needs the attribute xs"),
    ],
)
def test_what_is_wrong_is_said(node: str, error: type[Exception], message: str) -> None:
    body = f"""g (float[2] a) => (float[2] da) {{
        c = Mul(a, a)
        total = ReduceSum <keepdims = 0> (a)
        axis = Cast <to = 7> (total)
        n = CumProd(a, axis)
        da = {node}
    }}"""
    with pytest.raises(error, match=message):
        read_model(parse(body))


def test_a_broken_tensor_is_reported_once() -> None:
    body = """g (float[2] a) => (float[2] da) {
        c = MatMul(a, a, a)
        da = D.Gradient <xs = ["a"], y = "c"> (a)
    }"""
    assert len(check_model(parse(body))) == 1


def test_derivatives_of_derivatives_are_limited() -> None:
    steps = "".join(f'd{i + 1} = D.Gradient <xs = ["a"], y = "d{i}"> (a)\n' for i in range(60))
    body = f"g (float[2] a) => (float[2] d60) {{ d0 = Sigmoid(a)\n {steps} }}"
    with pytest.raises(LimitError, match="once it is differentiated"):
        read_model(parse(body), limits=ReadLimits(nodes=300))
