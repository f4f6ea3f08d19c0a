"""Older versions of the operators that move elements."""

from __future__ import annotations

from intaglio.errors import ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.graph import Value
from intaglio.onnx.adapters import adapts


@adapts("Concat", before=4)
def concat_1(b: Builder, *inputs: Value, axis: int = 1) -> Value:
    return b.Concat(*inputs, axis=axis)


@adapts("Split", before=2)
def split_1(
    b: Builder,
    input: Value,
    sizes: Value | None = None,
    *,
    axis: int | None = None,
    split: tuple[int, ...] | None = None,
    outputs: int = 1,
) -> tuple[Value, ...]:
    """Version 1 took the sizes as an attribute or as an input, also called `split`, of the data's own type."""
    if sizes is None:
        return _split(b, input, split, axis or 0, outputs)
    return _parts(b.Split(input, b.Cast(sizes, to=7), axis=axis or 0, outputs=outputs))


@adapts("Split", since=2, before=13)
def split_2(
    b: Builder, input: Value, *, axis: int = 0, split: tuple[int, ...] | None = None, outputs: int = 1
) -> tuple[Value, ...]:
    return _split(b, input, split, axis, outputs)


@adapts("Split", since=13, before=18)
def split_13(
    b: Builder, input: Value, split: Value | None = None, *, axis: int = 0, outputs: int = 1
) -> tuple[Value, ...]:
    if split is None:
        return _split(b, input, None, axis, outputs)
    return _parts(b.Split(input, split, axis=axis, outputs=outputs))


def _split(b: Builder, input: Value, sizes: tuple[int, ...] | None, axis: int, outputs: int) -> tuple[Value, ...]:
    """Parts of given sizes, or equal ones: before opset 18 the last could not be smaller."""
    if sizes is not None:
        return _parts(b.Split(input, list(sizes), axis=axis, outputs=outputs))
    place = axis if axis >= 0 else axis + input.rank
    total = input.shape[place]
    if isinstance(total, int) and total % outputs:
        raise ShapeError(f"a size of {total} cannot be split into {outputs} equal parts")
    size = b.Div(b.Shape(input, start=place, end=place + 1), [outputs])
    return _parts(b.Split(input, b.Expand(size, [outputs]), axis=axis, outputs=outputs))


def _parts(split: Value | tuple[Value, ...]) -> tuple[Value, ...]:
    return split if isinstance(split, tuple) else (split,)


@adapts("Slice", before=10)
def slice_1(
    b: Builder, data: Value, *, axes: tuple[int, ...] | None = None, ends: tuple[int, ...], starts: tuple[int, ...]
) -> Value:
    return b.Slice(data, list(starts), list(ends), None if axes is None else list(axes))


@adapts("Pad", before=2)
def pad_1(b: Builder, data: Value, *, mode: str = "constant", paddings: tuple[int, ...], value: float = 0.0) -> Value:
    return pad_2(b, data, mode=mode, pads=paddings, value=value)


@adapts("Pad", since=2, before=11)
def pad_2(b: Builder, data: Value, *, mode: str = "constant", pads: tuple[int, ...], value: float = 0.0) -> Value:
    return b.Pad(data, list(pads), b.constant(value, data.dtype), mode=mode)
