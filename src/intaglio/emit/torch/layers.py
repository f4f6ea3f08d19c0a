"""Layers in PyTorch: modules of torch.nn where the weights are constants, functions where they are not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from intaglio.emit.python.words import has_defaults, is_double, short, shortened
from intaglio.emit.pythonic.block import Site, UnprintableError, conv_windows, literal, quoted
from intaglio.emit.pythonic.movement import print_roi_align, resize_options
from intaglio.emit.torch.draft import TorchWriter, is_float_array
from intaglio.emit.torch.linear import Linear
from intaglio.emit.torch.printers import print_gather
from intaglio.emit.torch.words import FLOATS, PRINTERS, checked, prints
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import BOOL, FLOAT32, FLOAT64, DType, from_numpy
from intaglio.ir.graph import Value
from intaglio.ir.op import Array
from intaglio.ir.types import TensorType
from intaglio.ops.shared.indices import known_length


def constants(site: Site, *positions: int) -> list[Array] | None:
    """The arrays of operands, None where one is no constant."""
    found = [site.value(position).constant for position in positions if site.has(position)]
    arrays = [array for array in found if array is not None]
    return arrays if len(arrays) == len(found) else None


def layer(site: Site, kind: str, arguments: dict[str, Any], tensors: dict[str, Array]) -> str:
    """The call of a layer of torch.nn that the module then holds, and whose tensors have the type of its operand."""
    writer, given = site.writer, site.value(0).dtype
    if any(is_float_array(array) and from_numpy(array.dtype) != given for array in tensors.values()):
        raise UnprintableError(f"weights of another type than {given}")
    if not isinstance(writer, TorchWriter):
        raise UnprintableError("no module to hold the layer")
    return f"self.{writer.draft.add_layer(site.node, kind, arguments, tensors)}({site.x(0)})"


def is_float(value: Value) -> bool:
    """Whether PyTorch's functions compute with a value as exactly as ONNX asks for."""
    return value.dtype.name in ("float32", "float64")


def is_weight(value: Value) -> bool:
    """Whether a layer of torch.nn may hold a value as its weights."""
    return value.dtype.name in FLOATS


def need_one_float_type(site: Site) -> None:
    """Raise where floats of several types meet, which PyTorch refuses or gives another type than ONNX."""
    values = [value for value in (*site.node.inputs, *site.node.outputs) if value is not None]
    kinds = {value.dtype for value in values if isinstance(value.type, TensorType) and value.dtype.is_float}
    if len(kinds) > 1:
        raise UnprintableError(f"{site.op.name} of {' and '.join(sorted(map(str, kinds)))}")


def has_channels(value: Value) -> bool:
    """Whether an image certainly has channels, without which PyTorch takes none."""
    return isinstance(value.shape[1], int) and value.shape[1] > 0


def plain(numbers: Sequence[Any]) -> Any:
    """One number where all are equal, else a tuple."""
    return numbers[0] if len(set(numbers)) == 1 else tuple(numbers)


def print_linear(site: Site) -> str:
    """nn.Linear."""
    arrays = constants(site, 1, 2)
    assert arrays is not None
    weight = np.ascontiguousarray(arrays[0].T if site.op.transposed else arrays[0])
    tensors = {"weight": weight} | ({"bias": arrays[1]} if len(arrays) > 1 else {})
    arguments = {"in_features": weight.shape[1], "out_features": weight.shape[0], "bias": len(arrays) > 1}
    return layer(site, "Linear", arguments, tensors)


PRINTERS[Linear.domain, "Linear"] = checked(print_linear)


@prints("Conv")
def _conv(site: Site) -> str:
    weight, windows = site.value(1), conv_windows(site)
    count = len(windows)
    if 0 in (site.node.output.tensor.shape or ()):  # which PyTorch refuses
        return f"{site.x(0)}.new_zeros({site.shape(site.node.output)})"
    if not 1 <= count <= 3:
        raise UnprintableError("a convolution over other than one to three axes")
    strides, dilations = [w.stride for w in windows], [w.dilation for w in windows]
    begins, ends = [w.begin for w in windows], [w.end for w in windows]
    arrays = constants(site, 1, 2) if is_weight(weight) else None
    is_even = begins == ends and all(isinstance(pad, int) for pad in begins)
    if arrays is not None and is_even:
        return _conv_layer(site, f"Conv{count}d", arrays, strides, begins, dilations)
    given = site.x(0)
    padding = {"padding": plain(begins)} if is_even and any(begins) else {}
    if not is_even:
        pads = site.writer.sizes([*begins, *ends])
        given = site.call("padded", given, pads)
    named = {"stride": plain(strides), **padding, "dilation": plain(dilations), "groups": site.op.group}
    texts = [f"{name}={value}" for name, value in named.items() if value != 1 or name == "padding"]
    return f"functional.conv{count}d({', '.join([given, site.x(1), site.optional(2), *texts])})"


def _conv_layer(site: Site, kind: str, arrays: list[Array], strides: Any, pads: Any, dilations: Any) -> str:
    weight = arrays[0]
    arguments = {
        "in_channels": weight.shape[1] * site.op.group,
        "out_channels": weight.shape[0],
        "kernel_size": plain(weight.shape[2:]),
        "stride": plain(strides),
        "padding": plain(pads),
        "dilation": plain(dilations),
        "groups": site.op.group,
        "bias": len(arrays) > 1,
    }
    return layer(site, kind, arguments, dict(zip(("weight", "bias"), arrays, strict=False)))


@prints("ConvTranspose")
def _conv_transpose(site: Site) -> str:
    x, weight = site.value(0), site.value(1)
    if x.tensor.shape is None or weight.tensor.shape is None or not 3 <= x.rank <= 5:
        raise UnprintableError("a convolution over other than one to three axes")
    windows = site.op.windows(x.shape[2:], weight.shape[2:])
    begins, outputs = (site.writer.sizes([getattr(w, name) for w in windows]) for name in ("begin", "output"))
    strides, dilations = tuple(w.stride for w in windows), tuple(w.dilation for w in windows)
    arrays = constants(site, 1, 2) if is_weight(weight) else None
    if arrays is not None and has_defaults(
        site.op, "strides", "dilations", "group", "kernel_shape", "pads", "output_padding"
    ):
        pads = site.op.pads or (0,) * 2 * len(windows)
        if pads[: len(windows)] == pads[len(windows) :]:
            return _transposed_layer(site, arrays, strides, pads[: len(windows)], dilations)
    given = [site.x(0), site.x(1), site.optional(2), str(strides), begins, outputs, str(dilations), str(site.op.group)]
    return site.call("conv_transpose", *given)


def _transposed_layer(site: Site, arrays: list[Array], strides: Any, pads: Any, dilations: Any) -> str:
    weight = arrays[0]
    count = weight.ndim - 2
    arguments = {
        "in_channels": weight.shape[0],
        "out_channels": weight.shape[1] * site.op.group,
        "kernel_size": plain(weight.shape[2:]),
        "stride": plain(strides),
        "padding": plain(pads),
        "output_padding": plain(site.op.output_padding or (0,) * count),
        "groups": site.op.group,
        "bias": len(arrays) > 1,
        "dilation": plain(dilations),
    }
    return layer(site, f"ConvTranspose{count}d", arguments, dict(zip(("weight", "bias"), arrays, strict=False)))


@prints("BatchNormalization")
def _batch_norm(site: Site) -> str:
    if site.op.training_mode or len(site.node.outputs) > 1 or not 2 <= site.rank() <= 5:
        raise UnprintableError("a batch normalisation that learns")
    need_one_float_type(site)
    arrays = constants(site, 1, 2, 3, 4) if is_weight(site.value(1)) else None
    if arrays is None:
        operands = [site.x(0), site.x(3), site.x(4), site.x(1), site.x(2)]
        return f"functional.batch_norm({', '.join(operands)}, eps={short(site.node, site.op.epsilon)})"
    names = ("weight", "bias", "running_mean", "running_var")
    tensors = dict(zip(names, arrays, strict=True)) | {"num_batches_tracked": np.array(0, np.int64)}
    kind = f"BatchNorm{max(site.rank() - 2, 1)}d"
    return layer(site, kind, {"num_features": len(arrays[0]), "eps": shortened(site.node, site.op.epsilon)}, tensors)


@prints("LayerNormalization")
def _layer_norm(site: Site) -> str:
    need_one_float_type(site)
    op, rank = site.op, site.rank()
    shape = site.value(0).shape[op.axis % rank :]
    if len(site.node.outputs) > 1 or op.stash_type != 1 or not all(isinstance(size, int) for size in shape):
        raise UnprintableError("statistics as outputs, or open sizes")
    has_whole = all(not site.has(i) or site.value(i).tensor.shape == shape for i in (1, 2))
    if not has_whole:
        raise UnprintableError("weights that are broadcast")
    arrays = constants(site, 1, 2) if is_weight(site.value(1)) else None
    if arrays is None:
        operands = [site.x(0), str(tuple(shape)), site.x(1), site.optional(2)]
        return f"functional.layer_norm({', '.join(operands)}, eps={short(site.node, op.epsilon)})"
    arguments = {
        "normalized_shape": plain(shape) if len(shape) == 1 else tuple(shape),
        "eps": shortened(site.node, op.epsilon),
        "bias": len(arrays) > 1,
    }
    return layer(site, "LayerNorm", arguments, dict(zip(("weight", "bias"), arrays, strict=False)))


@prints("RMSNormalization")
def _rms_norm(site: Site) -> str:
    need_one_float_type(site)
    op, rank = site.op, site.rank()
    shape = site.value(0).shape[op.axis % rank :]
    if not all(isinstance(size, int) for size in shape) or site.value(1).tensor.shape != shape or op.stash_type != 1:
        raise UnprintableError("weights that are broadcast, or open sizes")
    arrays = constants(site, 1) if is_weight(site.value(1)) else None
    if arrays is None:
        return f"functional.rms_norm({site.x(0)}, {tuple(shape)}, {site.x(1)}, eps={short(site.node, op.epsilon)})"
    arguments = {
        "normalized_shape": plain(shape) if len(shape) == 1 else tuple(shape),
        "eps": shortened(site.node, op.epsilon),
    }
    return layer(site, "RMSNorm", arguments, {"weight": arrays[0]})


@prints("GroupNormalization")
def _group_norm(site: Site) -> str:
    arrays = constants(site, 1, 2) if is_weight(site.value(1)) else None
    if arrays is None or site.op.stash_type != 1:
        raise UnprintableError("weights that are no constants")
    if len(arrays[0]) == site.op.num_groups and not _has_several((*site.value(0).shape[:1], *site.value(0).shape[2:])):
        raise UnprintableError("a normalisation of one element, which PyTorch refuses")
    arguments = {
        "num_groups": site.op.num_groups,
        "num_channels": len(arrays[0]),
        "eps": shortened(site.node, site.op.epsilon),
    }
    return layer(site, "GroupNorm", arguments, dict(zip(("weight", "bias"), arrays, strict=True)))


@prints("PRelu")
def _prelu(site: Site) -> str:
    arrays = constants(site, 1) if is_weight(site.value(1)) else None
    if arrays is None or site.rank() < 2:
        raise UnprintableError("a slope that is no constant")
    slope = arrays[0]
    channels = slope.size == 1 or (slope.ndim == site.rank() - 1 and slope.shape[0] == slope.size)
    if not channels:
        raise UnprintableError("a slope that is not one a channel")
    return layer(site, "PReLU", {"num_parameters": slope.size}, {"weight": slope.reshape(-1)})


@prints("Gather")
def _gather(site: Site) -> str | None:
    table, indices = site.value(0), site.value(1)
    is_table = table.constant is not None and table.constant.ndim == 2 and is_weight(table)
    if site.op.axis == 0 and is_table and indices.constant is None and isinstance(site.writer, TorchWriter):
        assert table.constant is not None
        rows, columns = table.constant.shape
        arguments = {"num_embeddings": rows, "embedding_dim": columns}
        name = site.writer.draft.add_layer(site.node, "Embedding", arguments, {"weight": table.constant})
        text = site.x(1)
        from_front = text if _cannot_be_negative(indices) else f"torch.where({text} < 0, {text} + {rows}, {text})"
        return f"self.{name}({from_front})"
    return print_gather(site)


def _cannot_be_negative(indices: Value) -> bool:
    """Whether indices are certainly counted from the front; those of tokens, which come as inputs, are."""
    producer = indices.producer
    return producer is None or producer.op.name in (
        "Range",
        "Cast",
        "Unsqueeze",
        "Expand",
        "Slice",
        "Reshape",
        "Gather",
    )


@prints("LSTM", "GRU", "RNN")
def _recurrent(site: Site) -> str | None:
    op = site.op
    is_plain = has_defaults(op, "hidden_size", "direction", "linear_before_reset")
    arrays = constants(site, 1, 2, 3)
    is_plain = is_plain and arrays is not None and is_weight(site.value(1)) and op.direction != "reverse"
    if not is_plain or site.has(4) or site.has(7) or (op.name == "GRU" and not op.linear_before_reset):
        raise UnprintableError("a recurrent layer with lengths, peepholes or functions of its own")
    if not isinstance(site.writer, TorchWriter) or arrays is None:
        raise UnprintableError("no module to hold the layer")
    _recurrent_layer(site, arrays)
    return None


_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""The order of the gates: ONNX has iofc and zrh, PyTorch ifgo and rzn."""


def _recurrent_layer(site: Site, arrays: list[Array]) -> None:
    op, node = site.op, site.node
    size, ways = op.hidden_size, 2 if op.direction == "bidirectional" else 1
    tensors: dict[str, Array] = {}
    for way in range(ways):
        suffix = "_reverse" if way else ""
        tensors[f"weight_ih_l0{suffix}"] = _ordered(arrays[0][way], op.name, size)
        tensors[f"weight_hh_l0{suffix}"] = _ordered(arrays[1][way], op.name, size)
        if len(arrays) > 2:
            half = arrays[2].shape[1] // 2
            tensors[f"bias_ih_l0{suffix}"] = _ordered(arrays[2][way, :half], op.name, size)
            tensors[f"bias_hh_l0{suffix}"] = _ordered(arrays[2][way, half:], op.name, size)
    arguments = {
        "input_size": arrays[0].shape[2],
        "hidden_size": size,
        "bias": len(arrays) > 2,
        "bidirectional": ways == 2,
    }
    assert isinstance(site.writer, TorchWriter)
    name = site.writer.draft.add_layer(node, op.name, arguments, tensors)
    state = ""
    if op.name == "LSTM" and (site.has(5) or site.has(6)):
        if not (site.has(5) and site.has(6)):
            raise UnprintableError("one state of two")
        state = f", ({site.x(5)}, {site.x(6)})"
    elif site.has(5):
        state = f", {site.x(5)}"
    outputs = [site.writer.declare(value) if value.uses else "_" for value in node.outputs]
    outputs += ["_"] * ((3 if op.name == "LSTM" else 2) - len(outputs))
    last = f"({', '.join(outputs[1:])})" if op.name == "LSTM" else outputs[1]
    lines = [f"{outputs[0]}, {last} = self.{name}({site.x(0)}{state})"]
    if outputs[0] != "_":  # [time, batch, ways * size] to ONNX's [time, ways, batch, size]
        moved = f"{outputs[0]}.unsqueeze(1)" if ways == 1 else f"{outputs[0]}.unflatten(2, (2, {size})).transpose(1, 2)"
        lines.append(f"{outputs[0]} = {moved}")
    site.writer.add(lines, node.outputs)


def _ordered(array: Array, kind: str, size: int) -> Array:
    parts = [array[gate * size : (gate + 1) * size] for gate in _GATES[kind]]
    return np.concatenate(parts)


@prints("InstanceNormalization")
def _instance_norm(site: Site) -> str:
    if site.rank() < 3 or not is_float(site.value(0)):
        raise UnprintableError("an instance normalisation of narrow floats")
    if not _has_several(site.value(0).shape[2:]):
        raise UnprintableError("a normalisation of one element, which PyTorch refuses")
    eps = short(site.node, site.op.epsilon)
    return f"functional.instance_norm({site.x(0)}, weight={site.x(1)}, bias={site.x(2)}, eps={eps})"


def _has_several(sizes: Sequence[Dim]) -> bool:
    """Whether there is certainly more than one element, or none."""
    return any(isinstance(size, int) and size != 1 for size in sizes)


@prints("LRN")
def _local_response_norm(site: Site) -> str:
    op, node = site.op, site.node
    if site.value(0).dtype != FLOAT32:
        raise UnprintableError("numbers of the attributes in another type than float32")
    numbers = [short(node, op.alpha / op.size), repr(float(np.float32(op.beta))), short(node, op.bias)]
    return site.call("local_response_norm", site.x(0), str(op.size), *numbers)


@prints("Softmax", "LogSoftmax")
def _softmax(site: Site) -> str:
    function = "softmax" if site.op.name == "Softmax" else "log_softmax"
    return f"{site.x(0)}.{function}(dim={site.op.axis})"


@prints("Attention")
def _attention(site: Site) -> str:
    need_one_float_type(site)
    op, node = site.op, site.node
    is_plain = len(node.outputs) == 1 and len(node.inputs) <= 4 and has_defaults(op, "scale")
    is_plain = is_plain and all(site.rank(i) == 4 for i in range(3)) and is_float(site.value(0))
    is_plain = is_plain and site.value(0).shape[1] == site.value(1).shape[1]
    if not is_plain or not _is_whole_mask(site):
        raise UnprintableError("more than queries, keys, values and a mask")
    operands = [site.x(0), site.x(1), site.x(2)]
    operands += [f"attn_mask={site.x(3)}"] if site.has(3) else []
    if op.scale is not None and not _is_usual(op.scale, site):
        operands.append(f"scale={short(node, op.scale)}")
    return f"functional.scaled_dot_product_attention({', '.join(operands)})"


def _is_usual(scale: float, site: Site) -> bool:
    """Whether a scale is what PyTorch takes itself, to a few roundings."""
    size = site.value(0).shape[-1]
    most = 1e-15 if is_double(site.node) else 5e-7
    return isinstance(size, int) and size > 0 and abs(scale * size**0.5 - 1) < most


def _is_whole_mask(site: Site) -> bool:
    if not site.has(3):
        return True
    mask = site.value(3)
    return mask.dtype != BOOL and mask.tensor.shape is not None and mask.shape[-1] == site.value(1).shape[2]


def _pool_arguments(site: Site) -> tuple[Any, list[str], str | None]:
    op, x = site.op, site.value(0)
    if x.tensor.shape is None:
        raise UnprintableError("a pool of unknown rank")
    windows = op.windows(x.shape[2:])
    pads = [*(w.begin for w in windows), *(w.end for w in windows)]
    numbers = [site.writer.sizes([w.kernel for w in windows]), str(tuple(w.stride for w in windows)),
               site.writer.sizes(pads), str(tuple(w.dilation for w in windows))]  # fmt: skip
    ceil_mode = "True" if getattr(op, "ceil_mode", 0) and not op.auto_pad.startswith("SAME") else None
    return windows, numbers, ceil_mode


def _plain_pool(site: Site, windows: Any) -> dict[str, Any] | None:
    """The arguments of a pool that PyTorch has; None where it has not."""
    is_known = all(isinstance(w.begin, int) and w.begin == w.end and 2 * w.begin <= w.kernel for w in windows)
    if not is_known or not has_channels(site.value(0)) or not 1 <= len(windows) <= 3 or not is_float(site.value(0)):
        return None
    named: dict[str, Any] = {"stride": plain([w.stride for w in windows])}
    named["padding"] = plain([w.begin for w in windows])
    return named


@prints("MaxPool")
def _max_pool(site: Site) -> str | None:
    windows, numbers, ceil_mode = _pool_arguments(site)
    named = _plain_pool(site, windows)
    if len(site.node.outputs) > 1:
        if named is None or site.op.storage_order:
            raise UnprintableError("places of maxima in an order of their own")
        _pool_with_places(site, windows, named, ceil_mode)
        return None
    if named is None:
        return site.call("max_pool", site.x(0), *numbers, *([] if ceil_mode is None else ["ceil_mode=True"]))
    named["dilation"] = plain([w.dilation for w in windows])
    return f"functional.max_pool{len(windows)}d({_pool_text(site, windows, named, ceil_mode)})"


def _pool_text(site: Site, windows: Any, named: dict[str, Any], ceil_mode: str | None) -> str:
    defaults = {"padding": 0, "dilation": 1, "stride": plain([w.kernel for w in windows])}
    texts = [f"{name}={value}" for name, value in named.items() if value != defaults.get(name)]
    texts += ["ceil_mode=True"] if ceil_mode else []
    return ", ".join([site.x(0), str(plain([w.kernel for w in windows])), *texts])


def _pool_with_places(site: Site, windows: Any, named: dict[str, Any], ceil_mode: str | None) -> None:
    named["dilation"] = plain([w.dilation for w in windows])
    text = f"functional.max_pool{len(windows)}d({_pool_text(site, windows, named, ceil_mode)}, return_indices=True)"
    x = site.x(0)
    values, places = (site.writer.declare(value) for value in site.node.outputs)
    ones = ", ".join("1" for _ in windows)
    planes = f"torch.arange({x}.shape[0] * {x}.shape[1]).reshape({x}.shape[0], {x}.shape[1], {ones})"
    lines = [f"{values}, {places} = {text}", f"{places} = {places} + {planes} * {x}[0, 0].numel()"]
    site.writer.add(lines, site.node.outputs)


@prints("AveragePool")
def _average_pool(site: Site) -> str:
    windows, numbers, ceil_mode = _pool_arguments(site)
    named = _plain_pool(site, windows)
    margin = bool(site.op.count_include_pad)
    # PyTorch forgets the margin of small images.
    is_forgotten = named is not None and len(windows) == 3 and any(w.begin for w in windows)
    if named is None or is_forgotten or any(w.dilation != 1 for w in windows) or (ceil_mode and margin):
        flags = ["ceil_mode=True"] if ceil_mode else []
        return site.call("average_pool", site.x(0), *numbers, *flags, count_margin=True if margin else None)
    flag = "" if margin or not any(w.begin for w in windows) else ", count_include_pad=False"
    return f"functional.avg_pool{len(windows)}d({_pool_text(site, windows, named, ceil_mode)}{flag})"


@prints("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(site: Site) -> str:
    axes = tuple(range(2, site.rank()))
    function = "mean" if site.op.name == "GlobalAveragePool" else "amax"
    return f"{site.x(0)}.{function}(dim={axes}, keepdim=True)"


@prints("Col2Im")
def _column_to_image(site: Site) -> str:
    op = site.op
    pads = op.pads or (0,) * 4
    if known_length(site.value(1)) != 2 or pads[:2] != pads[2:]:
        raise UnprintableError("an image of other than two axes")
    steps = f"dilation={op.dilations or (1, 1)}, padding={pads[:2]}, stride={op.strides or (1, 1)}"
    return f"functional.fold({site.x(0)}, {site.listing(1)}, {site.listing(2)}, {steps})"


@prints("Resize")
def _resize(site: Site) -> str:
    op = site.op
    axes = tuple(range(site.rank())) if op.axes is None else op.axes
    has_scales = site.has(2) and site.value(2).tensor.shape != (0,)
    constant = site.value(2).constant if has_scales else None
    scales = None if not has_scales else f"{site.x(2)}.tolist()" if constant is None else literal(constant)
    given = [f"scales={scales}" if scales else f"sizes={site.listing(3)}"]
    if op.coordinate_transformation_mode == "tf_crop_and_resize" and site.has(1):
        given.append(f"roi={site.x(1)}.tolist()")
    return site.call("resize", site.x(0), str(tuple(axes)), *given, **resize_options(op))


@prints("GridSample")
def _grid_sample(site: Site) -> str:
    op = site.op
    mode: str = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}[op.mode]
    if site.rank() not in (4, 5) or not site.value(0).dtype.is_float or (mode == "bicubic" and site.rank() == 5):
        raise UnprintableError("a grid that PyTorch does not sample")
    options = f"mode={quoted(mode)}, padding_mode={quoted(op.padding_mode)}, align_corners={bool(op.align_corners)}"
    given, places = site.value(0).dtype, site.value(1).dtype
    compute = FLOAT64 if FLOAT64 in (given, places) else FLOAT32
    back = "" if given == compute else f".to({site.dtype(given)})"
    return f"functional.grid_sample({_in_type(site, 0, compute)}, {_in_type(site, 1, compute)}, {options}){back}"


def _in_type(site: Site, position: int, dtype: DType) -> str:
    """An operand in the type in which a node is computed."""
    return site.x(position) if site.value(position).dtype == dtype else f"{site.x(position)}.to({site.dtype(dtype)})"


prints("RoiAlign")(print_roi_align)


@prints("Det")
def _det(site: Site) -> str:
    return f"torch.linalg.det({site.x(0)})"


@prints("DFT")
def _dft(site: Site) -> str:
    length = f"int({site.x(1)}.item())" if site.has(1) else "None"
    axis = str(site.ints(2)[0]) if site.has(2) else "-2"
    return site.call("dft", site.x(0), length, axis, str(bool(site.op.inverse)), str(bool(site.op.onesided)))


@prints("STFT")
def _stft(site: Site) -> str:
    length = f"int({site.x(3)}.item())" if site.has(3) else "None"
    return site.call(
        "stft", site.x(0), f"int({site.x(1)}.item())", site.optional(2), length, str(bool(site.op.onesided))
    )


@prints("RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike")
def _random(site: Site) -> str:
    op = site.op
    shape = site.shape(site.node.output) if op.name.endswith("Like") else str(tuple(op.shape))
    dtype = site.dtype(site.node.output.dtype)
    if "Uniform" in op.name:
        return f"torch.rand({shape}, dtype={dtype}) * {op.high - op.low} + {op.low}"
    return f"torch.randn({shape}, dtype={dtype}) * {op.scale} + {op.mean}"
