"""Threads that run functions and leave nothing behind that could swallow a Ctrl-C.

Python's own `Thread` objects are held by weak references in `threading` and `concurrent.futures`. Where such an object
is let go, Python runs a function of its own, and a KeyboardInterrupt that is raised inside of that function is printed
and forgotten. These threads have no such objects.
"""

import _thread
from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

T = TypeVar("T")


class Job(Generic[T]):
    """A function that a worker calls once, and what came of it."""

    def __init__(self, function: Callable[..., T], arguments: tuple[Any, ...]) -> None:
        self.error: BaseException | None = None
        self._function = function
        self._arguments = arguments
        self._result: list[T] = []

    def run(self) -> None:
        """Call the function and store its result or its exception."""
        try:
            self._result.append(self._function(*self._arguments))
        except BaseException as error:
            self.error = error

    def result(self) -> T:
        """The function's result; raises what it raised. Only for jobs that `Workers.finished` returned."""
        if self.error is not None:
            raise self.error
        return self._result[0]


class Workers(Generic[T]):
    """At most `count` threads, started where they are needed; all of them have ended behind the `with` block.

    An exception that leaves the block drops the jobs that no thread has begun.
    """

    def __init__(self, count: int) -> None:
        self._most = count
        self._threads = 0
        self._unfinished = 0
        self._dropped = False
        self._jobs: SimpleQueue[Job[T] | None] = SimpleQueue()
        self._finished: SimpleQueue[Job[T]] = SimpleQueue()
        self._ended: SimpleQueue[None] = SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._dropped = kind is not None
        self._jobs.put(None)
        while self._threads:
            self._ended.get()
            self._threads -= 1

    def submit(self, function: Callable[..., T], *arguments: Any) -> Job[T]:
        """Have a thread call a function; returns the job, which `finished` returns once it is done."""
        job = Job(function, arguments)
        self._unfinished += 1
        self._jobs.put(job)
        if self._threads < min(self._most, self._unfinished):
            _thread.start_new_thread(self._work, ())
            self._threads += 1
        return job

    def finished(self, timeout: float | None = None) -> Job[T] | None:
        """The next job that is done, in the order in which they end; None where none ends within the timeout."""
        try:
            job = self._finished.get(timeout=timeout)
        except Empty:
            return None
        self._unfinished -= 1
        return job

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if not self._dropped:
                job.run()
                self._finished.put(job)
            del job
        self._jobs.put(None)
        self._ended.put(None)


def map_in_threads(function: Callable[[Any], T], items: list[Any], count: int) -> list[T]:
    """The results of a function for all items, computed by at most `count` threads; raises the first item's error."""
    with Workers[T](count) as workers:
        jobs = [workers.submit(function, item) for item in items]
        for _ in jobs:
            workers.finished()
    return [job.result() for job in jobs]
