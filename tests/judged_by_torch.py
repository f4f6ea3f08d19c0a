"""How many tests PyTorch judged in a run: `--torch-tests N` fails a run in which fewer passed, or one was skipped."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

IMPORTS = re.compile(r'^\s*(import torch\b|from torch\b|.*importorskip\("torch"|.*\btorch_models import)', re.MULTILINE)


@functools.cache
def uses_torch(path: Path) -> bool:
    """Whether a file of tests imports PyTorch, or is of a folder of tests that all need it."""
    return path.parent.name == "torch" or bool(IMPORTS.search(path.read_text(encoding="utf-8")))


def faults(stats: Mapping[str, list[Any]], root: Path, least: int) -> list[str]:
    """What is wrong with the tests of PyTorch in a run, given its test reports."""
    passed = {r.nodeid for r in stats.get("passed", []) if r.when == "call" and uses_torch(root / r.location[0])}
    missing = [r for r in stats.get("skipped", []) if "torch" in reason(r).lower()]
    skipped = [r.nodeid for r in missing if uses_torch(root / r.nodeid.partition("::")[0])]
    lines = [f"skipped though PyTorch must be there: {name}" for name in sorted(skipped)]
    if len(passed) < least:
        lines.append(f"{len(passed)} tests passed that use PyTorch, and at least {least} must")
    return lines


def reason(report: Any) -> str:
    """Why a test, or the tests of a whole file, were skipped."""
    return str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
