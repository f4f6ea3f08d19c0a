"""Sums of products of bytes: how a processor forms them, weights packed for that, and a tile of sums in registers."""

from dataclasses import dataclass
from math import prod
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from intaglio.targets.c.kernel_file import Value
from intaglio.targets.c.structured.source import VectorTarget

Byte = Literal["uint8", "int8"]

HEADER_ROWS = 2
"""Rows of int32 in front of each panel: what the left zero point is multiplied by, and the zero points of columns."""


class IntegerTarget(VectorTarget, Protocol):
    """The part of a target description that integer kernels depend on."""

    @property
    def features(self) -> frozenset[str]:
        """Extensions beyond the baseline, as /proc/cpuinfo spells them."""
        ...


@dataclass(frozen=True)
class IntegerTile:
    """Rows by columns of int32 sums in registers.

    With `quads`, one instruction multiplies four unsigned by four signed bytes and adds them to a sum; one operand of
    the two is kept with its sign flipped where it has the wrong one. Otherwise the left operand is widened to 16 bits
    with its zero point taken off, and pairs are multiplied. Both are exact: no partial sum is limited to 16 bits.
    """

    left: Byte
    quads: bool
    lanes: int
    rows: int
    vectors: int = 2
    matrices: bool = False
    """Whether the processor has registers of 16 rows by 64 bytes and multiplies them."""

    @property
    def block_rows(self) -> int:
        """The most rows whose sums are kept at once."""
        return max(self.rows, 32) if self.matrices else self.rows

    @property
    def group(self) -> int:
        """Neighbours along the depth that one instruction multiplies."""
        return 4 if self.quads else 2

    @property
    def columns(self) -> int:
        """Columns of a panel of packed weights."""
        return self.lanes * self.vectors

    @property
    def stored_signed(self) -> bool:
        """Whether packed weights are signed bytes."""
        return not self.quads or self.left == "uint8"

    @property
    def left_bytes(self) -> int:
        """Bytes of one element of the left operand as the tile reads it."""
        return 1 if self.quads else 2

    @property
    def header(self) -> int:
        """Bytes in front of each panel."""
        return 4 * HEADER_ROWS * self.columns

    def parameters(self, has_zero: bool) -> dict[str, Value]:
        """What the files of kernels call the parts of the tile; `has_zero`: a packed column may have a zero point."""
        return {
            "QUADS": self.quads,
            "ROWS": self.rows,
            "VECTORS": self.vectors,
            "LEFT_SIGNED": self.left == "int8",
            "HAS_ZERO": has_zero,
            "MATRICES": self.matrices,
        }


def integer_tile(target: IntegerTarget, left: Byte = "uint8", columns: object = None) -> IntegerTile:
    """The tile for a left operand of that type on a target.

    It is one vector wide where the result surely has no more columns: a wider one would compute twice as many.
    """
    quads = bool(target.features & {"avx512_vnni", "avx_vnni"})
    rows = 6 if target.vector_registers < 32 else 14 if quads else 12
    matrices = "amx_int8" in target.features and target.vector_bytes == 64 and quads
    lanes = target.vector_bytes // 4
    is_narrow = isinstance(columns, int) and columns <= lanes and not matrices
    return IntegerTile(left, quads, lanes, rows, vectors=1 if is_narrow else 2, matrices=matrices)


def panel_bytes(tile: IntegerTile, depth: Any) -> Any:
    """Bytes of one packed panel of that depth, a number or a dimension."""
    return (depth + tile.group - 1) // tile.group * (tile.group * tile.columns) + tile.header


def has_shift(tile: IntegerTile, right: Byte) -> bool:
    """Whether packing weights of this type flips their sign, which is a zero point of its own."""
    return tile.stored_signed != (right == "int8")


def pack_integer(array: npt.NDArray[Any], zero: Any, tile: IntegerTile) -> npt.NDArray[np.uint8]:
    """A matrix (K, N) of bytes with a zero point for all or each column, as panels with their headers."""
    depth, width = array.shape
    is_flipped = has_shift(tile, "int8" if array.dtype == np.int8 else "uint8")
    shift = 0 if not is_flipped else -128 if tile.stored_signed else 128
    groups, panels = -(-depth // tile.group), -(-width // tile.columns)
    stored = np.zeros((groups * tile.group, panels * tile.columns), np.int16)
    stored[:depth, :width] = array.astype(np.int16) + shift
    zeros = np.zeros(panels * tile.columns, np.int32)
    zeros[:width] = np.asarray(zero).astype(np.int32) + shift
    sums = stored.sum(0, dtype=np.int64) - depth * zeros.astype(np.int64)
    header = np.stack([sums.astype(np.int32), zeros]).reshape(HEADER_ROWS, panels, tile.columns).swapaxes(0, 1)
    blocks = stored.reshape(groups, tile.group, panels, tile.columns).transpose(2, 0, 3, 1).astype(np.uint8)
    rows = (np.ascontiguousarray(header).view(np.uint8), blocks)
    parts = [each.reshape(panels, prod(each.shape[1:])) for each in rows]
    return np.ascontiguousarray(np.concatenate(parts, axis=1))
