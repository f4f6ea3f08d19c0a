"""A client that loads servers by HTTP: as many connections as asked for, each of which waits for its answer.

It runs in a process of its own, pinned to one core: `python -m bench.load '{"port": 8000, ...}'` prints its findings as
JSON. It knows as much of HTTP as the servers of `bench.serving` need.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

LAST_CHUNK = b"0\r\n\r\n"


@dataclass
class Load:
    """What is sent: `requests` are the bytes of one HTTP request for each connection, as files."""

    port: int
    requests: list[str]
    count: int
    """Requests in all."""
    core: int | None = None


@dataclass
class Findings:
    """Latencies in microseconds by the file that was sent, and statuses other than 200 with their counts."""

    seconds: float = 0.0
    latencies: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    failures: dict[str, int] = field(default_factory=dict[str, int])


class Client(asyncio.Protocol):
    """One connection, which sends the same request again and again."""

    def __init__(self, name: str, request: bytes, run: Run) -> None:
        self.name, self.request, self.run = name, request, run
        self.received = bytearray()
        self.needed = -1
        self.status = ""
        self.at = 0.0
        self.is_waiting = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.send()

    def send(self) -> None:
        if not self.run.take():
            self.transport.close()
            self.run.leave()
            return
        self.is_waiting, self.needed = True, -1
        self.at = time.perf_counter()
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.received += data
        if self.needed < 0 and (end := self.received.find(b"\r\n\r\n")) >= 0:
            head = bytes(self.received[:end]).lower()
            self.status = head[9:12].decode("ascii", "replace")
            self.needed = end + 4 + length_of(head)
        if 0 <= self.needed <= len(self.received):
            self.run.note(self.name, self.status, (time.perf_counter() - self.at) * 1e6)
            self.received.clear()
            self.is_waiting = False
            self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_waiting:
            self.is_waiting = False
            self.run.note(self.name, "lost", 0.0)
            self.run.again(self.name, self.request)


class Run:
    """The requests that are left, and what came of the others."""

    def __init__(self, load: Load) -> None:
        self.load, self.left, self.findings = load, load.count, Findings()
        self.connections = len(load.requests)
        self.is_over = asyncio.Event()

    def take(self) -> bool:
        self.left -= 1
        return self.left >= 0

    def note(self, name: str, status: str, latency: float) -> None:
        if status == "200":
            self.findings.latencies.setdefault(name, []).append(latency)
        else:
            self.findings.failures[status] = self.findings.failures.get(status, 0) + 1

    def leave(self) -> None:
        self.connections -= 1
        if not self.connections:
            self.is_over.set()

    def again(self, name: str, request: bytes) -> None:
        """Open another connection in the place of one that was lost."""
        asyncio.get_running_loop().create_task(self.connect(name, request))

    async def connect(self, name: str, request: bytes) -> None:
        loop, end = asyncio.get_running_loop(), time.monotonic() + 30
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                await loop.create_connection(lambda: Client(name, request, self), "127.0.0.1", self.load.port)
                return
            await asyncio.sleep(0.01)
        self.note(name, "refused", 0.0)
        self.leave()


async def run_load(load: Load) -> Findings:
    """Send all requests."""
    bodies = {name: read(name) for name in set(load.requests)}
    run = Run(load)
    start = time.perf_counter()
    for name in load.requests:
        await run.connect(name, bodies[name])
    await run.is_over.wait()
    run.findings.seconds = time.perf_counter() - start
    return run.findings


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def run_alone(load: Load) -> Findings:
    """Send all requests by one connection that blocks: the least that a client can cost."""
    (name,) = load.requests
    request, findings = read(name), Findings(latencies={name: []})
    with socket.create_connection(("127.0.0.1", load.port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begin = time.perf_counter()
        for _ in range(load.count):
            start = time.perf_counter()
            connection.sendall(request)
            status = receive(connection)
            if status == "200":
                findings.latencies[name].append((time.perf_counter() - start) * 1e6)
            else:
                findings.failures[status] = findings.failures.get(status, 0) + 1
        findings.seconds = time.perf_counter() - begin
    return findings


def length_of(head: bytes) -> int:
    """The bytes of a body whose headers say so."""
    return int(head[head.index(b"\r\ncontent-length:") + 17 :].split(b"\r\n", 1)[0])


def receive(connection: socket.socket) -> str:
    """Read one answer; returns its status."""
    found = connection.recv(1 << 20)
    while (end := found.find(b"\r\n\r\n")) < 0:
        found += connection.recv(1 << 20)
    head = found[:end].lower()
    if b"chunked" in head:
        while not found.endswith(LAST_CHUNK):
            found += connection.recv(1 << 20)
        return head[9:12].decode("ascii", "replace")
    left = end + 4 + length_of(head) - len(found)
    while left > 0:
        left -= len(connection.recv(1 << 20))
    return head[9:12].decode("ascii", "replace")


def main() -> None:
    load = Load(**json.loads(sys.argv[1]))
    if load.core is not None:
        os.sched_setaffinity(0, {load.core})
    if len(load.requests) == 1:
        found = run_alone(load)
    else:
        import uvloop

        found = uvloop.run(run_load(load))
    print(json.dumps(asdict(found)))


if __name__ == "__main__":
    main()
