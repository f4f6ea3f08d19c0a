"""The conformance test of the protocol: our server passes it, and it finds what a server does wrong."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.serve.processes import KINDS, TWICE, save, serving

from intaglio.serve.conformance import Subject, judge, main

MLSERVER = Path(__file__).parents[2] / "build" / "rival-mlserver" / "bin" / "python"


def test_our_server_conforms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path / "models" / "kinds.onnx", KINDS)
    save(tmp_path / "models" / "many" / "2" / "model.onnx", TWICE)
    with serving(tmp_path / "models") as server:
        while server.ask("GET", "/v2/health/ready").status != 200:
            assert server.process.poll() is None
        for model in ("kinds", "many"):
            findings = judge(Subject(f"127.0.0.1:{server.port}", model))
            assert [(each.text, each.failure) for each in findings if each.failure] == []
        assert main([f"http://127.0.0.1:{server.port}", "many"]) == 0
        assert "23 passed, 0 failed, 0 skipped" in capsys.readouterr().out
        assert main([f"http://127.0.0.1:{server.port}", "nothing"]) == 1


class Wrong(http.server.BaseHTTPRequestHandler):
    """A server that has a fault in each of its answers."""

    def do_GET(self) -> None:
        tensor = {"name": "x", "datatype": "FP32", "shape": [-1]}
        self.answer(200, {"name": "m", "version": 3, "platform": "p", "inputs": [tensor], "outputs": [tensor]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        tensor = {"name": "x", "datatype": "FP32", "shape": [2], "data": [0.0]}
        self.answer(200, {"model_name": "m", "outputs": [tensor]})

    def answer(self, status: int, fields: dict[str, Any]) -> None:
        body = json.dumps(fields).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def wrong() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Wrong) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_faults_are_found(wrong: str) -> None:
    failures = {each.text: each.failure for each in judge(Subject(wrong, "m")) if each.failure and not each.is_skipped}
    assert "version is 3, which is no text" in failures.values()
    assert "x has 1 elements and the shape [2]" in failures.values()
    assert "id is None" in failures.values()
    refusals = [text for text in failures if "an error of the client" in text]
    assert len(refusals) == 8


def test_a_server_that_is_not_there() -> None:
    findings = judge(Subject("http://127.0.0.1:9", "m"))
    assert all(each.failure for each in findings)


@pytest.mark.slow
def test_mlserver_is_judged_too(tmp_path: Path) -> None:
    if not MLSERVER.exists():
        pytest.skip("make bench-serving makes the environment of MLServer")
    import subprocess
    import time

    path = save(tmp_path / "m.onnx", TWICE.replace("float[n, k]", "float[n, 4]"))
    command = [
        str(MLSERVER),
        str(Path(__file__).parents[2] / "bench" / "rivals" / "mlserver_runtime.py"),
        str(path),
        "18900",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path)
    try:
        subject = Subject("http://127.0.0.1:18900", "m")
        while (findings := judge(subject))[1].failure:
            assert process.poll() is None
            time.sleep(0.5)
    finally:
        process.terminate()
        process.wait(60)
    by_section = {
        section: [each for each in findings if each.section == section] for section in ("Health", "Inference")
    }
    assert [each.failure for found in by_section.values() for each in found if each.failure] == []
