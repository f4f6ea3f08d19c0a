"""The lane of one model: requests wait in it, and those that wait when the engine is free run together.

One thread runs the model. A request that finds the lane empty, of a shape whose runs are short, is run by the caller's
own thread: handing it over would take longer. There is no timer: nobody waits for others to come.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from bisect import insort
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from intaglio.errors import RunTimeoutError
from intaglio.runtime.engine.deadline import Stop, stoppable
from intaglio.serve.messages import InferRequest, RequestError
from intaglio.serve.served import Served
from intaglio.serve.settings import Settings
from intaglio.serve.statistics import Statistics
from intaglio.serve.trace import traced_run

LOG = logging.getLogger("intaglio.serve")

SHORT_RUN = 200_000
"""Nanoseconds: runs that take less than this are run by the thread that brings the request."""
SHORT_RUN_LIMIT = 0.02
"""Seconds after which such a run is given up there, and left to the lane's thread."""
LONG_RUN = 5_000_000
"""Nanoseconds: runs that take longer than this are stopped when nobody wants their results any more."""
MOST_SHAPES = 512
"""Shapes whose times are remembered."""

Shapes = tuple[tuple[int, ...], ...]


class LaneClosedError(Exception):
    """The lane takes no requests any more; another one has its place."""


class Job:
    """A request on its way through a lane. `done` is called with it, once, by the thread that finished it."""

    __slots__ = (
        "arrived",
        "deadline",
        "done",
        "error",
        "is_cancelled",
        "request",
        "results",
        "rows",
        "shapes",
        "trace",
    )

    def __init__(self, request: InferRequest, deadline: float, done: Callable[[Job], None]) -> None:
        self.request, self.deadline, self.done = request, deadline, done
        self.arrived = time.monotonic_ns()
        self.rows = 0
        self.shapes: Shapes = ()
        self.results: Sequence[Any] | None = None
        self.error: BaseException | None = None
        self.trace: dict[str, Any] | None = None
        self.is_cancelled = False

    def left(self) -> float | None:
        """The seconds until the deadline; None where there is none."""
        return None if self.deadline == math.inf else self.deadline - time.monotonic()


class Lane:
    """The requests of one version of a model, and the thread that runs them."""

    def __init__(self, served: Served, settings: Settings) -> None:
        self.served, self.settings = served, settings
        self.statistics = Statistics()
        self._times: dict[Shapes, int] = {}
        self._waiting: list[tuple[int, int, Job]] = []
        self._changed = threading.Condition()
        self._engine = threading.Lock()
        self._number = 0
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._running: list[Job] = []
        self._stop = Stop()

    @property
    def waiting(self) -> int:
        """The requests that wait."""
        return len(self._waiting)

    def submit(self, job: Job) -> bool:
        """Run a request now or later; returns whether it is over, in which case `done` is not called.

        Raises RequestError where too many wait, and LaneClosedError where the lane has ended.
        """
        served = self.served
        job.shapes = tuple([array.shape for array in job.request.inputs.values()])
        job.rows = served.count_rows(job.request)
        if not self._waiting and self._times.get(job.shapes, SHORT_RUN) < SHORT_RUN and self._run_here(job):
            return True
        with self._changed:
            if self._is_closed:
                raise LaneClosedError
            if len(self._waiting) >= self.settings.max_queue:
                raise self._full()
            self._number += 1
            insort(self._waiting, (job.request.priority, self._number, job))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=f"lane {served.name}", daemon=True)
                self._thread.start()
            self._changed.notify()
        return False

    def _full(self) -> RequestError:
        mean = sorted(self._times.values())[len(self._times) // 2] if self._times else SHORT_RUN
        seconds = max(1, math.ceil(mean * len(self._waiting) / 1e9))
        self.statistics.refused(503)
        text = f"{len(self._waiting)} requests wait for model {self.served.name!r}, which is the limit"
        return RequestError(text, 503, retry_after=seconds)

    def cancel(self, job: Job) -> None:
        """Let go of a request whose client left; a run that is for nobody else is stopped."""
        job.is_cancelled = True
        with self._changed:
            if self._running and all(each.is_cancelled for each in self._running):
                self._stop.is_set = True

    def close(self, *, wait: bool = False) -> None:
        """Take no requests any more; those that wait are still run. With `wait`, return when they are."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        thread = self._thread
        if wait and thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run_here(self, job: Job) -> bool:
        """Run a request in this thread; False where the engine is busy or the run takes longer than runs like it."""
        if job.request.is_traced or not self._engine.acquire(blocking=False):
            return False
        try:
            if self._waiting or self._is_closed:
                return False
            try:
                start = time.monotonic_ns()
                left = job.left()
                job.results = self._results(job, SHORT_RUN_LIMIT if left is None else min(left, SHORT_RUN_LIMIT))
                spent = time.monotonic_ns() - start
                self._remember(job.shapes, spent)
                self.statistics.ran(max(1, job.rows), [start - job.arrived], spent)
            except RunTimeoutError:
                self._times[job.shapes] = 2 * SHORT_RUN
                return False
            except Exception as error:
                job.error = error
        finally:
            self._engine.release()
        return True

    def _results(self, job: Job, timeout: float | None) -> Sequence[Any]:
        """Run one request by itself."""
        served, inputs = self.served, job.request.inputs
        if len(inputs) == len(served.fed):
            return served.model.run_arrays([inputs[name] for name in served.fed], timeout=timeout)
        return list(served.model.run(inputs, timeout=timeout).values())

    def _remember(self, shapes: Shapes, spent: int) -> None:
        """Keep how long runs of some shapes take, as a mean that follows."""
        known = self._times.get(shapes)
        if known is None and len(self._times) >= MOST_SHAPES:
            self._times.clear()
        self._times[shapes] = spent if known is None else (3 * known + spent) // 4

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._is_closed:
                    self._changed.wait()
                if not self._waiting:
                    return
            with self._engine:
                with self._changed:
                    self._running = jobs = self._take()
                    self._stop = Stop()
                try:
                    self._run(jobs)
                except BaseException as error:
                    LOG.exception("model %s", self.served.name)
                    for job in jobs:
                        self._finish(job, error=error)
                with self._changed:
                    self._running = jobs = []

    def _take(self) -> list[Job]:
        """The requests to be run next: the first one, and all others that may run with it."""
        taken: list[Job] = []
        rest: list[tuple[int, int, Job]] = []
        rows, now = 0, time.monotonic()
        for entry in self._waiting:
            job = entry[2]
            if job.is_cancelled or job.deadline <= now:
                self._finish(job, error=late(job))
            elif not taken or self._joins(taken[0], job, rows):
                taken.append(job)
                rows += job.rows
            else:
                rest.append(entry)
        self._waiting = rest
        return taken

    def _joins(self, first: Job, job: Job, rows: int) -> bool:
        if not (first.rows and job.rows) or rows + job.rows > self.settings.max_batch:
            return False
        if first.request.is_traced or job.request.is_traced:
            return False
        ones, others = first.request.inputs, job.request.inputs
        return all(ones[name].shape[1:] == others[name].shape[1:] for name in self.served.fed)

    def _run(self, jobs: list[Job]) -> None:
        """Run requests together; where that fails, one by one, so that each fails for its own fault alone."""
        if len(jobs) == 1:
            self._run_alone(jobs[0])
        elif jobs:
            try:
                self._run_together(jobs)
            except Exception:
                for job in jobs:
                    self._run_alone(job)

    def _run_alone(self, job: Job) -> None:
        start = time.monotonic_ns()
        left = job.left()
        if job.is_cancelled or (left is not None and left <= 0):
            self._finish(job, error=late(job))
            return
        try:
            with self._stoppable(job.shapes):
                if job.request.is_traced:
                    results, job.trace = traced_run(self.served, job.request.inputs, left)
                else:
                    results = self._results(job, left)
        except Exception as error:
            self._finish(job, error=late(job) if job.is_cancelled else error)
            return
        spent = time.monotonic_ns() - start
        self._remember(job.shapes, spent)
        self.statistics.ran(max(1, job.rows), [start - job.arrived], spent)
        self._finish(job, results)

    def _stoppable(self, shapes: Shapes) -> Any:
        """Let `cancel` stop the run where runs of these shapes are long; short ones have a shorter way."""
        if self._times.get(shapes, LONG_RUN) < LONG_RUN:
            return nullcontext()
        return stoppable(self._stop, is_native=self.served.model.options.engine == "native")

    def _run_together(self, jobs: list[Job]) -> None:
        served, start = self.served, time.monotonic_ns()
        total = sum(job.rows for job in jobs)
        joined = [np.concatenate([job.request.inputs[name] for job in jobs]) for name in served.fed]
        shapes = tuple([array.shape for array in joined])
        ends = [job.deadline for job in jobs]
        timeout = None if math.inf in ends else max(ends) - time.monotonic()
        begin = time.monotonic_ns()
        with self._stoppable(shapes):
            results = served.model.run_arrays(joined, timeout=timeout)
        end = time.monotonic_ns()
        self._remember(shapes, end - begin)
        parts = [split(result, axis, jobs, total) for result, axis in zip(results, served.rows.axes, strict=True)]
        split_end = time.monotonic_ns()
        self.statistics.ran(total, [start - job.arrived for job in jobs], end - begin, begin - start, split_end - end)
        for place, job in enumerate(jobs):
            self._finish(job, [part[place] for part in parts])

    def _finish(self, job: Job, results: Sequence[Any] | None = None, error: BaseException | None = None) -> None:
        if job.results is None and job.error is None:
            job.results, job.error = results, error
            job.done(job)


def split(result: Any, axis: int | None, jobs: Sequence[Job], total: int) -> list[Any]:
    """The part of a result that belongs to each job; an output without rows belongs to all.

    Raises ValueError where the rows are not as many as the jobs brought.
    """
    if axis is None:
        return [result] * len(jobs)
    size, rest = divmod(result.shape[axis], total)
    if rest:
        raise ValueError(f"{result.shape[axis]} rows came of {total}")
    before = (slice(None),) * axis
    found: list[Any] = []
    at = 0
    for job in jobs:
        found.append(result[(*before, slice(at * size, (at + job.rows) * size))])
        at += job.rows
    return found


def late(job: Job) -> RequestError:
    """Why a request was not run."""
    if job.is_cancelled:
        return RequestError("the client left", 499)
    return RequestError("the time of the request was over before its answer was there", 504)
