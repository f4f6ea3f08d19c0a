"""Exported WebAssembly, run by node."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from intaglio.emit.c.interface import Port
from intaglio.emit.export import prepared
from intaglio.emit.wasm.module import stored_tensor, write_wasm
from intaglio.errors import IntaglioError, UnsupportedError

RUNNER = Path(__file__).parent / "run_wasm.mjs"


class WasmRunError(IntaglioError):
    """A module could not be loaded, or its run failed."""


class WasmModel:
    """A model in a process of node; takes and gives arrays in the order of the model."""

    def __init__(self, model: Any, optimize: str = "-O1") -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="intaglio-wasm-")
        place = Path(self._folder.name)
        written = write_wasm(prepared(model, "wasm", options={}), optimize)
        interface = written.c.interface
        self.inputs, self.outputs = interface.inputs, interface.outputs
        for name, text in written.source.files.items():
            (place / name).write_text(text, encoding="utf-8")
        assert written.source.save is not None
        written.source.save(place)
        node = shutil.which("node")
        if node is None:
            raise UnsupportedError("WebAssembly is run by node, which is not installed")
        self._node = subprocess.Popen(
            [node, str(RUNNER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        """One run."""
        ports = zip(self.inputs, arrays, strict=False)
        feeds = {port.title: stored_tensor(port, array) for port, array in ports if array is not None}
        answer = self._ask({"folder": Path(self._folder.name).as_uri(), "inputs": feeds})
        if "error" in answer:
            raise WasmRunError(answer["error"])
        return tuple(_array(port, item) for port, item in zip(self.outputs, answer["outputs"], strict=True))

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._node.stdin is not None
        assert self._node.stdout is not None
        self._node.stdin.write(json.dumps(question) + "\n")
        self._node.stdin.flush()
        line = self._node.stdout.readline()
        if not line:
            raise WasmRunError(f"node ended with status {self._node.wait()}")
        return json.loads(line)

    def close(self) -> None:
        """End the process and remove the files."""
        self._node.kill()
        self._node.wait()
        for stream in (self._node.stdin, self._node.stdout):
            if stream is not None:
                stream.close()
        self._folder.cleanup()

    def __del__(self) -> None:
        if hasattr(self, "_node"):
            self.close()


def _array(port: Port, item: dict[str, Any]) -> Any:
    raw = np.frombuffer(base64.b64decode(item["bytes"]), np.uint8).copy()
    shape: Sequence[int] = item["dims"]
    return raw.view(port.value.dtype.numpy).reshape(shape)
