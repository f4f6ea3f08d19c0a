"""Depthwise convolution: each input channel makes its own output channels."""

from typing import Any

import numpy as np
import numpy.typing as npt

from intaglio.kernels.structured.source import StructuredKernel, VectorTarget
from intaglio.kernels.structured.window import Window, window_kernel


def depthwise(target: VectorTarget) -> StructuredKernel:
    """Convolution with as many groups as channels, of an NDHWC float32 input with weights from `pack_depthwise`.

    Output channel c reads input channel c / (OC / C).
    """
    return window_kernel(
        target,
        Window(
            hint="depthwise",
            title="Depthwise convolution",
            buffers=("x", "w"),
            start="acc = (ig_f32){0};",
            step="acc += value * weight;",
            finish="",
            has_weights=True,
        ),
    )


def pack_depthwise(weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Weights (OC, 1, *kernel) as (taps, OC)."""
    return np.ascontiguousarray(weights.reshape(weights.shape[0], -1).T.astype(np.float32))
