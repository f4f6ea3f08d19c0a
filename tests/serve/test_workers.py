"""Several processes for one port: one that is killed takes no other with it, and models change in all of them."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.serve.processes import SLOW, TWICE, Server, ask, binary_request, json_tensor, save, serving

X = np.ones((1, 4), np.float32)


def children(server: Server) -> list[int]:
    """The processes of the workers."""
    found = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text()
    return [int(each) for each in found.split()]


def wait_until(is_so: Callable[[], bool], server: Server) -> None:
    while not is_so():
        assert server.process.poll() is None
        time.sleep(0.01)


def is_answered(server: Server) -> bool:
    """Whether a new connection is answered; the worker that takes it may be about to be killed."""
    try:
        return server.infer("twice", {"x": X}).status == 200
    except (OSError, http.client.HTTPException):
        return False


def test_a_killed_worker_is_replaced(tmp_path: Path) -> None:
    with serving(save(tmp_path / "twice.onnx", TWICE), "--workers", "2") as server:
        wait_until(lambda: is_answered(server), server)
        before = children(server)
        assert len(before) == 2
        for process in before:
            os.kill(process, signal.SIGKILL)
            wait_until(lambda process=process: process not in children(server), server)
            assert server.infer("twice", {"x": X}).array("y")[0, 0] == 2
        wait_until(lambda: len(children(server)) == 2, server)
        assert not set(before) & set(children(server))
        status, text = server.end(signal.SIGTERM)
        assert (status, text.count("another one takes its place")) == (0, 2)


def test_only_what_is_in_flight_in_a_killed_worker_fails(tmp_path: Path) -> None:
    save(tmp_path / "models" / "twice.onnx", TWICE)
    save(tmp_path / "models" / "slow.onnx", SLOW)
    with serving(tmp_path / "models", "--workers", "2") as server:
        wait_until(lambda: is_answered(server), server)
        connection = server.connection()
        body = {"inputs": [json_tensor("x", X), json_tensor("rounds", np.array(10**9))]}
        thread = threading.Thread(target=lambda: failures.append(failure(connection, body)))
        failures: list[str] = []
        thread.start()
        wait_until(lambda: b"intaglio_in_flight 1.0" in server.ask("GET", "/metrics").body, server)
        kept = [server.connection() for _ in range(8)]
        owners = [owner(each, server) for each in kept]
        busy = max(children(server), key=processor_time)
        os.kill(busy, signal.SIGKILL)
        thread.join()
        assert failures != ["200"]
        for each, process in zip(kept, owners, strict=True):
            if process != busy:
                answer = ask(each, "POST", "/v2/models/twice/infer", {"inputs": [json_tensor("x", X)]})
                assert answer.status == 200
            each.close()
        assert server.infer("twice", {"x": X}).status == 200


def failure(connection: http.client.HTTPConnection, body: Any) -> str:
    try:
        return str(ask(connection, "POST", "/v2/models/slow/infer", body).status)
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__


def processor_time(process: int) -> int:
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def owner(connection: http.client.HTTPConnection, server: Server) -> int:
    """The worker that has a connection."""
    assert ask(connection, "GET", "/v2/health/live").status == 200
    port = connection.sock.getsockname()[1]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[2].split(":")[1], 16) == port and int(fields[1].split(":")[1], 16) == server.port:
            link = f"socket:[{fields[9]}]"
            return next(each for each in children(server) if link in links(each))
    raise AssertionError("there is no such connection")


def links(process: int) -> set[str]:
    found = set[str]()
    for each in Path(f"/proc/{process}/fd").iterdir():
        try:
            found.add(os.readlink(each))
        except OSError:
            continue
    return found


def test_statistics_are_those_of_all_workers(tmp_path: Path) -> None:
    with serving(save(tmp_path / "twice.onnx", TWICE), "--workers", "2") as server:
        connections = [server.connection() for _ in range(12)]
        for connection in connections:
            for _ in range(5):
                assert (
                    ask(connection, "POST", "/v2/models/twice/infer", {"inputs": [json_tensor("x", X)]}).status == 200
                )
        stats = [ask(each, "GET", "/v2/models/twice/stats").json["model_stats"][0] for each in connections]
        assert {each["inference_count"] for each in stats} == {60}
        assert (
            'intaglio_requests_total{model="twice",outcome="success",version="1"} 60.0'
            in server.ask("GET", "/metrics").body.decode()
        )
        fields = {"inputs": [json_tensor("x", X)], "parameters": {"trace": True}}
        trace = ask(connections[0], "POST", "/v2/models/twice/infer", fields).json["parameters"]["trace_id"]
        assert {ask(each, "GET", f"/v2/trace/{trace}").status for each in connections} == {200}
        assert ask(connections[1], "GET", "/v2/trace/0").status == 404
        for connection in connections:
            connection.close()


def test_models_change_in_all_workers(tmp_path: Path) -> None:
    save(tmp_path / "models" / "m.onnx", TWICE)
    with serving(tmp_path / "models", "--workers", "2") as server:
        assert server.infer("m", {"x": X}).array("y")[0, 0] == 2
        save(tmp_path / "models" / "m.onnx", TWICE.replace("Add", "Sub"))
        assert server.ask("POST", "/v2/repository/models/m/load").status == 200
        assert {server.infer("m", {"x": X}).array("y")[0, 0] for _ in range(20)} == {0.0}
        assert server.ask("POST", "/v2/repository/models/m/unload").status == 200
        assert {server.infer("m", {"x": X}).status for _ in range(20)} == {400}
        assert server.ask("POST", "/v2/repository/models/nothing/load").status == 404


@contextmanager
def asking(server: Server, failures: list[str], *, clients: int = 4) -> Iterator[list[int]]:
    """Clients that ask all the time, by connections that they keep; gives the count of answers."""
    done, answers = threading.Event(), [0]
    body, headers = binary_request({"x": X})

    def client() -> None:
        connection = server.connection()
        while not done.is_set():
            try:
                status = ask(connection, "POST", "/v2/models/m/infer", body, headers).status
                answers[0] += 1
                if status != 200:
                    failures.append(str(status))
            except (OSError, http.client.HTTPException) as error:
                failures.append(repr(error))
        connection.close()

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        done.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_no_request_fails_while_models_change(tmp_path: Path, workers: str) -> None:
    save(tmp_path / "models" / "m.onnx", TWICE)
    with serving(tmp_path / "models", "--workers", workers, "--reload", "0.05") as server:
        wait_until(lambda: server.ask("GET", "/v2/health/ready").status == 200, server)
        failures: list[str] = []
        with asking(server, failures) as answers:
            for operator, wanted in (("Sub", 0.0), ("Mul", 1.0)):
                save(tmp_path / "new.onnx", TWICE.replace("Add", operator)).rename(tmp_path / "models" / "m.onnx")
                while server.infer("m", {"x": X}).array("y")[0, 0] != wanted:
                    assert server.process.poll() is None
            start = answers[0]
            wait_until(lambda: answers[0] > start + 200, server)
        assert failures == []
        assert server.end(signal.SIGTERM)[0] == 0


def test_the_end_of_the_supervisor_ends_the_workers(tmp_path: Path) -> None:
    with serving(save(tmp_path / "twice.onnx", TWICE), "--workers", "2") as server:
        wait_until(lambda: is_answered(server), server)
        workers = children(server)
        server.process.kill()
        while any(Path(f"/proc/{each}").exists() for each in workers):
            time.sleep(0.01)


def test_what_workers_cannot_share_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "twice.onnx", TWICE)
    command = [sys.executable, "-m", "intaglio", "serve", str(path), "--workers", "2", "--shared-memory"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, "--shared-memory" in found.stderr) == (1, True)


def test_grpc_by_several_workers(tmp_path: Path) -> None:
    grpc = pytest.importorskip("tritonclient.grpc")
    with serving(save(tmp_path / "twice.onnx", TWICE), "--workers", "2", "--grpc-port", "0") as server:
        wait_until(lambda: is_answered(server), server)
        port = next(line.rsplit(":", 1)[1] for line in server.lines if "grpc://" in line).strip()
        client = grpc.InferenceServerClient(f"127.0.0.1:{port}")
        given = grpc.InferInput("x", [1, 4], "FP32")
        given.set_data_from_numpy(X)
        for _ in range(10):
            assert np.array_equal(client.infer("twice", [given]).as_numpy("y"), 2 * X)
        client.close()
