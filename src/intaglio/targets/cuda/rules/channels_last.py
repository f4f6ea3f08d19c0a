"""Convolutions and pools of images with their channels last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from intaglio.ir.dim import Dim, product
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
    if _way(int(getattr(op.inner, "group")), shape[1], node.needed(1).shape[0]) == "library":
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
    form = (("element", output.dtype.name),)
    flops = product(output.shape) * product(weights.shape[1:]) * 2
    title = f"Conv -> {output.name}: {output.type}" + (f" from {node.origin}" if node.origin else "")
    call = LibraryCall("convolution", form)
    context.emit(Call(Kernel("convolution", call), operands, list(sizes.items()), 1, 1, nodes=(node,), title=title, flops=flops))


def _opened(names: Sequence[str]) -> list[str]:
    """Loops over the elements of a window."""
    lines: list[str] = []
    for a in names:
        lines.append(f"for (int64_t k{a} = 0; k{a} < kernel{a}; k{a}++) {{")
        lines.append(f"const int64_t p{a} = i{a} * stride{a} + k{a} * dilation{a} - pad{a};")
    return lines


_PARTS = [("n", "batch"), ("i0", "out0"), ("i1", "out1"), ("c", "channels")]
_INSIDE = "p0 >= 0 && p0 < in0 && p1 >= 0 && p1 < in1"


def _reader(node: Node) -> tuple[str, str, str]:
    """The type of elements in memory, and what reads and writes them as floats."""
    dtype = node.outputs[0].dtype
    format = {"float16": "f16", "bfloat16": "bf16"}.get(dtype.name, "")
    return memory_type(dtype), f"f32_from_{format}" if format else "", f"{format}_from_f32" if format else ""


def _depthwise(context: Context, node: Node, shape: Sequence[Dim], data: View, result: View) -> None:
    element, read, write = _reader(node)
    lines = [*taken_apart("begin", _PARTS), "float sum = 0;", *_opened("01")]
    lines.append(f"if ({_INSIDE})")
    source = "x[((n * in0 + p0) * in1 + p1) * channels + c]"
    lines.append(f"sum += {read}({source}) * {read}(w[(k0 * kernel1 + k1) * channels + c]);")
    lines += ["}", "}", f"y[begin] = {write}(sum);"]
    weights = node.needed(1)
    order, array = (2, 3, 0, 1), weights.constant
    if array is not None:
        buffer = context.packed(weights, "depthwise last", lambda: np.ascontiguousarray(np.transpose(array, order)))
        kernels = whole(buffer, tuple(weights.shape[axis] for axis in order))
    else:
        kernels = context.copy(weights, context.view(weights).transpose(order))
    buffers = [Buffer("x", element, data), Buffer("w", element, kernels), Buffer("y", element, result, True)]
    sizes = {"batch": shape[0], "channels": shape[1], **_window_sizes(_windows(node, shape))}
    tasks = product(node.outputs[0].shape)
    emit_tasks(context, node, "depthwise", lines, buffers, sizes, tasks, tasks * product(weights.shape[1:]) * 2)


def _pool(context: Context, node: Node, shape: Sequence[Dim], data: View, result: View) -> None:
    inner = cast("ChannelsLast", node.op).inner
    element, read, write = _reader(node)
    counts_pads = bool(getattr(inner, "count_include_pad", 0))
    value = f"{read}(x[((n * in0 + p0) * in1 + p1) * channels + c])"
    lines = [*taken_apart("begin", _PARTS)]
    if inner.name == "MaxPool":
        lines += ["float best = -INFINITY;", *_opened("01"), f"if ({_INSIDE}) {{", f"const float value = {value};"]
        lines += ["if (value > best || (value != value && best == best)) best = value;", "}", "}", "}"]
        lines.append(f"y[begin] = {write}(best);")
    else:
        counted = "p0 < in0 + end0 && p1 < in1 + end1" if counts_pads else _INSIDE
        lines += ["float sum = 0;", "int64_t count = 0;", *_opened("01"), f"if ({counted}) count++;"]
        lines += [f"if ({_INSIDE}) sum += {value};", "}", "}", f"y[begin] = {write}(sum / (float)count);"]
    buffers = [Buffer("x", element, data), Buffer("y", element, result, True)]
    windows = _windows(node, shape)
    sizes = {"batch": shape[0], "channels": shape[1], **_window_sizes(windows)}
    tasks = product(node.outputs[0].shape)
    emit_tasks(context, node, inner.name.lower(), lines, buffers, sizes, tasks, tasks * product(w.kernel for w in windows))


