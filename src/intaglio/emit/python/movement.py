"""Operators that move, cut, join, gather and scatter, in NumPy."""

from __future__ import annotations

import numpy as np

from intaglio.emit.python.words import prints
from intaglio.emit.pythonic.block import Site, UnprintableError, literal, quoted
from intaglio.emit.pythonic.movement import library_calls, print_slice, reshaped, sliced_shape
from intaglio.ir.dtype import FLOAT32, INT64, STRING

prints("Slice")(print_slice)
for _name, _printer in library_calls("xp").items():
    prints(_name)(_printer)


@prints("Transpose")
def _transpose(site: Site) -> str:
    perm = site.op.perm
    if perm is None or tuple(perm) == tuple(range(len(perm)))[::-1]:
        return f"{site.x(0)}.T"
    return f"{site.x(0)}.transpose({', '.join(map(str, perm))})"


@prints("Reshape")
def _reshape(site: Site) -> str:
    return reshaped(site, site.node.output.tensor.shape) or site.call(
        "reshape", site.x(0), site.x(1), allow_zero=True if site.op.allowzero else None
    )


@prints("Flatten", "Squeeze", "Unsqueeze")
def _same_elements(site: Site) -> str:
    op = site.op
    if op.name == "Unsqueeze":
        if site.dims(1) is None:
            return f"xp.expand_dims({site.x(0)}, tuple({site.x(1)}.tolist()))"
        axes = site.ints(1)
        text = str(axes[0]) if len(axes) == 1 else f"({', '.join(map(str, axes))})"
        return f"xp.expand_dims({site.x(0)}, {text})"
    if op.name == "Squeeze":
        if not site.has(1):
            return f"xp.squeeze({site.x(0)})"
        axes = f"tuple({site.x(1)}.tolist())" if site.dims(1) is None else str(tuple(site.ints(1)))
        return f"xp.squeeze({site.x(0)}, axis={axes})"
    found = reshaped(site, site.node.output.tensor.shape)
    if found is None:
        raise UnprintableError("the sizes are not known")
    return found


@prints("Shape")
def _shape(site: Site) -> str:
    return f"xp.asarray({sliced_shape(site)}, dtype=xp.int64)"


@prints("Size")
def _size(site: Site) -> str:
    return f"xp.asarray({site.x(0)}.size, dtype=xp.int64)"


@prints("Expand")
def _expand(site: Site) -> str:
    try:
        return f"xp.broadcast_to({site.x(0)}, {site.shape(site.node.output)})"
    except UnprintableError:
        x = site.x(0)
        return f"xp.broadcast_to({x}, np.broadcast_shapes({x}.shape, tuple({site.listing(1)})))"


@prints("Tile")
def _tile(site: Site) -> str:
    return f"xp.tile({site.x(0)}, {site.listing(1)})"


@prints("ConstantOfShape")
def _constant_of_shape(site: Site) -> str:
    fill = np.zeros(1, np.float32) if site.op.value is None else site.op.value.array
    dtype = site.node.output.dtype
    if dtype.is_narrow:
        raise UnprintableError("a constant of a narrow type")
    value = literal(fill.reshape(()))
    if value in ("0", "0.0", "False"):
        return f"xp.zeros({site.listing(0)}, dtype={site.dtype(dtype)})"
    return f"xp.full({site.listing(0)}, {value}, dtype={site.dtype(dtype)})"


@prints("Range")
def _range(site: Site) -> str:
    dtype = site.node.output.dtype
    if dtype == INT64:
        ends = [site.dims(position) for position in range(3)]
        if all(end is not None for end in ends):
            try:
                numbers = [site.writer.size(end[0]) for end in ends if end]
                return f"xp.arange({', '.join(numbers)}, dtype=xp.int64)"
            except UnprintableError:
                pass
    compute = FLOAT32 if dtype.is_float and dtype.bits == 16 and site.op.stash_type == 1 else dtype
    return site.call("count_range", "xp", site.x(0), site.x(1), site.x(2), site.dtype(compute))


@prints("EyeLike")
def _eye_like(site: Site) -> str:
    rows, columns = (site.writer.size(size) for size in site.value(0).shape)
    k = f", k={site.op.k}" if site.op.k else ""
    return f"xp.eye({rows}, {columns}{k}, dtype={site.dtype(site.node.output.dtype)})"


@prints("Concat")
def _concat(site: Site) -> str:
    parts = ", ".join(site.x(position) for position in range(len(site.node.inputs)))
    return f"xp.concatenate([{parts}], axis={site.op.axis})"


@prints("Split")
def _split(site: Site) -> str:
    x, axis, count = site.x(0), site.op.axis, len(site.node.outputs)
    if count == 1:
        return x
    if site.has(1):
        return site.call("split", "xp", x, site.listing(1), str(axis))
    if any(value.tensor.shape is None for value in site.node.outputs):
        return f"xp.array_split({x}, {count}, axis={axis})"
    sizes = [value.shape[axis] for value in site.node.outputs]
    if len(set(sizes)) == 1:
        return f"xp.split({x}, {count}, axis={axis})"
    return site.call("split", "xp", x, site.writer.sizes(sizes), str(axis))


@prints("Pad")
def _pad(site: Site) -> str:
    dtype = site.value(0).dtype
    value = site.x(2) if site.has(2) else ("''" if dtype == STRING else "0")
    axes = site.listing(3) if site.has(3) else "None"
    mode = {"constant": None}.get(site.op.mode, site.op.mode)
    return site.call("pad", "xp", site.x(0), site.listing(1), value, axes, mode=mode)


@prints("Gather")
def _gather(site: Site) -> str:
    return f"xp.take({site.x(0)}, {site.x(1)}, axis={site.op.axis})"


@prints("NonZero")
def _non_zero(site: Site) -> str:
    return f"xp.stack(xp.nonzero({site.x(0)}))"


@prints("Compress")
def _compress(site: Site) -> str:
    axis = site.op.axis
    x = f"{site.x(0)}.reshape(-1)" if axis is None else site.x(0)
    return f"xp.take({x}, xp.flatnonzero({site.x(1)}), axis={axis or 0})"


@prints("Unique")
def _unique(site: Site) -> str:
    found = site.call("unique", site.x(0), str(site.op.axis), str(bool(site.op.sorted)))
    return (
        found
        if len(site.node.outputs) == 4
        else f"{found}[{f':{len(site.node.outputs)}' if len(site.node.outputs) > 1 else 0}]"
    )


@prints("TopK")
def _top_k(site: Site) -> str:
    found = site.call(
        "top_k", "xp", site.x(0), f"int({site.listing(1)}[0])", str(site.op.axis), str(bool(site.op.largest))
    )
    return found if len(site.node.outputs) == 2 else f"{found}[0]"


@prints("ArgMax", "ArgMin")
def _arg_extreme(site: Site) -> str:
    op = site.op
    flags = [str(bool(op.keepdims)), str(bool(op.select_last_index))]
    return site.call("arg_extreme", "xp", site.x(0), quoted(op.name.lower()), str(op.axis), *flags)


@prints("OneHot")
def _one_hot(site: Site) -> str:
    return site.call("one_hot", "xp", site.x(0), f"int({site.x(1)}.reshape(()))", site.x(2), str(site.op.axis))


@prints("Trilu")
def _trilu(site: Site) -> str:
    k = f"int({site.x(1)}.reshape(()))" if site.has(1) else "0"
    return site.call("triangle", "xp", site.x(0), k, str(bool(site.op.upper)))


@prints("NonMaxSuppression")
def _suppress(site: Site) -> str:
    def scalar(position: int, kind: str, default: str) -> str:
        return f"{kind}({site.x(position)}.reshape(()))" if site.has(position) else default

    limits = [scalar(2, "int", "0"), scalar(3, "float", "0.0"), scalar(4, "float", "None")]
    return site.call("suppress", site.x(0), site.x(1), *limits, str(bool(site.op.center_point_box)))
