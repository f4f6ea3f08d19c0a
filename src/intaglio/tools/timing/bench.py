"""`bench`: latency, throughput and memory of a model, in several engines, at several batches and numbers of threads."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from intaglio.errors import InputError
from intaglio.ir.dim import symbols
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.onnx.reader import read_model
from intaglio.processor import usable_cores
from intaglio.runtime.model.random_inputs import make_feeds
from intaglio.tools.comparing.measures import compare_values
from intaglio.tools.comparing.tolerances import Tolerances
from intaglio.tools.timing.engines import ENGINES, PEERS, find_engine
from intaglio.tools.timing.worker import Job, Ready

PAUSE = 0.05
"""Seconds between two engines, in which the threads of the first stop spinning."""

Progress = Callable[[str, int, int], None]


@dataclass
class Row:
    """One engine at one batch on so many threads. Times are in seconds; `failure` says why there are none."""

    engine: str
    title: str
    version: str
    batch: int | None
    threads: int
    failure: str = ""
    runs: int = 0
    median: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    least: float = 0.0
    throughput: float = 0.0
    """Items of the batch, or runs where no batch is known, in a second."""
    load_seconds: float = 0.0
    memory: int = 0
    """The most bytes that the process held."""
    difference: str = ""
    """How its outputs differ from those of the first engine; empty where they agree."""

    def fill(self, times: Sequence[float]) -> None:
        """Take in the times of all runs."""
        self.runs = len(times)
        self.median, self.p90, self.p99 = (float(value) for value in np.percentile(times, (50, 90, 99)))
        self.least = float(min(times))
        self.throughput = (self.batch or 1) / self.median if self.median else 0.0


@dataclass
class Timing:
    """What was measured. `is_agreed` where all engines gave the same outputs, within tolerances."""

    rows: list[Row] = field(default_factory=list[Row])
    batch_symbol: str = ""

    @property
    def is_agreed(self) -> bool:
        """Whether no engine's outputs differ from those of the first one."""
        return not any(row.difference for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """The measurements as plain data."""
        return {
            "batch_symbol": self.batch_symbol,
            "is_agreed": self.is_agreed,
            "rows": [asdict(row) for row in self.rows],
        }


def bench(
    model: str | os.PathLike[str] | bytes | ModelProto,
    *,
    against: Sequence[str] | None = None,
    batches: Sequence[int] = (),
    threads: Sequence[int] = (),
    feeds: Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    rounds: int = 5,
    seconds: float = 0.3,
    tolerances: Tolerances | None = None,
    progress: Progress | None = None,
) -> Timing:
    """Time a model with Intaglio and with other engines: `ort`, `openvino`, `reference`; without `against` all others
    that are installed.

    Each engine runs in a process of its own, and they take turns: `rounds` times `seconds` each. `batches` are sizes of
    the first axis of the inputs, which must have a name there; `threads` are numbers of threads. Outputs are compared
    with those of Intaglio. Raises PeerError where an engine that was asked for is not installed.
    """
    names = ["intaglio", *([each for each in PEERS if ENGINES[each].is_installed] if against is None else against)]
    engines = list(dict.fromkeys({"onnxruntime": "ort"}.get(name, name) for name in names))
    for name in engines:
        find_engine(name)
    with contextlib.ExitStack() as stack:
        path = _as_path(model, stack)
        graph = read_model(path).graph
        timing = Timing(batch_symbol=batch_symbol(graph))
        cases = [(batch, count) for batch in batches or (None,) for count in threads or (usable_cores(),)]
        for batch, count in cases:
            inputs = _inputs(graph, batch, timing.batch_symbol, feeds or {}, dims or {}, seed)
            known = batch if batch is not None else _first_size(graph, inputs)
            rows = [Row(name, ENGINES[name].title, ENGINES[name].version, known, count) for name in engines]
            _race(rows, path, inputs, rounds, seconds, tolerances or Tolerances(), progress)
            timing.rows += rows
    return timing


def _as_path(model: Any, stack: contextlib.ExitStack) -> str:
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="intaglio-bench-"))
    path = Path(folder) / "model.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    return str(path)


def batch_symbol(graph: Graph) -> str:
    """The name of the first axis of the first input that has one there; empty where none has."""
    for value in graph.inputs:
        shape = value.type.shape if isinstance(value.type, TensorType) else None
        names = list(symbols(shape[0])) if shape else []
        if names:
            return names[0]
    return ""


def _inputs(
    graph: Graph, batch: int | None, symbol: str, given: Mapping[str, Any], dims: Mapping[str, int], seed: int
) -> dict[str, Any]:
    if batch is not None and not symbol:
        raise InputError("the first axis of no input has a name, so the model has one batch; `make-dynamic` opens it")
    sizes = {**dims, **({} if batch is None else {symbol: batch})}
    return {**given, **make_feeds(graph, given, sizes, seed)}


def _first_size(graph: Graph, feeds: Mapping[str, Any]) -> int | None:
    """The size of the first axis of the first input, where that is an array with axes."""
    first = feeds.get(graph.inputs[0].name) if graph.inputs else None
    return first.shape[0] if isinstance(first, np.ndarray) and first.ndim > 1 else None


def _race(
    rows: list[Row], path: str, feeds: dict[str, Any], rounds: int, seconds: float, tolerances: Tolerances, tell: Any
) -> None:
    """Fill rows with what their engines did, in turns."""
    workers: list[tuple[Row, _Worker, list[float]]] = []
    first: list[Any] | None = None
    try:
        for row in rows:
            worker = _Worker(Job(row.engine, path, row.threads, feeds))
            ready: Ready = worker.first()
            row.failure, row.load_seconds = ready.failure, ready.load_seconds
            if ready.failure:
                worker.end()
                continue
            workers.append((row, worker, []))
            first = ready.outputs if first is None else first
            row.difference = _difference(first, ready.outputs, tolerances)
        for number in range(rounds):
            for row, worker, times in workers:
                if tell is not None:
                    tell(f"{row.threads} threads, batch {row.batch}", number, rounds)
                time.sleep(PAUSE)
                times += worker.ask(row, seconds) or []
        for row, worker, times in workers:
            if times and not row.failure:
                row.fill(times)
                row.memory = worker.ask(row, None) or 0
    finally:
        for _, worker, _ in workers:
            worker.end()


def _difference(expected: Sequence[Any], found: Sequence[Any], tolerances: Tolerances) -> str:
    if len(expected) != len(found):
        return f"{len(found)} outputs where {len(expected)} are expected"
    differences = [
        compare_values(f"output {place}", right, left, tolerances)
        for place, (right, left) in enumerate(zip(expected, found, strict=True))
    ]
    return "; ".join(f"{each.name}: {each.text}" for each in differences if not each.is_equal)


class _Worker:
    """A running worker."""

    def __init__(self, job: Job) -> None:
        command = [sys.executable, "-m", "intaglio.tools.timing.worker"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._send(job)

    def first(self) -> Ready:
        """The first answer."""
        found = self._receive()
        return found if isinstance(found, Ready) else Ready([], failure=self._death())

    def ask(self, row: Row, question: float | None) -> Any:
        """The answer to a question; None where the process has ended, which the row then says."""
        if row.failure:
            return None
        self._send(question)
        found = self._receive()
        if found is None:
            row.failure = self._death()
        return found

    def _death(self) -> str:
        code = self.process.wait()
        return f"the process ended with {f'signal {-code}' if code < 0 else f'status {code}'}"

    def _send(self, message: Any) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # the answer says that the process has ended
            pickle.dump(message, self.process.stdin)
            self.process.stdin.flush()

    def _receive(self) -> Any:
        assert self.process.stdout is not None
        try:
            return pickle.load(self.process.stdout)
        except (EOFError, pickle.UnpicklingError):
            return None

    def end(self) -> None:
        """End the process."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self.process.kill()
        self.process.wait()
