"""Which models may run the rows of several requests together, and why others may not."""

from __future__ import annotations

from dataclasses import dataclass

from intaglio.errors import IntaglioError
from intaglio.ir import dim as dims
from intaglio.ir.clone import clone
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.passes.driver import infer_graph
from intaglio.passes.pipeline import simplify
from intaglio.passes.row_axes import Hindrance
from intaglio.passes.rows import separate_rows
from intaglio.runtime.model.model import Model
from intaglio.tools.dynamic.make_dynamic import FOLDING


@dataclass(frozen=True)
class Joining:
    """How the requests of a model are joined: rows lie along the first axis of all inputs.

    `axes` has the axis of each output that holds the rows; None for an output that has none and is the same for all.
    `reason` says why rows are not joined; it is empty where they are.
    """

    symbol: str = ""
    axes: tuple[int | None, ...] = ()
    reason: str = ""


def rows_of(model: Model) -> Joining:
    """How requests of a model may be joined, as its graph proves."""
    try:
        return _proven(model)
    except Hindrance as hindrance:
        return Joining(reason=f"rows may mix: {hindrance}")
    except IntaglioError as error:
        return Joining(reason=f"the graph cannot be looked at: {error}")


def _proven(model: Model) -> Joining:
    graph = clone(model.graph)
    symbol = _common_symbol(graph, set(model.fed))
    if not isinstance(symbol, Joining):
        simplify(graph, exact=True, pipeline=FOLDING)
        infer_graph(graph)
        found = separate_rows(graph, symbol)
        return Joining(symbol, tuple(found.get(value) for value in graph.outputs))
    return symbol


def _common_symbol(graph: Graph, fed: set[str]) -> str | Joining:
    """The name that the first size of all inputs has; the reason where there is none."""
    names: set[str] = set()
    for value in graph.inputs:
        if value.name not in fed:
            continue
        shape = value.type.shape if isinstance(value.type, TensorType) else None
        if not shape:
            return Joining(reason=f"input {value.name!r} has no axis of rows")
        found = list(dims.symbols(shape[0]))
        if len(found) != 1 or shape[0] != dims.symbol(found[0]):
            return Joining(reason=f"the first size of input {value.name!r} is {shape[0]} and not open")
        names.add(found[0])
    if len(names) != 1:
        return Joining(reason="the inputs have no common name for their first size" if names else "there are no inputs")
    return names.pop()
