"""Long use: 100,000 requests over reloads and drains without a failed one, and memory that stays as it is.

`INTAGLIO_SOAK` is the number of requests of the test of memory.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from bench.load import Load, run_load
from tests.serve.processes import TWICE, Server, binary_request, save, serving

pytestmark = pytest.mark.slow

REQUESTS = int(os.environ.get("INTAGLIO_SOAK", "1000000"))
X = np.ones((1, 4), np.float32)


def request_file(folder: Path, model: str) -> str:
    body, headers = binary_request({"x": X})
    fields = {"Host": "localhost", "Content-Length": str(len(body)), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    path = folder / f"{model}.request"
    path.write_bytes(f"POST /v2/models/{model}/infer HTTP/1.1\r\n{head}\r\n".encode() + body)
    return str(path)


def resident(process: int) -> int:
    """KiB of memory of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def test_no_request_fails_over_reloads(tmp_path: Path) -> None:
    save(tmp_path / "models" / "m.onnx", TWICE)
    path, done = request_file(tmp_path, "m"), threading.Event()
    with serving(tmp_path / "models", "--workers", "2", "--reload", "0.5") as server:
        while server.ask("GET", "/v2/health/ready").status != 200:
            assert server.process.poll() is None
        changes = [0]

        def change() -> None:
            while not done.wait(5):
                changes[0] += 1
                text = TWICE.replace("Add", ("Add", "Sub", "Mul")[changes[0] % 3])
                save(tmp_path / "new.onnx", text).rename(tmp_path / "models" / "m.onnx")

        thread = threading.Thread(target=change)
        thread.start()
        try:
            found = asyncio.run(run_load(Load(server.port, [path] * 8, 100_000)))
        finally:
            done.set()
            thread.join()
        assert found.failures == {}
        assert len(found.latencies[path]) == 100_000
        assert changes[0] >= 3
        assert server.end(signal.SIGTERM)[0] == 0


def test_memory_is_flat(tmp_path: Path) -> None:
    path = request_file(tmp_path, "twice")
    with serving(save(tmp_path / "twice.onnx", TWICE)) as server:
        sizes = [after(server, path, max(10_000, REQUESTS // 20)) for _ in range(20)]
        print(f"KiB after each twentieth of {REQUESTS} requests: {sizes}")
        assert sizes[-1] - sizes[2] < 2048


def after(server: Server, path: str, count: int) -> int:
    """The memory of a server after some requests."""
    found = asyncio.run(run_load(Load(server.port, [path] * 4, count)))
    assert found.failures == {}
    return resident(server.process.pid)
