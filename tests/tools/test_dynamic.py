"""`intaglio.tools.make_dynamic`: batches that are opened, and nodes that hinder."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from tests.emit.models import parse

from intaglio.errors import InputError
from intaglio.ir.graph import Graph
from intaglio.onnx.reader import read_model
from intaglio.passes.row_axes import Hindrance
from intaglio.passes.rows import separate_rows
from intaglio.tools import make_dynamic

onnxruntime: Any = pytest.importorskip("onnxruntime")

HEADS = """g (float[2,6,8] x) => (y)
    <int64[4] split = {2, 6, 2, 4}, int64[3] joined = {2, 6, 8}, int64[2] flat = {12, 8}, int64[3] back = {2, 6, 8}> {
    a = Reshape (x, split)  b = Transpose <perm = [0, 2, 1, 3]> (a)  s = Softmax (b)
    c = Transpose <perm = [0, 2, 1, 3]> (s)  d = Reshape (c, joined)  f = Reshape (d, flat)
    h = Relu (f)  y = Reshape (h, back) }"""


def test_numbers_that_follow_the_batch_are_rewritten() -> None:
    found = make_dynamic(parse(HEADS), name="rows")
    assert (found.name, found.size, found.inputs, found.outputs) == ("rows", 2, ["x"], {"y": 0})
    assert [proof.size for proof in found.proofs] == [2, 1, 7]
    assert all(each.relative == 0 for proof in found.proofs for each in proof.differences)
    model = found.message()
    onnx.checker.check_model(model, full_check=True)
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "rows"
    assert model.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "rows"
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": np.zeros((5, 6, 8), np.float32)})[0].shape == (5, 6, 8)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("g (float[4,4] x) => (y) { y = MatMul (x, x) }", "adds up rows"),
        ("g (float[4,3] x) => (y) { y = Softmax <axis = 0> (x) }", "computes along the axis of the rows"),
        ("g (float[4,3] x) => (y) <int64[2] s = {3, 4}> { y = Reshape (x, s) }", "mixes rows"),
        ("g (float[4,3] x) => (y) <int64[1] a = {0}> { y = ReduceSum <keepdims = 0> (x, a) }", "no axis of rows"),
        ("g (float[4,3] x) => (y) <float[4,1] c = {1, 2, 3, 4}> { y = Add (x, c) }", "rows that may differ"),
    ],
)
def test_what_hinders_is_named(text: str, why: str) -> None:
    with pytest.raises(InputError, match=f"which gives 'y'.*{why}"):
        make_dynamic(parse(text))


def test_another_axis_and_chosen_inputs() -> None:
    found = make_dynamic(parse("g (float[3,4] x, float[3,4] z) => (y) { y = Add (x, z) }"), axis=1, name="columns")
    assert found.outputs == {"y": 1}
    assert found.inputs == ["x", "z"]
    with pytest.raises(InputError, match="there is no input 'w'"):
        make_dynamic(parse("g (float[3,4] x) => (y) { y = Neg (x) }"), inputs=["w"])
    with pytest.raises(InputError, match="has no fixed size"):
        make_dynamic(parse("g (float[n,4] x) => (y) { y = Neg (x) }"))


def _graph(text: str) -> Graph:
    return read_model(parse(text)).graph


def test_an_open_graph_is_looked_at_too() -> None:
    apart = _graph("g (float[n,4] x, float[4,5] w) => (y, z) { y = MatMul (x, w)  z = Transpose (y) }")
    assert {value.name: axis for value, axis in separate_rows(apart, "n").items()} == {"y": 0, "z": 1}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{ s = Shape (x)  y = Identity (s) }", "how many rows"),
        ("{ s = Shape (x)  c = Cast <to = 1> (s)  y = Div (x, c) }", "computes with the number of rows"),
        ("{ y = ReduceMax (x) }", "no axis of rows"),
        ("{ r = RandomNormalLike (x)  y = Add (x, r) }", "draws numbers"),
        ("{ t = Transpose (x)  y = MatMul (t, x) }", "adds up rows"),
    ],
)
def test_an_open_graph_that_mixes_rows(text: str, why: str) -> None:
    with pytest.raises(Hindrance, match=why):
        separate_rows(_graph(f"g (float[n,2] x) => (y) {text}"), "n")
