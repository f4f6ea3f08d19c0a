"""Products with weights of four or eight bits in blocks, which are taken out of their form in registers."""

from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from intaglio.ir.dim import floordiv, pieces
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.structured.integer_tile import IntegerTarget
from intaglio.targets.c.structured.source import StructuredKernel, VectorTarget

NIBBLE_VECTORS = 2
"""Vectors in a row of a panel."""


def nibble_gemm(target: VectorTarget, *, has_zero: bool, bits: int = 4) -> StructuredKernel:
    """M x K floats by K x N weights as `pack_nibbles` makes them; with `has_zero`, blocks have zero points.

    Without, all have the middle of the weights' range. The left operand stands at a_step * m + k.
    """
    rows = nibble_rows(target)
    columns = nibble_columns(target)
    instance = kernel("nibble_gemm", HAS_ZERO=has_zero, BITS=bits, ROWS=rows, VECTORS=NIBBLE_VECTORS)
    return StructuredKernel(
        hint="nibble_gemm",
        instance=instance,
        tasks=lambda size: pieces(size["N"], columns),
        cost=lambda size: 1 + floordiv((size["M"] + 2) * size["K"] * columns, target.vector_bytes),
        scratch=lambda size: rows * columns * 4,
    )


class ByteForm(IntEnum):
    """How a processor multiplies signed bytes by weights of few bits, as kernels/block_byte_gemm.c numbers it."""

    PAIRS = 0
    BYTE_PAIRS = 1
    FOURS = 2

    @property
    def left_bytes(self) -> int:
        """Bytes of one number of the left operand."""
        return 2 if self is ByteForm.PAIRS else 1


def byte_form(target: IntegerTarget, bits: int) -> ByteForm:
    """The fastest form that a target has and that is exact with weights of so many bits."""
    if target.features & {"avx512_vnni", "avx_vnni"}:
        return ByteForm.FOURS
    return ByteForm.BYTE_PAIRS if target.vector_bytes >= 32 and bits == 4 else ByteForm.PAIRS


def block_byte_gemm(target: IntegerTarget, *, has_zero: bool, bits: int, block: int) -> StructuredKernel:
    """M x K bytes as kernels/quantize_rows.c makes them by weights as `pack_words` makes them, both in blocks."""
    form, columns = byte_form(target, bits), nibble_columns(target)
    rows = 6 if target.vector_registers >= 32 else 4
    words = next(count for count in (4, 2, 1) if block * bits // 32 % count == 0)
    instance = kernel("block_byte_gemm", FORM=int(form), HAS_ZERO=has_zero, BITS=bits, WORDS=words, ROWS=rows,
                      VECTORS=NIBBLE_VECTORS)  # fmt: skip
    return StructuredKernel(
        hint="block_byte_gemm",
        instance=instance,
        tasks=lambda size: pieces(size["N"], columns),
        cost=lambda size: 1 + floordiv((size["M"] + 2) * size["K"] * columns, target.vector_bytes * (2 + form)),
        scratch=lambda size: rows * columns * 4,
    )


def nibble_rows(target: VectorTarget) -> int:
    """Rows whose sums are in registers."""
    return 8 if target.vector_registers >= 32 else 4


def nibble_columns(target: VectorTarget) -> int:
    """Columns of a panel."""
    return target.vector_bytes // 4 * NIBBLE_VECTORS


def pack_nibbles(packed: npt.NDArray[Any], target: VectorTarget) -> npt.NDArray[np.uint32]:
    """Bytes (N, blocks, bytes of a block), low bits first, as (panels, words, columns): 32 bits of a column a word."""
    bytes_of_word = packed.reshape(packed.shape[0], -1, 4)
    return _panels(_words(bytes_of_word), nibble_columns(target))


def pack_words(packed: npt.NDArray[Any], bits: int, target: VectorTarget) -> npt.NDArray[np.uint32]:
    """The same for products of bytes: of eight weights of four bits, four are in the low halves of a word's bytes."""
    if bits == 8:
        return pack_nibbles(packed, target)
    rows = packed.reshape(packed.shape[0], -1)
    weights = np.stack([rows & 15, rows >> 4], axis=-1).reshape(rows.shape[0], -1, 2, 4)
    return _panels(_words(weights[:, :, 0] | weights[:, :, 1] << 4), nibble_columns(target))


def _words(array: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
    """Four bytes along the last axis as one number, the first in the lowest bits."""
    wide = array.astype(np.uint32)
    return np.asarray(sum(wide[..., place] << np.uint32(8 * place) for place in range(4)))


def pack_blocks(parameters: npt.NDArray[Any], target: VectorTarget) -> npt.NDArray[np.float32]:
    """Scales or zero points (N, blocks) as (panels, blocks, columns)."""
    return _panels(parameters.astype(np.float32), nibble_columns(target))


def _panels(array: npt.NDArray[Any], columns: int) -> npt.NDArray[Any]:
    panels = -(-array.shape[0] // columns)
    padded = np.zeros((panels * columns, array.shape[1]), array.dtype)
    padded[: array.shape[0]] = array
    return np.ascontiguousarray(padded.reshape(panels, columns, -1).swapaxes(1, 2))
