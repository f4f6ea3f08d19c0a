"""A server's life, and clients that are slow, hostile or gone."""

from __future__ import annotations

import asyncio
import http.client
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.serve.processes import SLOW, TWICE, Server, ask, binary_request, json_tensor, save, serving

import intaglio
from intaglio.serve import Settings

X = np.ones((1, 4), np.float32)
FOREVER = np.array(10**9)


def slow_body(rounds: int, **fields: Any) -> dict[str, Any]:
    return {"inputs": [json_tensor("x", X), json_tensor("rounds", np.array(rounds))], **fields}


def test_ctrl_c_answers_what_is_under_way(tmp_path: Path) -> None:
    with serving(save(tmp_path / "slow.onnx", SLOW)) as server:
        answers: list[int] = []
        body = slow_body(10**9, parameters={"timeout": 1_500_000})
        thread = threading.Thread(
            target=lambda: answers.append(server.ask("POST", "/v2/models/slow/infer", body).status)
        )
        thread.start()
        wait_for_runs(server)
        status, text = server.end(signal.SIGINT)
        thread.join()
        assert (status, answers) == (0, [504])
        assert "draining: 1 requests are under way" in text
        assert "Traceback" not in text


def wait_for_runs(server: Server, count: int = 1) -> None:
    while f"intaglio_in_flight {float(count)}" not in server.ask("GET", "/metrics").body.decode():
        assert server.process.poll() is None


def test_readiness_says_no_before_connections_are_refused(tmp_path: Path) -> None:
    with serving(save(tmp_path / "twice.onnx", TWICE), "--drain", "1") as server:
        assert server.ask("GET", "/v2/health/ready").status == 200
        server.process.send_signal(signal.SIGTERM)
        while server.ask("GET", "/v2/health/ready").status == 200:
            pass
        assert server.ask("GET", "/v2/health/live").status == 200
        assert server.ask("GET", "/v2/models/twice/ready").status == 503
        assert server.infer("twice", {"x": X}).status == 200
        assert server.process.wait(60) == 0


def test_a_client_that_leaves_stops_the_run(tmp_path: Path) -> None:
    with serving(save(tmp_path / "slow.onnx", SLOW)) as server:
        connection = server.connection()
        body, headers = binary_request({"x": X, "rounds": FOREVER})
        connection.request("POST", "/v2/models/slow/infer", body, headers)
        wait_for_runs(server)
        connection.close()
        wait_for_runs(server, 0)
        assert server.infer("slow", {"x": X, "rounds": np.array(1)}).status == 200


def test_the_deadline_of_a_request_reaches_into_its_run(tmp_path: Path) -> None:
    with serving(save(tmp_path / "slow.onnx", SLOW), "--timeout", "0.3") as server:
        assert server.ask("POST", "/v2/models/slow/infer", slow_body(10**9)).status == 504
        sooner = slow_body(10**9, parameters={"timeout": 1000})
        assert server.ask("POST", "/v2/models/slow/infer", sooner).status == 504
        assert server.ask("POST", "/v2/models/slow/infer", slow_body(1)).status == 200


def test_limits(tmp_path: Path) -> None:
    path = save(tmp_path / "twice.onnx", TWICE)
    options = ("--max-body", "100K", "--max-bodies", "150K", "--client-timeout", "0.5", "--max-connections", "20")
    with serving(path, *options) as server:
        announced = http.client.HTTPConnection("127.0.0.1", server.port)
        announced.putrequest("POST", "/v2/models/twice/infer")
        announced.putheader("Content-Length", str(1 << 50))
        announced.endheaders()
        assert announced.getresponse().status == 413
        large = np.zeros((100, 200), np.float32)
        body, headers = binary_request({"x": large})
        chunked = iter([body, body])
        connection = server.connection()
        connection.request("POST", "/v2/models/twice/infer", chunked, headers, encode_chunked=True)
        assert connection.getresponse().status == 413
        text = b'{"inputs": [' + b"[]," * 5000 + b"1]}"
        assert server.ask("POST", "/v2/models/twice/infer", text).status == 413
        check_slow_clients(server)
        check_many_connections(server)
        assert server.infer("twice", {"x": X}).status == 200


def received(connection: socket.socket) -> bytes:
    found = b""
    while part := connection.recv(1 << 16):
        found += part
    return found


def check_slow_clients(server: Server) -> None:
    for start, status in (
        (b"", b"408"),
        (b"POST /v2/models/twice/infer HTTP/1.1\r\nA: ", b"408"),
        (b"POST /v2/models/twice/infer HTTP/1.1\r\nContent-Length: 50\r\n\r\n{", b"408"),
        (b"nonsense\r\n\r\n", b"400"),
    ):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            connection.sendall(start)
            assert received(connection).startswith(b"HTTP/1.1 " + status), start
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 12_000)
        assert received(connection).startswith(b"HTTP/1.1 431")


def check_many_connections(server: Server) -> None:
    kept = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(40)]
    answers = [received(each)[:12] for each in kept]
    for each in kept:
        each.close()
    assert answers.count(b"HTTP/1.1 503") >= 15
    assert set(answers) <= {b"HTTP/1.1 503", b"HTTP/1.1 408"}


def test_keys(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("# ours\nfirst\nsecond\n")
    path = save(tmp_path / "twice.onnx", TWICE)
    with serving(path, "--api-keys", str(tmp_path / "keys"), environment={"INTAGLIO_KEY": "third"}) as server:
        assert server.ask("GET", "/v2/health/ready").status == 200
        for headers, status in (
            ({}, 401),
            ({"Authorization": "Bearer fourth"}, 401),
            ({"Authorization": "Bearer second"}, 200),
            ({"X-API-Key": "third"}, 200),
        ):
            assert server.ask("GET", "/v2/models/twice", headers=headers).status == status
        assert server.infer("twice", {"x": X}).status == 401


def test_encrypted_connections(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        str(key),
        "-out",
        str(certificate),
    ]
    names = ["-days", "1", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, *names], check=True, capture_output=True)
    path = save(tmp_path / "twice.onnx", TWICE)
    with serving(path, "--certificate", str(certificate), "--certificate-key", str(key)) as server:
        context = ssl.create_default_context(cafile=str(certificate))
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=60)
        assert ask(connection, "GET", "/v2/health/ready").status == 200
        connection.close()


def test_changed_files_are_loaded_without_a_failed_request(tmp_path: Path) -> None:
    save(tmp_path / "models" / "m.onnx", TWICE)
    with serving(tmp_path / "models", "--reload", "0.05") as server:
        while server.ask("GET", "/v2/health/ready").status != 200:
            pass
        save(tmp_path / "other.onnx", TWICE.replace("Add", "Sub")).rename(tmp_path / "models" / "m.onnx")
        found = 2.0
        while found == 2.0:
            answer = server.infer("m", {"x": X})
            assert answer.status == 200
            found = answer.array("y")[0, 0]
        assert found == 0.0
        (tmp_path / "models" / "m.onnx").write_bytes(b"broken")
        time.sleep(0.5)
        assert server.infer("m", {"x": X}).array("y")[0, 0] == 0.0
        save(tmp_path / "models" / "new.onnx", TWICE)
        while server.infer("new", {"x": X}).status != 200:
            pass
        (tmp_path / "models" / "m.onnx").unlink()
        while server.infer("m", {"x": X}).status != 404:
            pass


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    path = save(tmp_path / "twice.onnx", TWICE)
    with serving(path) as server:
        import sys

        command = [sys.executable, "-m", "intaglio", "serve", str(path), "--port", str(server.port)]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (found.returncode, "choose another one with --port" in found.stderr) == (1, True)


def test_an_application_that_is_mounted() -> None:
    import onnx
    from starlette.applications import Starlette
    from starlette.routing import Mount

    app = intaglio.serve.asgi(intaglio.load(onnx.parser.parse_model(TWICE)), Settings(max_batch=1))
    outer = Starlette(routes=[Mount("/models", app)])
    body, headers = binary_request({"x": X})
    answer = asyncio.run(call(outer, "/models/v2/models/model/infer", body, headers))
    assert answer[0]["status"] == 200
    assert answer[1]["body"].endswith((2 * X).tobytes())
    app.close()


async def call(app: Any, path: str, body: bytes, headers: dict[str, str]) -> list[dict[str, Any]]:
    """One POST to an ASGI application."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "headers": raw, "root_path": ""}
    await app({**scope, "query_string": b"", "http_version": "1.1", "scheme": "http"}, receive, send)
    return sent
