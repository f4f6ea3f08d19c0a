"""Intaglio in the place of the package onnxruntime, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest

ROOT = Path(__file__).parents[2]
HEAD = "import intaglio.compat; assert intaglio.compat.install() is intaglio.compat.install()\n"
TEXT = '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 3] x) => (float[n, 3] y) { y = Neg(x) }'


def run(*arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "ORT_DISABLE_TELEMETRY": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def path(tmp_path: Path) -> Path:
    onnx.save(onnx.parser.parse_model(TEXT), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


CODES = {
    "names": """
import onnxruntime as ort, numpy as np, sys
from onnxruntime import InferenceSession, GraphOptimizationLevel
import onnxruntime.capi.onnxruntime_pybind11_state as state
from onnxruntime.capi import _pybind_state as C
from onnxruntime.capi._pybind_state import set_default_logger_severity
from onnxruntime.capi.onnxruntime_inference_collection import IOBinding, Session
assert issubclass(InferenceSession, Session) and ort.IOBinding is IOBinding
session = InferenceSession(sys.argv[1], providers=C.get_available_providers())
assert session._providers == ["CPUExecutionProvider"] and session._model_path == sys.argv[1]
assert session._provider_options == {"CPUExecutionProvider": {}}
try:
    session.run(None, {"x": np.zeros(3)})
except C.InvalidArgument as error:
    assert "dtype float64" in str(error)
try:
    InferenceSession("none.onnx")
except state.NoSuchFile:
    pass
assert np.array_equal(session.run(None, {"x": np.ones((1, 3), np.float32)})[0], -np.ones((1, 3)))
""",
    "versions": """
import importlib.metadata, importlib.util, onnxruntime, intaglio.compat
from packaging.version import Version
assert Version(onnxruntime.__version__) >= Version("1.31")
assert tuple(map(int, onnxruntime.__version__.split("."))) > (1, 16)
assert importlib.metadata.version("onnxruntime") == onnxruntime.__version__
assert importlib.util.find_spec("onnxruntime") is not None
assert importlib.util.find_spec("onnxruntime.training") is None
from onnxruntime.capi import onnxruntime_validation
assert onnxruntime_validation.get_package_name_and_version_info()[0] == "onnxruntime"
intaglio.compat.uninstall()
import onnxruntime as real
assert real is not onnxruntime and "intaglio" not in real.get_build_info()
assert importlib.metadata.version("onnxruntime") == real.__version__
""",
    "tools": """
import onnx, sys, numpy as np
from onnxruntime.quantization import quantize_dynamic, QuantType
import onnxruntime
quantize_dynamic(sys.argv[1], sys.argv[1] + ".q.onnx", weight_type=QuantType.QUInt8)
assert hasattr(onnxruntime, "_intaglio")
assert "onnxruntime_pybind11_state.cpython" not in open("/proc/self/maps").read()
x = np.ones((1, 3), np.float32)
assert np.array_equal(onnxruntime.InferenceSession(sys.argv[1] + ".q.onnx").run(None, {"x": x})[0], -x)
""",
}


def test_it_needs_no_onnx_runtime(path: Path) -> None:
    code = """
import importlib.machinery, importlib.metadata, sys
import intaglio.compat, intaglio.compat.standin
intaglio.compat.standin._real_folder = lambda: None
intaglio.compat.install()
import onnxruntime
from onnxruntime.transformers.io_binding_helper import TypeHelper
session = onnxruntime.InferenceSession(sys.argv[1])
assert TypeHelper.get_io_onnx_type_map(session) == {"x": 1, "y": 1}
try:
    import onnxruntime.quantization
except ModuleNotFoundError:
    print("none")
"""
    assert run("-W", "error", "-c", code, str(path)) == "none\n"


@pytest.mark.parametrize("name", CODES)
def test_the_package_is_in_place(name: str, path: Path) -> None:
    run("-W", "error", "-c", HEAD + CODES[name], str(path))


def test_it_must_come_first() -> None:
    code = """
import onnxruntime, intaglio.compat
try:
    intaglio.compat.install()
except intaglio.InputError as error:
    print(error)
"""
    assert "call intaglio.compat.install() first" in run("-c", code)


@pytest.mark.parametrize("is_module", [False, True])
def test_a_program_is_run_on_it(tmp_path: Path, is_module: bool) -> None:
    script = tmp_path / "unusual_program.py"
    script.write_text(
        "import sys, onnxruntime\nprint(__name__, sys.argv[1:], onnxruntime.get_build_info().split()[0])\n"
    )
    arguments = ["-m", "intaglio.compat", *(["-m", "json.tool", "--help"] if is_module else [str(script), "a", "b"])]
    found = run(*arguments)
    assert ("usage" if is_module else "__main__ ['a', 'b'] intaglio") in found
