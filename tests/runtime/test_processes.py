"""Models in several threads, after fork, in spawned processes, under Ctrl-C and under a time limit."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest

import intaglio
from intaglio.runtime.engine.engine import EngineName

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
Y = np.array([1, -1, 2], np.float32)
Z = np.maximum(X * Y + 1, 0)


def test_four_threads_share_a_model(affine: onnx.ModelProto, engine: EngineName) -> None:
    model = intaglio.load(affine, engine=engine)

    def work(number: int) -> bool:
        for rows in range(1, 40):
            x = np.full((rows, 3), number + rows, np.float32)
            if not np.array_equal(model(x, Y), np.maximum(x * Y + 1, 0)):
                return False
        return True

    with ThreadPoolExecutor(4) as executor:
        assert all(executor.map(work, range(4)))


def test_threads_ask_for_new_tensors_at_once(affine: onnx.ModelProto, engine: EngineName) -> None:
    model = intaglio.load(affine, engine=engine)
    wanted = [["scaled"], ["shifted"], ["z", "scaled"], ["scaled", "shifted"]] * 2
    with ThreadPoolExecutor(4) as executor:
        found = list(executor.map(lambda names: model.run({"x": X, "y": Y}, outputs=names), wanted))
    assert [list(result) for result in found] == wanted


def test_fork_after_a_run(affine: onnx.ModelProto, engine: EngineName) -> None:
    model = intaglio.load(affine, engine=engine)
    np.testing.assert_array_equal(model(X, Y), Z)
    with warnings.catch_warnings(action="ignore"):  # Python 3.12 warns of fork beside threads, which is the case tested
        child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(model(X, Y), Z) else 1)
    np.testing.assert_array_equal(model(X, Y), Z)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(affine: onnx.ModelProto, engine: EngineName, method: str) -> None:
    model = intaglio.load(affine, engine=engine)
    with warnings.catch_warnings(action="ignore"), multiprocessing.get_context(method).Pool(1) as pool:
        np.testing.assert_array_equal(pool.apply(model, (X, Y)), Z)


LONG_RUN = """
import sys, time, numpy, intaglio
model = intaglio.load(sys.argv[1], engine=sys.argv[2])
x = numpy.ones((512, 1024), numpy.float32)
model(x[:1])
print("ready", flush=True)
try:
    while True:
        model(x)
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(model(x[:1]).shape, flush=True)
"""


@pytest.fixture
def long_model(endless: onnx.ModelProto, tmp_path: Path) -> Path:
    path = tmp_path / "long.onnx"
    onnx.save(endless, path)
    return path


def test_ctrl_c_ends_a_run(long_model: Path, engine: EngineName) -> None:
    command = [sys.executable, "-c", LONG_RUN, str(long_model), engine]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert process.stdout.readline() == "(1, 1024)\n"
        assert process.wait() == 0


def test_a_run_stops_at_its_timeout(endless: onnx.ModelProto, engine: EngineName) -> None:
    model = intaglio.load(endless, engine=engine)
    x = np.ones((1024, 1024), np.float32)
    with pytest.raises(intaglio.RunTimeoutError, match=r"longer than its timeout of 0\.05 s") as caught:
        model.run({"x0": x}, timeout=0.05)
    assert isinstance(caught.value, TimeoutError)
    assert model(x[:1]).shape == (1, 1024)


def test_a_timeout_in_time_changes_nothing(affine: onnx.ModelProto, engine: EngineName) -> None:
    found = intaglio.load(affine, engine=engine).run({"x": X, "y": Y}, timeout=60)
    np.testing.assert_array_equal(found["z"], Z)


def test_a_run_leaves_the_lock_of_the_interpreter(endless: onnx.ModelProto) -> None:
    """Another thread counts while one run is under way; runs are repeated until it got processor time in one."""
    model = intaglio.load(endless, engine="native", threads=1)
    x, ticks, done = np.ones((256, 1024), np.float32), [0], threading.Event()

    def tick() -> None:
        while not done.wait(0.001):
            ticks[0] += 1

    thread = threading.Thread(target=tick)
    thread.start()
    most = 0
    for _ in range(200):
        before = ticks[0]
        model(x)
        most = max(most, ticks[0] - before)
        if most > 3:
            break
    done.set()
    thread.join()
    assert most > 3


ENDLESS_LOOP = (
    "g (int64 n, bool c) => (float y) { one = Constant<value = float {1.0}>() "
    "y = Loop(n, c, one)<body = b (int64 i, bool go, float v) => (bool again, float w) "
    "{ again = Identity(go) w = Add(v, v) }> }"
)


def test_an_endless_loop_stops_at_its_timeout(make: Callable[..., onnx.ModelProto], engine: EngineName) -> None:
    model = intaglio.load(make(ENDLESS_LOOP), engine=engine)
    with pytest.raises(intaglio.RunTimeoutError, match=r"timeout of 0\.2 s"):
        model.run({"n": np.int64(2**62), "c": np.bool_(True)}, timeout=0.2)
    assert float(model(np.int64(3), np.bool_(True))) == 8
