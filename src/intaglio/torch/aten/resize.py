"""Images resampled to other sizes, and the gradients of that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from intaglio.errors import UnsupportedError
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Value
from intaglio.ops.resize import Resize
from intaglio.torch.aten.call import AtenCall
from intaglio.torch.aten.table import Rule, aten


def _nearest(rank: int) -> Resize:
    return Resize(
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
        axes=tuple(range(2, 2 + rank)),
    )


def _linear(rank: int, align_corners: bool, mode: str) -> Resize:
    transformation = "align_corners" if align_corners else "half_pixel"
    return Resize(mode=mode, coordinate_transformation_mode=transformation, axes=tuple(range(2, 2 + rank)))


def _resized(c: AtenCall, op: Resize, x: Value, rank: int, factors: Sequence[Any] | None) -> Value:
    """The image by a Resize to the sizes that PyTorch has worked out, with factors where those were given."""
    sizes = c.shape()[-rank:]
    wide = c.cast(x, FLOAT32) if x.dtype.is_float and x.dtype.bits < 32 else x
    if not wide.dtype.is_float:
        raise UnsupportedError(f"images of {x.dtype}")
    return c.cast(c.b.add(op, _operands(c, wide, sizes, rank, factors, op))[0])


def _operands(
    c: AtenCall, x: Value, sizes: Sequence[Any], rank: int, factors: Sequence[Any] | None, op: Resize
) -> list[Value | None]:
    is_given = factors is not None and all(isinstance(factor, (int, float)) for factor in factors)
    if is_given and factors is not None and op.coordinate_transformation_mode != "align_corners":
        exact = [float(np.float32(factor)) == float(factor) for factor in factors]
        if not all(exact):
            raise UnsupportedError(f"factors {list(factors)}, which single precision rounds")
        return [x, None, c.b.constant(np.array(factors, np.float32))]
    return [x, None, None, c.vector(sizes)]


def _nearest_rule(rank: int, has_list: bool) -> Rule:
    def rule(c: AtenCall, x: Value, output_size: Any, *scales: Any) -> Value:
        """The nearest pixel."""
        factors = _factors(scales[0] if has_list and scales else scales)
        return _resized(c, _nearest(rank), x, rank, factors)

    return rule


def _factors(scales: Any) -> Sequence[Any] | None:
    return None if not scales or any(scale is None for scale in scales) else list(scales)


def _linear_rule(rank: int, has_list: bool, mode: str) -> Rule:
    def rule(c: AtenCall, x: Value, output_size: Any, align_corners: bool, *scales: Any) -> Value:
        """Pixels interpolated."""
        factors = _factors(scales[0] if has_list and scales else scales)
        return _resized(c, _linear(rank, align_corners, mode), x, rank, factors)

    return rule


for _rank, _name in ((1, "linear1d"), (2, "bilinear2d"), (3, "trilinear3d")):
    aten(f"upsample_nearest{_rank}d.vec")(_nearest_rule(_rank, True))
    aten(f"upsample_nearest{_rank}d")(_nearest_rule(_rank, False))
    aten(f"upsample_{_name}.vec")(_linear_rule(_rank, True, "linear"))
    aten(f"upsample_{_name}")(_linear_rule(_rank, False, "linear"))
aten("upsample_bicubic2d.vec")(_linear_rule(2, True, "cubic"))
aten("upsample_bicubic2d")(_linear_rule(2, False, "cubic"))


def _backward(
    c: AtenCall, op: Resize, bar: Value, input_size: Sequence[Any], rank: int, scales: Sequence[Any]
) -> Value:
    factors = _factors(scales)
    wide = c.cast(bar, FLOAT32) if bar.dtype.bits < 32 else bar
    like = c.full(input_size, 0, wide.dtype)
    operands = _operands(c, like, bar.shape[-rank:], rank, factors, op)
    found = c.pullback(op, operands, [c.b.add(op, operands)[0]], wide)
    assert found[0] is not None
    return c.cast(c.reshape(found[0], input_size))


def _nearest_backward(rank: int) -> Rule:
    def rule(c: AtenCall, bar: Value, output_size: Any, input_size: Any, *scales: Any) -> Value:
        """The gradient of the nearest pixels."""
        return _backward(c, _nearest(rank), bar, input_size, rank, scales)

    return rule


def _linear_backward(rank: int, mode: str) -> Rule:
    def rule(c: AtenCall, bar: Value, output_size: Any, input_size: Any, align_corners: bool, *scales: Any) -> Value:
        """The gradient of interpolated pixels."""
        return _backward(c, _linear(rank, align_corners, mode), bar, input_size, rank, scales)

    return rule


for _rank, _name in ((1, "linear1d"), (2, "bilinear2d"), (3, "trilinear3d")):
    aten(f"upsample_nearest{_rank}d_backward")(_nearest_backward(_rank))
    aten(f"upsample_{_name}_backward")(_linear_backward(_rank, "linear"))
aten("upsample_bicubic2d_backward")(_linear_backward(2, "cubic"))


@aten("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(c: AtenCall, x: Value, grid: Value, mode: int, padding: int, align_corners: bool) -> Value:
    """An image sampled at given points."""
    if not x.dtype.is_float or x.dtype.bits < 32:
        raise UnsupportedError(f"images of {x.dtype}")
    method, border = ("linear", "nearest", "cubic")[mode], ("zeros", "border", "reflection")[padding]
    return c.b.GridSample(x, grid, mode=method, padding_mode=border, align_corners=int(align_corners))
