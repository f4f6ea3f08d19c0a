"""Every command: what it prints, as text and as JSON, its exit status, and its one message for each bad file."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import intaglio
from intaglio.targets.c import cache

Save = Callable[[str], Path]
READING = ["run", "info", "check", "compile", "explain"]


def test_version_and_help(cli) -> None:
    assert cli("--version").out == f"intaglio {intaglio.__version__}\n"
    assert cli("--help").status == 0
    for command in [*READING, "demo", "doctor", "cache"]:
        assert command in cli("--help").out
        assert cli(command, "--help").status == 0


def test_no_command_and_a_wrong_one_are_usage_errors(cli) -> None:
    assert cli().status == 2
    assert cli("frobnicate").status == 2


def test_info(cli, demo_path: Path) -> None:
    result = cli("info", demo_path)
    for word in ("resnet-tiny", "77,706", "ai.onnx 21", "float32[batch, 3, 32, 32]", "GlobalAveragePool", "23 nodes"):
        assert word in result.out
    report = json.loads(cli("info", demo_path, "--json").out)
    assert report["operators"]["Conv"] == 9
    assert report["file_bytes"] == demo_path.stat().st_size
    assert report["parameters"] == 77706


def test_check(cli, demo_path: Path, save: Save) -> None:
    assert cli("check", demo_path).out.endswith("demo.onnx: no problems\n")
    assert json.loads(cli("check", demo_path, "--json").out)["is_valid"]
    broken = save("g (float[2] x) => (float[2] y) { a = Relu(x, x, x) b = Nonsense(x) y = Foo(x) }")
    result = cli("check", broken)
    assert result.status == 1
    assert "Nonsense" in result.out
    assert "Foo" in result.out
    report = cli("check", broken, "--json")
    assert report.status == 1
    assert not json.loads(report.out)["is_valid"]


def test_check_lists_every_problem(cli, save: Save) -> None:
    broken = save("g (float[2] x, float[3] z) => (float[2] y) { a = Add(x, z) b = Relu<axis = 1>(x) y = Neg(missing) }")
    problems = json.loads(cli("check", broken, "--json").out)["problems"]
    assert len(problems) == 3
    assert all(problem["text"] and problem["kind"] for problem in problems)


def test_compile(cli, demo_path: Path) -> None:
    assert "kernels" in cli("compile", demo_path).out
    report = json.loads(cli("compile", demo_path, "--json").out)
    assert report["kernels"] > 3
    assert report["host_nodes"] == []


def test_compile_names_host_nodes(cli, save: Save) -> None:
    model = save("g (string[n] s) => (string[n] t) { t = StringConcat(s, s) }")
    assert "StringConcat" in cli("compile", model).out
    assert json.loads(cli("compile", model, "--json").out)["host_nodes"][0]["reason"]


def test_explain(cli, demo_path: Path, tmp_path: Path) -> None:
    assert "Conv + Relu" in cli("explain", demo_path).out
    assert json.loads(cli("explain", demo_path, "--json").out)["engine"] == "native"
    result = cli("explain", demo_path, "--c", tmp_path / "model.c")
    assert "lines of C written" in result.err
    assert "static void kernel_" in (tmp_path / "model.c").read_text()
    assert "static void kernel_" in cli("explain", demo_path, "--c", "-").out
    assert cli("explain", demo_path, "--c", tmp_path / "none" / "model.c").status == 1
    assert cli("explain", demo_path, "--engine", "reference", "--c", "-").status == 1


def test_demo(cli, tmp_path: Path) -> None:
    result = cli("demo", "--save", tmp_path / "demo.onnx")
    assert result.status == 0
    for word in ("probabilities", "times faster", "native (compiled C)", "Conv + Relu"):
        assert word in result.out
    assert intaglio.load(tmp_path / "demo.onnx", engine="reference").outputs[0].name == "probabilities"
    assert json.loads(cli("demo", "--json").out)["largest_difference"] < 1e-5


def test_doctor(cli) -> None:
    result = cli("doctor")
    assert result.status == 0, result.out
    for word in ("compiler", "target", "cache", "numpy", "both engines agree"):
        assert word in result.out
    assert json.loads(cli("doctor", "--json").out)["problems"] == []


def test_cache(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Save) -> None:
    monkeypatch.setenv("INTAGLIO_CACHE", str(tmp_path / "cache"))
    cache.default_cache.cache_clear()
    try:
        cli("compile", save("g (float[n] x) => (float[n] y) { y = Relu(x) }"))
        before = json.loads(cli("cache", "info", "--json").out)
        assert before["functions"] > 0
        assert before["folder"] == str(tmp_path / "cache")
        assert str(tmp_path / "cache") in cli("cache", "info").out.replace("\n", "")
        assert f"removed {before['functions']} functions" in cli("cache", "clear").out
        assert json.loads(cli("cache", "info", "--json").out)["functions"] == 0
        assert json.loads(cli("cache", "clear", "--json").out)["removed_functions"] == 0
    finally:
        cache.default_cache.cache_clear()


def _bad_files(folder: Path, good: bytes) -> dict[str, tuple[Path, str]]:
    """Files that are no models, each with a word of its message."""
    contents = {
        "truncated": (good[:-1000], "not an ONNX model"),
        "text": (b"hello, this is a text file\n", "not an ONNX model"),
        "empty": (b"", "is empty"),
        "another protobuf": (numpy_helper.from_array(np.zeros(3, np.float32), "t").SerializeToString(), "ONNX model"),
        "no graph": (onnx.ModelProto(ir_version=10).SerializeToString(), "no graph"),
    }
    found = {"missing": (folder / "missing.onnx", "there is no file"), "a folder": (folder, "not a regular file")}
    for name, (data, word) in contents.items():
        path = folder / f"{name}.onnx"
        path.write_bytes(data)
        found[name] = (path, word)
    return found


@pytest.mark.parametrize("command", READING)
@pytest.mark.parametrize("kind", ["missing", "a folder", "truncated", "text", "empty", "another protobuf", "no graph"])
def test_bad_files_are_one_message(cli, demo_path: Path, command: str, kind: str) -> None:
    path, word = _bad_files(demo_path.parent, demo_path.read_bytes())[kind]
    result = cli(command, path)
    assert result.status == 1
    written = result.out if command == "check" else result.err
    assert word in written
    assert "error: " in written
    assert "Traceback" not in result.out + result.err
    assert len(written.splitlines()) <= 3


def test_an_unknown_operator_is_one_message(cli, save: Save) -> None:
    for command in READING:
        result = cli(command, save("g (float[2] x) => (float[2] y) { y = Reluu(x) }"))
        assert result.status == 1
        assert "did you mean Relu?" in result.out + result.err


def test_an_empty_graph_runs(cli, tmp_path: Path) -> None:
    graph = helper.make_graph([], "nothing", [], [])
    path = tmp_path / "nothing.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    for command in READING:
        result = cli(command, path)
        assert "Traceback" not in result.out + result.err
        assert result.status in (0, 1)


HOSTILE = "[red]x[/red]\x1b[31m\u202e\r:smile:"


def test_names_are_shown_as_text(cli, tmp_path: Path) -> None:
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in (HOSTILE, HOSTILE + "y")]
    node = helper.make_node("Relu", [HOSTILE], [HOSTILE + "y"], name=HOSTILE)
    graph = helper.make_graph([node], HOSTILE, info[:1], info[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10, producer_name=HOSTILE)
    model.metadata_props.add(key=HOSTILE, value=HOSTILE)
    path = tmp_path / "hostile.onnx"
    path.write_bytes(model.SerializeToString())
    for command in READING:
        result = cli(command, path)
        assert result.status == 0, result.err
        for text in (result.out, result.err):
            assert not set(text) & set("\x1b\u202e\r")
        if command in ("run", "info"):
            assert "[red]x[/red]" in result.out
            assert ":smile:" in result.out
    model.graph.node[0].op_type = HOSTILE
    path.write_bytes(model.SerializeToString())
    for command in READING:
        result = cli(command, path)
        assert result.status == 1
        assert not set(result.out + result.err) & set("\x1b\u202e\r")


def _process(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "intaglio", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


def test_the_module_is_the_command(demo_path: Path) -> None:
    result = _process("check", demo_path, NO_COLOR="1", FORCE_COLOR="1")
    assert result.returncode == 0
    assert "\x1b[3" not in result.stdout + result.stderr
    failed = _process("check", "no-such-file.onnx")
    assert failed.returncode == 1
    assert "Traceback" not in failed.stderr


def test_a_reader_that_goes_away_is_no_error(demo_path: Path) -> None:
    command = f'"{sys.executable}" -m intaglio explain "{demo_path}" --c - | head -1'
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in result.stderr


def test_ctrl_c_exits_with_130(tmp_path: Path) -> None:
    names = [f"x{i}" for i in range(41)]
    nodes = [helper.make_node("MatMul", [a, "w"], [b]) for a, b in itertools.pairwise(names)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 1024]) for name in (names[0], names[-1])]
    weight = numpy_helper.from_array(np.zeros((1024, 1024), np.float32), "w")
    graph = helper.make_graph(nodes, "long", ends[:1], ends[1:], [weight])
    path = tmp_path / "long.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    command = [sys.executable, "-m", "intaglio", "run", str(path), "--dim", "n=4096", "--repeat", "1000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        maps = Path(f"/proc/{process.pid}/maps")
        while process.poll() is None and "/units/" not in maps.read_text():
            time.sleep(0.1)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in err
