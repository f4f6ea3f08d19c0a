"""Work in processes of its own, so that a crash is a finding and not the end of the hunt."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import pickle
import resource
import select
import signal
import struct
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

MEMORY_BYTES = 6 << 30


@dataclass
class Outcome:
    """What came of a child: its result, or how it ended and what it was doing."""

    result: Any = None
    fault: str = ""
    phase: str = ""


class Child:
    """A forked process that runs one function; what it does is told by the way."""

    def __init__(self, work: Callable[[Callable[[str], None]], Any], seconds: float) -> None:
        reader, writer = os.pipe()
        self.stack = os.memfd_create("stack")
        self.end = time.monotonic() + seconds
        self.process = os.fork()
        if self.process == 0:
            os.close(reader)
            _be_child(work, writer, self.stack)
        os.close(writer)
        self.reader, self.phase, self.bytes, self.result = reader, "", b"", None
        self.fault = ""
        self.is_whole = False

    def fileno(self) -> int:
        """The pipe that the child writes to."""
        return self.reader

    def read(self) -> Outcome | None:
        """Take what the child has written; the outcome once it has ended."""
        chunk = os.read(self.reader, 1 << 20)
        if not chunk:
            return self.close()
        self.bytes += chunk
        while len(self.bytes) >= 8 and len(self.bytes) >= 8 + (size := struct.unpack("<q", self.bytes[:8])[0]):
            kind, item = pickle.loads(self.bytes[8 : 8 + size])
            self.bytes = self.bytes[8 + size :]
            if kind == "phase":
                self.phase = item
            elif kind == "fault":
                self.fault = item
            else:
                self.result, self.is_whole = item, True
        return None

    def close(self) -> Outcome:
        """Wait for the end of the child."""
        os.close(self.reader)
        os.close(self.stack)
        _, status = os.waitpid(self.process, 0)
        fault = self.fault
        if not self.is_whole and not fault:
            code = os.waitstatus_to_exitcode(status)
            fault = (
                f"the process ended by {signal.Signals(-code).name}" if code < 0 else f"the process ended with {code}"
            )
        return Outcome(self.result, fault, self.phase)

    def where(self) -> str:
        """The stack of a child that takes too long."""
        os.kill(self.process, signal.SIGUSR1)
        time.sleep(0.5)
        return os.pread(self.stack, 1 << 16, 0).decode()

    def kill(self, why: str) -> Outcome:
        """End the child and what it started."""
        for group in (True, False):
            try:
                os.killpg(self.process, signal.SIGKILL) if group else os.kill(self.process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        outcome = self.close()
        return Outcome(None, why, outcome.phase)


def _be_child(work: Callable[[Callable[[str], None]], Any], writer: int, stack: int) -> None:
    """Run the work, send what comes of it, and end without returning."""

    def send(kind: str, item: Any) -> None:
        data = pickle.dumps((kind, item))
        view = memoryview(struct.pack("<q", len(data)) + data)
        while view:
            view = view[os.write(writer, view) :]

    code = 1
    try:
        gc.disable()  # the process ends soon
        os.setpgid(0, 0)
        _end_with_parent()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        faulthandler.register(signal.SIGUSR1, stack, all_threads=True)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
        send("result", work(lambda phase: send("phase", phase)))
        code = 0
    except BaseException:  # everything is told to the parent
        send("fault", "raised " + traceback.format_exc()[-1500:])
    finally:
        os._exit(code)


def _end_with_parent() -> None:
    """Have this process killed when its parent ends, however that comes."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def run_in_child(work: Callable[[Callable[[str], None]], Any], seconds: float) -> Outcome:
    """One function in one child."""
    (_, outcome), *_ = run_many([(None, work)], 1, seconds)
    return outcome


def run_many(jobs: Any, count: int, seconds: float) -> Iterator[tuple[Any, Outcome]]:
    """The outcomes of jobs (a key and a function each), `count` at a time, in the order in which they end."""
    waiting, running = iter(jobs), {}
    try:
        while True:
            while len(running) < count and (job := next(waiting, None)) is not None:
                child = Child(job[1], seconds)
                running[child] = job[0]
            if not running:
                return
            ready, _, _ = select.select(list(running), [], [], 1.0)
            for child in list(running):
                outcome = child.read() if child in ready else None
                if outcome is None and time.monotonic() > child.end:
                    outcome = child.kill(f"no result after {seconds:.0f} seconds: {child.where()}")
                if outcome is not None:
                    yield running.pop(child), outcome
    finally:
        for child in running:
            child.kill("stopped")
