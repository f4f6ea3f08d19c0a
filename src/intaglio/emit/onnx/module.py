"""A graph as an ONNX file."""

from __future__ import annotations

from pathlib import Path

from onnx import ModelProto

from intaglio.emit.export import Source, Wish
from intaglio.emit.names import comment
from intaglio.emit.onnx.older import make_older, write_older
from intaglio.ir.expand import expand_until
from intaglio.ir.graph import Graph
from intaglio.onnx.write_types import type_proto
from intaglio.onnx.writer import save_model

WEIGHTS = "safetensors"
LEFT_OUT = ("integer-arithmetic",)
"""Passes whose results are for engines, not for readers."""


def write(wish: Wish) -> Source:
    """The file, which is written when its folder is there, and its README."""
    graph, opset = wish.graph, wish.options.get("opset")
    if opset is None:
        expand_until(graph, lambda node: node.op.domain != "intaglio", bodies=True)
    else:
        make_older(graph, opset)

    def finish(model: ModelProto) -> None:
        if opset is not None:
            write_older(model, opset)
        _write_shapes(graph, model)

    def save(folder: Path) -> list[str]:
        save_model(graph, folder / "model.onnx", external_data=wish.options.get("external_data"), finish=finish)
        has_data = (folder / "model.onnx.data").exists()
        return ["model.onnx", *(["model.onnx.data"] if has_data else [])]

    return Source({}, {}, _readme(wish), save=save)


def _write_shapes(graph: Graph, model: ModelProto) -> None:
    """The types of all values between inputs and outputs, as far as they are known."""
    outputs = set(graph.outputs)
    for node in graph.nodes:
        for value in node.outputs:
            if value not in outputs:
                model.graph.value_info.add(name=value.name, type=type_proto(value.type))


def _readme(wish: Wish) -> str:
    number = wish.options.get("opset")
    opset = "the lowest operator set that has its operators" if number is None else f"operator set {number}"
    return f"""# {wish.name}

`model.onnx`, written by Intaglio at {opset}, with the shapes of all values in it.

- inputs: {", ".join(comment(f"{value.name}: {value.type}") for value in wish.graph.inputs) or "none"}
- outputs: {", ".join(comment(f"{value.name}: {value.type}") for value in wish.graph.outputs)}
"""
