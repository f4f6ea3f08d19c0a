"""The interpreter of docs/turing.md computes on both engines, and on ONNX Runtime."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from intaglio.errors import RunTimeoutError

EXAMPLE = Path(__file__).parent.parent / "examples" / "turing.py"
MULTIPLY = ",>,<[>[>+>+<<-]>>[<<+>>-]<<<-]>>."
REVERSE = ">,[>,]<[.<]"

spec = importlib.util.spec_from_file_location("turing", EXAMPLE)
assert spec is not None
assert spec.loader is not None
turing = importlib.util.module_from_spec(spec)
spec.loader.exec_module(turing)

Run = Callable[..., Any]


def runtime() -> Run:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    model = turing.interpreter().to_onnx().SerializeToString()
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    return lambda program, given: session.run(None, {"program": program, "input": given})


@pytest.fixture(scope="module", params=["reference", "native", "onnxruntime"])
def model(request: pytest.FixtureRequest) -> Run:
    return runtime() if request.param == "onnxruntime" else turing.interpreter().model(engine=request.param)


def test_prints_text(model: Run) -> None:
    assert turing.run(model, turing.HELLO) == ("Hello World!\n", 906)


@pytest.mark.parametrize(("left", "right"), [(6, 7), (0, 5)])
def test_multiplies(model: Run, left: int, right: int) -> None:
    assert turing.run(model, MULTIPLY, chr(left) + chr(right))[0] == chr(left * right % 256)


def test_reads_until_the_input_ends(model: Run) -> None:
    assert turing.run(model, REVERSE, "tape")[0] == "epat"


@pytest.mark.parametrize("program", ["", "[[-]>,]", "+-"])
def test_prints_nothing(model: Run, program: str) -> None:
    assert turing.run(model, program)[0] == ""


def test_the_tape_grows_at_both_ends(model: Run) -> None:
    _, memory, steps = model(*(np.frombuffer(text, np.uint8).astype(np.int64) for text in (b"<<<+>>>>>+", b"")))
    assert memory.tolist() == [1, 0, 0, 0, 0, 1]
    assert steps == 10


def test_cells_wrap_around(model: Run) -> None:
    assert turing.run(model, "-.+.")[0] == "\xff\x00"


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_program_that_never_ends_is_stopped(engine: str) -> None:
    model = turing.interpreter().model(engine=engine)
    program = np.frombuffer(b"+[]", np.uint8).astype(np.int64)
    with pytest.raises(RunTimeoutError):
        model.run({"program": program, "input": np.zeros(0, np.int64)}, timeout=0.5)


def test_the_example_is_a_program() -> None:
    done = subprocess.run([sys.executable, EXAMPLE, ",+.", "A"], capture_output=True, text=True, check=True)
    assert done.stdout == "B(3 steps)\n"
