"""The commands that change files: arguments, exit codes, JSON, pipes and scripts. Tests of tools judge them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from tests.tools.edited_models import MODELS, assert_same, judged, made_up, parsed

from intaglio.tools import read_document


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("convolution", "bodies", "functions"):
        Path(f"{name}.onnx").write_bytes(MODELS[name]().SerializeToString())
    return tmp_path


def answers(path: str) -> dict[str, np.ndarray]:
    model = onnx.load_model(path)
    return judged(model, made_up(model))


VERBS: list[tuple[list[str], str]] = [
    (["prune", "IN", "OUT"], "removed"),
    (["dedupe", "IN", "-o", "OUT"], "removed"),
    (["inline", "IN", "OUT"], "calls"),
    (
        ["rename", "IN", "OUT", "--pattern", "s/^r(1)$/r\\/\\1/", "--node", "add=sum", "--dim", "N=batch"],
        "renamed",
    ),
    (["set-opset", "13", "IN", "OUT"], "nodes_rewritten"),
    (["set-opset", "21", "IN", "-o", "OUT"], "nodes_rewritten"),
    (["set-shape", "IN", "OUT", "--dim", "N=2"], "outputs"),
    (["set-shape", "--shape", "image=[batch, 3, 8, 8]", "IN", "OUT"], "outputs"),
    (["extract", "IN", "--to", "mask", "--to", "scores", "OUT"], "nodes_before"),
    (["internalize", "IN", "OUT"], "tensors"),
    (["convert", "IN", "OUT"], ""),
]


@pytest.mark.parametrize(("arguments", "key"), VERBS, ids=lambda each: each[0] if isinstance(each, list) else "")
def test_verbs_write_models_that_answer_the_same(cli, folder: Path, arguments: list[str], key: str) -> None:
    words = [{"IN": "convolution.onnx", "OUT": "out.onnx"}.get(each, each) for each in arguments]
    result = cli(*words, "--json")
    assert result.status == 0, result.err
    report = json.loads(result.out)
    assert (report["input"], report["output"]) == ("convolution.onnx", "out.onnx")
    assert not key or key in report
    assert_same(answers("out.onnx"), answers("convolution.onnx"))
    assert cli(*words).status == 0, "the result may be written again"
    refused = cli(*[{"out.onnx": "./convolution.onnx"}.get(each, each) for each in words])
    assert refused.status == 2
    assert "is a model that is read" in refused.err


def test_values_are_added_and_layouts_changed(cli, folder: Path) -> None:
    result = cli("add-outputs", "convolution.onnx", "--name", "c*", "-o", "more.onnx")
    assert result.status == 0
    assert "added    c1" in result.out
    assert list(answers("more.onnx")) == ["mask", "scores", "c1", "c2"]
    assert cli("add-outputs", "convolution.onnx", "--all", "all.onnx").status == 0
    assert cli("layout", "nhwc", "convolution.onnx", "last.onnx").status == 0
    assert cli("layout", "nchw", "last.onnx", "first.onnx").status == 0
    assert_same(answers("first.onnx"), answers("convolution.onnx"))
    assert cli("layout", "nhwc", "convolution.onnx", "one.onnx", "--output-name", "mask").status == 0
    assert onnx.load_model("one.onnx").graph.input == onnx.load_model("convolution.onnx").graph.input
    assert "choose from nchw, nhwc" in cli("layout", "xyz", "convolution.onnx", "one.onnx").err


def test_models_are_merged(cli, folder: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> h (float[N, 64] scores) => (float[N, 64] y) { y = Neg (scores) }'
    Path("head.onnx").write_bytes(parsed(text).SerializeToString())
    result = cli("merge", "convolution.onnx", "head.onnx", "out.onnx", "--json")
    assert result.status == 0, result.err
    assert json.loads(result.out)["outputs"] == ["mask", "y"]
    np.testing.assert_array_equal(answers("out.onnx")["y"], -answers("convolution.onnx")["scores"])
    words = ["convolution.onnx", "head.onnx", "head.onnx", "--connect", "y=scores", "--prefix", "", "--prefix", "p_"]
    assert cli("merge", *words, "-o", "three.onnx").status == 1, "y is not there yet when the first head is merged"
    assert cli("merge", "convolution.onnx", "head.onnx").status == 2
    clash = cli("merge", "head.onnx", "head.onnx", "out.onnx")
    assert clash.status == 1
    assert "give a prefix" in clash.err
    assert cli("merge", "convolution.onnx", "head.onnx", "./head.onnx").status == 2


def test_weights_leave_and_come_back(cli, folder: Path) -> None:
    assert cli("strip", "convolution.onnx", "stripped.onnx").status == 0
    assert Path("stripped.onnx").stat().st_size < 2500
    assert cli("check", "stripped.onnx").status == 1
    assert cli("restore", "stripped.onnx", "back.onnx").status == 2
    assert cli("restore", "stripped.onnx", "back.onnx", "--from", "convolution.onnx").status == 0
    assert onnx.load_model("back.onnx") == onnx.load_model("convolution.onnx")
    assert cli("convert", "convolution.onnx", "w.safetensors").status == 0
    assert cli("restore", "stripped.onnx", "-o", "again.onnx", "--from", "w.safetensors").status == 0
    assert onnx.load_model("again.onnx") == onnx.load_model("convolution.onnx")
    assert cli("restore", "stripped.onnx", "made.onnx", "--random", "3").status == 0
    answers("made.onnx")
    assert cli("externalize", "convolution.onnx", "out.onnx", "--location", "w.bin").status == 0
    assert Path("w.bin").stat().st_size > 2**16
    assert cli("internalize", "out.onnx", "in.onnx").status == 0
    assert onnx.load_model("in.onnx") == onnx.load_model("convolution.onnx")
    assert cli("externalize", "convolution.onnx", "-o", "-").status == 2


def test_text_and_json_go_through_pipes(cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("convert", "bodies.onnx", "m.json").status == 0
    assert json.loads(Path("m.json").read_text())["graph"]["nodes"][0]["operator"] == "MatMul"
    assert cli("convert", "m.json", "back.onnx").status == 0
    assert onnx.load_model("back.onnx") == onnx.load_model("bodies.onnx")
    text = cli("convert", "bodies.onnx", "-", "--to", "text").out
    assert "MatMul" in text
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
    assert cli("convert", "-", "text.onnx", "--as", "text").status == 0
    assert_same(answers("text.onnx"), answers("bodies.onnx"))
    assert cli("convert", "bodies.onnx", "m.xyz").status == 1
    assert cli("convert", "bodies.onnx", "convolution.onnx", "-o", "texts", "--to", "json").status == 0
    assert sorted(each.name for each in Path("texts").iterdir()) == ["bodies.json", "convolution.json"]


def test_edits_are_written_down_and_replayed(cli, folder: Path) -> None:
    assert cli("rename", "bodies.onnx", "out.onnx", "--value", "x=in", "--script", "change.py").status == 0
    assert cli("edit", "change.py", "bodies.onnx", "-o", "again.onnx").status == 0
    assert onnx.load_model("again.onnx") == onnx.load_model("out.onnx")
    wrong = cli("edit", "change.py", "convolution.onnx", "bodies.onnx", "-o", "new", "--json")
    assert wrong.status == 1
    reports = json.loads(wrong.out)["files"]
    assert reports[0]["error"]["text"].startswith("command 1, line")
    assert "error" not in reports[1]
    Path("bad.py").write_text("import os\nos.remove('bodies.onnx')\n")
    assert cli("edit", "bad.py", "bodies.onnx", "out.onnx").status == 1
    assert Path("bodies.onnx").exists()


def test_models_are_changed_in_place_and_many_at_once(cli, folder: Path) -> None:
    before = answers("bodies.onnx")
    assert cli("prune", "bodies.onnx", "--in-place").status == 0
    assert "dead" not in [node.name for node in onnx.load_model("bodies.onnx").graph.node]
    assert_same(answers("bodies.onnx"), before)
    assert cli("inline", "*.onnx", "-o", "flat").status == 0
    assert len(list(Path("flat").iterdir())) == 3
    assert_same(answers("flat/functions.onnx"), answers("functions.onnx"))


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["rename", "bodies.onnx", "o.onnx"], 2, "what shall be renamed"),
        (["rename", "bodies.onnx", "o.onnx", "--value", "x"], 2, "'x' is not OLD=NEW"),
        (["rename", "bodies.onnx", "o.onnx", "--pattern", "s/a"], 2, "is not s/RE/TEXT/"),
        (["rename", "bodies.onnx", "o.onnx", "--value", "q=w"], 1, "there is no value 'q'"),
        (["set-shape", "bodies.onnx", "o.onnx"], 2, "which shape"),
        (["add-outputs", "bodies.onnx", "o.onnx"], 2, "which values"),
        (["set-opset", "x", "bodies.onnx", "o.onnx"], 2, "is no whole number"),
        (["set-opset", "5", "bodies.onnx", "o.onnx"], 1, "cannot say"),
        (["extract", "bodies.onnx", "o.onnx", "--to", "yy"], 1, "there is no value 'yy'"),
        (["prune", "none.onnx", "o.onnx"], 1, "there is no file 'none.onnx'"),
        (["prune", "bodies.onnx"], 2, "where shall the result go"),
        (["edit", "none.py", "bodies.onnx", "o.onnx"], 1, "cannot be read as a script"),
    ],
)
def test_what_is_wrong_is_said(cli, folder: Path, arguments: list[str], status: int, words: str) -> None:
    result = cli(*arguments, "--json")
    assert (result.status, Path("o.onnx").exists()) == (status, False)
    assert words in result.err
    assert words in json.loads(result.out)["error"]["text"]


def test_a_model_goes_through_a_pipe(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from intaglio.cli import main

    out = io.BytesIO()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(Path("bodies.onnx").read_bytes())))
    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=out, flush=lambda: None))
    monkeypatch.setattr("sys.argv", ["intaglio", "prune", "-"])
    with pytest.raises(SystemExit) as exit:
        main()
    assert exit.value.code == 0
    pruned = read_document(out.getvalue()).message()
    assert len(pruned.graph.node) == len(onnx.load_model("bodies.onnx").graph.node) - 1
