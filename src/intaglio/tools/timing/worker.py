"""One engine with one model in a process of its own, so that a crash, spinning threads or memory stay there.

`python -m intaglio.tools.timing.worker` reads questions from standard input and answers on standard output: first the
job, answered by the outputs; then a number of seconds for each burst of runs, answered by the times; at last None,
answered by the peak of memory. What the engine itself prints goes to standard error.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

FEWEST_RUNS, MOST_RUNS = 3, 100_000
"""Of one burst."""


@dataclass(frozen=True)
class Job:
    """What a worker is to load."""

    engine: str
    path: str
    threads: int
    feeds: dict[str, Any]


@dataclass(frozen=True)
class Ready:
    """The first answer: the outputs, and the seconds that loading and the first run took; or why there are none."""

    outputs: list[Any]
    load_seconds: float = 0.0
    failure: str = ""


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Load, answer every burst, and report the memory."""

    def answer(message: Any) -> None:
        pickle.dump(message, answers)
        answers.flush()

    try:
        run, ready = _load(pickle.load(questions))
    except Exception as error:  # whatever an engine raises is a result
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
        answer(Ready([], failure=f"{type(error).__name__}: {lines[0][:300]}"))
        return
    answer(ready)
    while (seconds := pickle.load(questions)) is not None:
        answer(_burst(run, seconds))
    answer(peak_memory())


def _load(job: Job) -> tuple[Callable[[], list[Any]], Ready]:
    from intaglio.tools.timing.engines import ENGINES

    engine = ENGINES[job.engine]
    __import__(engine.module)  # the import is not part of loading a model
    start = time.perf_counter()
    run = engine.open(job.path, job.threads, job.feeds)
    outputs = run()
    seconds = time.perf_counter() - start
    return run, Ready([np.array(each) if isinstance(each, np.ndarray) else each for each in outputs], seconds)


def _burst(run: Callable[[], list[Any]], seconds: float) -> list[float]:
    """Times of single runs until `seconds` have passed, after one run that brings the caches back."""
    run()
    times: list[float] = []
    gc.disable()
    begin = time.perf_counter()
    while len(times) < FEWEST_RUNS or (time.perf_counter() - begin < seconds and len(times) < MOST_RUNS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    gc.enable()
    return times


def peak_memory() -> int:
    """The most bytes that this process has held in memory so far; 0 where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main() -> None:
    """Serve on the standard streams."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # run by `python -m` this file is `__main__`; the classes that are sent are those of the module
    from intaglio.tools.timing import worker

    worker.serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
