"""The protocol without a transport."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from intaglio.errors import (
    InputError,
    IntaglioError,
    LimitError,
    OperatorError,
    RunTimeoutError,
    ShapeError,
    UnsupportedError,
)
from intaglio.serve.lane import Job, Lane, LaneClosedError
from intaglio.serve.messages import InferAnswer, InferRequest, RequestError
from intaglio.serve.peers import Peers
from intaglio.serve.repository import Repository
from intaglio.serve.settings import Settings
from intaglio.serve.shared_memory import SharedMemory
from intaglio.serve.statistics import added
from intaglio.serve.trace import Traces
from intaglio.version import __version__

LOG = logging.getLogger("intaglio.serve")

WATCH_AFTER = 0.005
"""Seconds after which the server looks whether the client of a request is still there."""

Gone = Callable[[], Awaitable[None]]
"""Returns when the client of a request has left."""


class Service:
    """Models and what may be asked of them."""

    def __init__(self, repository: Repository, settings: Settings) -> None:
        self.repository, self.settings = repository, settings
        self.regions = SharedMemory() if settings.shared_memory else None
        self.traces = Traces()
        self.memory = 0
        """Bytes of the bodies that are in the server."""
        self.in_flight = 0
        self.peers: Peers | None = None
        self.is_leaving = False
        """Whether clients are asked to connect anew, since this process ends."""

    def said(self, what: str) -> dict[str, Any]:
        """What this process knows, for others: of "statistics", or of "trace ID"."""
        if what != "statistics":
            return {"trace": self.traces.find(what.partition(" ")[2])}
        models = {
            f"{entry.name}/{entry.version}": entry.lane.statistics.numbers()
            for entry in self.repository.entries()
            if entry.lane is not None
        }
        return {"statistics": {"models": models, "in_flight": self.in_flight, "memory": self.memory}}

    async def others(self) -> dict[str, Any]:
        """The statistics of all other processes of this server together."""
        found = [] if self.peers is None else await self.peers.gather("statistics")
        return added(*(each["statistics"] for each in found))

    async def trace(self, trace_id: str) -> dict[str, Any] | None:
        """A trace that this process or another one of this server keeps."""
        found = self.traces.find(trace_id)
        if found is None and self.peers is not None:
            said = await self.peers.gather(f"trace {trace_id}")
            found = next((each["trace"] for each in said if each.get("trace")), None)
        return found

    async def control(self, what: str, model: str) -> None:
        """Load or unload a model, in all processes of this server; `what` is "load" or "unload"."""
        if self.peers is not None:
            await self.peers.control(what, model)
        else:
            await asyncio.to_thread(getattr(self.repository, what), model)

    def metadata(self) -> dict[str, Any]:
        """The protocol's description of the server."""
        extensions = ["binary_tensor_data", "model_repository", "statistics", "parameters"]
        extensions += ["system_shared_memory"] if self.regions is not None else []
        return {"name": "intaglio", "version": __version__, "extensions": extensions}

    def is_allowed(self, key: str | None) -> bool:
        """Whether a client with this key may ask for anything; takes the same time whichever key it is."""
        given = (key or "").encode("utf-8", "replace")
        found = [hmac.compare_digest(given, each.encode()) for each in self.settings.api_keys]
        return any(found) or not found

    def reserve(self, size: int) -> None:
        """Count bytes that are about to be allocated for a request; raises RequestError where there is no room."""
        if self.memory + size <= self.settings.max_memory:
            self.memory += size
            return
        if size > self.settings.max_memory:
            raise RequestError(f"the request needs {size} bytes, and the limit is {self.settings.max_memory}", 413)
        raise RequestError("the bodies of other requests fill the server's memory", 503, retry_after=1)

    def release(self, size: int) -> None:
        """Let go of bytes that were reserved."""
        self.memory -= size

    async def infer(
        self, name: str, version: str, request: InferRequest, *, trace_id: str = "", gone: Gone | None = None
    ) -> InferAnswer:
        """The answer to a request; raises RequestError where there is none."""
        arrived = time.monotonic_ns()
        lane, job = await self._run(name, version, request, gone)
        lane.statistics.answered(time.monotonic_ns() - arrived, job.error is None)
        if job.error is not None:
            raise as_request_error(job.error)
        assert job.results is not None
        parameters: dict[str, Any] = {}
        if job.trace is not None:
            self.traces.keep(trace_id, job.trace)
            parameters["trace_id"] = trace_id
        return lane.served.answer(request, job.results, parameters)

    async def _run(self, name: str, version: str, request: InferRequest, gone: Gone | None) -> tuple[Lane, Job]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        wait = self.settings.timeout
        wait = min(wait, request.timeout) if request.timeout else wait
        job = Job(request, time.monotonic() + wait, lambda _: _wake(loop, future))
        lane, is_over = self._submit(name, version, job)
        if not is_over:
            self.in_flight += 1
            try:
                await self._wait(lane, job, future, wait, gone)
            finally:
                self.in_flight -= 1
        return lane, job

    def _submit(self, name: str, version: str, job: Job) -> tuple[Lane, bool]:
        """Give a job to the lane of a model, the one that is there now: another may just have taken its place."""
        for _ in range(100):
            lane = self.repository.find(name, version).lane
            if lane is None:
                continue
            lane.served.check(job.request)
            try:
                return lane, lane.submit(job)
            except LaneClosedError:
                continue
        raise RequestError(f"model {name!r} is being unloaded", 503, retry_after=1)

    async def _wait(self, lane: Lane, job: Job, future: asyncio.Future[None], wait: float, gone: Gone | None) -> None:
        """Wait until a job or its time is over, or its client leaves; the last two are errors of the job."""
        loop = asyncio.get_running_loop()
        end = loop.call_later(wait + 0.05, _set, future)
        watcher = None if gone is None else _Watcher(loop, future, gone)
        try:
            await future
        finally:
            end.cancel()
            has_left = watcher is not None and watcher.stop()
            if job.results is None and job.error is None:
                lane.cancel(job)
                job.error = RequestError(*(_LEFT if has_left else _LATE))


_LEFT = ("the client left", 499)
_LATE = ("the time of the request was over before its answer was there", 504)


class _Watcher:
    """Ends a future when the client leaves; looks only after a while, since most requests are answered sooner."""

    def __init__(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[None], gone: Gone) -> None:
        self._future, self._gone = future, gone
        self._task: asyncio.Task[None] | None = None
        self._has_left = False
        self._timer = loop.call_later(WATCH_AFTER, self._begin, loop)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._task = loop.create_task(self._watch())

    async def _watch(self) -> None:
        await self._gone()
        self._has_left = True
        _set(self._future)

    def stop(self) -> bool:
        """Look no longer; returns whether the client has left."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        return self._has_left


def _wake(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    """End a future from another thread; its loop may be over, and nobody waits then."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(_set, future)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


_STATUS: tuple[tuple[type[IntaglioError], int], ...] = (
    (RunTimeoutError, 504),
    (LimitError, 413),
    (InputError, 400),
    (ShapeError, 400),
    (OperatorError, 400),
    (UnsupportedError, 501),
)


def as_request_error(error: BaseException) -> RequestError:
    """An error of a run as the client sees it; what is no fault of the request is logged and not shown."""
    if isinstance(error, RequestError):
        return error
    for kind, status in _STATUS:
        if isinstance(error, kind):
            return RequestError(str(error), status)
    LOG.error("a request failed", exc_info=error)
    return RequestError("the server failed; its log has the reason", 500)
