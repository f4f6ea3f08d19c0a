"""Depthwise convolution, and convolution in small groups: few channels make few channels."""

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from intaglio.targets.c.structured.source import StructuredKernel, VectorTarget
from intaglio.targets.c.structured.window import window_kernel


def depthwise(target: VectorTarget) -> StructuredKernel:
    """Convolution with as many groups as input and output channels, of an NDHWC float32 input.

    Weights from `pack_depthwise`.
    """
    return window_kernel("depthwise", target, has_weights=True)


def grouped(target: VectorTarget) -> StructuredKernel:
    """Convolution in groups of at most a vector of input and of output channels, of an NDHWC float32 input.

    Weights from `pack_depthwise`. A vector holds the outputs of several groups; each of its lanes gets the input
    channels of its group one after the other.
    """
    return window_kernel("grouped", target, has_weights=True, is_grouped=True)


def pack_depthwise(weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Weights (OC, C / groups, *kernel) as (taps, C / groups, OC)."""
    return np.ascontiguousarray(
        weights.reshape(*weights.shape[:2], prod(weights.shape[2:])).transpose(2, 1, 0).astype(np.float32)
    )
