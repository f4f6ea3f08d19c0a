"""Several processes for one port: a supervisor that loads models, and workers that are forked from it and answer.

All workers take connections from one socket, so that a connection which nobody has taken yet outlives any of them. What
is loaded was loaded before the fork, so weights are in memory once, and a new worker is there within milliseconds. A
change of models makes a new generation of workers; the old one takes no connections any more and ends when its clients
have left.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

from intaglio.errors import IntaglioError
from intaglio.serve.messages import RequestError
from intaglio.serve.peers import Peers
from intaglio.serve.repository import Repository
from intaglio.serve.settings import Listen
from intaglio.serve.statistics import added

LOG = logging.getLogger("intaglio.serve")

TICK = 1.0
"""Most seconds between two looks at what is due."""
SHORT_LIFE = 1.0
"""Seconds: a worker that ends sooner than this is started again after a pause, which grows."""
LONGEST_PAUSE = 5.0
GATHER_SECONDS = 2.0
"""How long a worker waits for what the others have to say."""

Body = Callable[[Peers], None]
"""What a worker does: it answers requests until it is told to end."""


@dataclass
class Worker:
    """A worker as the supervisor sees it."""

    process: int
    channel: Connection
    began: float
    is_ready: bool = False
    is_retired: bool = False
    has_left: bool = False
    """Whether it takes no connections any more."""
    said: dict[str, Any] = field(default_factory=dict[str, Any])
    """Its statistics when it was last asked."""


@dataclass
class Question:
    """Something that one worker asks all others."""

    asker: Worker
    number: int
    """The asker's own."""
    ours: int
    missing: set[int]
    end: float
    found: list[Any]


class Supervisor:
    """Keeps as many workers as wanted, until a signal comes and all have ended."""

    def __init__(self, repository: Repository, listen: Listen, http: socket.socket, body: Body) -> None:
        self._repository, self._listen, self._http, self._body = repository, listen, http, body
        self._workers: dict[int, Worker] = {}
        self._questions: list[Question] = []
        self._gone: list[dict[str, Any]] = []
        self._controlled: list[tuple[Worker, dict[str, Any]]] = []
        self._pause, self._not_before = 0.0, 0.0
        self._number = 0
        self._signals: list[int] = []
        self._ends = 0
        self._next_look = time.monotonic() + (listen.reload or 0.0)

    def run(self) -> None:
        """Return when all workers have ended."""
        self._wakeup, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda number, frame: None)
        old = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        try:
            self._fill()
            while self._workers or not self._ends:
                self._turn()
        finally:
            for worker in self._workers.values():
                os.kill(worker.process, signal.SIGKILL)
            signal.set_wakeup_fd(old)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(write)
            os.close(self._wakeup)

    def _note(self, number: int, frame: object) -> None:
        self._signals.append(number)

    def _turn(self) -> None:
        """Wait until something happens, and do what it asks for."""
        channels = {worker.channel: worker for worker in self._workers.values()}
        for ready in wait([self._wakeup, *channels], TICK):
            if isinstance(ready, Connection):
                self._hear(channels[ready])
            else:
                os.read(self._wakeup, 1 << 12)
        while self._signals:
            self._end(self._signals.pop(0))
        self._reap()
        self._answer_late()
        self._answer_controlled()
        if not self._ends:
            self._look()
            self._fill()

    def _fill(self) -> None:
        """Start the workers that are missing."""
        while sum(not worker.is_retired for worker in self._workers.values()) < self._listen.workers:
            if time.monotonic() < self._not_before:
                return
            self._start()

    def _start(self) -> None:
        ours, theirs = Pipe()
        process = os.fork()
        if process:
            theirs.close()
            self._workers[process] = Worker(process, ours, time.monotonic())
            return
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all; the supervisor passes it on
            ours.close()
            for worker in self._workers.values():
                worker.channel.close()
            self._body(Peers(theirs))
            status = 0
        except IntaglioError as error:
            LOG.error("%s", error)
        except BaseException:
            LOG.exception("a worker failed")
        finally:
            os._exit(status)

    def _reap(self) -> None:
        """Let go of workers that have ended."""
        for process, worker in list(self._workers.items()):
            if os.waitpid(process, os.WNOHANG)[0] != process:
                continue
            while worker.channel in wait([worker.channel], 0) and self._hear(worker):
                continue
            del self._workers[process]
            worker.channel.close()
            self._gone = [added(*self._gone, {"models": worker.said.get("models", {})})]
            for question in self._questions:
                question.missing.discard(process)
            if self._ends:
                self._http.close()  # whoever comes now is refused, since nobody is left to answer
            elif not worker.is_retired:
                self._replace(worker)

    def _replace(self, worker: Worker) -> None:
        now = time.monotonic()
        LOG.error("worker %d ended; another one takes its place", worker.process)
        self._pause = 0.0 if now - worker.began > SHORT_LIFE else min(LONGEST_PAUSE, max(0.1, 2 * self._pause))
        self._not_before = now + self._pause

    def _end(self, number: int) -> None:
        """Let all workers drain; a second signal ends them at once."""
        self._ends += 1
        drain = self._listen.drain if number == signal.SIGTERM else 0.0
        for worker in self._workers.values():
            worker.is_retired = True
            self._tell(worker, {"kind": "end", "drain": drain, "now": self._ends > 1})

    def _look(self) -> None:
        """Load models again where their files have changed."""
        if self._listen.reload is None or time.monotonic() < self._next_look:
            return
        if self._repository.refresh():
            self._renew()
        self._next_look = time.monotonic() + self._listen.reload

    def _renew(self) -> None:
        """Start a generation of workers with what is loaded now; the old one ends when the new one is ready."""
        before = list(self._workers.values())
        for worker in before:
            worker.is_retired = True
        self._not_before = 0.0
        self._fill()

    def _retire(self) -> None:
        """Tell the old generation to end, once no worker of the new one is missing."""
        current = [worker for worker in self._workers.values() if not worker.is_retired]
        if len(current) == self._listen.workers and all(worker.is_ready for worker in current):
            for worker in self._workers.values():
                if worker.is_retired:
                    self._tell(worker, {"kind": "retire"})

    def _answer_controlled(self) -> None:
        """Answer those who changed models, once none of the old generation takes connections."""
        if all(worker.has_left for worker in self._workers.values() if worker.is_retired):
            for worker, answer in self._controlled:
                self._tell(worker, answer)
            self._controlled.clear()

    def _hear(self, worker: Worker) -> bool:
        """Take one message of a worker; returns whether there was one."""
        try:
            message: dict[str, Any] = worker.channel.recv()
        except (EOFError, OSError):
            return False
        if message["kind"] == "ready":
            worker.is_ready = True
            self._retire()
        elif message["kind"] == "left":
            worker.has_left = True
        elif message["kind"] == "say":
            worker.said = message["said"].get("statistics", worker.said)
            if message["number"]:
                self._take(worker, message)
        elif message["kind"] == "control":
            self._control(worker, message)
        elif message["kind"] == "ask":
            self._ask(worker, message)
        return True

    def _control(self, worker: Worker, message: Mapping[str, Any]) -> None:
        """Load or unload a model; the worker is answered when a new generation answers requests with what is loaded."""
        answer: dict[str, Any] = {"kind": "answer", "number": message["number"]}
        try:
            getattr(self._repository, message["what"])(message["model"])
        except RequestError as error:
            answer |= {"error": str(error), "status": error.status}
            self._tell(worker, answer)
        else:
            self._controlled.append((worker, answer))
            self._renew()

    def _ask(self, worker: Worker, message: Mapping[str, Any]) -> None:
        self._number += 1
        others = [other for other in self._workers.values() if other is not worker and other.is_ready]
        question = Question(worker, message["number"], self._number, set(), time.monotonic() + GATHER_SECONDS, [])
        self._questions.append(question)
        for other in others:
            question.missing.add(other.process)
            self._tell(other, {"kind": "say", "number": self._number, "what": message["what"]})
        question.found.extend({"statistics": each} for each in self._gone)
        self._answer_late()

    def _take(self, worker: Worker, message: Mapping[str, Any]) -> None:
        for question in self._questions:
            if question.ours == message["number"]:
                question.missing.discard(worker.process)
                question.found.append(message["said"])

    def _answer_late(self) -> None:
        """Answer the questions to which nothing more will be said."""
        now = time.monotonic()
        for question in list(self._questions):
            if question.missing and now < question.end:
                continue
            self._questions.remove(question)
            if question.missing:
                LOG.warning("%d workers did not say what they know in time", len(question.missing))
            self._tell(question.asker, {"kind": "answer", "number": question.number, "found": question.found})

    def _tell(self, worker: Worker, message: Mapping[str, Any]) -> None:
        try:
            worker.channel.send(message)
        except OSError:  # it has just ended
            worker.is_ready = False
