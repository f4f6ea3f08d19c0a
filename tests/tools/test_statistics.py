"""`intaglio.tools.stats`: counts against formulas that are written out."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import ModelProto
from tests.emit.models import parse

from intaglio.errors import InputError
from intaglio.tools import stats


def macs(text: str, **options: Any) -> int:
    return stats(parse(text), **options).total.macs


EINSUM = '<equation = "bij,bjk->bik">'
BOTH = '<hidden_size = 4, direction = "bidirectional">'


@pytest.mark.parametrize(
    ("given", "node", "expected"),
    [
        ("float[2,4,8,9] x, float[6,2,3,3] w", "Conv <group = 2> (x, w)", 2 * 6 * 6 * 7 * 2 * 9),
        ("float[2,4,5] x, float[4,3,2] w", "ConvTranspose <strides = [2]> (x, w)", 2 * 4 * 5 * 3 * 2),
        ("float[7,2,3] x, float[3,5] w", "MatMul (x, w)", 7 * 2 * 3 * 5),
        ("float[3,7] x, float[5,3] w", "Gemm <transA = 1, transB = 1> (x, w)", 7 * 3 * 5),
        ("float[2,3,4] x, float[2,4,5] w", f"Einsum {EINSUM} (x, w)", 2 * 3 * 4 * 5),
        ("float[5,2,3] x, float[2,16,3] w, float[2,16,4] r", f"LSTM {BOTH} (x, w, r)", 5 * 2 * 2 * 4 * 4 * (3 + 4)),
        ("float[5,2,3] x, float[1,12,3] w, float[1,12,4] r", "GRU <hidden_size = 4> (x, w, r)", 5 * 2 * 12 * (3 + 4)),
        ("float[1,2,3,4] q, float[1,2,5,4] k, float[1,2,5,6] v", "Attention (q, k, v)", 2 * 3 * 5 * (4 + 6)),
    ],
)
def test_multiplications(given: str, node: str, expected: int) -> None:
    model = parse(f"g ({given}) => (y) {{ y = {node} }}")
    model.opset_import[0].version = 23
    assert stats(model).total.macs == expected


def test_operations_of_what_is_no_product() -> None:
    found = stats(parse("g (float[4,5] x) => (y) { a = Relu (x)  b = Transpose (a)  y = ReduceSum (b) }"))
    assert {row.name: row.flops for row in found.operators} == {"Relu": 20, "Transpose": 0, "ReduceSum": 20}
    assert found.total.macs == 0
    softmax = stats(parse("g (float[4,5] x) => (y) { y = Softmax (x) }")).total.flops
    assert softmax == 5 * 20  # the largest, a difference, an exponential, a sum and a quotient


def test_biases_are_additions_and_no_multiplications() -> None:
    found = stats(parse("g (float[2,3] x, float[3,5] w, float[5] c) => (y) { y = Gemm (x, w, c) }"))
    assert (found.total.macs, found.total.biases, found.total.flops) == (30, 10, 70)


LOOPS = """g (float[3] x, int64 n, bool c) => (y) {
    y = Loop (n, c, x) <body = b (int64 i, bool d, float[3] s) => (bool e, float[3] t) {
        e = Identity (d)  t = Add (s, s) }> }"""


def test_bodies_count_as_often_as_they_run() -> None:
    found = stats(parse(LOOPS))
    assert any("how much work it is depends on data" in note for note in found.notes)
    assert found.total.flops == 3


def test_sizes_are_given_or_taken_as_one() -> None:
    text = "g (float[batch,4] x, float[4,5] w) => (y) { y = MatMul (x, w) }"
    assert macs(text, dims={"batch": 8}) == 160
    assert macs(text, shapes={"x": [3, 4]}) == 60
    found = stats(parse(text))
    assert (found.total.macs, found.macs_formula) == (20, "20*batch")
    assert "batch taken as 1" in found.notes[0]
    with pytest.raises(InputError, match="there is no dimension 'rows'"):
        stats(parse(text), dims={"rows": 1})


def test_memory_at_one_time() -> None:
    model: ModelProto = parse("g (float[10] x) => (y) { a = Neg (x)  b = Neg (a)  y = Add (a, b) }")
    found = stats(model)
    assert found.peak_bytes == 3 * 40
    assert (found.input_bytes, found.output_bytes, found.total.activation_bytes) == (40, 40, 120)


def test_what_a_model_remembers() -> None:
    text = """g (float[b,s,4] x, float[b,2,p,4] past) => (present) {
        h = Unsqueeze (x, one)  k = Expand (h, two)  present = Concat <axis = 2> (past, k) }"""
    constants = "<int64[1] one = {1}, int64[4] two = {1, 2, 1, 1}>"
    found = stats(parse(text.replace("=> (present) {", f"=> (present) {constants} {{")), dims={"b": 1, "s": 3, "p": 5})
    assert found.cache_bytes == 2 * 8 * 4 * 4


def test_scopes_are_parts_of_names() -> None:
    model = parse("g (float[4,4] x) => (y) { a = MatMul (x, x)  y = MatMul (a, x) }")
    for node, name in zip(model.graph.node, ("/encoder/layer.0/MatMul", "/encoder/layer.1/MatMul"), strict=True):
        node.name = name
    assert [row.name for row in stats(model).scopes] == ["encoder/layer.0", "encoder/layer.1"]
    assert [row.macs for row in stats(model, depth=1).scopes] == [128]
