"""Sequences and optionals."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from tests.present import tensor

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32, INT64
from intaglio.ir.graph import Graph
from intaglio.ir.op import OPERATORS
from intaglio.ir.types import OptionalType, SequenceType, TensorType
from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate

N, M = dim.symbol("N"), dim.symbol("M")


def check(body, *inputs, signature="float[A, B] x", result="float[C, D] y", opset=21):
    """Read, run, and compare with ONNX Runtime."""
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : {opset}]> g ({signature}) => ({result}) {{ {body} }}'
    )
    (ours,) = evaluate(read_model(model).graph, list(inputs))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    names = [info.name for info in session.get_inputs()]
    (theirs,) = session.run(None, dict(zip(names, inputs, strict=True)))
    pairs = list(zip(ours, theirs, strict=True)) if isinstance(theirs, list) else [(ours, theirs)]
    for left, right in pairs:
        assert np.asarray(left).dtype == np.asarray(right).dtype
        np.testing.assert_array_equal(left, right)
    return ours


def reference(name, *values, **attributes):
    return OPERATORS[("", name)](**attributes).reference(*values)


def matrix(rows=4, columns=3):
    return np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)


@pytest.mark.parametrize("position", [0, 1, -1, -2])
def test_construct_and_at(position):
    check(
        f"p = Constant <value_int = {position}> () n = Neg (x) s = SequenceConstruct (x, n) y = SequenceAt (s, p)",
        matrix(),
    )


@pytest.mark.parametrize("position", [None, 0, 1, 2, -1, -2])
def test_insert(position):
    place = "" if position is None else ", p"
    body = f"p = Constant <value_int = {position or 0}> () n = Neg (x) s = SequenceConstruct (x, x)"
    check(f"{body} y = SequenceInsert (s, n{place})", matrix(), result="seq(float[C, D]) y")


@pytest.mark.parametrize("position", [None, 0, -1])
def test_erase(position):
    place = "" if position is None else ", p"
    body = f"p = Constant <value_int = {position or 0}> () n = Neg (x) s = SequenceConstruct (x, n)"
    check(f"{body} y = SequenceErase (s{place})", matrix(), result="seq(float[C, D]) y")


def test_length_and_empty():
    check("s = SequenceEmpty () t = SequenceInsert (s, x) y = SequenceLength (t)", matrix(), result="int64 y")


@pytest.mark.parametrize(("split", "keepdims"), [(None, 0), (None, 1), ("2", 1), ("3", 1), ("[1, 3]", 1)])
def test_split_to_sequence(split, keepdims):
    constant = f"p = Constant <value_int{'s' if split and '[' in split else ''} = {split}> ()" if split else ""
    body = f"{constant} y = SplitToSequence <axis = 0, keepdims = {keepdims}> (x{', p' if split else ''})"
    check(body, matrix(), result="seq(float[C, D]) y" if split or keepdims else "seq(float[C]) y")


@pytest.mark.parametrize(("axis", "new_axis"), [(0, 0), (-1, 0), (0, 1), (2, 1), (-1, 1)])
def test_concat_from_sequence(axis, new_axis):
    body = f"n = Neg (x) s = SequenceConstruct (x, n) y = ConcatFromSequence <axis = {axis}, new_axis = {new_axis}> (s)"
    check(body, matrix(), result="float[C, D, E] y" if new_axis else "float[C, D] y")


def test_sequence_map():
    body = """
    s = SplitToSequence <axis = 0, keepdims = 0> (x)
    y = SequenceMap (s, b) <body = f (float[J] a, float[K] c) => (float[L] o) { o = Add (a, c) }>
    """
    check(body, matrix(), np.ones(3, np.float32), signature="float[A, B] x, float[B] b", result="seq(float[L]) y")


def test_positions_out_of_range_are_refused():
    sequence = [np.zeros(1), np.ones(1)]
    for name, wrong in [("SequenceAt", 2), ("SequenceAt", -3), ("SequenceErase", 2)]:
        with pytest.raises(OperatorError, match=f"position {wrong} is out of range for 2 elements: expected -2 to 1"):
            reference(name, sequence, np.array(wrong))
    with pytest.raises(OperatorError, match="expected -2 to 2"):
        reference("SequenceInsert", sequence, np.zeros(1), np.array(3))
    with pytest.raises(OperatorError, match="nothing to concatenate"):
        reference("ConcatFromSequence", [], axis=0)
    with pytest.raises(OperatorError, match="parts of size 0"):
        reference("SplitToSequence", matrix(), np.array(0))
    with pytest.raises(OperatorError, match="do not make up the size 4"):
        reference("SplitToSequence", matrix(), np.array([1, 2]))


def test_elements_may_differ_in_size():
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType(FLOAT32, (N, 2)))
    sequence = b.SplitToSequence(x, b.graph.add_input("s", TensorType(INT64, (3,))))
    first, second = (b.SequenceAt(sequence, np.array(i)) for i in (0, 1))
    assert first.shape[1] == second.shape[1] == 2
    assert first.shape[0] != second.shape[0]
    other = b.graph.add_input("y", TensorType(FLOAT32, (5, 2)))
    both = b.SequenceConstruct(x, other).type
    assert isinstance(both, SequenceType)
    assert not isinstance(tensor(both.element).dims[0], int)
    with pytest.raises(ShapeError, match="expected a sequence"):
        b.SequenceLength(x)


def test_optionals():
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType(FLOAT32, (N,)))
    full = b.Optional(x)
    assert full.type == OptionalType(x.type)
    assert b.OptionalGetElement(full).type == x.type
    assert b.OptionalGetElement(x).type == x.type
    empty = b.Optional(type=SequenceType(x.type))
    assert empty.type == OptionalType(SequenceType(x.type))
    with pytest.raises(ShapeError, match="an input or a type"):
        b.Optional()
    assert reference("OptionalHasElement", None).item() is False
    assert reference("OptionalHasElement", np.zeros(1)).item() is True
    assert reference("OptionalHasElement").item() is False
    with pytest.raises(OperatorError, match="holds nothing"):
        reference("OptionalGetElement", None)
