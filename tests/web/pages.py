"""Real servers of the page for tests: a process each, and a plain client that knows the token."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import onnx

HEADER = '<ir_version: 10, opset_import: ["" : 21]> '
SMALL = HEADER + (
    "small (float[n, 4] x) => (float[n, 4] y) <float[4, 4] w = {1,2,3,4,0,1,0,0,0,0,1,0,5,0,0,1}>"
    " { [product] m = MatMul (x, w) [relu] r = Relu (m) [shift] k = Constant <value = float[4] {0.5, -0.5, 1, 2}> ()"
    " [sum] y = Add (r, k) }"
)


def write(path: Path, text: str = SMALL) -> Path:
    """Write a model given as text."""
    onnx.save(onnx.parser.parse_model(text), path)
    return path


class Answer(NamedTuple):
    """The answer to a request."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """What the body says as JSON."""
        return json.loads(self.body)


class Page:
    """A running `intaglio view`."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process, self.address = process, address
        place, _, fragment = address.partition("/#")
        self.port = int(place.rpartition(":")[2])
        self.token = fragment.removeprefix("token=")

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str | None] | None = None) -> Answer:
        """One request with the token; a header that is None is left out, a body that is no bytes goes as JSON."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        given: dict[str, str | None] = {"X-Intaglio-Token": self.token, "Host": f"127.0.0.1:{self.port}"}
        sent = {name: value for name, value in {**given, **(headers or {})}.items() if value is not None}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                connection.putheader(name, value)
            if data is not None and "Content-Length" not in sent:
                connection.putheader("Content-Length", str(len(data)))
            connection.endheaders()
            if data is not None:
                with suppress(BrokenPipeError, ConnectionResetError):  # where the server has answered already
                    connection.send(data)
            found = connection.getresponse()
            return Answer(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """The JSON of a request that must succeed."""
        found = self.ask("GET", path)
        assert found.status == 200, found.body
        return found.json

    def post(self, path: str, body: Any = None) -> Any:
        """The JSON of a request that must succeed."""
        found = self.ask("POST", path, {} if body is None else body)
        assert found.status in (200, 201, 202), found.body
        return found.json

    def finish(self, job: Any) -> Any:
        """The job when it has ended."""
        while True:
            found = self.get(f"/api/jobs/{job['job']}")
            if found["state"] not in ("waiting", "running"):
                return found
            time.sleep(0.05)

    def edit(self, *commands: tuple[str, dict[str, Any]], model: str = "0") -> Any:
        """Give commands as one step."""
        given = [{"name": name, "arguments": arguments} for name, arguments in commands]
        return self.post(f"/api/models/{model}/edit", {"commands": given})

    def tensor(self, name: str, more: str = "") -> Any:
        """A tensor of the first model."""
        return self.get(f"/api/models/0/tensors/{quote(name, safe='')}{more}")

    def end(self, number: int = signal.SIGINT) -> int:
        """Send a signal; returns the exit status."""
        self.process.send_signal(number)
        self.process.communicate(timeout=60)
        return self.process.returncode


@contextmanager
def page(*arguments: str | Path, folder: Path | None = None) -> Generator[Page]:
    """A server of `intaglio view` with these arguments, which is ended afterwards."""
    command = [sys.executable, "-m", "intaglio", "view", *map(str, arguments), "--no-browser"]
    environment = {**os.environ, "ORT_DISABLE_TELEMETRY": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=environment
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise AssertionError(f"the server did not start: {process.communicate()[1]}")
        yield Page(process, address)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
