"""Each function of onnx-modifier, done by what the page sends; the table in docs/viewing.md has the same rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.web.pages import SMALL
from tests.web.test_server import npy

from intaglio.web.opening import open_model
from intaglio.web.session import OpenModel, Session

ROOT = Path(__file__).parent.parent.parent
Step = list[tuple[str, dict[str, Any]]]
Seen = Callable[[onnx.ModelProto], object]


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node if node.op_type != "Constant"]


def inputs(model: onnx.ModelProto, place: int) -> list[str]:
    return list(model.graph.node[place].input)


def sizes(model: onnx.ModelProto) -> list[Any]:
    dims = model.graph.input[0].type.tensor_type.shape.dim
    return [dim.dim_param or dim.dim_value for dim in dims]


def weight(model: onnx.ModelProto) -> Any:
    return onnx.numpy_helper.to_array(model.graph.initializer[0])


NEW = {"operator": "LeakyRelu", "inputs": ["m"], "outputs": ["t"], "attributes": {"alpha": 0.5}, "before": 3}

CASES: dict[str, tuple[list[Step], Seen]] = {
    "delete a node": ([[("delete_node", {"node": 1})]], lambda m: operators(m) == ["MatMul", "Add"]),
    "delete a node with its children": (
        [[("delete_node", {"node": 1}), ("delete_node", {"node": 3})]],
        lambda m: operators(m) == ["MatMul"],
    ),
    "recover a deleted node": (
        [[("delete_node", {"node": 1})], []],
        lambda m: operators(m) == ["MatMul", "Relu", "Add"],
    ),
    "add a node, with its attributes": (
        [[("insert_node", NEW)]],
        lambda m: "LeakyRelu" in operators(m) and m.graph.node[3].attribute[0].f == 0.5,
    ),
    "rename inputs and outputs of a node": (
        [[("rewire", {"node": 3, "input": 0, "value": "m"}), ("rename_value", {"old": "r", "new": "other"})]],
        lambda m: inputs(m, 3) == ["m", "k"] and m.graph.node[1].output[0] == "other",
    ),
    "rename a node": (
        [[("rename_node", {"node": 0, "name": "first"})]],
        lambda m: m.graph.node[0].name == "first",
    ),
    "rename inputs and outputs of the model": (
        [[("rename_value", {"old": "x", "new": "picture"}), ("rename_value", {"old": "y", "new": "answer"})]],
        lambda m: (m.graph.input[0].name, m.graph.output[0].name, inputs(m, 0)[0]) == ("picture", "answer", "picture"),
    ),
    "add inputs of the model": (
        [[("add_input", {"name": "z", "dtype": "float32", "shape": ["n", 4]})]],
        lambda m: [each.name for each in m.graph.input] == ["x", "z"],
    ),
    "add outputs of the model": (
        [[("add_output", {"name": "r"})]],
        lambda m: [each.name for each in m.graph.output] == ["y", "r"],
    ),
    "delete inputs and outputs of the model": (
        [[("add_output", {"name": "r"}), ("remove_output", {"name": "y"}), ("remove_input", {"name": "x"})]],
        lambda m: [each.name for each in m.graph.output] == ["r"] and not m.graph.input,
    ),
    "edit attributes": (
        [[("insert_node", NEW), ("set_attribute", {"node": 4, "name": "alpha", "value": 0.25})]],
        lambda m: m.graph.node[3].attribute[0].f == 0.25,
    ),
    "edit an initializer as text": (
        [[("set_initializer", {"name": "w", "array": {"values": "[[1, 0], [0, 1]]", "dtype": "float32"}})]],
        lambda m: weight(m).tolist() == [[1, 0], [0, 1]],
    ),
    "edit an initializer by a .npy file": (
        [[("set_initializer", {"name": "w", "array": npy(np.eye(4, dtype=np.float32))})]],
        lambda m: (weight(m) == np.eye(4)).all(),
    ),
    "change the batch size to a number": (
        [[("set_shapes", {"shapes": {"x": [8, 4]}})]],
        lambda m: sizes(m) == [8, 4],
    ),
    "make the batch size open": (
        [[("set_shapes", {"shapes": {"x": [8, 4]}})], [("set_dimension", {"name": "x", "axis": 0, "size": "batch"})]],
        lambda m: sizes(m) == ["batch", 4],
    ),
    "infer shapes": (
        [[("set_dimension", {"name": "y", "axis": 0, "size": "wrong"}), ("infer_types", {})]],
        lambda m: [dim.dim_param or dim.dim_value for dim in m.graph.output[0].type.tensor_type.shape.dim] == ["n", 4],
    ),
    "remove what is not used": (
        [[("rewire", {"node": 3, "input": 0, "value": "x"}), ("prune", {})]],
        lambda m: operators(m) == ["Add"],
    ),
}
"""By function: the steps, each a list of commands, where an empty one is undo; and what is seen in the saved file."""


@pytest.fixture
def model(tmp_path: Path) -> tuple[Session, OpenModel]:
    onnx.save(onnx.parser.parse_model(SMALL), tmp_path / "m.onnx")
    session = Session(editable=True)
    return session, session.add(open_model(tmp_path / "m.onnx"), "main")


@pytest.mark.parametrize("function", CASES)
def test_functions_of_onnx_modifier(function: str, model: tuple[Session, OpenModel]) -> None:
    session, opened = model
    steps, seen = CASES[function]
    for step in steps:
        if step:
            opened.edit([{"name": name, "arguments": arguments} for name, arguments in step], session)
        else:
            opened.undo()
    (saved,) = opened.save(None, False)
    assert seen(onnx.load_model(saved))


def test_the_table_of_the_documentation_has_the_same_functions() -> None:
    text = (ROOT / "docs" / "viewing.md").read_text("utf-8")
    table = text.partition("| onnx-modifier | here |\n|---|---|\n")[2].partition("\n\n")[0]
    assert re.findall(r"^\| ([^|]*) \|", table, re.MULTILINE) == list(CASES)
