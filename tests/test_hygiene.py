"""The tests themselves: the same numbers in each run, interrupts that a shell ignores, time limits that end C code."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

TESTS = Path(__file__).parent
ROOT = TESTS.parent

INTERRUPTED = """
import subprocess, sys, time
CODE = "import time; print('ready', flush=True); time.sleep(3600)"

def test_a_child_is_interrupted():
    process = subprocess.Popen([sys.executable, "-c", CODE], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    process.send_signal(2)
    assert b"KeyboardInterrupt" in process.communicate()[1]
"""

HANGS = """
import ctypes, pytest

@pytest.mark.timeout(1)
def test_hangs_in_c():
    ctypes.CDLL(None).sleep(3600)
"""


def run_tests(folder: Path, text: str, is_ignoring: bool) -> subprocess.CompletedProcess[str]:
    """Pytest with our settings, and with what our conftest does of interrupts, on one file."""
    (folder / "test_it.py").write_text(text)
    start = "from tests.interrupts import restore_interrupts\ndef pytest_configure():\n    restore_interrupts()\n"
    (folder / "conftest.py").write_text(start)
    code = "import os, signal, sys\n" + ("signal.signal(signal.SIGINT, signal.SIG_IGN)\n" if is_ignoring else "")
    code += "os.execv(sys.executable, [sys.executable, '-m', 'pytest', *sys.argv[1:]])"
    arguments = [
        "-c",
        str(ROOT / "pyproject.toml"),
        "--rootdir",
        str(ROOT),
        "-p",
        "no:cacheprovider",
        "-q",
        str(folder),
    ]
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_children_are_interrupted_where_a_shell_ignores_interrupts(tmp_path: Path) -> None:
    found = run_tests(tmp_path, INTERRUPTED, is_ignoring=True)
    assert found.returncode == 0, found.stdout + found.stderr


def test_a_test_that_hangs_in_c_is_ended(tmp_path: Path) -> None:
    found = run_tests(tmp_path, HANGS, is_ignoring=False)
    assert found.returncode != 0
    assert "Timeout" in found.stdout + found.stderr


def test_every_test_has_a_time_limit(request: pytest.FixtureRequest) -> None:
    assert float(request.config.getini("timeout")) > 0
    assert request.config.getini("timeout_method") == "thread"
    assert signal.getsignal(signal.SIGINT) != signal.SIG_IGN


def test_no_test_asserts_a_time() -> None:
    """A busy machine makes tests slow; what must not take for ever has the time limit of its test."""
    clock = re.compile(r"assert\b.*\b(perf_counter|monotonic|process_time|time\.time)\(")
    found = [path.name for path in TESTS.rglob("*.py") if path != Path(__file__) and clock.search(path.read_text())]
    assert found == []


C_TEXT = re.compile(
    r"\big_\w+\(|\b(u?int(8|16|32|64)_t|__builtin_\w+|uintptr_t)\b"
    r"|#(include|define|ifdef|pragma) |\bstatic (inline )?void\b"
)


def test_c_stands_only_in_targets_and_exporters() -> None:
    """What decides what runs knows no C: that is the business of the folders whose printers write it."""
    package = ROOT / "src" / "intaglio"
    writers = (package / "targets", package / "emit")
    files = [path for path in package.rglob("*.py") if not any(folder in path.parents for folder in writers)]
    assert len(files) > 200
    lines = [
        f"{path.relative_to(package)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if C_TEXT.search(line)
    ]
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize("run", [1, 2])
def test_each_test_draws_the_same_numbers(run: int) -> None:
    assert settings().derandomize
    assert random.random() == random.Random(0).random()
    assert np.random.random() == np.random.RandomState(0).random_sample()
    was_imported = "torch" in sys.modules
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if was_imported:  # only then was it seeded before this test
        assert torch.rand(1) == torch.rand(1, generator=torch.Generator().manual_seed(0))
