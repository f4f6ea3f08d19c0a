"""Edits by the page: steps, undo, faults, saving, scripts, and what is left when the server is killed."""

from __future__ import annotations

import base64
import os
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.web.pages import SMALL, Page, page, write
from tests.web.test_server import npy

import intaglio
from intaglio.tools import replay
from intaglio.web.arguments import described_commands


@pytest.fixture
def editor(tmp_path: Path) -> Generator[Page]:
    with page(write(tmp_path / "small.onnx"), "--edit") as found:
        yield found


def operators(state: Any) -> list[str]:
    structure = state["structure"]
    return [structure["strings"][place] for place in structure["graphs"][0]["nodes"]["op"]]


NAMES_OF_VALUES = ("add_output", "set_type", "set_dimension")
"""Commands whose `name` is that of a value."""


def test_every_command_has_a_form() -> None:
    names = {each["name"] for each in described_commands()}
    assert {"insert_node", "delete_node", "rewire", "merge", "copy_part", "set_opset"} <= names
    for command in described_commands():
        assert command["doc"], command
        for parameter in command["parameters"]:
            is_value = parameter["name"] in ("value", "old") or command["name"] in NAMES_OF_VALUES
            assert parameter["kind"] != "value" or is_value, (command["name"], parameter)


def test_steps_are_made_and_taken_back(editor: Page) -> None:
    state = editor.edit(("delete_node", {"node": 1}))
    assert (state["revision"], state["undo"], state["redo"]) == (1, "delete node", None)
    assert [fault["node"] for fault in state["faults"]] == [3]
    state = editor.post("/api/models/0/undo", {"revision": 1})
    assert operators(state) == ["MatMul", "Relu", "Add"]
    assert (state["faults"], state["undo"], state["redo"]) == ([], None, "delete node")
    state = editor.post("/api/models/0/redo")
    assert operators(state) == ["MatMul", "Add"]
    assert editor.ask("POST", "/api/models/0/redo", {}).status == 400


def test_several_commands_are_one_step(editor: Page) -> None:
    state = editor.edit(
        ("insert_node", {"operator": "Tanh", "inputs": ["m"], "outputs": ["t"], "name": "new"}),
        ("rewire", {"node": 3, "input": 0, "value": "t"}),
        ("delete_node", {"node": 1}),
    )
    assert sorted(operators(state)) == ["Add", "MatMul", "Tanh"]
    assert state["faults"] == []
    assert len(state["selection"]) == 1
    assert operators(editor.post("/api/models/0/undo")) == ["MatMul", "Relu", "Add"]


def test_a_step_that_fails_changes_nothing(editor: Page) -> None:
    given = [
        {"name": "delete_node", "arguments": {"node": 1}},
        {"name": "rename_node", "arguments": {"node": 99, "name": "x"}},
    ]
    found = editor.ask("POST", "/api/models/0/edit", {"commands": given})
    assert found.status == 400
    assert "no node 99" in found.json["error"]["message"]
    assert editor.get("/api/models/0/structure")["revision"] == 0
    assert editor.ask("POST", "/api/models/0/undo", {}).status == 400
    bad: list[Any] = [
        [], [1], [{"name": "save", "arguments": {"path": "/tmp/x"}}], [{"name": "__init__", "arguments": {}}],
        [{"name": "delete_node", "arguments": {"path": 1}}], [{"name": "delete_node", "arguments": [1]}],
        [{"name": "set_initializer", "arguments": {"name": "w", "array": {"npy": 3}}}],
        [{"name": "merge", "arguments": {"other": "/etc/passwd"}}],
        [{"name": "merge", "arguments": {"other": {"model": "9"}}}],
    ]  # fmt: skip
    for commands in bad:
        assert editor.ask("POST", "/api/models/0/edit", {"commands": commands}).status in (400, 422), commands


def test_an_old_revision_is_refused(editor: Page) -> None:
    editor.edit(("rename_node", {"node": 0, "name": "first"}))
    given = {"revision": 0, "commands": [{"name": "rename_node", "arguments": {"node": 0, "name": "second"}}]}
    assert editor.ask("POST", "/api/models/0/edit", given).status == 409


def test_arrays_go_in_as_text_and_as_npy(editor: Page) -> None:
    array = np.arange(16, dtype=np.float32).reshape(4, 4)
    editor.edit(("set_initializer", {"name": "w", "array": npy(array)}))
    assert editor.tensor("w")["values"] == array.reshape(-1).tolist()
    given = {"values": "[[1, 2], [3, 4]]", "dtype": "int64"}
    editor.edit(("set_initializer", {"name": "new", "array": given}))
    assert editor.tensor("new")["values"] == [1, 2, 3, 4]


def test_a_save_goes_beside_the_file(editor: Page, tmp_path: Path) -> None:
    editor.edit(("rename_value", {"old": "x", "new": "picture"}))
    assert editor.post("/api/models/0/save")["files"] == ["small.edited.onnx"]
    assert [each.name for each in intaglio.load(tmp_path / "small.edited.onnx").inputs] == ["picture"]
    assert [each.name for each in intaglio.load(tmp_path / "small.onnx").inputs] == ["x"]
    assert editor.ask("POST", "/api/models/0/save", {}).status == 409
    editor.post("/api/models/0/save", {"overwrite": True})
    downloaded = editor.ask("GET", "/api/models/0/download").body
    assert downloaded == (tmp_path / "small.edited.onnx").read_bytes()


ELSEWHERE = ["../out.onnx", "/tmp/out.onnx", "a/b.onnx", "..\\x.onnx", ".hidden.onnx", "x.txt", "", "a\0.onnx",
             "new\nline.onnx", "x" * 300 + ".onnx", "C:x.onnx"]  # fmt: skip


def test_a_save_elsewhere_is_refused(editor: Page, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    for name in ELSEWHERE:
        found = editor.ask("POST", "/api/models/0/save", {"path": name, "overwrite": True})
        assert (found.status, name) == (400, name)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_save_does_not_follow_links(editor: Page, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.write_text("precious")
    (tmp_path / "link.onnx").symlink_to(outside)
    editor.ask("POST", "/api/models/0/save", {"path": "link.onnx", "overwrite": True})
    assert outside.read_text() == "precious"


def test_a_script_makes_the_same_file(editor: Page, tmp_path: Path) -> None:
    array = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    editor.edit(("set_initializer", {"name": "w", "array": npy(np.tile(array, (5, 1))[:4])}))
    editor.edit(("rename_value", {"old": "m", "new": "product"}), ("add_output", {"name": "r"}))
    editor.post("/api/models/0/save")
    script = editor.get("/api/models/0/script")
    (tmp_path / "edits.py").write_text(script["text"])
    if script["arrays"]:
        (tmp_path / "edits.py.npz").write_bytes(base64.b64decode(script["arrays"]))
    again = replay(tmp_path / "edits.py", tmp_path / "small.onnx").message()
    assert again.SerializeToString(deterministic=True) == (tmp_path / "small.edited.onnx").read_bytes()


def test_parts_are_copied_from_what_was_sent(editor: Page) -> None:
    other = onnx.parser.parse_model(SMALL.replace("small", "other")).SerializeToString()
    sent = editor.ask("POST", "/api/models", other, {"X-Name": "../../evil.onnx"})
    assert sent.status == 201
    model = sent.json["id"]
    assert editor.get("/api/models")["models"][1]["file"] == "evil.onnx"
    state = editor.edit(
        ("copy_part", {"outputs": ["r"], "inputs": ["x"], "bind": {"x": "x"}, "source": {"model": model}})
    )
    assert operators(state).count("MatMul") == 2
    state = editor.edit(("merge", {"other": {"model": model}, "connect": {"x": "y"}, "prefix": "b/"}))
    assert operators(state).count("MatMul") == 3
    assert state["faults"] == []


def test_only_onnx_is_taken(editor: Page, tmp_path: Path) -> None:
    intaglio.load(tmp_path / "small.onnx").save_compiled(tmp_path / "m.intaglio")
    for body in (b"", b"no model", (tmp_path / "m.intaglio").read_bytes()):
        assert editor.ask("POST", "/api/models", body).status in (400, 422)
    model = onnx.parser.parse_model(SMALL)
    model.graph.initializer[0].ClearField("float_data")
    model.graph.initializer[0].data_location = onnx.TensorProto.EXTERNAL
    model.graph.initializer[0].external_data.add(key="location", value="small.onnx")
    sent = editor.ask("POST", "/api/models", model.SerializeToString())
    found = editor.ask("GET", f"/api/models/{sent.json['id']}/tensors/w")
    assert found.status == 422, found.body


def test_nothing_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    path = write(tmp_path / "small.onnx")
    with page(path, "--edit") as found:
        found.edit(("rename_node", {"node": 0, "name": "kept"}))
        found.edit(("delete_node", {"node": 1}), ("rewire", {"node": 3, "input": 0, "value": "m"}))
        found.post("/api/models/0/undo")
        found.edit(("set_initializer", {"name": "w", "array": npy(np.ones((4, 4), np.float32))}))
        wanted = found.ask("GET", "/api/models/0/download").body
        found.end(signal.SIGKILL)
    with page(path, "--edit") as found:
        assert "4 unsaved edits were restored" in found.get("/api/models")["models"][0]["notices"]
        assert found.ask("GET", "/api/models/0/download").body == wanted
        state = found.post("/api/models/0/undo")
        assert found.tensor("w")["values"][:2] == [1.0, 2.0]
        found.post("/api/models/0/redo")
        found.post("/api/models/0/save", {"path": "small.onnx", "overwrite": True})
        assert state["redo"] == "set initializer"
    assert path.read_bytes() == wanted
    with page(path, "--edit") as found:
        assert found.get("/api/models")["models"][0]["notices"] == []


def test_a_journal_of_another_content_is_kept_and_not_made(tmp_path: Path) -> None:
    path = write(tmp_path / "small.onnx")
    with page(path, "--edit") as found:
        found.edit(("rename_node", {"node": 0, "name": "kept"}))
        found.end(signal.SIGKILL)
    write(path, SMALL.replace("Relu", "Tanh"))
    with page(path, "--edit") as found:
        (notice,) = found.get("/api/models")["models"][0]["notices"]
        assert "changed since 1 unsaved edits" in notice
        assert found.get("/api/models/0/structure")["revision"] == 0
    assert (tmp_path / ".small.onnx.intaglio-edits.1").exists()


def test_a_journal_that_was_cut_off_gives_what_is_whole(tmp_path: Path) -> None:
    path = write(tmp_path / "small.onnx")
    with page(path, "--edit") as found:
        found.edit(("rename_node", {"node": 0, "name": "kept"}))
        found.edit(("rename_node", {"node": 1, "name": "lost"}))
        found.end(signal.SIGKILL)
    journal = tmp_path / ".small.onnx.intaglio-edits"
    assert journal.stat().st_mode & 0o077 == 0
    journal.write_bytes(journal.read_bytes()[:-5])
    with page(path, "--edit") as found:
        assert found.get("/api/models/0/nodes/0")["name"] == "kept"
        assert found.get("/api/models/0/nodes/1")["name"] == "relu"


def test_a_file_that_changes_meanwhile_is_noticed(editor: Page, tmp_path: Path) -> None:
    assert editor.get("/api/models")["models"][0]["changed_on_disk"] is False
    os.utime(tmp_path / "small.onnx")
    assert editor.get("/api/models")["models"][0]["changed_on_disk"] is False
    write(tmp_path / "small.onnx", SMALL.replace("Relu", "Tanh"))
    assert editor.get("/api/models")["models"][0]["changed_on_disk"] is True
