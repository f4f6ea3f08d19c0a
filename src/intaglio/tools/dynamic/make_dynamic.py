"""`make_dynamic`: a fixed batch becomes an open one, with proof that each row is what it was."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnx import ModelProto

from intaglio.emit.onnx.older import OLDEST, make_older
from intaglio.errors import InputError
from intaglio.ir.graph import Graph, Value
from intaglio.onnx.reader import read_model
from intaglio.passes.compact import gather_of_all
from intaglio.passes.driver import infer_graph
from intaglio.passes.open_batch import OpenRequest, fixed_batch, opened_graph
from intaglio.passes.pipeline import FOR_FILES, Pass, simplify
from intaglio.passes.row_axes import Hindrance
from intaglio.passes.rows import separate_rows
from intaglio.runtime.model.sources import as_source
from intaglio.tools.dynamic.proof import Proof, prove
from intaglio.tools.simplifying.written import Written, written

_FOLDING = ("dead-code", "fold-shapes", "fold-constants")
FOLDING = (
    *(each for each in FOR_FILES if each.name in _FOLDING),
    Pass("gathers", "behind constants, which the indices are", rules=(gather_of_all,)),
)
"""Passes before the search: what a fixed batch made constant shows its rows only then."""


@dataclass
class Dynamic:
    """A model that takes any batch: what was opened, what was rewritten, and what the runs showed."""

    written: Written
    name: str
    """How the open size is called."""
    axis: int
    size: int
    """The size that the file had."""
    inputs: list[str]
    outputs: dict[str, int]
    """The axis of each output that holds the rows."""
    changed: list[str]
    """The nodes whose numbers follow the batch now."""
    proofs: list[Proof] = field(default_factory=list[Proof])

    def message(self) -> ModelProto:
        """The model as an ONNX message; raises LimitError where its weights do not fit into one."""
        return self.written.message()

    def save(self, path: str | os.PathLike[str], *, external_data: bool | int | None = None) -> list[Path]:
        """Write the model; returns the files that were written."""
        return self.written.save(path, external_data)


def make_dynamic(
    model: Any,
    *,
    axis: int = 0,
    name: str = "batch",
    inputs: Sequence[str] = (),
    sizes: Sequence[int] | None = None,
    seed: int = 0,
    base_folder: str | os.PathLike[str] | None = None,
) -> Dynamic:
    """Open the size of an axis of the inputs, by default that of the batch.

    Numbers that follow it, in Reshape, Expand and the like, are found by symbolic sizes and rewritten. Then the model
    is run at three `sizes`, each row compared with what the original gives for it: by ONNX Runtime where it is
    installed, else by the reference engine. `inputs` names those that have rows; by default all whose axis has the
    size of the first one. The operator set of the file stays, and functions are inlined.

    Raises InputError with the node that hinders, where rows mix or a number cannot follow.
    """
    source = as_source(model)
    imported = read_model(source, base_folder=base_folder)
    request = OpenRequest(axis, name, tuple(inputs))
    size = _fixed_size(imported.graph, request)
    simplify(imported.graph, exact=True, pipeline=FOLDING)
    infer_graph(imported.graph)
    try:
        graph, symbol = opened_graph(imported.graph, request)
        axes = separate_rows(graph, symbol)
    except Hindrance as hindrance:
        raise InputError(f"the size {size} of axis {axis} cannot be opened: {hindrance}") from None
    changed = _changed(imported.graph, graph)
    outputs = {value.name: place for value, place in axes.items()}
    opset = max(imported.info.opset_imports.get("", OLDEST), OLDEST)
    make_older(graph, opset)
    result = written(graph, imported.info, None, opset, bool(imported.external_files))
    opened = [value.name for value in graph.inputs if _has(value, symbol)]
    found = Dynamic(result, symbol, axis, size, opened, outputs, changed)
    found.proofs = prove(source, found, sizes or _three(size), seed)
    return found


def _fixed_size(graph: Graph, request: OpenRequest) -> int:
    """The number to be opened; raises InputError where there is none."""
    names = [value.name for value in graph.inputs]
    missing = [name for name in request.inputs if name not in names]
    if missing:
        raise InputError(f"there is no input {missing[0]!r}; the inputs are {', '.join(map(repr, names)) or 'none'}")
    size = fixed_batch(graph, request)
    if size is None:
        shown = ", ".join(map(repr, graph.inputs)) or "none"
        raise InputError(f"axis {request.axis} of the first input has no fixed size; the inputs are {shown}")
    return size


def _three(size: int) -> list[int]:
    """Three sizes, among them that of the file: one row, some, and a number that nothing divides."""
    return list(dict.fromkeys([size, 1 if size != 1 else 2, size + 4 if (size + 4) % 2 else size + 5]))


def _has(value: Value, symbol: str) -> bool:
    from intaglio.ir.resize import type_symbols

    return symbol in type_symbols(value.type)


def _changed(before: Graph, after: Graph) -> list[str]:
    """The nodes that read something else than before."""
    old = {node.outputs[0].name: node for node in before.nodes}
    found: list[str] = []
    for node in after.nodes:
        same = old.get(node.outputs[0].name)
        names = [[None if value is None else value.name for value in each.inputs] for each in (same, node) if each]
        if same is not None and names[0] != names[1]:
            found.append(
                f"{node.origin} ({node.op.name})" if f"({node.op.name})" not in str(node.origin) else str(node.origin)
            )
    return found
