"""`stats`: what a model costs, in all and by node, operator and part of the model."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from intaglio.errors import InputError
from intaglio.ir.dim import Dim, product, symbols
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.types import TensorType
from intaglio.onnx.reader import read_model
from intaglio.ops.counting import Amount, amount, total
from intaglio.runtime.model.sources import as_source
from intaglio.tools.simplifying.sizes import set_sizes

CACHED = re.compile(r"(present|cache|past|state)", re.IGNORECASE)
"""Names of outputs that hold what a model remembers from step to step."""


@dataclass
class Row:
    """What one node, operator or part of a model costs."""

    name: str
    nodes: int = 0
    macs: int = 0
    flops: int = 0
    parameters: int = 0
    weight_bytes: int = 0
    activation_bytes: int = 0
    biases: int = 0
    """Additions of biases, which are among the operations and no multiplications."""

    def add(self, other: Row) -> None:
        """Count another row in."""
        for name in ("nodes", "macs", "flops", "parameters", "weight_bytes", "activation_bytes", "biases"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass
class Statistics:
    """What a model costs for given sizes.

    `peak_bytes` is the most that inputs and results take at one time when nodes run in the order of the file and a
    result is dropped behind its last reader; weights are not in it. `cache_bytes` are the results that the model takes
    again in its next step. `notes` say what was assumed.
    """

    total: Row
    nodes: list[Row]
    operators: list[Row]
    scopes: list[Row]
    tensors: list[tuple[str, str, int]]
    """The weights: name, type and bytes, the largest first."""
    sizes: dict[str, int]
    macs_formula: str
    peak_bytes: int
    cache_bytes: int
    input_bytes: int
    output_bytes: int
    notes: list[str] = field(default_factory=list[str])

    @property
    def memory_bytes(self) -> int:
        """What a run needs at least: weights, and the peak of everything else."""
        return self.total.weight_bytes + self.peak_bytes


def stats(
    model: Any,
    *,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    depth: int = 2,
    base_folder: str | os.PathLike[str] | None = None,
) -> Statistics:
    """Count what a model costs, as it is in its file; nothing is simplified and nothing is run.

    `dims` gives numbers to sizes that have names, `shapes` other sizes to inputs. Sizes that are not given are taken
    as 1, and a note says so. `depth` is how many parts of a node's name make a scope.
    """
    graph = read_model(as_source(model), base_folder=base_folder).graph
    formula, cached = total(graph).macs, _cached(graph)
    graph = set_sizes(graph, dims or {}, shapes or {})
    assumed = sorted({name for value in graph.inputs for name in _names(value)})
    try:
        graph = set_sizes(graph, dict.fromkeys(assumed, 1), {})
    except InputError as error:
        raise InputError(f"{', '.join(assumed)} cannot be taken as 1, so sizes must be given: {error}") from None
    notes = [f"{', '.join(assumed)} taken as 1: give sizes with dims"] if assumed else []
    owned = set[Value]()
    rows = [(node, _row(node, owned, notes)) for node in graph.nodes]
    whole = Row("total")
    for _, row in rows:
        whole.add(row)
    _count_bodies(graph, whole, owned)
    return Statistics(
        total=whole,
        nodes=[row for _, row in rows],
        operators=_grouped((_title(node), row) for node, row in rows),
        scopes=_grouped((scope(node, depth), row) for node, row in rows),
        tensors=_tensors(graph),
        sizes={**(dims or {}), **dict.fromkeys(assumed, 1)},
        macs_formula=str(formula),
        peak_bytes=_peak(graph),
        cache_bytes=sum(bytes_of(value) for value in graph.outputs if value.name in cached),
        input_bytes=sum(bytes_of(value) for value in graph.inputs if value.default is None),
        output_bytes=sum(bytes_of(value) for value in graph.outputs),
        notes=notes,
    )


def _names(value: Value) -> set[str]:
    shape = value.type.shape if isinstance(value.type, TensorType) else None
    return {name for dim in shape or () for name in symbols(dim)}


def _row(node: Node, owned: set[Value], notes: list[str]) -> Row:
    """What a node costs; a weight is that of the first node which reads it."""
    work = amount(node)
    if not work.is_known:
        notes.append(f"{node.origin}: how much work it is depends on data; what is known is counted")
    weights = [value for value in node.inputs if value is not None and value.constant is not None]
    new = [value for value in dict.fromkeys(weights) if value not in owned and not value.is_literal]
    owned.update(new)
    return Row(
        node.origin.path or node.outputs[0].name,
        1,
        _number(work.macs, work, notes, node),
        _number(work.flops, work, notes, node),
        sum(_size(value) for value in new),
        sum(bytes_of(value) for value in new),
        sum(bytes_of(value) for value in node.outputs),
        work.biases if isinstance(work.biases, int) else 0,
    )


def _number(dim: Dim, work: Amount, notes: list[str], node: Node) -> int:
    if isinstance(dim, int):
        return dim
    if work.is_known:
        notes.append(f"{node.origin}: its work depends on data ({dim}) and is not counted")
    return 0


def _count_bodies(graph: Graph, whole: Row, owned: set[Value]) -> None:
    """Weights that only bodies read."""
    rest = [value for value in graph.constants() if value not in owned and not value.is_literal]
    defaults = [value for value in graph.inputs if value.default is not None]
    whole.parameters += sum(_size(value) for value in (*rest, *defaults))
    whole.weight_bytes += sum(bytes_of(value) for value in (*rest, *defaults))


def _size(value: Value) -> int:
    size = product(value.shape) if isinstance(value.type, TensorType) and value.type.shape is not None else 0
    return size if isinstance(size, int) else 0


def bytes_of(value: Value) -> int:
    """The bytes of a tensor; 0 where its sizes are not known or it is none."""
    if not isinstance(value.type, TensorType) or value.type.dtype.kind == "string":
        return 0
    return (_size(value) * value.type.dtype.bits + 7) // 8


def _title(node: Node) -> str:
    return node.op.name if not node.op.domain else f"{node.op.domain}.{node.op.name}"


def scope(node: Node, depth: int) -> str:
    """The part of the model that a node stands in, from its name: `/encoder/layer.0/...` has two of depth 2."""
    parts = [part for part in re.sub(r" \([^()/]*\)$", "", node.origin.path).split("/") if part]
    return "/".join(parts[:-1][:depth]) or "(top)"


def _grouped(rows: Iterable[tuple[str, Row]]) -> list[Row]:
    found: dict[str, Row] = {}
    for name, row in rows:
        found.setdefault(name, Row(name)).add(row)
    return sorted(found.values(), key=lambda row: (-row.macs, -row.flops, -row.weight_bytes))


def _tensors(graph: Graph) -> list[tuple[str, str, int]]:
    rows = [(value.name, str(value.type), bytes_of(value)) for value in graph.constants() if not value.is_literal]
    return sorted(rows, key=lambda row: -row[2])


def _peak(graph: Graph) -> int:
    """The most bytes that live at one time."""
    last: dict[Value, int] = {}
    nodes = list(graph.nodes)
    for place, node in enumerate(nodes):
        for value in (*node.inputs, *node.captures()):
            if value is not None and value.constant is None:
                last[value] = place
    last.update(dict.fromkeys(graph.outputs, len(nodes)))
    ends: dict[int, int] = {}
    for value, place in last.items():
        ends[place] = ends.get(place, 0) + bytes_of(value)
    live = peak = sum(bytes_of(value) for value in graph.inputs if value in last)
    for place, node in enumerate(nodes):
        live += sum(bytes_of(value) for value in node.outputs)
        peak = max(peak, live)
        live -= ends.get(place, 0) + sum(bytes_of(value) for value in node.outputs if value not in last)
    return peak


def _cached(graph: Graph) -> list[str]:
    """The outputs that hold what the model remembers: they are named so, or are an input with one axis grown."""
    inputs = [value for value in graph.inputs if _is_tensor(value) and value.dtype.is_float]
    outputs = [value for value in graph.outputs if _is_tensor(value) and value.dtype.is_float]
    return [value.name for value in outputs if any(_continues(value, each) for each in inputs)]


def _continues(output: Value, given: Value) -> bool:
    if output.dtype != given.dtype or output.rank != given.rank or output.rank < 2:
        return False
    grown = [(new, old) for new, old in zip(output.shape, given.shape, strict=True) if new != old]
    if not grown:
        return bool(CACHED.search(output.name))
    return len(grown) == 1 and output.rank >= 3 and bool(symbols(grown[0][1]) & symbols(grown[0][0]))


def _is_tensor(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.shape is not None
