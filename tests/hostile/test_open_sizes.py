"""Sizes that a model leaves open and that do not fit each other, or are nothing: both engines say and compute the same.

The sweep over ONNX's suite in `test_mismatched_sizes` has found each of these.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import intaglio
from intaglio.errors import IntaglioError

KINDS = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "s": TensorProto.INT32, "u": TensorProto.UINT8}
Node = tuple[str, Sequence[str], Sequence[str], dict[str, Any]]


def model(inputs: dict[str, str], outputs: Sequence[str], *nodes: Node) -> onnx.ModelProto:
    """A model whose inputs (name: kind and rank, such as "f2") have a symbol of its own for every size."""
    values = [
        helper.make_tensor_value_info(name, KINDS[kind[0]], [f"{name}{axis}" for axis in range(int(kind[1:]))])
        for name, kind in inputs.items()
    ]
    made = [helper.make_node(op, ins, outs, **attributes) for op, ins, outs, attributes in nodes]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(made, "g", values, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)


def outcomes(proto: onnx.ModelProto, *feeds: np.ndarray) -> list[list[np.ndarray] | IntaglioError]:
    """What each engine makes of the same inputs: its outputs or its exception."""
    found: list[list[np.ndarray] | IntaglioError] = []
    for engine in ("native", "reference"):
        loaded = intaglio.load(proto, engine=engine)
        try:
            names = [each.name for each in loaded.inputs]
            found.append(list(loaded.run(dict(zip(names, feeds, strict=True))).values()))
        except IntaglioError as error:
            found.append(error)
    return found


def agree(proto: onnx.ModelProto, *feeds: np.ndarray) -> list[np.ndarray]:
    """The outputs of both engines, which are the same."""
    native, reference = outcomes(proto, *feeds)
    assert isinstance(native, list), native
    assert isinstance(reference, list), reference
    for mine, right in zip(native, reference, strict=True):
        assert mine.shape == right.shape
        np.testing.assert_allclose(mine, right, rtol=1e-5, atol=1e-6)
    return native


def refuse(proto: onnx.ModelProto, *feeds: np.ndarray) -> None:
    """Both engines raise an exception of ours."""
    assert [type(each) for each in outcomes(proto, *feeds) if not isinstance(each, IntaglioError)] == []


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def layer(
    op: str, direction: str, layout: int = 0, lengths: bool = False, hidden_size: int | None = 5
) -> onnx.ModelProto:
    states = ["y", "h"] + (["c"] if op == "LSTM" else [])
    inputs = {"x": "f3", "w": "f3", "r": "f3"} | ({"lengths": "s1"} if lengths else {})
    attributes = {"direction": direction, "layout": layout} | ({} if hidden_size is None else {"hidden_size": 5})
    given = ["x", "w", "r", "", "lengths"] if lengths else ["x", "w", "r"]
    return model(inputs, states, (op, given, states, attributes))


@pytest.mark.parametrize("steps", [0, 4])
@pytest.mark.parametrize("hidden_size", [None, 5])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_of_open_hidden_size(op: str, direction: str, hidden_size: int | None, steps: int) -> None:
    count = 2 if direction == "bidirectional" else 1
    w, r = numbers(count, 5 * GATES[op], 3), numbers(count, 5 * GATES[op], 5)
    y, h, *_ = agree(layer(op, direction, hidden_size=hidden_size), numbers(steps, 2, 3), w, r)
    assert (y.shape, h.shape) == ((steps, count, 2, 5), (count, 2, 5))


def test_recurrent_layer_of_open_hidden_size_with_the_batch_first() -> None:
    y, h = agree(layer("GRU", "forward", layout=1), numbers(2, 0, 3), numbers(1, 15, 3), numbers(1, 15, 5))
    assert (y.shape, h.shape) == ((2, 0, 1, 5), (2, 1, 5))


@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_lengths_of_sequences_beyond_their_steps(op: str, steps: int) -> None:
    proto, rows = layer(op, "forward", lengths=True), 5 * GATES[op]
    weights = numbers(1, rows, 3), numbers(1, rows, 5)
    agree(proto, numbers(steps, 2, 3), *weights, np.array([steps, 0], np.int32))
    refuse(proto, numbers(steps, 2, 3), *weights, np.array([steps + 1, 0], np.int32))
    refuse(proto, numbers(steps, 2, 3), *weights, np.array([steps, -1], np.int32))


def test_reverse_sequence_of_no_steps_looks_at_its_lengths() -> None:
    proto = model({"x": "f2", "n": "i1"}, ["y"], ("ReverseSequence", ["x", "n"], ["y"], {}))
    agree(proto, numbers(0, 2), np.array([0, 0]))
    refuse(proto, numbers(0, 2), np.array([0, 1]))


def test_a_reshape_to_the_shape_of_something_smaller() -> None:
    """The target is known as an expression; -1 in its place would fit where it does not."""
    nodes = (
        ("Add", ["x", "bias"], ["sum"], {}),
        ("Shape", ["x"], ["shape"], {}),
        ("Reshape", ["sum", "shape"], ["y"], {}),
    )
    proto = model({"x": "f2", "bias": "f1"}, ["y"], *nodes)
    agree(proto, numbers(3, 4), numbers(4))
    agree(proto, numbers(3, 4), numbers(1))
    refuse(proto, numbers(3, 1), numbers(4))


def test_a_reshape_there_and_back() -> None:
    nodes = ("Shape", ["x"], ["there"], {}), ("Shape", ["z"], ["through"], {})
    views = ("Reshape", ["x", "through"], ["t"], {}), ("Reshape", ["t", "there"], ["y"], {})
    proto = model({"x": "f2", "z": "f1"}, ["y"], *nodes, *views)
    agree(proto, numbers(3, 4), numbers(12))
    refuse(proto, numbers(3, 4), numbers(11))


def test_a_reshape_to_a_shape_of_open_length() -> None:
    proto = model({"x": "f3", "shape": "i1"}, ["y"], ("Reshape", ["x", "shape"], ["y"], {}))
    agree(proto, numbers(1, 1, 1), np.array([], np.int64))
    refuse(proto, numbers(2, 3, 4), np.array([], np.int64))


@pytest.mark.parametrize("shape", [(2, 0, 3), (0, 4, 3), (2, 4, 3)])
def test_lrn_of_no_channels(shape: tuple[int, ...]) -> None:
    agree(model({"x": "f3"}, ["y"], ("LRN", ["x"], ["y"], {"size": 3})), numbers(*shape))


def test_squeeze_of_an_axis_named_twice() -> None:
    proto = model({"x": "f3", "axes": "i1"}, ["y"], ("Squeeze", ["x", "axes"], ["y"], {}))
    agree(proto, numbers(1, 1, 4), np.array([0, 1]))
    refuse(proto, numbers(1, 1, 4), np.array([0, -3]))


def test_split_with_a_part_that_is_negative() -> None:
    nodes = ("Shape", ["a"], ["first"], {}), ("Shape", ["x"], ["all"], {}), ("Sub", ["all", "first"], ["rest"], {})
    joined = ("Concat", ["first", "rest"], ["parts"], {"axis": 0}), ("Split", ["x", "parts"], ["y", "z"], {})
    proto = model({"x": "f1", "a": "f1"}, ["y", "z"], *nodes, *joined)
    agree(proto, numbers(5), numbers(2))
    agree(proto, numbers(5), numbers(5))
    refuse(proto, numbers(5), numbers(6))


def test_rotary_embedding_of_more_angles_than_places() -> None:
    nodes = ("RotaryEmbedding", ["x", "cos", "sin"], ["y"], {})
    proto = model({"x": "f4", "cos": "f3", "sin": "f3"}, ["y"], nodes)
    agree(proto, numbers(2, 4, 3, 8), numbers(1, 3, 4), numbers(1, 3, 4))
    refuse(proto, numbers(1, 4, 3, 8), numbers(2, 3, 4), numbers(2, 3, 4))
    refuse(proto, numbers(2, 4, 1, 8), numbers(2, 3, 4), numbers(2, 3, 4))


def test_zero_points_of_other_channels_than_the_kernels() -> None:
    proto = model({"x": "u4", "w": "u4", "zero": "u1"}, ["y"], ("ConvInteger", ["x", "w", "", "zero"], ["y"], {}))
    x, w = np.arange(49, dtype=np.uint8).reshape(1, 1, 7, 7), np.arange(2, dtype=np.uint8).reshape(2, 1, 1, 1)
    for count in (1, 2):
        agree(proto, x, w, np.ones(count, np.uint8))
    for count in (0, 3):
        refuse(proto, x, w, np.ones(count, np.uint8))
    refuse(proto, x, w[:1], np.ones(2, np.uint8))


def test_attention_with_values_of_no_size() -> None:
    proto = model({"q": "f4", "k": "f4", "v": "f4"}, ["y"], ("Attention", ["q", "k", "v"], ["y"], {}))
    (y,) = agree(proto, numbers(2, 4, 3, 8), numbers(2, 2, 6, 8), numbers(2, 2, 6, 0))
    assert y.shape == (2, 4, 3, 0)


def test_a_slice_whose_end_may_be_negative() -> None:
    """x[n:m - 1], of which only the run knows whether the end counts from the back."""
    nodes = ("Shape", ["n"], ["start"], {}), ("Shape", ["m"], ["length"], {})
    one = ("Constant", [], ["one"], {"value_ints": [1]}), ("Sub", ["length", "one"], ["end"], {})
    proto = model({"x": "f1", "n": "f1", "m": "f1"}, ["y"], *nodes, *one, ("Slice", ["x", "start", "end"], ["y"], {}))
    x = numbers(6)
    for n in range(8):
        for m in range(8):
            (y,) = agree(proto, x, numbers(n), numbers(m))
            np.testing.assert_array_equal(y, x[n : m - 1])


def scanned() -> onnx.ModelProto:
    """A Scan whose body expands to sizes that stand in an outer shape, and that the host runs: it joins strings too."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Expand", ["row", "sizes"], ["wide"]),
            helper.make_node("Add", ["state", "row"], ["next"]),
            helper.make_node("Det", ["wide"], ["out"]),
        ],
        "body",
        [value("state", 1, None), value("row", 1, None)],
        [value("next", 1, None), value("out", 1, None)],
    )
    nodes = (
        ("Shape", ["z"], ["sizes"], {}),
        ("Scan", ["start", "x"], ["end", "y"], {"body": body, "num_scan_inputs": 1}),
    )
    return model({"start": "f1", "x": "f2", "z": "f2"}, ["end", "y"], *nodes)


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_body_that_knows_sizes_by_what_an_outer_value_holds(rows: int) -> None:
    agree(scanned(), numbers(1), numbers(rows, 1), numbers(2, 2))
    refuse(scanned(), numbers(1), numbers(3, 2), numbers(3, 4))
