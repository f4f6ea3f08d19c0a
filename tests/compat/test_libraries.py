"""Libraries written for ONNX Runtime give its answers on Intaglio, unmodified.

They run in processes of their own, with the interpreter that has them: the one of `make libraries`, or this one. All of
them at once: `make check-libraries`.
"""

from __future__ import annotations

import functools
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.compat.libraries import CASES, MODULES

ROOT = Path(__file__).parents[2]
OWN = ROOT / "build" / "libraries" / "bin" / "python"
HEAVY = {"rapidocr_1", "rapidocr_3", "ddddocr", "optimum", "faster_whisper", "insightface", "onnxtr"}
"""What takes long or needs much that is installed."""

NEEDS_TORCH = {"silero_vad", "optimum"}

FIND = "import sys, importlib.util; sys.exit(not all(importlib.util.find_spec(name) for name in sys.argv[1:]))"


@functools.cache
def interpreter(*modules: str) -> str | None:
    """The interpreter that has modules."""
    for python in (os.environ.get("INTAGLIO_LIBRARIES"), str(OWN), sys.executable):
        if python and Path(python).exists():
            done = subprocess.run([python, "-c", FIND, *modules], capture_output=True, check=False, timeout=60)
            if done.returncode == 0:
                return python
    return None


def answers(python: str, name: str, runtime: str) -> Any:
    """What a library says on one of the two runtimes."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "ORT_DISABLE_TELEMETRY": "1",
                   "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}  # fmt: skip
    done = subprocess.run(
        [python, "-m", "tests.compat.libraries", name, runtime],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, f"{name} on {runtime}:\n{done.stderr[-4000:]}"
    return json.loads(done.stdout.splitlines()[-1])


def differences(ours: Any, theirs: Any, place: str = "") -> list[str]:
    """Where two answers differ by more than rounding."""
    if isinstance(theirs, list):
        if not isinstance(ours, list) or len(ours) != len(theirs):
            return [f"{place}: {ours} instead of {theirs}"]
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [text for index, (a, b) in pairs for text in differences(a, b, f"{place}[{index}]")]
    if isinstance(theirs, dict):
        return differences(sorted(ours.items()), sorted(theirs.items()), place)
    if isinstance(theirs, float):
        is_close = math.isclose(ours, theirs, rel_tol=2e-4, abs_tol=2e-4)
        return [] if is_close else [f"{place}: {ours} instead of {theirs}"]
    return [] if ours == theirs else [f"{place}: {ours!r} instead of {theirs!r}"]


def is_empty(answer: Any) -> bool:
    """Whether a library said nothing at all."""
    return all(map(is_empty, answer)) if isinstance(answer, list) else False


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in HEAVY else []) for name in CASES]
)
def test_a_library_gives_the_answers_of_onnx_runtime(name: str) -> None:
    needed = [MODULES.get(name, name), *(["torch"] if name in NEEDS_TORCH else [])]
    python = interpreter(*needed)
    if python is None:
        pytest.skip(f"{' or '.join(needed)} is not installed; `make libraries` installs all but torch")
    ours, theirs = answers(python, name, "intaglio"), answers(python, name, "onnxruntime")
    assert not is_empty(theirs)
    assert not differences(ours, theirs)


def test_answers_that_differ_are_seen() -> None:
    answer = [["a", 1.0, {"b": 2}], []]
    assert not differences(answer, [["a", 1.00001, {"b": 2}], []])
    for other in ([["c", 1.0, {"b": 2}], []], [["a", 1.1, {"b": 2}], []], [["a", 1.0, {"b": 3}], []], [["a", 1.0], []]):
        assert differences(answer, other)
