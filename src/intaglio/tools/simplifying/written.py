"""A graph as the ONNX file that it came from would have it: its operator set, its names and what it said of itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import onnx
from onnx import ModelProto, ValueInfoProto

from intaglio.emit.onnx.module import write_shapes
from intaglio.emit.onnx.older import write_older
from intaglio.ir.graph import Graph
from intaglio.onnx.reader import ModelInfo
from intaglio.onnx.writer import save_model, write_model, write_structure

LEAST_IR_VERSION = 4
"""The first version whose initializers need not be inputs too."""


@dataclass
class Written:
    """A graph that is ready to be written."""

    graph: Graph
    info: ModelInfo
    finish: Callable[[ModelProto], None]
    external_data: bool | None = None

    def message(self) -> ModelProto:
        """The whole as one message; raises LimitError where it is too large for one."""
        message = write_model(self.graph, self.info)
        self.finish(message)
        return message

    @cached_property
    def bare(self) -> ModelProto:
        """The message without the data of its large tensors."""
        message = write_structure(self.graph, self.info)
        self.finish(message)
        return message

    def save(self, path: str | os.PathLike[str], external_data: bool | int | None = None) -> list[Path]:
        """Write the model; returns the files."""
        target = Path(path)
        wanted = self.external_data if external_data is None else external_data
        save_model(self.graph, target, self.info, external_data=wanted, finish=self.finish)
        data = target.with_name(target.name + ".data")
        refers = any(tensor.external_data for tensor in onnx.load(target, load_external_data=False).graph.initializer)
        return [target, data] if refers else [target]


def written(
    graph: Graph, info: ModelInfo, original: ModelProto | None, opset: int, is_external: bool = False
) -> Written:
    """What writes a graph at an operator set; inputs and outputs are described as in `original`, where there is one."""

    def finish(model: ModelProto) -> None:
        write_older(model, opset)
        for entry in model.opset_import:
            entry.version = info.opset_imports.get(entry.domain, entry.version) if entry.domain else opset
        model.ir_version = max(info.ir_version, LEAST_IR_VERSION)
        if original is not None:
            _describe_as_before(model, original)
        write_shapes(graph, model)

    return Written(graph, info, finish, True if is_external else None)


def _describe_as_before(model: ModelProto, original: ModelProto) -> None:
    """Write inputs and outputs as they were, with what was not known of the outputs."""
    old = {value.name: value for value in original.graph.input}
    for value in model.graph.input:
        if value.name in old:
            value.CopyFrom(old[value.name])
    old = {value.name: value for value in original.graph.output}
    for value in model.graph.output:
        if value.name in old:
            _keep_names(value, old[value.name])


def _keep_names(value: ValueInfoProto, old: ValueInfoProto) -> None:
    """The old description of an output, with sizes that it lacks."""
    found, kept = value.type.tensor_type, ValueInfoProto()
    kept.CopyFrom(old)
    sizes = kept.type.tensor_type.shape.dim
    if old.type.tensor_type.HasField("shape") and len(sizes) == len(found.shape.dim):
        for size, now in zip(sizes, found.shape.dim, strict=True):
            if size.WhichOneof("value") is None:
                size.CopyFrom(now)
        value.CopyFrom(kept)
    elif not value.type.tensor_type.HasField("shape") or value.type.WhichOneof("value") != "tensor_type":
        value.CopyFrom(kept)
