"""What `load` takes: models as other packages hold them, or a message that names the conversion."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import intaglio
from intaglio import InputError, LoadError
from intaglio.runtime.model.sources import as_source

X = np.array([[1, -2, 3]], np.float32)
Y = np.array([2, 2, 2], np.float32)


def stand_in(package: str, name: str, **members: Any) -> Any:
    """An object of a class of that name in that package, without the package."""
    return type(name, (), {"__module__": f"{package}.inside", **members})()


def test_open_files_are_read(affine: onnx.ModelProto, tmp_path: Path) -> None:
    path = tmp_path / "affine.onnx"
    path.write_bytes(affine.SerializeToString())
    expected = intaglio.load(affine, engine="reference")(X, Y)
    with path.open("rb") as file:
        np.testing.assert_array_equal(intaglio.load(file, engine="reference")(X, Y), expected)
    stream = io.BytesIO(affine.SerializeToString())
    np.testing.assert_array_equal(intaglio.load(stream, engine="reference")(X, Y), expected)
    with (
        path.open(encoding="latin-1") as text,
        pytest.raises(InputError, match="opened as text; open it with mode 'rb'"),
    ):
        intaglio.load(text)


def test_what_an_export_gives_is_taken(affine: onnx.ModelProto) -> None:
    program = stand_in("torch", "ONNXProgram", model_proto=affine)
    np.testing.assert_array_equal(intaglio.load(program, engine="reference")(X, Y), np.maximum(X * Y + 1, 0))


def test_a_function_of_onnxscript_is_taken(affine: onnx.ModelProto) -> None:
    function = stand_in("onnxscript", "OnnxFunction", to_model_proto=lambda self: affine)
    assert intaglio.load(function, engine="reference").outputs[0].name == "z"


def test_a_conversion_that_fails_names_the_way_by_a_file() -> None:
    def fail(self: Any) -> None:
        raise ValueError("over 2 GB")

    program = stand_in("torch", "ONNXProgram", model_proto=property(fail), save=None)
    with pytest.raises(LoadError, match=r"over 2 GB; write it to a file with program.save"):
        intaglio.load(program)


def _protos() -> dict[str, tuple[Any, str]]:
    graph = helper.make_graph([], "g", [], [])
    function = helper.make_function("d", "f", ["x"], ["y"], [], [])
    return {
        "a graph": (graph, r"onnx.GraphProto; .*onnx.helper.make_model\(graph, opset_imports="),
        "a function": (function, r"onnx.FunctionProto; make a model of it"),
        "a node": (helper.make_node("Relu", ["x"], ["y"]), "onnx.NodeProto; intaglio.backend.run_node"),
        "a tensor": (numpy_helper.from_array(X), "onnx.TensorProto; it is one tensor"),
        "an onnx_ir graph": (stand_in("onnx_ir", "Graph"), r"onnx_ir.Graph; .*onnx_ir.Model\(graph"),
        "a module": (stand_in("shop", "Net", state_dict=None, forward=None), r"shop.Net; export .*torch.onnx.export"),
        "a number": (5, "load was given a int; load takes a path, bytes, a ModelProto"),
        "nothing": (None, "load was given a NoneType; load takes a path"),
        "an array": (X, "load was given a numpy.ndarray; load takes a path"),
    }


@pytest.mark.parametrize("name", _protos())
def test_others_are_refused_with_the_conversion(name: str) -> None:
    source, text = _protos()[name]
    with pytest.raises(InputError, match=text):
        intaglio.load(source)


def test_the_advice_for_a_graph_works(affine: onnx.ModelProto) -> None:
    model = helper.make_model(affine.graph, opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    np.testing.assert_array_equal(intaglio.load(model, engine="reference")(X, Y), np.maximum(X * Y + 1, 0))


@pytest.fixture
def package() -> Callable[[str], ModuleType]:
    return lambda name: pytest.importorskip(name, reason="taken where that package is installed")


def test_a_model_of_onnx_ir(package: Callable[[str], Any], affine: onnx.ModelProto) -> None:
    onnx_ir = package("onnx_ir")
    model = onnx_ir.from_proto(affine)
    np.testing.assert_array_equal(intaglio.load(model, engine="reference")(X, Y), np.maximum(X * Y + 1, 0))
    with pytest.raises(InputError, match=r"onnx_ir.Graph; .*onnx_ir.Model"):
        intaglio.load(model.graph)
    assert as_source(onnx_ir.Model(model.graph, ir_version=10)).graph.node


SCRIPT = """
from onnxscript import FLOAT, opset18 as op, script

@script(default_opset=op)
def double(x: FLOAT["n"]) -> FLOAT["n"]:
    return op.Add(x, x)
"""


def test_an_onnxscript_function(package: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package("onnxscript")
    (tmp_path / "scripted_function.py").write_text(SCRIPT)  # onnxscript reads the source of the function
    monkeypatch.syspath_prepend(tmp_path)
    scripted = importlib.import_module("scripted_function")
    np.testing.assert_array_equal(intaglio.load(scripted.double, engine="reference")(Y), Y + Y)


@pytest.mark.filterwarnings("ignore")
def test_a_torch_export(package: Callable[[str], Any]) -> None:
    package("onnxscript")
    torch = package("torch")
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    x = torch.ones(2, 3)
    program = torch.onnx.export(module, (x,), dynamo=True, verbose=False)
    found = intaglio.load(program)(x)
    np.testing.assert_allclose(found, module(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match=r"load\(module, example_inputs\)"):
        intaglio.load(module)
