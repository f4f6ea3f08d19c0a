"""Traces: W3C's trace context, and what the kernels of one request did."""

from __future__ import annotations

import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from intaglio.runtime.model.trace import trace_events
from intaglio.serve.served import Served

MOST_SPANS = 4096
KEPT_TRACES = 32

_PARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")


def trace_id_of(header: str | None) -> str:
    """The id of the trace that a request belongs to: that of its `traceparent`, else a new one."""
    match = _PARENT.fullmatch(header) if header else None
    found = match[1] if match is not None and set(match[1]) != {"0"} and set(match[2]) != {"0"} else ""
    return found or secrets.token_hex(16)


def parent_of(trace_id: str) -> str:
    """A `traceparent` for what this server did in a trace."""
    return f"00-{trace_id}-{secrets.token_hex(8)}-01"


class Traces:
    """The last traces of kernels, by their ids."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def keep(self, trace_id: str, trace: dict[str, Any]) -> None:
        """Keep a trace; the oldest one goes where there are too many."""
        self._kept[trace_id] = trace
        while len(self._kept) > KEPT_TRACES:
            self._kept.popitem(last=False)

    def find(self, trace_id: str) -> dict[str, Any] | None:
        """A trace that is kept."""
        return self._kept.get(trace_id)


def traced_run(
    served: Served, inputs: Mapping[str, Any], timeout: float | None
) -> tuple[Sequence[Any], dict[str, Any]]:
    """The outputs of a run, and its kernels as events for Chrome's tracing.

    The model runs once before, so that what a first run prepares is not in the trace.
    """
    feeds = {name: inputs[name] for name in inputs}
    served.model.run(feeds, timeout=timeout)
    start = time.monotonic_ns()
    with served.model.count(feeds, most_spans=MOST_SPANS) as counts:
        results = served.model.run(feeds, timeout=timeout)
    events = list(trace_events(counts, start))
    return list(results.values()), {"traceEvents": events, "displayTimeUnit": "ms"}
