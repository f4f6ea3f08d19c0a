"""Makers of cases for operators that the agreement tests leave to others; see `tests.ops.agreement_cases`.

A name may have a tail behind `@`, where an operator has more than one maker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.ops.agreement_cases import ANY, FLOATS, INTEGERS, Case, int64, number_of

from .dice import EDGES, SMALL, Dice

OWN: dict[str, Callable[[Dice, str], Case]] = {}
DOMAINS: dict[str, str] = {}
"""The domain of each operator that is not ONNX's own."""
NEWER: dict[str, int] = {}
"""The operator set that an operator needs."""

CHANNELS = (1, 2, 3, 4, 5, 8, 9, 12, 16, 17, 24, 32, 33, 40, 48, 64)
SIDES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17, 20)


def own(*operators: str, since: int = 1, domain: str = "") -> Callable[[Any], Any]:
    """Register how cases of operators are made."""

    def register(maker: Any) -> Any:
        for operator in operators:
            OWN[operator] = maker
        NEWER.update(dict.fromkeys(operators, since))
        DOMAINS.update(dict.fromkeys(operators, domain))
        return maker

    return register


def floats(c: Dice) -> str:
    return c.of(("float32", "float32", "float32", "float64", "float16", "bfloat16"))


def divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def window(c: Dice, kernel: list[int], most: int) -> dict[str, Any]:
    found: dict[str, Any] = {"kernel_shape": kernel}
    if c.chance(0.4):
        found["strides"] = [c.of((1, 2, 3, 5)) for _ in kernel]
    if c.chance(0.25):
        found["dilations"] = [c.of((1, 2, 3)) for _ in kernel]
    if c.chance(0.6):
        found["pads"] = [c.integer(0, min(most, k - 1) if most < 3 else most) for k in kernel * 2]
    elif c.chance(0.3) and "dilations" not in found:
        found["auto_pad"] = c.of(("SAME_UPPER", "SAME_LOWER", "VALID"))
    return found


@own("Conv@wide", "Conv@one", "Conv@depthwise", "Conv@winograd", "Conv@first")
def _conv(c: Dice, operator: str) -> Case:
    kind, dtype = operator.partition("@")[2], c.of(("float32", "float32", "float32", "float64", "float16"))
    spatial = 2 if kind in ("winograd", "first") else c.of((1, 2, 2, 3))
    channels, sides = c.of(CHANNELS), [c.of(SIDES) for _ in range(spatial)]
    kernel = {"one": [1] * spatial, "winograd": [3, 3], "first": [c.of((3, 7))] * 2}.get(
        kind, [c.of((1, 2, 3, 5)) for _ in sides]
    )
    group = channels if kind == "depthwise" else c.of(divisors(channels)) if kind == "wide" and c.chance(0.4) else 1
    if kind == "first":
        channels = c.of((1, 3, 4))
    width = group * c.of((1, 1, 2)) if group > 1 else c.of(CHANNELS)
    moves = {"pads": [1, 1, 1, 1]} if kind == "winograd" and c.chance(0.8) else window(c, kernel, 3)
    data = c.array(dtype, (c.of((1, 1, 2, 3)), channels, *sides), special=kind != "winograd" and c.chance(0.1))
    weights = c.array(dtype, (width, channels // group, *kernel), special=False, low=-1, high=1)
    bias = c.array(dtype, (width,), special=False) if c.flag() else None
    return Case(operator, [data, weights, bias], {"group": group, **moves})


@own("ConvTranspose@wide")
def _conv_transpose(c: Dice, operator: str) -> Case:
    dtype, spatial = c.of(("float32", "float32", "float64", "float16")), c.of((1, 2, 2, 3))
    channels, kernel = c.of(CHANNELS[:10]), [c.of((1, 2, 3, 4)) for _ in range(spatial)]
    group = c.of(divisors(channels)) if c.chance(0.4) else 1
    width, moves = c.of((1, 2, 3, 8, 9)), window(c, kernel, 1)
    moves.pop("auto_pad", None)
    if "strides" in moves and c.chance(0.4):
        moves["output_padding"] = [c.integer(0, s - 1) for s in moves["strides"]]
    data = c.array(dtype, (c.of((1, 2)), channels, *(c.of(SIDES[:9]) for _ in kernel)), special=False)
    weights = c.array(dtype, (channels, width, *kernel), special=False)
    bias = c.array(dtype, (width * group,), special=False) if c.flag() else None
    return Case(operator, [data, weights, bias], {"group": group, **moves})


@own("MaxPool@wide", "AveragePool@wide", "LpPool@wide")
def _pool(c: Dice, operator: str) -> Case:
    name = operator.partition("@")[0]
    spatial = c.of((1, 2, 2, 3))
    kernel = [c.of((1, 2, 3, 5)) for _ in range(spatial)]
    moves = window(c, kernel, 2)
    strides = moves.get("strides", [1] * spatial)
    if moves.get("auto_pad") and any(s > k for s, k in zip(strides, kernel, strict=True)):
        moves["auto_pad"] = "VALID"
    if c.chance(0.3) and "auto_pad" not in moves:
        moves["ceil_mode"] = 1
    if name == "AveragePool":
        moves["count_include_pad"] = c.flag()
    if name == "LpPool":
        moves["p"] = c.of((1, 2, 3))
    dtypes = (*FLOATS[:3], "int8", "uint8") if name == "MaxPool" else FLOATS[:3]
    reaches = [(k - 1) * d + 1 for k, d in zip(kernel, moves.get("dilations", [1] * spatial), strict=True)]
    sides = [c.of(SIDES) for _ in kernel]  # ONNX Runtime lets a window stick out that is longer than the axis
    sides = [max(side, reach) if side else 0 for side, reach in zip(sides, reaches, strict=True)]
    shape = (c.of((1, 2)), c.of(CHANNELS), *sides)
    outputs = 2 if name == "MaxPool" and c.chance(0.3) else 1
    return Case(operator, [c.array(c.of(dtypes), shape, special=False)], moves, outputs)


@own("MatMul@wide")
def _matmul(c: Dice, operator: str) -> Case:
    dtype = c.of(("float32", "float32", "float64", "float16", "bfloat16"))
    m, k, n = (c.size(c.of((SMALL, EDGES, (1, 6, 12, 96, 130, 200)))) for _ in range(3))
    lead = c.of(((), (), (2,), (3, 1)))
    left, right = (*lead, m, k), (*c.of(((), lead)), k, n)
    return Case(operator, [c.array(dtype, left, special=False), c.array(dtype, right, special=False)])


@own("RNN", "GRU", "LSTM")
def _recurrent(c: Dice, operator: str) -> Case:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[operator]
    dtype = c.of(("float32", "float32", "float32", "float64", "float16"))
    direction, layout = c.of(("forward", "reverse", "bidirectional")), c.of((0, 0, 0, 1))
    ways = 2 if direction == "bidirectional" else 1
    steps, batch, size, hidden = c.of((1, 2, 3, 7)), c.of((1, 2, 3, 5)), c.size(SMALL), c.of((1, 2, 4, 5, 8, 9, 16, 17))

    def array(*shape: int, scale: float = 0.7) -> Any:
        return c.array(dtype, shape, False, -scale, scale)

    lead = (batch, steps) if layout else (steps, batch)
    state = (batch, ways, hidden) if layout else (ways, batch, hidden)
    inputs: list[Any] = [array(*lead, size), array(ways, gates * hidden, size), array(ways, gates * hidden, hidden)]
    inputs.append(array(ways, 2 * gates * hidden) if c.flag() else None)
    inputs.append(c.random.integers(1, steps + 1, batch).astype(np.int32) if c.chance(0.4) else None)
    inputs.append(array(*state) if c.flag() else None)
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction, "layout": layout}
    if operator == "LSTM":
        inputs.append(array(*state) if c.flag() else None)
        inputs.append(array(ways, 3 * hidden) if c.chance(0.4) else None)
        if c.chance(0.2):
            attributes["input_forget"] = 1
    if operator == "GRU":
        attributes["linear_before_reset"] = c.flag()
    if c.chance(0.2):
        attributes["clip"] = 0.5
    if c.chance(0.5):
        names = ("Tanh", "Sigmoid", "Relu", "Affine", "LeakyRelu", "HardSigmoid", "Elu", "Softsign", "Softplus",
                 "ScaledTanh", "ThresholdedRelu")  # fmt: skip
        chosen = [c.of(names) for _ in range({"RNN": 1, "GRU": 2, "LSTM": 3}[operator] * ways)]
        attributes["activations"] = chosen
        attributes["activation_alpha"] = [0.4] * len(chosen)  # not the clip: ONNX Runtime takes > for >= there
        attributes["activation_beta"] = [0.25] * len(chosen)
    return Case(operator, inputs, attributes, 3 if operator == "LSTM" else 2)


@own("Attention", "Attention@long", since=23)
def _attention(c: Dice, operator: str) -> Case:
    dtype = c.of(("float32", "float32", "float64", "float16"))
    kv_heads = c.of((1, 2, 3))
    heads = kv_heads * c.of((1, 1, 2, 4))
    batch, queries, keys = c.of((1, 2)), c.of((1, 2, 5, 8, 9, 17, 33)), c.of((1, 3, 4, 8, 16, 17, 40))
    size, width = c.of((1, 4, 8, 9, 16, 32)), c.of((1, 4, 8, 12, 16))
    if operator.endswith("long"):  # several blocks of queries and of keys, or one or two queries
        queries = queries if queries < 3 else c.size((15, 33, 60, 75, 100))
        batch, heads, keys = 1, kv_heads * (1 + c.flag()), c.size((31, 33, 64, 100))
        size, width = c.of((8, 17, 33, 64)), c.of((17, 33, 64, 70))
    is_flat = c.flag()
    shapes = [(heads, queries, size), (kv_heads, keys, size), (kv_heads, keys, width)]
    attributes: dict[str, Any] = {"is_causal": c.of((0, 0, 1))}
    if is_flat:
        arrays: list[Any] = [c.array(dtype, (batch, n, h * s), False) for h, n, s in shapes]
        attributes |= {"q_num_heads": heads, "kv_num_heads": kv_heads}
    else:
        arrays = [c.array(dtype, (batch, h, n, s), False) for h, n, s in shapes]
    past = 3 if c.chance(0.3) else 0
    if c.chance(0.5):
        total = keys + past
        lead = c.of(((), (1, 1), (batch, 1), (1, heads), (batch, heads)))
        is_bool = c.chance(0.4)
        mask = (
            c.random.random((*lead, queries, total)) < 0.8
            if is_bool
            else c.array(dtype, (*lead, queries, total), False)
        )
        if is_bool:
            mask[..., 0] = True
        arrays.append(mask)
    if past:
        arrays += [None] * (4 - len(arrays))
        arrays += [c.array(dtype, (batch, kv_heads, past, s), False) for s in (size, width)]
    if c.chance(0.3):
        attributes["scale"] = 0.3
    if c.chance(0.2):
        attributes["softcap"] = 2.0
    return Case(operator, arrays, attributes, 3 if past else 1)


@own("RotaryEmbedding", since=23)
def _rotary(c: Dice, operator: str) -> Case:
    dtype, batch, heads, steps = floats(c), c.of((1, 2)), c.of((1, 2, 3)), c.of((1, 3, 8))
    size = c.of((4, 8, 16, 32))
    turned = c.of((0, 0, size // 2)) if size >= 8 else 0
    angles = (turned or size) // 2
    is_flat = c.flag()
    shape = (batch, steps, heads * size) if is_flat else (batch, heads, steps, size)
    attributes: dict[str, Any] = {"interleaved": c.flag(), "rotary_embedding_dim": turned}
    if is_flat:
        attributes["num_heads"] = heads
    data = c.array(dtype, shape, False)
    if c.flag():
        tables = [c.array(dtype, (9, angles), False, -1, 1) for _ in range(2)]
        return Case(operator, [data, *tables, int64(c.random.integers(0, 9, (batch, steps)))], attributes)
    return Case(operator, [data, *(c.array(dtype, (batch, steps, angles), False, -1, 1) for _ in range(2))], attributes)


@own("Swish", since=24)
def _swish(c: Dice, operator: str) -> Case:
    return Case(operator, [c.array(c.of(FLOATS[:3]), c.shape())], {"alpha": c.of((1.0, 0.5, -1.5))})


@own("CastLike")
def _cast_like(c: Dice, operator: str) -> Case:
    given, wanted = c.of(ANY), c.of(ANY)
    is_safe = not (given in FLOATS and wanted in INTEGERS)
    return Case(operator, [c.array(given, c.shape(), is_safe, 0, 100), c.array(wanted, (1,))])


@own("Cast@narrow", since=23)
def _cast_narrow(c: Dice, operator: str) -> Case:
    import ml_dtypes
    from onnx import TensorProto

    targets = (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2FNUZ,
               TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT4E2M1)  # fmt: skip
    sources = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz,
               ml_dtypes.float4_e2m1fn, ml_dtypes.int4, ml_dtypes.uint4)  # fmt: skip
    if c.flag():
        source = c.of(sources)
        data = np.trunc(c.array("float32", c.shape(), False, 0 if source == ml_dtypes.uint4 else -8, 7)).astype(source)
        return Case(operator, [data], {"to": number_of(c.of(("float32", "float16", "float64", "bfloat16", "bool")))})
    to = c.of(targets)
    low = 0 if to == TensorProto.UINT4 else -8 if to == TensorProto.INT4 else -600
    high = 15 if to == TensorProto.UINT4 else 7 if to == TensorProto.INT4 else 600
    is_integer = to in (TensorProto.INT4, TensorProto.UINT4)
    saturate = {} if is_integer or to == TensorProto.FLOAT4E2M1 else {"saturate": c.flag()}
    dtype = c.of(("float32", "float16", "float64", "int32"))
    data = c.array(dtype, c.shape(), False, low, high)
    return Case(operator, [np.trunc(data).astype(data.dtype) if is_integer else data], {"to": to, **saturate})


@own("TensorScatter", since=24)
def _tensor_scatter(c: Dice, operator: str) -> Case:
    batch, steps, size, new = c.of((1, 2, 3)), c.of((4, 5, 9)), c.size(SMALL), c.of((1, 2, 4))
    mode = c.of(("linear", "circular"))
    starts = c.random.integers(0, steps - new + 1 if mode == "linear" else steps, batch)
    data, update = (c.array(c.of(FLOATS) if i < 0 else "float32", (batch, n, size)) for i, n in enumerate((steps, new)))
    return Case(operator, [data, update, int64(starts)], {"axis": 1, "mode": mode})


@own("Col2Im")
def _col2im(c: Dice, operator: str) -> Case:
    spatial = c.of((1, 2, 2))
    sides, block = [c.integer(3, 9) for _ in range(spatial)], [c.integer(1, 3) for _ in range(spatial)]
    moves = {"strides": [c.of((1, 2)) for _ in block], "dilations": [1] * spatial, "pads": [c.of((0, 1))] * 2 * spatial}
    places = [(n + 2 * moves["pads"][0] - b) // s + 1 for n, b, s in zip(sides, block, moves["strides"], strict=True)]
    shape = (c.of((1, 2)), c.of((1, 2, 3)) * int(np.prod(block)), int(np.prod(places)))
    return Case(operator, [c.array("float32", shape, False), int64(sides), int64(block)], moves)


@own("CumProd", since=26)
def _cumulative(c: Dice, operator: str) -> Case:
    shape = c.shape(1)
    axis = np.array(c.axis(len(shape)), np.int64)
    data = c.array(c.of(("float32", "float64", "int32")), shape, False, -1, 1)
    return Case(operator, [data, axis], {"exclusive": c.flag(), "reverse": c.flag()})


@own("Det")
def _determinant(c: Dice, operator: str) -> Case:
    size = c.of((1, 2, 3, 4, 5, 9, 17))
    return Case(operator, [c.array(c.of(("float32", "float64")), (*c.shape(0, 2, (1, 2, 3)), size, size), False)])


@own("ConvInteger", "ConvInteger@depthwise", "ConvInteger@one")
def _conv_integer(c: Dice, operator: str) -> Case:
    kind = operator.partition("@")[2]
    x_type, w_type = "uint8", c.of(("uint8", "int8"))
    channels, kernel = (
        c.of(CHANNELS[:10]),
        [1, 1] if kind == "one" else [c.of((1, 2, 3)) for _ in range(c.of((1, 2, 2)))],
    )
    group = channels if kind == "depthwise" else c.of(divisors(channels)) if c.chance(0.3) else 1
    width = group * c.of((1, 2)) if group > 1 else c.of(CHANNELS[:12])
    data = c.array(x_type, (c.of((1, 2)), channels, *(c.of(SIDES[2:]) for _ in kernel)), False, 0, 255)
    low, high = (-128, 127) if w_type == "int8" else (0, 255)
    weights = c.array(w_type, (width, channels // group, *kernel), False, low, high)
    zeros = [
        c.array(x_type, (), False, 0, 255) if c.flag() else None,
        c.array(w_type, (), False, 0, 20) if c.flag() else None,
    ]
    return Case(operator, [data, weights, *zeros], {"group": group, **window(c, kernel, 3)})


@own("QLinearConv", "QLinearConv@depthwise", "QLinearConv@one")
def _qlinear_conv(c: Dice, operator: str) -> Case:
    base = _conv_integer(c, operator)
    data, weights = base.inputs[:2]
    width, y_type = weights.shape[0], data.dtype
    w_zero = c.array(str(weights.dtype), (), False, 0, 0 if weights.dtype == np.int8 else 255)
    per_channel = c.flag() and weights.dtype == np.int8
    scales = c.array("float32", (width,) if per_channel else (), False, 0.002, 0.05)
    if per_channel:
        w_zero = np.zeros(width, np.int8)
    terms = int(np.prod(weights.shape[1:]))
    bias = c.random.integers(-2000, 2000, width).astype(np.int32) if c.flag() else None
    y_scale = np.float32(0.02 * 0.03 * 40 * np.sqrt(terms) * c.of((0.5, 1, 3)))
    inputs = [data, np.float32(0.02), c.array("uint8", (), False, 0, 255), weights, scales, w_zero, y_scale,
              np.array(c.integer(0, 255), y_type), bias]  # fmt: skip
    return Case(operator, [None if a is None else np.asarray(a) for a in inputs], base.attributes)


@own("QLinearMatMul")
def _qlinear_matmul(c: Dice, operator: str) -> Case:
    left, right, out = (c.of(("uint8", "int8")) for _ in range(3))
    m, k, n = (c.size() for _ in range(3))

    def data(dtype: str, *shape: int) -> Any:
        return c.array(dtype, shape, False, *((-128, 127) if dtype == "int8" else (0, 255)))

    lead = c.of(((), (2,)))
    scale = np.asarray(np.float32(0.01 * 0.02 * 5000 * np.sqrt(k) / 100))
    return Case(operator, [data(left, *lead, m, k), np.asarray(np.float32(0.01)), c.array(left, (), False, 0, 9),
                           data(right, *lead, k, n), np.asarray(np.float32(0.02)), c.array(right, (), False, 0, 9),
                           scale, c.array(out, (), False, 0, 9)])  # fmt: skip


@own("MatMulInteger@wide")
def _matmul_integer(c: Dice, operator: str) -> Case:
    types = [c.of(("uint8", "int8")) for _ in range(2)]
    m, k, n = (c.size() for _ in range(3))
    low, high = ([0 if t == "uint8" else -128 for t in types], [255 if t == "uint8" else 127 for t in types])
    data = [c.array(t, s, False, a, b) for t, s, a, b in zip(types, ((m, k), (k, n)), low, high, strict=True)]
    zeros = [c.array(types[0], c.of(((), (m,))), False, 0, 99), c.array(types[1], c.of(((), (n,))), False, 0, 99)]
    return Case(operator, [*data, *(zero if c.flag() else None for zero in zeros)])


@own("QuantizeLinear@blocked", "DequantizeLinear@blocked")
def _blocked(c: Dice, operator: str) -> Case:
    is_back = operator.startswith("De")
    shape = c.shape(1, 3, (2, 4, 6, 8, 12, 32))
    axis = c.axis(len(shape))
    block = c.of(divisors(shape[axis]))
    sizes = list(shape)
    sizes[axis] //= block
    dtype = c.of(("uint8", "int8"))
    scales = c.array("float32", sizes, False, 0.5, 2)
    zero = c.array(dtype, sizes, False, 0, 10)
    data = c.array(dtype, shape) if is_back else c.array("float32", shape, False, -300, 300)
    return Case(operator, [data, scales, zero], {"axis": axis, "block_size": block})


@own("DeformConv", since=19)
def _deform(c: Dice, operator: str) -> Case:
    group = c.of((1, 1, 2))
    offset_group = c.of((1, 1, group))
    channels, width = group * offset_group * c.of((1, 2, 4)), group * c.of((1, 2, 8))
    kernel, batch = [c.integer(1, 3), c.integer(1, 3)], c.of((1, 2))
    sides = [c.integer(3, 7) for _ in kernel]
    pads = [c.of((0, 1))] * 4
    places = [n + 2 * pads[0] - k + 1 for n, k in zip(sides, kernel, strict=True)]
    taps = int(np.prod(kernel))
    inputs = [
        c.array("float32", (batch, channels, *sides), False),
        c.array("float32", (width, channels // group, *kernel), False),
        c.array("float32", (batch, offset_group * 2 * taps, *places), False, -1.5, 1.5),
        c.array("float32", (width,), False) if c.flag() else None,
        c.array("float32", (batch, offset_group * taps, *places), False, 0, 1) if c.flag() else None,
    ]
    return Case(operator, inputs, {"kernel_shape": kernel, "pads": pads, "group": group, "offset_group": offset_group})


@own("MaxRoiPool")
def _roi_pool(c: Dice, operator: str) -> Case:
    batch, channels, h, w = c.of((1, 2)), c.of((1, 2, 9)), c.integer(3, 9), c.integer(3, 9)
    regions = [[c.integer(0, batch - 1), *_box(c, w, h)] for _ in range(c.integer(1, 4))]
    data = c.array("float32", (batch, channels, h, w), False)
    return Case(operator, [data, np.array(regions, np.float32)],
                {"pooled_shape": [c.integer(1, 3), c.integer(1, 3)], "spatial_scale": c.of((1.0, 0.5))})  # fmt: skip


def _box(c: Dice, w: int, h: int) -> list[int]:
    x, y = c.integer(0, w - 1), c.integer(0, h - 1)
    return [x, y, c.integer(x, w - 1), c.integer(y, h - 1)]


@own("RoiAlign")
def _roi_align(c: Dice, operator: str) -> Case:
    batch, channels, h, w, count = c.of((1, 2)), c.of((1, 2, 9)), c.integer(3, 9), c.integer(3, 9), c.integer(1, 4)
    regions = np.array([_box(c, w, h) for _ in range(count)], np.float32)
    attributes = {"output_height": c.integer(1, 3), "output_width": c.integer(1, 3), "sampling_ratio": c.of((0, 2, 3)),
                  "mode": c.of(("avg", "max")), "spatial_scale": c.of((1.0, 0.5)),
                  "coordinate_transformation_mode": c.of(("half_pixel", "output_half_pixel"))}  # fmt: skip
    data = c.array("float32", (batch, channels, h, w), False)
    return Case(operator, [data, regions, int64(c.random.integers(0, batch, count))], attributes)


@own("AffineGrid")
def _affine(c: Dice, operator: str) -> Case:
    spatial, n = c.of((2, 3)), c.of((1, 2))
    corners = c.flag()  # of one element between two corners, no two judges say the same
    sides = [c.integer(1 + corners, 6) for _ in range(spatial)]
    theta = c.array(c.of(("float32", "float64")), (n, spatial, spatial + 1), False)
    return Case(operator, [theta, int64([n, 2, *sides])], {"align_corners": corners})


@own("NonMaxSuppression")
def _suppression(c: Dice, operator: str) -> Case:
    batch, classes, boxes = c.of((1, 2)), c.of((1, 3)), c.of((0, 1, 5, 17, 40))
    corners = c.random.uniform(0, 4, (batch, boxes, 2, 2)).astype(np.float32)
    if c.flag():
        places, center = np.sort(corners, axis=2).reshape(batch, boxes, 4), 0
    else:
        places, center = np.concatenate([corners[:, :, 0], corners[:, :, 1] + 0.5], -1), 1
    scores = c.random.random((batch, classes, boxes)).astype(np.float32)
    inputs: list[Any] = [places, scores, int64([c.of((0, 1, 3, 100))])]
    if c.flag():
        inputs += [np.array([0.3], np.float32), np.array([0.2], np.float32)]
    return Case(operator, inputs, {"center_point_box": center})


@own("HannWindow", "HammingWindow", "BlackmanWindow")
def _signal_window(c: Dice, operator: str) -> Case:
    return Case(operator, [np.array(c.of((1, 2, 5, 8, 33)), np.int64)], {"periodic": c.flag()})


@own("MelWeightMatrix")
def _mel(c: Dice, operator: str) -> Case:
    numbers = [np.array(n, np.int64) for n in (c.of((1, 4, 8, 20)), c.of((16, 64)), c.of((8000, 16000)))]
    return Case(operator, [*numbers, np.array(c.of((0.0, 20.0)), np.float32), np.array(4000.0, np.float32)])


@own("STFT")
def _stft(c: Dice, operator: str) -> Case:
    length, frame = c.of((16, 33, 64)), c.of((4, 5, 8, 16))
    dtype, is_complex = c.of(("float32", "float64")), c.chance(0.3)
    data = c.array(dtype, (c.of((1, 2)), length, 2 if is_complex else 1), False)
    window_array = c.array(dtype, (frame,), False, 0, 1) if c.flag() else None
    return Case(operator, [data, np.array(c.of((1, 3, 4)), np.int64), window_array, np.array(frame, np.int64)],
                {"onesided": 0 if is_complex else c.flag()})  # fmt: skip


@own("DFT@axis")
def _dft(c: Dice, operator: str) -> Case:
    rank = c.integer(3, 4)
    shape = [c.of((1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 31)) if i else c.of((1, 2)) for i in range(rank - 1)]
    shape = shape if np.prod(shape) < 5000 else [2, 5, 16][: rank - 1]
    axis = c.integer(1, rank - 2)
    data = c.array(c.of(("float32", "float64")), (*shape, c.of((1, 2))), False)
    length = np.array(c.of((shape[axis], shape[axis] + 3, max(1, shape[axis] - 1))), np.int64) if c.flag() else None
    is_one_sided = c.flag() if data.shape[-1] == 1 else 0
    return Case(operator, [data, length, np.array(axis, np.int64)], {"onesided": is_one_sided})


@own("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def _loss(c: Dice, operator: str) -> Case:
    n, classes, rest = c.of((1, 2, 5)), c.of((1, 3, 9)), c.shape(0, 2, (1, 3, 4))
    data = c.array(c.of(("float32", "float64")), (n, classes, *rest), False)
    target = c.random.integers(0, classes, (n, *rest)).astype(c.of((np.int64, np.int32)))
    weights = c.array(str(data.dtype), (classes,), False, 0.5, 2) if c.flag() else None
    extra = {"ignore_index": 0} if c.chance(0.3) and classes > 1 and (target != 0).any() else {}
    outputs = c.of((1, 2)) if operator.startswith("Soft") else 1
    return Case(operator, [data, target, weights], {"reduction": c.of(("none", "sum", "mean")), **extra}, outputs)


@own("MaxUnpool")
def _unpool(c: Dice, operator: str) -> Case:
    n, channels, h, w = c.of((1, 2)), c.of((1, 3)), c.of((1, 2, 4)), c.of((1, 3, 5))
    places = np.stack([c.random.permutation(4 * h * w)[: h * w].reshape(h, w) for _ in range(n * channels)])
    offsets = np.arange(n * channels)[:, None, None] * (4 * h * w)
    data = c.array("float32", (n, channels, h, w), False)
    return Case(operator, [data, int64((places + offsets).reshape(n, channels, h, w))],
                {"kernel_shape": [2, 2], "strides": [2, 2]})  # fmt: skip


@own("BitCast", since=26)
def _bit_cast(c: Dice, operator: str) -> Case:
    words = (("float32", "int32", "uint32"), ("float64", "int64", "uint64"), ("int8", "uint8"))
    group = c.of((*words, ("float16", "int16", "uint16", "bfloat16")))
    return Case(operator, [c.array(c.of(group), c.shape())], {"to": number_of(c.of(group))})


@own("Reduce@large", "Softmax@large")
def _large(c: Dice, operator: str) -> Case:
    name = c.of(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2", "ReduceLogSumExp", "ReduceProd", "ReduceMin"))
    shape = c.of(((3, 40_001), (70_000,), (2, 300, 130), (33, 2049), (4, 1, 9000), (257, 129), (9000, 3)))
    data = c.array(c.of(("float32", "float32", "float64", "float16")), shape, False, 0.9, 1.1)
    if operator.startswith("Softmax"):
        return Case(c.of(("Softmax", "LogSoftmax")) + "@", [data], {"axis": c.axis(len(shape))})
    axes = c.axes(len(shape))
    return Case(name + "@", [data, int64(axes) if axes else None], {"keepdims": c.flag()})


@own("Resize@more")
def _resize(c: Dice, operator: str) -> Case:
    mode, spatial = c.of(("nearest", "linear", "cubic")), c.of((1, 2, 2, 3))
    spatial = 2 if mode == "cubic" else spatial
    dtype = c.of(("float32", "float32", "float64", "uint8", "float16"))
    shape = (c.of((1, 2)), c.of((1, 3, 8, 9)), *(c.integer(1, 9) for _ in range(spatial)))
    transforms = ("half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners", "half_pixel_symmetric")
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": c.of(transforms)}
    if mode == "nearest":
        attributes["nearest_mode"] = c.of(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
    elif c.chance(0.3):
        attributes["antialias"] = 1
    if mode == "cubic":
        attributes |= {"cubic_coeff_a": c.of((-0.75, -0.5)), "exclude_outside": c.flag()}
    sides = [c.integer(1, 16) for _ in range(spatial)]
    data = c.array(dtype, shape, False, 0, 200) if dtype == "uint8" else c.array(dtype, shape, False)
    if c.chance(0.4):
        attributes["axes"] = list(range(2, 2 + spatial))
        if c.chance(0.4):
            attributes["keep_aspect_ratio_policy"] = c.of(("not_larger", "not_smaller"))
        return Case(operator, [data, None, None, int64(sides)], attributes)
    return Case(operator, [data, None, None, int64([*shape[:2], *sides])], attributes)


@own("Unique@large", "TopK@large")
def _sorting(c: Dice, operator: str) -> Case:
    shape = c.of(((1000,), (7, 129), (65, 33), (3, 4, 70)))
    data = np.round(c.array(c.of(("float32", "int64", "int32", "float64")), shape, False, -40, 40))
    if operator.startswith("Unique"):
        return Case(operator, [data], {"sorted": 1, **({"axis": 0} if c.flag() else {})}, 4)
    axis = c.axis(len(shape))
    return Case(operator, [data, int64([c.integer(0, shape[axis])])], {"axis": axis, "largest": c.flag()}, 2)


@own("FusedMatMul", domain="com.microsoft")
def _fused_matmul(c: Dice, operator: str) -> Case:
    flags = {"transA": c.flag(), "transB": c.flag(), "alpha": c.of((1.0, 0.25))}
    m, k, n = (c.size(SMALL) for _ in range(3))
    lead = c.of(((), (2,)))
    left = (*lead, k, m) if flags["transA"] else (*lead, m, k)
    right = (*lead, n, k) if flags["transB"] else (*lead, k, n)
    return Case(operator, [c.array("float32", left, False), c.array("float32", right, False)], flags)


@own("BiasGelu", "FastGelu", "QuickGelu", domain="com.microsoft")
def _gelus(c: Dice, operator: str) -> Case:
    shape = c.shape(1, 3)
    data = c.array("float32", shape, False)
    bias = (
        []
        if operator == "QuickGelu" or (operator == "FastGelu" and c.flag())
        else [c.array("float32", shape[-1:], False)]
    )
    return Case(operator, [data, *bias])


@own("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain="com.microsoft")
def _skip(c: Dice, operator: str) -> Case:
    shape = (c.of((1, 2)), c.of((1, 3, 7)), c.size())
    arrays = [c.array("float32", shape, False), c.array("float32", shape, False), c.array("float32", shape[-1:], False)]
    if not operator.startswith("SkipSimplified"):
        arrays.append(c.array("float32", shape[-1:], False))
    return Case(operator, arrays, {"epsilon": 1e-3})


@own("QLinearAdd", "QLinearMul", domain="com.microsoft")
def _qlinear_pair(c: Dice, operator: str) -> Case:
    dtype = c.of(("uint8", "int8"))
    shapes = c.operands(c.shape(1, 3), 2)
    low, high = (0, 255) if dtype == "uint8" else (-128, 127)
    found: list[Any] = []
    for shape in shapes:
        found += [c.array(dtype, shape, False, low, high), np.asarray(np.float32(c.of((0.02, 0.05)))),
                  c.array(dtype, (), False, 0, 100)]  # fmt: skip
    return Case(operator, [*found, np.asarray(np.float32(0.08)), c.array(dtype, (), False, 0, 100)])


@own("Concat@many")
def _concat_many(c: Dice, operator: str) -> Case:
    """More inputs than a driver copies one by one."""
    dtype, shape = c.of(ANY), [c.size((1, 2, 3, 5)) for _ in range(c.integer(1, 3))]
    axis = c.axis(len(shape))
    shapes = [list(shape) for _ in range(c.integer(33, 40))]
    for each in shapes:
        each[axis] = c.size((1, 2, 3, 7))
    return Case(operator, [c.array(dtype, each) for each in shapes], {"axis": axis})


@own("MatMulNBits", domain="com.microsoft")
def _nbits(c: Dice, operator: str) -> Case:
    m, k, n, block = c.of((1, 2, 5, 17)), c.of((32, 64, 100)), c.of((1, 8, 17, 32)), c.of((16, 32, 64))
    blocks, bits = -(-k // block), c.of((4, 4, 8))
    packed = c.random.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)
    scales = c.array("float32", (n * blocks,), False, 0.01, 0.2)
    zeros = c.random.integers(0, 256, n * -(-blocks * bits // 8)).astype(np.uint8) if c.flag() else None
    if bits == 4 and c.chance(0.2):
        zeros = c.array("float32", (n, blocks), False, 0, 15)
    data = c.array("float32", (m, k), False)
    level = {"accuracy_level": 4} if c.chance(0.5) else {}
    return Case(operator, [data, packed, scales, zeros], {"K": k, "N": n, "bits": bits, "block_size": block, **level})


@own("Inverse", domain="com.microsoft")
def _inverse(c: Dice, operator: str) -> Case:
    size = c.of((1, 2, 3, 5))
    data = c.array("float32", (*c.shape(0, 1, (1, 3)), size, size), False) + 6 * np.eye(size, dtype=np.float32)
    return Case(operator, [data.astype(np.float32)])


@own("Scaler", "Binarizer", "Normalizer", "Imputer", domain="ai.onnx.ml")
def _classical(c: Dice, operator: str) -> Case:
    shape = (c.size(SMALL), c.size(SMALL))
    data = c.array("float32", shape, False)
    width = shape[1]
    if operator == "Scaler":
        count = c.of((1, width))
        return Case(operator, [data], {"offset": [0.5] * count, "scale": [c.of((2.0, 0.25))] * count})
    if operator == "Binarizer":
        return Case(operator, [data], {"threshold": 0.3})
    if operator == "Normalizer":
        return Case(operator, [data], {"norm": c.of(("MAX", "L1", "L2"))})
    return Case(operator, [data], {"imputed_value_floats": [7.0], "replaced_value_float": float("nan")})
