"""WebAssembly against onnxruntime-web, one thread each, in turns in one process of node: processor time, warm."""

from __future__ import annotations

import argparse
import base64
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import intaglio
from bench import models

SCRIPT = Path(__file__).parent / "browser.mjs"
FOLDER = Path(__file__).parent.parent / "build" / "browser"
DEFAULT = ["mobilenet_v2", "silero-vad-18", "resnet50", "lstm", "mlp"]
PACKAGE = "onnxruntime-web@1.30.0"


def main(arguments: list[str]) -> int:
    """Run the command. 0: done; 1: an answer was wrong; 2: wrong usage."""
    command = argparse.ArgumentParser(prog="python -m bench browser", description=__doc__)
    command.add_argument("--models", nargs="+", default=DEFAULT, metavar="NAME")
    command.add_argument("--rounds", type=int, default=15)
    options = command.parse_args(arguments)
    install()
    table = Table("model", "ours, ms", "onnxruntime-web, ms", "theirs / ours", "load, ms", "their load, ms", "error",
                  title="One thread, node", )  # fmt: skip
    is_right = True
    sizes: list[str] = []
    for model in models.chosen(command, options.models):
        found, size = race(model, options.rounds)
        is_right &= found["error"] <= model.tolerance
        table.add_row(
            model.name, f"{found['ours']:.2f}", f"{found['theirs']:.2f}", f"{found['theirs'] / found['ours']:.2f}",
            f"{found['ourLoad']:.0f}", f"{found['theirLoad']:.0f}", f"{found['error']:.1e}",
        )  # fmt: skip
        sizes.append(f"{model.name}: model.wasm has {size:,} bytes")
    console = Console(width=120)
    console.print(table)
    theirs = FOLDER / "node_modules" / "onnxruntime-web" / "dist" / "ort-wasm-simd-threaded.wasm"
    console.print("\n".join([*sizes, f"onnxruntime-web: {theirs.name} has {theirs.stat().st_size:,} bytes"]))
    return 0 if is_right else 1


def install() -> None:
    """Have npm install the peer into a folder of its own."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise SystemExit("node and npm are needed: `apt install nodejs npm`")
    FOLDER.mkdir(parents=True, exist_ok=True)
    shutil.copy(SCRIPT, FOLDER / SCRIPT.name)
    if not (FOLDER / "node_modules" / "onnxruntime-web").exists():
        subprocess.run(["npm", "install", "--silent", "--prefix", str(FOLDER), PACKAGE], check=True)


def race(model: models.BenchModel, rounds: int) -> tuple[dict[str, float], int]:
    """The medians of both on one model, and the size of our module."""
    feeds = model.feeds(1)
    with tempfile.TemporaryDirectory(prefix="intaglio-browser-") as folder:
        place = Path(folder)
        intaglio.export(model.path(), "wasm", place / "wasm")
        job = {
            "wasm": str(place / "wasm"),
            "onnx": str(model.path().resolve()),
            "feeds": {name: _stored(array) for name, array in feeds.items()},
            "rounds": rounds,
        }
        (place / "job.json").write_text(json.dumps(job))
        done = subprocess.run(
            ["node", SCRIPT.name, str(place / "job.json")], cwd=FOLDER, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise SystemExit(f"{model.name}: {done.stderr[-2000:]}")
        return json.loads(done.stdout.splitlines()[-1]), (place / "wasm" / "model.wasm").stat().st_size


def _stored(array: Any) -> dict[str, Any]:
    data = np.ascontiguousarray(array)
    text = base64.b64encode(data.tobytes()).decode("ascii")
    return {"type": data.dtype.name, "dims": list(np.shape(array)), "bytes": text}
