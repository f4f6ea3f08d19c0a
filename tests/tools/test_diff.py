from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import intaglio.tools
from intaglio.tools.diffing import Difference, diff
from intaglio.tools.diffing.difference import weight_change

TEXT = """
<ir_version: 8, opset_import: ["" : 17, "local" : 1], producer_name: "a">
g (float[N, 3] x, bool c) => (float[N, 3] y)
<float[3, 3] w = {1, 0, 0, 0, 1, 0, 0, 0, 1}, float[3] v = {1, 2, 3}> {
    [product] m = MatMul (x, w)
    [sum] s = Add (m, v)
    [choice] b = If (c) <then_branch = t () => (p) { [negative] p = Neg (s) },
                         else_branch = e () => (q) { q = Abs (s) }>
    [double] d = local.twice (b)
    [last] y = LeakyRelu <alpha = 0.25> (d)
}
<domain: "local", opset_import: ["" : 17]>
twice (v) => (w) { w = Add (v, v) }
"""


def model(text: str = TEXT) -> onnx.ModelProto:
    return onnx.parser.parse_model(text)


def test_a_model_equals_itself() -> None:
    found = diff(model(), model())
    assert not found
    assert (found.same_nodes, found.same_weights) == (8, 2)
    assert found.text() == "8 nodes and 2 tensors are the same"
    assert found.to_json()["equal"] is True


SIGNATURE = ["~ function local.twice ", "    signature: (v) -> (w) -> (v, u) -> (w)"]
MOVED = "~ weight v float[3]: differs by up to 0.5 (16.67% of its largest number) in 1 of 3 elements"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("alpha = 0.25", "alpha = 0.5", ["~ node LeakyRelu last", "    attribute alpha: 0.25 -> 0.5"]),
        ("Neg (s)", "Exp (s)", ["- choice.then_branch: Neg negative", "+ choice.then_branch: Exp negative"]),
        ("q = Abs (s)", "q = Abs (m)", ["~ node choice.else_branch: Abs q", "    input 0: s -> m"]),
        ("Add (m, v)", "Add (v, m)", ["~ node Add sum", "    input 0: m -> v", "    input 1: v -> m"]),
        ("w = Add (v, v) }", "w = Mul (v, v) }", ["- function local.twice: Add w", "+ function local.twice: Mul w"]),
        ("twice (v) => (w)", "twice (v, u) => (w)", SIGNATURE),
        ("float[N, 3] y", "float[M, 3] y", ["~ output y", "    type: float[N×3] -> float[M×3]"]),
        ("bool c", "float c", ["~ input c", "    type: bool[] -> float[]"]),
        ('"" : 17, "local"', '"" : 18, "local"', ["~ operator set ai.onnx: 17 -> 18"]),
        ('producer_name: "a"', 'producer_name: "b"', ["~ producer: a -> b"]),
        ("{1, 2, 3}", "{1, 2, 3.5}", [MOVED]),
        ("float[3] v = {1, 2, 3}", "double[3] v = {1, 2, 3}", ["~ weight v", "    type: float[3] -> double[3]"]),
        ("[last] y", "[final] y", ["~ node LeakyRelu last", "    name: last -> final"]),
    ],
)  # fmt: skip
def test_one_change_is_found_alone(old: str, new: str, expected: list[str]) -> None:
    assert TEXT.count(old) == 1
    found = diff(model(), model(TEXT.replace(old, new)))
    lines = found.text().splitlines()[:-1]
    assert sorted(lines) == sorted(expected)
    json.dumps(found.to_json(), allow_nan=False)
    assert "<table>" in found.html()


def test_inserted_nodes_do_not_disturb_the_others() -> None:
    text = TEXT.replace(
        "[last] y = LeakyRelu <alpha = 0.25> (d)", "z = Tanh (d)\n[last] y = LeakyRelu <alpha = 0.25> (z)"
    )
    found = diff(model(), model(text))
    assert found.added == ["Tanh z"]
    assert [(each.where, each.changes) for each in found.changed] == [("LeakyRelu last", (("input 0", "d", "z"),))]
    assert found.removed == []


def chain(count: int, seed: int) -> onnx.ModelProto:
    """Operators in a row with skips and weights."""
    dice, nodes, weights = random.Random(seed), list[onnx.NodeProto](), list[TensorProto]()
    for place in range(count):
        operator = dice.choice(["Relu", "Add", "MatMul", "Exp", "Mul", "Neg"])
        inputs = [f"v{place}"]
        if operator in ("Add", "Mul"):
            inputs.append(f"v{dice.randint(0, place)}")
        if operator == "MatMul":
            inputs.append(f"w{place}")
            weights.append(numpy_helper.from_array(np.full((2, 2), place, np.float32), f"w{place}"))
        nodes.append(helper.make_node(operator, inputs, [f"v{place + 1}"], f"n{place}"))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2]) for name in ("v0", f"v{count}")]
    return helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], weights))


def renamed(source: onnx.ModelProto) -> onnx.ModelProto:
    """The same model under other names for all but its ends."""
    new = onnx.ModelProto()
    new.CopyFrom(source)
    ends = {source.graph.input[0].name, source.graph.output[0].name}
    for node in new.graph.node:
        node.name = f"other_{node.name}"
        for names in (node.input, node.output):
            names[:] = [name if name in ends else f"r_{name}" for name in names]
    for tensor in new.graph.initializer:
        tensor.name = f"r_{tensor.name}"
    return new


@pytest.mark.parametrize("seed", range(8))
def test_renamed_models_match_node_by_node(seed: int) -> None:
    old = chain(60, seed)
    found = diff(old, renamed(old))
    assert found.added == found.removed == []
    assert not found.weights
    nodes = [each for each in found.changed if each.what == "node"]
    assert len(nodes) == 60
    assert all(change[0] == "name" and change[2] == f"other_{change[1]}" for each in nodes for change in each.changes)


@pytest.mark.parametrize("seed", range(8))
def test_nodes_that_are_taken_out_are_named(seed: int) -> None:
    old = chain(40, seed)
    editor = intaglio.tools.edit(old)
    dice = random.Random(seed)
    victims = dice.sample([node for node in editor.nodes() if node.operator in ("Relu", "Exp", "Neg")][:-1], 3)
    for node in victims:
        editor.bypass_node(node.number)
    found = diff(old, editor.document.message())
    assert sorted(found.removed) == sorted(f"{node.operator} {node.name}" for node in victims)
    assert found.added == []


def test_far_weights_and_what_is_not_finite() -> None:
    old = np.array([1.0, np.nan, np.inf, -4.0], np.float32)
    assert weight_change("w", "", old, old.copy()) is None
    moved = weight_change("w", "", old, np.array([1.5, np.nan, np.inf, -4.0], np.float32))
    assert moved is not None
    assert (moved.largest, moved.relative, moved.count, moved.total) == (0.5, 0.125, 1, 4)
    lost = weight_change("w", "", old, np.array([1.0, 0.0, np.inf, -4.0], np.float32))
    assert lost is not None
    assert lost.count == 1
    infinite = diff_of_arrays([1.0], [np.inf])
    assert infinite.to_json()["weights"][0]["largest"] == "inf"
    assert diff_of_arrays(["a", "b"], ["a", "c"]).weights[0].count == 1


def diff_of_arrays(old: list[Any], new: list[Any]) -> Difference:
    kind = TensorProto.STRING if isinstance(old[0], str) else TensorProto.FLOAT
    models = [
        helper.make_model(helper.make_graph([], "g", [], [], [helper.make_tensor("w", kind, [len(each)], each)]))
        for each in (old, new)
    ]
    return diff(*models)


def test_missing_external_data_is_said(tmp_path: Path) -> None:
    tensor = TensorProto(name="w", dims=[4], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="gone.bin")
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(helper.make_graph([], "g", [], [], [tensor])).SerializeToString())
    found = diff(path, path)
    assert len(found.unread) == 1
    assert "gone.bin" in found.unread[0]


def test_names_are_only_text_in_pages() -> None:
    text = TEXT.replace("[last]", "").replace("[sum]", "")
    hostile = model(text)
    hostile.graph.node[0].name = "<script>alert(1)</script>"
    page = diff(model(), hostile).html()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
