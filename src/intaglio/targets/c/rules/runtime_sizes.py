"""Sizes that come as data: shapes, repeats, splits, slices, counts and depths that are known only in the run.

Each rule binds the sizes of its operator's outputs; the operator is then lowered like one whose sizes were known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from intaglio.ir.dim import Dim, floordiv, product, symbol
from intaglio.ir.dtype import INT64
from intaglio.ir.graph import Node, Value
from intaglio.kernels.context import Context
from intaglio.kernels.elements import OPAQUE
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import View, whole
from intaglio.ops.shared.indices import known_integers, known_length, resolve_axis
from intaglio.targets.c.kernel_file import kernel
from intaglio.targets.c.printing.register import MEMORY
from intaglio.targets.c.routine import Routine, bits_type, memory_type, numbered, reads, row_blocks, writes
from intaglio.targets.c.rules.table import anchor, late_sizes
from intaglio.targets.c.rules.widen import number_values, side_by_side


def _integer_operand(context: Context, name: str, value: Value) -> tuple[str, str, View]:
    return name, memory_type(value.dtype), context.contiguous(value)


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


def _bind_shape(
    context: Context,
    node: Node,
    body: str,
    operands: Sequence[tuple[str, str, View]],
    sizes: Sequence[tuple[str, Size]] = (),
    most: Mapping[Dim, Dim] | None = None,
) -> None:
    """Bind the unknown sizes of the only output from C that fills `shape`, which has an entry for each axis."""
    output = node.output
    unbound = context.unbound(output)
    lines = [f"int64_t shape[{max(1, output.rank)}] = {{0}};", body.strip("\n")]
    lines += [f"value[{place}] = shape[{axis}];" for place, (axis, _) in enumerate(unbound)]
    context.bind(node, [name for _, name in unbound], "\n".join([*lines, "(void)shape;"]), operands, sizes, most)


def bind_wanted(context: Context, node: Node, axes: Sequence[int], element: str, wanted: View) -> None:
    """Bind the output's sizes along some axes to numbers in memory; sizes that are known already must be the same."""
    output, unbound = node.output, dict(context.unbound(node.output))
    names = list(dict.fromkeys(unbound[axis] for axis in axes if axis in unbound))
    lines = [f"fault |= wanted[{i}] < 0;" for i in range(len(axes))]
    sizes: list[tuple[str, Size]] = []
    for i, axis in enumerate(axes):
        if axis in unbound:
            lines.append(f"value[{names.index(unbound[axis])}] = (int64_t)wanted[{i}];")
        else:
            lines.append(f"fault |= (int64_t)wanted[{i}] != known{i};")
            sizes.append((f"known{i}", output.shape[axis]))
    context.bind(node, names, "\n".join([*lines, "(void)wanted;"]), [("wanted", element, wanted)], sizes)


def bind_numbers(
    context: Context,
    node: Node,
    named: Mapping[str, Value],
    sizes: Sequence[tuple[str, Size]],
    formulas: Mapping[int, str],
    test: str,
) -> dict[str, Dim]:
    """Symbols for scalars that the run tells, by name, with the output's sizes bound that follow from them.

    `formulas` are C for sizes by axis and `test` is C that tells forbidden numbers, both over the names and `sizes`.
    """
    output, unbound = node.output, dict(context.unbound(node.output))
    axes = [axis for axis in formulas if axis in unbound]
    known: list[tuple[str, Size]] = [(f"size{axis}", output.shape[axis]) for axis in formulas if axis not in unbound]
    lines = [f"const int64_t {name} = (int64_t)given_{name}[0];" for name in named]
    lines += [*(f"(void){name};" for name, _ in sizes), f"fault |= {test};", "if (!fault) {"]
    lines += [f"    value[{place}] = {name};" for place, name in enumerate(named)]
    lines += [f"    value[{len(named) + i}] = {formulas[axis]};" for i, axis in enumerate(axes)]
    lines += [f"    fault |= size{axis} != ({formulas[axis]});" for axis in formulas if axis not in unbound]
    names = [f"{output.name}:{name}" for name in named]
    operands = [_integer_operand(context, f"given_{name}", value) for name, value in named.items()]
    bound = [*names, *(unbound[axis] for axis in axes)]
    context.bind(node, bound, "\n".join([*lines, "}"]), operands, [*sizes, *known])
    return {name: symbol(full) for name, full in zip(named, names, strict=True)}


def _array(prefix: str, count: int) -> str:
    """C for an array of sizes that have numbered names."""
    items = ", ".join(f"{prefix}{index}" for index in range(count)) or "0"
    return f"const int64_t {prefix}[{max(1, count)}] = {{{items}}};"


@late_sizes("ConstantOfShape", refuse=_refuse_integers(0))
def constant_of_shape_sizes(context: Context, node: Node) -> None:
    """The sizes themselves."""
    wanted = node.needed(0)
    _bind_shape(
        context, node, _COPY.replace("$count", str(node.output.rank)), [_integer_operand(context, "wanted", wanted)], []
    )


_COPY = """
for (int64_t i = 0; i < $count; i++) {
    shape[i] = (int64_t)wanted[i];
    fault |= shape[i] < 0;
}
"""


@late_sizes("Reshape", refuse=_refuse_integers(1), reads=lambda node: [node.needed(1)])
def reshape_sizes(context: Context, node: Node) -> None:
    """Sizes copied from the input where 0 is given, and one computed where -1 is."""
    data, wanted = node.needed(0), node.needed(1)
    body = _RESHAPE.replace("$count", str(node.output.rank)).replace("$rank", str(data.rank))
    body = body.replace("$copies", "0" if node.op.allowzero else "1")
    sizes: list[tuple[str, Size]] = [*numbered("given", data.shape)]
    operands = [_integer_operand(context, "wanted", wanted)]
    most: dict[Dim, Dim] = {product(node.output.shape): data.tensor.size}
    most.update((symbol(name), data.tensor.size) for _, name in context.unbound(node.output))
    _bind_shape(context, node, f"{_array('given', data.rank)}\n{body}", operands, sizes, most)


_RESHAPE = """
int64_t open = -1, rest = 1, total = 1, is_empty = 0;
int32_t copied[$count + 1] = {0};
for (int64_t i = 0; i < $count; i++) {
    shape[i] = (int64_t)wanted[i];
    if ($copies && shape[i] == 0) {
        fault |= i >= $rank;
        shape[i] = i < $rank ? given[i] : 0;
        copied[i] = 1;
        is_empty |= shape[i] == 0;
    } else if (shape[i] == -1) {
        fault |= open >= 0;
        open = i;
    } else {
        fault |= shape[i] < 0 || __builtin_mul_overflow(rest, shape[i], &rest);
    }
}
for (int64_t i = 0; i < $rank; i++)
    fault |= !(i < $count && copied[i]) && __builtin_mul_overflow(total, given[i], &total);
(void)given;
(void)copied;
if (!fault && open >= 0) {
    fault = rest == 0 || total % rest;
    shape[open] = fault ? 0 : total / rest;
} else {
    fault |= rest != total && !is_empty;
}
"""


@late_sizes("Expand", refuse=_refuse_integers(1))
def expand_sizes(context: Context, node: Node) -> None:
    """Nothing: the rule itself binds them, since it has to look at the wanted shape even where all sizes are known."""


def _bind_expanded(context: Context, node: Node) -> None:
    """The sizes of a broadcast between the input and the wanted shape."""
    data, wanted, rank = node.needed(0), node.needed(1), node.output.rank
    given: list[Dim] = [1] * (rank - data.rank) + list(data.shape)
    body = _EXPAND_SIZES.replace("$rank", str(rank)).replace("$count", str(known_length(wanted)))
    operands = [_integer_operand(context, "wanted", wanted)]
    _bind_shape(context, node, f"{_array('given', rank)}\n{body}", operands, numbered("given", given))


_EXPAND_SIZES = """
for (int64_t i = 0; i < $rank; i++) {
    const int64_t from = i - ($rank - $count), size = from < 0 ? 1 : (int64_t)wanted[from];
    fault |= size < 0 || (size != given[i] && size != 1 && given[i] != 1);
    shape[i] = size == 1 ? given[i] : size;
}
"""


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
    data, repeats = node.needed(0), node.needed(1)
    body = _TILE.replace("$rank", str(data.rank))
    operands = [_integer_operand(context, "repeats", repeats)]
    _bind_shape(context, node, f"{_array('given', data.rank)}\n{body}", operands, numbered("given", data.shape))


_TILE = """
for (int64_t i = 0; i < $rank; i++)
    fault |= repeats[i] < 0 || __builtin_mul_overflow(given[i], (int64_t)repeats[i], &shape[i]);
"""


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
    names: dict[str, int] = {}
    for place, value in enumerate(node.outputs):
        names.update((name, place) for position, name in context.unbound(value) if position == axis)
    lines = ["int64_t total = 0;", f"for (int64_t i = 0; i < {len(node.outputs)}; i++)"]
    lines.append("    fault |= split[i] < 0 || __builtin_add_overflow(total, (int64_t)split[i], &total);")
    lines.append("fault |= total != extent;")
    lines += [f"value[{index}] = (int64_t)split[{place}];" for index, place in enumerate(names.values())]
    operands = [_integer_operand(context, "split", split)]
    most: dict[Dim, Dim] = {symbol(name): data.shape[axis] for name in names}
    context.bind(node, list(names), "\n".join(lines), operands, [("extent", data.shape[axis])], most)


def _bind_count(
    context: Context, node: Node, place: int, test: str, sizes: Sequence[tuple[str, Size]], most: Dim | None = None
) -> None:
    """Bind the one size that is a number of the input at `place`; `test` is C that tells a bad `count`."""
    names = list(dict.fromkeys(name for value in node.outputs for _, name in context.unbound(value)))
    body = f"const int64_t count = (int64_t)given[0];\nfault |= {test};\nvalue[0] = count;"
    given = side_by_side(context, node.needed(place))
    bounds: dict[Dim, Dim] = {} if most is None else {symbol(name): most for name in names}
    context.bind(node, names, body, [("given", memory_type(given.buffer.dtype), given)], sizes, bounds)


@late_sizes("TopK", reads=lambda node: [node.needed(1)])
def top_k_sizes(context: Context, node: Node) -> None:
    """K, which is at most the size of the axis."""
    data = node.needed(0)
    extent = data.shape[resolve_axis(node.op.axis, data.rank)]
    _bind_count(context, node, 1, "count < 0 || count > extent", [("extent", extent)], extent)


def _refuse_depth(node: Node) -> Refusal | None:
    depth = node.needed(1)
    if depth.dtype.name not in MEMORY or depth.dtype.name in OPAQUE:
        return Refusal(Cause.ELEMENTS, f"a depth of {depth.dtype} that is known only in the run is not compiled")
    return None


@late_sizes("OneHot", refuse=_refuse_depth, reads=lambda node: [node.needed(1)])
def one_hot_sizes(context: Context, node: Node) -> None:
    """The depth."""
    _bind_count(context, node, 1, "!(given[0] >= 1 && given[0] < 1e18)", [])


def _scalars(node: Node) -> list[Value]:
    return [node.needed(place) for place in range(3)]


@late_sizes("Range", reads=_scalars)
def range_sizes(context: Context, node: Node) -> None:
    """How many steps fit between the ends, by a kernel, which can read every type."""
    dtype = node.output.dtype
    found = whole(context.temporary(INT64, 1, "count"), (1,))
    names = ("start", "limit", "delta")
    parameters = [reads(name, context.contiguous(value)) for name, value in zip(names, _scalars(node), strict=True)]
    parameters.append(writes("out", found))
    instance = kernel("range_count", number_values(dtype), IS_FLOAT=dtype.is_float)
    context.emit(Routine("range_count", instance, parameters, [], 1, 10, checks=True).call(node))
    unbound = [name for _, name in context.unbound(node.output)]
    context.bind(node, unbound, "value[0] = *count;", [("count", "int64_t", found)])


@late_sizes("Slice")
def slice_sizes(context: Context, node: Node) -> None:
    """Nothing: the rule itself binds them together with the first indices."""


@anchor("Slice")
def slice_at_run_time(context: Context, node: Node, epilogue: Epilogue) -> None:
    """A view whose offset, extents and steps the driver works out from the data."""
    data, output = node.needed(0), node.output
    rank, count = data.rank, product(node.needed(1).shape)
    operands = [
        _integer_operand(context, name, value)
        for name, value in zip(("starts", "ends", "axes", "steps"), node.inputs[1:], strict=False)
        if value is not None
    ]
    given = {name for name, _, _ in operands}
    steps = known_integers(node.inputs[4]) if "steps" in given else []
    is_fixed = steps is not None and ("axes" not in given or known_integers(node.inputs[3]) is not None)
    unbound = context.unbound(output)
    names = [name for _, name in unbound] + [f"{output.name}:first{axis}" for axis in range(rank)]
    names += [] if is_fixed else [f"{output.name}:step{axis}" for axis in range(rank)]
    body = _SLICE.replace("$rank", str(rank))
    body = body.replace("$axis", "(int64_t)axes[i]" if "axes" in given else "i")
    body = body.replace("$step", "(int64_t)steps[i]" if "steps" in given else "1")
    lines = [f"value[{place}] = length[{axis}];" for place, (axis, _) in enumerate(unbound)]
    lines += [f"value[{len(unbound) + axis}] = first[{axis}];" for axis in range(rank)]
    if not is_fixed:
        lines += [f"value[{len(unbound) + rank + axis}] = by[{axis}];" for axis in range(rank)]
    text = "\n".join([_array("given", rank), body.strip("\n"), *lines])
    most: dict[Dim, Dim] = {symbol(name): data.shape[axis] for axis, name in unbound}
    context.bind(node, names, text, operands, [("count", count), *numbered("given", data.shape)], most)
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


_SLICE = """
int64_t first[$rank + 1], length[$rank + 1], by[$rank + 1], times[$rank + 1] = {0};
(void)by;
for (int64_t i = 0; i < $rank; i++) {
    first[i] = 0;
    length[i] = given[i];
    by[i] = 1;
}
for (int64_t i = 0; i < count; i++) {
    const int64_t axis = $axis < 0 ? $axis + $rank : $axis, step = $step;
    if (axis < 0 || axis >= $rank || step == 0 || times[axis]++) {
        fault = 1;
        break;
    }
    const int64_t extent = given[axis];
    int64_t from = (int64_t)starts[i], to = (int64_t)ends[i];
    from += from < 0 ? extent : 0;
    to += to < 0 ? extent : 0;
    if (step > 0) {
        from = from < 0 ? 0 : from > extent ? extent : from;
        to = to < 0 ? 0 : to > extent ? extent : to;
        length[axis] = to > from ? (to - from - 1) / step + 1 : 0;
    } else {
        from = from < 0 ? 0 : from > extent - 1 ? extent - 1 : from;
        to = to < -1 ? -1 : to > extent - 1 ? extent - 1 : to;
        const int64_t back = step < -__INT64_MAX__ ? __INT64_MAX__ : -step;
        length[axis] = extent > 0 && from > to ? (from - to - 1) / back + 1 : 0;
    }
    first[axis] = length[axis] > 0 ? from : 0;
    by[axis] = length[axis] > 1 ? step : 1;
}
"""
