"""Counted runs in the format of Chrome's tracing, which Perfetto reads too."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

from intaglio.runtime.engine.counting import Span
from intaglio.runtime.model.counting import CountedRow, Counts

PROVIDER = "CPUExecutionProvider"
"""What ONNX Runtime calls those who compute; there is one here."""


def trace_events(counts: Counts, start_ns: int) -> Iterator[dict[str, Any]]:
    """An event for each span, with times in microseconds since `start_ns` of the monotonic clock."""
    for span in counts.spans:
        yield _event(span, counts.rows[span.row], start_ns)


def _event(span: Span, row: CountedRow, start_ns: int) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "op_name": "+".join(row.operators) or row.kind,
        "provider": PROVIDER,
        "node_index": str(span.row),
        "kind": row.kind,
        "kernel": row.kernel,
        "nodes": list(row.nodes),
    }
    arguments |= {name: value for name, value in (("flops", row.flops), ("bytes", row.bytes)) if value is not None}
    return {
        "cat": "Node",
        "pid": os.getpid(),
        "tid": threading.get_native_id(),
        "dur": round((span.end - span.begin) / 1000, 3),
        "ts": round((span.begin - start_ns) / 1000, 3),
        "ph": "X",
        "name": f"{row.nodes[0] if row.nodes else row.title}_kernel_time",
        "args": arguments,
    }
