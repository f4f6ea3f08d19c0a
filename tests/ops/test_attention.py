"""Attention and rotary positions against ONNX Runtime and ONNX's own evaluator; linear attention by its recurrence."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim
from intaglio.ir.build import Builder, reference_by_expansion
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.attention import Attention, RotaryEmbedding
from intaglio.ops.evaluate import evaluate
from intaglio.ops.linear_attention import CausalConvWithState, FlexAttention, LinearAttention

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # an expansion meets inf - inf on its way
GENERATOR = np.random.default_rng(9)


def numbers(*shape: int) -> Any:
    return GENERATOR.standard_normal(shape).astype(np.float32)


Q, K, V = numbers(2, 4, 5, 8), numbers(2, 4, 6, 8), numbers(2, 4, 6, 7)
PAST = numbers(2, 4, 3, 8), numbers(2, 4, 3, 7)
OPTIONS: list[dict[str, Any]] = [{}, {"is_causal": 1}, {"scale": 0.3}, {"softcap": 2.0}]
MASKS = [(5, 6), (4, 5, 6), (2, 1, 5, 6), (2, 4, 5, 6)]


@pytest.mark.parametrize("options", OPTIONS)
def test_plain(agree: Any, options: dict[str, Any]) -> None:
    agree("Attention", Q, K, V, opset=23, **options)


@pytest.mark.parametrize("options", OPTIONS)
def test_shared_key_heads(agree: Any, options: dict[str, Any]) -> None:
    agree("Attention", Q, numbers(2, 2, 6, 8), numbers(2, 2, 6, 7), opset=23, **options)


@pytest.mark.parametrize("shape", MASKS)
@pytest.mark.parametrize("options", OPTIONS[:2])
def test_masks(agree: Any, shape: tuple[int, ...], options: dict[str, Any]) -> None:
    agree("Attention", Q, K, V, numbers(*shape), opset=23, **options)
    agree("Attention", Q, K, V, numbers(*shape) > -0.5, opset=23, **options)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"softcap": 2.0}])
def test_caches_and_scores(agree: Any, mode: int, options: dict[str, Any]) -> None:
    inputs = (Q, K, V, numbers(5, 9), *PAST)
    agree("Attention", *inputs, opset=23, outputs=4, qk_matmul_output_mode=mode, **options)


@pytest.mark.parametrize("options", OPTIONS)
def test_packed_heads(agree: Any, options: dict[str, Any]) -> None:
    inputs = (numbers(2, 5, 32), numbers(2, 6, 16), numbers(2, 6, 14), None, numbers(2, 2, 3, 8), numbers(2, 2, 3, 7))
    agree("Attention", *inputs, opset=23, outputs=3, q_num_heads=4, kv_num_heads=2, **options)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("lengths", [(4, 6), (2, 0)])
def test_valid_lengths(evaluator: Any, options: dict[str, Any], lengths: tuple[int, int]) -> None:
    mask = numbers(5, 6)
    inputs = (Q, K, V, mask, None, None, np.array(lengths))
    expected = evaluator("Attention", *inputs, opset=24, **options)[0]
    np.testing.assert_allclose(Attention(**options).reference(*inputs)[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("left", "right", "is_causal"), list(product((-1, 0, 2), (-1, 0, 1), (0, 1))))
def test_windows(evaluator: Any, left: int, right: int, is_causal: int) -> None:
    options = {"left_window_size": left, "right_window_size": right, "is_causal": is_causal}
    cases: list[tuple[Any, ...]] = [(Q, K, V, numbers(5, 9), *PAST), (Q, K, V, None, None, None, np.array([4, 6]))]
    for inputs in cases:
        expected = evaluator("Attention", *inputs, opset=25, outputs=1, **options)[0]
        np.testing.assert_allclose(Attention(**options).reference(*inputs)[0], expected, rtol=1e-5, atol=1e-6)
        (y, *_) = reference_by_expansion(Attention(**options), inputs)
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_row_without_keys_is_zero() -> None:
    mask = np.ones((5, 6), np.bool_)
    mask[2] = False
    for result in (Attention().reference(Q, K, V, mask), reference_by_expansion(Attention(), (Q, K, V, mask))):
        assert (result[0][:, :, 2] == 0).all()
        assert np.isfinite(result[0]).all()


def test_short_mask_hides_the_rest() -> None:
    mask = np.ones((5, 4), np.bool_)
    expected = Attention().reference(Q, K[:, :, :4], V[:, :, :4])[0]
    np.testing.assert_allclose(Attention().reference(Q, K, V, mask)[0], expected, rtol=1e-6)
    np.testing.assert_allclose(reference_by_expansion(Attention(), (Q, K, V, mask))[0], expected, rtol=1e-5)


def test_softmax_precision_rounds_the_weights() -> None:
    rough = Attention(softmax_precision=16, qk_matmul_output_mode=3).reference(Q, K, V)[3]
    exact = Attention(qk_matmul_output_mode=3).reference(Q, K, V)[3]
    assert not (rough == exact).all()
    np.testing.assert_allclose(rough, exact, rtol=0.05)


@pytest.mark.parametrize(
    ("shapes", "options", "message"),
    [
        (((2, 4, 5, 8), (2, 3, 6, 8), (2, 3, 6, 7)), {}, "4 query heads cannot be shared by 3"),
        (((2, 4, 5, 8), (2, 4, 6, 9), (2, 4, 6, 7)), {}, "head sizes"),
        (((2, 5, 32), (2, 6, 32), (2, 6, 32)), {}, "q_num_heads is needed"),
        (((2, 5, 30), (2, 6, 32), (2, 6, 32)), {"q_num_heads": 4, "kv_num_heads": 4}, "cannot be split into 4 heads"),
        (((2, 4, 5, 8), (2, 4, 6, 8), (2, 4, 6, 7)), {"qk_matmul_output_mode": 4}, "qk_matmul_output_mode is 4"),
        (((4, 8), (4, 8), (4, 8)), {}, "rank 2"),
    ],
)
def test_wrong_operands(shapes: Any, options: dict[str, Any], message: str) -> None:
    b = Builder(Graph())
    values = [b.graph.add_input("x", TensorType(FLOAT32, shape)) for shape in shapes]
    with pytest.raises(ShapeError, match=message):
        b.Attention(*values, **options)


def test_wrong_lengths_and_masks() -> None:
    with pytest.raises(OperatorError, match=r"nonpad_kv_seqlen.*\[0, 6\]"):
        Attention().reference(Q, K, V, None, None, None, np.array([7, 1]))
    with pytest.raises(ShapeError, match="attn_mask has 7 keys, there are 6"):
        Attention().reference(Q, K, V, numbers(5, 7))


@pytest.mark.parametrize(("interleaved", "width"), list(product((0, 1), (0, 4))))
def test_rotary_embedding(agree: Any, evaluator: Any, interleaved: int, width: int) -> None:
    half = (width or 8) // 2
    caches, places = (numbers(10, half), numbers(10, half)), GENERATOR.integers(0, 10, (2, 5))
    options = {"interleaved": interleaved, "rotary_embedding_dim": width, "num_heads": 3}
    agree("RotaryEmbedding", numbers(2, 5, 24), *caches, places, opset=23, **options)
    agree("RotaryEmbedding", numbers(2, 3, 5, 8), *caches, places, opset=23, **options)
    inputs = (numbers(2, 3, 5, 8), numbers(2, 5, half), numbers(2, 5, half))
    expected = evaluator("RotaryEmbedding", *inputs, opset=23, **options)[0]
    np.testing.assert_allclose(RotaryEmbedding(**options).reference(*inputs), expected, rtol=1e-5, atol=1e-6)


def test_position_out_of_range() -> None:
    with pytest.raises(OperatorError, match="position 10"):
        RotaryEmbedding().reference(numbers(1, 1, 1, 8), numbers(10, 4), numbers(10, 4), np.array([[10]]))


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("query_heads", [2, 4])
def test_linear_attention(evaluator: Any, rule: str, query_heads: int) -> None:
    decay = -np.abs(numbers(2, 3, 8)) if "gated" in rule else None
    beta = np.abs(numbers(2, 3, 2)) if "delta" in rule else None
    options = {"q_num_heads": query_heads, "kv_num_heads": 2, "update_rule": rule}
    for past in (None, numbers(2, 2, 4, 5)):
        inputs = (numbers(2, 3, query_heads * 4), numbers(2, 3, 8), numbers(2, 3, 10), past, decay, beta)
        expected = evaluator("LinearAttention", *inputs, opset=27, outputs=2, **options)
        op = LinearAttention(**options)
        for results in (op.reference(*inputs), expanded(op, inputs)):
            for ours, theirs in zip(results, expected, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def expanded(op: Any, arrays: Any) -> list[Any]:
    """The outputs of the operator's expansion, for symbolic sizes."""
    builder = Builder(Graph())
    values: list[Any] = []
    for i, array in enumerate(arrays):
        shape = None if array is None else tuple(dim.symbol(f"x{i}_{j}") for j in range(array.ndim))
        values.append(None if array is None else builder.graph.add_input("x", TensorType(FLOAT32, shape)))
    with builder.active():
        builder.graph.set_outputs(op.expand(builder, *values))
    return evaluate(builder.graph, [array for array in arrays if array is not None])


def test_linear_attention_in_two_calls_is_one() -> None:
    op = LinearAttention(q_num_heads=2, kv_num_heads=2, update_rule="linear")
    q, k, v = numbers(1, 6, 8), numbers(1, 6, 8), numbers(1, 6, 10)
    whole, end = op.reference(q, k, v)
    first, state = op.reference(q[:, :4], k[:, :4], v[:, :4])
    second, last = op.reference(q[:, 4:], k[:, 4:], v[:, 4:], state)
    np.testing.assert_allclose(np.concatenate((first, second), axis=1), whole, rtol=1e-5)
    np.testing.assert_allclose(last, end, rtol=1e-5)


def test_linear_attention_needs_its_gates() -> None:
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType(FLOAT32, (1, 3, 8)))
    with pytest.raises(ShapeError, match="needs the input decay"):
        b.LinearAttention(x, x, x, q_num_heads=2, kv_num_heads=2, update_rule="gated")
    with pytest.raises(ShapeError, match="update_rule is 'none'"):
        b.LinearAttention(x, x, x, q_num_heads=2, kv_num_heads=2, update_rule="none")


@pytest.mark.parametrize("activation", ["none", "silu", "swish"])
@pytest.mark.parametrize("length", [1, 2, 7])
def test_causal_convolution(evaluator: Any, activation: str, length: int) -> None:
    for bias, past in ((None, None), (numbers(3), numbers(2, 3, 3))):
        inputs = (numbers(2, 3, length), numbers(3, 1, 4), bias, past)
        expected = evaluator("CausalConvWithState", *inputs, opset=27, outputs=2, activation=activation)
        results = CausalConvWithState(activation=activation).reference(*inputs)
        for ours, theirs in zip(results, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def halved(graph: Graph) -> Graph:
    """A modifier that halves its input."""
    body = Graph("modifier", outer=graph)
    x = body.add_input("x", TensorType(FLOAT32, None))
    builder = Builder(body)
    with builder.active():
        body.set_outputs([x * 0.5])
    return body


@pytest.mark.parametrize("key_heads", [2, 4])
def test_modified_attention(key_heads: int) -> None:
    q, k, v = numbers(2, 4, 5, 8), numbers(2, key_heads, 6, 8), numbers(2, key_heads, 6, 7)
    graph = Graph()
    builder = Builder(graph)
    values = [graph.add_input("x", TensorType(FLOAT32, array.shape)) for array in (q, k, v)]
    op = FlexAttention(score_mod=halved(graph), prob_mod=halved(graph))
    with builder.active():
        graph.set_outputs([*builder.add(op, values), op.expand(builder, *values)])
    whole, expansion = evaluate(graph, [q, k, v])
    expected = 0.5 * Attention(scale=0.5 / np.sqrt(8)).reference(q, k, v)[0]
    np.testing.assert_allclose(whole, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(expansion, expected, rtol=1e-4, atol=1e-6)
