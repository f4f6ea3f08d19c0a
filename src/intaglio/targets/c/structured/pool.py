"""Pooling of one to three spatial axes."""

from typing import Literal

from intaglio.targets.c.structured.source import StructuredKernel, VectorTarget
from intaglio.targets.c.structured.window import window_kernel

Pool = Literal["max", "average", "average_with_pads"]


def pool(target: VectorTarget, kind: Pool) -> StructuredKernel:
    """MaxPool or AveragePool of an NDHWC float32 input; `average_with_pads` also counts the pads.

    The output's extents are given, so that any rounding mode is the caller's. A maximum is NaN where a value is.
    """
    if kind == "max":
        return window_kernel("max_pool", target, is_maximum=True)
    return window_kernel("average_pool", target, is_average=True, counts_pads=kind == "average_with_pads")
