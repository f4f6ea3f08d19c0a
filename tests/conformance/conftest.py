"""The coverage report at the end of a run of the conformance suite."""

from __future__ import annotations

from typing import Any

import pytest
from _pytest.terminal import TerminalReporter

from .report import Coverage

COUNTED = {"passed": "passed", "failed": "failed", "xfailed": "known"}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "onnx_coverage: set by ONNX's own suite")


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print the report of each engine, the table of attributes for the first of them."""
    coverages = _coverages(terminalreporter.stats)
    is_verbose = terminalreporter.config.get_verbosity() >= 0
    for index, (engine, coverage) in enumerate(sorted(coverages.items())):
        for line in coverage.lines(engine, with_table=is_verbose and index == 0):
            terminalreporter.write_line(line)


def _coverages(stats: dict[str, list[Any]]) -> dict[str, Coverage]:
    found: dict[str, Coverage] = {}
    for outcome, counted in COUNTED.items():
        for report in stats.get(outcome, []):
            properties = dict(getattr(report, "user_properties", ()))
            if "engine" not in properties:
                continue
            coverage = found.setdefault(properties["engine"], Coverage())
            coverage.counts[counted] += 1
            coverage.counts["compiled"] += bool(properties.get("is_compiled"))
            coverage.add(properties["usage"], outcome == "passed")
    return found
