"""What goes wrong on the command line is one message that says what to do: no command ends in a traceback."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from intaglio.cli.app import COMMANDS
from intaglio.cli.options import Argument, Group, declared_parameters
from intaglio.runtime.model.explain import WIDTH, fold_lines

Save = Callable[[str], Path]
RELU = "g (float[n] x) => (float[n] y) { y = Relu(x) }"
WITH_MODEL = [
    name
    for name, function in (each for each in COMMANDS if not isinstance(each, Group))
    if any(isinstance(how, Argument) and how.metavar == "MODEL" for _, _, how in declared_parameters(function))
]
ALL = [each.name if isinstance(each, Group) else each[0] for each in COMMANDS]


def rest(command: str, folder: Path) -> list[str]:
    """What a command needs besides a model."""
    if command in ("export", "build"):
        return ["-o", str(folder / "out")]
    if command == "reduce":
        return ["-o", str(folder / "small.onnx"), "--against", "reference"]
    if command == "train":
        np.savez(folder / "data.npz", x=np.zeros((2, 2), np.float32))
        return [str(folder / "data.npz")]
    if command == "diff":
        return [str(folder / "missing.onnx")]
    return []


def bad_models(folder: Path) -> list[Path]:
    """Paths that are no models: missing, a folder, empty, text, and a model that is cut short."""
    (folder / "folder.onnx").mkdir()
    contents = {"empty": b"", "text": b"hello\n", "cut": b"\x08\x0a\x3a\x7f\x0a"}
    for name, data in contents.items():
        (folder / f"{name}.onnx").write_bytes(data)
    return [folder / f"{name}.onnx" for name in ("missing", "folder", *contents)]


@pytest.mark.parametrize("command", WITH_MODEL)
def test_what_is_no_model_is_one_message(cli, tmp_path: Path, command: str) -> None:
    for path in bad_models(tmp_path):
        result = cli(command, path, *rest(command, tmp_path))
        assert result.status == 1, path
        assert (result.err + result.out).startswith("error: "), path
        assert "Traceback" not in result.err + result.out


@pytest.mark.parametrize("command", ALL)
def test_wrong_arguments_are_usage_errors(cli, command: str) -> None:
    for arguments in (["--nonsense"], ["--nonsense=3", "a", "b", "c"]):
        result = cli(command, *arguments)
        assert result.status == 2
        assert result.err.startswith("error: ")
        assert "--help" in result.err


@pytest.mark.parametrize("command", [name for name in ALL if name not in ("demo", "doctor", "conformance")])
def test_a_command_alone_is_a_usage_error(cli, command: str) -> None:
    result = cli(command)
    assert result.status == 2
    assert result.err.startswith("error: ")


@pytest.mark.parametrize("command", ["export", "build"])
def test_a_folder_is_asked_for(cli, save: Save, command: str) -> None:
    result = cli(command, save(RELU))
    assert (result.status, result.out) == (2, "")
    assert "required: --output/-o" in result.err


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (["exprot", "MODEL"], "export"),
        (["explian", "MODEL"], "explain"),
        (["cache", "clera"], "clear"),
        (["completion", "bahs"], "bash"),
        (["export", "MODEL", "-o", "out", "--to", "pyton"], "python"),
        (["export", "MODEL", "-o", "out", "--stlye", "fast"], "--style"),
        (["run", "MODEL", "--repaet", "3"], "--repeat"),
        (["run", "MODEL", "--engine=natve"], "native"),
        (["--versoin"], "--version"),
    ],
)
def test_the_nearest_name_is_shown(cli, save: Save, arguments: list[str], nearest: str) -> None:
    path = save(RELU)
    result = cli(*(str(path) if each == "MODEL" else each for each in arguments))
    assert result.status == 2
    assert f"did you mean {nearest}?" in result.err


def test_what_no_name_is_near_to_is_shown_with_all(cli, save: Save) -> None:
    result = cli("export", save(RELU), "-o", "out", "--to", "rust")
    assert "invalid choice: 'rust'; choose from python, torch, c, wasm, onnx, zig" in result.err


def test_an_input_that_is_not_there_is_named(cli, save: Save) -> None:
    result = cli("run", save(RELU), "-i", "z=3")
    assert result.status == 1
    assert "there is no input 'z'; the inputs are 'x'" in result.err


def torch_file(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/data.pkl", b"\x80\x02}q\x00.")


def safetensors_file(path: Path) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))


FOREIGN: dict[str, tuple[Callable[[Path], object], str]] = {
    "m.pt": (torch_file, "intaglio.load(module, example_inputs)"),
    "m.pth": (lambda path: path.write_bytes(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."), "torch.onnx.export"),
    "m.pt2": (lambda path: path.write_bytes(b"PK\x03\x04" + bytes(40)), "torch.export.load"),
    "m.safetensors": (safetensors_file, "weights without a graph"),
    "m.tflite": (lambda path: path.write_bytes(b"\x1c\0\0\0TFL3" + bytes(64)), "--tflite"),
    "m.pb": (lambda path: path.write_bytes(b"\x0a\x20\x0a\x01x\x12\x0bPlaceholder**"), "tf2onnx"),
    "m.h5": (lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(64)), "format='onnx'"),
    "m.keras": (lambda path: path.write_bytes(b"PK\x03\x04" + bytes(40)), "format='onnx'"),
    "m.gguf": (lambda path: path.write_bytes(b"GGUF\x03" + bytes(64)), "llama.cpp"),
    "m.mlmodel": (lambda path: path.write_bytes(b"\x08\x04\x12\x10" + b"a" * 40), "Core ML"),
    "m.ort": (lambda path: path.write_bytes(b"\x20\0\0\0ORTM" + bytes(64)), "ONNX Runtime's own format"),
    "lfs.onnx": (lambda path: path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n"), "git lfs pull"),
    "page.onnx": (lambda path: path.write_bytes(b"\n<!DOCTYPE html><html></html>"), "web page"),
    "named.onnx": (safetensors_file, "weights without a graph"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_models_of_other_kinds_are_recognised(cli, tmp_path: Path, name: str) -> None:
    write, words = FOREIGN[name]
    write(tmp_path / name)
    result = cli("run", tmp_path / name)
    assert result.status == 1
    assert "it seems to be" in result.err
    assert words in result.err


def test_folders_of_other_kinds_are_recognised(cli, tmp_path: Path) -> None:
    for name, file, words in (
        ("saved", "saved_model.pb", "--saved-model FOLDER"),
        ("hub", "model.safetensors", "optimum-cli"),
        ("models", "decoder.onnx", "it holds decoder.onnx"),
        ("m.mlpackage", "Manifest.json", "Core ML"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_bytes(b"x")
        result = cli("info", tmp_path / name)
        assert result.status == 1
        assert words in result.err


def test_lines_of_explanations_are_folded(cli, save: Save) -> None:
    long = "v" * 400
    names = ", ".join(f"size_{i}" for i in range(20))
    path = save(f"g (float[{names}] x) => (float[{names}] y) {{ {long} = Relu(x) y = Exp({long}) }}")
    for engine in ("native", "reference"):
        lines = cli("explain", path, "--engine", engine).out.splitlines()
        assert max(map(len, lines)) <= WIDTH
        assert any(line.startswith(" " * 12) for line in lines)


def test_folding_keeps_the_text() -> None:
    text = "   0 kernel " + " ".join(f"word{i}" for i in range(60)) + "\nshort\n"
    folded = fold_lines(text)
    assert folded.split() == text.split()
    assert all(len(line) <= WIDTH for line in folded.splitlines())
