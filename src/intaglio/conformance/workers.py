"""Running the tests, here or on several processes, of which one that dies costs no more than the test it ran."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from typing import Any

from intaglio.conformance.result import Result
from intaglio.conformance.suite import Subject, cases
from intaglio.runtime.engine.engine import Progress

_CONTEXT = get_context("fork")  # the tests take long to make, and a fork has them already


def run_cases(
    names: Sequence[str], make: Callable[[], Subject], jobs: int = 1, progress: Progress | None = None
) -> list[Result]:
    """Run tests on the subject that `make` makes, in their order; `progress(done, total)` is told of each."""
    cases()
    told = progress or (lambda done, total: None)
    with _data_folder():
        return _run_here(names, make, told) if jobs == 1 else _Pool(names, make, told).run(jobs)


@contextmanager
def _data_folder() -> Generator[None]:
    """A folder for the data of the models that the suite carries, which it would put below the user's home."""
    before = os.environ.get("ONNX_HOME")
    with tempfile.TemporaryDirectory(prefix="intaglio-conformance-") as folder:
        os.environ["ONNX_HOME"] = folder
        try:
            yield
        finally:
            os.environ.pop("ONNX_HOME") if before is None else os.environ.update(ONNX_HOME=before)


@contextmanager
def _quiet() -> Generator[None]:
    """What the suite and backends print goes to standard error: standard output is for data."""
    with warnings.catch_warnings(action="ignore"), redirect_stdout(sys.stderr):
        yield


def _run_here(names: Sequence[str], make: Callable[[], Subject], progress: Progress) -> list[Result]:
    results: list[Result] = []
    with _quiet():
        subject = make()
    for name in names:
        with _quiet():
            results.append(cases()[name].run(subject)[0])
        progress(len(results), len(names))
    return results


class _Worker:
    """A process that runs tests one by one; `name` is the one that it has."""

    def __init__(self, make: Callable[[], Subject], others: list[Connection]) -> None:
        self.connection, inner = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_serve, args=(inner, make, [*others, self.connection]), daemon=True)
        with warnings.catch_warnings(action="ignore"):  # threads of NumPy's, which takes care of forks
            self.process.start()
        inner.close()
        self.name: str | None = None

    def give(self, name: str) -> None:
        """Hand the next test over."""
        self.name = name
        with suppress(BrokenPipeError):  # it has died, and whoever waits for it will see that
            self.connection.send(name)

    def take(self) -> Result:
        """What came of the test; of one that the process did not survive, that it did not."""
        assert self.name is not None
        try:
            answer = self.connection.recv() if self.connection.poll() else None
        except (EOFError, ConnectionError):
            answer = None
        if isinstance(answer, Exception):
            raise answer
        return answer or Result(self.name, "failed", f"the process died: {self._death()}")

    def _death(self) -> str:
        self.process.join()
        code = self.process.exitcode or 0
        return f"signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"status {code}"


def _serve(own: Connection, make: Callable[[], Subject], others: list[Connection]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends the others
    for other in others:
        other.close()
    os.dup2(2, 1)
    try:
        with _quiet():
            subject: Any = make()
    except Exception as error:
        subject = error
    while True:
        name = own.recv()
        with _quiet():
            own.send(subject if isinstance(subject, Exception) else cases()[name].run(subject)[0])


class _Pool:
    def __init__(self, names: Sequence[str], make: Callable[[], Subject], progress: Progress) -> None:
        self.names, self.make, self.progress = names, make, progress
        self.waiting = list(reversed(names))
        self.results: dict[str, Result] = {}
        self.workers: list[_Worker] = []

    def run(self, jobs: int) -> list[Result]:
        try:
            for _ in range(min(jobs, len(self.names))):
                self._start()
            while len(self.results) < len(self.names):
                self._step()
        finally:
            for worker in self.workers:
                worker.process.terminate()
                worker.process.join()
        return [self.results[name] for name in self.names]

    def _start(self) -> None:
        worker = _Worker(self.make, [each.connection for each in self.workers])
        self.workers.append(worker)
        worker.give(self.waiting.pop())

    def _step(self) -> None:
        """Wait for a worker that is done or dead, note what it has, and see that the next test is run."""
        busy = [worker for worker in self.workers if worker.name is not None]
        ready = connection.wait([item for worker in busy for item in (worker.connection, worker.process.sentinel)])
        for worker in busy:
            if worker.connection not in ready and worker.process.sentinel not in ready:
                continue
            result = worker.take()
            self.results[result.name] = result
            self.progress(len(self.results), len(self.names))
            self._continue(worker)

    def _continue(self, worker: _Worker) -> None:
        if worker.process.sentinel in connection.wait([worker.process.sentinel], timeout=0):
            self.workers.remove(worker)
            if self.waiting:
                self._start()
        elif self.waiting:
            worker.give(self.waiting.pop())
        else:
            worker.name = None
