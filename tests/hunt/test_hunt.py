"""A fixed part of the hunt: seeds that together reach the most of `kernels/`, see `covering`.

Here everything runs in the process of the test; `python -m tests.hunt` shows a crash with what it was doing.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate

from . import counted, generators, operators
from .bytes_level import in_bytes
from .expectation import difference
from .hunting import Record, variants_of
from .judging import Expected, Finding, Variant, Verdict, examine
from .known import distrusted
from .minimise import Minimiser
from .minimise import test_of as written_test
from .problem import Problem
from .seeds import LONG, QUICK
from .shaking import shaken
from .written import assert_agrees, written_problem


def pairs(seeds: dict[str, tuple[int, ...]]) -> list[tuple[str, int]]:
    return [(kind, seed) for kind, chosen in seeds.items() for seed in chosen]


def check(kind: str, seed: int) -> None:
    problem = generators.KINDS[kind](seed)
    verdict = examine(problem, variants_of(kind, seed))
    assert not problem.refused
    assert not verdict.findings, "\n".join(map(str, verdict.findings[:5]))


@pytest.mark.parametrize(("kind", "seed"), pairs(QUICK))
def test_nothing_is_wrong(kind: str, seed: int) -> None:
    check(kind, seed)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seed"), pairs(LONG))
def test_nothing_is_wrong_in_more(kind: str, seed: int) -> None:
    check(kind, seed)


@pytest.mark.parametrize("kind", sorted(generators.KINDS))
def test_a_seed_always_stands_for_the_same(kind: str) -> None:
    first, second = (generators.KINDS[kind](7) for _ in range(2))
    assert first.model.SerializeToString(deterministic=True) == second.model.SerializeToString(deterministic=True)
    for left, right in zip(first.feeds, second.feeds, strict=True):
        assert all(left[name].tobytes() == right[name].tobytes() for name in left)


@pytest.mark.parametrize("name", sorted(filter(operators.is_far, operators.ALL)))
def test_cases_for_far_ways_are_taken(name: str) -> None:
    draft = operators.Draft(26, is_loose=False, is_ranked=True)
    for seed in range(4):
        draft.add(name, (0, seed))
    assert not draft.refused
    assert len(draft.nodes) >= 3


def samples(values: np.ndarray, step: float) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [(values * (1 + random.uniform(-step, step, values.shape))).astype(values.dtype) for _ in range(5)]


def test_rounding_is_no_fault_and_more_than_rounding_is() -> None:
    plain = np.linspace(1, 2, 50, dtype=np.float32)
    around = samples(plain, 1e-7)
    assert not difference(plain * np.float32(1 + 2e-7), plain, around)
    assert difference(plain * np.float32(1 + 1e-4), plain, around)
    wrong = plain.copy()
    wrong[17] = 1e32
    assert "at [17]" in difference(wrong, plain, around)


@pytest.mark.parametrize("size", [1e-160, 1e160])
def test_rounding_is_no_fault_where_squares_vanish_or_overflow(size: float) -> None:
    plain = np.linspace(size, 2 * size, 50)
    around = samples(plain, 1e-15)
    assert not difference(plain * (1 + 4e-15), plain, around)
    assert difference(plain * (1 + 1e-12), plain, around)


def test_what_is_not_rounded_must_be_the_same() -> None:
    plain = np.array([1.5, np.nan, np.inf, 0.0], np.float32)
    same = [plain.copy() for _ in range(5)]
    assert not difference(np.array([1.5, np.nan, np.inf, -0.0], np.float32), plain, same)
    for place, value in ((0, 1.5000001), (1, 0.0), (2, -np.inf), (3, 1e-30)):
        wrong = plain.copy()
        wrong[place] = value
        assert difference(wrong, plain, same)


@pytest.mark.parametrize("step", [1e-7, 1e-5])
def test_what_is_right_by_one_shaken_run_is_right_by_all(step: float) -> None:
    random = np.random.default_rng(1)
    plain = random.standard_normal(400).astype(np.float32)
    around = samples(plain, step)
    verdicts = set()
    for far in np.geomspace(0.1, 1000, 40):
        ours = (plain * (1 + far * step * random.uniform(-1, 1, plain.shape))).astype(np.float32)
        early, late = difference(ours, plain, around[:1], 5), difference(ours, plain, around)
        assert early or not late
        verdicts.add((bool(early), bool(late)))
    assert verdicts >= {(False, False), (True, True)}


def test_faults_of_judges_may_be_those_of_one_attribute() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[1, 1, 4, 4] x, float[1, 4, 4, 2] p) => (y) { y = GridSample <padding_mode = "%s"> (x, p) }"""
    zeros, border = (onnx.parser.parse_model(text % mode) for mode in ("zeros", "border"))
    assert not distrusted("evaluator", zeros, set())
    assert distrusted("evaluator", border, set())
    assert not distrusted("runtime", border, set())


@pytest.mark.parametrize("antialias", [0, 1])
def test_interpolated_integers_may_be_a_step_off_at_whole_numbers_alone(antialias: int) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (uint8[1, 1, 3, 2] x) => (y) {
        s = Constant <value = int64[4] {1, 1, 3, 5}> ()
        y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners", antialias = %d> (x, , , s) }"""
    graph = read_model(onnx.parser.parse_model(text % antialias)).graph
    image = np.array([[10, 14], [10, 12], [10, 15]], np.uint8)[None, None]  # 10 11 12 13 14, ... 10.5 ..., 11.25 ...
    plain = evaluate(graph, [image])[0][0, 0].astype(int)
    moved = shaken(graph, [image], np.random.default_rng(0))[0][0, 0].astype(int)
    exact = np.array([np.linspace(first, last, 5) for first, last in image[0, 0].tolist()])
    is_near = exact % 1 == (0.5 if antialias else 0.0)
    assert ((moved != plain) == is_near).all()
    assert np.abs(moved - plain).max() == 1


@pytest.mark.parametrize("ours", [np.zeros((2, 3), np.float32), np.zeros(6, np.float64), np.zeros(5, np.float32)])
def test_types_and_shapes_are_compared(ours: np.ndarray) -> None:
    plain = np.zeros(6, np.float32)
    assert difference(ours, plain, [plain] * 5)


RESIDUAL = """
<ir_version: 10, opset_import: ["" : 21]>
hunt (float[4, 8] x, float[8, 8] w) => (h, y) {
    a = Abs (x)
    h = Relu (a)
    m = MatMul (h, w)
    n = Neg (m)
    y = Add (h, n)
}
"""
FEEDS = [{"x": np.arange(32, dtype=np.float32).reshape(4, 8) / 8}]
WEIGHTS = {"w": np.eye(8, dtype=np.float32)}


def test_a_value_that_a_product_reads_and_a_sum_too() -> None:
    for threads in (1, 2):
        assert_agrees(RESIDUAL, WEIGHTS, FEEDS, Variant(threads=threads))
    assert_agrees(RESIDUAL, WEIGHTS, FEEDS, None)


BLOCKS = """
<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
agraph (float[M, 40] x) => (y) {
    y = com.microsoft.MatMulNBits <K = 40, N = 3, bits = 8, block_size = 32, accuracy_level = 4> (x, w, s)
}
"""


def test_bytes_are_allowed_by_their_formula_alone() -> None:
    random = np.random.default_rng(1)
    packed = random.integers(0, 256, (3, 2, 32)).astype(np.uint8)
    constants = {"w": packed, "s": np.full(6, 0.25, np.float32)}
    x = random.standard_normal((4, 40)).astype(np.float32)
    problem = written_problem(BLOCKS, constants, [{"x": x}])
    assert not examine(problem, [Variant(), Variant(exact=True), Variant(engine="reference")]).findings
    rounded = in_bytes(problem.model)
    assert rounded is not None
    wanted = Expected(read_model(problem.model).graph, {"x": x}, read_model(rounded).graph)
    assert wanted.rounded is not None
    in_floats, allowed = wanted.plain["y"], wanted.rounded.plain["y"]
    assert not wanted.difference("y", in_floats)
    assert not wanted.difference("y", allowed)
    assert wanted.difference("y", allowed, is_exact=True)
    assert wanted.difference("y", (in_floats + allowed) / 2)


class Imagined(Minimiser):
    """A fault that every model has in which a product reads what Relu gives."""

    def is_still_wrong(self, problem: Problem) -> bool:
        made = {name: node.op_type for node in problem.model.graph.node for name in node.output}
        products = [node for node in problem.model.graph.node if node.op_type == "MatMul"]
        return any(made.get(node.input[0]) == "Relu" for node in products)


def test_a_finding_becomes_a_few_nodes_and_a_test() -> None:
    problem = written_problem(RESIDUAL, WEIGHTS, FEEDS)
    small = Imagined(problem, Variant(), Finding("native", "y", 0, "wrong")).run()
    assert [node.op_type for node in small.model.graph.node] == ["Relu", "MatMul"]
    namespace: dict[str, Any] = {}
    exec(written_test(small, Variant(), "imagined fault"), namespace)
    namespace["test_imagined_fault"]()


CRASH = """
import os, signal
from tests.hunt.children import run_in_child
def work(tell):
    tell("thinking")
    os.kill(os.getpid(), signal.SIGSEGV)
outcome = run_in_child(work, 60)
print(outcome.phase, outcome.fault)
"""


def test_a_crash_is_a_finding() -> None:
    told = subprocess.run([sys.executable, "-c", CRASH], capture_output=True, text=True, check=True, timeout=120)
    assert told.stdout.split() == ["thinking", "the", "process", "ended", "by", "SIGSEGV"]


def test_a_hunt_keeps_what_it_did(tmp_path: Path) -> None:
    """A seed that ends as it should and one whose process ends; in a process of its own, as it forks."""
    script = f"""
from pathlib import Path
from tests.hunt import hunting
from tests.hunt.children import Outcome
from tests.hunt.judging import Verdict
tally, record = hunting.Tally(), hunting.Record(Path({str(tmp_path)!r}))
watch = hunting.Watch(lambda phase: None)
watch.tell("generating")
watch.tell("")
hunting._count(tally, "chains", 3, Outcome({{"cases": 24, "verdict": Verdict(), "seconds": watch.seconds}}), record)
hunting._count(tally, "chains", 4, Outcome(None, "the process ended by SIGSEGV", "native"), record)
print(tally.seeds, tally.cases, tally.findings, sorted(record.done("chains")))
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert told.stdout.splitlines()[-1] == "2 25 1 [3, 4]"


def test_counts_add_up_over_runs(tmp_path: Path) -> None:
    record, file = tmp_path / "record", tmp_path / "counted.json"
    record.mkdir()
    (record / "chains.done").write_text("3 24 1.5 0\n4 24 1.5 2\n9 6 0.5 0\n")
    for _ in range(2):  # what was counted once is not counted again
        counts = counted.add(record, file)
        assert counts == {"chains": {"cases": 54, "findings": 2, "seeds": [[3, 4], [9, 9]]}}
    (record / "chains.done").write_text("5 10 1.5 0\n")
    assert counted.add(record, file)["chains"] == {"cases": 64, "findings": 2, "seeds": [[3, 5], [9, 9]]}


def test_cases_are_counted_by_engine(tmp_path: Path) -> None:
    verdict = Verdict(judges=Counter({"eager": 20, "native engine": 6, "reference engine": 14}))
    Record(tmp_path).keep("torch", 3, 20, 1.5, verdict)
    with (tmp_path / "torch.done").open("a") as file:
        file.write("4 20 1.5 1 native=7 reference=13\n")
    counts = counted.add(tmp_path, tmp_path / "counted.json")["torch"]
    assert (counts["cases"], counts["findings"]) == (40, 1)
    assert counts["engines"] == {"native": 13, "reference": 27}
