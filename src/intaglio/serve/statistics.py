"""What was asked of a model and how long it took, in numbers that only grow."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

SECONDS = (1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


_COUNTS = ("inferences", "executions", "last")
_HISTOGRAMS = ("queue_seconds", "compute_seconds", "batch_rows")


class Histogram:
    """Counts of values by the least bound that they do not exceed; the last count is of those above all bounds."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float, count: int = 1) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.total += value * count


class Duration:
    """How often something was done, and the nanoseconds of all times together."""

    __slots__ = ("count", "ns")

    def __init__(self) -> None:
        self.count = self.ns = 0

    def add(self, ns: int, count: int = 1) -> None:
        """Add times that took so long together."""
        self.count += count
        self.ns += ns

    def fields(self) -> dict[str, int]:
        """The protocol's object."""
        return {"count": self.count, "ns": self.ns}


class Statistics:
    """The numbers of one version of a model. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.success, self.fail, self.queue = Duration(), Duration(), Duration()
        self.infer, self.join, self.split = Duration(), Duration(), Duration()
        self.batches: dict[int, Duration] = {}
        self.inferences = self.executions = 0
        self.rejected: dict[int, int] = {}
        self.last = 0
        self.queue_seconds, self.compute_seconds = Histogram(SECONDS), Histogram(SECONDS)
        self.batch_rows = Histogram(ROWS)

    def ran(self, rows: int, waited: list[int], infer: int, join: int = 0, split: int = 0) -> None:
        """Count one run of some rows for as many requests as `waited` has times; all times are nanoseconds."""
        count = len(waited)
        with self._lock:
            self.inferences += count
            self.executions += 1
            self.last = int(time.time() * 1000)
            self.infer.add(infer * count, count)
            self.join.add(join * count, count)
            self.split.add(split * count, count)
            self.batches.setdefault(rows, Duration()).add(infer)
            self.compute_seconds.add(infer / 1e9)
            self.batch_rows.add(rows)
            for ns in waited:
                self.queue.add(ns)
                self.queue_seconds.add(ns / 1e9)

    def answered(self, ns: int, is_success: bool) -> None:
        """Count a request that was answered after so many nanoseconds."""
        with self._lock:
            (self.success if is_success else self.fail).add(ns)

    def refused(self, status: int) -> None:
        """Count a request that was not taken."""
        with self._lock:
            self.rejected[status] = self.rejected.get(status, 0) + 1

    def numbers(self) -> dict[str, Any]:
        """All numbers as data, which `with_numbers` takes."""
        with self._lock:
            found: dict[str, Any] = {name: getattr(self, name) for name in _COUNTS}
            found |= {name: [each.count, each.ns] for name, each in self._durations().items()}
            found["batches"] = {rows: [each.count, each.ns] for rows, each in self.batches.items()}
            found["rejected"] = dict(self.rejected)
            for name in _HISTOGRAMS:
                each: Histogram = getattr(self, name)
                found[name] = [*each.counts, each.total]
            return found

    def with_numbers(self, numbers: Mapping[str, Any]) -> Statistics:
        """These numbers and those of another process together."""
        ours, found = added(self.numbers(), numbers), Statistics()
        for name in _COUNTS:
            setattr(found, name, ours[name])
        for name, each in found._durations().items():
            each.count, each.ns = ours[name]
        for rows, (count, ns) in ours["batches"].items():
            found.batches.setdefault(rows, Duration()).add(ns, count)
        found.rejected = ours["rejected"]
        for name in _HISTOGRAMS:
            histogram: Histogram = getattr(found, name)
            *histogram.counts, histogram.total = ours[name]
        return found

    def _durations(self) -> dict[str, Duration]:
        return {name: getattr(self, name) for name in ("success", "fail", "queue", "infer", "join", "split")}

    def fields(self) -> dict[str, Any]:
        """The protocol's object, without the name of the model."""
        with self._lock:
            parts = {"success": self.success, "fail": self.fail, "queue": self.queue, "compute_input": self.join}
            parts |= {"compute_infer": self.infer, "compute_output": self.split}
            none = Duration().fields()
            batches = [
                {"batch_size": rows, "compute_input": none, "compute_infer": times.fields(), "compute_output": none}
                for rows, times in sorted(self.batches.items())
            ]
            return {
                "last_inference": self.last,
                "inference_count": self.inferences,
                "execution_count": self.executions,
                "inference_stats": {name: each.fields() for name, each in parts.items()},
                "batch_stats": batches,
            }


def added(*given: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers of several processes as one: numbers are added, the last moment is the latest one."""
    found: dict[str, Any] = {}
    for each in given:
        for name, value in each.items():
            if isinstance(value, Mapping):
                found[name] = added(found.get(name, {}), value)
            elif isinstance(value, list):
                before: list[Any] = found.get(name) or [0] * len(value)
                found[name] = [a + b for a, b in zip(before, value, strict=True)]
            else:
                found[name] = max(found.get(name, 0), value) if name == "last" else found.get(name, 0) + value
    return found
