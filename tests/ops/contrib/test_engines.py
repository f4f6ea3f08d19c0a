"""Operators of ONNX Runtime compiled, and where ranks are not known, against their meaning in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate
from intaglio.runtime.engine.native import NativeEngine

from ..conftest import single_node_model
from .test_attention import (
    BEAMS,
    BIAS,
    BUFFERS,
    GROUP_CASES,
    GROUPS,
    HEADS,
    MULTI_CASES,
    SELF_CASES,
    TOKENS,
)
from .test_fused import DOMAIN, FLOAT_CASES, QUANTIZED_CASES
from .test_tensor import CASES, quantized_layer, real, reordered, scale, whole

HEAD_COUNTS = {
    "Attention": {"num_heads": HEADS},
    "MultiHeadAttention": {"num_heads": HEADS},
    "GroupQueryAttention": {"num_heads": HEADS, "kv_num_heads": GROUPS},
}
ATTENTION_CASES = [
    (name, {**HEAD_COUNTS[name], **attributes}, arrays, outputs)
    for name, cases in (
        ("Attention", SELF_CASES),
        ("MultiHeadAttention", MULTI_CASES),
        ("GroupQueryAttention", GROUP_CASES),
    )
    for arrays, attributes, outputs in cases.values()
]
FIRST, SECOND = (quantized_layer(4, 16, True, 32, 32) for _ in range(2))
MORE_CASES = [
    ("MoE", {"k": 2}, [real(6, 8), real(6, 4), real(4, 5, 8), real(4, 5), real(4, 8, 5), real(4, 8)], 1),
    ("QMoE", {"k": 2, "block_size": 16},
     [real(6, 32), real(6, 4), FIRST[0], FIRST[1], FIRST[3], SECOND[0], SECOND[1], SECOND[3], None, None, None,
      FIRST[2], SECOND[2]], 1),
    ("MatMulNBits", *reordered(4, None), 1),
    ("MatMulBnb4", {"N": 5, "K": 33, "block_size": 32, "quant_type": 1},
     [real(2, 3, 33), whole((83,), np.uint8), real(6)], 1),
    ("GatherBlockQuantized", {"block_size": 16},
     [whole((9, 16), np.uint8), np.array([[0, 9], [-10, -1]]), real(9, 2), whole((9, 1), np.uint8)], 1),
    ("DecoderMaskedMultiHeadAttention", {"num_heads": HEADS, "past_present_share_buffer": 1},
     [*TOKENS, None, None, *BUFFERS, np.array([7], np.int32), None, BEAMS, BIAS], 3),
    ("DynamicQuantizeLSTM", {"hidden_size": 4, "direction": "bidirectional"},
     [real(5, 3, 6), whole((2, 6, 16), np.int8), whole((2, 4, 16), np.int8), real(2, 32), None, None, None, None,
      scale(2) / 2, np.zeros(2, np.int8), scale(2) / 2, np.zeros(2, np.int8)], 3),
]  # fmt: skip
ALL = [*MORE_CASES, *FLOAT_CASES, *((*case, 1) for case in QUANTIZED_CASES), *ATTENTION_CASES, *CASES]
IDS = [f"{case[0]}-{position}" for position, case in enumerate(ALL)]


def model_of(name, attributes, arrays, outputs, is_ranked):
    model = single_node_model(name, arrays, 17, DOMAIN, outputs, attributes)
    if not is_ranked:
        for info in model.graph.input:
            info.type.tensor_type.ClearField("shape")
    return read_model(model).graph


def prepared(case):
    name, attributes, arrays, outputs = case
    given = [None if array is None else np.ascontiguousarray(np.asarray(array)) for array in arrays]
    shaped = [a if a is None else a.reshape(np.shape(b)) for a, b in zip(given, arrays, strict=True)]
    return name, attributes, shaped, outputs


@pytest.mark.parametrize("case", ALL, ids=IDS)
def test_unknown_ranks_cost_the_shapes_only(case):
    name, attributes, arrays, outputs = prepared(case)
    feeds = [array for array in arrays if array is not None]
    known = model_of(name, attributes, arrays, outputs, True)
    open_ranks = model_of(name, attributes, arrays, outputs, False)
    for left, right in zip(known.outputs, open_ranks.outputs, strict=True):
        assert left.dtype == right.dtype
    for left, right in zip(evaluate(known, feeds), evaluate(open_ranks, feeds), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("case", ALL, ids=IDS)
def test_compiled(case):
    name, attributes, arrays, outputs = prepared(case)
    graph = model_of(name, attributes, arrays, outputs, True)
    feeds = [array for array in arrays if array is not None]
    expected = evaluate(graph, feeds)
    engine = NativeEngine(graph, 2).load()
    assert not engine.form.hosts
    for found, wanted in zip(engine.run(feeds), expected, strict=True):
        assert found.dtype == wanted.dtype
        assert found.shape == wanted.shape
        if found.dtype.kind == "f":
            tolerance = 2e-3 if found.dtype == np.float16 else 2e-5
            np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
        else:
            distance = np.abs(found.astype(int) - wanted.astype(int))
            assert distance.max(initial=0) <= 1  # another order of multiplication can turn a tie
            assert (distance > 0).mean() < 0.02
