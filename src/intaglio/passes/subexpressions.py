"""Common subexpressions: of two nodes that compute the same, readers of the second read the first one's outputs."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Hashable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.resize import renamed_sizes, rewrite_sizes
from intaglio.ir.substitution import substitute
from intaglio.passes.driver import Event, Outcome, Stays, is_dead, nothing_stays, remove_dead, replace_value

CONTENT_LIMIT = 1024
"""Constants of at most this many bytes are compared by content, larger ones by identity."""


def merge_common_subexpressions(graph: Graph, stays: Stays = nothing_stays) -> Outcome:
    """f(x), f(x) -> f(x), once; also in subgraphs, which may read what stands before them outside.

    Sizes that only the second node would tell are those of the first from then on. A node that `stays` is left alone.
    """
    return _Merging(graph, stays).run()


class _Merging:
    def __init__(self, model: Graph, stays: Stays) -> None:
        self.model = model
        self.stays = stays
        self.outcome = Outcome()
        self.sizes: dict[str, Dim] = {}

    def run(self) -> Outcome:
        self.merge(self.model, ChainMap())
        if self.sizes:
            rewrite_sizes(self.model, lambda dim: substitute(dim, self.sizes))
        return self.outcome

    def merge(self, graph: Graph, known: ChainMap[Hashable, Node]) -> None:
        for node in graph.nodes:
            subgraphs = [inner for _, inner in node.op.subgraphs()]
            for inner in subgraphs:
                self.merge(inner, known.new_child())
            if node.op.is_random or subgraphs or is_dead(node):
                continue
            key = _key(node)
            earlier = known.get(key)
            if earlier is None or earlier.graph is None:  # what only a merged node read has been removed
                known[key] = node
            elif self.replace(node, earlier):
                place = node.origin.path or f"%{node.outputs[0].name}"
                self.outcome.applied.append(Event("common-subexpression", place))

    def replace(self, node: Node, earlier: Node) -> bool:
        sizes = _same_sizes(node, earlier, self.sizes)
        if sizes is None or self.stays(node):
            return False
        pairs = [(old, new) for old, new in zip(node.outputs, earlier.outputs, strict=True) if old.uses]
        changed = [replace_value(self.model, old, new) for old, new in pairs]
        remove_dead([node], self.stays)
        self.sizes.update(sizes)
        return any(changed)


def _same_sizes(node: Node, earlier: Node, known: Mapping[str, Dim]) -> dict[str, Dim] | None:
    """What the symbols of a node's results are in those of an equal one; None where the results differ otherwise."""
    sizes: dict[str, Dim] = {}
    for old, new in zip(node.outputs, earlier.outputs, strict=True):
        found = renamed_sizes(old.type, new.type, {**known, **sizes})
        if found is None:
            return None
        sizes |= found
    return sizes


def _key(node: Node) -> Hashable:
    """Equal for nodes with equal outputs: by operator and inputs, or by known sizes, however they are computed."""
    contents = node.output.contents
    if contents is not None and len(node.outputs) == 1:
        return node.output.type, tuple(contents.ravel().tolist())
    inputs = tuple(_value_key(value) for value in node.inputs)
    attributes = tuple(_attribute_key(getattr(node.op, field.name)) for field in fields(node.op))  # pyright: ignore
    return node.is_recomputed, type(node.op), attributes, inputs, len(node.outputs)


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
