"""Crowds and floods: each has a clear status, memory stays bounded, and the server answers others meanwhile."""

from __future__ import annotations

import resource
import socket
import time
from pathlib import Path

import numpy as np
import pytest
from tests.serve.processes import TWICE, Server, binary_request, save, serving

X = np.ones((1, 4), np.float32)


def resident(server: Server) -> int:
    """MiB of a server's memory."""
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmRSS"))


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def received(connection: socket.socket) -> bytes:
    found = b""
    try:
        while part := connection.recv(1 << 16):
            found += part
    except ConnectionError:  # what we had not sent yet was refused with the connection
        pass
    return found


@pytest.mark.slow
def test_ten_thousand_connections(tmp_path: Path) -> None:
    crowd(tmp_path, 10_000, "9000")


def test_a_crowd_of_connections(tmp_path: Path) -> None:
    crowd(tmp_path, 900, "800")


def crowd(folder: Path, count: int, limit: str) -> None:
    """Open connections that send nothing: those above the limit are refused, those below it time out."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + 100:
        pytest.skip(f"a process may open {hard} files here, and the test needs {count + 100}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 100), hard))
    try:
        with serving(
            save(folder / "twice.onnx", TWICE), "--max-connections", limit, "--client-timeout", "20"
        ) as server:
            kept = server.connection()
            kept.request("GET", "/v2/health/live")
            assert kept.getresponse().read()
            before = resident(server)
            crowd = [connect(server) for _ in range(count)]
            kept.request("GET", "/v2/health/live")
            assert kept.getresponse().status == 200
            assert resident(server) - before < 20 + count // 20
            answers = [received(each)[:12] for each in crowd]
            for each in crowd:
                each.close()
            assert set(answers) <= {b"HTTP/1.1 503", b"HTTP/1.1 408"}
            assert answers.count(b"HTTP/1.1 503") >= count - int(limit)
            kept.close()
            assert server.infer("twice", {"x": X}).status == 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_floods_of_headers(tmp_path: Path) -> None:
    with serving(save(tmp_path / "twice.onnx", TWICE)) as server:
        before = resident(server)
        for line in (b"a: b\r\n", b"x-%d: y\r\n" % 7, b"a: " + b"b" * 4000 + b"\r\n"):
            with connect(server) as connection:
                try:
                    connection.sendall(b"GET /v2 HTTP/1.1\r\n")
                    for _ in range((8 << 20) // len(line)):
                        connection.sendall(line)
                except ConnectionError:
                    continue
                assert received(connection)[:12] in (b"HTTP/1.1 431", b"")  # or the answer was lost with the connection
        assert resident(server) - before < 16
        assert server.infer("twice", {"x": X}).status == 200


def test_shapes_that_nothing_could_hold(tmp_path: Path) -> None:
    with serving(save(tmp_path / "twice.onnx", TWICE)) as server:
        before = resident(server)
        body, headers = binary_request({"x": X})
        for shape in (b"[1099511627776, 1099511627776]", b"[4611686018427387904, 4]", b"[0, 9223372036854775807]"):
            wrong = body.replace(b"[1, 4]", shape)
            length = str(int(headers["Inference-Header-Content-Length"]) + len(shape) - len(b"[1, 4]"))
            answer = server.ask("POST", "/v2/models/twice/infer", wrong, {"Inference-Header-Content-Length": length})
            assert (answer.status, "bytes" in answer.json["error"]) == (400, True)
        for text in (
            b'{"inputs":' * 20_000,
            b'{"inputs": [{"name": "' + b"x" * 100_000,
            b"[" * 1_000_000,
            b"9" * 100_000,
        ):
            assert server.ask("POST", "/v2/models/twice/infer", text).status == 400
        assert resident(server) - before < 64
        assert server.infer("twice", {"x": X}).status == 200


def test_clients_that_read_nothing(tmp_path: Path) -> None:
    """The answers that they do not take stay within bounds, and their connections end."""
    with serving(save(tmp_path / "twice.onnx", TWICE), "--client-timeout", "1") as server:
        large = np.ones((1 << 18, 4), np.float32)
        body, headers = binary_request({"x": large})
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        request = f"POST /v2/models/twice/infer HTTP/1.1\r\nContent-Length: {len(body)}\r\n{head}\r\n".encode() + body
        crowd = [connect(server) for _ in range(8)]
        for each in crowd:
            each.sendall(request)
        while server.ask("GET", "/metrics").body.decode().count('outcome="success"') == 0:
            time.sleep(0.05)
        time.sleep(3)
        found = server.ask("GET", "/metrics").body.decode()
        assert "intaglio_body_bytes 0.0" in found
        for each in crowd:
            each.close()
        assert server.infer("twice", {"x": X}).status == 200
