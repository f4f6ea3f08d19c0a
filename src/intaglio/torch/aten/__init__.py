"""ATen's operators in ours, by family. Importing this fills the table."""

from intaglio.torch.aten import (
    attention,
    convolution,
    creation,
    indexing,
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
"""The modules that enter operators."""

__all__ = ["FAMILIES", "REFUSED", "TABLE", "why_missing"]
