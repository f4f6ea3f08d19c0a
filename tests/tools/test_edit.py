from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import intaglio
import intaglio.tools
from intaglio.errors import InputError
from intaglio.tools.editing import Editor

TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 3] x, bool c) => (float[N, 3] y) <float[3, 3] w = {1, 0, 0, 0, 1, 0, 0, 0, 1}, float[N, 3] m> {
    [product] m = MatMul (x, w)
    [same] r = Relu (m)
    [choice] b = If (c) <then_branch = t () => (p) { p = Neg (r) }, else_branch = e () => (q) { r = Abs (m)
                                                                                            q = Exp (r) }>
    [last] y = LeakyRelu <alpha = 0.25> (b)
}
"""


@pytest.fixture
def editor() -> Editor:
    return intaglio.tools.edit(onnx.parser.parse_model(TEXT))


def run(editor: Editor, x: np.ndarray, c: bool) -> np.ndarray:
    return intaglio.load(editor.document.message(), engine="reference").run({"x": x, "c": np.array(c)})["y"]


X = np.array([[1.0, -2, 3]], np.float32)


def test_values_are_renamed_where_they_mean_the_same(editor: Editor) -> None:
    before = [run(editor, X, c) for c in (True, False)]
    editor.rename_value("r", "hidden")
    editor.rename_value("m", "scores")
    editor.rename_value("y", "result")
    editor.rename_value("result", "y")
    text = str(editor.document.message())
    assert '"hidden"' in text
    assert '"scores"' in text
    inner = editor.node("choice").bodies()[1]
    assert [node.outputs for node in inner.nodes] == [["r"], ["q"]], "the body's own r is another value"
    assert not editor.faults()
    np.testing.assert_array_equal([run(editor, X, c) for c in (True, False)], before)


def test_a_name_that_is_taken_is_refused_and_nothing_is_done(editor: Editor) -> None:
    message = editor.document.message()
    with pytest.raises(InputError, match="'q' is the name of another value"):
        editor.rename_value("m", "q")
    with pytest.raises(InputError, match="there is no value 'n'"):
        editor.rename_value("n", "z")
    with pytest.raises(InputError, match="is the name of another value"):
        editor.insert_node("Neg", ["x"], ["m"])
    assert editor.document.message() == message
    with pytest.raises(InputError, match="nothing to undo"):
        editor.undo()


def test_a_bypassed_node_leaves_the_graph_whole(editor: Editor) -> None:
    editor.bypass_node("same")
    assert not editor.faults()
    np.testing.assert_array_equal(run(editor, X, True), np.where(-X > 0, -X, -X * np.float32(0.25)))
    editor.bypass_node("last")
    assert not editor.faults()
    np.testing.assert_array_equal(run(editor, X, True), -X)


def test_faults_of_a_broken_graph_are_listed(editor: Editor) -> None:
    editor.delete_node("product")
    editor.set_attribute("last", "alhpa", 3.0)
    text = "\n".join(map(str, editor.faults()))
    assert "'m'" in text
    assert "alhpa" in text
    editor.undo()
    editor.undo()
    assert not editor.faults()


def test_nodes_constants_and_types(editor: Editor) -> None:
    number = editor.insert_node("Mul", ["b", "two"], ["b2"], before="last")
    editor.set_initializer("two", np.array(2, np.float32))
    editor.rewire("last", 0, "b2")
    editor.set_attribute("last", "alpha", 0.5)
    editor.set_dimension("x", 0, 1)
    editor.set_type("b2", "float32", ["N", 3])
    editor.add_output("b2")
    assert not editor.faults()
    assert editor.node(number).inputs == ["b", "two"]
    np.testing.assert_array_equal(run(editor, X, True), [[-1, 0, -3]])
    assert [info.name for info in editor.document.graph.outputs] == ["y", "b2"]


def test_equal_names_are_told_apart_by_numbers(editor: Editor) -> None:
    editor.rename_node("last", "same")
    with pytest.raises(InputError, match=r"2 nodes are named 'same'; give the number of one: \d+, \d+"):
        editor.delete_node("same")
    with pytest.raises(InputError, match="did you mean 'choice'"):
        editor.node("choise")


COMMANDS = [
    lambda e: e.rename_value("r", "hidden"),
    lambda e: e.bypass_node("product"),
    lambda e: e.insert_node("Neg", ["x"], ["n"], name="new", before="choice"),
    lambda e: e.set_attribute("last", "alpha", 0.125),
    lambda e: e.set_attribute("last", "alpha", None),
    lambda e: e.set_initializer("w", np.full((3, 3), np.nan, np.float32)),
    lambda e: e.set_initializer("k", np.arange(200)),
    lambda e: e.remove_initializer("w"),
    lambda e: e.add_input("z", "int64", ["N", None]),
    lambda e: e.remove_input("c"),
    lambda e: e.add_output("m"),
    lambda e: e.remove_output("y"),
    lambda e: e.set_type("m", "float16"),
    lambda e: e.delete_node("choice"),
]


@pytest.mark.parametrize("seed", range(20))
def test_any_commands_are_undone_redone_and_replayed(editor: Editor, seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    states = [editor.document.message()]
    for place in random.permutation(len(COMMANDS)):
        try:
            COMMANDS[place](editor)
        except InputError:
            assert editor.document.message() == states[-1]
            continue
        states.append(editor.document.message())
    for state in states[-2::-1]:
        editor.undo()
        assert editor.document.message() == state
    for state in states[1:]:
        editor.redo()
        assert editor.document.message() == state
    if seed:
        return
    model, script = tmp_path / "model.onnx", tmp_path / "change.py"
    model.write_bytes(states[0].SerializeToString())
    assert [path.name for path in editor.save_script(script)] == ["change.py", "change.py.npz"]
    subprocess.run([sys.executable, script, model, tmp_path / "out.onnx"], check=True)
    assert onnx.load_model(tmp_path / "out.onnx") == states[-1]
