"""Older names of interpolation modes and older places of pixels."""

from __future__ import annotations

from intaglio.ir.build import Builder
from intaglio.ir.graph import Value
from intaglio.onnx.adapters import adapts


@adapts("GridSample", before=20)
def grid_sample_16(
    b: Builder,
    X: Value,
    grid: Value,
    *,
    align_corners: int = 0,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
) -> Value:
    """Until opset 19 only images could be sampled, and modes were named after two axes."""
    newer = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    return b.GridSample(X, grid, align_corners=align_corners, mode=newer, padding_mode=padding_mode)


@adapts("RoiAlign", before=16)
def roi_align_10(
    b: Builder,
    X: Value,
    rois: Value,
    batch_indices: Value,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Value:
    """Until opset 15 the input's coordinates were not shifted by half a pixel."""
    return b.RoiAlign(
        X,
        rois,
        batch_indices,
        coordinate_transformation_mode="output_half_pixel",
        mode=mode,
        output_height=output_height,
        output_width=output_width,
        sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
    )
