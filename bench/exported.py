"""The models of the benchmark as cases of `intaglio conformance --export LANGUAGE --cases bench.exported`.

Each is exported, built or imported, and run on the inputs of the race; its answer is compared with that of the
reference engine, within the model's tolerance.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

import intaglio
from bench.models import BenchModel, select
from bench.race import relative_error
from intaglio.conformance.result import Result
from intaglio.conformance.suite import Subject, reason_of


@dataclass(frozen=True)
class BenchCase:
    """One model with the inputs of the race."""

    bench: BenchModel

    def model(self) -> str:
        """The path of the model's file."""
        return str(self.bench.path())

    def run(self, subject: Subject) -> tuple[Result, Exception | None]:
        """Export, run and compare; the reason of a result that passed is its error."""
        subject.prepared.clear()
        begin, error, reason = time.perf_counter(), None, ""
        try:
            reason = f"error {self._error(subject):.1e}"
        except Exception as caught:  # whatever an export raises is a result
            error, reason = caught, reason_of(caught)
        outcome = "passed" if error is None else "failed"
        return Result(self.bench.name, outcome, reason, seconds=time.perf_counter() - begin), error

    def _error(self, subject: Subject) -> float:
        feeds = self.bench.feeds(1)
        prepared = subject.prepare(self.model())
        judge = intaglio.load(self.model(), engine="reference")
        found = prepared.run([feeds[port.name] for port in judge.inputs])
        expected = list(judge.run(feeds).values())
        error = relative_error([np.asarray(item) for item in found], expected)
        assert error <= self.bench.tolerance, f"error {error:.1e}, expected at most {self.bench.tolerance:.0e}"
        return error


def cases() -> dict[str, BenchCase]:
    """A case for each model of the race."""
    return {model.name: BenchCase(model) for model in select([])}
