"""`reduce`: commands and functions that fail, branches and bodies, sizes, attributes, and time limits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from intaglio.errors import InputError
from intaglio.tools import reduce

HEADER = '<ir_version: 10, opset_import: ["" : 21, "own" : 1]> '
CHAIN = (
    HEADER
    + """g (float[n, 6] x, bool c) => (float[n, 6] y, float[n] z) {
    a = MatMul (x, w)
    b = Relu (a)
    d = If (c) <then_branch = t () => (p) { o = Exp (b) p = Erf (o) }, else_branch = e () => (q) { q = Abs (b) }>
    s = Shape (d)
    f = Reshape (d, s)
    y = LeakyRelu <alpha = 0.3> (f)
    m = Constant <value_ints = [1]> ()
    z = ReduceSum <keepdims = 0> (y, m)
}"""
)


def chain() -> onnx.ModelProto:
    model = onnx.parser.parse_model(CHAIN)
    model.graph.initializer.append(numpy_helper.from_array(np.eye(6, dtype=np.float32), "w"))
    return model


def nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    found = []
    for node in graph.node:
        found.append(node)
        for attribute in node.attribute:
            found += nodes(attribute.g) if attribute.HasField("g") else []
    return found


def has(*operators: str) -> Any:
    """A check that fails where all of these operators are in the model."""
    return lambda model, feeds: set(operators) <= {node.op_type for node in nodes(model.graph)}


@pytest.mark.parametrize(
    ("operators", "left"),
    [
        (["MatMul"], ["MatMul"]),
        (["Reshape"], ["Reshape"]),
        (["Erf"], ["Erf"]),
        (["ReduceSum", "Relu"], ["Relu", "ReduceSum"]),
        (["MatMul", "LeakyRelu"], ["MatMul", "LeakyRelu"]),
    ],
)
def test_only_what_is_needed_is_left(operators: list[str], left: list[str]) -> None:
    found = reduce(chain(), has(*operators), dims={"n": 5}, feeds={"c": np.bool_(True)})
    assert found.operators == left
    assert found.is_complete
    assert all(array.size <= 1 for array in found.feeds.values())
    assert not any(node.attribute for node in found.model.graph.node)
    assert [entry.domain for entry in found.model.opset_import] == [""]
    onnx.checker.check_model(found.model, full_check=True)


def test_the_same_comes_out_again() -> None:
    first, second = (reduce(chain(), has("Relu"), feeds={"c": np.bool_(True)}) for _ in range(2))
    assert first.model == second.model
    assert first.tries == second.tries


def test_what_fails_by_its_numbers_keeps_them() -> None:
    x = np.zeros((8, 6), np.float32)
    x[6, 4] = 7

    def fails(model: onnx.ModelProto, feeds: dict[str, Any]) -> bool:
        return any((np.asarray(value) == 7).any() for value in feeds.values()) and has("MatMul")(model, feeds)

    found = reduce(chain(), fails, feeds={"x": x, "c": np.bool_(True)})
    assert found.operators == ["MatMul"]
    assert found.feeds["x"].tolist() == [[7.0]]


def test_bodies_become_simpler() -> None:
    text = (
        HEADER
        + """g (float[2] x, int64 m, bool c) => (float[2] y) {
        y = Loop (m, c, x) <body = b (int64 i, bool k, float[2] v) => (bool l, float[2] w) {
            l = Identity (k)
            e = Exp (v)
            f = Tanh (e)
            w = Neg (f)
        }>
    }"""
    )
    found = reduce(onnx.parser.parse_model(text), has("Loop", "Tanh"), feeds={"m": np.int64(2), "c": np.bool_(True)})
    assert [node.op_type for node in nodes(found.model.graph)] == ["Loop", "Tanh"]


def test_a_command_decides(tmp_path: Path) -> None:
    script = tmp_path / "check.py"
    script.write_text(
        "import sys, numpy, onnx\n"
        "model, inputs = onnx.load(sys.argv[1]), numpy.load(sys.argv[2])\n"
        "assert {i.name for i in model.graph.input} == set(inputs.files)\n"
        "sys.exit('found it' if any(n.op_type == 'Relu' for n in model.graph.node) else 0)\n"
    )
    command = f"{sys.executable} {script} {{}} {{inputs}}"
    found = reduce(chain(), command, match="found it")
    assert found.operators == ["Relu"]
    with pytest.raises(InputError, match="does not fail"):
        reduce(chain(), command, match="another text")
    with pytest.raises(InputError, match=r"has no \{\}"):
        reduce(chain(), "true")
    with pytest.raises(InputError, match="one of"):
        reduce(chain())


def test_when_time_is_up_the_best_so_far_is_returned() -> None:
    found = reduce(chain(), has("Relu"), time_limit=0)
    assert not found.is_complete
    assert found.nodes == found.nodes_before == 11
