"""Reverse mode: from the last node to the first, each operator's `pullback` tells the gradients of its inputs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from intaglio.autodiff.path import (
    NotDifferentiableError,
    Path,
    Region,
    differentiable_path,
    is_quantized,
    missing_text,
    operands,
    reason_of,
)
from intaglio.autodiff.rules import CONTROL, is_straight, own_rule
from intaglio.autodiff.sequences import add_bars, zero_bar
from intaglio.errors import GraphError, ShapeError, UnsupportedError
from intaglio.ir.build import Builder, infer_types
from intaglio.ir.dim import UndecidableError
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.op import Tensor
from intaglio.ir.types import TensorType
from intaglio.ir.verify import is_compatible

Seeds = Sequence[tuple[Value, Value]]
"""The values that are differentiated, each with the weights of its elements."""


def gradients(
    graph: Graph,
    of: Value,
    wrt: Sequence[Value],
    seed: Value | None = None,
    builder: Builder | None = None,
    straight_through: bool = False,
) -> list[Value]:
    """Add to a graph what computes the gradients of a value with respect to others, and return those gradients.

    The gradient is that of the sum of all elements of `of`, or of their sum weighted by `seed`. It has the type of the
    value that it belongs to, and is zero where `of` does not depend on that smoothly. The new nodes go where `builder`
    puts them, by default to the end, and can be differentiated in turn. With `straight_through`, quantizing counts as
    if it did not round.

    An operator without a pullback is replaced by its expansion in the graph, which keeps all values and their names;
    UnsupportedError lists all operators that have neither.
    """
    _check_operands(graph, of, wrt, seed)
    builder = builder or Builder(graph)
    with builder.active(), _removing_unread(builder.graph) as keep:
        seeds = [(of, _ones(builder, of) if seed is None else seed)]
        bars = pull_back(builder, lambda: graph.nodes, seeds, wrt, straight_through)
        return keep([zero_bar(builder, value) if bar is None else bar for value, bar in zip(wrt, bars, strict=True)])


def pull_back(
    b: Builder, region: Region, seeds: Seeds, wrt: Sequence[Value], straight_through: bool = False
) -> list[Value | None]:
    """The gradients of weighted values by others through the nodes of a region; None where there is no path.

    The builder must be active. Raises NotDifferentiableError with all nodes that have no gradient.
    """
    path, missing = differentiable_path(region, [of for of, _ in seeds], wrt, straight_through)
    bars: dict[Value, Value] = {}
    for of, seed in seeds:
        _add_bar(b, bars, of, seed)
    origin = b.origin
    try:
        for node in reversed(path.nodes):
            b.origin = node.origin.renamed(f"gradient of {node.origin}") if node.origin else origin
            _pull_back_node(b, node, path, bars, missing, straight_through)
    finally:
        b.origin = origin
    if missing:
        raise NotDifferentiableError(missing_text(missing), missing)
    return [bars.get(value) for value in wrt]


def _pull_back_node(
    b: Builder, node: Node, path: Path, bars: dict[Value, Value], missing: dict[Node, str], straight_through: bool
) -> None:
    """Add to the gradients what a node gives; where it has none, go on with zeros to find what else is missing."""
    if all(value not in bars for value in node.outputs):
        return
    wanted = [value for value in operands(node) if value in path.values]
    found: Iterable[tuple[Value, Value]] = ()
    if node not in missing:
        try:
            found = list(_bars_of(b, node, wanted, bars, straight_through))
        except NotDifferentiableError as error:
            missing.update(error.missing)
        except (UnsupportedError, ShapeError, UndecidableError) as error:
            missing[node] = reason_of(error)
    if missing:
        found = [(value, zero_bar(b, value)) for value in wanted if isinstance(value.type, TensorType)]
    for value, bar in found:
        _check_bar(node, value, bar)
        _add_bar(b, bars, value, _in_shape(b, bar, value))


def _bars_of(
    b: Builder, node: Node, wanted: Sequence[Value], bars: dict[Value, Value], straight_through: bool
) -> Iterator[tuple[Value, Value]]:
    """The gradients of the wanted operands of a node."""
    rule = own_rule(node)
    if rule is None and isinstance(node.op, CONTROL):
        from intaglio.autodiff.control import control_bars

        yield from control_bars(b, node, wanted, [bars.get(value) for value in node.outputs], straight_through)
        return
    if rule is None and straight_through and is_straight(node):
        yield from _form_bars(b, node, wanted, bars, node.op.straight_through)
        return
    if straight_through and node.op.name == "Cast" and node.input in wanted and is_quantized(node.input):
        yield node.input, bars[node.output]
        return
    if rule is None and not node.op.has("pullback"):
        yield from _form_bars(b, node, wanted, bars, node.op.smooth_form)
        return
    if rule is None:
        _add_outputs(node)
    output_bars = tuple(bars.get(value) for value in node.outputs)
    inputs, outputs = node.inputs, node.outputs
    found = (
        node.op.pullback(b, inputs, outputs, output_bars)
        if rule is None
        else rule(node.op, b, inputs, outputs, output_bars)
    )
    if found is NotImplemented:
        yield from _form_bars(b, node, wanted, bars, node.op.smooth_form)
        return
    for value, bar in zip(inputs, found, strict=False):
        if value in wanted and value is not None and bar is not None:
            if isinstance(bar, UnsupportedError):
                raise bar
            yield value, bar


def _form_bars(
    b: Builder, node: Node, wanted: Sequence[Value], bars: dict[Value, Value], form: Callable[..., Any]
) -> Iterator[tuple[Value, Value]]:
    """The gradients of a node through operators that say the same smoothly, built in the backward pass."""
    dtype = next(bars[value].dtype for value in node.outputs if value in bars)
    stand_ins = {value: b.Cast(value, to=dtype.number) for value in wanted if is_quantized(value)}
    marker = b.graph.last if b.before is None else b.before.previous
    result = form(b, *(value if value is None else stand_ins.get(value, value) for value in node.inputs))
    results = result if isinstance(result, tuple) else (result,)
    pairs = [(made, bars[v]) for v, made in zip(node.outputs, results, strict=False) if v in bars and made is not None]
    seeds = [(made, bar if bar.type == made.type else b.CastLike(bar, made)) for made, bar in pairs]
    region = functools.partial(nodes_between, b.graph, marker, b.before)
    changed = [stand_ins.get(value, value) for value in wanted]
    for value, bar in zip(wanted, pull_back(b, region, seeds, changed), strict=True):
        if bar is not None:
            yield value, bar


def nodes_between(graph: Graph, before: Node | None, end: Node | None) -> Iterator[Node]:
    """The nodes behind one up to another."""
    node = graph.first if before is None else before.next
    while node is not None and node is not end:
        yield node
        node = node.next


def _in_shape(b: Builder, bar: Value, value: Value) -> Value:
    """The gradient with the sizes of its value by name, where its own rule could not know that they are the same."""
    if not isinstance(value.type, TensorType) or value.type.shape in (None, bar.tensor.shape):
        return bar
    return b.Reshape(bar, b.Shape(value), allowzero=1)


def _add_bar(b: Builder, bars: dict[Value, Value], value: Value, bar: Value) -> None:
    bars[value] = add_bars(b, bars[value], bar) if value in bars else bar


def _check_operands(graph: Graph, of: Value, wrt: Iterable[Value], seed: Value | None) -> None:
    for value in (of, *wrt):
        if not isinstance(value.type, TensorType) or not value.dtype.is_float:
            raise GraphError(f"{value!r} has no gradient: a tensor of a real floating-point type is needed")
    if of.producer is not None and of.producer.graph is not graph:
        raise UnsupportedError(f"%{of.name} is computed outside of graph {graph.name!r}, which it is to be added to")
    if seed is not None and not is_compatible(seed.type, of.type):
        raise GraphError(f"the seed {seed!r} is not of the type of {of!r}")


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
        remove_unread(graph, kept, before)


def remove_unread(graph: Graph, kept: Iterable[Value], before: Iterable[Node] = ()) -> None:
    """Take the nodes of a graph out that nobody reads, but for those that were there before."""
    kept, before = set(kept), set(before)
    for node in reversed([node for node in graph.nodes if node not in before]):
        if not any(value.uses or value in kept for value in node.outputs):
            graph.remove(node)


def _add_outputs(node: Node) -> None:
    """Give a node the outputs that its operator's pullback reads, although nobody asked for them yet."""
    given, wanted = len(node.outputs), node.op.pullback_outputs
    if wanted > given and node.graph is not None:
        types = infer_types(node.op, node.inputs, wanted, node.output.name)
        names = node.op.output_names[given:wanted]
        added = zip(names, types[given:], strict=True)
        node.outputs += tuple(Value(node.graph.unique_name(f"{node.output.name}.{n}"), t, node) for n, t in added)


def _check_bar(node: Node, value: Value, bar: Value) -> None:
    is_real = not isinstance(value.type, TensorType) or value.dtype.kind == "float"
    if is_real and not is_compatible(bar.type, value.type):
        raise GraphError(f"the pullback of {node.op.name} gives {bar.type} as the gradient of {value!r}")


def _ones(b: Builder, value: Value) -> Value:
    return b.ConstantOfShape(b.Shape(value), value=Tensor(np.ones(1, value.dtype.numpy)))
