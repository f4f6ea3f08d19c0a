"""Threads of a run: as many as asked for, the same bits, at rest between requests, beside other libraries' pools."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import pytest

import intaglio
from intaglio.cli.demo_model import demo_model
from intaglio.targets.c.native import using_threads


@pytest.fixture(scope="module")
def images() -> Any:
    return np.random.default_rng(0).standard_normal((6, 3, 32, 32)).astype(np.float32)


@pytest.fixture(scope="module")
def model() -> intaglio.Model:
    return intaglio.load(demo_model(), engine="native", threads=2)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_threads_of_one_run(model: intaglio.Model, images: Any, threads: int) -> None:
    (name,) = [item.name for item in model.inputs]
    expected = model(images)
    loaded = intaglio.load(demo_model(), engine="native", threads=threads)(images)
    np.testing.assert_array_equal(loaded, expected)
    (found,) = model.run({name: images}, threads=threads).values()
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(model(images), expected)


WORKERS = """
import sys, numpy as np, intaglio
from intaglio.targets.c.native import pool_workers
model = intaglio.load(sys.argv[1], engine="native", threads=2)
x = np.ones((512, 1024), np.float32)
model.run({"x0": x}, threads=1)
one = pool_workers()
model(x)
two = pool_workers()
model.run({"x0": x}, threads=4)
print(one, two, pool_workers())
"""


def test_a_run_on_one_thread_starts_no_others(endless: onnx.ModelProto, tmp_path: Any) -> None:
    onnx.save(endless, tmp_path / "long.onnx")
    command = [sys.executable, "-c", WORKERS, str(tmp_path / "long.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout.split(), done.stderr) == (["0", "1", "3"], "")


def test_threads_are_those_of_the_calling_thread_only(model: intaglio.Model, images: Any) -> None:
    with using_threads(1):
        before = threading.active_count()
        with ThreadPoolExecutor(1) as executor:
            np.testing.assert_array_equal(executor.submit(model, images).result(), model(images))
        assert threading.active_count() == before


@pytest.mark.parametrize("threads", [0, -3])
def test_threads_that_cannot_be(model: intaglio.Model, images: Any, threads: int) -> None:
    with pytest.raises(intaglio.InputError, match=f"threads is {threads}, expected at least 1"):
        model.run({"image": images}, threads=threads)


def test_the_reference_engine_ignores_threads(images: Any) -> None:
    model = intaglio.load(demo_model(), engine="reference")
    name = model.inputs[0].name
    np.testing.assert_array_equal(*(next(iter(model.run({name: images}, threads=n).values())) for n in (1, 4)))


WAITS = """
import statistics, sys, time, numpy as np, intaglio
from intaglio.targets.c.native import pool_workers
model = intaglio.load(sys.argv[1], engine="native", threads=2)
x = np.ones((3, 3, 32, 32), np.float32)
model(x)
idle = []
for _ in range(20):
    model(x)
    start = time.process_time()
    time.sleep(0.05)
    idle.append(time.process_time() - start)
print(pool_workers(), statistics.median(idle))
"""


def test_a_wait_between_requests_costs_next_to_nothing(tmp_path: Any) -> None:
    """In a process that has no threads but ours, with short requests: the system adds a worker's time only later."""
    onnx.save(demo_model(), tmp_path / "demo.onnx")
    command = [sys.executable, "-c", WAITS, str(tmp_path / "demo.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stderr == ""
    workers, idle = done.stdout.split()
    assert int(workers) == 1
    assert float(idle) < 0.002


def test_two_python_threads_share_a_model(model: intaglio.Model, images: Any) -> None:
    expected = [model(images[: 1 + size]) for size in range(6)]

    def work(start: int) -> bool:
        sizes = [(start + turn) % 6 for turn in range(60)]
        return all(np.array_equal(model(images[: 1 + size]), expected[size]) for size in sizes)

    with ThreadPoolExecutor(2) as executor:
        assert all(executor.map(work, range(2)))


def keep_busy(work: Any, done: threading.Event) -> None:
    while not done.is_set():
        work()


def beside(work: Any, model: intaglio.Model, images: Any) -> None:
    """Compare runs of a model while another thread computes with a pool of its own."""
    expected, done = model(images), threading.Event()
    thread = threading.Thread(target=keep_busy, args=(work, done))
    thread.start()
    try:
        for _ in range(50):
            np.testing.assert_array_equal(model(images), expected)
    finally:
        done.set()
        thread.join(60)
    assert not thread.is_alive()


def test_beside_the_pool_of_numpy(model: intaglio.Model, images: Any) -> None:
    matrix = np.random.default_rng(1).standard_normal((300, 300))
    product = matrix @ matrix
    beside(lambda: np.testing.assert_allclose(matrix @ matrix, product), model, images)


def test_beside_the_pool_of_torch(model: intaglio.Model, images: Any) -> None:
    torch = pytest.importorskip("torch")
    matrix = torch.ones(300, 300)
    beside(lambda: torch.testing.assert_close(matrix @ matrix, matrix * 300), model, images)


LIMITED = """
import sys, numpy as np, intaglio
from intaglio.targets.c.native import pool_workers
from intaglio.processor import usable_cores
model = intaglio.load(sys.argv[1], engine="native", threads=3)
x = np.ones((512, 1024), np.float32)
model(x)
loaded = pool_workers()
model.run({"x0": x}, threads=4)
print(usable_cores(), model.options.threads, loaded, pool_workers(), intaglio.load(sys.argv[1]).options.threads)
"""


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"INTAGLIO_THREADS": "1"}, "1 1 0 0 1"),
        ({"INTAGLIO_THREADS": "2", "OMP_NUM_THREADS": "1"}, "{two} 2 1 1 {two}"),
        ({"OMP_NUM_THREADS": "1"}, "1 3 2 3 1"),
        ({"OMP_NUM_THREADS": "1,4"}, "1 3 2 3 1"),
        ({"OMP_NUM_THREADS": "many"}, "{all} 3 2 3 {all}"),
        ({"INTAGLIO_THREADS": "1000"}, "{all} 3 2 3 {all}"),
        ({"INTAGLIO_THREADS": ""}, "{all} 3 2 3 {all}"),
    ],
)
def test_variables_limit_threads(endless: onnx.ModelProto, tmp_path: Any, variables: Any, expected: str) -> None:
    onnx.save(endless, tmp_path / "long.onnx")
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "long.onnx")]
    free = {name: value for name, value in os.environ.items() if name not in ("INTAGLIO_THREADS", "OMP_NUM_THREADS")}
    done = subprocess.run(command, env=free | variables, capture_output=True, text=True, check=False, timeout=120)
    cores = len(os.sched_getaffinity(0))
    assert done.stderr == ""
    assert done.stdout.strip() == expected.format(two=min(2, cores), all=done.stdout.split()[0])
    assert int(done.stdout.split()[0]) <= cores


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "²"])
def test_a_variable_that_is_no_number_is_named(demo: bytes, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("INTAGLIO_THREADS", text)
    with pytest.raises(intaglio.InputError, match="INTAGLIO_THREADS"):
        intaglio.load(demo)


@pytest.fixture
def demo() -> bytes:
    return demo_model().SerializeToString()
