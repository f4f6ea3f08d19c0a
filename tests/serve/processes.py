"""Real servers for tests: a process each, on a free port, and a plain client."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx

HEADER = '<ir_version: 10, opset_import: ["" : 21]> '
TWICE = HEADER + "g (float[n, k] x) => (float[n, k] y) { y = Add(x, x) }"
CENTRED = HEADER + (
    "g (float[n, 4] x) => (float[n, 4] y) <int64[1] axes = {0}>"
    " { mean = ReduceMean<keepdims = 1>(x, axes) y = Sub(x, mean) }"
)
SLOW = HEADER + (
    "g (float[n, 4] x, int64 rounds) => (float[n, 4] y) <bool go = {1}> { y = Loop (rounds, go, x)"
    " <body = b (int64 i, bool c, float[n, 4] v) => (bool d, float[n, 4] w) { d = Identity(c) w = Sin(v) }> }"
)
KINDS = HEADER + (
    "g (int64[n] a, bool[n] b, string[n] s, float16[n] h) => (int64[n] c, bool[n] d, string[n] t, float16[n] i)"
    " { c = Neg(a) d = Not(b) t = StringConcat(s, s) i = Neg(h) }"
)


def save(path: Path, text: str) -> Path:
    """Write a model given as text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(onnx.parser.parse_model(text), path)
    return path


class Server:
    """A running `intaglio serve`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self.port = self._find("http")

    def _find(self, scheme: str) -> int:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            match = re.match(rf"listening on {scheme}s?://.*:(\d+)$", line)
            if match:
                return int(match[1])
        raise AssertionError(f"the server did not start: {''.join(self.lines)}")

    def connection(self) -> http.client.HTTPConnection:
        """A new connection."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """One request by a connection of its own; a body that is no bytes goes as JSON."""
        connection = self.connection()
        try:
            return ask(connection, method, path, body, headers)
        finally:
            connection.close()

    def infer(self, model: str, inputs: dict[str, Any], **fields: Any) -> Answer:
        """An inference by JSON."""
        tensors = [json_tensor(name, array) for name, array in inputs.items()]
        return self.ask("POST", f"/v2/models/{model}/infer", {"inputs": tensors, **fields})

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """Send a signal; returns the exit status and what was written to standard error."""
        self.process.send_signal(number)
        _, rest = self.process.communicate(timeout=60)
        return self.process.returncode, "".join(self.lines) + rest


class Answer(NamedTuple):
    """What the server answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    def array(self, name: str) -> Any:
        """An output that came as JSON."""
        found = next(each for each in self.json["outputs"] if each["name"] == name)
        return np.array(found["data"]).reshape(found["shape"])


def ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    """One request by a connection."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method, path, data, headers or {})
    response = connection.getresponse()
    found = {name.lower(): value for name, value in response.getheaders()}
    return Answer(response.status, found, response.read())


NAMES = {"float32": "FP32", "int64": "INT64", "bool": "BOOL", "object": "BYTES", "float16": "FP16"}


def json_tensor(name: str, array: Any) -> dict[str, Any]:
    """An input as the protocol has it in JSON."""
    datatype = NAMES[str(array.dtype)]
    return {"name": name, "datatype": datatype, "shape": list(array.shape), "data": array.ravel().tolist()}


def binary_request(inputs: dict[str, Any], **fields: Any) -> tuple[bytes, dict[str, str]]:
    """The body and headers of an inference with binary tensors and binary outputs."""
    tensors: list[dict[str, Any]] = []
    for name, array in inputs.items():
        tensor = json_tensor(name, array) | {"parameters": {"binary_data_size": array.nbytes}}
        del tensor["data"]
        tensors.append(tensor)
    head = json.dumps({"inputs": tensors, "parameters": {"binary_data_output": True}, **fields}).encode()
    body = head + b"".join(array.tobytes() for array in inputs.values())
    return body, {"Inference-Header-Content-Length": str(len(head))}


@contextmanager
def serving(source: Path, *options: str, environment: dict[str, str] | None = None) -> Generator[Server]:
    """A server on any free port, ended behind the block."""
    command = [sys.executable, "-m", "intaglio", "serve", str(source), "--port", "0", *options]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | (environment or {}),
    )
    try:
        server = Server(process)
        yield server
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
