"""Attention: for some queries of a head the scores with all keys, their softmax, and its product with V.

The scores stay in scratch memory that a core's cache holds.
"""

from dataclasses import dataclass
from typing import Literal

from intaglio.ir.dim import Dim, maximum, pieces
from intaglio.targets.c.kernel_file import Instance, Value, kernel
from intaglio.targets.c.structured.source import VectorTarget, register_tile

Mask = Literal["none", "float", "bool"]


@dataclass(frozen=True)
class AttentionKind:
    """What is compiled in: the mask's type and whether it repeats along the keys, causal order, a soft cap."""

    mask: Mask = "none"
    mask_repeats: bool = False
    is_causal: bool = False
    has_cap: bool = False


def attention_kernel(kind: AttentionKind, target: VectorTarget) -> Instance:
    """The kernel; a task is `row_block` queries of one head of one batch."""
    return kernel("attention", _parameters(kind, target), ROWS_ADJACENT=0, WEIGHTS_STRIDE=0, HAS_CAP=kind.has_cap)


def attention_gradient_kernel(kind: AttentionKind, target: VectorTarget) -> Instance:
    """The kernel of the gradients, which knows no cap; a task is one head of keys of one batch."""
    return kernel("attention_gradient", _parameters(kind, target))


def _parameters(kind: AttentionKind, target: VectorTarget) -> dict[str, Value]:
    parameters = register_tile(target).parameters
    del parameters["RESULT"]
    return parameters | {
        "HAS_MASK": kind.mask != "none",
        "MASK_IS_BOOL": kind.mask == "bool",
        "MASK_REPEATS": kind.mask_repeats,
        "IS_CAUSAL": kind.is_causal,
    }


def scratch_bytes(target: VectorTarget, row_block: Dim, keys: Dim, size: Dim) -> Dim:
    """The bytes of scratch memory for blocks of queries with so many keys, each of a size."""
    columns = register_tile(target).columns
    padded = pieces(keys, columns) * columns + columns + 1
    return (row_block * padded + maximum(keys, size) * columns + 64) * 4


def gradient_scratch_bytes(target: VectorTarget, row_block: Dim, keys: Dim, sizes: tuple[Dim, Dim]) -> Dim:
    """The bytes of scratch memory for the gradients: blocks of queries, keys, the sizes of heads of keys and values."""
    tile = register_tile(target)
    rows, width = pieces(row_block, tile.lanes) * tile.lanes, pieces(keys, tile.columns) * tile.columns
    panels = pieces(sizes[0], tile.columns), pieces(sizes[1], tile.columns)
    sums = (panels[0] + panels[1]) * keys + panels[0] * row_block + tile.rows
    deepest = maximum(maximum(keys, row_block), maximum(*sizes))
    return (rows * width * 3 + (sums + deepest) * tile.columns + 64) * 4
