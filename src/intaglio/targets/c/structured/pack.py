"""Packing the right operand of a product into panels of adjacent columns, ahead of time or at run time."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from intaglio.ir.dim import floordiv, pieces
from intaglio.memory.constants import allocated
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.structured.source import (
    Element,
    StructuredKernel,
    VectorTarget,
    register_tile,
)

Unpacked = Literal["rows", "columns"]


def pack_b(
    array: npt.NDArray[Any], target: VectorTarget, element: Element = "float32", *, narrow: bool = False
) -> npt.NDArray[Any]:
    """Matrices (..., K, N) as (..., panels, K, columns): panels of adjacent columns, the last one filled with zeros."""
    columns = register_tile(target, element, narrow=narrow).columns
    *batch, depth, width = array.shape
    full, rest = divmod(width, columns)
    packed = allocated((*batch, full + (rest > 0), depth, columns), element)
    whole = array[..., : full * columns].reshape(*batch, depth, full, columns)
    packed[..., :full, :, :] = np.swapaxes(whole, -3, -2)
    if rest:
        packed[..., full, :, :rest] = array[..., full * columns :]
        packed[..., full, :, rest:] = 0
    return packed


def pack_kernel(target: VectorTarget, element: Element = "float32", b: Unpacked = "rows") -> StructuredKernel:
    """Packs `batch` matrices of K x N as `pack_b` does; a value stands where `gemm` looks for it in the same layout."""
    tile = register_tile(target, element)
    parameters = tile.parameters
    del parameters["ROWS"], parameters["RESULT"]
    instance = kernel("pack", parameters, B_IN_COLUMNS=b == "columns")
    return StructuredKernel(
        hint="pack",
        instance=instance,
        tasks=lambda size: size["batch"] * pieces(size["N"], tile.columns),
        cost=lambda size: 1 + floordiv(size["K"] * tile.columns, 4),
    )
