"""A graph as a folder of Zig."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from intaglio.emit.export import Source, Wish, make_sayable
from intaglio.emit.names import comment
from intaglio.emit.zig.graph_text import GraphText
from intaglio.emit.zig.words import LIBRARY, check
from intaglio.ir.graph import Graph

WEIGHTS = "npz"
LEFT_OUT = ("integer-arithmetic",)
"""Passes whose results are for engines, not for readers."""


def write(wish: Wish) -> Source:
    """The folder: the graph, its weights, the library, and a program that tests it."""
    text, weights = graph_source(wish.graph, wish.name)
    files = {"graph.zig": text, "model.zig": _MODEL}
    return Source(files, {}, "", save=lambda folder: save(folder, weights))


def graph_source(graph: Graph, name: str) -> tuple[str, GraphText]:
    """The text of `graph.zig`, and what goes into the file of weights."""
    make_sayable(graph, check)
    printer = GraphText()
    lines = printer.lines(graph)
    head = [f"//! {comment(name)}: a model of ONNX as one anonymous struct, written by Intaglio.", ""]
    if any("std.math." in line for line in lines):
        head += ['const std = @import("std");', ""]
    return "\n".join([*head, *lines]) + "\n", printer


def save(folder: Path, weights: GraphText) -> list[str]:
    """Write the library and the file of weights."""
    write_weights(folder / "weights.bin", weights)
    return [*write_library(folder), "weights.bin"]


def write_library(folder: Path) -> list[str]:
    """Copy the library into a folder."""
    names: list[str] = []
    for path in sorted(LIBRARY.rglob("*.zig")):
        name = path.relative_to(LIBRARY)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
        names.append(str(name))
    return names


def write_weights(path: Path, weights: GraphText) -> None:
    """Write all constants, each at its place."""
    with path.open("wb") as file:
        for start, array in weights.arrays:
            file.seek(start)
            file.write(np.ascontiguousarray(array).tobytes())


_MODEL = '''\
//! The model: `Inputs`, `Outputs` and `run`, made of `graph.zig` while it is compiled.

const walk = @import("onnx/walk.zig");

pub const graph = @import("graph.zig").graph;

const model = walk.Model(graph);

/// Tensors in the order of the model's inputs.
pub const Inputs = model.Inputs;

/// Tensors in the order of the model's outputs.
pub const Outputs = model.Outputs;

pub const run = model.run;
'''
