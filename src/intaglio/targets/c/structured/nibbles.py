"""Products of floats with weights of four bits, which are taken out of their form in registers."""

from typing import Any

import numpy as np
import numpy.typing as npt

from intaglio.ir.dim import floordiv, pieces
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.structured.source import StructuredKernel, VectorTarget

_GROUP = 8
"""Weights of one column in 32 bits."""
NIBBLE_VECTORS = 2
"""Vectors in a row of a panel."""


def nibble_gemm(target: VectorTarget, *, has_zero: bool) -> StructuredKernel:
    """M x K floats by K x N weights as `pack_nibbles` makes them; with `has_zero`, blocks have zero points, else all 8.

    The left operand stands at a_step * m + k.
    """
    rows = nibble_rows(target)
    columns = nibble_columns(target)
    instance = kernel("nibble_gemm", HAS_ZERO=has_zero, ROWS=rows, VECTORS=NIBBLE_VECTORS)
    return StructuredKernel(
        hint="nibble_gemm",
        source=instance.text,
        buffers=instance.buffers,
        sizes=instance.sizes,
        tasks=lambda size: pieces(size["N"], columns),
        cost=lambda size: 1 + floordiv((size["M"] + 2) * size["K"] * columns, target.vector_bytes),
        scratch=lambda size: rows * columns * 4,
    )


def nibble_rows(target: VectorTarget) -> int:
    """Rows whose sums are in registers."""
    return 8 if target.vector_registers >= 32 else 4


def nibble_columns(target: VectorTarget) -> int:
    """Columns of a panel."""
    return target.vector_bytes // 4 * NIBBLE_VECTORS


def pack_nibbles(packed: npt.NDArray[Any], target: VectorTarget) -> npt.NDArray[np.uint32]:
    """Bytes (N, blocks, bytes of a block), low bits first, as (panels, depth / 8, columns): eight weights a column."""
    columns = nibble_columns(target)
    rows = packed.reshape(packed.shape[0], -1)
    bytes_of_word = rows.reshape(rows.shape[0], -1, _GROUP // 2).astype(np.uint32)
    words = sum(bytes_of_word[..., place] << np.uint32(8 * place) for place in range(_GROUP // 2))
    return _panels(np.asarray(words), columns)


def pack_blocks(parameters: npt.NDArray[Any], target: VectorTarget) -> npt.NDArray[np.float32]:
    """Scales or zero points (N, blocks) as (panels, blocks, columns)."""
    return _panels(parameters.astype(np.float32), nibble_columns(target))


def _panels(array: npt.NDArray[Any], columns: int) -> npt.NDArray[Any]:
    panels = -(-array.shape[0] // columns)
    padded = np.zeros((panels * columns, array.shape[1]), array.dtype)
    padded[: array.shape[0]] = array
    return np.ascontiguousarray(padded.reshape(panels, columns, -1).swapaxes(1, 2))
