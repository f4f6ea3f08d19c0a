"""What every command shares: usage, JSON errors, standard streams, completion, and tables that fit."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from intaglio.cli.app import COMMANDS, make_parser
from intaglio.cli.completion import completion_script
from intaglio.cli.options import Argument, Function, Group, Option, declared_parameters, option_names
from intaglio.cli.shells import Shell
from intaglio.cli.table import fold, format_table, text_width

Save = Callable[[str], Path]
RELU = "g (float[n] x) => (float[n] y) { y = Relu(x) }"
STRINGS = "g (string[n] s) => (string[n] t) { t = StringConcat(s, s) }"


def functions() -> list[tuple[str, Function]]:
    found = [each for each in COMMANDS if not isinstance(each, Group)]
    return found + [
        (f"{each.name} {name}", f) for each in COMMANDS if isinstance(each, Group) for name, f in each.commands
    ]


@pytest.fixture
def standard_input(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    return lambda data: monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))


@pytest.mark.parametrize(("name", "function"), functions(), ids=[name for name, _ in functions()])
def test_every_option_has_help_and_is_parsed(name: str, function: Function) -> None:
    text = make_parser().format_help()
    assert name.split()[0] in text
    for parameter, _, declared in declared_parameters(function):
        assert declared.help.endswith((".", "default: all cores.")), parameter.name
        if isinstance(declared, Option):
            assert all(option.startswith("-") for option in option_names(declared))
        else:
            assert isinstance(declared, Argument)


@pytest.mark.parametrize(
    ("arguments", "kind", "status"),
    [
        (["info", "none.onnx"], "ModelNotFoundError", 1),
        (["run", "none.onnx"], "ModelNotFoundError", 1),
        (["explain", "none.onnx"], "ModelNotFoundError", 1),
        (["compile", "none.onnx"], "ModelNotFoundError", 1),
        (["run", "MODEL", "--tensor", "zz"], "InputError", 1),
        (["run", "MODEL", "--disable", "zz"], "InputError", 1),
        (["run", "MODEL", "--repeat", "0"], "UsageError", 2),
        (["run", "MODEL", "--nonsense"], "UsageError", 2),
        (["frobnicate"], "UsageError", 2),
    ],
)
def test_errors_are_json_where_that_is_asked_for(cli, save: Save, arguments: list[str], kind: str, status: int) -> None:
    model = str(save(RELU))
    result = cli(*[model if each == "MODEL" else each for each in arguments], "--json")
    assert result.status == status
    error = json.loads(result.out)["error"]
    assert error["kind"] == kind
    assert error["text"]
    assert result.err.startswith("error: ")
    assert "Traceback" not in result.err


def test_check_keeps_its_own_form(cli) -> None:
    report = json.loads(cli("check", "none.onnx", "--json").out)
    assert [problem["kind"] for problem in report["problems"]] == ["ModelNotFoundError"]


def test_usage_errors_name_the_help(cli, save: Save) -> None:
    result = cli("run", save(RELU), "--seed", "many")
    assert (result.status, result.out) == (2, "")
    assert "argument --seed: 'many' is no whole number" in result.err
    assert "`intaglio run --help`" in result.err
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--threads", "0"], "0 is not at least 1"),
        (["--timeout", "nan"], "nan is not at least 0"),
        (["--memory-limit", "much"], "no number of bytes"),
        (["--engine", "cuda"], "invalid choice: 'cuda'"),
        (["--mean", "a,b"], "not one number, or several"),
        (["--mean", "0.5"], "are for images, and no input is one"),
        (["--eng", "native"], "unrecognized arguments"),
    ],
)
def test_values_that_are_refused(cli, save: Save, options: list[str], word: str) -> None:
    result = cli("run", save(RELU), *options)
    assert result.status == 2
    assert word in result.err


@pytest.mark.parametrize("command", ["info", "check", "run", "explain", "compile"])
def test_a_model_on_standard_input(cli, save: Save, standard_input: Callable[[bytes], None], command: str) -> None:
    standard_input(save(RELU).read_bytes())
    result = cli(command, "-", "--json")
    assert result.status == 0, result.err
    assert json.loads(result.out)
    standard_input(b"")
    assert cli(command, "-").status == 1


def test_arrays_on_standard_streams(save: Save, tmp_path: Path) -> None:
    """A pipe of two processes: what one run writes, the next one reads."""
    np.save(tmp_path / "x.npy", np.array([1, -2, 3], np.float32))
    one = f'"{sys.executable}" -m intaglio run "{save(RELU)}"'
    command = f'{one} -i x=- -o - < "{tmp_path / "x.npy"}" | {one} -i x=- -o "{tmp_path / "y.npy"}"'
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "y.npy").tolist() == [1, 0, 3]


def test_a_stream_serves_one_purpose(cli, save: Save) -> None:
    assert "standard input can be the model or one input" in cli("run", "-", "-i", "x=-").err
    assert "both write to standard output" in cli("run", save(RELU), "-o", "-", "--json").err


@pytest.mark.parametrize("command", ["run", "explain", "compile"])
def test_strict(cli, save: Save, command: str) -> None:
    model = save(STRINGS)
    assert cli(command, model).status == 0
    refused = cli(command, model, "--strict")
    assert refused.status == 1
    assert "strict=True, and these nodes cannot be compiled" in refused.err


def test_exact_and_disable_change_what_is_compiled(cli, save: Save, tmp_path: Path) -> None:
    model = save("g (float[n, 8] x) => (float[n, 8] y) <float one = {1.0}> { a = Exp(x) y = Mul(a, one) }")
    assert "multiply-by-one" in cli("explain", model).out
    assert "Exp + Mul" in cli("explain", model, "--disable", "algebra", "--disable", "fold-constants").out
    compiled = tmp_path / "model.intaglio"
    assert cli("compile", model, "--exact", "-o", compiled).status == 0
    assert json.loads(cli("info", compiled, "--json").out)["compiled"]["exact"] is True
    assert "did you mean" in cli("run", model, "--disable", "algebro").err


def test_explain_for_sizes(cli, save: Save) -> None:
    result = cli("explain", save(RELU), "--dim", "n=1000")
    assert "float32[1000]" in result.out
    assert json.loads(cli("explain", save(RELU), "-d", "n=7", "--json").out)["dims"] == {"n": 7}
    assert cli("explain", save(RELU), "-d", "m=7").status == 1


def test_info_and_check_of_a_compiled_model(cli, save: Save, tmp_path: Path) -> None:
    compiled = tmp_path / "model.intaglio"
    assert cli("compile", save(RELU), "-o", compiled).status == 0
    result = cli("info", compiled)
    assert result.status == 0, result.err
    for word in ("compiled", "by Intaglio", "functions", "of machine code", "float32[n]", "Relu"):
        assert word in result.out
    report = json.loads(cli("info", compiled, "--json").out)
    assert report["compiled"]["functions"] > 0
    assert report["compiled"]["code_bytes"] > 0
    assert report["inputs"] == [{"name": "x", "type": "float32[n]", "has_default": False}]
    assert cli("check", compiled).out == f"{compiled}: no problems\n"
    assert json.loads(cli("check", compiled, "--json").out)["is_valid"]


@pytest.mark.parametrize("place", [30, 500, -10])
def test_a_damaged_compiled_model(cli, save: Save, tmp_path: Path, place: int) -> None:
    compiled = tmp_path / "model.intaglio"
    cli("compile", save(RELU), "-o", compiled)
    data = bytearray(compiled.read_bytes())
    data[place] ^= 1
    compiled.write_bytes(data)
    for command in ("check", "info"):
        result = cli(command, compiled)
        assert result.status == 1
        assert "damaged" in result.out + result.err
        assert "Traceback" not in result.err


def test_options_that_come_too_late_for_a_compiled_model(cli, save: Save, tmp_path: Path) -> None:
    compiled = tmp_path / "model.intaglio"
    cli("compile", save(RELU), "-o", compiled)
    assert cli("run", compiled).status == 0
    for options in (["--exact"], ["--disable", "dead-code"]):
        result = cli("run", compiled, *options)
        assert result.status == 1
        assert "give them to `load` of the ONNX model" in result.err


def test_a_newer_opset_is_a_warning_and_an_error_under_strict(cli, tmp_path: Path) -> None:
    import onnx
    from onnx import parser

    path = tmp_path / "new.onnx"
    onnx.save(parser.parse_model(f'<ir_version: 10, opset_import: ["" : 99]> {RELU}'), path)
    result = cli("run", path)
    assert result.status == 0
    assert "warning: opset 99 of ai.onnx is newer than" in result.err
    assert "model.py" not in result.err
    assert "opset 99 of ai.onnx is newer" in cli("check", path).out
    assert cli("run", path, "--strict").status == 1


def words_after(script: Path, *typed: str) -> list[str]:
    """What bash offers where the last of these words is being typed."""
    quoted = " ".join(f'"{word}"' for word in typed)
    code = f'source "{script}"; COMP_WORDS=({quoted}); COMP_CWORD={len(typed) - 1}; _intaglio; '
    code += r'printf "%s\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, cwd=script.parent, check=True)
    return done.stdout.split()


def test_bash_completes(cli, tmp_path: Path) -> None:
    script = tmp_path / "intaglio.bash"
    script.write_text(cli("completion", "bash").out)
    (tmp_path / "model.onnx").touch()
    assert {each.name if isinstance(each, Group) else each[0] for each in COMMANDS} <= set(
        words_after(script, "intaglio", "")
    )
    assert words_after(script, "intaglio", "ru") == ["run"]
    assert "--memory-limit" in words_after(script, "intaglio", "run", "--m")
    assert words_after(script, "intaglio", "run", "--engine", "") == ["native", "reference"]
    assert words_after(script, "intaglio", "run", "mod") == ["model.onnx"]
    assert words_after(script, "intaglio", "run", "-i", "mod") == ["model.onnx"]
    assert "clear" in words_after(script, "intaglio", "cache", "")
    assert words_after(script, "intaglio", "cache", "info", "--j") == ["--json"]
    assert "model.onnx" in words_after(script, "intaglio", "info", "")


@pytest.mark.parametrize("shell", list(Shell))
def test_the_scripts_are_right_for_their_shells(shell: Shell, tmp_path: Path) -> None:
    script = completion_script(shell, COMMANDS)
    for name in ("conformance", "memory-limit", "disable"):
        assert name in script
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed here")
    path = tmp_path / "script"
    path.write_text(script)
    subprocess.run([found, "-n", str(path)], check=True, capture_output=True)


def test_a_wrong_shell(cli) -> None:
    assert cli("completion", "tcsh").status == 2


def test_tables_fit() -> None:
    rows = [["short", "x" * 300], ["a longer name " * 3, "5"]]
    for width in (40, 80, 120):
        lines = format_table(("name", "#value"), rows, width)
        assert max(map(text_width, lines)) <= width
    wide = format_table(("name", "#value"), rows, 1000)
    assert len(wide) == 4
    assert wide[3].endswith("  " + "5".rjust(300))


def test_folding_loses_nothing() -> None:
    text = "".join(f"word{i}瑪" for i in range(50))
    for width in (2, 3, 7, 20):
        assert "".join(fold(text, width)) == text
        assert max(map(text_width, fold(text, width))) <= width
