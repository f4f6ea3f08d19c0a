"""A graph as an ONNX file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from onnx import FunctionProto, ModelProto, TensorProto, numpy_helper

from intaglio.emit.export import ExportRequest, Source
from intaglio.emit.names import comment
from intaglio.emit.onnx.older import make_older, write_older
from intaglio.errors import InputError
from intaglio.ir.expand import expand_until
from intaglio.ir.graph import Graph
from intaglio.onnx.write_types import type_proto
from intaglio.onnx.writer import save_model
from intaglio.runtime.model.sources import as_source

WEIGHTS = "safetensors"
LEFT_OUT = ("integer-arithmetic",)
"""Passes whose results are for engines, not for readers."""


def write(request: ExportRequest) -> Source:
    """The file, which is written when its folder is there, and its README."""
    graph, opset = request.graph, request.options.get("opset")
    if keeps_functions(request):
        return write_as_it_is(request)
    if opset is None:
        expand_until(graph, lambda node: node.op.domain != "intaglio", bodies=True)
    else:
        make_older(graph, opset)

    def finish(model: ModelProto) -> None:
        if opset is not None:
            write_older(model, opset)
        write_shapes(graph, model)

    def save(folder: Path) -> list[str]:
        save_model(graph, folder / "model.onnx", external_data=request.options.get("external_data"), finish=finish)
        has_data = (folder / "model.onnx.data").exists()
        return ["model.onnx", *(["model.onnx.data"] if has_data else [])]

    return Source({}, {}, _readme(request), save=save)


def keeps_functions(request: ExportRequest) -> bool:
    """Whether the functions of the model are to stay; raises InputError where they cannot."""
    wanted = request.options.get("functions", "inline")
    if wanted not in ("inline", "keep"):
        raise InputError(f"functions is {wanted!r}, expected 'inline' or 'keep'")
    if wanted == "inline":
        return False
    if request.is_changed or request.options.get("opset") is not None:
        raise InputError("functions are kept in a model that is written as it is: simplify=False, no dims and no opset")
    return True


def write_as_it_is(request: ExportRequest) -> Source:
    """The model with its functions, and the shapes of the values outside of them."""
    model = _message(request.given)
    write_shapes(request.graph, model)
    limit = request.options.get("external_data")

    def save(folder: Path) -> list[str]:
        if limit is None or limit is False:
            onnx.save_model(model, folder / "model.onnx")
            return ["model.onnx"]
        size = 1024 if limit is True else limit
        for tensor in model.graph.initializer:  # only raw bytes are moved to the other file
            if not tensor.HasField("raw_data") and tensor.data_type != TensorProto.STRING:
                tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
        onnx.save_model(
            model, folder / "model.onnx", save_as_external_data=True, location="model.onnx.data", size_threshold=size
        )
        return [name for name in ("model.onnx", "model.onnx.data") if (folder / name).exists()]

    return Source({}, {}, _readme(request), save=save)


def _message(given: Any) -> ModelProto:
    """A message of its own for what was given."""
    is_read = isinstance(given, Graph) or isinstance(getattr(given, "graph", None), Graph)
    source = given if is_read else as_source(given)
    if isinstance(source, (bytes, bytearray, memoryview)):
        model = onnx.load_model_from_string(bytes(source))
    elif isinstance(source, (str, os.PathLike)):
        model = onnx.load_model(source, load_external_data=False)
    elif isinstance(source, ModelProto):
        model = ModelProto()
        model.CopyFrom(source)
    else:
        raise InputError(f"a {type(given).__name__} has no functions to keep; give an ONNX file or message")
    tensors = [*model.graph.initializer, *(tensor for each in model.functions for tensor in _constants(each))]
    if any(tensor.data_location == TensorProto.EXTERNAL for tensor in tensors):
        raise InputError("functions cannot be kept in a model with weights in other files; export it with them inlined")
    return model


def _constants(function: FunctionProto) -> Iterator[TensorProto]:
    return (attribute.t for node in function.node for attribute in node.attribute if attribute.HasField("t"))


def write_shapes(graph: Graph, model: ModelProto) -> None:
    """The types of all values between inputs and outputs, as far as they are known and not there yet."""
    known = {value.name for value in (*model.graph.output, *model.graph.value_info)}
    made = {name for node in model.graph.node for name in node.output}
    for node in graph.nodes:
        for value in node.outputs:
            if value.name in made and value.name not in known:
                model.graph.value_info.add(name=value.name, type=type_proto(value.type))


def _readme(request: ExportRequest) -> str:
    number = request.options.get("opset")
    opset = "the lowest operator set that has its operators" if number is None else f"operator set {number}"
    opset = "the operator sets of its file, with its functions" if keeps_functions(request) else opset
    return f"""# {request.name}

`model.onnx`, written by Intaglio at {opset}, with the shapes of all values in it.

- inputs: {", ".join(comment(f"{value.name}: {value.type}") for value in request.graph.inputs) or "none"}
- outputs: {", ".join(comment(f"{value.name}: {value.type}") for value in request.graph.outputs)}
"""
