"""Long work in threads of its own: its progress can be asked for, and it can be cancelled."""

from __future__ import annotations

import contextvars
import itertools
import threading
import traceback
from collections.abc import Callable
from typing import Any

from intaglio.errors import InputError, IntaglioError, LimitError, RunTimeoutError
from intaglio.runtime.engine.deadline import Stop, stoppable

MOST_KEPT = 32
"""Finished jobs whose results are kept."""
MOST_RUNNING = 8

Json = dict[str, Any]


class Cancelled(Exception):
    """Somebody does not want the work any more."""


class Job:
    """One piece of work: `waiting`, `running`, `done`, `failed` or `cancelled`."""

    def __init__(self, number: int, work: Callable[[Job], Json]) -> None:
        self.id = str(number)
        self.state = "waiting"
        self.done: float | None = None
        self.note = ""
        self.result: Json | None = None
        self.error: Json | None = None
        self.kept: dict[str, Any] = {}
        """What the server keeps of the result: the tensors of a run."""
        self._work = work
        self._stop = Stop()
        self._thread: threading.Thread | None = None

    def progress(self, done: int, total: int) -> None:
        """Note how far the work is; raises Cancelled where nobody wants it any more."""
        self.done = done / total if total else None
        self.check()

    def say(self, note: str) -> None:
        """Note what is done now; raises Cancelled where nobody wants it any more."""
        self.note, self.done = note, None
        self.check()

    def check(self) -> None:
        """Raise Cancelled where nobody wants the work any more."""
        if self._stop.is_set:
            raise Cancelled

    def start(self) -> None:
        """Begin in a thread of its own."""
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._run,), name=f"job {self.id}", daemon=True)
        self.state = "running"
        self._thread.start()

    def cancel(self) -> None:
        """Let the work end soon: runs of compiled code end at once, other work at its next step."""
        self._stop.is_set = True

    def wait(self, seconds: float | None = None) -> bool:
        """Whether the work has ended, after so many seconds at most."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self.state not in ("waiting", "running")

    def _run(self) -> None:
        try:
            with stoppable(self._stop, is_native=True):
                self.check()
                self.result = self._work(self)
            self.state = "done"
        except (Cancelled, RunTimeoutError) as error:
            if self._stop.is_set:
                self.state = "cancelled"
            else:
                self._fail(error)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.error = error_json(error)
        self.state = "failed"

    def to_json(self) -> Json:
        """The state of the work, and its result where it is done."""
        found: Json = {"id": self.id, "state": self.state, "progress": self.done, "note": self.note}
        if self.state == "done":
            found["result"] = self.result
        if self.state == "failed":
            found["error"] = self.error
        return found


def error_json(error: BaseException) -> Json:
    """An error for the page; of faults of our own, where it happened too."""
    text = str(error)[:8000] or type(error).__name__
    if isinstance(error, IntaglioError):
        return {"message": text, "where": "", "remedy": "", "kind": type(error).__name__}
    if isinstance(error, MemoryError):
        return {"message": "there is not enough memory", "where": "", "remedy": "", "kind": "MemoryError"}
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f"{last[0].name}, line {last[0].lineno}" if last else ""
    return {"message": f"{type(error).__name__}: {text}", "where": where, "kind": type(error).__name__,
            "remedy": "this is a fault of Intaglio: please report it"}  # fmt: skip


class Jobs:
    """All jobs of a server."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()

    def start(self, work: Callable[[Job], Json]) -> Job:
        """Begin some work; raises LimitError where too much is going on."""
        with self._lock:
            running = [job for job in self._jobs.values() if job.state == "running"]
            if len(running) >= MOST_RUNNING:
                raise LimitError(f"{MOST_RUNNING} jobs are running; cancel one, or wait until one is done")
            job = Job(next(self._numbers), work)
            self._jobs[job.id] = job
            ended = [each for each in self._jobs.values() if each.state not in ("waiting", "running")]
            for old in ended[: max(0, len(ended) - MOST_KEPT)]:
                del self._jobs[old.id]
        job.start()
        return job

    def find(self, number: str) -> Job:
        """A job; raises InputError where it is not there, or no longer."""
        if number not in self._jobs:
            raise InputError(f"there is no job {number[:40]!r}, or its result is no longer kept")
        return self._jobs[number]

    def close(self, seconds: float = 5.0) -> None:
        """Cancel everything."""
        for job in self._jobs.values():
            job.cancel()
        for job in self._jobs.values():
            job.wait(seconds)
