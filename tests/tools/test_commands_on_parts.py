"""The larger commands of an editor: types, inverses, scripts, and random sequences of them on many models."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import ModelProto
from tests.tools.edited_models import MODELS, assert_same, judged, made_up, parsed
from tests.tools.test_document import official_models

import intaglio.tools
from intaglio.errors import InputError, IntaglioError
from intaglio.tools.editing import Editor

OTHER = '<ir_version: 9, opset_import: ["" : 18, "own" : 1]> h (float[N, 3] p) => (float[N, 3] q) { q = Neg (p) }'


def test_types_are_inferred_where_they_can_be() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "odd" : 1]> g (float[N, 3] x, bool c) => (y) {
        a = Transpose (x)
        b = odd.Nobody (a)
        d = Neg (b)
        y = Shape (a)
    }"""
    editor = intaglio.tools.edit(onnx.parser.parse_model(text))
    assert editor.types() == {"x": "float32[N, 3]", "c": "bool[]", "a": "float32[3, N]", "y": "int64[2]"}
    editor.rewire(editor.nodes()[0].number, 0, "missing")
    assert editor.types()["x"] == "float32[N, 3]"
    assert any("missing" in str(fault) for fault in editor.faults())


def test_a_strict_editor_takes_back_what_breaks_the_model() -> None:
    model = MODELS["bodies"]()
    editor = intaglio.tools.edit(model, strict=True)
    for change in (
        lambda: editor.rewire("last", 0, "nothing"),
        lambda: editor.rewire("product", 1, "c"),
        lambda: editor.delete_node("relu"),
        lambda: editor.set_attribute("last", "colour", 3),
    ):
        with pytest.raises(InputError, match="the change would break the model"):
            change()
        assert editor.document.message() == model
    editor.rename_value("r", "s")
    editor.rewire("last", 0, "m")
    assert not editor.faults()


def test_all_faults_of_a_broken_graph_are_listed() -> None:
    editor = intaglio.tools.edit(MODELS["convolution"]())
    editor.delete_node("conv1")
    editor.set_attribute("conv3", "colour", 3)
    editor.remove_initializer("w2")
    editor.set_initializer("b1_again", np.zeros((2, 2), np.int32))
    text = "\n".join(map(str, editor.faults()))
    for word in ("'c1'", "colour", "'w2'"):
        assert word in text
    for _ in range(4):
        editor.undo()
    assert not editor.faults()


def test_a_value_becomes_a_constant_and_what_served_it_goes() -> None:
    model = MODELS["bodies"]()
    editor = intaglio.tools.edit(model)
    editor.replace_by_constant("w2")
    assert "shift" in [node.name for node in editor.nodes()], "somebody else reads it"
    editor.replace_by_constant("m", np.ones((2, 4), np.float32))
    names = [node.name for node in editor.nodes()]
    assert "product" not in names
    assert "dead" in names, "what was unused before is left alone"
    assert not any(tensor.name == "w" for tensor in editor.document.graph.initializers)
    got = judged(editor.document.message(), made_up(model))
    np.testing.assert_array_equal(got["z"], np.ones((2, 4), np.float32))
    with pytest.raises(InputError, match="depends on the inputs 'x'"):
        intaglio.tools.edit(model).replace_by_constant("r")
    with pytest.raises(InputError, match=r"the constant does not fit 'm': float32\[N, 4\] and int32\[4\]"):
        intaglio.tools.edit(model).replace_by_constant("m", np.ones(4, np.int32))
    with pytest.raises(InputError, match="is no result of a node"):
        intaglio.tools.edit(model).replace_by_constant("w", np.ones(4, np.int32))


def test_a_constant_in_a_file_of_old_age_is_a_node() -> None:
    text = '<ir_version: 3, opset_import: ["" : 9]> g (float[2] x) => (float[2] y) { a = Abs (x) y = Neg (a) }'
    model = onnx.parser.parse_model(text)
    editor = intaglio.tools.edit(model)
    editor.replace_by_constant("a", np.array([1, 2], np.float32))
    np.testing.assert_array_equal(judged(editor.document.message(), made_up(model))["y"], [-1, -2])


def test_parts_are_copied_within_a_model_and_between_models() -> None:
    model = MODELS["bodies"]()
    editor = intaglio.tools.edit(model)
    (new,) = editor.copy_part(["b"], ["m"], prefix="again_", bind={"m": "x"})
    editor.add_outputs([new])
    assert not editor.faults()
    for seed in range(3):
        feed = made_up(model, seed)
        got = judged(editor.document.message(), feed)
        assert_same({each: got[each] for each in ("y", "z")}, judged(model, feed))
        shift = np.array([0.5, -0.5, 1, 2], np.float32)
        expected = -np.maximum(feed["x"], 0) if feed["c"] else np.abs(feed["x"]) + shift
        np.testing.assert_array_equal(got[new], expected)
    other = MODELS["functions"]()
    (far,) = editor.copy_part(["y"], source=other, prefix="far_", bind={"x": "z"})
    with pytest.raises(InputError, match="say by `bind` what 'x'"):
        editor.copy_part(["y"], source=other)
    assert [each.shell.name for each in editor.document.functions] == ["scaled", "outer"]
    assert editor.document.opset("own") == 1
    assert far == "far_y"
    assert any("far_y" in node.outputs for node in editor.nodes())


def test_functions_are_inlined_one_by_one() -> None:
    model = MODELS["functions"]()
    for order in itertools.permutations(["scaled", "outer"]):
        editor = intaglio.tools.edit(model)
        calls = [editor.inline_function(name) for name in order]
        assert sum(calls) >= 4
        assert not editor.document.functions
        for seed in range(4):
            feed = made_up(model, seed)
            assert_same(judged(editor.document.message(), feed), judged(model, feed))
    with pytest.raises(InputError, match="there is no function 'scale'; did you mean 'scaled'"):
        intaglio.tools.edit(model).inline_function("scale")
    model.functions[0].node[1].op_type, model.functions[0].node[1].domain = "scaled", "own"
    with pytest.raises(InputError, match="calls itself"):
        intaglio.tools.edit(model).inline_function("scaled")


def test_a_function_of_another_operator_set_is_refused() -> None:
    model = MODELS["functions"]()
    for function in model.functions:
        for entry in function.opset_import:
            if not entry.domain:
                entry.version = 12
    with pytest.raises(InputError, match=r"is written in ai.onnx 12 and the model in 17, where ReduceSum differ"):
        intaglio.tools.edit(model).inline_function("outer")
    assert intaglio.tools.edit(model).inline_function("scaled") == 3


def random_command(editor: Editor, rng: np.random.Generator) -> None:
    """One command with arguments that are often right."""
    graph = editor.document.graph
    values = [name for node in graph.nodes for name in node.outputs if name] or ["none"]
    values += [info.name for info in graph.inputs]
    nodes = [node.number for node in editor.nodes()] or [0]

    def value() -> str:
        return str(rng.choice(values))

    def node() -> int:
        return int(rng.choice(nodes))

    commands: list[Any] = [
        lambda: editor.extract([], [value()]),
        lambda: editor.extract([value()], [value(), value()]),
        lambda: editor.merge(parsed(OTHER), {"p": value()}, prefix=f"m{rng.integers(9)}_"),
        lambda: editor.merge(parsed(OTHER), {}, prefix="far_", keep_outputs=True),
        lambda: editor.replace_by_constant(value(), rng.standard_normal(3).astype(np.float32)),
        lambda: editor.replace_by_constant(value()),
        lambda: editor.copy_part([value()], [value()]),
        lambda: editor.copy_part(["q"], source=parsed(OTHER), prefix="o_", bind={"p": value()}),
        lambda: editor.inline_function(str(rng.choice([f.shell.name for f in editor.document.functions] or ["f"]))),
        lambda: editor.rename_values({value(): value(), value(): f"new{rng.integers(99)}"}),
        lambda: editor.rename_dimension("N", "M"),
        lambda: editor.add_outputs([value()]),
        lambda: editor.prune(bool(rng.integers(2))),
        lambda: editor.dedupe(),
        lambda: editor.set_opset(int(rng.integers(9, 24))),
        lambda: editor.infer_types(),
        lambda: editor.transpose_input(value(), [1, 0]),
        lambda: editor.transpose_output(value(), [0, 2, 3, 1]),
        lambda: editor.bypass_node(node()),
        lambda: editor.delete_node(node()),
        lambda: editor.rename_node(node(), "again"),
        lambda: editor.insert_node("Neg", [value()], [f"n{rng.integers(99)}"], before=node()),
        lambda: editor.remove_output(graph.outputs[0].name if graph.outputs else "none"),
        lambda: editor.set_type(value(), "float16", ["A", 2]),
        lambda: editor.rewire(node(), 0, value()),
    ]
    commands[rng.integers(len(commands))]()


def play(model: ModelProto, seed: int, length: int) -> tuple[Editor, list[ModelProto]]:
    """An editor after random commands, and what the model was after each."""
    rng, editor = np.random.default_rng(seed), intaglio.tools.edit(model)
    states = [editor.document.message()]
    assert states[0] == model
    while len(editor.journal.done) < length and rng.random() > 0.02:
        count = len(editor.journal.done)
        try:
            random_command(editor, rng)
        except IntaglioError:
            assert editor.document.message() == states[-1]
        if len(editor.journal.done) > count:
            states.append(editor.document.message())
    return editor, states


def undo_and_redo(editor: Editor, states: list[ModelProto]) -> None:
    for state in states[-2::-1]:
        editor.undo()
        assert editor.document.message() == state
    for state in states[1:]:
        editor.redo()
        assert editor.document.message() == state


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("seed", range(12))
def test_any_commands_are_undone_and_redone(name: str, seed: int) -> None:
    undo_and_redo(*play(MODELS[name](), seed, 12))


@pytest.mark.slow
def test_any_commands_are_undone_on_official_models() -> None:
    for seed, model in enumerate(official_models()):
        undo_and_redo(*play(model, seed, 6))


@pytest.mark.parametrize("name", sorted(MODELS))
def test_scripts_of_any_commands_replay(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    for seed in range(100, 104):
        editor, states = play(model, seed, 8)
        script = editor.save_script(tmp_path / f"change{seed}.py")[0]
        assert intaglio.tools.replay(script, path).message() == states[-1]
    if name == "bodies":  # the script is a program of its own, too
        subprocess.run([sys.executable, script, path, tmp_path / "out.onnx"], check=True)
        assert onnx.load_model(tmp_path / "out.onnx") == states[-1]
