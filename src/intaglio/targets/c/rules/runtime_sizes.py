"""Sizes that come as data: shapes, repeats, splits, slices, counts and depths that are known only in the run.

Each rule binds the sizes of its operator's outputs; the operator is then lowered like one whose sizes were known.
"""

from __future__ import annotations

from collections.abc import Sequence

from intaglio.ir.dim import Dim, broadcast, floordiv, product, symbol
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.elements import OPAQUE
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.found_sizes import (
    bind_axes,
    bind_count,
    bind_named,
    bind_sizes,
    fresh_numbers,
    names_of,
    whole_numbers,
)
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.ops.shared.indices import known_integers, known_length, resolve_axis
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.printing.register import MEMORY
from intaglio.targets.c.routine import Routine, bits_type, numbered, reads, row_blocks, writes
from intaglio.targets.c.rules.table import anchor, late_sizes
from intaglio.targets.c.rules.widen import number_values


def _refuse_integers(place: int):
    """Refuse a parameter whose number of elements is not known."""

    def refuse(node: Node) -> Refusal | None:
        value = node.needed(place)
        if known_length(value) is None or value.dtype.kind not in ("int", "uint"):
            return Refusal(Cause.SHAPE, f"how many numbers {value.name} has is not known before the run")
        return None

    return refuse


def _refuse_fractions(place: int):
    """Refuse a parameter that is not of an integer type."""

    def refuse(node: Node) -> Refusal | None:
        value = node.needed(place)
        return (
            None if value.dtype.kind in ("int", "uint") else Refusal(Cause.ELEMENTS, f"{value.name} is {value.dtype}")
        )

    return refuse


def bind_axis_parts(
    context: Context, node: Node, axis: Value, shape: Sequence[Dim], full_rank: int | None = None
) -> list[Dim]:
    """Symbols for the elements before an axis that the run tells, along it and behind it, and for the axis itself.

    An axis below 0 is counted from `full_rank`, or from the number of sizes.
    """
    found, rank = fresh_numbers(context, 4, "parts"), len(shape)
    parameters = [reads("axis", whole_numbers(context, axis)), writes("found", found)]
    instance = kernel("axis_parts", RANK=rank, PLACES=max(1, rank), FULL_RANK=rank if full_rank is None else full_rank)
    sizes = numbered("given", shape or (1,))
    context.emit(Routine("axis_parts", instance, parameters, sizes, 1, 10, checks=True).call(node))
    return bind_named(context, node, ["outer", "extent", "inner", "axis"], found)


@late_sizes("ConstantOfShape", refuse=_refuse_integers(0))
def constant_of_shape_sizes(context: Context, node: Node) -> None:
    """The sizes themselves."""
    bind_axes(context, node, range(node.output.rank), whole_numbers(context, node.needed(0)))


@late_sizes("Reshape", refuse=_refuse_integers(1), reads=lambda node: [node.needed(1)])
def reshape_sizes(context: Context, node: Node) -> None:
    """Sizes copied from the input where 0 is given, and one computed where -1 is."""
    data, output = node.needed(0), node.output
    shape, places = fresh_numbers(context, output.rank, "shape"), max(1, data.rank)
    parameters = [reads("wanted", whole_numbers(context, node.needed(1))), writes("shape", shape)]
    values = {"COUNT": output.rank, "RANK": data.rank, "PLACES": places, "COPIES_ZEROS": not node.op.allowzero}
    sizes = numbered("given", data.shape or (1,))
    routine = Routine("reshape_sizes", kernel("reshape_sizes", values), parameters, sizes, 1, 10, checks=True)
    context.emit(routine.call(node))
    names = names_of(context, output)
    most: dict[Dim, Dim] = {product(output.shape): data.tensor.size}
    most.update((symbol(name), data.tensor.size) for name in names if name is not None)
    context.bind(node, names, shape, most=most)


@late_sizes("Expand", refuse=_refuse_integers(1))
def expand_sizes(context: Context, node: Node) -> None:
    """Nothing: the rule itself binds them, since it has to look at the wanted shape even where all sizes are known."""


def _bind_expanded(context: Context, node: Node) -> None:
    """The sizes of a broadcast between the input and the wanted shape."""
    data, wanted, rank = node.needed(0), node.needed(1), node.output.rank
    count = known_length(wanted)
    assert count is not None
    given: list[Dim] = [1] * (rank - data.rank) + list(data.shape)
    names = [f"wanted{axis}" for axis in range(rank - count, rank)]
    asked: list[Dim] = [1] * (rank - count) + bind_named(context, node, names, whole_numbers(context, wanted))
    for size, extent in zip(asked, given, strict=True):
        context.need(node, (size, extent), (size, 1), (extent, 1))
    bind_sizes(context, node, dict(enumerate(map(broadcast, asked, given))))


@anchor("Expand", refuse=_refuse_integers(1))
def expand(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Copy where only the run tells which axes are repeated: along those the input's stride is 0."""
    _bind_expanded(context, node)
    data, result = node.needed(0), context.allocate(node.output)
    view, rank = context.contiguous(data), node.output.rank
    item = node.output.dtype.itemsize
    given: list[Dim] = [1] * (rank - data.rank) + list(view.shape)
    if rank == 0:
        context.copy(data, view, into=result)
        return
    rows, row = product(result.shape[:-1]), result.shape[-1] * item
    blocks, tasks, cost = row_blocks(rows, row, 8 + floordiv(row, 16))
    sizes: list[tuple[str, Size]] = [*numbered("extent", result.shape), *numbered("given", given)]
    sizes += [("rows", rows), *blocks]
    bits = bits_type(data.dtype)
    parameters = [reads("data", view, bits), writes("out", result, bits)]
    instance = kernel("expand", AXES=rank, ELEMENT=bits)
    context.emit(Routine("expand", instance, parameters, sizes, tasks, cost).call(node))


@late_sizes("Tile", refuse=_refuse_fractions(1), reads=lambda node: [node.needed(1)])
def tile_sizes(context: Context, node: Node) -> None:
    """Each size times its repeats."""
    data = node.needed(0)
    names = [f"repeats{axis}" for axis in range(data.rank)]
    repeats = bind_named(context, node, names, whole_numbers(context, node.needed(1)))
    bind_sizes(
        context, node, {axis: size * times for axis, (size, times) in enumerate(zip(data.shape, repeats, strict=True))}
    )


def _refuse_split(node: Node) -> Refusal | None:
    return (
        _refuse_fractions(1)(node)
        if len(node.inputs) > 1 and node.inputs[1] is not None
        else Refusal(Cause.DATA, "its sizes are unknown")
    )


@late_sizes("Split", refuse=_refuse_split, reads=lambda node: [node.needed(1)])
def split_sizes(context: Context, node: Node) -> None:
    """The parts, which must make up the whole."""
    data, split = node.needed(0), node.needed(1)
    axis = resolve_axis(node.op.axis, data.rank)
    unbound = [dict(context.unbound(value)).get(axis) for value in node.outputs]
    names = [name or f"{node.outputs[0].name}:part{place}" for place, name in enumerate(unbound)]
    context.bind(node, names, whole_numbers(context, split), least=0, limit=data.shape[axis])
    context.need(node, (sum((symbol(name) for name in names), start=0), data.shape[axis]))


@late_sizes("TopK", reads=lambda node: [node.needed(1)])
def top_k_sizes(context: Context, node: Node) -> None:
    """K, which is at most the size of the axis."""
    data = node.needed(0)
    extent = data.shape[resolve_axis(node.op.axis, data.rank)]
    bind_count(context, node, whole_numbers(context, node.needed(1)), least=0, limit=extent)


def _refuse_depth(node: Node) -> Refusal | None:
    depth = node.needed(1)
    if depth.dtype.name not in MEMORY or depth.dtype.name in OPAQUE:
        return Refusal(Cause.ELEMENTS, f"a depth of {depth.dtype} that is known only in the run is not compiled")
    return None


@late_sizes("OneHot", refuse=_refuse_depth, reads=lambda node: [node.needed(1)])
def one_hot_sizes(context: Context, node: Node) -> None:
    """The depth."""
    bind_count(context, node, whole_numbers(context, node.needed(1)), least=1)


def _scalars(node: Node) -> list[Value]:
    return [node.needed(place) for place in range(3)]


@late_sizes("Range", reads=_scalars)
def range_sizes(context: Context, node: Node) -> None:
    """How many steps fit between the ends, by a kernel, which can read every type."""
    dtype = node.output.dtype
    found = fresh_numbers(context, 1, "count")
    names = ("start", "limit", "delta")
    parameters = [reads(name, context.contiguous(value)) for name, value in zip(names, _scalars(node), strict=True)]
    parameters.append(writes("out", found))
    instance = kernel("range_count", number_values(dtype), IS_FLOAT=dtype.is_float)
    context.emit(Routine("range_count", instance, parameters, [], 1, 10, checks=True).call(node))
    bind_count(context, node, found)


_BOUNDS = ("starts", "ends", "axes", "steps")
"""The inputs of Slice behind its data."""


@late_sizes("Slice")
def slice_sizes(context: Context, node: Node) -> None:
    """Nothing: the rule itself binds them together with the first indices."""


@anchor("Slice")
def slice_at_run_time(context: Context, node: Node, epilogue: Epilogue) -> None:
    """A view whose offset, extents and steps the driver works out from the data."""
    data, output, rank = node.needed(0), node.output, node.needed(0).rank
    given = {name: value for name, value in zip(_BOUNDS, node.inputs[1:], strict=False) if value is not None}
    steps = known_integers(given["steps"]) if "steps" in given else []
    is_fixed = steps is not None and ("axes" not in given or known_integers(given["axes"]) is not None)
    found = fresh_numbers(context, 3 * rank, "places")
    parameters = [reads(name, whole_numbers(context, value)) for name, value in given.items()]
    values = {"HAS_AXES": "axes" in given, "HAS_STEPS": "steps" in given, "RANK": rank, "PLACES": max(1, rank)}
    sizes = [("count", product(given["starts"].shape)), *numbered("given", data.shape or (1,))]
    parameters.append(writes("found", found))
    routine = Routine("slice_places", kernel("slice_places", values), parameters, sizes, 1, 10, checks=True)
    context.emit(routine.call(node))
    unbound = names_of(context, output)
    names = [*unbound, *(f"{output.name}:first{axis}" for axis in range(rank))]
    names += [] if is_fixed else [f"{output.name}:step{axis}" for axis in range(rank)]
    most: dict[Dim, Dim] = {symbol(name): data.shape[axis] for axis, name in enumerate(unbound) if name is not None}
    context.bind(node, names, found, most=most)
    view = context.view(data)
    for axis in range(rank):
        step: Dim = _fixed_step(node, axis, steps) if is_fixed else symbol(f"{output.name}:step{axis}")
        view = view.window(axis, symbol(f"{output.name}:first{axis}"), step, output.shape[axis])
    context.views[output] = view


def _fixed_step(node: Node, axis: int, steps: list[int] | None) -> int:
    """The step along an axis where steps and axes are known."""
    axes = known_integers(node.inputs[3]) if len(node.inputs) > 3 and node.inputs[3] is not None else None
    rank = node.needed(0).rank
    for place, step in enumerate(steps or ()):
        if (place if axes is None else resolve_axis(axes[place], rank)) == axis:
            return step
    return 1
