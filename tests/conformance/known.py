"""The lists of tests that are known to fail, and the report at the end of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from intaglio.conformance.report import Report
from intaglio.conformance.result import Result

LISTS = Path(__file__).parent / "known_failures"
RANDOM = "random numbers"
"""The reason of tests whose numbers every implementation draws for itself: by chance such a test may pass."""


def known_failures(engine: str) -> dict[str, str]:
    """The tests that are known to fail on an engine, each with its reason; older versions of onnx have some more."""
    older = LISTS / f"onnx-{'.'.join(onnx.__version__.split('.')[:2])}.txt"
    texts = [path.read_text(encoding="utf-8") for path in (LISTS / f"{engine}.txt", older) if path.exists()]
    lines = [line for text in texts for line in text.splitlines()]
    entries = [line.partition(": ") for line in lines if line.strip() and not line.startswith("#")]
    return {name: reason.strip() for name, _, reason in entries}


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
