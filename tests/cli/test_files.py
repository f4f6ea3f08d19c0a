"""Which files go in and come out of a command that changes models."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import onnx
import onnx.parser
import pytest

from intaglio.cli.app import COMMANDS, SECTIONS, make_parser
from intaglio.cli.files import Files, Job, Output, Report, each_file, jobs
from intaglio.cli.options import Argument, Option, Section, UsageError, build_parser, command_name
from intaglio.cli.terminal import JsonOption
from intaglio.errors import InputError

RELU = '<ir_version: 8, opset_import: ["" : 17]> g (float[n] x) => (float[n] y) { y = Relu(x) }'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("a.onnx", "b.onnx", "[x].onnx"):
        Path(name).write_bytes(onnx.parser.parse_model(RELU).SerializeToString())
    return tmp_path


def pairs(*arguments: Any, **options: Any) -> list[tuple[str, str]]:
    return [(job.source, job.target) for job in jobs(*arguments, **options)]


def test_one_model_goes_where_it_is_told(folder: Path) -> None:
    assert pairs(["a.onnx", "out.onnx"], None) == [("a.onnx", "out.onnx")]
    assert pairs(["a.onnx"], "out.onnx") == [("a.onnx", "out.onnx")]
    assert pairs(["a.onnx"], None, in_place=True) == [("a.onnx", "a.onnx")]
    assert pairs(["a.onnx", "./a.onnx"], None, force=True) == [("a.onnx", "./a.onnx")]
    assert pairs(["-"], None) == [("-", "-")]
    assert pairs(["[x].onnx", "-"], None) == [("[x].onnx", "-")]
    (folder / "results").mkdir()
    assert pairs(["a.onnx"], "results", suffix=".json") == [("a.onnx", "results/a.json")]


def test_several_models_go_to_a_folder(folder: Path) -> None:
    expected = [("a.onnx", "new/a.onnx"), ("b.onnx", "new/b.onnx")]
    assert pairs(["a.onnx", "b.onnx"], "new") == expected
    assert pairs(["?.onnx"], "new") == expected
    assert (folder / "new").is_dir()
    assert pairs(["?.onnx"], None, in_place=True) == [("a.onnx", "a.onnx"), ("b.onnx", "b.onnx")]


@pytest.mark.parametrize(
    ("files", "output", "options", "words"),
    [
        (["a.onnx"], None, {}, "where shall the result go"),
        (["a.onnx", "b.onnx", "c.onnx"], None, {}, "-o FOLDER"),
        (["a.onnx", "./a.onnx"], None, {}, "is a model that is read"),
        (["a.onnx", "b.onnx"], "a.onnx", {}, "need a folder"),
        (["a.onnx", "b.onnx"], "-", {}, "need a folder"),
        (["a.onnx", "sub/a.onnx"], "new", {}, "two of the models"),
        (["a.onnx", "b.onnx"], ".", {}, "is a model that is read"),
        (["-", "a.onnx"], "new", {}, "has no name in a folder"),
        (["a.onnx"], "b.onnx", {"in_place": True}, "give no other output"),
        (["-"], None, {"in_place": True}, "give no other output"),
        (["a.onnx", "-"], None, {"as_json": True}, "both write to standard output"),
    ],
)
def test_what_is_not_clear_is_a_usage_error(
    folder: Path, files: list[str], output: str | None, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        jobs(files, output, **options)


def test_a_hard_link_is_the_same_file(folder: Path) -> None:
    os.link("a.onnx", "linked.onnx")
    with pytest.raises(UsageError, match="is a model that is read"):
        jobs(["a.onnx", "linked.onnx"], None)


def test_a_pattern_that_nothing_fits(folder: Path) -> None:
    with pytest.raises(InputError, match=r"no file fits the pattern 'z\*'"):
        jobs(["z*"], "new")


def test_one_that_fails_does_not_stop_the_others(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.onnx").write_bytes(b"no model")

    def work(job: Job) -> Report:
        return {"written": job.write(job.read())}

    assert each_file(jobs(["a.onnx", "bad.onnx", "b.onnx"], "new"), work, as_json=True) == 1
    written = capsys.readouterr()
    reports = json.loads(written.out)["files"]
    assert [report.get("written") for report in reports] == [["new/a.onnx"], None, ["new/b.onnx"]]
    assert reports[1]["error"]["kind"] == "LoadError"
    assert "error: bad.onnx: " in written.err
    assert (folder / "new/a.onnx").read_bytes() == (folder / "a.onnx").read_bytes()


def test_models_on_standard_streams(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    data = (folder / "a.onnx").read_bytes()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=out))
    (job,) = jobs(["-"], None)
    assert each_file([job], lambda job: {"written": job.write(job.read())}) == 0
    assert onnx.ModelProto.FromString(out.getvalue()) == onnx.ModelProto.FromString(data)


def test_arguments_may_stand_between_options() -> None:
    def many(
        kind: Annotated[str, Argument("KIND", "What.")],
        files: Files,
        output: Output = None,
        level: Annotated[int, Option("--level", help="How much.")] = 0,
        as_json: JsonOption = False,
    ) -> None:
        """Do it."""

    def one(
        model: Annotated[str, Argument("MODEL", "A model.")],
        out: Annotated[str | None, Argument("OUT", "A file.")] = None,
        level: Annotated[int, Option("--level", help="How much.")] = 0,
    ) -> None:
        """Do it."""

    parser = build_parser("p", "P.", [Section("All", [("How?", ("many", many)), ("What?", ("one", one))])])
    for words in ("k a b --level 3", "k a --level 3 b", "--level 3 k a b", "k --level 3 a b"):
        found = parser.parse_args(["many", *words.split()])
        assert (found.kind, found.files, found.level) == ("k", ["a", "b"], 3), words
    for words in ("a - --level 3", "a --level 3 -", "--level 3 a -"):
        found = parser.parse_args(["one", *words.split()])
        assert (found.model, found.out) == ("a", "-"), words
    assert parser.parse_args(["one", "a"]).out is None
    for wrong in (
        ["many", "k"],
        ["one", "a", "b", "c"],
        ["one", "a", "--lev", "b"],
        ["one", "a", "b", "--level", "3", "c"],
    ):
        with pytest.raises(UsageError):
            parser.parse_args(wrong)


def test_help_is_a_table_of_questions() -> None:
    text = make_parser().format_help()
    lines = [line.rstrip() for line in text.splitlines()]
    for section in SECTIONS:
        assert f"{section.title}:" in lines
        for question, command in section.entries:
            assert any(
                line.startswith(f"  {question} ") and line.endswith(f" {command_name(command)}") for line in lines
            )
    assert max(map(len, lines)) <= 80
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    for section in SECTIONS:
        for question, command in section.entries:
            assert f"| {section.title} | {question} | `{command_name(command)}` |" in page
    names = [command_name(command) for command in COMMANDS]
    assert len(names) == len(set(names))
