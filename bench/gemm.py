"""`python -m bench gemm`: products with constant weights at the shapes of transformers, against the machine's peak.

Each product is a model of one MatMul, run by Intaglio and by ONNX Runtime in processes of their own, in turns with a
third one that only multiplies and adds in registers: the peak is what the machine gave at that moment. Every round
starts new processes. Times are CPU time on one thread, which other processes do not stretch, and the clock's on more.
A shared machine is slower by a third for seconds at a time in all that reads memory, caches included, and not in what
stays in registers; so beside the medians stands what the best runs reach.
"""

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bench import report
from bench.machine import Peak
from bench.peers import ENGINES
from bench.production import machine_facts, markdown_table
from bench.race import OURS, PAUSE, Worker, relative_error
from bench.worker import Job

THEIRS = "onnxruntime"
ROWS = (1, 16, 128, 512)
WEIGHTS = ((768, 768), (768, 2304), (768, 3072), (3072, 768), (1024, 4096), (4096, 1024))
TOLERANCE = 1e-5  # of the largest value of an exact product
GOAL = 0.75  # of the peak, from GOAL_ROWS rows on
GOAL_ROWS = 128
HEADER = [
    "M x K x N",
    "threads",
    "us",
    "GFLOP/s",
    "peak",
    "of peak",
    "at best",
    "weights GB/s",
    "ORT us",
    "ORT / ours",
    "error",
]


@dataclass(frozen=True)
class Shape:
    """A product of M x K by K x N."""

    m: int
    k: int
    n: int

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.m * self.k * self.n

    def __str__(self) -> str:
        return f"{self.m} x {self.k} x {self.n}"


@dataclass
class Result:
    """Seconds of one product by either engine, our error, and operations a second at most."""

    shape: Shape
    threads: int
    ours: float
    theirs: float
    error: float
    peak: float
    best_share: float
    """The part of the peak that our best run reaches, measured by the peak's best run."""

    @property
    def share(self) -> float:
        """The part of the peak that we reach."""
        return self.shape.flops / self.ours / self.peak

    @property
    def is_right(self) -> bool:
        """Whether the answer is that of exact arithmetic."""
        return self.error <= TOLERANCE

    @property
    def is_below_goal(self) -> bool:
        """Whether this is a product of many rows that is too slow."""
        return self.shape.m >= GOAL_ROWS and self.share < GOAL

    def cells(self) -> list[str]:
        """One line of the table."""
        rate, bytes = self.shape.flops / self.ours / 1e9, 4 * self.shape.k * self.shape.n
        verdict = "" if self.is_right else " wrong"
        speed = [f"{rate:.1f}", f"{self.peak / 1e9:.0f}", f"{self.share:.0%}", f"{self.best_share:.0%}",
                 f"{bytes / self.ours / 1e9:.1f}"]  # fmt: skip
        return [str(self.shape), str(self.threads), f"{self.ours * 1e6:.0f}", *speed, f"{self.theirs * 1e6:.0f}",
                f"{self.theirs / self.ours:.2f}", f"{self.error:.0e}{verdict}"]  # fmt: skip


def product_model(weight: np.ndarray) -> onnx.ModelProto:
    """y = x times a constant, for any number of rows."""
    k, n = weight.shape
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["m", size]) for name, size in (("x", k), ("y", n)))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "product", [x], [y], [numpy_helper.from_array(weight, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def measure(shape: Shape, threads: int, options: argparse.Namespace, folder: Path) -> Result:
    """Both engines on one product, in turns."""
    random = np.random.default_rng(7)
    x = random.standard_normal((shape.m, shape.k), dtype=np.float32)
    weight = random.standard_normal((shape.k, shape.n), dtype=np.float32)
    path = folder / "product.onnx"
    onnx.save(product_model(weight), path)
    exact = (x.astype(np.float64) @ weight.astype(np.float64)).astype(np.float32)
    clock = "process_time" if threads == 1 else "perf_counter"
    kinds = [ENGINES[OURS], ENGINES[THEIRS], Peak]
    times: list[list[float]] = [[] for _ in kinds]
    errors: list[float] = []
    for _ in range(options.rounds):
        with contextlib.ExitStack() as stack:
            jobs = [Job(kind, path, threads, {"x": x}, clock) for kind in kinds]
            workers = [stack.enter_context(Worker(job, folder / "cache")) for job in jobs]
            errors.append(relative_error(workers[0].ready().outputs, [exact]))
            for worker in workers[1:]:
                worker.ready()
            _take_turns(workers, times, options)
    ours, theirs, peak = map(statistics.median, times)
    operations = Peak.operations(threads)
    best_share = shape.flops / min(times[0]) / (operations / min(times[2]))
    return Result(shape, threads, ours, theirs, max(errors), operations / peak, best_share)


def _take_turns(workers: Sequence[Worker], times: Sequence[list[float]], options: argparse.Namespace) -> None:
    """Add the times of single runs of each worker."""
    for _ in range(options.turns):
        for worker, found in zip(workers, times, strict=True):
            time.sleep(PAUSE)
            found += worker.ask(options.seconds)  # pyright: ignore[reportOperatorIssue]


def measure_all(shapes: Sequence[Shape], options: argparse.Namespace) -> list[Result]:
    """All products with each number of threads."""
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="intaglio-gemm-") as folder:
        for threads in options.threads:
            for shape in shapes:
                print(f"{shape}, {threads} threads", file=sys.stderr, flush=True)
                results.append(measure(shape, threads, options, Path(folder)))
    return results


def as_json(results: Sequence[Result], facts: dict[str, object]) -> dict[str, Any]:
    """The results as plain data, in seconds and operations a second."""
    rows = [{"m": r.shape.m, "k": r.shape.k, "n": r.shape.n, "threads": r.threads, "ours": r.ours, "theirs": r.theirs,
             "error": r.error, "peak": r.peak, "share": r.share, "best_share": r.best_share, "right": r.is_right}
            for r in results]  # fmt: skip
    return {"machine": facts, "versions": {name: ENGINES[name].version() for name in (OURS, THEIRS)}, "products": rows}


def text_of(results: Sequence[Result], facts: dict[str, object]) -> str:
    """The report as Markdown: conditions, table, and which products miss the goal."""
    lines = [", ".join(f"{ENGINES[name].title} {ENGINES[name].version()}" for name in (OURS, THEIRS)),
             ", ".join(f"{name}: {value}" for name, value in facts.items())]  # fmt: skip
    slow = [f"{r.shape} on {r.threads}: {r.share:.0%}, at best {r.best_share:.0%}" for r in results if r.is_below_goal]
    goal = f"Below {GOAL:.0%} of the peak with at least {GOAL_ROWS} rows: {'; '.join(slow) or 'none'}"
    table = markdown_table([HEADER, *(result.cells() for result in results)])
    return "\n\n".join(["\n".join(f"- {line}" for line in lines), table, goal]) + "\n"


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    command = argparse.ArgumentParser(prog="python -m bench gemm", description=__doc__)
    command.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    command.add_argument("--rows", type=int, nargs="+", default=list(ROWS), help="values of M")
    command.add_argument("--weights", nargs="+", default=[f"{k}x{n}" for k, n in WEIGHTS], metavar="KxN")
    command.add_argument("--rounds", type=int, default=5, help="how often new processes are started")
    command.add_argument("--turns", type=int, default=3, help="turns of each process")
    command.add_argument("--seconds", type=float, default=0.1, help="length of one turn")
    command.add_argument("--json", type=Path, metavar="FILE", help="also write the results as JSON")
    return command


def main(arguments: list[str]) -> int:
    """Measure. 0: done; 1: an answer of Intaglio was wrong; 2: wrong usage."""
    options = parser().parse_args(arguments)
    weights = [tuple(map(int, text.split("x"))) for text in options.weights]
    shapes = [Shape(m, k, n) for k, n in weights for m in options.rows]
    facts = machine_facts()
    results = measure_all(shapes, options)
    print(text_of(results, facts), end="")
    if options.json is not None:
        report.write(options.json, json.dumps(as_json(results, facts), indent=1) + "\n")
    return 0 if all(result.is_right for result in results) else 1
