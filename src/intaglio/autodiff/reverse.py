"""Reverse mode: from the last node to the first, each operator's `pullback` tells the gradients of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from intaglio.errors import GraphError, UnsupportedError
from intaglio.ir.build import Builder, expand_in_place, infer_types
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.op import Tensor
from intaglio.ir.types import OptionalType, SequenceType, TensorType, Type
from intaglio.ir.verify import is_compatible


def gradients(
    graph: Graph, of: Value, wrt: Sequence[Value], seed: Value | None = None, builder: Builder | None = None
) -> list[Value]:
    """Add to a graph what computes the gradients of a value with respect to others, and return those gradients.

    The gradient is that of the sum of all elements of `of`, or of their sum weighted by `seed`. It has the type of the
    value that it belongs to, and is zero where `of` does not depend on that smoothly. The new nodes go where `builder`
    puts them, by default to the end, and can be differentiated in turn.

    An operator without a pullback is replaced by its expansion in the graph, which keeps all values and their names;
    UnsupportedError lists all operators that have neither.
    """
    _check_operands(graph, of, wrt, seed)
    path = _differentiable_path(graph, of, wrt)
    builder = builder or Builder(graph)
    with builder.active(), _removing_unread(graph) as keep:
        bars = _pull_back(builder, path, of, _ones(builder, of) if seed is None else seed)
        return keep([bars.get(value) or _zeros(builder, value) for value in wrt])


def _check_operands(graph: Graph, of: Value, wrt: Iterable[Value], seed: Value | None) -> None:
    for value in (of, *wrt):
        if not isinstance(value.type, TensorType) or not value.dtype.is_float:
            raise GraphError(f"{value!r} has no gradient: a tensor of a real floating-point type is needed")
    if of.producer is not None and of.producer.graph is not graph:
        raise UnsupportedError(f"%{of.name} is computed outside of graph {graph.name!r}, which it is to be added to")
    if seed is not None and not is_compatible(seed.type, of.type):
        raise GraphError(f"the seed {seed!r} is not of the type of {of!r}")


@dataclass(frozen=True)
class _Path:
    """The nodes through which a value depends smoothly on others, in order, and the values that change on the way."""

    nodes: list[Node]
    values: set[Value]


def _find_path(graph: Graph, of: Value, wrt: Iterable[Value]) -> _Path:
    varied = set(wrt)
    candidates: list[Node] = []
    for node in graph.nodes:
        if varied.isdisjoint(value for value in (*node.inputs, *node.captures()) if value is not None):
            continue
        changed = [value for value in node.outputs if _is_smooth(value.type)]
        if changed:
            candidates.append(node)
            varied.update(changed)
    needed, nodes = {of}, list[Node]()
    for node in reversed(candidates):
        if not needed.isdisjoint(node.outputs):
            nodes.append(node)
            needed.update(value for value in (*node.inputs, *node.captures()) if value is not None)
    return _Path(nodes[::-1], varied & needed)


def _is_smooth(type: Type) -> bool:
    """Whether values of a type can change by a little; complex ones too, although no rule takes them."""
    if isinstance(type, (SequenceType, OptionalType)):
        return _is_smooth(type.element)
    return isinstance(type, TensorType) and type.dtype.kind in ("float", "complex")


def _differentiable_path(graph: Graph, of: Value, wrt: Sequence[Value]) -> _Path:
    """The path after expansion, on which every operator has a pullback."""
    refused: dict[Node, str] = {}
    while True:
        path = _find_path(graph, of, wrt)
        composite = [node for node in path.nodes if not _has_rule(node) and node.op.has("expand")]
        composite = [node for node in composite if node not in refused]
        if not composite:
            break
        for node in composite:
            try:
                expand_in_place(node)
            except UnsupportedError as error:
                refused[node] = str(error)
    missing = {node: refused.get(node, "") for node in path.nodes if not _has_rule(node)}
    if missing:
        raise UnsupportedError(_missing_text(missing))
    return path


def _has_rule(node: Node) -> bool:
    is_complex = any(isinstance(v.type, TensorType) and v.type.dtype.kind == "complex" for v in node.outputs)
    return node.op.has("pullback") and not is_complex


def _missing_text(missing: dict[Node, str]) -> str:
    """One line for each operator: how often it stands in the way, where first, and why if there is more to say."""
    by_name: dict[str, list[Node]] = {}
    for node in missing:
        by_name.setdefault(f"{node.op.domain}::{node.op.name}".removeprefix("::"), []).append(node)
    lines = [f"{len(by_name)} operator{'s' if len(by_name) > 1 else ''} on the way cannot be differentiated:"]
    for name, nodes in sorted(by_name.items()):
        times = f"{len(nodes)} nodes, first at " if len(nodes) > 1 else "at "
        place = nodes[0].source or f"%{nodes[0].output.name}"
        reason = f" ({missing[nodes[0]]})" if missing[nodes[0]] else ""
        lines.append(f"  {name}: {times}{place}{reason}")
    return "\n".join(lines)


@contextmanager
def _removing_unread(graph: Graph):
    """Take out the nodes added within the context that nobody reads: all of them where it fails.

    Pullbacks compute the gradients of all inputs, wanted or not. The function that is handed out notes what to keep.
    """
    before = set(graph.nodes)
    kept: set[Value] = set()

    def keep(values: list[Value]) -> list[Value]:
        kept.update(values)
        return values

    try:
        yield keep
    finally:
        for node in reversed([node for node in graph.nodes if node not in before]):
            if not any(value.uses or value in kept for value in node.outputs):
                graph.remove(node)


def _pull_back(b: Builder, path: _Path, of: Value, seed: Value) -> dict[Value, Value]:
    """The gradients of all values on the path."""
    bars = {of: seed}
    missing: dict[Node, str] = {}
    source = b.source
    for node in reversed(path.nodes):
        _add_outputs(node)
        output_bars = tuple(bars.get(value) for value in node.outputs)
        if all(bar is None for bar in output_bars):
            continue
        b.source = f"gradient of {node.source}" if node.source else source
        try:
            found = node.op.pullback(b, node.inputs, node.outputs, output_bars)
        except UnsupportedError as error:
            missing[node] = str(error)
            continue
        for value, bar in zip(node.inputs, found, strict=False):
            if value in path.values and bar is not None:
                _check_bar(node, value, bar)
                bars[value] = b.Add(bars[value], bar) if value in bars else bar
    b.source = source
    if missing:
        raise UnsupportedError(_missing_text(missing))
    return bars


def _add_outputs(node: Node) -> None:
    """Give a node the outputs that its operator's pullback reads, although nobody asked for them yet."""
    given, wanted = len(node.outputs), node.op.pullback_outputs
    if wanted > given and node.graph is not None:
        types = infer_types(node.op, node.inputs, wanted, node.output.name)
        names = node.op.output_names[given:wanted]
        added = zip(names, types[given:], strict=True)
        node.outputs += tuple(Value(node.graph.unique_name(f"{node.output.name}.{n}"), t, node) for n, t in added)


def _check_bar(node: Node, value: Value, bar: Value) -> None:
    if not is_compatible(bar.type, value.type):
        raise GraphError(f"the pullback of {node.op.name} gives {bar.type} as the gradient of {value!r}")


def _ones(b: Builder, value: Value) -> Value:
    return _filled(b, value, np.ones)


def _zeros(b: Builder, value: Value) -> Value:
    return _filled(b, value, np.zeros)


def _filled(b: Builder, value: Value, make: Callable[..., np.ndarray]) -> Value:
    return b.ConstantOfShape(b.Shape(value), value=Tensor(make(1, value.dtype.numpy)))
