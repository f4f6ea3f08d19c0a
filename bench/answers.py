"""One engine with one model in a process of its own, which answers whatever inputs it is sent.

`bench.check` starts `python -m bench.answers FD` and speaks over the socket FD: first the job, answered by the declared
shapes of the inputs; then inputs, each answered by the outputs or by why there are none; at last None, answered by what
the engine did besides.
"""

import os
import sys
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np

from bench.peers import Feeds, Intaglio, Judge
from bench.worker import Failed, Job, reason

Shapes = dict[str, list[Any]]


class Reference(Intaglio):
    """Intaglio's engine in NumPy."""

    title = "Intaglio, reference engine"
    engine = "reference"


class Loaded(NamedTuple):
    """The first answer: for each input its sizes, where those that are open are names or None."""

    shapes: Shapes


class Outputs(NamedTuple):
    """The outputs in the model's order, and how many plans were compiled to have them."""

    arrays: list[np.ndarray]
    plans: int


class Totals(NamedTuple):
    """The last answer: how many nodes ran on the host, in all runs together."""

    host_runs: int


def serve(connection: Connection) -> None:
    """Load, answer all inputs, and tell what ran on the host."""
    plans = _count_plans()
    try:
        job: Job = connection.recv()
        engine = job.kind(job.path, job.threads, job.feeds)
    except Exception as error:  # whatever an engine raises is a result
        connection.send(Failed(reason(error)))
        return
    connection.send(Loaded(_shapes(engine)))
    while (feeds := connection.recv()) is not None:
        connection.send(_answer(engine, feeds, plans))
    connection.send(Totals(engine.model.host_runs if isinstance(engine, Intaglio) else 0))


def _answer(engine: Any, feeds: Feeds, plans: list[int]) -> Outputs | Failed:
    before = len(plans)
    engine.feeds = feeds
    try:
        outputs = [np.array(output) for output in engine.run()]
    except Exception as error:  # whatever an engine raises is a result
        return Failed(reason(error))
    return Outputs(outputs, len(plans) - before)


def _shapes(engine: Any) -> Shapes:
    """What the judge says of its inputs; nothing of other engines."""
    return {item.name: item.shape for item in engine.session.get_inputs()} if isinstance(engine, Judge) else {}


def _count_plans() -> list[int]:
    """A list that gets an item whenever our native engine makes a plan ready, whether compiled now or kept on disk."""
    from intaglio.runtime.engine.native import NativeEngine
    from intaglio.targets.c.cache import Progress

    made: list[int] = []
    load = NativeEngine.load

    def counted(self: NativeEngine, progress: Progress | None = None) -> NativeEngine:
        made.append(len(made))
        return load(self, progress)

    NativeEngine.load = counted
    return made


def main(descriptor: int) -> None:
    """Serve on a socket."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    serve(Connection(descriptor))


if __name__ == "__main__":
    # `python -m` runs this file as __main__; the classes that are sent are those of bench.answers.
    from bench import answers

    answers.main(int(sys.argv[1]))
