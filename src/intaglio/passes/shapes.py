"""Folding of shapes: integers that follow from the inputs' dimensions become constants."""

from __future__ import annotations

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.graph import Node, Value
from intaglio.passes.driver import ANY, Result, rule
from intaglio.passes.match import integers, pair


@rule(ANY)
def fold_known_integers(b: Builder, node: Node) -> Result:
    """Shape, Gather, Concat, arithmetic on sizes: a value whose elements are all known -> constant"""
    if node.op.is_random or not any(_is_foldable(value) for value in node.outputs):
        return None
    if any(value.uses and not _is_foldable(value) for value in node.outputs):
        return None
    return tuple(_constant(b, value) if _is_foldable(value) else value for value in node.outputs)


def _is_foldable(value: Value) -> bool:
    return bool(value.uses) and value.constant is None and integers(value) is not None


def _constant(b: Builder, value: Value) -> Value:
    contents = value.contents
    assert contents is not None
    return b.constant(np.array(contents.tolist(), dtype=value.dtype.numpy), name=value.name)


@rule("Reshape")
def infer_one_dimension(b: Builder, node: Node) -> Result:
    """reshape(x, [2, N, 3]) -> reshape(x, [2, -1, 3]), so that the target is a constant

    A dimension of 0 beside -1 would leave the unknown one open.
    """
    x, target = pair(node)
    if target.constant is not None or target.contents is None:
        return None
    sizes = target.contents.ravel().tolist()
    unknown = [position for position, size in enumerate(sizes) if not isinstance(size, int)]
    if len(unknown) != 1 or any(isinstance(size, int) and size <= 0 for size in sizes):
        return None
    sizes[unknown[0]] = -1
    return b.Reshape(x, b.constant(np.array(sizes, dtype=np.int64), name=target.name))
