"""Layers of networks, images and signals in NumPy."""

from __future__ import annotations

from typing import Any

from intaglio.emit.python.words import (
    has_defaults,
    is_narrow,
    prints,
    rounded,
    shortened,
    wide,
)
from intaglio.emit.pythonic.block import (
    Site,
    UnprintableError,
    conv_windows,
    literal,
    quoted,
)
from intaglio.emit.pythonic.movement import print_roi_align, resize_options
from intaglio.ir.dtype import BOOL
from intaglio.ir.graph import Value
from intaglio.ops.shared.indices import known_length


def _epsilon(site: Site) -> float | None:
    """What a normalisation adds to a variance, where that is not the default of the library."""
    epsilon = shortened(site.node, site.op.epsilon)
    return None if epsilon == 1e-5 else epsilon


@prints("LayerNormalization")
def _layer_norm(site: Site) -> str:
    if len(site.node.outputs) > 1 or site.op.stash_type != 1:
        raise UnprintableError("statistics as outputs")
    given = [wide(site, position) for position in range(len(site.node.inputs))]
    axis = None if site.op.axis == -1 else site.op.axis
    epsilon = _epsilon(site)
    return rounded(site, site.call("layer_norm", "xp", *given, axis=axis, epsilon=epsilon))


@prints("RMSNormalization")
def _rms_norm(site: Site) -> str:
    axis = None if site.op.axis == -1 else site.op.axis
    epsilon = _epsilon(site)
    return rounded(site, site.call("rms_norm", "xp", wide(site, 0), wide(site, 1), axis=axis, epsilon=epsilon))


@prints("BatchNormalization")
def _batch_norm(site: Site) -> str:
    if site.op.training_mode or len(site.node.outputs) > 1 or site.rank() < 2:
        raise UnprintableError("a batch normalisation that learns")
    epsilon = _epsilon(site)
    return rounded(site, site.call("batch_norm", "xp", *(wide(site, i) for i in range(5)), epsilon=epsilon))


@prints("Attention")
def _attention(site: Site) -> str:
    op, node = site.op, site.node
    is_plain = len(node.outputs) == 1 and len(node.inputs) <= 4 and has_defaults(op, "scale")
    is_plain = is_plain and all(site.rank(i) == 4 for i in range(3)) and not is_narrow(site.value(0))
    is_plain = is_plain and site.value(0).shape[1] == site.value(1).shape[1] and not _has_empty_mask(site)
    if not is_plain:
        raise UnprintableError("more than queries, keys, values and a mask")
    mask = [site.x(3)] if site.has(3) else []
    return site.call("attention", "xp", site.x(0), site.x(1), site.x(2), *mask, scale=op.scale)


def _has_empty_mask(site: Site) -> bool:
    return site.has(3) and (
        site.value(3).dtype == BOOL
        or site.value(3).tensor.shape is None
        or site.value(3).shape[-1] != site.value(1).shape[2]
    )


def _window_sizes(site: Site, windows: Any) -> tuple[str, str, str, str]:
    pads = site.writer.sizes([*(w.begin for w in windows), *(w.end for w in windows)])
    kernel = site.writer.sizes([w.kernel for w in windows])
    return kernel, str(tuple(w.stride for w in windows)), pads, str(tuple(w.dilation for w in windows))


@prints("LSTM", "GRU", "RNN")
def _recurrent(site: Site) -> str:
    op, node = site.op, site.node
    is_plain_layer = has_defaults(op, "hidden_size", "direction", "linear_before_reset")
    if not is_plain_layer or site.has(4) or site.has(7) or is_narrow(site.value(0)):
        raise UnprintableError("a recurrent layer with lengths, peepholes or functions of its own")
    operands = [site.x(0), site.x(1), site.x(2), site.optional(3), site.optional(5)]
    operands += [site.optional(6)] if op.name == "LSTM" else []
    named = {"direction": None if op.direction == "forward" else op.direction}
    if op.name == "GRU":
        named["reset_last"] = True if op.linear_before_reset else None
    found = site.call(op.name.lower(), "xp", *operands, **named)
    most = 3 if op.name == "LSTM" else 2
    count = len(node.outputs)
    return found if count == most else f"{found}[{'0' if count == 1 else f':{count}'}]"


@prints("Conv")
def _conv(site: Site) -> str:
    windows = conv_windows(site)
    _, strides, pads, dilations = _window_sizes(site, windows)
    named = {"strides": strides, "pads": pads, "dilations": dilations}
    plain = {"strides": 1, "pads": 0, "dilations": 1}
    given = [wide(site, 0), wide(site, 1)]
    given += [wide(site, 2)] if site.has(2) else []
    given += [
        f"{name}={text}"
        for name, text in named.items()
        if set(text.strip("(),").split(", ")) != {str(plain[name])} and text != f"({plain[name]},)"
    ]
    groups = site.op.group if site.op.group != 1 else None
    return rounded(site, site.call("conv", "xp", *given, groups=groups))


@prints("ConvTranspose")
def _conv_transpose(site: Site) -> str:
    x, weight = site.value(0), site.value(1)
    if x.tensor.shape is None or weight.tensor.shape is None:
        raise UnprintableError("a convolution of unknown rank")
    windows = site.op.windows(x.shape[2:], weight.shape[2:])
    bias = wide(site, 2) if site.has(2) else "None"
    begins, outputs = (site.writer.sizes([getattr(w, name) for w in windows]) for name in ("begin", "output"))
    strides, dilations = tuple(w.stride for w in windows), tuple(w.dilation for w in windows)
    groups = site.op.group if site.op.group != 1 else None
    given = [wide(site, 0), wide(site, 1), bias, str(strides), begins, outputs, str(dilations)]
    return rounded(site, site.call("conv_transpose", "xp", *given, groups=groups))


@prints("MaxPool", "AveragePool", "LpPool")
def _pool(site: Site) -> str:
    op, x = site.op, site.value(0)
    if x.tensor.shape is None:
        raise UnprintableError("a pool of unknown rank")
    given = list(_window_sizes(site, op.windows(x.shape[2:])))
    ceil_mode = True if getattr(op, "ceil_mode", 0) and not op.auto_pad.startswith("SAME") else None
    if op.name == "LpPool":
        return site.call("lp_pool", "xp", site.x(0), str(op.p), *given, ceil_mode=ceil_mode)
    if op.name == "AveragePool":
        margin = True if op.count_include_pad else None
        return rounded(
            site, site.call("average_pool", "xp", wide(site, 0), *given, ceil_mode=ceil_mode, count_margin=margin)
        )
    if len(site.node.outputs) == 1:
        return rounded(site, site.call("max_pool", "xp", wide(site, 0), *given, ceil_mode=ceil_mode))
    if is_narrow(x):
        raise UnprintableError("places in narrow floats")
    order = True if op.storage_order else None
    return site.call("max_pool_indices", "xp", site.x(0), *given, ceil_mode=ceil_mode, column_major=order)


@prints("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(site: Site) -> str:
    axes = tuple(range(2, site.rank()))
    function = "mean" if site.op.name == "GlobalAveragePool" else "max"
    return rounded(site, f"{wide(site, 0)}.{function}(axis={axes}, keepdims=True)")


@prints("Col2Im")
def _column_to_image(site: Site) -> str:
    op, count = site.op, known_length(site.value(1))
    if count is None:
        raise UnprintableError("an image of unknown rank")
    given = [op.strides or (1,) * count, op.pads or (0,) * 2 * count, op.dilations or (1,) * count]
    texts = [str(tuple(numbers)) for numbers in given]
    return site.call("column_to_image", "xp", site.x(0), site.listing(1), site.listing(2), *texts)


@prints("DeformConv")
def _deform_conv(site: Site) -> str:
    op = site.op
    if site.rank() != 4 or is_narrow(site.value(0)):
        raise UnprintableError("a deformed convolution over other than two axes")
    given = [op.strides or (1, 1), op.pads or (0,) * 4, op.dilations or (1, 1), op.group, op.offset_group]
    operands = [site.x(0), site.x(1), site.x(2), site.optional(3), site.optional(4)]
    return site.call("deform_conv", "xp", *operands, *map(str, given))


@prints("Resize")
def _resize(site: Site) -> str:
    op = site.op
    axes = tuple(range(site.rank())) if op.axes is None else op.axes
    has_scales = site.has(2) and not _is_empty(site.value(2))
    constant = site.value(2).constant if has_scales else None
    scales = None if not has_scales else site.x(2) if constant is None else literal(constant)
    given = [f"scales={scales}" if scales else f"sizes={site.listing(3)}"]
    if op.coordinate_transformation_mode == "tf_crop_and_resize" and site.has(1):
        given.append(f"roi={site.x(1)}")
    return site.call("resize", "xp", site.x(0), str(tuple(axes)), *given, **resize_options(op))


def _is_empty(value: Value) -> bool:
    return value.tensor.shape == (0,)


@prints("GridSample")
def _grid_sample(site: Site) -> str:
    op = site.op
    if is_narrow(site.value(0)) or not site.value(0).dtype.is_float:
        raise UnprintableError("a grid over other than floats")
    return site.call(
        "grid_sample", site.x(0), site.x(1), quoted(op.mode), quoted(op.padding_mode), str(bool(op.align_corners))
    )


prints("RoiAlign")(print_roi_align)


@prints("Det")
def _det(site: Site) -> str:
    return rounded(site, f"xp.linalg.det({wide(site, 0)})")


@prints("DFT")
def _dft(site: Site) -> str:
    length = f"int({site.x(1)}.reshape(()))" if site.has(1) else "None"
    axis = f"int({site.x(2)}.reshape(()))" if site.has(2) else "-2"
    axis = str(site.ints(2)[0]) if site.has(2) and site.dims(2) is not None else axis
    flags = [str(bool(site.op.inverse)), str(bool(site.op.onesided))]
    return site.call("dft", "xp", site.x(0), length, axis, *flags)


@prints("STFT")
def _stft(site: Site) -> str:
    length = f"int({site.x(3)}.reshape(()))" if site.has(3) else "None"
    step = f"int({site.x(1)}.reshape(()))"
    return site.call("stft", "xp", site.x(0), step, site.optional(2), length, str(bool(site.op.onesided)))


@prints("RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike")
def _random(site: Site) -> str:
    op = site.op
    seed = "" if op.seed is None else str(int(abs(op.seed)))
    shape = site.shape(site.node.output) if op.name.endswith("Like") else str(tuple(op.shape))
    draw = f"uniform({op.low}, {op.high}, " if "Uniform" in op.name else f"normal({op.mean}, {op.scale}, "
    return f"xp.asarray(np.random.default_rng({seed}).{draw}{shape}), dtype={site.dtype(site.node.output.dtype)})"


@prints("DropoutMask", domain="intaglio")
def _dropout_mask(site: Site) -> str:
    ratio = f"float({site.x(1)}.reshape(()))" if site.has(1) else "0.5"
    training = f"bool({site.x(2)}.reshape(()))" if site.has(2) else "False"
    seed = "" if site.op.seed is None else str(site.op.seed)
    return f"np.random.RandomState({seed}).uniform(0, 1, {site.x(0)}.shape) >= {ratio} * {training}"


@prints("MelTriangles", domain="intaglio")
def _mel_triangles(site: Site) -> str:
    return site.call("mel_triangles", *(f"{site.x(position)}.item()" for position in range(5)))
