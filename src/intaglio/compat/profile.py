"""The profile of a session: what it did and when, in the format of Chrome's tracing."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from intaglio.errors import InputError
from intaglio.runtime.model.model import Model

MOST_SPANS = 100_000
"""Events of a run at most."""


class Profile:
    """The spans of one session: its loading, its runs, and the kernels and host nodes of the runs."""

    def __init__(self, prefix: str) -> None:
        self.start_ns = time.monotonic_ns()
        moment = time.strftime("%Y-%m-%d_%H-%M-%S")
        self._path = f"{prefix}_{moment}_{time.time_ns() // 1_000_000 % 1000}.json"
        self._events: list[dict[str, Any]] = []
        self._is_over = False

    @contextmanager
    def span(self, name: str, **arguments: Any) -> Generator[None]:
        """Note how long the block takes."""
        begin = time.monotonic_ns()
        try:
            yield
        finally:
            if not self._is_over:
                self._events.append(
                    {
                        "cat": "Session",
                        "pid": os.getpid(),
                        "tid": threading.get_native_id(),
                        "dur": (time.monotonic_ns() - begin) // 1000,
                        "ts": (begin - self.start_ns) // 1000,
                        "ph": "X",
                        "name": name,
                        "args": arguments,
                    }
                )

    @contextmanager
    def nodes(self, model: Model, feeds: Mapping[str, Any]) -> Generator[None]:
        """Note how long each kernel and host node of the runs in the block takes, where that can be counted."""
        if self._is_over or model.options.engine != "native":
            yield
            return
        from intaglio.runtime.model.trace import trace_events  # which needs all that lowers models

        with model.count(feeds, most_spans=MOST_SPANS) as counts:
            yield
        self._events += trace_events(counts, self.start_ns)

    def end(self) -> str:
        """Write the file, once; returns its path."""
        if not self._is_over:
            self._is_over = True
            try:
                Path(self._path).write_text(json.dumps(self._events, indent=1))
            except OSError as error:
                raise InputError(f"the profile {self._path!r} cannot be written: {error.strerror}") from error
        return self._path
