"""A plan of memory and what the C runtime is asked for: scratch of kernels, and tensors whose sizes depend on data."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from tests.present import tensor

import intaglio
from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.kernels.memory_demand import LEAST_SHARED_JOB
from intaglio.targets.c.compiler import RUNTIME_FOLDER
from intaglio.targets.c.native import run_memory

HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'
MIB = 2**20
F = np.float32


def model(text: str, **weights: np.ndarray[Any, Any]) -> onnx.ModelProto:
    found = parser.parse_model(HEADER + text)
    found.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return found


def winograd() -> onnx.ModelProto:
    text = "g (float[1, 64, h, w] x) => (float[1, 64, h, w] y) { y = Conv<pads = [1, 1, 1, 1]>(x, k) }"
    return model(text, k=np.full((64, 64, 3, 3), 1e-2, F))


def attention() -> onnx.ModelProto:
    text = """g (float[1, 2, n, 32] q, float[1, 2, n, 32] k, float[1, 2, n, 32] v) => (float[1, 2, n, 32] y) {
      t = Transpose<perm = [0, 1, 3, 2]>(k) s = MatMul(q, t) p = Softmax(s) y = MatMul(p, v) }"""
    return model(text)


def lstm() -> onnx.ModelProto:
    text = """g (float[t, b, 32] x) => (float[t, 2, b, 64] y) {
      y = LSTM<hidden_size = 64, direction = "bidirectional">(x, w, r) }"""
    return model(text, w=np.full((2, 256, 32), 1e-2, F), r=np.full((2, 256, 64), 1e-2, F))


def fourier() -> onnx.ModelProto:
    return model("g (float[b, n, 1] x) => (float[b, n, 2] y) { y = DFT(x, , a) }", a=np.array(1))


def non_zero() -> onnx.ModelProto:
    return model("g (float[n, m] x) => (int64[2, k] y) { e = Exp(x) y = NonZero(e) }")


def light(name: str) -> onnx.ModelProto:
    return onnx.load(Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"light_{name}.onnx")


MODELS: dict[str, tuple[Callable[[], onnx.ModelProto], dict[str, int]]] = {
    "winograd": (winograd, {"h": 60, "w": 60}),
    "attention": (attention, {"n": 1500}),
    "lstm": (lstm, {"t": 40, "b": 64}),
    "fourier": (fourier, {"b": 6, "n": 100_000}),
    "non-zero": (non_zero, {"n": 700, "m": 900}),
    "squeezenet": (lambda: light("squeezenet"), {}),
    "shufflenet": (lambda: light("shufflenet"), {}),
}


def feeds_of(loaded: intaglio.Model, sizes: dict[str, int]) -> dict[str, np.ndarray[Any, Any]]:
    shapes = {item.name: [sizes.get(str(size), size) for size in tensor(item.type).dims] for item in loaded.inputs}
    return {name: np.full(shape, 0.5, F) for name, shape in shapes.items()}


def used(outputs: dict[str, Any]) -> int:
    """What the last run asked the runtime for, and what its outputs hold."""
    return sum(run_memory()) + sum(array.nbytes for array in outputs.values())


RUN = """
import json, sys
sys.path.insert(0, sys.argv[1])
import test_memory_plan as here
print(json.dumps(here.measured(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
"""


def measured(name: str, threads: int, runs: int) -> list[Any]:
    """The plan of a model, the fullest of several runs, and its scratch memory."""
    make, sizes = MODELS[name]
    loaded = intaglio.load(make(), engine="native", threads=threads)
    plan, feeds = loaded.memory_plan(sizes), feeds_of(loaded, sizes)
    fullest, scratch = 0, 0
    for _ in range(runs):
        fullest = max(fullest, used(loaded.run(feeds)) + plan.constants)
        scratch = max(scratch, run_memory().scratch)
        if scratch == plan.scratch:
            break
    return [plan.to_dict(), fullest, scratch]


def in_a_process(name: str, threads: int, runs: int) -> list[Any]:
    """What `measured` gives in a process whose threads hold no scratch memory yet."""
    environment = {key: value for key, value in os.environ.items() if key != "INTAGLIO_POISON"}
    command = [sys.executable, "-c", RUN, str(Path(__file__).parent), name, str(threads), str(runs)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", MODELS)
def test_a_plan_for_one_thread_is_exact(name: str) -> None:
    plan, held, scratch = in_a_process(name, threads=1, runs=1)
    assert plan["notes"] == []
    assert scratch == plan["scratch"]
    assert 0 <= held - plan["most"] < 4096 * len(plan["arenas"])  # arenas are whole pages


@pytest.mark.parametrize("name", MODELS)
def test_a_plan_for_two_threads_is_what_a_run_asks_for(name: str) -> None:
    """A worker may come late to a short run, so the fullest of several runs counts."""
    plan, held, scratch = in_a_process(name, threads=2, runs=100)
    assert scratch <= plan["scratch"]
    assert abs(held / plan["most"] - 1) < 0.1, (held, scratch, plan)


def test_the_least_job_that_threads_share_is_that_of_the_runtime() -> None:
    found = re.search(r"LEAST_SHARED_JOB = ([\d *]+),", (RUNTIME_FOLDER / "pool.c").read_text())
    assert found is not None
    factors = [int(factor) for factor in found.group(1).split("*")]
    assert int(np.prod(factors)) == LEAST_SHARED_JOB


def late(text: str, **sizes: int) -> dict[str, tuple[str, str | None]]:
    """The tensors whose sizes depend on data: their bytes, and what these are at most."""
    plan = intaglio.load(model(text), engine="native").memory_plan(sizes)
    return {t.name: (str(t.bytes), None if t.most is None else str(t.most)) for t in plan.tensors}


def test_what_is_found_in_a_tensor_is_bounded_by_it() -> None:
    text = "g (float[n, m] x) => (int64[2, k] y, float[k] z) { y = NonZero(x) t = Transpose(y) z = GatherND(x, t) }"
    found = late(text)
    assert found["y"] == ("16*'y.0'", "16*m*n")
    assert found["z"] == ("4*'y.0'", "4*m*n")
    assert late(text, n=3, m=5)["z"] == ("4*'y.0'", "60")


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("g (float[n, m] x, bool[c] f) => (float[k, m] y) { y = Compress<axis = 0>(x, f) }", "4*c*m"),
        ("g (float[n] x) => (float[k] y) { y = Unique(x) }", "4*n"),
        ("g (float[n] x, int64[1] k) => (float[a] y, int64[a] i) { y, i = TopK(x, k) }", "4*n"),
        ("g (float[b, n, 4] p, float[b, c, n] s) => (int64[k, 3] y) { m = Constant<value_int = 5>()"
         " y = NonMaxSuppression(p, s, m) }", "24*b*c*min(5, n)"),
        ("g (float[n] x, int64[1] a, int64[1] e) => (float[k] y) { s = Slice(x, a, e) y = Exp(s) }", "4*n"),
        ("g (float[n] x, int64[2] s) => (float[a, b] y) { r = Reshape(x, s) y = Exp(r) }", "4*n"),
        ("g (float e) => (float[k] y) { z = Constant<value_float = 0.0>() o = Constant<value_float = 1.0>()"
         " y = Range(z, e, o) }", None),
        ("g (float[n] x, int64[1] t) => (float[k] y) { y = Tile(x, t) }", None),
    ],
    ids=["Compress", "Unique", "TopK", "NonMaxSuppression", "Slice", "Reshape", "Range", "Tile"],
)  # fmt: skip
def test_bounds(text: str, most: str | None) -> None:
    assert late(text)["y"][1] == most


def test_branches_and_rounds() -> None:
    branches = """g (float[n] x, bool c) => (float[k] y) {
      y = If (c) <then_branch = a () => (float[p] t) { t = Mul(x, x) },
                  else_branch = b () => (float[q] e) { e = Concat<axis = 0>(x, x) }> }"""
    assert late(branches)["y"][1] == "8*n"
    rounds = """g (float[n] x, int64 m, float h) => (float[n] y, float[k, n] s) {
      y, s = Loop (m, , x) <body = a (int64 i, bool c, float[n] v) => (bool c2, float[n] w, float[n] o) {
        %s w = Add(v, x) o = Neg(w) }> }"""
    keeps, asks = "c2 = Identity(c)", "r = ReduceSum<keepdims = 0>(v) c2 = Less(r, h)"
    assert late(rounds % keeps)["s"][1] is None
    constant = rounds.replace("      y, s", "m = Constant<value_int = 7>() y, s").replace("int64 m, ", "")
    assert late(constant % asks)["s"][1] == "28*n"
    grows = """g (float[n] x, int64 m) => (float[k] y) {
      y = Loop (m, , x) <body = a (int64 i, bool c, float[p] v) => (bool c2, float[q] w) {
        c2 = Identity(c) w = Concat<axis = 0>(v, x) }> }"""
    assert None in [most for _, most in late(grows).values()]


def test_sizes_that_data_tells_can_be_given() -> None:
    loaded = intaglio.load(non_zero(), engine="native", threads=1)
    x = np.full((300, 1000), -1e9, F)
    x[:10] = 1
    plan = loaded.memory_plan({"n": 300, "m": 1000, "y.0": 10_000})
    assert plan.late == 160_000
    assert plan.total == plan.most
    assert loaded(x).nbytes == 160_000
    text = str(loaded.memory_plan(n=300, m=1000))
    assert "sizes found in data    16*'y.0' bytes" in text
    assert "output y: 16*'y.0' bytes, at most 4,800,000 bytes (4.6 MiB)" in text
    data = json.loads(loaded.memory_plan().to_json())
    assert data["tensors"] == [{"name": "y", "bytes": "16*'y.0'", "most": "16*m*n", "is_output": True}]
    explanation = loaded.explain()
    assert "allocated in the run: output y: 16*'y.0' bytes, at most 16*m*n bytes" in str(explanation)
    assert explanation.to_dict()["memory"]["tensors"] == data["tensors"]


def test_sizes_that_the_first_probe_does_not_fit() -> None:
    """A size divided by one that is 0 for small inputs: the plan of the open sizes is told all the same."""
    graph = Graph("divided")
    x = graph.add_input("x", TensorType(FLOAT32, (symbol("n"), 4)))
    b = Builder(graph)
    length = b.Div(b.Shape(x, end=1), [50])
    y = b.Reshape(b.Slice(x, [0], b.Mul(length, [50]), [0]), b.Concat(length, [-1], axis=0))
    graph.set_outputs([b.Relu(b.Exp(y))])
    model = intaglio.load(graph)
    assert "n" in str(model.memory_plan())
    assert str(model.explain())
    assert model(np.ones((100, 4), np.float32)).shape == (2, 200)
