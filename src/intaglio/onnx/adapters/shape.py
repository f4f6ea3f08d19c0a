"""Older versions of the operators that change shapes: what is an input today was an attribute."""

from __future__ import annotations

from intaglio.ir.build import Builder
from intaglio.ir.graph import Value
from intaglio.onnx.adapters import adapts


@adapts("Reshape", before=5)
def reshape_1(
    b: Builder, data: Value, *, consumed_inputs: tuple[int, ...] | None = None, shape: tuple[int, ...] = ()
) -> Value:
    del consumed_inputs
    return b.Reshape(data, list(shape))


@adapts("Squeeze", before=13)
def squeeze_1(b: Builder, data: Value, *, axes: tuple[int, ...] | None = None) -> Value:
    return b.Squeeze(data, None if axes is None else list(axes))


@adapts("Unsqueeze", before=13)
def unsqueeze_1(b: Builder, data: Value, *, axes: tuple[int, ...]) -> Value:
    return b.Unsqueeze(data, list(axes))


@adapts("Tile", before=6)
def tile_1(b: Builder, input: Value, tiles: Value, axis: Value) -> Value:
    """Until opset 5 one axis was repeated, and both it and the number came as a tensor of the data's type."""
    ones = b.constant([1] * input.rank)
    place, count = (b.Reshape(b.Cast(value, to=7), [1]) for value in (axis, tiles))
    return b.Tile(input, b.ScatterElements(ones, place, count))
