"""Hostile models are read by another process, with limits on its memory and time."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

CHILD = Path(__file__).with_name("child.py")


@dataclass(frozen=True)
class Outcome:
    """What reading a model ended with: `ok`, the name of our exception, or worse, and the processor time it took."""

    outcome: str
    text: str
    seconds: float


ReadAll = Callable[[dict[str, Path]], dict[str, Outcome]]


def read_all(cases: dict[str, Path]) -> dict[str, Outcome]:
    checks = f"{os.environ.get('ASAN_OPTIONS', '')}:hard_rss_limit_mb=4096"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "ASAN_OPTIONS": checks}
    done = subprocess.run(
        [sys.executable, str(CHILD)],
        input="\0".join(str(path) for path in cases.values()).encode(),
        capture_output=True,
        timeout=300,
        env=environment,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    found = {line["path"]: Outcome(line["outcome"], line["text"], line["seconds"]) for line in lines if "path" in line}
    crash = Outcome(f"died with {done.returncode}", done.stderr.decode()[-2000:], 0.0)
    return {name: found.get(str(path), crash) for name, path in cases.items()}


@pytest.fixture(scope="session")
def read_hostile() -> ReadAll:
    return read_all
