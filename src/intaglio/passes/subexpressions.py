"""Common subexpressions: of two nodes that compute the same, readers of the second read the first one's outputs."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Hashable
from dataclasses import fields
from typing import Any

import numpy as np

from intaglio.ir.graph import Graph, Node, Value
from intaglio.passes.driver import Event, Outcome, is_dead, remove_dead, replace_value

CONTENT_LIMIT = 1024
"""Constants of at most this many bytes are compared by content, larger ones by identity."""


def merge_common_subexpressions(graph: Graph) -> Outcome:
    """f(x), f(x) -> f(x), once; also in subgraphs, which may read what stands before them outside."""
    outcome = Outcome()
    _merge(graph, graph, ChainMap(), outcome)
    return outcome


def _merge(model: Graph, graph: Graph, known: ChainMap[Hashable, Node], outcome: Outcome) -> None:
    for node in graph.nodes:
        subgraphs = [inner for _, inner in node.op.subgraphs()]
        for inner in subgraphs:
            _merge(model, inner, known.new_child(), outcome)
        if node.op.is_random or subgraphs or is_dead(node):
            continue
        key = _key(node)
        earlier = known.get(key)
        if earlier is None or earlier.graph is None:  # what only a merged node read has been removed
            known[key] = node
        elif _replace(model, node, earlier):
            place = node.source or f"%{node.outputs[0].name}"
            outcome.applied.append(Event("common-subexpression", place))


def _replace(model: Graph, node: Node, earlier: Node) -> bool:
    pairs = [(old, new) for old, new in zip(node.outputs, earlier.outputs, strict=True) if old.uses]
    changed = [replace_value(model, old, new) for old, new in pairs]
    remove_dead([node])
    return any(changed)


def _key(node: Node) -> Hashable:
    """Equal for nodes with equal outputs: by operator and inputs, or by known sizes, however they are computed."""
    contents = node.output.contents
    if contents is not None and len(node.outputs) == 1:
        return node.output.type, tuple(contents.ravel().tolist())
    inputs = tuple(_value_key(value) for value in node.inputs)
    attributes = tuple(_attribute_key(getattr(node.op, field.name)) for field in fields(node.op))  # pyright: ignore
    return type(node.op), attributes, inputs, len(node.outputs)


def _value_key(value: Value | None) -> Hashable:
    if value is None or not isinstance(value.constant, np.ndarray) or value.constant.dtype == object:
        return value
    if value.constant.nbytes > CONTENT_LIMIT:
        return value
    return value.constant.dtype, value.constant.shape, value.constant.tobytes()


def _attribute_key(item: Any) -> Hashable:
    """An attribute such that numbers that are only equal by value (1 and 1.0, 0.0 and -0.0) differ."""
    if isinstance(item, (tuple, list)):
        return tuple(_attribute_key(each) for each in item)
    if isinstance(item, float):
        return float, item if item == item else "nan", math.copysign(1.0, item)
    return type(item), item
