"""The race: every engine on every model, in turns, judged by the answers of ONNX Runtime without optimisations."""

import compileall
import contextlib
import importlib.util
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any

import numpy as np

from bench.models import BenchModel, Unavailable
from bench.peers import ENGINES, Earlier, Judge
from bench.worker import Failed, Job

OURS = "intaglio"
BEFORE = "earlier"
KINDS = {**ENGINES, BEFORE: Earlier}
ROOT = Path(__file__).parent.parent
PAUSE = 0.05  # seconds between two engines, in which the threads of the first stop spinning
PATIENCE = 600  # seconds until a silent worker is given up

Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """How the race is run."""

    engines: tuple[str, ...] = tuple(ENGINES)
    threads: int = 2
    rounds: int = 10
    seconds: float = 0.3
    batch: int = 1


@dataclass
class Cell:
    """One engine on one model. `failure` says why there are no times."""

    failure: str = ""
    rounds: list[list[float]] = field(default_factory=list)
    cold: float = math.nan
    warm: float = math.nan
    memory: int = 0
    error: float = math.nan

    @property
    def median(self) -> float:
        """The median time of one run in seconds, or NaN."""
        times = [seconds for times in self.rounds for seconds in times]
        return statistics.median(times) if times else math.nan

    @property
    def noise(self) -> float:
        """Half the distance between the quartiles of the rounds' medians, relative to their median."""
        medians = [statistics.median(times) for times in self.rounds]
        if len(medians) < 2:
            return math.nan
        low, middle, high = statistics.quantiles(medians, n=4, method="inclusive")
        return (high - low) / 2 / middle


@dataclass
class Row:
    """All engines on one model."""

    model: BenchModel
    failure: str = ""
    cells: dict[str, Cell] = field(default_factory=dict)

    def is_right(self, engine: str) -> bool:
        """Whether the engine's answer is within tolerance; an answer that could not be judged counts as right."""
        return not self.cells[engine].error > self.model.tolerance

    def ratio(self, peer: str) -> float:
        """The peer's time over ours: above 1, we are faster. NaN unless both answered, both rightly."""
        if not {OURS, peer} <= self.cells.keys() or not (self.is_right(OURS) and self.is_right(peer)):
            return math.nan
        return self.cells[peer].median / self.cells[OURS].median


class WorkerDied(RuntimeError):
    """The process of an engine ended, or fell silent, without an answer."""


class Worker:
    """A running `bench.worker`, or another module that speaks like it, ended when the block is left."""

    def __init__(self, job: Job, cache: Path | None = None, module: str = "bench.worker") -> None:
        self.connection, theirs = Pipe()
        environment = {**os.environ, "ORT_DISABLE_TELEMETRY": "1"}
        if cache is not None:
            environment["INTAGLIO_CACHE"] = str(cache)
        command = [sys.executable, "-m", module, str(theirs.fileno())]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, pass_fds=[theirs.fileno()], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        theirs.close()
        self._send(job)

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()
        self.process.kill()
        self.process.wait()

    def answer(self) -> Any:
        """The worker's next message."""
        try:
            if self.connection.poll(PATIENCE):
                return self.connection.recv()
        except (EOFError, ConnectionError):
            code = self.process.wait()
            raise WorkerDied(f"the process ended with {f'signal {-code}' if code < 0 else f'status {code}'}") from None
        raise WorkerDied(f"no answer in {PATIENCE} s")

    def ask(self, question: object) -> Any:
        """Send a question and wait for its answer."""
        self._send(question)
        return self.answer()

    def _send(self, message: object) -> None:
        with contextlib.suppress(ConnectionError):  # `answer` then finds it closed and says how the process ended
            self.connection.send(message)

    def ready(self) -> Any:
        """The first answer; raises WorkerDied with the engine's reason if the model was refused."""
        answer = self.answer()
        if isinstance(answer, Failed):
            raise WorkerDied(answer.reason)
        return answer


def write_bytecode() -> None:
    """Compile our modules to bytecode, as an installation does, so that no process pays for it when it starts."""
    found = importlib.util.find_spec(OURS)
    for folder in (found and found.submodule_search_locations) or ():
        compileall.compile_dir(folder, quiet=2)


def race(models: Iterable[BenchModel], settings: Settings, say: Say) -> list[Row]:
    """Race all models, one after the other."""
    write_bytecode()
    return [race_model(model, settings, say) for model in models]


def race_model(model: BenchModel, settings: Settings, say: Say) -> Row:
    """Race the engines on one model."""
    row = Row(model)
    if model.largest_batch is not None and settings.batch > model.largest_batch:
        row.failure = f"takes no batch above {model.largest_batch}"
        return row
    say(f"{model.name}: preparing the model")
    try:
        path = model.path()
    except Unavailable as error:
        row.failure = str(error)
        return row
    feeds = model.feeds(settings.batch)
    row.cells = {engine: Cell() for engine in settings.engines}
    with tempfile.TemporaryDirectory(prefix="intaglio-bench-") as cache:
        jobs = {engine: Job(KINDS[engine], path, settings.threads, feeds) for engine in settings.engines}
        expected = _expected(Job(Judge, path, settings.threads, feeds), Path(cache), say)
        _race_workers(row, jobs, expected, Path(cache), settings, say)
    return row


def _expected(job: Job, cache: Path, say: Say) -> list[np.ndarray] | None:
    """The judge's answer, or None if there is no judge for this model."""
    try:
        with Worker(job, cache) as worker:
            return worker.ready().outputs
    except WorkerDied as error:
        say(f"{job.path.stem}: the answers cannot be judged: {error}")
        return None


def _race_workers(
    row: Row, jobs: dict[str, Job], expected: list[np.ndarray] | None, cache: Path, settings: Settings, say: Say
) -> None:
    workers: dict[str, Worker] = {}
    try:
        for engine, job in jobs.items():
            say(f"{row.model.name}: loading into {job.kind.title}")
            outputs = _start(engine, row.cells[engine], job, cache / engine, workers)
            if outputs is not None and expected is not None:
                row.cells[engine].error = relative_error(outputs, expected)
        for number in range(settings.rounds):
            say(f"{row.model.name}: round {number + 1} of {settings.rounds}")
            _ask_all(row, workers, settings.seconds, lambda cell, times: cell.rounds.append(times))
        _ask_all(row, workers, None, lambda cell, memory: setattr(cell, "memory", memory))
    finally:
        for worker in workers.values():
            worker.__exit__()


def _start(engine: str, cell: Cell, job: Job, cache: Path, workers: dict[str, Worker]) -> list[np.ndarray] | None:
    """Load twice, in one process after the other: with an empty compile cache, then with what the first left there."""
    if not job.kind.is_installed():
        cell.failure = "is not installed"
        return None
    try:
        with Worker(job, cache) as cold:
            cell.cold = cold.ready().seconds
        worker = workers[engine] = Worker(job, cache)
        answer = worker.ready()
    except WorkerDied as error:
        cell.failure = str(error)
        if engine in workers:
            workers.pop(engine).__exit__()
        return None
    cell.warm = answer.seconds
    return answer.outputs


def _ask_all(row: Row, workers: dict[str, Worker], question: float | None, keep: Callable[[Cell, Any], None]) -> None:
    """Ask each worker in turn; one that dies drops out, and its cell says why."""
    for engine, worker in list(workers.items()):
        time.sleep(PAUSE)
        try:
            keep(row.cells[engine], worker.ask(question))
        except WorkerDied as error:
            row.cells[engine] = Cell(failure=str(error))
            workers.pop(engine).__exit__()


def relative_error(actual: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """The largest difference in any output, relative to the largest value of that output; inf if shapes differ.

    >>> relative_error([np.array([1.0, 2.2])], [np.array([1.0, 2.0])])
    0.1
    """
    if len(actual) != len(expected):
        return math.inf
    return max((_output_error(a, b) for a, b in zip(actual, expected, strict=True)), default=0.0)


def _output_error(actual: np.ndarray, expected: np.ndarray) -> float:
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return math.inf
    if expected.dtype.kind not in "fiub":
        return 0.0 if np.array_equal(actual, expected) else math.inf
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
        return math.inf
    difference = np.abs(a[finite] - b[finite]).max(initial=0.0)
    scale = np.abs(b[finite]).max(initial=0.0)
    return float(round(difference / scale, 12)) if scale > 0 else float(difference)


def geometric_mean(ratios: Iterable[float]) -> float:
    """The geometric mean of those ratios that are numbers, or NaN.

    >>> geometric_mean([1.0, 4.0, math.nan])
    2.0
    """
    known = [ratio for ratio in ratios if not math.isnan(ratio)]
    return math.exp(statistics.fmean(map(math.log, known))) if known else math.nan
