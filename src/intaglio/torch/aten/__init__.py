"""ATen's operators in ours, by family. Importing this fills the table."""

from intaglio.torch.aten import (
    attention,
    convolution,
    creation,
    indexing,
    left,
    linear,
    movement,
    normalization,
    pointwise,
    pooling,
    recurrent,
    reduction,
    resize,
    selection,
)
from intaglio.torch.aten.table import REFUSED, TABLE, why_missing

FAMILIES = (
    *(pointwise, reduction, linear, movement, indexing, selection, creation),
    *(convolution, pooling, normalization, resize, attention, recurrent),
)
"""The modules that enter operators; `left` says why others are not."""

__all__ = ["FAMILIES", "REFUSED", "TABLE", "left", "why_missing"]
