"""Convolutions and pools of images with their channels last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from intaglio.ir.dim import Dim, floordiv, product
from intaglio.ir.graph import Node, Value
from intaglio.ir.types import TensorType
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.kernel import Kernel, LibraryCall
from intaglio.kernels.layout import ChannelsLast, to_first, to_last
from intaglio.kernels.plan import Call, Operand
from intaglio.kernels.view import View, whole
from intaglio.ops.shared.window import Window
from intaglio.targets.cuda.libraries import find
from intaglio.targets.cuda.printing import memory_type
from intaglio.targets.cuda.rules.finish import finish, target_of
from intaglio.targets.cuda.rules.routine import Buffer, emit_tasks, taken_apart
from intaglio.targets.cuda.rules.table import anchor

ELEMENTS = ("float32", "float16", "bfloat16")
_POOLS = ("MaxPool", "AveragePool")


def is_channels_last(node: Node) -> bool:
    """Whether there is a kernel for images with their channels last: those of two axes in floats of up to 32 bits."""
    if node.op.name not in ("Conv", *_POOLS):
        return False
    tensors = [value.type for value in node.inputs if value is not None]
    if not all(isinstance(t, TensorType) and t.dtype.name in ELEMENTS and t.shape is not None for t in tensors):
        return False
    data = node.input
    if data.rank != 4 or any(value.uses or value.is_output for value in node.outputs[1:]):
        return False
    if node.op.name in _POOLS:
        return True
    windows = node.op.windows(data.shape[2:], node.needed(1).shape[2:])
    is_even = all(w.begin == w.end for w in windows)
    return is_even and _way(node.op.group, data.shape[1], node.needed(1).shape[0]) != ""


def _way(group: int, channels: Dim, outputs: Dim) -> str:
    """How a convolution is computed: by the library, a thread for each result, or not with its channels last."""
    if group == 1:
        return "library" if find("libcudnn") is not None else ""
    return "threads" if group == channels == outputs else ""


@anchor("ChannelsLast", fuses=True)
def channels_last(context: Context, node: Node, epilogue: Epilogue) -> None:
    """The call of the library or of a kernel, and what follows it in one kernel."""
    op = cast("ChannelsLast", node.op)
    shape = op.first_type(node.input).dims
    data = _data(context, node, op)
    if op.inner.name in _POOLS:
        result = target_of(context, epilogue)
        _pool(context, node, shape, data, result)
        finish(context, node, epilogue, result)
        return
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    result = target_of(context, epilogue, bias)
    if _way(int(op.inner.group), shape[1], node.needed(1).shape[0]) == "library":
        _by_library(context, node, shape, data, result)
    else:
        _depthwise(context, node, shape, data, result)
    bias_view = None
    if bias is not None:
        view = context.view(bias)
        output = node.outputs[0]
        bias_view = View(view.buffer, view.offset, output.shape, (0,) * (len(output.shape) - 1) + (view.strides[0],))
    finish(context, node, epilogue, result, bias, bias_view)


def _data(context: Context, node: Node, op: ChannelsLast) -> View:
    """The image side by side with its channels last."""
    if op.input_first:
        return context.copy(node.input, context.view(node.input).transpose(to_last(node.input.rank)))
    return context.contiguous(node.input)


def _windows(node: Node, shape: Sequence[Dim]) -> Sequence[Window]:
    inner = cast("ChannelsLast", node.op).inner
    if inner.name in _POOLS:
        return inner.windows(shape[2:])
    return inner.windows(shape[2:], node.needed(1).shape[2:])


def _window_sizes(windows: Sequence[Window]) -> dict[str, Dim]:
    sizes: dict[str, Dim] = {}
    for axis, w in enumerate(windows):
        sizes |= {f"in{axis}": w.input, f"out{axis}": w.output, f"kernel{axis}": w.kernel, f"end{axis}": w.end}
        sizes |= {f"stride{axis}": w.stride, f"dilation{axis}": w.dilation, f"pad{axis}": w.begin}
    return sizes


def _kernels(context: Context, weights: Value) -> View:
    """Kernels with their input channels last: constants turned once, others in each run."""
    order = to_last(weights.rank)
    shape = tuple(weights.shape[axis] for axis in order)
    array = weights.constant
    if array is not None:
        buffer = context.packed(weights, "channels last", lambda: np.ascontiguousarray(np.transpose(array, order)))
        return whole(buffer, shape)
    return context.copy(weights, context.view(weights).transpose(order))


def _by_library(context: Context, node: Node, shape: Sequence[Dim], data: View, result: View) -> None:
    weights, output = node.needed(1), node.outputs[0]
    windows = _windows(node, shape)
    first = tuple(output.shape[axis] for axis in to_first(output.rank))
    names = ("n", "c", "h", "w", "k", "p", "q", "r", "s", "depth")
    extents = (*shape, *first[1:], *weights.shape[2:], weights.shape[1])
    sizes: dict[str, Dim] = dict(zip(names, extents, strict=True))
    for axis, w in enumerate(windows):
        sizes |= {f"stride{axis}": w.stride, f"dilation{axis}": w.dilation, f"pad{axis}": w.begin, f"end{axis}": w.end}
    kernels = _kernels(context, weights)
    operands = [Operand(view.buffer, view.offset) for view in (data, kernels)]
    operands.append(Operand(result.buffer, result.offset, True))
    tf32 = bool(getattr(context.rules, "tf32", False)) and output.dtype.name == "float32"
    form = (("element", output.dtype.name), ("tf32", int(tf32)))
    flops = product(output.shape) * product(weights.shape[1:]) * 2
    title = f"Conv -> {output.name}: {output.type}" + (f" from {node.origin}" if node.origin else "")
    call = LibraryCall("convolution", form)
    context.emit(
        Call(Kernel("convolution", call), operands, list(sizes.items()), 1, 1, nodes=(node,), title=title, flops=flops)
    )


def _opened(names: Sequence[str]) -> list[str]:
    """Loops over the elements of a window."""
    lines: list[str] = []
    for a in names:
        lines.append(f"for (int64_t k{a} = 0; k{a} < kernel{a}; k{a}++) {{")
        lines.append(f"const int64_t p{a} = i{a} * stride{a} + k{a} * dilation{a} - pad{a};")
    return lines


_PARTS = [("n", "batch"), ("i0", "out0"), ("i1", "out1"), ("c", "packs")]
_INSIDE = "p0 >= 0 && p0 < in0 && p1 >= 0 && p1 < in1"
_SOURCE = "((n * in0 + p0) * in1 + p1) * packs + c"


@dataclass(frozen=True)
class _Elements:
    """How a kernel reads and writes neighbouring channels: their type in memory, their number, and conversions."""

    memory: str
    count: int
    read: str
    write: str

    @property
    def pack(self) -> str:
        """The type of all of them."""
        return f"Pack<{self.memory}, {self.count}>"

    def each(self, statement: str) -> list[str]:
        """A statement about each of them; `j` is its number."""
        return ["#pragma unroll", f"for (int j = 0; j < {self.count}; j++)", f"    {statement}"]


def _elements(node: Node, channels: Dim) -> _Elements:
    dtype = node.outputs[0].dtype
    format = {"float16": "f16", "bfloat16": "bf16"}.get(dtype.name, "")
    most = 16 // dtype.itemsize
    count = most if isinstance(channels, int) and channels % most == 0 else 1
    return _Elements(
        memory_type(dtype), count, f"f32_from_{format}" if format else "", f"{format}_from_f32" if format else ""
    )


def _emit(
    context: Context, node: Node, name: str, lines: list[str], buffers: list[Buffer], shape: Sequence[Dim], count: int,
    window: Dim,
) -> None:  # fmt: skip
    packs = floordiv(shape[1], count)
    sizes = {"batch": shape[0], "packs": packs, **_window_sizes(_windows(node, shape))}
    tasks = floordiv(product(node.outputs[0].shape), count)
    emit_tasks(
        context, node, name, [*taken_apart("begin", _PARTS), *lines], buffers, sizes, tasks, tasks * count * window * 2
    )


def _depthwise(context: Context, node: Node, shape: Sequence[Dim], data: View, result: View) -> None:
    weights, e = node.needed(1), _elements(node, shape[1])
    lines = [f"float sum[{e.count}] = {{}};", *_opened("01"), f"if ({_INSIDE}) {{"]
    lines.append(f"const {e.pack} here = ((const {e.pack} *)x)[{_SOURCE}];")
    lines.append(f"const {e.pack} factor = ((const {e.pack} *)w)[(k0 * kernel1 + k1) * packs + c];")
    lines += [*e.each(f"sum[j] += {e.read}(here.at[j]) * {e.read}(factor.at[j]);"), "}", "}", "}", f"{e.pack} done;"]
    lines += [*e.each(f"done.at[j] = {e.write}(sum[j]);"), f"(({e.pack} *)y)[begin] = done;"]
    order, array = (2, 3, 0, 1), weights.constant
    if array is not None:
        buffer = context.packed(weights, "depthwise last", lambda: np.ascontiguousarray(np.transpose(array, order)))
        kernels = whole(buffer, tuple(weights.shape[axis] for axis in order))
    else:
        kernels = context.copy(weights, context.view(weights).transpose(order))
    buffers = [Buffer("x", e.memory, data), Buffer("w", e.memory, kernels), Buffer("y", e.memory, result, True)]
    _emit(context, node, "depthwise", lines, buffers, shape, e.count, product(weights.shape[1:]))


def _pool(context: Context, node: Node, shape: Sequence[Dim], data: View, result: View) -> None:
    inner, e = cast("ChannelsLast", node.op).inner, _elements(node, shape[1])
    load = f"const {e.pack} here = ((const {e.pack} *)x)[{_SOURCE}];"
    if inner.name == "MaxPool":
        lines = [f"float best[{e.count}];", *e.each("best[j] = -INFINITY;"), *_opened("01"), f"if ({_INSIDE}) {{", load]
        better = "value > best[j] || (value != value && best[j] == best[j])"
        lines += e.each(f"{{ const float value = {e.read}(here.at[j]); best[j] = {better} ? value : best[j]; }}")
        last = "best[j]"
    else:
        counted = "p0 < in0 + end0 && p1 < in1 + end1" if getattr(inner, "count_include_pad", 0) else _INSIDE
        lines = [f"float sum[{e.count}] = {{}};", "int64_t count = 0;", *_opened("01"), f"if ({counted}) count++;"]
        lines += [f"if ({_INSIDE}) {{", load, *e.each(f"sum[j] += {e.read}(here.at[j]);")]
        last = "sum[j] / (float)count"
    lines += [
        "}",
        "}",
        "}",
        f"{e.pack} done;",
        *e.each(f"done.at[j] = {e.write}({last});"),
        f"(({e.pack} *)y)[begin] = done;",
    ]
    buffers = [Buffer("x", e.memory, data), Buffer("y", e.memory, result, True)]
    _emit(
        context,
        node,
        inner.name.lower(),
        lines,
        buffers,
        shape,
        e.count,
        product(w.kernel for w in _windows(node, shape)),
    )
