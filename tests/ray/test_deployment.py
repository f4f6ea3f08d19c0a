"""A model behind real Ray Serve: the protocol by HTTP, handles, batches, and answers while replicas are added."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.ray.conftest import mixing, network

import intaglio

pytestmark = pytest.mark.ray

X = np.random.default_rng(2).standard_normal((5, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def serve(cluster: Any) -> Generator[tuple[Any, str]]:
    """Ray Serve with its HTTP proxy on a port of its own, and the address of that."""
    serve = import_module("ray.serve")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    yield serve, f"127.0.0.1:{port}"
    serve.shutdown()


def infer(address: str, name: str, x: Any, route: str = "") -> Any:
    """The first output by HTTP with binary tensors, asked for by Triton's client."""
    from tritonclient import http as client

    with client.InferenceServerClient(address + route) as connection:
        tensor = client.InferInput("x", list(x.shape), "FP32")
        tensor.set_data_from_numpy(x)
        answer = connection.infer(name, [tensor])
        return answer.as_numpy(answer.get_response()["outputs"][0]["name"])


def test_the_protocol_and_handles(serve: tuple[Any, str]) -> None:
    run, address = serve
    model = network().model()
    handle = run.run(intaglio.ray.deployment(model, name="scores"), name="one", route_prefix="/")
    np.testing.assert_array_equal(infer(address, "scores", X), model(X))
    found = handle.predict.remote({"x": X}).result(timeout_s=60)
    np.testing.assert_array_equal(found["scores"], model(X))
    with pytest.raises(Exception, match="no value for input 'x'"):
        handle.predict.remote({}).result(timeout_s=60)
    run.delete("one")


def test_a_path_and_a_route(serve: tuple[Any, str], tmp_path: Path) -> None:
    run, address = serve
    path = tmp_path / "mixing.onnx"
    mixing().save(path)
    run.run(intaglio.ray.deployment(path, name="mixing", exact=True), name="two", route_prefix="/here")
    from tritonclient import http as client

    with client.InferenceServerClient(f"{address}/here") as connection:
        assert connection.is_server_ready()
        about = connection.get_model_metadata("mixing")
        assert "rows may mix" in about["properties"]["batching"]
    np.testing.assert_allclose(infer(address, "mixing", X, "/here"), X - X.mean(axis=0), atol=1e-6)
    run.delete("two")


class Clients:
    """Threads that ask one after the other until they are stopped, and check each answer."""

    def __init__(self, handle: Any, model: Any, count: int) -> None:
        self._handle, self._model = handle, model
        self._over = threading.Event()
        self.answers = 0
        self.faults: list[str] = []
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(count)]
        for thread in self._threads:
            thread.start()

    def _ask(self, number: int) -> None:
        x = X + np.float32(number)
        expected = self._model(x)
        while not self._over.is_set():
            try:
                found = self._handle.predict.remote({"x": x}).result(timeout_s=120)["scores"]
                if not np.allclose(found, expected, rtol=1e-5, atol=1e-6):
                    self.faults.append(f"client {number} has other numbers")
            except Exception as error:
                self.faults.append(f"client {number}: {error!r}")
            self.answers += 1

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


def running(serve: Any, name: str) -> int:
    """How many replicas of an application answer."""
    (found,) = serve.status().applications[name].deployments.values()
    return found.replica_states.get("RUNNING", 0)


def test_it_answers_while_it_scales_from_one_replica_to_two(serve: tuple[Any, str]) -> None:
    run, _ = serve
    model = network().model()
    soon = {"upscale_delay_s": 0.5, "metrics_interval_s": 0.2, "look_back_period_s": 1.0}
    made = intaglio.ray.deployment(
        model, replicas=(1, 2), target_requests=1, serve_options={"autoscaling_config": soon}
    )
    handle = run.run(made, name="three", route_prefix="/three")
    assert running(run, "three") == 1
    clients = Clients(handle, model, 8)
    try:
        while running(run, "three") < 2 and not clients.faults:  # the time limit of the test ends it
            time.sleep(0.1)
        before = clients.answers
        while clients.answers < before + 200 and not clients.faults:
            time.sleep(0.1)
    finally:
        clients.stop()
    assert clients.faults == []
    assert before > 0
    run.delete("three")


def test_what_cannot_be_is_refused() -> None:
    model = network().model()
    pytest.importorskip("ray", reason="Ray is not installed here: make check-ray has it")
    with pytest.raises(intaglio.InputError, match="replicas is 0"):
        intaglio.ray.deployment(model, replicas=0)
    with pytest.raises(intaglio.InputError, match="num_cpus"):
        intaglio.ray.deployment(model, threads=3)
    assert intaglio.ray.deployment(model, replicas=(1, 4)) is not None
