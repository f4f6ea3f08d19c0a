"""Folding of shapes: integers that follow from the inputs' dimensions become constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim, product
from intaglio.ir.graph import Node, Value
from intaglio.ir.op import Array
from intaglio.passes.driver import ANY, Result, rule
from intaglio.passes.match import integers, pair, rank_of


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
    return b.constant(np.array(contents.tolist(), dtype=value.dtype.numpy).reshape(contents.shape), name=value.name)


@rule("Reshape")
def constant_target(b: Builder, node: Node) -> Result:
    """reshape(x: [N, M, 6], [N, 2, M, 3]) -> reshape(x, [0, 2, -1, 3]), so that the target is a constant"""
    x, target = pair(node)
    if target.constant is not None or target.contents is None:
        return None
    sizes = reshape_target(x, target.contents.ravel().tolist())
    return None if sizes is None else b.Reshape(x, b.constant(sizes, name=target.name))


def reshape_target(x: Value, sizes: Sequence[Dim]) -> Array | None:
    """The sizes as a constant target for a Reshape of x: 0 copies a dimension, one other unknown is -1.

    None where that is not possible; a size that is 0 itself could not be told from a copy, and -1 would fit where the
    size that it stands for does not.
    """
    given = x.shape if rank_of(x) is not None else ()
    if any(isinstance(size, int) and size <= 0 for size in sizes):
        return None
    is_copy = [position < len(given) and given[position] == size for position, size in enumerate(sizes)]
    target = [size if isinstance(size, int) else 0 if copy else -1 for size, copy in zip(sizes, is_copy, strict=True)]
    is_certain = -1 not in target or (target.count(-1) == 1 and product(sizes) == product(given))
    return np.array(target, dtype=np.int64) if is_certain else None


def is_of_same_size(x: Value, y: Value) -> bool:
    """Whether two tensors have equally many elements whatever their open sizes are."""
    return rank_of(x) is not None and rank_of(y) is not None and product(x.shape) == product(y.shape)
