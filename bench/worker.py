"""One engine with one model in a process of its own, so that a crash, spinning threads or memory stay there.

The race starts `python -m bench.worker FD` and speaks over the socket FD: first the job; then a number of seconds for
each burst of runs, answered by the times; at last None, answered by the peak memory.
"""

import gc
import os
import resource
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.footprint import memory
from bench.peers import Engine, Feeds

FEWEST_RUNS = 3
MOST_RUNS = 5000


class Job(NamedTuple):
    """What a worker is to load."""

    kind: type[Engine]
    path: Path
    threads: int
    feeds: Feeds
    clock: str = "perf_counter"  # of the module `time`


class Ready(NamedTuple):
    """A worker's first answer: the outputs, the seconds from the file's path to them, and those of processors."""

    outputs: list[np.ndarray]
    seconds: float
    processor_seconds: float = 0.0


class Failed(NamedTuple):
    """A worker's first answer when the engine does not take the model."""

    reason: str


def serve(connection: Connection) -> None:
    """Load, answer every burst, and report the memory."""
    try:
        job: Job = connection.recv()
        engine, ready = _load(job)
    except Exception as error:  # whatever an engine raises is a result of the race
        connection.send(Failed(reason(error)))
        return
    connection.send(ready)
    while (seconds := connection.recv()) is not None:
        connection.send(burst(engine, seconds, getattr(time, job.clock)))
    connection.send(peak_memory())


def _load(job: Job) -> tuple[Engine, Ready]:
    job.kind.prepare()
    __import__(job.kind.module)  # the import is not part of loading a model
    start, used = time.perf_counter(), processor_seconds()
    engine = job.kind(job.path, job.threads, job.feeds)
    outputs = engine.run()
    seconds, used = time.perf_counter() - start, processor_seconds() - used
    return engine, Ready([np.array(output) for output in outputs], seconds, used)


def processor_seconds() -> float:
    """What this process has used of processors, with the compilers that it has run and waited for."""
    own, others = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def burst(engine: Engine, seconds: float, clock: Callable[[], float] = time.perf_counter) -> list[float]:
    """Times of single runs until `seconds` have passed, after one run that brings the caches back."""
    engine.run()
    times: list[float] = []
    gc.disable()
    begin = time.perf_counter()
    while len(times) < FEWEST_RUNS or (time.perf_counter() - begin < seconds and len(times) < MOST_RUNS):
        start = clock()
        engine.run()
        times.append(clock() - start)
    gc.enable()
    return times


def peak_memory() -> int:
    """The most bytes that this process has held in memory so far.

    `getrusage` will not do: a process inherits that peak from the one that started it.
    """
    return memory("VmHWM")


def reason(error: Exception) -> str:
    """The first and the last line of an error's text, for the middle of a chain of causes says little."""
    text = str(error).split("Stack backtrace")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    return f"{type(error).__name__}: " + " ... ".join(dict.fromkeys(line[:150] for line in (lines[0], lines[-1])))


if __name__ == "__main__":
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    # `python -m` runs this file as __main__; the classes that the race sends are those of bench.worker.
    from bench import worker

    worker.serve(Connection(int(sys.argv[1])))
