"""Reads one model after the other under limits and prints what came of each; run as a process of its own."""

import json
import os
import resource
import signal
import sys
import time
from types import FrameType

import numpy as np

from intaglio.errors import IntaglioError
from intaglio.onnx.reader import read_model
from intaglio.onnx.writer import write_model

FORBIDDEN = ("socket.", "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "ctypes.", "pickle.")
CPU_SECONDS = 20
WALL_SECONDS = 500
MEMORY = 4 * 2**30


class TooLongError(BaseException):
    """Not an Exception, so that nothing but the loop below can catch it."""


def stop(number: int, frame: FrameType | None) -> None:
    raise TooLongError


def guard(event: str, _: object) -> None:
    if event.startswith(FORBIDDEN):
        print(json.dumps({"outcome": "forbidden", "text": event}), flush=True)
        raise SystemExit(3)


def read(path: str) -> dict[str, str]:
    try:
        imported = read_model(path)
        write_model(imported.graph, imported.info)
    except IntaglioError as error:
        return {"outcome": type(error).__name__, "text": str(error)}
    except TooLongError:
        return {"outcome": "too long", "text": ""}
    except BaseException as error:
        return {"outcome": f"unexpected {type(error).__name__}", "text": str(error)}
    constants = [np.asarray(value.constant).tobytes()[:200].hex() for value in imported.graph.constants()]
    return {"outcome": "ok", "text": " ".join([*imported.info.warnings, *constants])}


def main() -> None:
    if os.environ.get("INTAGLIO_SANITIZE") != "1":  # the sanitizer reserves terabytes and limits what is used itself
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, stop)
    signal.signal(signal.SIGPROF, stop)
    sys.addaudithook(guard)
    for path in sys.stdin.read().split("\0"):
        signal.alarm(WALL_SECONDS)
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        started = time.process_time()
        result = read(path)
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps({"path": path, **result, "seconds": time.process_time() - started}), flush=True)


if __name__ == "__main__":
    main()
