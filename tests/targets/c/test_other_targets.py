"""Generated C on processors that this machine is not: the official suite's tests of one segment, cross-compiled."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tests.present import compiler

from intaglio.conformance.suite import Case, cases
from intaglio.errors import IntaglioError
from intaglio.onnx.reader import read_model
from intaglio.passes import simplify
from intaglio.targets.c.compiler import Compiler, _probe
from intaglio.targets.c.target import TARGETS, Target

from .standalone import NotAlone, SegmentRun, Toolchain, segment

FEW = (
    "softmax_axis_1",
    "nonzero_example",
    "scan9_sum",
    "conv_with_strides_padding",
    "cast_FLOAT_to_FLOAT16",
    "unique_sorted",
)
"""Tests that need all that the runtime's side of a call has: scratch, late sizes, loops."""

CHOSEN = os.environ.get("INTAGLIO_TARGETS_FILTER", "")
"""Only tests whose names have this in them, for work on one of them."""


def zig(triple: str) -> Compiler:
    """The compiler of the `ziglang` package for another system."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("the package ziglang is missing: `pip install ziglang`")
    compiler = _probe((sys.executable, "-m", "ziglang", "cc", "-target", triple))
    assert compiler is not None
    return compiler


def run_process(*command: str) -> Any:
    def run(program: Path, first: int, data: bytes) -> bytes:
        return subprocess.run((*command, str(program), str(first)), input=data, capture_output=True, check=False).stdout

    return run


def run_wasm(program: Path, first: int, data: bytes) -> bytes:
    wasmtime = pytest.importorskip("wasmtime", reason="the package wasmtime is missing: `pip install wasmtime`")
    engine = wasmtime.Engine()
    module, linker, store = (
        wasmtime.Module.from_file(engine, str(program)),
        wasmtime.Linker(engine),
        wasmtime.Store(engine),
    )
    linker.define_wasi()
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder, "given"), Path(folder, "made")
        given.write_bytes(data)
        config = wasmtime.WasiConfig()
        config.argv = ["program", str(first)]
        config.stdin_file, config.stdout_file = str(given), str(made)
        config.inherit_stderr()
        store.set_wasi(config)
        try:
            linker.instantiate(store, module).exports(store)["_start"](store)
        except (wasmtime.Trap, wasmtime.ExitTrap, wasmtime.WasmtimeError) as error:
            print(f"{program} stopped: {str(error)[-300:]}")
        return made.read_bytes()


def toolchain(name: str) -> Toolchain:
    """A target with what compiles and runs its code; the test is skipped where that is missing."""
    target = TARGETS[name]
    if name == "neon":
        if not shutil.which("qemu-aarch64"):
            pytest.skip("qemu-aarch64 is missing: `apt install qemu-user`")
        return Toolchain(target, zig("aarch64-linux-musl"), run_process("qemu-aarch64"))
    if name == "wasm":
        pytest.importorskip("wasmtime", reason="the package wasmtime is missing: `pip install wasmtime`")
        return Toolchain(target, zig("wasm32-wasi"), run_wasm)
    return Toolchain(target, compiler(), run_process())


def node_cases() -> list[Case]:
    """The tests of single operators, with their data at hand and nothing random in them."""
    found = [case for case in cases().values() if case.source.kind == "node" and case.source.data_sets]
    return [case for case in found if CHOSEN in case.name and not case.is_random]


def array_of(item: Any) -> Any:
    """A tensor of the suite, which may be a message, as an array; None for sequences and the like."""
    if isinstance(item, onnx.TensorProto):
        return numpy_helper.to_array(item)
    return np.asarray(item) if isinstance(item, (np.ndarray, np.generic)) else None


def lower(case: Case, inputs: Any, target: Target) -> SegmentRun:
    """A test's model as one segment; raises NotAlone."""
    arrays = [array_of(item) for item in inputs]
    if any(array is None or array.dtype == object for array in arrays):
        raise NotAlone("an input that is no tensor of numbers")
    graph = read_model(case.model()).graph
    simplify(graph)
    return segment(graph, arrays, target)


Lowered = list[tuple[Case, Any, SegmentRun]]
"""Tests that are one segment, each with what is expected of it."""


def lower_all(chosen: Sequence[Case], target: Target) -> tuple[Lowered, Counter[str]]:
    """The tests that are one segment, and why the others are not."""
    found: Lowered = []
    others: Counter[str] = Counter()
    for case in chosen:
        try:
            for inputs, expected in case.source.data_sets:
                found.append((case, [array_of(item) for item in expected], lower(case, inputs, target)))
        except (NotAlone, IntaglioError) as error:
            others[f"{type(error).__name__}: {str(error)[:100]}"] += 1
    return found, others


def judge(case: Case, expected: Any, outputs: Any) -> str | None:
    """What is wrong with the outputs of a test."""
    if not isinstance(outputs, list):
        return "the program died" if outputs is None else f"the driver returned {outputs}"
    try:
        case.suite.assert_similar_outputs(expected, outputs, case.source.rtol, case.source.atol)
    except AssertionError as error:
        return " ".join(str(error).split())[:300]
    return None


def failures(lowered: Lowered, tools: Toolchain, folder: Path) -> dict[str, str]:
    """What is wrong with each test that fails, of those that are run as one program."""
    segments = [each for _, _, each in lowered]
    found = tools.outputs(tools.build(segments, folder), segments)
    judged = {
        case.name: judge(case, expected, outputs) for (case, expected, _), outputs in zip(lowered, found, strict=True)
    }
    return {name: why for name, why in judged.items() if why is not None}


def test_a_few_without_python(tmp_path: Path) -> None:
    tools = toolchain("c")
    lowered, others = lower_all([case for case in node_cases() if any(name in case.name for name in FEW)], tools.target)
    assert not others
    assert len(lowered) >= len(FEW)
    assert failures(lowered, tools, tmp_path) == {}


@pytest.mark.targets
@pytest.mark.parametrize("name", ["c", "neon", "wasm"])
def test_the_suite_without_python(name: str, tmp_path: Path) -> None:
    tools = toolchain(name)
    lowered, others = lower_all(node_cases(), tools.target)
    wrong = failures(lowered, tools, tmp_path)
    print(f"{name}: {len(lowered) - len(wrong)} of {len(lowered)} pass; not one segment: {sum(others.values())}")
    print(*(f"  {count} x {reason}" for reason, count in others.most_common(40)), sep="\n")
    assert not wrong, "\n".join(f"{case}: {why}" for case, why in wrong.items())
    assert CHOSEN or len(lowered) > 1000
