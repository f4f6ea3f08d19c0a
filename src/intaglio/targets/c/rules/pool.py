"""Pools that the channels-last kernels do not know: other element types, indices of maxima, p-norms."""

from __future__ import annotations

import numpy as np

from intaglio.ir.dim import Dim, compare, product
from intaglio.ir.dtype import INT64, DType
from intaglio.ir.graph import Node
from intaglio.kernels.context import Context
from intaglio.kernels.elements import is_computable
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import whole
from intaglio.ops.shared.window import Window
from intaglio.targets.c.kernel_file import Value, kernel
from intaglio.targets.c.routine import Routine, memory_type, reads, writes
from intaglio.targets.c.rules.table import anchor
from intaglio.targets.c.rules.widen import computed, converted, widened

_KINDS = {"MaxPool": "max", "AveragePool": "average", "LpPool": "lp"}


def _windows(node: Node) -> tuple[Window, ...]:
    return node.op.windows(node.input.shape[2:])


def _refuse(node: Node) -> Refusal | None:
    data = node.input
    if not 3 <= data.rank <= 5 or not is_computable(data.dtype):
        return Refusal(Cause.ELEMENTS, f"{node.op.name} of {data.type} is not compiled yet")
    if node.op.name == "LpPool" and data.dtype.name == "float32" and not node.op.ceil_mode:
        return Refusal(Cause.FORM, "it is expanded to a mean of powers, whose kernel is faster")
    is_known = all(compare(window.kernel, 0) == 1 for window in _windows(node))
    return None if is_known else Refusal(Cause.SHAPE, "its window's size is not known before the run")


def _lowest(dtype: DType) -> str:
    if dtype.is_float:
        return "-INFINITY"
    return "0" if dtype.kind in ("uint", "bool") else f"({np.iinfo(dtype.numpy).min + 1} - 1)"


@anchor("MaxPool", "AveragePool", "LpPool", refuse=_refuse)
def plain_pool(context: Context, node: Node, epilogue: Epilogue) -> None:
    """Value by value in the type that the elements are computed in; a task is one row of the output."""
    data, output = node.input, node.outputs[0]
    dtype = computed(data.dtype)
    x = widened(context, data)
    if not x.is_contiguous:
        x = converted(context, x, dtype, dtype)
    result = context.allocate(output)
    wide = result if dtype == output.dtype else whole(context.temporary(dtype, output.tensor.size), output.shape)
    has_indices = len(node.outputs) > 1
    places = context.allocate(node.outputs[1]) if has_indices else whole(context.temporary(INT64, 1), (1,))
    op = node.op
    sizes = [*_sizes(node), ("storage", getattr(op, "storage_order", 0)), ("has_indices", int(has_indices))]
    parameters = [reads("x", x), writes("out", wide), writes("indices", places)]
    known = dict(sizes)
    tasks = product(data.shape[:2]) * known["out0"] * known["out1"]
    cost = 1 + known["out2"] * known["kernel0"] * known["kernel1"] * known["kernel2"]
    instance = kernel("plain_pool", _values(node, dtype))
    call = Routine(f"plain_{_KINDS[op.name]}_pool", instance, parameters, sizes, tasks, cost).call(node)
    call.flops = product(output.shape) * product(window.kernel for window in _windows(node))
    context.emit(call)
    if wide is not result:
        converted(context, wide, dtype, output.dtype, into=result)


def _values(node: Node, dtype: DType) -> dict[str, Value]:
    """What is computed in which type, as parameters of the kernel."""
    return {
        "ELEMENT": memory_type(dtype),
        "IS_FLOAT": dtype.is_float,
        "IS_DOUBLE": dtype.name == "float64",
        "IS_MAXIMUM": node.op.name == "MaxPool",
        "IS_AVERAGE": node.op.name == "AveragePool",
        "P": getattr(node.op, "p", 2),
        "LOWEST": _lowest(dtype),
        "COUNTS_PADS": bool(getattr(node.op, "count_include_pad", 0)),
    }


def _sizes(node: Node) -> list[tuple[str, Size]]:
    """The windows of three axes; missing ones stand in front with extent 1."""
    windows = _windows(node)
    padded = [Window(1, 1, 1, 1, 0, 0, 1)] * (3 - len(windows)) + list(windows)
    sizes: list[tuple[str, Size]] = []
    for axis, w in enumerate(padded):
        extents: dict[str, Dim] = {
            "in": w.input, "out": w.output, "kernel": w.kernel, "stride": w.stride, "dilation": w.dilation,
            "pad": w.begin, "end": w.end,
        }  # fmt: skip
        sizes += [(f"{name}{axis}", extent) for name, extent in extents.items()]
    return sizes
