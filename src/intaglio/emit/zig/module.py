"""A graph as a folder of Zig."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from intaglio.emit.export import ExportRequest, Source, make_printable
from intaglio.emit.names import comment
from intaglio.emit.zig import program
from intaglio.emit.zig.answers import answers
from intaglio.emit.zig.graph_text import GraphText
from intaglio.emit.zig.values import write_values
from intaglio.emit.zig.words import LIBRARY, check
from intaglio.ir.graph import Graph

WEIGHTS = "npz"
LEFT_OUT = ("integer-arithmetic",)
"""Passes whose results are for engines, not for readers."""


def write(request: ExportRequest) -> Source:
    """The folder: the graph, its weights, the library, and a program that tests it."""
    graph = request.graph
    text, weights = graph_source(graph, request.name)
    stored = answers(graph)
    files = {
        "graph.zig": text,
        "model.zig": program.MODEL,
        "main.zig": program.MAIN_WITHOUT_ANSWERS if stored is None else program.MAIN,
        "build.zig": program.BUILD,
        "Makefile": program.MAKEFILE,
    }

    def save(folder: Path) -> list[str]:
        write_weights(folder / "weights.bin", weights)
        names = [*write_library(folder), "weights.bin"]
        if stored is None:
            return names
        given, made = (
            zip(values, graphs, strict=True)
            for values, graphs in zip(stored, (graph.inputs, graph.outputs), strict=True)
        )
        data = write_values((value, each.type) for value, each in (*given, *made))
        (folder / "answers.bin").write_bytes(data)
        return [*names, "answers.bin"]

    return Source(files, {}, program.readme(graph, request.name, stored is not None), save=save)


def graph_source(graph: Graph, name: str) -> tuple[str, GraphText]:
    """The text of `graph.zig`, and what goes into the file of weights."""
    make_printable(graph, check)
    printer = GraphText()
    lines = printer.lines(graph)
    head = [f"//! {comment(name)}: a model of ONNX as one anonymous struct, written by Intaglio.", ""]
    if any("std.math." in line for line in lines):
        head += ['const std = @import("std");', ""]
    return "\n".join([*head, *lines]) + "\n", printer


def write_library(folder: Path) -> list[str]:
    """Copy the library into a folder."""
    names: list[str] = []
    for path in sorted(LIBRARY.rglob("*.zig")):
        name = path.relative_to(LIBRARY)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
        names.append(name.as_posix())
    return names


def write_weights(path: Path, weights: GraphText) -> None:
    """Write all constants, each at its place."""
    with path.open("wb") as file:
        for start, array in weights.arrays:
            file.seek(start)
            file.write(np.ascontiguousarray(array).tobytes())
