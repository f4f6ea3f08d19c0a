"""Running the tests, here or on several processes, of which one that dies costs no more than the test it ran."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from typing import Any, Protocol

from intaglio.conformance.result import Result
from intaglio.conformance.suite import Subject
from intaglio.runtime.engine.engine import Progress

_CONTEXT = get_context("fork")  # the tests take long to make, and a fork has them already


class Test(Protocol):
    """What can be run on a subject."""

    def run(self, subject: Subject) -> tuple[Result, Exception | None]:
        """What came of it, and the exception, where there was one."""
        ...


def run_cases(
    cases: Mapping[str, Test],
    make: Callable[[], Subject],
    jobs: int = 1,
    progress: Progress | None = None,
    *,
    time_limit: float | None = None,
    keep: Callable[[Result], None] | None = None,
) -> list[Result]:
    """Run tests on the subject that `make` makes, in their order; `progress(done, total)` is told of each.

    A test that takes longer than `time_limit` seconds is ended with all that it started, and has failed. `keep` is
    given each result as soon as it is there.
    """
    told, kept = progress or (lambda done, total: None), keep or (lambda result: None)
    with _data_folder() as folder:
        if jobs == 1 and time_limit is None:
            return _run_here(cases, make, told, kept)
        return _Pool(cases, make, told, kept, folder, time_limit).run(jobs)


@contextmanager
def _data_folder() -> Generator[str]:
    """A folder for the data of the models that the suite carries, which it would put below the user's home."""
    before = os.environ.get("ONNX_HOME")
    with tempfile.TemporaryDirectory(prefix="intaglio-conformance-", ignore_cleanup_errors=True) as folder:
        os.environ["ONNX_HOME"] = folder
        try:
            yield folder
        finally:
            os.environ.pop("ONNX_HOME") if before is None else os.environ.update(ONNX_HOME=before)


@contextmanager
def _quiet() -> Generator[None]:
    """What the suite and backends print goes to standard error: standard output is for data."""
    with warnings.catch_warnings(action="ignore"), redirect_stdout(sys.stderr):
        yield


def _run_here(
    cases: Mapping[str, Test], make: Callable[[], Subject], progress: Progress, keep: Callable[[Result], None]
) -> list[Result]:
    results: list[Result] = []
    with _quiet():
        subject = make()
    for case in cases.values():
        with _quiet():
            results.append(case.run(subject)[0])
        keep(results[-1])
        progress(len(results), len(cases))
    return results


class _Worker:
    """A process that runs tests one by one; `name` is the one that it has, `begin` when it got it."""

    def __init__(
        self, cases: Mapping[str, Test], make: Callable[[], Subject], others: list[Connection], folder: str
    ) -> None:
        self.connection, inner = _CONTEXT.Pipe()
        given = (inner, cases, make, [*others, self.connection], folder)
        self.process = _CONTEXT.Process(target=_serve, args=given, daemon=True)
        with warnings.catch_warnings(action="ignore"):  # threads of NumPy's, which takes care of forks
            self.process.start()
        inner.close()
        self.name: str | None = None
        self.begin = 0.0

    def give(self, name: str) -> None:
        """Hand the next test over."""
        self.name, self.begin = name, time.monotonic()
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

    def end(self, number: int) -> None:
        """End the process and those that it started."""
        assert self.process.pid is not None
        with suppress(ProcessLookupError, PermissionError):  # it has no group of its own yet, or none any more
            os.killpg(self.process.pid, number)
        if self.process.is_alive():
            os.kill(self.process.pid, number)
        self.process.join()

    def _death(self) -> str:
        self.process.join()
        code = self.process.exitcode or 0
        return f"signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"status {code}"


def _serve(
    own: Connection, cases: Mapping[str, Test], make: Callable[[], Subject], others: list[Connection], folder: str
) -> None:
    os.setpgid(0, 0)  # compilers and programs that a test starts are ended with it
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends the others
    tempfile.tempdir = folder  # what a test that is ended leaves behind goes with the folder
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
            own.send(subject if isinstance(subject, Exception) else cases[name].run(subject)[0])


class _Pool:
    def __init__(
        self,
        cases: Mapping[str, Test],
        make: Callable[[], Subject],
        progress: Progress,
        keep: Callable[[Result], None],
        folder: str,
        time_limit: float | None,
    ) -> None:
        self.cases, self.make, self.progress, self.keep = cases, make, progress, keep
        self.folder, self.time_limit = folder, time_limit
        self.waiting = list(reversed(list(cases)))
        self.results: dict[str, Result] = {}
        self.workers: list[_Worker] = []

    def run(self, jobs: int) -> list[Result]:
        try:
            for _ in range(min(jobs, len(self.cases))):
                self._start()
            while len(self.results) < len(self.cases):
                self._step()
        finally:
            for worker in self.workers:
                worker.end(signal.SIGTERM)
        return [self.results[name] for name in self.cases]

    def _start(self) -> None:
        worker = _Worker(self.cases, self.make, [each.connection for each in self.workers], self.folder)
        self.workers.append(worker)
        worker.give(self.waiting.pop())

    def _step(self) -> None:
        """Wait for a worker that is done, dead or late, note what it has, and see that the next test is run."""
        busy = [worker for worker in self.workers if worker.name is not None]
        waited = [item for worker in busy for item in (worker.connection, worker.process.sentinel)]
        ready = connection.wait(waited, self._time_left(busy))
        for worker in busy:
            if worker.connection in ready or worker.process.sentinel in ready:
                self._note(worker.take())
            elif self.time_limit is not None and time.monotonic() - worker.begin >= self.time_limit:
                worker.end(signal.SIGKILL)
                self._note(Result(worker.name or "", "failed", f"the time limit of {self.time_limit:g} s has passed",
                                  seconds=self.time_limit))  # fmt: skip
            else:
                continue
            self._continue(worker)

    def _time_left(self, busy: Sequence[_Worker]) -> float | None:
        if self.time_limit is None:
            return None
        return max(0.0, min(worker.begin for worker in busy) + self.time_limit - time.monotonic())

    def _note(self, result: Result) -> None:
        self.results[result.name] = result
        self.keep(result)
        self.progress(len(self.results), len(self.cases))

    def _continue(self, worker: _Worker) -> None:
        if worker.process.sentinel in connection.wait([worker.process.sentinel], timeout=0):
            worker.end(signal.SIGTERM)
            self.workers.remove(worker)
            if self.waiting:
                self._start()
        elif self.waiting:
            worker.give(self.waiting.pop())
        else:
            worker.name = None
