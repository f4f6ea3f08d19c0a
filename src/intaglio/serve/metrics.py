"""Metrics for Prometheus, made of the statistics when somebody asks for them: requests pay nothing for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from prometheus_client import CONTENT_TYPE_LATEST as CONTENT_TYPE
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from intaglio.serve.described import statistics_of
from intaglio.serve.statistics import Histogram

if TYPE_CHECKING:
    from intaglio.serve.service import Service

__all__ = ["CONTENT_TYPE", "metrics_text"]

_LABELS = ("model", "version")


def metrics_text(service: Service, others: Mapping[str, Any]) -> bytes:
    """All metrics as Prometheus reads them, with the statistics of the server's other processes."""
    registry = CollectorRegistry()
    registry.register(_Metrics(service, others))
    return generate_latest(registry)


class _Metrics(Collector):
    def __init__(self, service: Service, others: Mapping[str, Any]) -> None:
        self._service, self._others = service, others

    def describe(self) -> Iterator[Any]:
        """Nothing: the names are those that `collect` yields."""
        return iter(())

    def collect(self) -> Iterator[Any]:
        """The metrics of the server and of each model that is loaded."""
        service, others = self._service, self._others
        memory, in_flight = service.memory + others.get("memory", 0), service.in_flight + others.get("in_flight", 0)
        yield GaugeMetricFamily("intaglio_body_bytes", "Bytes of the bodies in the server.", value=memory)
        yield GaugeMetricFamily("intaglio_in_flight", "Requests that are waited for.", value=in_flight)
        requests = CounterMetricFamily("intaglio_requests", "Answered requests.", labels=(*_LABELS, "outcome"))
        runs = CounterMetricFamily("intaglio_runs", "Runs of the engine.", labels=_LABELS)
        waiting = GaugeMetricFamily("intaglio_queue_length", "Requests that wait.", labels=_LABELS)
        rejected = CounterMetricFamily("intaglio_rejected", "Requests not taken.", labels=(*_LABELS, "status"))
        queue = HistogramMetricFamily("intaglio_queue_seconds", "Time in the queue.", labels=_LABELS)
        compute = HistogramMetricFamily("intaglio_compute_seconds", "Time of one run.", labels=_LABELS)
        rows = HistogramMetricFamily("intaglio_batch_rows", "Rows of one run.", labels=_LABELS)
        for entry in service.repository.entries():
            if entry.lane is None:
                continue
            found = statistics_of(entry, entry.lane, others.get("models", {}))
            labels = [entry.name, entry.version]
            requests.add_metric([*labels, "success"], found.success.count)
            requests.add_metric([*labels, "failure"], found.fail.count)
            runs.add_metric(labels, found.executions)
            waiting.add_metric(labels, entry.lane.waiting)
            for status, count in list(found.rejected.items()):
                rejected.add_metric([*labels, str(status)], count)
            _add(queue, labels, found.queue_seconds)
            _add(compute, labels, found.compute_seconds)
            _add(rows, labels, found.batch_rows)
        yield from (requests, runs, waiting, rejected, queue, compute, rows)


def _add(family: HistogramMetricFamily, labels: list[str], histogram: Histogram) -> None:
    """Add a histogram; Prometheus wants counts of all values up to each bound."""
    below, buckets = 0, list[tuple[str, float]]()
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        below += count
        buckets.append(("+Inf" if bound == float("inf") else str(float(bound)), below))
    family.add_metric(labels, buckets, histogram.total)
