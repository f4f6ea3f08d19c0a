"""Runs that share the pool: each task is done once, bits are those of one thread, and every run goes on."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import intaglio
from intaglio.cli.demo_model import demo_model
from intaglio.targets.c.toolchain import RUNTIME_FOLDER

SOURCE = Path(__file__).parent / "pool_shares.c"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pool with a program that loads it, under the thread sanitizer."""
    found = tmp_path_factory.mktemp("pool") / "shares"
    sources = [str(SOURCE), str(RUNTIME_FOLDER / "pool.c")]
    command = [
        "gcc",
        "-O1",
        "-g",
        "-fsanitize=thread",
        "-I",
        str(RUNTIME_FOLDER),
        *sources,
        "-o",
        str(found),
        "-lpthread",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "cannot find" in done.stderr:
        pytest.skip("gcc has no libtsan here")
    assert done.returncode == 0, done.stderr
    return found


@pytest.mark.parametrize(
    ("callers", "runs", "threads"),
    [(1, 100, 3), (3, 60, 4), (8, 40, 2), (40, 10, 4)],
    ids=["one run at a time", "fewer runs than threads", "more runs than threads", "more runs than boards"],
)
def test_each_task_is_done_once(program: Path, callers: int, runs: int, threads: int) -> None:
    command = [str(program), str(callers), str(runs), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("0 wrong, ")
    assert done.stdout.endswith(f" {threads - 1} workers\n")


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_runs_at_the_same_time_have_the_bits_of_one_thread(endless: onnx.ModelProto, threads: int) -> None:
    random = np.random.default_rng(threads)
    demo, long = demo_model(), endless
    images = random.standard_normal((16, 3, 32, 32)).astype(np.float32)
    wide = random.standard_normal((64, 1024)).astype(np.float32)
    expected = intaglio.load(demo, threads=1)(images), intaglio.load(long, threads=1)(wide)
    models = intaglio.load(demo, threads=threads), intaglio.load(long, threads=threads)

    def work(number: int) -> bool:
        which = number % 2
        feed: Any = (images, wide)[which]
        return all(np.array_equal(models[which](feed), expected[which]) for _ in range(12))

    with ThreadPoolExecutor(6) as executor:
        assert all(executor.map(work, range(6)))


FORKS = """
import os, sys, threading, numpy as np, intaglio
model = intaglio.load(sys.argv[1], threads=3)
x = np.ones((64, 1024), np.float32)
expected = model(x)
done = threading.Event()
def work():
    while not done.is_set():
        model(x)
others = [threading.Thread(target=work) for _ in range(3)]
for each in others:
    each.start()
for _ in range(10):
    child = os.fork()
    if not child:
        os._exit(0 if np.array_equal(model(x), expected) else 1)
    assert os.waitpid(child, 0)[1] == 0
done.set()
for each in others:
    each.join()
print(np.array_equal(model(x), expected))
"""


def test_a_fork_in_the_middle_of_other_runs(endless: onnx.ModelProto, tmp_path: Path) -> None:
    onnx.save(endless, tmp_path / "long.onnx")
    command = [sys.executable, "-W", "ignore", "-c", FORKS, str(tmp_path / "long.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_deadline_ends_its_own_run_alone(endless: onnx.ModelProto) -> None:
    model = intaglio.load(endless, threads=2)
    small, large = np.ones((4, 1024), np.float32), np.ones((4096, 1024), np.float32)
    name = model.inputs[0].name
    expected, results = model(small), list[bool]()
    thread = threading.Thread(target=lambda: results.extend(np.array_equal(model(small), expected) for _ in range(20)))
    thread.start()
    while thread.is_alive():
        with pytest.raises(intaglio.RunTimeoutError):
            model.run({name: large}, timeout=0.001)
    assert results == [True] * 20
