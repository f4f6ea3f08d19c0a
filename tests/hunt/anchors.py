"""Proposals of structured operators: what fused chains are built around."""

from __future__ import annotations

from typing import Any

import numpy as np

from .dice import BROAD, EDGES, SMALL
from .draft import Dim, Rejected, zero_dimensional
from .growth import Grower, Proposal

CHANNELS = (1, 2, 3, 4, 6, 8, 9, 12, 16, 17, 24, 32, 33, 40, 48)
IMAGE_CHANNELS = {"conv_winograd": (16, 17, 24, 32, 64), "conv_apart": (32, 33, 48), "conv_grouped": (16, 24, 32, 48)}


def width_of(g: Grower) -> int:
    """Columns of a product: any number, or at least one whole vector of them."""
    return g.dice.size(BROAD) if g.dice.chance(0.4) else g.dice.size()


def matrix(g: Grower, low: int = 2) -> str:
    """A value whose last axis is the same for all feeds, or a new one."""
    if g.dice.chance(0.75):
        name = g.pick(low=low)
        g.static(name, -1)
        return name
    lead = [g.dim(SMALL) for _ in range(g.dice.integer(0, 1))]
    return g.input(*lead, g.dim(), g.fixed())


def matmul(g: Grower) -> list[str]:
    """A product with weights, to any width or to the width that came in."""
    name = matrix(g, 1)
    depth = g.static(name, -1)
    width = depth if g.dice.chance(0.4) else width_of(g)
    return g.keep(g.draft.one("MatMul", name, g.weight(depth, width)))


def matmul_turned(g: Grower) -> list[str]:
    """A product whose left operand lies in memory by columns."""
    name = g.pick(low=2)
    rank = len(g.draft.dims(name))
    depth = g.static(name, -2)
    turned = g.draft.one("Transpose", name, perm=[*range(rank - 2), rank - 1, rank - 2])
    return g.keep(g.draft.one("MatMul", turned, g.weight(depth, width_of(g))))


def matmul_left(g: Grower) -> list[str]:
    """Weights on the left."""
    name = g.pick(low=2)
    depth = g.static(name, -2)
    return g.keep(g.draft.one("MatMul", g.weight(g.dice.of((depth, g.dice.size())), depth), name))


def product(g: Grower) -> list[str]:
    """A product of two values, the second turned where it must be."""
    name = g.pick(low=2)
    dims = g.draft.dims(name)
    order = [*range(len(dims) - 2), len(dims) - 1, len(dims) - 2]
    alike = [n for n in g.pool if g._fits(n, len(dims), 0) and g.draft.dims(n) == dims]
    turned = g.draft.one("Transpose", g.dice.of(alike), perm=order)
    scaled = g.draft.one(
        "Mul", name, g.draft.constant(zero_dimensional(g.type, 1 / float(np.sqrt(max(1, dims[-1][0])))))
    )
    return g.keep(g.draft.one("MatMul", *((scaled, turned) if g.dice.chance(0.7) else (turned, scaled))))


def gemm(g: Grower) -> list[str]:
    """Gemm with any bias."""
    name = matrix(g)
    if len(g.draft.dims(name)) != 2:
        name = g.draft.one("Flatten", name, axis=len(g.draft.dims(name)) - 1)
    depth = g.static(name, -1)
    width = depth if g.dice.chance(0.4) else width_of(g)
    flag = g.dice.flag()
    weights = g.weight(width, depth) if flag else g.weight(depth, width)
    bias = g.dice.of(((width,), (1, width), (1, 1), (), None))
    extra = [] if bias is None else [g.weight(*bias)]
    scales = {"alpha": g.dice.of((1.0, 1.0, 0.5)), "beta": g.dice.of((1.0, 1.0, 2.0, 0.0))}
    return g.keep(g.draft.one("Gemm", name, weights, *extra, transB=flag, **scales))


def einsum(g: Grower) -> list[str]:
    """A product by letters."""
    name = g.pick(low=2)
    rank = len(g.draft.dims(name))
    left = "abcdefgh"[:rank]
    way = g.dice.integer(0, 4)
    if way == 0:
        return g.keep(g.draft.one("Einsum", name, g.weight(g.static(name, -1), g.dice.size(SMALL)),
                                  equation=f"{left},{left[-1]}z->{left[:-1]}z"))  # fmt: skip
    if way == 1:
        return g.keep(g.draft.one("Einsum", name, g.weight(g.dice.size(SMALL), g.static(name, -2)),
                                  equation=f"{left},z{left[-2]}->{left[:-2]}{left[-1]}z"))  # fmt: skip
    if way == 2:
        other = left[:-2] + "z" + left[-1]
        return g.keep(g.draft.one("Einsum", name, name, equation=f"{left},{other}->{left[:-1]}z"))
    if way == 3:
        return g.keep(g.draft.one("Einsum", name, equation=f"{left}->{left[1:]}"))
    return g.keep(g.draft.one("Einsum", name, name, equation=f"{left},{left}->{left[::-1]}"))


def image(g: Grower, spatial: int = 2, channels: tuple[int, ...] = CHANNELS) -> str:
    """A value with channels, or a new one."""
    if g.dice.chance(0.7):
        name = g.pick(rank=2 + spatial)
        g.static(name, 1)
        return name
    sides = [g.dim((1, 3, 5, 6, 7, 8, 9, 12, 13, 16, 17)) for _ in range(spatial)]
    return g.input(g.dim((1, 1, 2, 3)), g.fixed(channels), *sides)


def _bias(g: Grower, channels: int) -> list[str]:
    return [g.weight(channels)] if g.dice.chance(0.7) else []


def _window(g: Grower, kernel: list[int], pads: int = 2) -> dict[str, Any]:
    found: dict[str, Any] = {"kernel_shape": kernel}
    if g.dice.chance(0.3):
        found["strides"] = [g.dice.of((1, 2, 3)) for _ in kernel]
    if g.dice.chance(0.2):
        found["dilations"] = [g.dice.of((1, 2, 3)) for _ in kernel]
    roll = g.dice.random.random()
    if roll < 0.5:
        found["pads"] = [(k - 1) * found.get("dilations", [1] * len(kernel))[i] // 2 for i, k in enumerate(kernel)] * 2
    elif roll < 0.75:
        found["pads"] = [g.dice.integer(0, min(pads, k - 1) if pads < 2 else pads) for k in kernel * 2]
    elif roll < 0.85 and "dilations" not in found:
        found["auto_pad"] = g.dice.of(("SAME_UPPER", "SAME_LOWER", "VALID"))
    return found


def conv(g: Grower) -> list[str]:
    """Any convolution."""
    spatial = g.dice.of((1, 2, 2, 2, 3))
    name = image(g, spatial)
    channels = g.static(name, 1)
    kernel = [g.dice.of((1, 2, 3, 3, 5)) for _ in range(spatial)]
    group = g.dice.of([n for n in range(1, channels + 1) if channels % n == 0]) if g.dice.chance(0.3) else 1
    width = channels if g.dice.chance(0.4) else group * g.dice.of((1, 2, 3, 8) if group > 1 else (2, 3, 8, *BROAD))
    weights = g.weight(width, channels // group, *kernel)
    return g.keep(g.draft.one("Conv", name, weights, *_bias(g, width), group=group, **_window(g, kernel)))


def conv_winograd(g: Grower) -> list[str]:
    """A 3x3 convolution with many channels."""
    name = image(g, 2, (16, 17, 24, 32, 48, 64))
    channels = g.static(name, 1)
    width = channels if g.dice.chance(0.6) else g.dice.of(CHANNELS)
    pads = {"pads": [1, 1, 1, 1]} if g.dice.chance(0.8) else {}
    return g.keep(g.draft.one("Conv", name, g.weight(width, channels, 3, 3), *_bias(g, width), **pads))


def conv_one(g: Grower) -> list[str]:
    """A 1x1 convolution, sometimes with strides or pads."""
    spatial = g.dice.of((1, 2, 2))
    name = image(g, spatial)
    channels = g.static(name, 1)
    width = channels if g.dice.chance(0.6) else g.dice.of(CHANNELS)
    extra: dict[str, Any] = {}
    if g.dice.chance(0.25):
        extra["strides"] = [g.dice.of((1, 2, 3)) for _ in range(spatial)]
    if g.dice.chance(0.2):
        extra["pads"] = [g.dice.integer(0, 1) for _ in range(2 * spatial)]
    return g.keep(g.draft.one("Conv", name, g.weight(width, channels, *[1] * spatial), *_bias(g, width), **extra))


def conv_grouped(g: Grower) -> list[str]:
    """A convolution in small groups, of which several fill a vector, or nearly."""
    spatial = g.dice.of((1, 2, 2))
    name = image(g, spatial, BROAD)
    channels = g.static(name, 1)
    groups = [n for n in range(2, channels) if channels % n == 0 and channels // n <= 8]
    group = g.dice.of(groups or [1])
    kernel = [g.dice.of((1, 2, 3)) for _ in range(spatial)]
    width = group * g.dice.of((channels // group, channels // group, 1, 2, 4))
    return g.keep(g.draft.one("Conv", name, g.weight(width, channels // group, *kernel), *_bias(g, width), group=group,
                              **_window(g, kernel)))  # fmt: skip


def conv_apart(g: Grower) -> list[str]:
    """A convolution of many channels whose taps lie apart."""
    name = image(g, 2, (32, 33, 48))
    channels, step = g.static(name, 1), g.dice.of((2, 3))
    width = g.dice.of(BROAD)
    return g.keep(g.draft.one("Conv", name, g.weight(width, channels, 3, 3), *_bias(g, width), dilations=[step, step],
                              pads=[step] * 4))  # fmt: skip


def conv_depthwise(g: Grower) -> list[str]:
    """A depthwise convolution, sometimes with a channel multiplier."""
    spatial = g.dice.of((1, 2, 2))
    name = image(g, spatial)
    channels = g.static(name, 1)
    kernel = [g.dice.of((1, 3, 3, 5, 7)) for _ in range(spatial)]
    width = channels * g.dice.of((1, 1, 1, 2))
    return g.keep(g.draft.one("Conv", name, g.weight(width, 1, *kernel), *_bias(g, width), group=channels,
                              **_window(g, kernel)))  # fmt: skip


def conv_transpose(g: Grower) -> list[str]:
    """A transposed convolution."""
    spatial = g.dice.of((1, 2, 2))
    name = image(g, spatial)
    channels = g.static(name, 1)
    kernel = [g.dice.of((1, 2, 3, 4)) for _ in range(spatial)]
    group = g.dice.of([n for n in range(1, channels + 1) if channels % n == 0]) if g.dice.chance(0.3) else 1
    width = g.dice.of((1, 2, 3, 8, 16, 17, 32) if group == 1 else (1, 2, 3, 8))
    window = _window(g, kernel, 1)
    window.pop("auto_pad", None)  # judges differ on SAME, see the semantics page
    return g.keep(g.draft.one("ConvTranspose", name, g.weight(channels, width, *kernel), *_bias(g, width * group),
                              group=group, **window))  # fmt: skip


def pool(g: Grower) -> list[str]:
    """A pool."""
    operator = g.dice.of(("MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool"))
    spatial = g.dice.of((1, 2, 2, 2, 3))
    name = image(g, spatial)
    kernel = [g.dice.of((1, 2, 3, 5)) for _ in range(spatial)]
    window = _window(g, kernel, 1)
    if window.get("auto_pad") and any(s > k for s, k in zip(window.get("strides", kernel), kernel, strict=True)):
        del window["auto_pad"]
    if operator == "AveragePool":
        window["count_include_pad"] = g.dice.flag()
    if g.dice.chance(0.2) and "auto_pad" not in window:
        window["ceil_mode"] = 1
    return g.keep(g.draft.one(operator, name, **window))


def global_pool(g: Grower) -> list[str]:
    """A pool over all places, which is often followed by a gate on what came in."""
    name = image(g, g.dice.of((1, 2, 2)))
    pooled = g.draft.one(g.dice.of(("GlobalAveragePool", "GlobalMaxPool")), name)
    if g.dice.chance(0.5):
        channels = g.static(name, 1)
        ones = [1] * (len(g.draft.dims(name)) - 2)
        gate = g.draft.one("Sigmoid", g.draft.one("Conv", pooled, g.weight(channels, channels, *ones)))
        return g.keep(pooled, gate, g.draft.one("Mul", name, gate))
    return g.keep(pooled)


def softmax(g: Grower) -> list[str]:
    """A row operator."""
    name = g.pick(low=1)
    axis = g.dice.axis(len(g.draft.dims(name))) if g.dice.chance(0.4) else -1
    return g.keep(g.draft.one(g.dice.of(("Softmax", "Softmax", "LogSoftmax")), name, axis=axis))


def layer_norm(g: Grower) -> list[str]:
    """A normalisation along the last axis."""
    name = g.pick(low=1)
    size = g.static(name, -1)
    extra = [g.constant(size), *([g.constant(size)] if g.dice.chance(0.6) else [])]
    if g.dice.chance(0.2):
        return g.keep(g.draft.one("LpNormalization", name, axis=-1, p=g.dice.of((1, 2))))
    return g.keep(g.draft.one("LayerNormalization", name, *extra, epsilon=1e-3))


def written_norm(g: Grower) -> list[str]:
    """A normalisation as exporters write it, node by node."""
    name = g.pick(low=1)
    axes = g.draft.integers(g.dice.of((-1, -1, len(g.draft.dims(name)) - 1, 0)))
    centred = g.draft.one("Sub", name, g.draft.one("ReduceMean", name, axes))
    variance = g.draft.one("ReduceMean", g.draft.one("Mul", centred, centred), axes)
    small = g.draft.constant(zero_dimensional(g.type, 1e-2))
    return g.keep(g.draft.one("Div", centred, g.draft.one("Sqrt", g.draft.one("Add", variance, small))))


def channel_norm(g: Grower) -> list[str]:
    """A normalisation by channels."""
    name = image(g, g.dice.of((1, 2)))
    channels = g.static(name, 1)
    roll = g.dice.integer(0, 2)
    if roll == 0:
        extra = [g.constant(channels) for _ in range(3)]
        return g.keep(g.draft.one("BatchNormalization", name, *extra, g.constant(channels, low=0.5, high=2)))
    extra = [g.constant(channels) for _ in range(2)]
    if roll == 1:
        return g.keep(g.draft.one("InstanceNormalization", name, *extra, epsilon=1e-2))
    groups = g.dice.of([n for n in range(1, channels + 1) if channels % n == 0])
    return g.keep(g.draft.one("GroupNormalization", name, *extra, epsilon=1e-2, num_groups=groups))


def reduction(g: Grower) -> list[str]:
    """A reduction, along the first, the last or several axes."""
    name = g.pick(low=1)
    operator = g.dice.of(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceL1",
                          "ReduceLogSumExp", "ReduceSumSquare", "ReduceProd"))  # fmt: skip
    axes = g.dice.axes(len(g.draft.dims(name)))
    extra = [g.draft.integers(*axes)] if axes else []
    return g.keep(g.draft.one(operator, name, *extra, keepdims=g.dice.of((1, 1, 0))))


def arg_extreme(g: Grower) -> list[str]:
    """The place of an extreme."""
    name = g.pick(low=1)
    axis = g.dice.axis(len(g.draft.dims(name)))
    found = g.draft.one(g.dice.of(("ArgMax", "ArgMin")), name, axis=axis, keepdims=1)
    return [found, *g.keep(g.draft.one("GatherElements", name, found, axis=axis))]


def top(g: Grower) -> list[str]:
    """The largest elements."""
    name = g.pick(low=1)
    axis = g.dice.axis(len(g.draft.dims(name)))
    most = min(g.draft.dims(name)[axis])
    count = g.dice.integer(0 if g.dice.chance(0.1) else min(1, most), most)
    values, places = g.draft.add("TopK", name, g.draft.integers(count), outputs=2, axis=axis, largest=g.dice.flag())
    g.keep(values)
    return [values, places]


def running(g: Grower) -> list[str]:
    """A running sum."""
    name = g.pick(low=1)
    axis = g.draft.constant(np.array(g.dice.axis(len(g.draft.dims(name))), np.int64))
    return g.keep(g.draft.one("CumSum", name, axis, exclusive=g.dice.flag(), reverse=g.dice.flag()))


def attention(g: Grower) -> list[str]:
    """Attention, written out or as one node, with a residual more often than not."""
    heads, size = g.dice.of((1, 2, 4)), g.dice.of((4, 8, 16, 5))
    batch, queries = g.dim((1, 2)), g.dim((1, 3, 4, 5, 7, 8, 9, 16, 17, 33))
    if g.dice.chance(0.3):  # several blocks of queries, of keys and of values
        heads, size, batch, queries = g.dice.of((1, 2)), g.dice.of((17, 33, 70)), g.draft.all(1), g.dim((2, 60, 75, 90))
    width = heads * size
    name = next((n for n in reversed(g.pool) if _is_wide(g, n, width)), None) or g.input(
        batch, queries, g.draft.all(width)
    )
    parts = [_heads(g, name, heads, size, width) for _ in range(3)]
    turned = g.draft.one("Transpose", parts[1], perm=[0, 1, 3, 2])
    scores = g.draft.one("MatMul", parts[0], turned)
    scale = g.draft.constant(zero_dimensional(g.type, float(size) ** 0.5))
    scores = g.draft.one("Div", scores, scale)
    if g.dice.chance(0.4):
        scores = g.draft.one("Add", scores, g.partner(scores))
    mixed = g.draft.one("MatMul", g.draft.one("Softmax", scores, axis=-1), parts[2])
    back = g.draft.one("Transpose", mixed, perm=[0, 2, 1, 3])
    flat = g.draft.one("Reshape", back, g.draft.integers(0, 0, width))
    result = g.draft.one("MatMul", flat, g.weight(width, width))
    g.keep(scores, result)
    return [result, *g.keep(g.draft.one("Add", result, name))]


def _is_wide(g: Grower, name: str, width: int) -> bool:
    return g._fits(name, 3, 3) and set(g.draft.dims(name)[-1]) == {width}


def _heads(g: Grower, name: str, heads: int, size: int, width: int) -> str:
    projected = g.draft.one("MatMul", name, g.weight(width, width))
    if g.dice.chance(0.5):
        projected = g.draft.one("Add", projected, g.constant(width))
    cut = g.draft.one("Reshape", projected, g.draft.integers(0, 0, heads, size))
    return g.draft.one("Transpose", cut, perm=[0, 2, 1, 3])


def recurrent(g: Grower) -> list[str]:
    """A recurrent layer."""
    operator = g.dice.of(("LSTM", "GRU", "RNN"))
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator]
    hidden, direction = g.dice.of((1, 3, 4, 8, 9, 16, 17)), g.dice.of(("forward", "reverse", "bidirectional"))
    ways = 2 if direction == "bidirectional" else 1
    if g.dice.chance(0.6):
        name = g.pick(rank=3)
        size = g.static(name, 2)
    else:
        size = g.dice.size(SMALL)
        name = g.input(g.dim((1, 2, 3, 5, 9)), g.dim((1, 2, 3)), g.draft.all(size))
    inputs = [name, g.weight(ways, gates * hidden, size), g.weight(ways, gates * hidden, hidden)]
    inputs.append(g.constant(ways, 2 * gates * hidden) if g.dice.chance(0.7) else "")
    if g.dice.chance(0.3):
        dims = g.draft.dims(name)
        if 0 in dims[0]:
            raise Rejected("nothing to read")
        lengths = [g.dice.random.integers(1, s + 1, b).astype(np.int32) for s, b in zip(dims[0], dims[1], strict=True)]
        inputs.append(g.draft.feed(lengths))
    while inputs[-1] == "":
        inputs.pop()
    extra: dict[str, Any] = {"linear_before_reset": g.dice.flag()} if operator == "GRU" else {}
    if g.dice.chance(0.3):
        names = ("Tanh", "Sigmoid", "Relu", "LeakyRelu", "HardSigmoid", "Elu", "Softsign", "Softplus", "ScaledTanh")
        chosen = [g.dice.of(names) for _ in range({"LSTM": 3, "GRU": 2, "RNN": 1}[operator] * ways)]
        extra |= {"activations": chosen, "activation_alpha": [0.5] * len(chosen)}
        extra |= {"activation_beta": [0.25] * len(chosen)}
    made = g.draft.add(operator, *inputs, outputs=3 if operator == "LSTM" else 2, hidden_size=hidden,
                       direction=direction, **extra)  # fmt: skip
    squeezed = g.draft.one("Reshape", made[0], g.draft.integers(0, -1, 0, hidden))
    return g.keep(squeezed, g.draft.one("Squeeze", made[1], g.draft.integers(0)) if ways == 1 else made[1])


def gather(g: Grower) -> list[str]:
    """A gather by constants or by fed places."""
    name = g.pick(low=1)
    axis = g.dice.axis(len(g.draft.dims(name)))
    least = min(g.draft.dims(name)[axis])
    if least == 0:
        raise Rejected("nothing to gather")
    shape = g.dice.of(((), (1,), (3,), (2, 3), (17,)))
    places = np.asarray(g.dice.random.integers(-least, least, shape)).astype(g.dice.of((np.int64, np.int32)))
    index = g.draft.constant(places) if g.dice.chance(0.5) else g.draft.feed([places] * g.draft.bindings)
    return g.keep(g.draft.one("Gather", name, index, axis=axis))


def embedding(g: Grower) -> list[str]:
    """Rows of a table, scaled, as language models begin."""
    rows, size = g.dice.size(EDGES), g.dice.size()
    dims = [g.dim((1, 2, 3)), g.dim((1, 3, 5, 8, 16, 17))]
    places = [g.dice.random.integers(0, rows, [d[i] for d in dims]) for i in range(g.draft.bindings)]
    found = g.draft.one("Gather", g.constant(rows, size), g.draft.feed(places))
    return g.keep(g.draft.one("Mul", found, g.draft.constant(zero_dimensional(g.type, 2.5))))


def scatter(g: Grower) -> list[str]:
    """Rows that are written over or added to."""
    name = g.pick(low=1)
    dims = g.draft.dims(name)
    least = min(dims[0])
    count = g.dice.integer(0, min(least, 4))
    places = g.dice.random.permutation(max(least, 1))[:count].reshape(-1, 1).astype(np.int64)
    reduction = g.dice.of(("none", "none", "add", "mul", "max", "min"))
    updates = g.input(g.draft.all(count), *dims[1:])
    return g.keep(g.draft.one("ScatterND", name, g.draft.constant(places), updates, reduction=reduction))


def scatter_elements(g: Grower) -> list[str]:
    """Elements that are written over or added to."""
    name = g.pick(low=1)
    dims = g.draft.dims(name)
    axis = g.dice.axis(len(dims))
    sizes = [min(dim) for dim in dims]
    along = [-1 if i == axis % len(dims) else 1 for i in range(len(dims))]
    order = np.broadcast_to(np.arange(sizes[axis]).reshape(along), sizes)
    places = g.dice.random.permuted(order, axis=axis)
    updates = g.input(*map(g.draft.all, places.shape))
    reduction = g.dice.of(("none", "add", "mul", "max", "min"))
    return g.keep(g.draft.one("ScatterElements", name, g.draft.constant(places.astype(np.int64)), updates, axis=axis,
                              reduction=reduction))  # fmt: skip


def resize(g: Grower) -> list[str]:
    """A resampled image."""
    name = image(g, g.dice.of((1, 2, 2)))
    rank = len(g.draft.dims(name))
    mode = g.dice.of(("nearest", "linear", "linear", "cubic"))
    if mode == "cubic" and rank != 4:
        raise Rejected("cubic is for images")
    scales = np.array([1, 1, *(g.dice.of((2.0, 3.0, 0.5, 1.5)) for _ in range(rank - 2))], np.float32)
    modes = g.dice.of(("half_pixel", "asymmetric", "pytorch_half_pixel"))
    return g.keep(g.draft.one("Resize", name, "", g.draft.constant(scales), mode=mode,
                              coordinate_transformation_mode=modes))  # fmt: skip


def blocks(g: Grower) -> list[str]:
    """Depth to space or space to depth."""
    name = image(g, 2)
    if g.dice.chance(0.5):
        return g.keep(g.draft.one("SpaceToDepth", name, blocksize=2))
    return g.keep(g.draft.one("DepthToSpace", name, blocksize=2, mode=g.dice.of(("DCR", "CRD"))))


def triangle(g: Grower) -> list[str]:
    """Half of a matrix."""
    return g.keep(g.draft.one("Trilu", g.pick(low=2), upper=g.dice.flag()))


def compressed(g: Grower) -> list[str]:
    """Rows whose number only the data tells."""
    name = g.pick(low=1)
    dims = g.draft.dims(name)
    chosen = [g.dice.random.random(size) < 0.6 for size in dims[0]]
    return g.keep(g.draft.one("Compress", name, g.draft.feed(chosen), axis=0))


def grid_sample(g: Grower) -> list[str]:
    """Sampling at places."""
    name = image(g, 2, (1, 2, 3, 8, 9))
    dims = g.draft.dims(name)
    grid = g.input(dims[0], g.dim((1, 3, 5)), g.dim((1, 4, 8)), g.draft.all(2), low=-1.2, high=1.2)
    g.pool.remove(grid)
    modes = {"mode": g.dice.of(("linear", "nearest", "cubic")), "align_corners": g.dice.flag()}
    padding = g.dice.of(("zeros", "border", "reflection"))
    return g.keep(g.draft.one("GridSample", name, grid, padding_mode=padding, **modes))


def local_norm(g: Grower) -> list[str]:
    """Normalisation across neighbouring channels."""
    return g.keep(g.draft.one("LRN", image(g, 2), size=g.dice.of((1, 3, 5))))


ANCHORS: tuple[Proposal, ...] = (
    matmul, gemm, einsum, conv, conv_winograd, conv_one, conv_depthwise, conv_transpose, pool, global_pool, softmax,
    layer_norm, written_norm, channel_norm, reduction, attention, recurrent, gather, embedding, scatter,
    scatter_elements, resize, blocks, product, matmul_left, arg_extreme, top, running, triangle, compressed,
    grid_sample, local_norm, matmul_turned, conv_grouped, conv_apart,
)  # fmt: skip


def shape_for(anchor: Proposal, g: Grower) -> tuple[Dim, ...]:
    """The shape of an input that an anchor takes."""
    name = anchor.__name__
    images = ("conv", "conv_winograd", "conv_one", "conv_depthwise", "conv_transpose", "pool", "global_pool",
              "channel_norm", "resize", "blocks", "grid_sample", "local_norm", "conv_grouped",
              "conv_apart")  # fmt: skip
    if name in images:
        channels = IMAGE_CHANNELS.get(name, CHANNELS)
        flat = ("conv_winograd", "conv_apart", "blocks", "grid_sample", "local_norm")
        spatial = 2 if name in flat else g.dice.of((1, 2, 2, 2, 3))
        sides = [g.dim((1, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17)) for _ in range(spatial)]
        return (g.dim((1, 1, 2, 3)), g.fixed(channels), *sides)
    if name == "recurrent":
        return (g.dim((1, 2, 3, 5, 9)), g.dim((1, 2, 3)), g.fixed(SMALL))
    lead = [g.dim(SMALL) for _ in range(g.dice.integer(0, 2))]
    if name == "matmul_turned":
        return (*lead, g.fixed(), g.dim())
    return (*lead, g.dim(), g.fixed(BROAD) if g.dice.chance(0.3) else g.fixed())
