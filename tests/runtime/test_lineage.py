"""From a node of the file to the lines of C."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import intaglio
from intaglio.errors import CompileError

MODEL = """
<ir_version: 10, opset_import: ["" : 21]>
g (float[N, 8] x) => (float[N, 4] y, string[2] s)
<float[8, 4] w = {{{}}}>
{{
  [product] m = MatMul(x, w)
  [squash] t = Tanh(m)
  [same] i = Identity(t)
  [rows] r = ReduceSum(i)
  [total] y = Add(i, r)
  [words] s = Constant<value_strings = ["a", "b"]>()
}}
""".format(", ".join(["0.5"] * 32))


def test_each_node_of_the_file_leads_to_its_code() -> None:
    model = intaglio.load(onnx.parser.parse_model(MODEL).SerializeToString())
    lines = model.c_source().split("\n")
    found = {each.path.partition(" ")[0]: each for each in model.lineage()}
    assert {"product", "squash", "rows", "total"} <= found.keys()
    assert "same" not in found, "nothing is left of it"
    ids = {node.id for node in model.simplified.nodes}
    assert found["product"].operator == "MatMul"
    assert found["product"].nodes[0] in ids
    for name in ("product", "squash", "rows", "total"):
        assert found[name].code, name
        for place in found[name].code:
            assert lines[place.first_line - 1].startswith(f"static void {place.function}(")
            assert lines[place.last_line - 1] == "}"
    assert found["product"].code[0].function == found["squash"].code[0].function, "Tanh is the product's epilogue"
    assert found["product"].code[0].action < found["total"].code[0].action
    np.testing.assert_allclose(model(np.zeros((2, 8), np.float32))[0], np.zeros((2, 4)))


def test_a_host_node_is_marked() -> None:
    text = '<ir_version: 10, opset_import: ["" : 21]> g (string[N] x) => (string[N] y) { [low] y = StringNormalizer'
    model = intaglio.load(onnx.parser.parse_model(text + '<case_change_action = "LOWER">(x) }').SerializeToString())
    (only,) = model.lineage()
    assert only.is_hosted
    assert not only.code


def test_the_reference_engine_has_no_lineage() -> None:
    model = intaglio.load(onnx.parser.parse_model(MODEL).SerializeToString(), engine="reference")
    with pytest.raises(CompileError):
        model.lineage()
