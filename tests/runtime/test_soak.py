"""Many runs of several models from several threads: the same answers all along, and nothing that piles up.

The work is done in a process of its own, which runs this file.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import intaglio

THREADS = 4
CASES = 12
ROUNDS = 10
MIB = 2**20
RNG = np.random.default_rng(11)

SEARCH = """<ir_version: 10, opset_import: ["" : 21]>
search (float[n] x, int64 rounds) => (int64[1, found] places, float[kept] values, float[n] last) {
    yes = Constant<value = bool {1}>()
    half = Constant<value = float {0.5}>()
    zero = Constant<value = float {0.0}>()
    last = Loop(rounds, yes, x) <body = step (int64 turn, bool go, float[n] state) => (bool more, float[n] next) {
        more = Identity(go)
        scaled = Mul(state, half)
        next = Sub(scaled, x)
    }>
    above = Greater(last, zero)
    places = NonZero(above)
    values = Compress(last, above)
}"""


@dataclass
class Subject:
    """A loaded model with inputs and the answers to them."""

    model: intaglio.Model
    cases: list[dict[str, Any]]
    answers: list[dict[str, Any]]

    def check(self, place: int, threads: int) -> None:
        """Run one case and compare every bit."""
        found = self.model.run(self.cases[place], threads=threads)
        for name, answer in self.answers[place].items():
            if not np.array_equal(found[name], answer):
                raise AssertionError(f"output {name} of {self.model.graph.name} differs in case {place}")


def values(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def model_of(nodes: list[Any], inputs: dict[str, list[Any]], weights: dict[str, Any]) -> onnx.ModelProto:
    """A model of float tensors with one output, y."""
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", infos, [onnx.ValueInfoProto(name="y")], constants)
    graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def small_cnn() -> tuple[onnx.ModelProto, list[dict[str, Any]]]:
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["r0"]),
        helper.make_node("MaxPool", ["r0"], ["p0"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p0", "w1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["c1"], ["s1"]),
        helper.make_node("GlobalAveragePool", ["s1"], ["y"]),
    ]
    weights = {"w0": values(16, 3, 3, 3) / 5, "b0": values(16), "w1": values(24, 16, 3, 3) / 12}
    model = model_of(nodes, {"x": ["batch", 3, "height", "width"]}, weights)
    sizes = [[int(s) for s in RNG.integers((1, 4, 4), (5, 20, 20))] for _ in range(CASES)]
    return model, [{"x": values(batch, 3, height, width)} for batch, height, width in sizes]


def perceptron() -> tuple[onnx.ModelProto, list[dict[str, Any]]]:
    nodes = [
        helper.make_node("Gemm", ["x", "w0", "b0"], ["h"]),
        helper.make_node("Tanh", ["h"], ["t"]),
        helper.make_node("Gemm", ["t", "w1"], ["z"]),
        helper.make_node("Softmax", ["z"], ["y"]),
    ]
    model = model_of(nodes, {"x": ["batch", 32]}, {"w0": values(32, 64) / 6, "b0": values(64), "w1": values(64, 10)})
    return model, [{"x": values(int(RNG.integers(1, 65)), 32)} for _ in range(CASES)]


def recurrent() -> tuple[onnx.ModelProto, list[dict[str, Any]]]:
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=16)
    weights = {"w": values(1, 64, 8) / 3, "r": values(1, 64, 16) / 4}
    model = model_of([node], {"x": ["length", "batch", 8]}, weights)
    sizes = [[int(s) for s in RNG.integers((1, 1), (25, 7))] for _ in range(CASES)]
    return model, [{"x": values(length, batch, 8)} for length, batch in sizes]


def search() -> tuple[onnx.ModelProto, list[dict[str, Any]]]:
    sizes = [[int(s) for s in RNG.integers((1, 0), (300, 7))] for _ in range(CASES)]
    return parser.parse_model(SEARCH), [{"x": values(n), "rounds": np.array(rounds)} for n, rounds in sizes]


def subject(model: onnx.ModelProto, cases: list[dict[str, Any]]) -> Subject:
    """The model and its answers, which agree with those of ONNX Runtime."""
    loaded = intaglio.load(model, engine="native", threads=2)
    session: Any = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    answers: list[dict[str, Any]] = [loaded.run(case) for case in cases]
    for case, answer in zip(cases, answers, strict=True):
        for found, expected in zip(answer.values(), session.run(None, case), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    return Subject(loaded, cases, answers)


def phase(subjects: list[Subject], runs: int, seed: int) -> None:
    """As many checked runs, from new threads, in an order of their own each."""

    def work(number: int) -> None:
        order = random.Random(1000 * seed + number)
        for _ in range(runs // THREADS):
            order.choice(subjects).check(order.randrange(CASES), order.choice((1, 2)))

    with ThreadPoolExecutor(THREADS) as executor:
        list(executor.map(work, range(THREADS)))


def _wait_for_ends() -> None:
    """Wait until the count of threads falls no more: one that was joined may take a moment to leave the system."""
    count, still = len(os.listdir("/proc/self/task")), 0
    while still < 20:
        time.sleep(0.05)
        now = len(os.listdir("/proc/self/task"))
        count, still = now, still + 1 if now == count else 0


def holdings() -> dict[str, int]:
    """Resident bytes, open files and threads of this process, once the threads that ended are gone."""
    _wait_for_ends()
    lines = Path("/proc/self/status").read_text().splitlines()
    resident = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))
    return {
        "resident": resident,
        "files": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
    }


def soak(runs: int) -> dict[str, dict[str, int]]:
    """What is held after a tenth of the runs, as a warm-up, and after all of them."""
    subjects = [subject(*make()) for make in (small_cnn, perceptron, recurrent, search)]
    phase(subjects, runs // ROUNDS, 0)
    before = holdings()
    for number in range(1, ROUNDS):
        phase(subjects, runs // ROUNDS, number)
    return {"before": before, "after": holdings()}


@pytest.mark.parametrize("runs", [2_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_nothing_piles_up(runs: int) -> None:
    environment = {**os.environ, "ORT_DISABLE_TELEMETRY": "1"}
    done = subprocess.run(
        [sys.executable, __file__, str(runs)],
        capture_output=True,
        text=True,
        timeout=3600,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    before, after = found["before"], found["after"]
    assert after["resident"] - before["resident"] < 4 * MIB, found
    assert after["files"] == before["files"], found
    assert after["threads"] == before["threads"], found


if __name__ == "__main__":
    print(json.dumps(soak(int(sys.argv[1]))))
