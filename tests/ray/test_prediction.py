"""Datasets through models by real actors: the same answers as one process, a killed actor, weights held once."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.ray.conftest import mixing, network

import intaglio

pytestmark = pytest.mark.ray

ROWS = 100_000


def table(ray: Any, rows: int) -> tuple[Any, np.ndarray[Any, Any]]:
    """A dataset of numbered rows in twenty blocks, and its numbers."""
    x = np.random.default_rng(0).standard_normal((rows, 8)).astype(np.float32)
    parts = [{"number": part, "x": x[part]} for part in np.array_split(np.arange(rows), 20)]
    return ray.data.from_blocks([ray.data.block.BlockAccessor.batch_to_block(part) for part in parts]), x


def in_order(dataset: Any) -> dict[str, Any]:
    """All rows of a dataset as columns, ordered by their numbers."""
    batches = list(dataset.iter_batches(batch_size=None, batch_format="numpy"))
    columns = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    order = np.argsort(columns["number"])
    return {name: column[order] for name, column in columns.items()}


def test_two_actors_give_the_answers_of_one_process(cluster: Any) -> None:
    dataset, x = table(cluster, ROWS)
    model = network().model()
    found = in_order(intaglio.ray.predict(dataset, model, actors=2, batch_size=1000))
    np.testing.assert_array_equal(found["number"], np.arange(ROWS))
    np.testing.assert_array_equal(found["x"], x)
    np.testing.assert_array_equal(found["scores"], model(x))


def test_a_killed_actor_loses_nothing(cluster: Any, tmp_path: Path) -> None:
    """An actor is killed in the middle of its work, as the kernel does where memory runs out."""
    dataset, x = table(cluster, 20_000)
    model = network().model()

    def kill_once(batch: dict[str, Any]) -> dict[str, Any]:
        import os
        import signal

        if batch["number"][0] > 5000:
            try:
                (tmp_path / "killed").touch(exist_ok=False)
            except FileExistsError:
                return batch
            victim = actors()[0].name
            os.kill(int(victim), signal.SIGKILL)
            (tmp_path / "victim").write_text(victim)
        return batch

    predicted = intaglio.ray.predict(dataset.map_batches(kill_once, batch_size=500), model, actors=2, batch_size=100)
    found = in_order(predicted)
    assert (tmp_path / "victim").exists(), "no actor was killed, so nothing was tested"
    np.testing.assert_array_equal(found["number"], np.arange(20_000))
    np.testing.assert_array_equal(found["scores"], model(x))


def actors() -> list[Path]:
    """The folders in /proc of the actors that run models."""
    found: list[Path] = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and b"ray::MapWorker" in (entry / "cmdline").read_bytes():
                found.append(entry)
    return found


def held(process: Path, *lines: str) -> float:
    """Megabytes of a process, by lines of the kernel's account of its memory."""
    text = (process / "smaps_rollup").read_text()
    found = dict(re.findall(r"^(\w+): +(\d+) kB", text, re.MULTILINE))
    return sum(int(found[name]) for name in lines) / 1024


def looked_at(cluster: Any, dataset: Any) -> tuple[list[tuple[float, float]], float]:
    """The megabytes that each actor has alone and with others between two batches, and the processors that are left."""
    for place, _ in enumerate(dataset.iter_batches(batch_size=20, prefetch_batches=0)):
        if place == 5:
            found = [(held(each, "Private_Clean", "Private_Dirty"), held(each, "Rss")) for each in actors()]
            return found, cluster.available_resources().get("CPU", 0.0)
    raise AssertionError("the dataset was over before anybody looked")


def test_actors_hold_weights_once_and_obey_num_cpus(cluster: Any) -> None:
    def slowly(batch: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.5)
        return batch

    width = 2**20
    dataset = table(cluster, 400)[0].map_batches(slowly)
    megabytes = (8 + 3) * width * 4 / 2**20
    results = {}
    for size in (16, width):
        predicted = intaglio.ray.predict(dataset, network(size).model(), actors=2, num_cpus=1.5, batch_size=1)
        results[size], left = looked_at(cluster, predicted)
        assert left <= 4 - 2 * 1.5
    assert [len(found) for found in results.values()] == [2, 2]
    small, large = results[16], results[width]
    assert min(rss for _, rss in large) - max(rss for _, rss in small) > 0.8 * megabytes, results
    # a row of the hidden layer is 4 MB, so that the arena of a run does not count for a weight
    grown = sum(private for private, _ in large) - sum(private for private, _ in small)
    assert grown < 0.6 * megabytes, f"weights of their own would be {2 * megabytes} MB: {results}"


def test_an_actor_computes_on_the_threads_that_it_is_granted() -> None:
    from intaglio.ray.sending import send, threads_of

    assert [threads_of(cpus) for cpus in (0.25, 1, 1.5, 3)] == [1, 1, 1, 3]
    assert send(network().model(), {}).load(3).options.threads == 3
    with pytest.raises(intaglio.InputError, match="num_cpus is 0"):
        threads_of(0)
    with pytest.raises(intaglio.InputError, match="num_cpus"):
        send(network().model(), {"threads": 2})


def test_rows_that_mix_are_refused(cluster: Any) -> None:
    dataset, _ = table(cluster, 40)
    with pytest.raises(intaglio.UnsupportedError, match=r"rows may mix: .*ReduceMean.*batch_size=1"):
        intaglio.ray.predict(dataset, mixing().model())
    found = in_order(intaglio.ray.predict(dataset, mixing().model(), batch_size=1, keep=True))
    np.testing.assert_array_equal(found["y"], np.zeros((40, 8), np.float32))
