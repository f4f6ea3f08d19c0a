"""Fused attention operators of ONNX Runtime, judged by it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.present import tensor

from intaglio.errors import ShapeError, UnsupportedError
from intaglio.ir import dim
from intaglio.ir.build import infer_types, type_of
from intaglio.ir.dtype import FLOAT32, INT32
from intaglio.ir.graph import Graph
from intaglio.ir.op import OPERATORS
from intaglio.ir.types import TensorType

DOMAIN = "com.microsoft"
GENERATOR = np.random.default_rng(5)
BATCH, PLACES, HEADS, GROUPS, SIZE = 2, 5, 4, 2, 16
WIDTH = HEADS * SIZE


def real(*shape):
    return GENERATOR.standard_normal(shape).astype(np.float32)


def int32(*numbers):
    return np.array(numbers, np.int32)


def some(*shape):
    return (GENERATOR.random(shape) > 0.3).astype(np.int32)


def operator(name, attributes):
    return OPERATORS[(DOMAIN, name)](**attributes)


def infer(op, arrays, outputs):
    graph = Graph("test")
    values = [None if array is None else graph.add_input("x", type_of(array)) for array in arrays]
    return [tensor(type) for type in infer_types(op, values, outputs, "y")]


def check(name, arrays, attributes, outputs, runtime):
    expected = runtime(name, *arrays, opset=17, domain=DOMAIN, outputs=outputs, **attributes)
    op = operator(name, attributes)
    found = op.reference(*arrays)
    types = infer(op, arrays, outputs)
    for left, right, type in zip(found[:outputs], expected, types, strict=True):
        assert left.dtype == right.dtype == type.dtype.numpy
        assert type.rank == left.ndim
        np.testing.assert_allclose(left, right, rtol=2e-5, atol=2e-5)


INPUT, WEIGHTS, BIAS = real(BATCH, PLACES, WIDTH), real(WIDTH, 3 * WIDTH) * np.float32(0.1), real(3 * WIDTH)
PAST = real(2, BATCH, HEADS, 3, SIZE)
SELF_CASES = {
    "plain": ([INPUT, WEIGHTS, BIAS], {}, 1),
    "causal": ([INPUT, WEIGHTS, BIAS], {"unidirectional": 1}, 1),
    "lengths": ([INPUT, WEIGHTS, BIAS, int32(3, 5)], {}, 1),
    "ends and starts": ([INPUT, WEIGHTS, BIAS, int32(4, 5, 1, 0)], {}, 1),
    "mask": ([INPUT, WEIGHTS, BIAS, some(BATCH, PLACES)], {}, 1),
    "mask value": ([INPUT, WEIGHTS, BIAS, some(BATCH, PLACES)], {"mask_filter_value": -2.0}, 1),
    "all masked": ([INPUT, WEIGHTS, BIAS, some(BATCH, PLACES) * 0], {"unidirectional": 1}, 1),
    "mask per query": ([INPUT, WEIGHTS, BIAS, some(BATCH, PLACES, PLACES)], {}, 1),
    "past": ([INPUT, WEIGHTS, BIAS, None, PAST], {"unidirectional": 1}, 2),
    "past and mask": ([INPUT, WEIGHTS, BIAS, some(BATCH, PLACES + 3), PAST], {"unidirectional": 1}, 2),
    "lengths of a packed batch": ([INPUT, WEIGHTS, BIAS, int32(5, 3, 0, 5, 10, 0, 5, 10)], {}, 1),
    "mask of one column, which has no effect": ([INPUT, WEIGHTS, BIAS, int32(0, 1).reshape(2, 1)], {}, 1),
    "mask per query and past": ([INPUT, WEIGHTS, BIAS, some(BATCH, PLACES, PLACES + 3), PAST], {}, 2),
    "bias": ([INPUT, WEIGHTS, BIAS, None, None, real(BATCH, HEADS, PLACES, PLACES)], {"scale": 0.3}, 1),
    "bias for all": ([INPUT, WEIGHTS, BIAS, None, None, real(1, 1, PLACES, PLACES)], {}, 1),
    "sizes": ([INPUT, real(WIDTH, 56) * np.float32(0.1), real(56)], {"qkv_hidden_sizes": (16, 16, 24)}, 1),
}


@pytest.mark.parametrize("case", SELF_CASES)
def test_self_attention_agrees_with_onnx_runtime(case, runtime):
    arrays, attributes, outputs = SELF_CASES[case]
    check("Attention", arrays, {"num_heads": HEADS, **attributes}, outputs, runtime)


def test_quantized_self_attention_agrees_with_onnx_runtime(runtime):
    data = GENERATOR.integers(0, 256, INPUT.shape, dtype=np.uint8)
    weights = GENERATOR.integers(-128, 128, WEIGHTS.shape, dtype=np.int8)
    scales = [np.array(0.01, np.float32), np.full(3 * WIDTH, 0.002, np.float32)]
    zeros = [np.array(128, np.uint8), np.zeros(3 * WIDTH, np.int8)]
    arrays = [data, weights, BIAS, *scales, int32(3, 5), *zeros, PAST]
    check("QAttention", [*arrays[:5], None, *zeros, PAST], {"num_heads": HEADS, "unidirectional": 1}, 2, runtime)
    check("QAttention", arrays[:8], {"num_heads": HEADS}, 1, runtime)


Q, K, V = real(BATCH, PLACES, WIDTH), real(BATCH, 6, WIDTH), real(BATCH, 6, WIDTH)
CACHE = [real(BATCH, HEADS, 3, SIZE), real(BATCH, HEADS, 3, SIZE)]
TOKENS = [real(4, 1, WIDTH), real(4, 1, WIDTH), real(4, 1, WIDTH)]
BUFFERS = [real(4, HEADS, 12, SIZE), real(4, HEADS, 12, SIZE)]
BEAMS = GENERATOR.integers(0, 2, (2, 2, 12), dtype=np.int32)
MULTI_CASES = {
    "plain": ([Q, K, V], {}, 1),
    "values of another size": ([Q, K, real(BATCH, 6, HEADS * 8), real(2 * WIDTH + HEADS * 8)], {}, 1),
    "lengths of a packed batch": ([Q, Q, Q, None, int32(5, 3, 0, 5, 10, 0, 5, 10)], {}, 1),
    "causal and lengths": ([Q, Q, Q, None, int32(3, 4)], {"unidirectional": 1}, 1),
    "buffers": ([Q, Q, Q, None, None, None, BUFFERS[0][:2], BUFFERS[1][:2], int32(3)], {}, 3),
    "causal buffers": ([Q, Q, Q, BIAS, None, None, BUFFERS[0][:2], BUFFERS[1][:2], int32(3)], {"unidirectional": 1}, 3),
    "buffers and mask": ([*TOKENS, None, some(4, 4), None, *BUFFERS, int32(3)], {}, 3),
    "beams": ([*TOKENS, None, None, None, *BUFFERS, int32(7), BEAMS], {}, 3),
    "beams of one": ([*TOKENS, None, None, None, *BUFFERS, int32(7), BEAMS.reshape(4, 1, 12) * 0], {}, 3),
    "beams and many queries": ([Q, Q, Q, None, None, None, BUFFERS[0][:2], BUFFERS[1][:2], int32(3), BEAMS[:1]], {}, 3),
    "projection bias": ([Q, K, V, BIAS], {"scale": 0.2}, 1),
    "lengths": ([Q, K, V, None, int32(3, 6)], {}, 1),
    "mask": ([Q, K, V, None, some(BATCH, 6)], {}, 1),
    "mask per query": ([Q, K, V, None, some(BATCH, PLACES, 6)], {}, 1),
    "bias": ([Q, K, V, None, None, real(1, HEADS, PLACES, 6)], {}, 1),
    "cached keys": ([Q, real(BATCH, HEADS, 6, SIZE), real(BATCH, HEADS, 6, SIZE), BIAS], {}, 1),
    "past": ([Q, Q[::-1], real(BATCH, PLACES, WIDTH), None, None, None, *CACHE], {}, 3),
    "causal past": ([Q, Q[::-1], real(BATCH, PLACES, WIDTH), BIAS, None, None, *CACHE], {"unidirectional": 1}, 3),
}


@pytest.mark.parametrize("case", MULTI_CASES)
def test_multi_head_attention_agrees_with_onnx_runtime(case, runtime):
    arrays, attributes, outputs = MULTI_CASES[case]
    arrays = [None if array is None else np.ascontiguousarray(array) for array in arrays]
    check("MultiHeadAttention", arrays, {"num_heads": HEADS, **attributes}, outputs, runtime)


def test_attention_of_one_query_agrees_with_onnx_runtime(runtime):
    arrays = [*TOKENS, None, None, *BUFFERS, int32(7), int32(2), BEAMS, BIAS]
    attributes = {"num_heads": HEADS, "past_present_share_buffer": 1}
    check("DecoderMaskedMultiHeadAttention", arrays, attributes, 3, runtime)


def test_attention_of_one_query_with_a_past_is_plain_attention():
    """ONNX Runtime's CPU kernel has shared buffers only."""
    options = {"num_heads": HEADS}
    plain = operator("MultiHeadAttention", options).reference(*TOKENS, BIAS, None, None, *BUFFERS)
    found = operator("DecoderMaskedMultiHeadAttention", options).reference(
        *TOKENS, None, None, *BUFFERS, None, None, None, BIAS
    )
    packed = operator("DecoderMaskedMultiHeadAttention", options).reference(
        np.concatenate(TOKENS, axis=2), None, None, None, None, *BUFFERS, None, None, None, BIAS
    )
    for left, middle, right in zip(plain, found, packed, strict=True):
        np.testing.assert_array_equal(left, middle)
        np.testing.assert_array_equal(left, right)


def test_a_shared_buffer_means_the_same_as_a_past(runtime):
    """ONNX Runtime's CPU kernel has no shared buffers; it is asked for the same with a past of three places."""
    buffer = real(2, BATCH, HEADS, 12, SIZE)
    plain = [INPUT, WEIGHTS, BIAS, some(BATCH, PLACES + 3), np.ascontiguousarray(buffer[..., :3, :])]
    expected = runtime("Attention", *plain, opset=17, domain=DOMAIN, outputs=2, num_heads=HEADS, unidirectional=1)
    op = operator("Attention", {"num_heads": HEADS, "unidirectional": 1, "past_present_share_buffer": 1})
    output, present = op.reference(*plain[:4], buffer, None, int32(3))
    np.testing.assert_allclose(output, expected[0], rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(present[..., : 3 + PLACES, :], expected[1], rtol=2e-5, atol=2e-5)
    np.testing.assert_array_equal(present[..., 3 + PLACES :, :], buffer[..., 3 + PLACES :, :])


def test_packed_inputs_mean_the_same():
    op = operator("MultiHeadAttention", {"num_heads": HEADS})
    parts = [real(BATCH, PLACES, HEADS, SIZE) for _ in range(3)]
    flat = [part.reshape(BATCH, PLACES, WIDTH) for part in parts]
    expected = op.reference(*flat)
    for packed in ([np.stack(parts, axis=3)], [flat[0], np.stack(parts[1:], axis=3)]):
        np.testing.assert_allclose(op.reference(*packed)[0], expected[0], rtol=1e-6, atol=1e-6)


def test_a_square_mask_counts_for_the_last_queries():
    op = operator("Attention", {"num_heads": HEADS})
    square = some(BATCH, 1, 10, 10)
    row = np.ascontiguousarray(square[:, 0, 3 : 3 + PLACES, : 3 + PLACES])
    expected = op.reference(INPUT, WEIGHTS, BIAS, row, PAST)
    np.testing.assert_allclose(op.reference(INPUT, WEIGHTS, BIAS, square, PAST)[0], expected[0], rtol=1e-6)


PROMPT = [real(BATCH, PLACES, WIDTH), real(BATCH, PLACES, GROUPS * SIZE), real(BATCH, PLACES, GROUPS * SIZE)]
TOKEN = [real(BATCH, 1, WIDTH), real(BATCH, 1, GROUPS * SIZE), real(BATCH, 1, GROUPS * SIZE)]
CHUNK = [real(1, 3, WIDTH), real(1, 3, GROUPS * SIZE), real(1, 3, GROUPS * SIZE)]
KEYS, VALUES = real(BATCH, GROUPS, 7, SIZE), real(BATCH, GROUPS, 7, SIZE)
START = [None, None, int32(PLACES - 1, PLACES - 1), np.array(PLACES, np.int32)]
RAGGED = [KEYS, VALUES, int32(3, 5), np.array(6, np.int32)]
CACHES = [np.cos(real(32, SIZE // 2)), np.sin(real(32, SIZE // 2))]
ROTARY = {"do_rotary": 1}
NOTHING = [real(BATCH, 0, GROUPS * SIZE), real(BATCH, 0, GROUPS * SIZE)]
GROUP_CASES = {
    "prompt": ([*PROMPT, *START], {}, 3),
    "prompts of different lengths": ([*PROMPT, None, None, int32(2, 4), np.array(PLACES, np.int32)], {}, 3),
    "packed": ([real(BATCH, PLACES, WIDTH + 2 * GROUPS * SIZE), None, None, *START], {}, 3),
    "token": ([*TOKEN, KEYS, VALUES, int32(7, 7), np.array(8, np.int32)], {}, 3),
    "tokens at different places": ([*TOKEN, *RAGGED], {}, 3),
    "window": ([*TOKEN, *RAGGED], {"local_window_size": 2}, 3),
    "prompt with all": ([*PROMPT, *START], {"local_window_size": 2, "softcap": 3.0, "scale": 0.2}, 3),
    "rotary": ([*PROMPT, *START, *CACHES], ROTARY, 3),
    "interleaved": ([*PROMPT, *START, *CACHES], {**ROTARY, "rotary_interleaved": 1}, 3),
    "rotary token": ([*TOKEN, *RAGGED, *CACHES], ROTARY, 3),
    "chunk": ([*CHUNK, KEYS[:1], VALUES[:1], int32(9), np.array(10, np.int32), *CACHES], ROTARY, 3),
    "bias": ([*PROMPT, *START, None, None, None, real(BATCH, HEADS, PLACES, PLACES)], {}, 3),
    "sink": ([*PROMPT, *START, None, None, None, None, real(HEADS)], {}, 3),
    "smooth": ([*PROMPT, *START], {"smooth_softmax": 1}, 3),
    "not causal": ([*PROMPT, *START], {"causal": 0}, 3),
    "scores": ([*PROMPT, *START], {"qk_output": 1}, 4),
    "weights": ([*PROMPT, *START], {"qk_output": 2}, 4),
    "scores in a buffer": ([*PROMPT, *(real(BATCH, GROUPS, 12, SIZE) for _ in "kv"), *START[2:]], {"qk_output": 1}, 4),
    "bias and a longer buffer": ([*TOKEN, *RAGGED, None, None, None, real(BATCH, HEADS, 1, 6)], {}, 3),
    "sink, bias and cap": ([*PROMPT, *START, None, None, None, real(1, 1, PLACES, PLACES), real(HEADS)],
                           {"softcap": 2.0}, 3),
    "given positions": ([*TOKEN, *RAGGED, *CACHES, np.array([[4], [9]])], ROTARY, 3),
    "packed rotary": ([real(BATCH, PLACES, WIDTH + 2 * GROUPS * SIZE), None, None, *START, *CACHES], ROTARY, 3),
    "keys of another layer": ([PROMPT[0], *NOTHING, KEYS[:, :, :5], VALUES[:, :, :5], int32(2, 4), START[3]], {}, 3),
    "token with keys of another layer": ([TOKEN[0], *NOTHING, *RAGGED, *CACHES], ROTARY, 3),
}  # fmt: skip


@pytest.mark.parametrize("case", GROUP_CASES)
def test_group_query_attention_agrees_with_onnx_runtime(case, runtime):
    arrays, attributes, outputs = GROUP_CASES[case]
    attributes = {"num_heads": HEADS, "kv_num_heads": GROUPS, **attributes}
    check("GroupQueryAttention", arrays, attributes, outputs, runtime)


def quantized_cache(bits, kind):
    """Keys and values of seven places in a cache of few bits, and their scales."""
    shape = {"tensor": (1,), "channel": (1, GROUPS, 1, SIZE), "flat channel": (GROUPS * SIZE,)}[kind]
    scales = [(GENERATOR.random(shape) * 0.01 + 0.02).astype(np.float32) * (1 if bits == 8 else 10) for _ in "kv"]
    if bits == 8:
        caches = [GENERATOR.integers(-128, 128, (BATCH, GROUPS, 7, SIZE), dtype=np.int8) for _ in "kv"]
    else:
        caches = [GENERATOR.integers(0, 256, (BATCH, GROUPS, 7, SIZE // 2), dtype=np.uint8) for _ in "kv"]
    return caches, scales


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("kind", ["tensor", "channel", "flat channel"])
@pytest.mark.parametrize("case", ["prompt", "token"])
def test_quantized_caches_agree_with_onnx_runtime(bits, kind, case, runtime):
    caches, scales = quantized_cache(bits, kind)
    new, ends = (PROMPT, START[2:]) if case == "prompt" else (TOKEN, RAGGED[2:])
    quantization = "PER_TENSOR" if kind == "tensor" else "PER_CHANNEL"
    attributes = {"num_heads": HEADS, "kv_num_heads": GROUPS, "kv_cache_bit_width": bits, **ROTARY}
    attributes |= {"k_quant_type": quantization, "v_quant_type": quantization}
    arrays = [*new, *caches, *ends, *CACHES, None, None, None, *scales]
    check("GroupQueryAttention", arrays, attributes, 3, runtime)


@pytest.mark.parametrize("capacity", [3, 4, 6])
@pytest.mark.parametrize("case", ["prompt", 2, 5, 8, 9, "ragged", "bias", "chunk"])
def test_sliding_caches_agree_with_onnx_runtime(capacity, case, runtime):
    window = 3
    caches = [real(BATCH, GROUPS, capacity, SIZE) for _ in "kv"]
    arrays = {
        "prompt": [*PROMPT, *caches, *START[2:], *CACHES],
        "ragged": [*TOKEN, *caches, int32(4, 9), np.array(10, np.int32)],
        "bias": [*TOKEN, *caches, int32(4, 9), np.array(10, np.int32), None, None, None, real(1, HEADS, 1, 10)],
        "chunk": [*CHUNK, *(cache[:1] for cache in caches), int32(9), np.array(10, np.int32)],
    }.get(case) or [*TOKEN, *caches, int32(case, case), np.array(case + 1, np.int32)]
    attributes = {"num_heads": HEADS, "kv_num_heads": GROUPS, "sliding_window_cache": 1, "local_window_size": window}
    attributes |= ROTARY if case == "prompt" else {}
    expected = runtime("GroupQueryAttention", *arrays, opset=17, domain=DOMAIN, outputs=3, **attributes)
    found = operator("GroupQueryAttention", attributes).reference(*arrays)
    np.testing.assert_allclose(found[0], expected[0], rtol=2e-5, atol=2e-5)
    step = capacity - window + 1
    for sample, end in enumerate(arrays[5] + 1):
        rows = end - step * max(0, -(-(end - capacity) // step))  # what lies behind them is not specified
        for left, right in zip(found[1:3], expected[1:], strict=True):
            np.testing.assert_allclose(left[sample, :, :rows], right[sample, :, :rows], rtol=2e-5, atol=2e-5)


def test_normalized_queries_and_keys_mean_what_their_own_nodes_mean(runtime):
    """ONNX Runtime's CPU kernel has no norm of its own; it is asked for the norm and the attention one by one."""
    weights = [real(SIZE), real(SIZE)]

    def normal(x, weight, heads):
        shape = (BATCH, PLACES, heads, SIZE)
        (y,) = runtime("SimplifiedLayerNormalization", x.reshape(shape), weight, opset=17, epsilon=0.01, axis=-1)
        return y.reshape(x.shape)

    attributes = {"num_heads": HEADS, "kv_num_heads": GROUPS, **ROTARY}
    plain = [normal(PROMPT[0], weights[0], HEADS), normal(PROMPT[1], weights[1], GROUPS), PROMPT[2], *START, *CACHES]
    expected = runtime("GroupQueryAttention", *plain, opset=17, domain=DOMAIN, outputs=3, **attributes)
    op = operator("GroupQueryAttention", {**attributes, "qk_norm_epsilon": 0.01})
    found = op.reference(*PROMPT, *START, *CACHES, *[None] * 5, *weights)
    for left, right in zip(found[:3], expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-5, atol=2e-5)


def test_what_is_not_supported_says_so():
    heads = {"num_heads": HEADS}
    with pytest.raises(UnsupportedError, match="ONNX Runtime's CPU kernel refuses too"):
        operator("Attention", {**heads, "do_rotary": 1}).reference(INPUT, WEIGHTS, BIAS)
    groups = {**heads, "kv_num_heads": GROUPS}
    wide = operator("GroupQueryAttention", {**groups, "k_quant_type": "PER_TENSOR", "kv_cache_bit_width": 16})
    with pytest.raises(UnsupportedError, match="a cache of 16 bits, expected 4 or 8"):
        wide.reference(*PROMPT, *START)
    sliding = {**groups, "sliding_window_cache": 1, "local_window_size": 2, "qk_output": 1}
    with pytest.raises(UnsupportedError, match="qk_output with sliding_window_cache"):
        operator("GroupQueryAttention", sliding).reference(*PROMPT, KEYS, VALUES, *START[2:])
    with pytest.raises(ShapeError, match="the input 'key' is missing"):
        operator("MultiHeadAttention", heads).reference(Q)
    with pytest.raises(ShapeError, match="does not fit a batch of 2"):
        operator("Attention", heads).reference(INPUT, WEIGHTS, BIAS, int32(1, 2, 3))


def test_symbolic_sizes_stay_symbolic():
    graph = Graph("test")
    n, s, p = dim.symbol("N"), dim.symbol("S"), dim.symbol("P")
    values = [
        graph.add_input(name, TensorType(FLOAT32, shape))
        for name, shape in (("x", (n, s, WIDTH)), ("w", (WIDTH, 3 * WIDTH)), ("bias", (3 * WIDTH,)))
    ]
    mask = graph.add_input("mask", TensorType(INT32, (n, p + s)))
    past = graph.add_input("past", TensorType(FLOAT32, (2, n, HEADS, p, SIZE)))
    types = infer_types(operator("Attention", {"num_heads": HEADS}), [*values, mask, past], 2, "y")
    assert types[0] == TensorType(FLOAT32, (n, s, WIDTH))
    assert types[1] == TensorType(FLOAT32, (2, n, HEADS, p + s, SIZE))
