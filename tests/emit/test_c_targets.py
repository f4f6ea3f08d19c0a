"""Exported C on processors that this machine is not: built by the package ziglang, run by emulators."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.emit.models import MODELS

import intaglio
from intaglio.emit.c.build import build

pytestmark = [
    pytest.mark.targets,
    pytest.mark.skipif(
        importlib.util.find_spec("ziglang") is None, reason="the package ziglang is missing: `pip install ziglang`"
    ),
]


def emulator(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is missing: `apt install qemu-user`")
    return found


def check(folder: Path, *command: str) -> None:
    program = str(folder / "test_model")
    done = subprocess.run([*command, program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "as stored" in done.stdout


@pytest.mark.parametrize("style", ["readable", "fast"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_aarch64(name: str, style: str, tmp_path: Path) -> None:
    build(MODELS[name](), tmp_path, kind="exe", triple="aarch64-linux-musl", style=style)
    check(tmp_path, emulator("qemu-aarch64"))


@pytest.mark.parametrize("name", ["convolution", "recurrent"])
def test_cortex_m(name: str, tmp_path: Path) -> None:
    """Code for a Cortex-M4 in a program of Linux, on a larger processor: the emulator of users has none of kind M."""
    intaglio.export(MODELS[name](), "c", tmp_path, measure=False)
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "thumb-linux-musleabihf", "-mcpu=cortex_m4"]
    files = ["main.c", "model.c", "weights.c"]
    done = subprocess.run(
        [*command, "-std=c11", "-Os", "-fno-strict-aliasing", "-o", "test_model", *files, "-lm"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    check(tmp_path, emulator("qemu-arm"), "-cpu", "max")


@pytest.mark.parametrize(
    ("triple", "kind", "name"),
    [
        ("x86_64-windows-gnu", "shared", "model.dll"),
        ("aarch64-macos", "shared", "libmodel.dylib"),
        ("wasm32-wasi", "shared", "model.wasm"),
        ("aarch64-linux-gnu", "static", "libmodel.a"),
    ],
)
def test_libraries_of_other_systems(triple: str, kind: str, name: str, tmp_path: Path) -> None:
    found = build(MODELS["convolution"](), tmp_path, kind=kind, triple=triple)  # type: ignore[arg-type]
    assert found.files[:2] == [name, "model.h"]
    assert (tmp_path / name).stat().st_size > 1000
