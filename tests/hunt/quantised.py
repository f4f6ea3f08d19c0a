"""Quantised graphs as quantisers write them, and chains in float16, bfloat16 and float64."""

from __future__ import annotations

import numpy as np

from .anchors import ANCHORS, CHANNELS, _window, image, matrix, shape_for, width_of
from .chains import chain
from .dice import BROAD, Dice
from .draft import Draft, Rejected
from .growth import POINTS, VIEWS, Grower, Proposal, outputs_of
from .problem import Problem


def problem(seed: int, times: int = 1) -> Problem:
    """A quantised graph or several, or every third time chains in another float type."""
    dice = Dice(5, seed)
    bindings = dice.of((1, 2, 3))
    draft = Draft(dice, bindings, is_static=bindings == 1)
    if seed % 3 == 2:
        return _narrow_chains(draft, seed, 4 * times)
    outputs: list[str] = []
    for _ in range(times):
        before = len(draft.nodes)
        g = Grower(draft)
        g.focus = 0.6
        while len(draft.nodes) == before:
            _grow(g)
        outputs += outputs_of(g, 0.15, draft.nodes[before:])
    return draft.problem(outputs, times)


def _grow(g: Grower) -> None:
    dice = g.dice
    while not g.pool:
        g.attempt(lambda grower: [grower.input(*shape_for(dice.of(ANCHORS[:9]), grower))])
    g.grow((*((kind, 1.0) for kind in KINDS), (POINTS[0][0], 0.7), (POINTS[1][0], 0.7), (VIEWS[0][0], 0.3)),
           dice.integer(3, 8))  # fmt: skip


def _narrow_chains(draft: Draft, seed: int, count: int) -> Problem:
    dtype = ("float16", "bfloat16", "float64")[seed // 3 % 3]
    for number in range(count):
        chain(Grower(draft, dtype), ANCHORS[(seed // 9 * count + number) % len(ANCHORS)])
    read = {name for node in draft.nodes for name in node.input}
    made = [name for node in draft.nodes for name in node.output]
    return draft.problem([name for name in made if name not in read or draft.dice.chance(0.15)] or made[-1:], count)


def scale_of(g: Grower, name: str, kind: str) -> tuple[float, int]:
    """Scale and zero point that hold most of a value."""
    arrays = g.draft.arrays(name)
    low = min(0.0, *(float(a.min(initial=0)) for a in arrays))
    high = max(0.0, *(float(a.max(initial=0)) for a in arrays))
    reach = max(high - low, 1e-3) * g.dice.of((1.0, 0.7))
    if kind == "uint8":
        scale = reach / 255
        return scale, int(np.clip(round(-low / scale), 0, 255))
    return max(abs(low), abs(high), 1e-3) * g.dice.of((1.0, 0.7)) / 127, g.dice.of((0, 0, 3))


def quantised(g: Grower, name: str, kind: str | None = None) -> tuple[str, list[str]]:
    """A value behind QuantizeLinear, and its scale and zero point."""
    chosen: str = kind or g.dice.of(("uint8", "int8"))
    scale, zero = scale_of(g, name, chosen)
    pair = [g.draft.constant(np.array(scale, np.float32)), g.draft.constant(np.array(zero, chosen))]
    return g.draft.one("QuantizeLinear", name, *pair), pair


def through(g: Grower, name: str) -> str:
    """QuantizeLinear and DequantizeLinear."""
    made, pair = quantised(g, name)
    return g.draft.one("DequantizeLinear", made, *pair)


def weights(g: Grower, *shape: int, axis: int = 0) -> str:
    """Dequantised weights, with one scale or one for each channel."""
    values = g.dice.random.integers(-127, 128, shape).astype(np.int8)
    terms = max(1, int(np.prod(shape)) // shape[axis])
    if g.dice.chance(0.5):
        scales = g.dice.random.uniform(0.5, 1.5, shape[axis]).astype(np.float32) / np.float32(127 * np.sqrt(terms))
        zeros = np.zeros(shape[axis], np.int8)
        return g.draft.one("DequantizeLinear", *map(g.draft.constant, (values, scales, zeros)), axis=axis)
    pair = (np.float32(1 / (127 * np.sqrt(terms))), np.array(g.dice.of((0, 0, 5)), np.int8))
    return g.draft.one("DequantizeLinear", *map(g.draft.constant, (values, *pair)))


def boundary(g: Grower) -> list[str]:
    """A value that is quantised and comes back."""
    return g.keep(through(g, g.pick()))


def qdq_matmul(g: Grower) -> list[str]:
    """A product between quantised values."""
    name = matrix(g)
    depth = g.static(name, -1)
    made = g.draft.one("MatMul", through(g, name), weights(g, depth, width_of(g), axis=1))
    if g.dice.chance(0.5):
        made = g.draft.one("Add", made, g.constant(g.static(made, -1)))
    if g.dice.chance(0.3):
        made = g.draft.one("Relu", made)
    return g.keep(through(g, made) if g.dice.chance(0.8) else made)


def qdq_gemm(g: Grower) -> list[str]:
    """Gemm between quantised values."""
    name = matrix(g)
    if len(g.draft.dims(name)) != 2:
        name = g.draft.one("Flatten", name, axis=len(g.draft.dims(name)) - 1)
    depth, width, flag = g.static(name, -1), width_of(g), g.dice.flag()
    matrix_of_weights = weights(g, width, depth) if flag else weights(g, depth, width, axis=1)
    extra = [g.constant(width)] if g.dice.chance(0.6) else []
    made = g.draft.one("Gemm", through(g, name), matrix_of_weights, *extra, transB=flag)
    return g.keep(through(g, made) if g.dice.chance(0.8) else made)


def qdq_conv(g: Grower) -> list[str]:
    """A convolution between quantised values."""
    spatial = g.dice.of((1, 2, 2))
    name = image(g, spatial)
    channels = g.static(name, 1)
    kernel = [g.dice.of((1, 1, 2, 3, 3)) for _ in range(spatial)]
    group = g.dice.of((1, 1, channels))
    width = channels * g.dice.of((1, 1, 2)) if group > 1 else g.dice.of((*CHANNELS, *BROAD))
    extra = [g.constant(width)] if g.dice.chance(0.6) else []
    filters = weights(g, width, channels // group, *kernel)
    made = g.draft.one("Conv", through(g, name), filters, *extra, group=group, **_window(g, kernel))
    if g.dice.chance(0.4):
        made = g.draft.one("Relu", made)
    return g.keep(through(g, made) if g.dice.chance(0.8) else made)


def qdq_pair(g: Grower) -> list[str]:
    """Quantised values that are added, multiplied or joined."""
    name = g.pick()
    other = g.partner(name)
    roll = g.dice.integer(0, 3)
    if roll == 0 and g.draft.dims(name):
        made = g.draft.one("Concat", through(g, name), through(g, name), axis=-1)
    else:
        made = g.draft.one(("Add", "Add", "Mul", "Add")[roll], through(g, name), through(g, other))
    return g.keep(through(g, made))


def qdq_view(g: Grower) -> list[str]:
    """A pool, a transpose, a reshape between quantised values."""
    name = g.pick(low=1)
    inside = through(g, name)
    rank = len(g.draft.dims(name))
    roll = g.dice.integer(0, 3)
    if roll == 0 and rank == 4:
        made = g.draft.one("MaxPool", inside, kernel_shape=[2, 2], strides=[2, 2])
    elif roll == 1 and rank == 4:
        made = g.draft.one(g.dice.of(("AveragePool", "AveragePool")), inside, kernel_shape=[2, 2])
    elif roll == 2:
        made = g.draft.one("Transpose", inside, perm=[int(i) for i in g.dice.random.permutation(rank)])
    else:
        made = g.draft.one(g.dice.of(("Sigmoid", "LeakyRelu", "Softmax")), inside)
    return g.keep(through(g, made))


def dynamic_matmul(g: Grower) -> list[str]:
    """A product with scales that the run finds, as dynamic quantisation writes it."""
    name = matrix(g)
    depth, width = g.static(name, -1), width_of(g)
    made, scale, zero = g.draft.add("DynamicQuantizeLinear", name, outputs=3)
    kind = g.dice.of(("int8", "uint8"))
    low, high = (-127, 128) if kind == "int8" else (0, 256)
    fixed = g.draft.constant(g.dice.random.integers(low, high, (depth, width)).astype(kind))
    offset = (
        [g.draft.constant(np.array(g.dice.of((0, 3, 128 if kind == "uint8" else 0)), kind))]
        if g.dice.chance(0.7)
        else []
    )
    product = g.draft.one("MatMulInteger", made, fixed, zero, *offset)
    number = g.draft.one("Cast", product, to=1)
    factor = g.draft.one("Mul", scale, g.draft.constant(np.array(0.01, np.float32)))
    made = g.draft.one("Mul", number, factor)
    if g.dice.chance(0.5):
        made = g.draft.one("Add", made, g.constant(width))
    return g.keep(made)


def dynamic_conv(g: Grower) -> list[str]:
    """A convolution with scales that the run finds."""
    name = image(g, 2)
    channels = g.static(name, 1)
    kernel = [g.dice.of((1, 2, 3)) for _ in range(2)]
    width = g.dice.of((*CHANNELS[:8], 16, 17, 32))
    made, scale, zero = g.draft.add("DynamicQuantizeLinear", name, outputs=3)
    fixed = g.draft.constant(g.dice.random.integers(-127, 128, (width, channels, *kernel)).astype(np.int8))
    product = g.draft.one("ConvInteger", made, fixed, zero, **_window(g, kernel))
    number = g.draft.one("Cast", product, to=1)
    return g.keep(g.draft.one("Mul", number, g.draft.one("Mul", scale, g.draft.constant(np.array(0.01, np.float32)))))


def linear_matmul(g: Grower) -> list[str]:
    """QLinearMatMul between QuantizeLinear and DequantizeLinear."""
    name = matrix(g)
    depth, width = g.static(name, -1), width_of(g)
    made, pair = quantised(g, name)
    fixed = g.draft.constant(g.dice.random.integers(-127, 128, (depth, width)).astype(np.int8))
    own = [g.draft.constant(np.array(0.01, np.float32)), g.draft.constant(np.array(0, np.int8))]
    out = [g.draft.constant(np.array(0.05, np.float32)), g.draft.constant(np.array(7, g.draft.dtype(made)))]
    result = g.draft.one("QLinearMatMul", made, *pair, fixed, *own, *out)
    return g.keep(g.draft.one("DequantizeLinear", result, *out))


def linear_conv(g: Grower) -> list[str]:
    """QLinearConv between QuantizeLinear and DequantizeLinear."""
    name = image(g, 2)
    channels = g.static(name, 1)
    kernel = [g.dice.of((1, 3)) for _ in range(2)]
    group = g.dice.of((1, 1, channels))
    width = channels if group > 1 else g.dice.of(CHANNELS)
    made, pair = quantised(g, name, "uint8")
    fixed = g.draft.constant(g.dice.random.integers(-127, 128, (width, channels // group, *kernel)).astype(np.int8))
    own = [g.draft.constant(np.array(0.01, np.float32)), g.draft.constant(np.array(0, np.int8))]
    out = [g.draft.constant(np.array(0.08, np.float32)), g.draft.constant(np.array(128, np.uint8))]
    extra = [g.draft.constant(g.dice.random.integers(-500, 500, width).astype(np.int32))] if g.dice.flag() else []
    moves = _window(g, kernel)
    if moves.get("auto_pad"):
        raise Rejected("pads are given here")
    result = g.draft.one("QLinearConv", made, *pair, fixed, *own, *out, *extra, group=group, **moves)
    return g.keep(g.draft.one("DequantizeLinear", result, *out))


def linear_add(g: Grower) -> list[str]:
    """com.microsoft's QLinearAdd and QLinearMul."""
    name = g.pick()
    kind = g.dice.of(("uint8", "int8"))
    left, right = quantised(g, name, kind), quantised(g, g.partner(name), kind)
    out = [g.draft.constant(np.array(0.03, np.float32)), g.draft.constant(np.array(9, kind))]
    operator = g.dice.of(("QLinearAdd", "QLinearAdd", "QLinearMul"))
    made = g.draft.one(operator, left[0], *left[1], right[0], *right[1], *out, domain="com.microsoft")
    return g.keep(g.draft.one("DequantizeLinear", made, *out))


def broad_depthwise(g: Grower) -> list[str]:
    """A depthwise convolution of bytes whose channels fill a vector, between quantised values."""
    name = image(g, 2, BROAD)
    channels = g.static(name, 1)
    kernel = [g.dice.of((1, 2, 3, 3, 5)) for _ in range(2)]
    extra = [g.constant(channels)] if g.dice.chance(0.6) else []
    filters = weights(g, channels, 1, *kernel)
    made = g.draft.one("Conv", through(g, name), filters, *extra, group=channels, **_window(g, kernel))
    if g.dice.chance(0.4):
        made = g.draft.one("Relu", made)
    return g.keep(through(g, made) if g.dice.chance(0.8) else made)


def nibble_matmul(g: Grower) -> list[str]:
    """A product with weights of four bits, in blocks with a scale each."""
    depth, width, block = g.dice.of((32, 64, 80)), width_of(g), g.dice.of((16, 32))
    name = g.input(g.dim((1, 2, 3, 5, 9, 13)), g.draft.all(depth))
    blocks = -(-depth // block)
    random = g.dice.random
    packed = random.integers(0, 256, (width, blocks, block // 2)).astype(np.uint8)
    scales = random.uniform(0.002, 0.05, width * blocks).astype(np.float32)
    zeros = [random.integers(0, 256, width * -(-blocks // 2)).astype(np.uint8)] if g.dice.flag() else []
    made = g.draft.one("MatMulNBits", name, *map(g.draft.constant, (packed, scales, *zeros)), domain="com.microsoft",
                       K=depth, N=width, bits=4, block_size=block, accuracy_level=g.dice.of((0, 4)))  # fmt: skip
    return g.keep(made)


KINDS: tuple[Proposal, ...] = (
    boundary, qdq_matmul, qdq_gemm, qdq_conv, qdq_conv, qdq_pair, qdq_view, dynamic_matmul, dynamic_conv, linear_matmul,
    linear_conv, linear_add, broad_depthwise, nibble_matmul,
)  # fmt: skip
