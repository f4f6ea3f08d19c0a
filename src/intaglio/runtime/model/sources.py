"""Models as other packages hold them, made into what the reader takes. None of those packages is imported for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from intaglio.errors import InputError, LoadError

PLAIN = (str, os.PathLike, bytes, bytearray, memoryview)


def as_source(source: Any, example_inputs: Any = None, dynamic_shapes: Any = None) -> Any:
    """A path, bytes, a ModelProto or a graph for what `load` was given; raises InputError where it is nothing of that.

    Taken are also modules of PyTorch with example inputs, what `torch.export` and `torch.onnx.export` give, models of
    onnx_ir, functions of onnxscript, and open files.
    """
    if is_module(source):
        return _from_module(source, example_inputs, dynamic_shapes)
    if example_inputs is not None or dynamic_shapes is not None:
        raise InputError(f"example inputs are for modules of PyTorch, and load was given a {type(source).__name__}")
    if isinstance(source, PLAIN):
        return source
    package = type(source).__module__.partition(".")[0]
    name = type(source).__name__
    if _is_known(package, name):
        return source
    if package == "torch" and name == "ExportedProgram":
        return _torch().program_graph(source)
    if package == "torch" and hasattr(type(source), "model_proto"):
        return _converted(lambda: source.model_proto, "program.save('model.onnx')")
    if package == "onnx_ir" and name == "Model":
        return _converted(lambda: import_module("onnx_ir").to_proto(source), "onnx_ir.save(model, 'model.onnx')")
    if package == "onnxscript" and hasattr(source, "to_model_proto"):
        return _converted(source.to_model_proto, "onnx.save(function.to_model_proto(), 'model.onnx')")
    if hasattr(source, "read") and not hasattr(source, "SerializeToString"):
        return _read(source)
    raise InputError(_refusal(source, package, name))


def is_module(source: object) -> bool:
    """Whether something is a module of PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and hasattr(torch, "nn") and isinstance(source, torch.nn.Module)


def _from_module(module: Any, example_inputs: Any, dynamic_shapes: Any) -> Any:
    if example_inputs is None:
        raise InputError(
            f"load was given the module {type(module).__name__} of PyTorch without inputs to trace it with: "
            "load(module, example_inputs), a tensor or a tuple of the module's arguments"
        )
    return _torch().module_graph(module, example_inputs, dynamic_shapes)


def _torch() -> Any:
    """Our part that knows PyTorch, which stands above this one: imported by name, by those who have PyTorch only."""
    return import_module("intaglio.torch.export")


def _is_known(package: str, name: str) -> bool:
    return (package, name) in (("onnx", "ModelProto"), ("intaglio", "Graph"))


def _converted(convert: Callable[[], Any], way: str) -> Any:
    """A ModelProto; large ones have no room in it."""
    try:
        return convert()
    except Exception as error:
        raise LoadError(
            f"the model cannot be made a ModelProto: {type(error).__name__}: {error}; write it to a file with {way}, "
            "and load that"
        ) from error


def _read(file: Any) -> bytes:
    found = file.read()
    if not isinstance(found, bytes):
        raise InputError("the file was opened as text; open it with mode 'rb', or give its path")
    return found


_ADVICE = {
    ("onnx", "GraphProto"): "it does not say of which operator sets its operators are; make a model of it with "
    "onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid('', 21)])",
    ("onnx", "FunctionProto"): "make a model of it whose graph calls it: onnx.helper.make_model(graph, functions=[it])",
    ("onnx", "NodeProto"): "intaglio.backend.run_node runs a single node",
    ("onnx", "TensorProto"): "it is one tensor and no model",
    ("onnx_ir", "Graph"): "make a model of it with onnx_ir.Model(graph, ir_version=10)",
    ("onnx_ir", "Function"): "make a model of it with onnx_ir.Model(graph, ir_version=10, functions=[function])",
}


def _refusal(source: Any, package: str, name: str) -> str:
    advice = _ADVICE.get((package, name))
    if advice is None and hasattr(source, "state_dict") and hasattr(source, "forward"):
        advice = "export the module first: load(torch.onnx.export(module, example_inputs, dynamo=True))"
    taken = "load takes a path, bytes, a ModelProto, a graph of intaglio, or what torch.onnx.export gives"
    title = name if package == "builtins" else f"{package}.{name}"
    return f"load was given a {title}; {advice or taken}"
