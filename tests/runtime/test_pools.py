"""Models in pools of processes, and processes that fork while something is compiled."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest

import intaglio
from intaglio.targets.c import cache

Y = np.array([1, -1, 2], np.float32)


def inputs(number: int) -> tuple[np.ndarray, np.ndarray]:
    return np.full((number + 1, 3), number, np.float32), Y


def expected(number: int) -> np.ndarray:
    x, y = inputs(number)
    return np.maximum(x * y + 1, 0)


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("INTAGLIO_CACHE", str(tmp_path / "cache"))
    cache.default_cache.cache_clear()
    yield tmp_path / "cache"
    cache.default_cache.cache_clear()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_pool_of_workers_shares_a_model(affine: onnx.ModelProto, method: str) -> None:
    model = intaglio.load(affine, engine="native")
    model(*inputs(1))
    with warnings.catch_warnings(action="ignore"), multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.starmap(model, [inputs(number) for number in range(8)])
    for number, z in enumerate(found):
        np.testing.assert_array_equal(z, expected(number))
    np.testing.assert_array_equal(model(*inputs(1)), expected(1))


def run_by_bytes(content: bytes, number: int) -> np.ndarray:
    return intaglio.load(content, engine="native")(*inputs(number))


def test_workers_of_an_executor_load_their_own(affine: onnx.ModelProto) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        found = list(executor.map(run_by_bytes, [affine.SerializeToString()] * 4, range(4)))
    for number, z in enumerate(found):
        np.testing.assert_array_equal(z, expected(number))


def test_an_unpickled_model_compiles_nothing(
    affine: onnx.ModelProto, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = pickle.dumps(intaglio.load(affine, engine="native"))
    cache.default_cache.cache_clear()
    monkeypatch.setattr("intaglio.targets.c.compiler.Compiler.compile_unit", None)
    np.testing.assert_array_equal(pickle.loads(content)(*inputs(2)), expected(2))


def child_status(work: object) -> int:
    """Fork, and run a function in the child; its exit status is 0 where that returned True."""
    assert callable(work)
    with warnings.catch_warnings(action="ignore"):  # Python 3.12 warns of fork beside threads, which is the case tested
        child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_parent_and_child_compile_after_a_fork(affine: onnx.ModelProto, empty_cache: Path) -> None:
    first = intaglio.load(affine, engine="native")
    affine.graph.node[3].op_type = "Neg"

    def another() -> bool:
        second = intaglio.load(affine, engine="native")
        x, y = inputs(3)
        return np.array_equal(second(x, y), -(x * y + 1)) and np.array_equal(first(x, y), expected(3))

    assert child_status(another) == 0
    assert another()


def test_fork_while_another_thread_compiles(affine: onnx.ModelProto, empty_cache: Path) -> None:
    operators = ["Relu", "Neg", "Exp", "Abs", "Tanh", "Sigmoid", "Erf", "Floor"]
    is_over = threading.Event()

    def compile_all() -> None:
        for operator in operators:
            own = onnx.ModelProto()
            own.CopyFrom(affine)
            own.graph.node[3].op_type = operator
            intaglio.load(own, engine="native")
        is_over.set()

    thread = threading.Thread(target=compile_all)
    thread.start()
    forks = 0
    while not is_over.wait(0.02):
        assert child_status(lambda: np.array_equal(run_by_bytes(affine.SerializeToString(), 2), expected(2))) == 0
        forks += 1
    thread.join()
    assert forks > 0
    assert list((empty_cache / "work").iterdir()) == []
