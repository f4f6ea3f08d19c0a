"""Resize: tables of places and weights for each axis at run time, then up to two neighbouring axes in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim, floordiv, pieces, product, symbol
from intaglio.ir.dtype import FLOAT32, FLOAT64, INT32, INT64
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.types import TensorType
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.found_sizes import bind_axes
from intaglio.kernels.fused import FusedNodes
from intaglio.kernels.plan import Operand, Size
from intaglio.kernels.view import Buffer, View, row_major, whole
from intaglio.ops.shared.indices import known, resolve_axes
from intaglio.ops.shared.operand import cast
from intaglio.targets.c.kernel_file import Instance, kernel
from intaglio.targets.c.kernel_file import Value as Setting
from intaglio.targets.c.printing.register import register_kind
from intaglio.targets.c.routine import Parameter, Routine, bits_type, memory_type, part_type, reader, reads, writes
from intaglio.targets.c.rules.table import anchor, late_sizes
from intaglio.targets.c.rules.widen import converted, widened

Axes = tuple["_Axis | None", "_Axis | None"]
"""Which of two neighbouring axes are resized."""


@dataclass(frozen=True)
class _Sampling:
    """How places become weights; `excludes` renormalises those inside."""

    mode: Literal["nearest", "linear", "cubic"]
    coordinates: str
    nearest: str = "floor"
    excludes: bool = False

    @property
    def crops(self) -> bool:
        """Whether a place outside of the input takes another value than its nearest."""
        return self.coordinates == "tf_crop_and_resize"

    def tap_count(self, stretch: float) -> int:
        """Elements that a resized one may be mixed from.

        >>> _Sampling("linear", "").tap_count(1.0), _Sampling("cubic", "").tap_count(1.0)
        (2, 4)
        """
        reach = (2 if self.mode == "cubic" else 1) * stretch
        return 1 if self.mode == "nearest" else 2 * int(-(-reach // 1))


@dataclass(frozen=True)
class _Axis:
    """One resized axis: `scale` is 0 where it is the ratio of the sizes.

    `numbers` are those of the table's kernel where they are found in the run, `taps` how many elements one is then
    mixed from.
    """

    axis: int
    size: Dim
    resized: Dim
    scale: float
    start: float = 0.0
    end: float = 1.0
    numbers: Operand | None = None
    taps: Dim | None = None


@dataclass(frozen=True)
class _Table:
    """Places and weights of a resized axis."""

    taps: Dim
    index: Buffer
    weights: Buffer


def _input(node: Node, position: int) -> Value | None:
    """An input that is given and not empty."""
    value = node.optional(position)
    return None if value is None or value.tensor.shape == (0,) else value


def _sampling(node: Node) -> _Sampling:
    op = node.op
    return _Sampling(op.mode, op.coordinate_transformation_mode, op.nearest_mode, bool(op.exclude_outside))


def _is_fixed(node: Node) -> bool:
    """Whether all sizes are plain numbers."""
    return all(isinstance(size, int) for size in (*node.input.shape, *node.output.shape))


def _is_scaled(node: Node) -> bool:
    """Whether the scales are given before the run."""
    scales = _input(node, 2)
    return scales is not None and scales.constant is not None


def _is_spread(node: Node) -> bool:
    """Whether the run tells from how many elements each is mixed."""
    return bool(node.op.antialias) and node.op.mode != "nearest" and not _is_fixed(node) and not _is_scaled(node)


def _is_late(node: Node) -> bool:
    """Whether the run tells scales, sizes, or what is cut out."""
    roi = _input(node, 1)
    if _sampling(node).crops and roi is not None and roi.constant is None:
        return True
    if _is_scaled(node):
        return False
    if _is_spread(node):
        return True
    keeps_ratio = node.op.keep_aspect_ratio_policy != "stretch"
    return known(_input(node, 3)) is None or (keeps_ratio and not _is_fixed(node))


def _axes(node: Node) -> list[_Axis]:
    """All axes that the operator names, identities among them."""
    op, data, roi = node.op, node.input, _input(node, 1)
    axes = resolve_axes(range(data.rank) if op.axes is None else op.axes, data.rank)
    crop: Any = [0.0] * len(axes) + [1.0] * len(axes)
    if roi is not None and roi.constant is not None:
        crop = [float(number) for number in roi.constant]
    scales = _scales(node, axes)
    return [
        _Axis(axis, data.shape[axis], node.output.shape[axis], scales[i], crop[i], crop[len(axes) + i])
        for i, axis in enumerate(axes)
    ]


def _scales(node: Node, axes: Any) -> list[float]:
    scales, policy = _input(node, 2), node.op.keep_aspect_ratio_policy
    if scales is not None and scales.constant is not None:
        return [float(factor) for factor in scales.constant]
    pairs = [(node.input.shape[axis], wanted) for axis, wanted in zip(axes, known(_input(node, 3)) or (), strict=True)]
    if policy == "stretch" or not all(isinstance(d, int) for pair in pairs for d in pair):
        return [0.0] * len(pairs)
    ratios: list[float] = [b / a if a else 0.0 for a, b in pairs]  # pyright: ignore[reportOperatorIssue, reportUnknownVariableType]
    return [min(ratios) if policy == "not_larger" else max(ratios)] * len(pairs)


def _is_identity(axis: _Axis, sampling: _Sampling) -> bool:
    return axis.size == axis.resized and axis.scale in (0.0, 1.0) and not sampling.crops


def _parameters(node: Node) -> list[tuple[str, Value]]:
    """The inputs that tell sizes and places, by name."""
    names = ("roi", 1) if _sampling(node).crops else None, ("scales", 2), ("sizes", 3)
    found = [(item[0], _input(node, item[1])) for item in names if item is not None]
    return [(name, value) for name, value in found if value is not None]


def _reads(node: Node) -> list[Value]:
    return [node.input, *(value for _, value in _parameters(node) if _is_late(node))]


@late_sizes("Resize", reads=lambda node: [value for _, value in _parameters(node)])
def resize_sizes(context: Context, node: Node) -> None:
    """Nothing: the rule itself binds them together with the scales."""


def _late_axes(context: Context, node: Node) -> list[_Axis]:
    """All axes, with the sizes that the output has and the numbers of the tables found in the run."""
    axes = _axes(node) if not _is_late(node) else _unknown_axes(node)
    numbers = whole(context.temporary(FLOAT64, 6 * len(axes), "numbers"), (6 * len(axes),))
    wanted = whole(context.temporary(INT64, 2 * len(axes), "wanted"), (2 * len(axes),))
    given = _parameters(node)
    sizes: list[tuple[str, Size]] = [(f"given{i}", axis.size) for i, axis in enumerate(axes)]
    parameters = [reads(name, context.contiguous(value)) for name, value in given]
    parameters += [writes("numbers", numbers), writes("wanted", wanted)]
    instance = kernel("resize_numbers", _number_values(node, len(axes), dict(given)))
    routine = Routine("resize_numbers", instance, parameters, sizes, 1, 10 * len(axes), checks=True)
    context.emit(routine.call(node))
    bind_axes(context, node, [axis.axis for axis in axes], wanted)
    if not _is_late(node):
        return axes
    axes = [replace(axis, numbers=Operand(numbers.buffer, 6 * i)) for i, axis in enumerate(axes)]
    return _with_taps(context, node, axes, wanted) if _is_spread(node) else axes


def _with_taps(context: Context, node: Node, axes: list[_Axis], wanted: View) -> list[_Axis]:
    """The axes with symbols for their taps, which the driver finds behind the sizes."""
    names = [f"{node.output.name}:taps{i}" for i in range(len(axes))]
    context.bind(node, names, View(wanted.buffer, wanted.offset + len(axes), (len(axes),), (1,)))
    return [replace(axis, taps=symbol(name)) for axis, name in zip(axes, names, strict=True)]


def _unknown_axes(node: Node) -> list[_Axis]:
    data, op = node.input, node.op
    axes = resolve_axes(range(data.rank) if op.axes is None else op.axes, data.rank)
    scales = _scales(node, axes) if _is_scaled(node) else [float("nan")] * len(axes)
    return [
        _Axis(axis, data.shape[axis], node.output.shape[axis], scale) for axis, scale in zip(axes, scales, strict=True)
    ]


def _number_values(node: Node, count: int, given: Mapping[str, Value]) -> dict[str, Setting]:
    """What tells sizes and places, as parameters of the kernel."""
    op = node.op
    types = {name: given[name].dtype if name in given else FLOAT32 for name in ("roi", "scales", "sizes")}
    return {
        "AXES": count,
        "HAS_ROI": "roi" in given,
        "ROI": memory_type(types["roi"]),
        "READ_ROI": reader(types["roi"]),
        "HAS_SCALES": "scales" in given,
        "SCALE": memory_type(types["scales"]),
        "READ_SCALE": reader(types["scales"]),
        "HAS_SIZES": "sizes" in given,
        "EXTENT": memory_type(types["sizes"]),
        "POLICY": op.keep_aspect_ratio_policy.upper(),
        "CUBIC": f"{float(op.cubic_coeff_a).hex()}f",
        "IS_CUBIC": op.mode == "cubic",
        "ANTIALIAS": bool(op.antialias),
    }


@anchor("Resize", reads=_reads)
def resize(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Resample axis by axis, the last two neighbours in one pass."""
    sampling, data = _sampling(node), node.input
    is_late = _is_late(node) or bool(context.unbound(node.output))
    axes = _late_axes(context, node) if is_late else _axes(node)
    axes = [axis for axis in axes if not _is_identity(axis, sampling)]
    result = context.allocate(node.output)
    is_wide = sampling.mode != "nearest"
    view = _widened(context, data) if is_wide else context.view(data)
    narrow = is_wide and view.buffer.dtype != data.dtype
    if not view.is_contiguous:
        view = converted(context, view, view.buffer.dtype, view.buffer.dtype)
    passes = _passes(axes)
    for index, pair in enumerate(passes):
        is_last = index == len(passes) - 1 and not narrow
        view = _pass(context, node, view, pair, result if is_last else None)
    if narrow and data.dtype.is_integer:
        _rounded(context, node, view, result)
    elif narrow or not passes:
        converted(context, view, view.buffer.dtype, data.dtype, into=result)


def _widened(context: Context, data: Value) -> View:
    """The input in the type that it is interpolated in: double precision for integers."""
    if data.dtype.is_float or data.dtype.kind == "complex":
        return widened(context, data)
    return converted(context, context.view(data), data.dtype, FLOAT64)


def _rounded(context: Context, node: Node, view: View, into: View) -> None:
    """Whole numbers within the limits of the output's type: the nearest with antialias, else cut towards zero."""
    dtype, graph = node.output.dtype, Graph("rounding")
    source = graph.add_input("x", TensorType(FLOAT64, view.shape))
    b = Builder(graph)
    limits = np.iinfo(dtype.numpy)
    whole_numbers = b.Round(source) if node.op.antialias else source
    result = cast(b, b.Clip(whole_numbers, float(limits.min), float(limits.max)), dtype)
    nodes = list(graph.nodes)
    loads = {source: view}
    for value in (value for each in nodes for value in each.inputs if value is not None and value.constant is not None):
        loads[value] = context.constant_view(value).broadcast(view.shape)
    fused = FusedNodes(nodes, view.shape, (), loads, {result: into}, f"{node.op.name} rounded to {dtype}")
    context.emit(context.rules.loop_call(fused))


def _passes(axes: list[_Axis]) -> list[list[_Axis]]:
    """Axes in order, neighbours in pairs."""
    left, passes = sorted(axes, key=lambda axis: axis.axis), list[list[_Axis]]()
    while left:
        is_pair = left[0].taps is None and len(left) > 1 and left[1].axis == left[0].axis + 1 and len(left) != 3
        passes.append(left[: 2 if is_pair else 1])
        left = left[len(passes[-1]) :]
    return passes


def _table(context: Context, node: Node, axis: _Axis, element: str) -> _Table:
    op, sampling = node.op, _sampling(node)
    factor = axis.scale or _ratio(axis)
    stretch = max(1.0, 1 / factor) if op.antialias and factor else 1.0
    taps = sampling.tap_count(stretch) if axis.taps is None else axis.taps
    is_scaled = float(_input(node, 2) is not None)
    numbers = axis.numbers
    if numbers is None:
        short = np.array([axis.scale, axis.start, axis.end, op.cubic_coeff_a], np.float32)
        numbers = Operand(context.constant(np.array([*short, stretch, is_scaled], np.float64)))
    index = context.temporary(INT32, axis.resized * taps, "places")
    weights = context.temporary(_dtype(element), axis.resized * taps if sampling.mode != "nearest" else 1, "weights")
    parameters = [Parameter("numbers", "double", numbers), Parameter("index", "int32_t", Operand(index, 0, True))]
    sizes: list[tuple[str, Size]] = [("extent", axis.size), ("resized", axis.resized)]
    if sampling.mode != "nearest":
        parameters.append(Parameter("weights", element, Operand(weights, 0, True)))
        sizes.append(("taps", taps))
    instance = _table_instance(sampling, element)
    tasks, hint = pieces(axis.resized, 256), f"resize_{sampling.mode}_table"
    call = Routine(hint, instance, parameters, sizes, tasks, 1000 * taps, checks=True).call(node)
    call.title, call.flops = f"{node.op.name} table of axis {axis.axis}", axis.resized * taps * 8
    context.emit(call)
    return _Table(taps, index, weights)


def _table_instance(sampling: _Sampling, element: str) -> Instance:
    coordinates = sampling.coordinates.upper()
    if sampling.mode == "nearest":
        return kernel("resize_nearest_table", COORDINATES=coordinates, ROUNDING=sampling.nearest.upper())
    return kernel(
        "resize_weight_table",
        COORDINATES=coordinates,
        ELEMENT=element,
        IS_CUBIC=sampling.mode == "cubic",
        EXCLUDES=sampling.excludes,
    )


def _ratio(axis: _Axis) -> float:
    if isinstance(axis.size, int) and isinstance(axis.resized, int) and axis.size:
        return axis.resized / axis.size
    return 0.0


def _dtype(element: str) -> Any:
    return FLOAT64 if element == "double" else FLOAT32


def _pass(context: Context, node: Node, view: View, pair: list[_Axis], into: View | None) -> View:
    """Resample one axis or two neighbours of a contiguous view."""
    first, last = pair[0].axis, pair[-1].axis
    shape = (*view.shape[:first], *(axis.resized for axis in pair), *view.shape[last + 1 :])
    target = into or whole(context.temporary(view.buffer.dtype, product(shape)), shape)
    is_column = pair[0].taps is None and product(shape[last + 1 :]) == 1
    axes: Axes = (pair[0], pair[1]) if len(pair) == 2 else (None, pair[0]) if is_column else (pair[0], None)
    rows, columns = axes
    extents: dict[str, Dim] = {
        "in_a": 1 if rows is None else rows.size, "out_a": 1 if rows is None else rows.resized,
        "in_b": 1 if columns is None else columns.size, "out_b": 1 if columns is None else columns.resized,
        "inner": product(shape[last + 1 :]) * _parts(node),
    }  # fmt: skip
    build = _nearest if _sampling(node).mode == "nearest" else _mixed if pair[0].taps is None else _spread
    routine = build(context, node, view, target, axes, extents)
    routine.tasks = product(shape[:first]) * extents["out_a"]
    call = routine.call(node)
    call.flops = product(shape) * 4
    context.emit(call)
    return View(target.buffer, target.offset, shape, row_major(shape))


def _parts(node: Node) -> int:
    """How many numbers an element is where elements are mixed: a complex one is two."""
    is_pair = node.input.dtype.kind == "complex" and _sampling(node).mode != "nearest"
    return 2 if is_pair else 1


def _fill(context: Context, node: Node, dtype: Any) -> Parameter:
    """What stands where the input does not reach; the real and the imaginary part where they are mixed as two."""
    value = np.array([node.op.extrapolation_value, 0])[: _parts(node)].astype(dtype.numpy)
    return reads("fill", whole(context.constant(value), value.shape))


def _nearest(context: Context, node: Node, view: View, target: View, axes: Axes, extents: Mapping[str, Dim]) -> Routine:
    zero = context.constant(np.zeros(1, np.int32))
    tables = [zero if axis is None else _table(context, node, axis, "float").index for axis in axes]
    parameters = [
        reads("x", view),
        writes("out", target),
        Parameter("index_a", "int32_t", Operand(tables[0])),
        Parameter("index_b", "int32_t", Operand(tables[1])),
        _fill(context, node, view.buffer.dtype),
    ]
    instance = kernel("resize_nearest", ELEMENT=bits_type(view.buffer.dtype), CROPS=_sampling(node).crops)
    cost = 1 + extents["out_b"] * (1 + floordiv(extents["inner"], 16))
    return Routine("resize_nearest", instance, parameters, list(extents.items()), 1, cost)


def _spread(context: Context, node: Node, view: View, target: View, axes: Axes, extents: Mapping[str, Dim]) -> Routine:
    rows, _ = axes
    assert rows is not None
    values = _mix_values(node, view)
    table = _table(context, node, rows, str(values["ELEMENT"]))
    parameters = [reads("x", view), writes("out", target), *_table_parameters("a", table)]
    parameters.append(_fill(context, node, view.buffer.dtype))
    sizes = [*extents.items(), ("taps_a", table.taps)]
    cost = 1 + table.taps * (2 + floordiv(extents["inner"], 16))
    return Routine("resize_spread", kernel("resize_spread", values), parameters, sizes, 1, cost)


def _mixed(context: Context, node: Node, view: View, target: View, axes: Axes, extents: Mapping[str, Dim]) -> Routine:
    parameters = [reads("x", view), writes("out", target)]
    values = _mix_values(node, view) | {"HAS_ROWS": axes[0] is not None, "HAS_COLUMNS": axes[1] is not None}
    for name, axis in zip("ab", axes, strict=True):
        taps: Dim = 1
        if axis is not None:
            table = _table(context, node, axis, str(values["ELEMENT"]))
            parameters += _table_parameters(name, table)
            taps = table.taps
        assert isinstance(taps, int)
        values[f"TAPS_{name.upper()}"] = taps
    parameters.append(_fill(context, node, view.buffer.dtype))
    inner = extents["inner"]
    routine = Routine("resize_mixed", kernel("resize_mix", values), parameters, list(extents.items()), 1, 1)
    routine.cost = 1 + floordiv((extents["in_b"] + extents["out_b"]) * (inner + 1), 4)
    routine.scratch = extents["in_b"] * inner * view.buffer.dtype.itemsize
    return routine


def _mix_values(node: Node, view: View) -> dict[str, Setting]:
    """The elements that are mixed, as parameters of a kernel."""
    part = part_type(view.buffer.dtype)
    return {
        "ELEMENT": memory_type(part),
        "KIND": register_kind(part),
        "PARTS": _parts(node),
        "CROPS": _sampling(node).crops,
    }


def _table_parameters(name: str, table: _Table) -> list[Parameter]:
    element = memory_type(table.weights.dtype)
    return [
        Parameter(f"index_{name}", "int32_t", Operand(table.index)),
        Parameter(f"weights_{name}", element, Operand(table.weights)),
    ]
