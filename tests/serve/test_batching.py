"""Requests that run together: each gets what it would get alone, whoever else asks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.serve.processes import CENTRED, HEADER, TWICE, binary_request, save, serving

import intaglio
from intaglio.serve.lane import Job, Lane
from intaglio.serve.messages import InferRequest, RequestError
from intaglio.serve.rows import rows_of
from intaglio.serve.served import Served
from intaglio.serve.settings import Settings

GATHERED = HEADER + (
    "g (int64[n, k] x) => (float[n, k, 2] y, float[2] z) <float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] c = {7, 8}>"
    " { y = Gather(w, x) z = Identity(c) }"
)
LAYERS = HEADER + (
    "g (float[n, k, 4] x, float[n, 4] y) => (float[n, k, 4] z)"
    " <float[4, 4] w = {1, 2, 3, 4, 0, 1, 0, 1, 2, 2, 0, 0, 1, 0, 0, 1}, int64[1] axes = {1}>"
    " { a = MatMul(x, w) b = Softmax(a) c = Unsqueeze(y, axes) z = Add(b, c) }"
)
MIXING = {
    "a mean over rows": (CENTRED, "ReduceMean"),
    "a scale of all rows": (
        HEADER + "g (float[n, 4] x) => (uint8[n, 4] y) { y, s, z = DynamicQuantizeLinear(x) }",
        "DynamicQuantizeLinear",
    ),
    "the number of rows": (
        HEADER + "g (float[n, 4] x) => (float[n, 4] y) { s = Size(x) f = Cast<to = 1>(s) y = Div(x, f) }",
        "number of rows",
    ),
    "rows with rows": (HEADER + "g (float[n, 4] x) => (float[n, n] y) { t = Transpose(x) y = MatMul(x, t) }", ""),
    "random numbers": (HEADER + "g (float[n, 4] x) => (float[n, 4] y) { r = RandomNormalLike(x) y = Add(x, r) }", ""),
    "no common size": (
        HEADER + "g (float[n] x, float[m] y) => (float[n] z, float[m] w) { z = Neg(x) w = Neg(y) }",
        "common",
    ),
    "a fixed size": (HEADER + "g (float[2, 4] x) => (float[2, 4] y) { y = Neg(x) }", "not open"),
}


def loaded(text: str) -> intaglio.Model:
    return intaglio.load(onnx.parser.parse_model(text))


@pytest.mark.parametrize("case", MIXING)
def test_what_mixes_rows_is_refused_with_the_reason(case: str) -> None:
    text, part = MIXING[case]
    reason = rows_of(loaded(text)).reason
    assert reason
    assert part in reason


def make(name: str, random: np.random.Generator) -> dict[str, Any]:
    rows, size = int(random.integers(1, 5)), int(random.integers(1, 4))
    if name == "gathered":
        return {"x": random.integers(0, 3, (rows, size))}
    return {
        "x": random.standard_normal((rows, size, 4)).astype(np.float32),
        "y": random.standard_normal((rows, 4)).astype(np.float32),
    }


class Crowd:
    """Jobs that wait while the engine is held, so that they run together."""

    def __init__(self, text: str, **settings: Any) -> None:
        self.model = loaded(text)
        self.lane = Lane(Served("m", "1", self.model), Settings(**settings))
        self.jobs: list[Job] = []
        self.order: list[Job] = []
        self._done = threading.Semaphore(0)

    def ask(self, inputs: dict[str, Any], deadline: float = float("inf"), **fields: Any) -> Job:
        job = Job(InferRequest(inputs, **fields), deadline, self._finished)
        self.jobs.append(job)
        if self.lane.submit(job):
            self._finished(job)
        return job

    def _finished(self, job: Job) -> None:
        self.order.append(job)
        self._done.release()

    def run(self, asks: Callable[[], object]) -> None:
        with self.lane._engine:
            asks()
        for _ in self.jobs:
            assert self._done.acquire(timeout=60)
        self.lane.close(wait=True)


@pytest.mark.parametrize("text", [GATHERED, LAYERS], ids=["gathered", "layers"])
def test_rows_that_wait_run_together_grouped_by_size(text: str) -> None:
    crowd, random = Crowd(text), np.random.default_rng(1)
    name = "gathered" if text is GATHERED else "layers"
    feeds = [make(name, random) for _ in range(40)]
    crowd.run(lambda: [crowd.ask(feed) for feed in feeds])
    for feed, job in zip(feeds, crowd.jobs, strict=True):
        assert job.error is None
        assert job.results is not None
        for ours, alone in zip(job.results, crowd.model.run(feed).values(), strict=True):
            np.testing.assert_allclose(ours, alone, rtol=1e-6, atol=1e-6)
    assert crowd.lane.statistics.inferences == 40
    assert crowd.lane.statistics.executions <= 6  # three sizes, each of at most 64 rows


def test_a_request_that_fails_takes_no_other_with_it() -> None:
    crowd = Crowd(GATHERED)
    good, bad = {"x": np.zeros((1, 2), np.int64)}, {"x": np.full((1, 2), 9)}
    crowd.run(lambda: [crowd.ask(each) for each in (good, bad, good)])
    assert [job.error is None for job in crowd.jobs] == [True, False, True]


def test_the_smallest_priority_goes_first() -> None:
    crowd, x = Crowd(CENTRED), np.zeros((1, 4), np.float32)
    crowd.run(lambda: [crowd.ask({"x": x}, priority=each) for each in (8, 9, 1, 8)])
    assert [crowd.jobs.index(job) for job in crowd.order] == [2, 0, 3, 1]


def test_what_is_late_or_cancelled_is_not_run() -> None:
    crowd, x = Crowd(TWICE), np.zeros((1, 4), np.float32)

    def asks() -> None:
        crowd.ask({"x": x}, deadline=0.0)
        crowd.lane.cancel(crowd.ask({"x": x}))
        crowd.ask({"x": x})

    crowd.run(asks)
    statuses = [job.error.status if isinstance(job.error, RequestError) else None for job in crowd.jobs]
    assert statuses == [504, 499, None]
    assert crowd.lane.statistics.inferences == 1


def test_a_full_queue_is_refused_with_a_time_to_come_again() -> None:
    crowd, x = Crowd(TWICE, max_queue=2), np.zeros((1, 4), np.float32)

    def asks() -> None:
        crowd.ask({"x": x})
        crowd.ask({"x": x})
        job = Job(InferRequest({"x": x}), float("inf"), lambda job: None)
        with pytest.raises(RequestError, match="2 requests wait") as caught:
            crowd.lane.submit(job)
        assert (caught.value.status, caught.value.retry_after) == (503, 1)

    crowd.run(asks)


@pytest.mark.parametrize("options", [(), ("--exact",), ("--max-batch", "1")], ids=["batched", "exact", "single"])
def test_concurrent_clients_get_what_they_would_get_alone(tmp_path: Path, options: tuple[str, ...]) -> None:
    path = save(tmp_path / "layers.onnx", LAYERS)
    model = intaglio.load(path, exact="--exact" in options)
    with serving(path, *options) as server:

        def client(seed: int) -> int:
            random = np.random.default_rng(seed)
            connection = server.connection()
            for _ in range(40):
                feed = make("layers", random)
                body, headers = binary_request(feed)
                connection.request("POST", "/v2/models/layers/infer", body, headers)
                response = connection.getresponse()
                found = response.read()
                assert response.status == 200, found
                length = int(response.headers["inference-header-content-length"])
                result = np.frombuffer(found[length:], np.float32).reshape(feed["x"].shape)
                alone = model.run(feed)["z"]
                if options:
                    assert np.array_equal(result, alone)
                else:
                    np.testing.assert_allclose(result, alone, rtol=1e-6, atol=1e-6)
            connection.close()
            return 40

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(client, range(8))) == 320
        stats = server.ask("GET", "/v2/models/layers/stats").json["model_stats"][0]
        assert stats["inference_count"] == 320
        if options:
            assert stats["execution_count"] == 320
        batching = server.ask("GET", "/v2/models/layers").json["properties"]["batching"]
        assert batching.startswith("off" if options else "rows along 'n'")
