"""Loading with and without a compiler and a filled cache, and Ctrl-C at any moment of it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from tests import present

SOURCE_ROOT = str(Path(__file__).parents[2] / "src")
MOMENTS = 20

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is not None, reason="the ziglang package is always a compiler"
)

RUN = """
import sys
import numpy as np
import intaglio
model = intaglio.load(sys.argv[1], **eval(sys.argv[2]))
z = model(np.ones((2, 3), np.float32), np.ones(3, np.float32))
print(model.options.engine, z.tolist())
"""
RESULT = [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]


@pytest.fixture
def run(affine: onnx.ModelProto, tmp_path: Path) -> Callable[..., tuple[str, str]]:
    """Load and run a small model in a new process with a cache of its own; stdout and stderr."""
    path = tmp_path / "model.onnx"
    onnx.save(affine, path)

    def start(script: str = RUN, options: str = "{}", **environment: str) -> tuple[str, str]:
        process = subprocess.run(
            [sys.executable, "-c", script, str(path), options],
            env={**os.environ, "PYTHONPATH": SOURCE_ROOT, "INTAGLIO_CACHE": str(tmp_path / "cache"), **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        return process.stdout, process.stderr

    return start


NO_COMPILER = {"PATH": "/nonexistent", "CC": "", "INTAGLIO_ENGINE": ""}


def test_a_warm_cache_needs_no_compiler(run: Callable[..., tuple[str, str]]) -> None:
    assert run() == (f"native {RESULT}\n", "")
    assert run(**NO_COMPILER) == (f"native {RESULT}\n", "")


def test_without_compiler_and_cache_the_reference_runs_and_says_so(run: Callable[..., tuple[str, str]]) -> None:
    output, errors = run(**NO_COMPILER)
    assert output == f"reference {RESULT}\n"
    assert errors.count("\n") == 1
    assert "no C compiler" in errors
    assert "pip install ziglang" in errors


@pytest.mark.parametrize("options", ["{'engine': 'native'}", "{'strict': True}"])
def test_without_compiler_and_cache_what_was_asked_for_is_an_error(
    run: Callable[..., tuple[str, str]], options: str
) -> None:
    output, errors = run(options=options, **NO_COMPILER)
    assert output == ""
    assert "NoCompilerError" in errors
    assert "pip install ziglang" in errors


def test_another_output_without_a_compiler_names_the_remedy(run: Callable[..., tuple[str, str]]) -> None:
    run()
    script = RUN + "model.run({'x': z, 'y': z[0]}, outputs=['scaled'])\n"
    output, errors = run(script, **NO_COMPILER)
    assert output == f"native {RESULT}\n"
    assert "pip install ziglang" in errors


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
import intaglio
from intaglio.targets.c import cache

path, moments, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
x = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)

def empty_cache(name):
    os.environ["INTAGLIO_CACHE"] = os.path.join(folder, name)
    cache.default_cache.cache_clear()

empty_cache("first")
start = time.monotonic()
expected = intaglio.load(path)(x)
whole = time.monotonic() - start

def interrupt(delay, is_over):
    time.sleep(delay)
    os.kill(os.getpid(), signal.SIGINT)
    if not is_over.wait(60):
        print("the interrupt was lost", delay, flush=True)
        os._exit(1)

for moment in range(moments):
    empty_cache(str(moment))
    is_over = threading.Event()
    thread = threading.Thread(target=interrupt, args=(whole * moment / moments, is_over))
    try:
        thread.start()
        while True:
            intaglio.load(path)(x)
    except KeyboardInterrupt:
        is_over.set()
    thread.join()
    work = os.path.join(os.environ["INTAGLIO_CACHE"], "work")
    assert not os.path.exists(work) or not os.listdir(work), os.listdir(work)
    assert np.array_equal(intaglio.load(path)(x), expected), moment
print("all right", flush=True)
signal.raise_signal(signal.SIGINT)
"""


def small_network() -> onnx.ModelProto:
    """A matrix product with weights to pack, and a row kernel behind it, so that several units are compiled."""
    weight = helper.make_tensor("m", TensorProto.FLOAT, [8, 5], [((i * 29) % 13 - 6) / 20 for i in range(40)])
    nodes = [
        helper.make_node("MatMul", ["x", "m"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Softmax", ["b"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5])],
        [weight],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_ctrl_c_at_many_moments_harms_nothing(tmp_path: Path) -> None:
    real, log, compiler = present.compiler().command[0], tmp_path / "pids", tmp_path / "cc"
    compiler.write_text(f'#!/bin/sh\necho $$ >> {log}\nexec {real} "$@"\n')
    compiler.chmod(0o700)
    onnx.save(small_network(), tmp_path / "model.onnx")
    process = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path / "model.onnx"), str(MOMENTS), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": SOURCE_ROOT, "CC": str(compiler), "INTAGLIO_ENGINE": "native"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.stdout == "all right\n", process.stderr
    assert process.returncode == -2
    assert process.stderr.count("Traceback") == 1
    assert process.stderr.endswith("KeyboardInterrupt\n")
    pids = log.read_text().split()
    assert len(pids) > MOMENTS
    assert [pid for pid in pids if is_compiler(pid)] == []


def is_compiler(pid: str) -> bool:
    """Whether a process is alive, or dead and not waited for, and one of those that ran the compiler."""
    try:
        return "cc" in Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return False
