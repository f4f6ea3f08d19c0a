"""ATen's operators in ours, by family. Importing this fills the table."""

from intaglio.torch.aten import (
    attention,
    bits,
    convolution,
    creation,
    indexing,
    left,
    linear,
    movement,
    normalization,
    pointwise,
    polynomials,
    pooling,
    recurrent,
    reduction,
    resize,
    scatter,
    selection,
    special,
    strided,
)
from intaglio.torch.aten.table import REFUSED, TABLE, why_missing

FAMILIES = (
    *(pointwise, reduction, linear, movement, indexing, scatter, selection, creation),
    *(convolution, pooling, normalization, resize, attention, recurrent, bits, strided, special, polynomials),
)
"""The modules that enter operators; `left` says why others are not."""

__all__ = ["FAMILIES", "REFUSED", "TABLE", "left", "why_missing"]
