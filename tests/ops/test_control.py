"""If, Loop and Scan, judged by ONNX Runtime; the models are written in ONNX's text form."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from tests.present import last_node

from intaglio.errors import IntaglioError, OperatorError, ShapeError
from intaglio.ir import dim
from intaglio.ir.build import infer_node
from intaglio.ir.types import SequenceType
from intaglio.onnx.reader import read_model
from intaglio.ops.control import retype
from intaglio.ops.evaluate import evaluate


def parse(text, opset=21):
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n{text}')


def check(text, *inputs, opset=21):
    """Read, run, and compare with ONNX Runtime; the graph and its outputs."""
    model = parse(text, opset)
    graph = read_model(model).graph
    results = evaluate(graph, list(inputs))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    names = [info.name for info in session.get_inputs()]
    expected: list[Any] = list(session.run(None, dict(zip(names, inputs, strict=True))))
    for ours, theirs in zip(results, expected, strict=True):
        if isinstance(theirs, list):
            assert [item.tolist() for item in ours] == [item.tolist() for item in theirs]
            continue
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    return graph, results


def floats(*values):
    return np.array(values, np.float32)


BRANCHES = """
g (bool c, float[N, 3] x) => (float[N, K] y) {
    y = If (c) <
        then_branch = t () => (float[N, 3] a) { a = Neg (x) },
        else_branch = e () => (float[N, 6] b) { b = Concat <axis = 1> (x, x) }
    >
}"""


@pytest.mark.parametrize("condition", [True, False])
def test_if_runs_one_branch(condition):
    graph, _ = check(BRANCHES, np.array(condition), np.arange(6, dtype=np.float32).reshape(2, 3))
    rows, columns = graph.outputs[0].shape
    assert rows == dim.symbol("N")
    assert not isinstance(columns, int)


def test_if_hides_the_sizes_that_only_a_branch_knows():
    text = """
    g (bool c, float[N] x) => (int64[A, B] y) {
        y = If (c) <
            then_branch = t () => (int64[A, B] a) { a = NonZero (x) },
            else_branch = e () => (int64[A, B] b) { n = Neg (x)  b = NonZero (n) }
        >
    }"""
    graph, _ = check(text, np.array(True), floats(1, 0, 2))
    node = last_node(graph)
    inside = {
        name
        for branch in (node.op.then_branch, node.op.else_branch)
        for v in branch.outputs
        for name in dim.symbols(v.shape[1])
    }
    assert graph.outputs[0].shape[0] == 1
    assert not dim.symbols(graph.outputs[0].shape[1]) & inside


def test_if_refuses_branches_of_different_types():
    text = """
    g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <
            then_branch = t () => (float[2] a) { a = Neg (x) },
            else_branch = e () => (int64[1] b) { b = Shape (x) }
        >
    }"""
    with pytest.raises(ShapeError, match="one value cannot be both"):
        read_model(parse(text))


COUNTED = """
g (int64 m, bool c, float[2] x) => (float[2] y, float[R, 2] z) {
    y, z = Loop (m, c, x) <
        body = b (int64 i, bool go, float[2] v) => (bool more, float[2] w, float[2] s) {
            more = Identity (go)
            t = Cast <to = 1> (i)
            w = Add (v, t)
            s = Neg (w)
        }
    >
}"""


@pytest.mark.parametrize("rounds", [0, 1, 4])
@pytest.mark.parametrize("condition", [True, False])
def test_counted_loop(rounds, condition):
    graph, _ = check(COUNTED, np.array(rounds, np.int64), np.array(condition), floats(1, 2))
    assert graph.outputs[0].shape == (2,)
    assert graph.outputs[1].shape[1] == 2


def test_loop_with_a_condition():
    text = """
    g (float x) => (float y, float[R] z) {
        m = Constant <value_int = 100> ()
        y, z = Loop (m, , x) <
            body = b (int64 i, bool go, float v) => (bool more, float w, float w2) {
                two = Constant <value_float = 2.0> ()
                w = Mul (v, two)
                w2 = Identity (w)
                limit = Constant <value_float = 50.0> ()
                more = Less (w, limit)
            }
        >
    }"""
    check(text, np.array(3, np.float32))


GROWING = """
g (int64 m, float[N] x) => (float[K] y) {
    y = Loop (m, , x) <
        body = b (int64 i, bool go, float[J] v) => (bool more, float[L] w) {
            more = Constant <value = bool {1}> ()
            w = Concat <axis = 0> (v, x)
        }
    >
}"""


@pytest.mark.parametrize("rounds", [0, 3])
def test_loop_whose_value_grows(rounds):
    graph, results = check(GROWING, np.array(rounds, np.int64), floats(1, 2))
    body = last_node(graph).op.body
    assert results[0].shape == (2 * (rounds + 1),)
    assert body.inputs[2].shape != (dim.symbol("N"),)
    assert body.outputs[1].shape == (body.inputs[2].shape[0] + dim.symbol("N"),)
    assert not isinstance(graph.outputs[0].shape[0], int)


def test_inferring_a_loop_again_changes_nothing():
    graph = read_model(parse(GROWING)).graph
    node = last_node(graph)
    before = [value.type for value in (*node.outputs, *node.op.body.inputs, *node.op.body.outputs)]
    infer_node(node)
    assert [value.type for value in (*node.outputs, *node.op.body.inputs, *node.op.body.outputs)] == before


def test_a_loop_follows_its_inputs_when_they_become_known():
    text = GROWING.replace("w = Concat <axis = 0> (v, x)", "w = Add (v, x)")
    graph = read_model(parse(text)).graph
    graph.inputs[1].type = graph.inputs[1].tensor.with_shape((4,))
    retype(graph, {graph.inputs[1]})
    assert last_node(graph).op.body.inputs[2].shape == (4,)
    assert graph.outputs[0].shape == (4,)


def test_loop_keeps_a_shape_that_does_not_change():
    text = GROWING.replace("w = Concat <axis = 0> (v, x)", "w = Add (v, x)")
    graph, _ = check(text, np.array(2, np.int64), floats(1, 2))
    assert graph.outputs[0].shape == (dim.symbol("N"),)
    assert last_node(graph).op.body.inputs[2].shape == (dim.symbol("N"),)


def test_loop_whose_rank_changes_has_no_rank():
    text = GROWING.replace(
        "w = Concat <axis = 0> (v, x)", "zero = Constant <value_ints = [0]> () w = Unsqueeze (v, zero)"
    )
    graph = read_model(parse(text.replace("float[J] v", "float v").replace("(float[K] y)", "(float y)"))).graph
    assert graph.outputs[0].tensor.shape is None
    assert evaluate(graph, [np.array(2, np.int64), floats(1, 2)])[0].shape == (1, 1, 2)


def test_loop_inside_a_loop_reads_outer_values():
    text = """
    g (int64 m, float[2] x) => (float[2] y) {
        y = Loop (m, , x) <
            body = b (int64 i, bool go, float[2] v) => (bool more, float[2] w) {
                more = Constant <value = bool {1}> ()
                w = Loop (m, , v) <
                    body = c (int64 j, bool go2, float[2] u) => (bool more2, float[2] t) {
                        more2 = Constant <value = bool {1}> ()
                        p = Add (u, x)
                        k = Cast <to = 1> (i)
                        t = Add (p, k)
                    }
                >
            }
        >
    }"""
    check(text, np.array(3, np.int64), floats(1, 2))


def test_loop_with_a_sequence():
    text = """
    g (int64 m, float[2] x) => (seq(float[2]) y) {
        e = SequenceEmpty ()
        y = Loop (m, , e) <
            body = b (int64 i, bool go, seq(float[2]) v) => (bool more, seq(float[2]) w) {
                more = Constant <value = bool {1}> ()
                w = SequenceInsert (v, x)
            }
        >
    }"""
    graph, _ = check(text, np.array(2, np.int64), floats(1, 2))
    assert isinstance(graph.outputs[0].type, SequenceType)


SCAN = """
g (float[2] s, float[T, 2] x, float[2, T] z) => (float[2] y, float[A, B] o, float[C, D] p) {
    y, o, p = Scan <num_scan_inputs = 2, scan_input_axes = [0, 1], scan_input_directions = [0, 1],
                    scan_output_axes = [1, 0], scan_output_directions = [0, 1],
        body = b (float[2] state, float[2] a, float[2] c) => (float[2] next, float[2] q, float[2] r) {
            t = Add (state, a)
            next = Mul (t, c)
            q = Neg (next)
            r = Identity (a)
        }
    > (s, x, z)
}"""


@pytest.mark.parametrize("length", [1, 3])
def test_scan(length):
    x = np.arange(2 * length, dtype=np.float32).reshape(length, 2)
    graph, _ = check(SCAN, floats(1, 2), x, x.T.copy() + 1)
    t = dim.symbol("T")
    assert [value.shape for value in graph.outputs] == [(2,), (2, t), (t, 2)]


def test_scan_over_nothing():
    graph = read_model(parse(SCAN)).graph
    results = evaluate(graph, [floats(1, 2), np.zeros((0, 2), np.float32), np.zeros((2, 0), np.float32)])
    assert [array.shape for array in results] == [(2,), (2, 0), (0, 2)]


def test_scan_refuses_different_lengths():
    graph = read_model(parse(SCAN.replace("float[2, T] z", "float[2, U] z"))).graph
    with pytest.raises(OperatorError, match=r"the lengths \[3, 2\]"):
        evaluate(graph, [floats(1, 2), np.zeros((3, 2), np.float32), np.zeros((2, 2), np.float32)])


def test_bodies_of_the_wrong_arity_are_refused():
    text = COUNTED.replace("y, z = Loop (m, c, x)", "y, z = Loop (m, c, x, x)")
    with pytest.raises(IntaglioError, match="a body with 3 inputs"):
        read_model(parse(text))


def nested_growth(depth):
    """Loops in loops, whose innermost lets its value grow."""
    body = "w0 = Concat <axis = 0> (v0, x)"
    for i in range(depth):
        head = f"body = b{i} (int64 i{i}, bool g{i}, float[D{i}] v{i}) => (bool m{i}, float[E{i}] w{i})"
        body = f"w{i + 1} = Loop (m, , v{i + 1}) < {head} {{ {body} m{i} = Constant <value = bool {{1}}> () }} >"
    return f"g (int64 m, float[N] x, float[N] v{depth}) => (float[K] w{depth}) {{ {body} }}"


def test_nested_growth_settles():
    """Each level widens the next; a time that multiplies with each level would be over the test's limit."""
    graph = read_model(parse(nested_growth(12))).graph
    assert not isinstance(graph.outputs[0].shape[0], int)
    check(nested_growth(2), np.array(2, np.int64), floats(1), floats(5))
