"""The lists of tests that are known to fail, and the report at the end of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from intaglio.conformance.report import Report
from intaglio.conformance.result import Result

LISTS = Path(__file__).parent / "known_failures"
ONNX = ".".join(onnx.__version__.split(".")[:2])
"""The version of onnx whose tests are run."""
TESTS = {"1.20": 1802}.get(ONNX, 2033)
"""How many tests that version has, at least."""
RANDOM = "random numbers"
"""The reason of tests whose numbers every implementation draws for itself: they pass where types and shapes are right,
and count as random, whether or not the numbers happen to be the same."""


def known_failures(engine: str) -> dict[str, str]:
    """The tests that are known to fail on an engine, each with its reason; older versions of onnx have some more."""
    return {name: reason for entries in failure_lists(engine) for name, reason in entries}


def failure_lists(engine: str) -> list[list[tuple[str, str]]]:
    """The list of an engine, and the one of an older onnx where this is one."""
    paths = LISTS / f"{engine}.txt", LISTS / f"onnx-{ONNX}.txt"
    texts = [path.read_text(encoding="utf-8").splitlines() for path in paths if path.exists()]
    return [[_entry(line) for line in lines if line.strip() and not line.startswith("#")] for lines in texts]


def _entry(line: str) -> tuple[str, str]:
    name, _, reason = line.partition(": ")
    return name, reason.strip()


def summary(stats: Mapping[str, list[Any]], with_table: bool) -> list[str]:
    """The report of each engine from the test reports of a run; the table of attributes for the first of them."""
    found: dict[str, list[Result]] = {}
    for reports in stats.values():
        for report in reports:
            properties = dict(getattr(report, "user_properties", ()))
            if "engine" in properties and report.when == "call":
                found.setdefault(properties["engine"], []).append(Result(**properties["result"]))
    lines: list[str] = []
    for index, (engine, results) in enumerate(sorted(found.items())):
        lines += Report(f"{engine} engine", results, engine == "native").lines(with_table and index == 0)
    return lines
