"""Fused attention operators of ONNX Runtime, judged by it."""

from __future__ import annotations

import numpy as np
import pytest

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
    return infer_types(op, values, outputs, "y")


def check(name, arrays, attributes, outputs, runtime):
    expected = runtime(name, *arrays, opset=17, domain=DOMAIN, outputs=outputs, **attributes)
    op = operator(name, attributes)
    found = op.reference(*arrays)
    types = infer(op, arrays, outputs)
    for left, right, type in zip(found[:outputs], expected, types, strict=True):
        assert left.dtype == right.dtype == type.dtype.numpy
        assert len(type.shape) == left.ndim
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
    "bias": ([INPUT, WEIGHTS, BIAS, None, None, real(BATCH, HEADS, PLACES, PLACES)], {"scale": 0.3}, 1),
    "sizes": ([INPUT, real(WIDTH, 56), real(56)], {"qkv_hidden_sizes": (16, 16, 24)}, 1),
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
MULTI_CASES = {
    "plain": ([Q, K, V], {}, 1),
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
}


@pytest.mark.parametrize("case", GROUP_CASES)
def test_group_query_attention_agrees_with_onnx_runtime(case, runtime):
    arrays, attributes, outputs = GROUP_CASES[case]
    attributes = {"num_heads": HEADS, "kv_num_heads": GROUPS, **attributes}
    check("GroupQueryAttention", arrays, attributes, outputs, runtime)


def test_what_is_not_supported_says_so():
    heads = {"num_heads": HEADS}
    with pytest.raises(UnsupportedError, match="past_present_share_buffer"):
        operator("Attention", {**heads, "past_present_share_buffer": 1}).reference(INPUT, WEIGHTS, BIAS)
    groups = {**heads, "kv_num_heads": GROUPS, "k_quant_type": "PER_TENSOR"}
    with pytest.raises(UnsupportedError, match="quantized or sliding cache"):
        operator("GroupQueryAttention", groups).reference(*PROMPT, *START)
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
