"""`intaglio.tools.set_dtype`: types, what stays, Casts and differences."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import ModelProto
from tests.emit.models import parse

from intaglio.errors import InputError
from intaglio.tools import set_dtype
from intaglio.tools.types import Converted

pytest.importorskip("onnxruntime")
NETWORK = """g (float[n,4] x) => (y) <float[4,4] w = {1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0, 0, 0, 0, 4}> {
    a = MatMul (x, w)  b = Relu (a)  s = Softmax (b)  t = Transpose (s)  u = Softmax <axis = 0> (t)
    v = Transpose (u)  z = MatMul (v, w)  y = Tanh (z) }"""


def operators(found: Converted) -> list[str]:
    model = found.message()
    onnx.checker.check_model(model, full_check=True)
    return [node.op_type for node in model.graph.node]


def kinds(model: ModelProto) -> list[int]:
    return [value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)]


def test_what_needs_range_stays_and_casts_are_few() -> None:
    found = set_dtype(parse(NETWORK), "float16")
    assert operators(found) == [
        "Cast", "MatMul", "Relu", "Cast", "Softmax", "Transpose", "Softmax", "Transpose", "Cast", "MatMul", "Tanh",
        "Cast",
    ]  # fmt: skip
    assert found.casts == 4
    assert set(found.kept.values()) == {"Softmax needs the range"}
    assert kinds(found.message()) == [onnx.TensorProto.FLOAT] * 2
    assert 0 < found.differences[0].relative < 5e-3


@pytest.mark.parametrize("to", ["float16", "bfloat16", "float64"])
def test_inputs_and_outputs_too(to: str) -> None:
    found = set_dtype(parse(NETWORK), to, io=True, convert=["Softmax"])
    assert operators(found) == ["MatMul", "Relu", "Softmax", "Transpose", "Softmax", "Transpose", "MatMul", "Tanh"]
    assert kinds(found.message()) == [getattr(onnx.TensorProto, {"float64": "DOUBLE"}.get(to, to.upper()))] * 2
    assert found.differences[0].relative < {"float16": 5e-3, "bfloat16": 5e-2, "float64": 1e-5}[to]


def test_there_and_back() -> None:
    there = set_dtype(parse(NETWORK), "float64", io=True).message()
    assert operators(set_dtype(there, "float32", io=True)) == [node.op_type for node in parse(NETWORK).graph.node]


def test_chosen_operators_and_nodes_stay() -> None:
    assert set(set_dtype(parse(NETWORK), "float16", keep=["Relu"]).kept.values()) >= {"Relu needs the range"}
    assert "it is named to stay" in set_dtype(parse(NETWORK), "float16", keep_nodes=["z"]).kept.values()
    with pytest.raises(InputError, match="no node 'zz'"):
        set_dtype(parse(NETWORK), "float16", keep_nodes=["zz"])
    with pytest.raises(InputError, match="there is no type 'float8'"):
        set_dtype(parse(NETWORK), "float8")


def test_small_constants_do_not_vanish_and_large_ones_are_the_largest() -> None:
    text = """g (float[4] x) => (y) <float e = {1e-10}, float m = {-3e38}> {
        a = Abs (x)  b = Add (a, e)  c = Sqrt (b)  y = Max (c, m) }"""
    found = set_dtype(parse(text), "float16")
    assert "the constant 'e' would become 0" in found.kept.values()
    assert any("its largest is taken" in note for note in found.notes)


def test_bodies_stay() -> None:
    text = """g (float[3] x, bool c) => (y) { a = Neg (x)
        y = If (c) <then_branch = t () => (float[3] p) { p = Relu (a) },
                    else_branch = e () => (float[3] q) { q = Abs (a) }> }"""
    found = set_dtype(parse(text), "float16")
    assert operators(found) == ["Cast", "Neg", "Cast", "If"]
    assert found.differences[0].relative < 2e-3


def test_models_of_other_operator_sets(tmp_path: Any) -> None:
    text = 'g (float[1,2,4,4] x) => (y) <float[4] s = {1, 1, 2, 2}> { y = Resize <mode = "nearest"> (x, , s) }'
    model = parse(text)
    found = set_dtype(model, "float16")
    assert operators(found) == ["Cast", "Resize", "Cast"]
    assert found.differences[0].relative < 2e-3
    assert found.save(tmp_path / "m.onnx") == [tmp_path / "m.onnx"]
