"""Weights in a mapped file of the cache: several processes hold them once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.runtime.conftest import parsed

import intaglio

MEGABYTE = 2**20
WIDTH = 2048
"""Two square weights of this width are 32 MB."""

HOLDER = """
import sys, numpy, intaglio
model = intaglio.load(sys.argv[1], threads=1, shared_weights=sys.argv[2] == "shared")
x = numpy.linspace(-1, 1, 2048, dtype=numpy.float32)[None]
print(model(x).tobytes().hex(), flush=True)
sys.stdin.readline()
"""


def network() -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    weights = [(rng.standard_normal((WIDTH, WIDTH)) / WIDTH).astype(np.float32) for _ in range(2)]
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", WIDTH]) for name in "xy"]
    nodes = [helper.make_node("MatMul", ["x", "v"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])]
    stored = [numpy_helper.from_array(weight, name) for weight, name in zip(weights, "vw", strict=True)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shared") / "large.onnx"
    onnx.save(network(), path)
    return path


def held(process: subprocess.Popen[str], what: str) -> float:
    """Megabytes of a process, by a line of the kernel's account of its memory."""
    text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    found = re.search(rf"^{what}: +(\d+) kB", text, re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def hold(path: Path, cache: Path, how: str) -> tuple[list[str], list[float]]:
    """What three processes computed, and the megabytes that each of them adds to the memory of the machine."""
    environment = {**os.environ, "INTAGLIO_CACHE": str(cache)}
    command = [sys.executable, "-c", HOLDER, str(path), how]
    running: list[subprocess.Popen[str]] = []
    try:
        answers: list[str] = []
        for _ in range(3):  # one after the other, so that the first compiles
            running.append(
                subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            assert running[-1].stdout is not None
            answers.append(running[-1].stdout.readline())
        return answers, [held(process, "Pss") for process in running]
    finally:
        for process in running:
            process.communicate("\n", timeout=60)


def test_processes_hold_shared_weights_once(large: Path, tmp_path: Path) -> None:
    """The process that compiles is among them: each has a cache that is empty at first."""
    own, alone = hold(large, tmp_path / "own", "own")
    shared, together = hold(large, tmp_path / "shared", "shared")
    assert len({*own, *shared}) == 1
    saved = sum(alone) - sum(together)
    assert saved > 0.9 * 2 * 32, f"three processes hold {alone} MB with weights of their own, {together} MB with shared"


def test_a_warning_names_why_weights_are_not_shared(large: Path, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="not shared with others: the reference engine runs it"):
        intaglio.load(large, engine="reference", shared_weights=True)
    compiled = tmp_path / "large.intaglio"
    intaglio.load(large).save_compiled(compiled)
    with pytest.raises(intaglio.InputError, match="load the ONNX model instead"):
        intaglio.load(compiled, shared_weights=True)


@pytest.fixture(autouse=True)
def _own_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process may have registered operators, with which no plan is kept."""
    monkeypatch.setattr("intaglio.runtime.artifact.warm._is_all_our_own", lambda: True)


def test_copies_share_too(large: Path) -> None:
    model = intaglio.load(large, shared_weights=True)
    assert model.options.keywords()["shared_weights"]
    x: Any = np.ones((3, WIDTH), np.float32)
    np.testing.assert_array_equal(model(x), intaglio.load(large)(x))


def test_without_weights_nothing_is_said() -> None:
    model = intaglio.load(parsed("g (float[n] x) => (float[n] y) { y = Exp(x) }"), shared_weights=True)
    assert model(np.zeros(2, np.float32)).tolist() == [1, 1]
