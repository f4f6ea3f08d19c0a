"""What NumPy and PyTorch say alike: slices, shapes, and operators that are a call of a function of the library.

The functions of NumPy's library take the array module first (`xp`); those of PyTorch's have no such argument. So each
printer here takes the arguments that stand `first` in every call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from intaglio.emit.pythonic.block import Printer, Site, UnprintableError, quoted
from intaglio.ir.dim import Dim
from intaglio.ir.op import Op
from intaglio.ops.shared.indices import resolve_axes


def sliced_shape(site: Site) -> str:
    """`x.shape`, or the part of it that a Shape reads."""
    op = site.op
    part = "" if op.start == 0 and op.end is None else f"[{op.start or ''}:{'' if op.end is None else op.end}]"
    return f"{site.x(0)}.shape{part}"


def reshaped(site: Site, shape: Sequence[Dim] | None) -> str | None:
    """The operand in a shape that is known; None where it is not."""
    if shape is None:
        return None
    open_sizes = [size for size in shape if not isinstance(size, int)]
    if len(open_sizes) == 1 and 0 not in shape:
        sizes = [size if isinstance(size, int) else -1 for size in shape]
        return f"{site.x(0)}.reshape({', '.join(map(str, sizes))})"
    try:
        sizes = site.writer.sizes(shape)
    except UnprintableError:
        return None
    return f"{site.x(0)}.reshape({sizes if len(shape) < 2 else sizes[1:-1]})"


def print_slice(site: Site) -> str:
    """A Slice: with Python's own signs, where it can be."""
    try:
        return _plain_slice(site)
    except UnprintableError:
        pass
    axes = site.listing(3) if site.has(3) else "None"
    steps = site.listing(4) if site.has(4) else "None"
    return site.call("cut", site.x(0), site.listing(1), site.listing(2), axes, steps)


def _plain_slice(site: Site) -> str:
    """x[:, 1:-1], where all of it is known and means the same in Python."""
    starts, ends = site.dims(1), site.dims(2)
    if starts is None or ends is None:
        raise UnprintableError("a slice whose bounds only the run finds out")
    rank = site.rank()
    axes = resolve_axes(site.ints(3) if site.has(3) else range(len(starts)), rank)
    steps = site.ints(4) if site.has(4) else [1] * len(starts)
    if any(step < 1 for step in steps):
        raise UnprintableError("a slice backwards")
    places = [":"] * rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = site.value(0).shape[axis]
        is_last = end == size or (isinstance(end, int) and end >= 2**31 - 1)
        first = "" if start == 0 else site.writer.size(start)
        places[axis] = f"{first}:{'' if is_last else site.writer.size(end)}" + (f":{step}" if step != 1 else "")
    while places and places[-1] == ":":
        places.pop()
    return f"{site.x(0)}[{', '.join(places)}]" if places else site.x(0)


def resize_options(op: Op) -> dict[str, Any]:
    """The attributes of a Resize that are not what the library's function takes for granted."""
    given: Any = op
    transformation = given.coordinate_transformation_mode
    return {
        "mode": None if given.mode == "nearest" else given.mode,
        "coordinates": None if transformation == "half_pixel" else transformation,
        "rounding": None if given.nearest_mode == "round_prefer_floor" else given.nearest_mode,
        "cubic": None if given.cubic_coeff_a == -0.75 else given.cubic_coeff_a,
        "antialias": bool(given.antialias) or None,
        "inside": bool(given.exclude_outside) or None,
        "policy": None if given.keep_aspect_ratio_policy == "stretch" else given.keep_aspect_ratio_policy,
        "fill": given.extrapolation_value or None,
    }


def print_roi_align(site: Site) -> str:
    """RoiAlign, whose function computes with NumPy or PyTorch alone and so takes nothing first."""
    op = site.op
    half = str(op.coordinate_transformation_mode == "half_pixel")
    sizes = [str(op.output_height), str(op.output_width), str(op.sampling_ratio), repr(op.spatial_scale)]
    return site.call("roi_align", site.x(0), site.x(1), site.x(2), *sizes, quoted(op.mode), half)


def library_calls(*first: str) -> dict[str, Printer]:
    """The operators that are one call in both libraries, with the arguments that stand first in each."""

    def calling(printer: Callable[[Site, Sequence[str]], str]) -> Printer:
        return lambda site: printer(site, first)

    return {name: calling(printer) for name, printer in _CALLS.items()}


def _center_crop_pad(site: Site, first: Sequence[str]) -> str:
    axes = site.op.axes or tuple(range(site.rank()))
    return site.call("center_crop_pad", *first, site.x(0), site.listing(1), str(tuple(axes)))


def _gather_elements(site: Site, first: Sequence[str]) -> str:
    return site.call("gather_elements", *first, site.x(0), site.x(1), str(site.op.axis))


def _gather_nd(site: Site, first: Sequence[str]) -> str:
    return site.call("gather_nd", *first, site.x(0), site.x(1), batch=site.op.batch_dims or None)


def _scatter_elements(site: Site, first: Sequence[str]) -> str:
    operands = [site.x(position) for position in range(3)]
    return site.call("scatter_elements", *first, *operands, str(site.op.axis), reduction=_reduction(site))


def _scatter_nd(site: Site, first: Sequence[str]) -> str:
    operands = [site.x(position) for position in range(3)]
    return site.call("scatter_nd", *first, *operands, reduction=_reduction(site))


def _reduction(site: Site) -> str | None:
    return None if site.op.reduction == "none" else site.op.reduction


def _tensor_scatter(site: Site, first: Sequence[str]) -> str:
    is_circular = str(site.op.mode == "circular")
    operands = [site.x(0), site.x(1), site.optional(2)]
    return site.call("tensor_scatter", *first, *operands, str(site.op.axis), is_circular)


def _reverse_sequence(site: Site, first: Sequence[str]) -> str:
    axes = [str(site.op.time_axis), str(site.op.batch_axis)]
    return site.call("reverse_sequence", *first, site.x(0), site.x(1), *axes)


def _split_to_sequence(site: Site, first: Sequence[str]) -> str:
    sizes = f"{site.x(1)}.tolist()" if site.has(1) else "None"
    keep = str(bool(site.op.keepdims) or site.has(1))
    return site.call("split_to_list", *first, site.x(0), sizes, str(site.op.axis), keep)


_CALLS: dict[str, Callable[[Site, Sequence[str]], str]] = {
    "CenterCropPad": _center_crop_pad,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
    "ReverseSequence": _reverse_sequence,
    "SplitToSequence": _split_to_sequence,
}
