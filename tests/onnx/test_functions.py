"""Model-local functions, inlined when a model is read."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, parser

from intaglio.errors import LimitError, LoadError
from intaglio.ir.graph import Graph
from intaglio.onnx.limits import ReadLimits
from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate

X = np.asarray([1.0, -2.0], np.float32)
HEADER = '<ir_version: 10, opset_import: ["" : 17, "f" : 1]>'


def read(text: str, **options) -> Graph:
    return read_model(parser.parse_model(f"{HEADER} {text}"), **options).graph


def run(text: str, *inputs: np.ndarray) -> np.ndarray:
    return evaluate(read(text), list(inputs or [X]))[0]


DOUBLE = '<domain: "f", opset_import: ["" : 17]> Double (a) => (b) { b = Add(a, a) }'


def test_names_and_sources() -> None:
    graph = read(
        f"""g (float[2] x) => (float[2] y) {{ [call] y = f.Triple(x) }}
        <domain: "f", opset_import: ["" : 17, "f" : 1]> Triple (a) => (c) {{ t = f.Double(a) c = Add(t, a) }}
        {DOUBLE}"""
    )
    assert [node.outputs[0].name for node in graph.nodes] == ["call/t", "y"]
    assert [node.origin.path for node in graph.nodes] == [
        "call (Triple)/#0 (Double)/#0 (Add)",
        "call (Triple)/#1 (Add)",
    ]
    np.testing.assert_array_equal(evaluate(graph, [X])[0], 3 * X)


def test_two_calls_do_not_collide() -> None:
    graph = read(f"g (float[2] x) => (float[2] y) {{ [p] m = f.Double(x) [q] y = f.Double(m) }} {DOUBLE}")
    names = [value.name for node in graph.nodes for value in node.outputs]
    assert len(set(names)) == len(names)
    np.testing.assert_array_equal(evaluate(graph, [X])[0], 4 * X)


def test_attribute_references_and_defaults() -> None:
    scale = """<domain: "f", opset_import: ["" : 17]> Scale <factor : float = 3.0> (a) => (b) {
        c = Constant <value_float : float = @factor> () b = Mul(a, c) }"""
    np.testing.assert_array_equal(run(f"g (float[2] x) => (float[2] y) {{ y = f.Scale(x) }} {scale}"), 3 * X)
    given = f"g (float[2] x) => (float[2] y) {{ y = f.Scale <factor = 5.0> (x) }} {scale}"
    np.testing.assert_array_equal(run(given), 5 * X)


def test_attribute_passed_through_two_functions() -> None:
    functions = """
    <domain: "f", opset_import: ["" : 17, "f" : 1]> Outer <k> (a) => (b) { b = f.Inner <alpha : float = @k> (a) }
    <domain: "f", opset_import: ["" : 17]> Inner <alpha> (a) => (b) { b = LeakyRelu <alpha : float = @alpha> (a) }"""
    np.testing.assert_array_equal(
        run(f"g (float[2] x) => (float[2] y) {{ y = f.Outer <k = 0.5> (x) }} {functions}"), [1, -1]
    )


def test_a_reference_to_what_the_caller_left_out_is_left_out() -> None:
    leaky = """<domain: "f", opset_import: ["" : 17]> Leaky <alpha> (a) => (b) {
        b = LeakyRelu <alpha : float = @alpha> (a) }"""
    np.testing.assert_allclose(
        run(f"g (float[2] x) => (float[2] y) {{ y = f.Leaky(x) }} {leaky}"), [1, -0.02], rtol=1e-6
    )


def test_function_uses_its_own_opset() -> None:
    old = """<domain: "f", opset_import: ["" : 11]> Old (a) => (b) { b = Softmax(a) }"""
    x = np.random.default_rng(0).normal(size=(2, 2, 3)).astype(np.float32)
    result = run(f"g (float[2,2,3] x) => (float[2,2,3] y) {{ y = f.Old(x) }} {old}", x)
    flat = np.exp(x.reshape(2, 6))
    np.testing.assert_allclose(result.reshape(2, 6), flat / flat.sum(axis=1, keepdims=True), rtol=1e-5)


def test_a_function_takes_precedence_over_an_operator() -> None:
    mine = """<domain: "", opset_import: ["" : 17]> Softplus (a) => (b) { b = Neg(a) }"""
    model = parser.parse_model(f"{HEADER} g (float[2] x) => (float[2] y) {{ y = Softplus(x) }} {mine}")
    np.testing.assert_array_equal(evaluate(read_model(model).graph, [X])[0], -X)


def test_overloads() -> None:
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("F", ["x"], ["m"], domain="f"), helper.make_node("F", ["m"], ["y"], domain="f")]
    nodes[1].overload = "negative"
    opset = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    functions = [
        helper.make_function("f", "F", ["a"], ["b"], [helper.make_node("Exp", ["a"], ["b"])], opset),
        helper.make_function(
            "f", "F", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], opset, overload="negative"
        ),
    ]
    graph = helper.make_graph(nodes, "g", [value("x", 1, [2])], [value("y", 1, [2])])
    model = helper.make_model(graph, opset_imports=opset, functions=functions)
    np.testing.assert_allclose(evaluate(read_model(model).graph, [X])[0], -np.exp(X), rtol=1e-6)


def test_absent_inputs_are_passed_on() -> None:
    clip = """<domain: "f", opset_import: ["" : 17]> C (a, low, high) => (b) { b = Clip(a, low, high) }"""
    text = f"g (float[2] x, float h) => (float[2] y) {{ y = f.C(x, , h) }} {clip}"
    np.testing.assert_array_equal(run(text, X, np.array(0.5, np.float32)), [0.5, -2])
    text = f"g (float[2] x) => (float[2] y) {{ y = f.C(x) }} {clip}"
    np.testing.assert_array_equal(run(text), X)


def test_an_output_that_is_an_input_or_a_constant() -> None:
    same = """<domain: "f", opset_import: ["" : 17]> S (a) => (a, k) { k = Constant <value_float = 2.0> () }"""
    graph = read(f"g (float[2] x) => (float[2] y, float z) {{ y, z = f.S(x) }} {same}")
    assert [value.name for value in graph.outputs] == ["y", "z"]
    np.testing.assert_array_equal(evaluate(graph, [X])[0], X)
    assert evaluate(graph, [X])[1] == 2.0


def test_a_graph_attribute_sees_the_callers_values() -> None:
    """The branch that a call passes on reads `w` of the caller, not the function's `w`."""
    value = helper.make_tensor_value_info
    opset = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    branch = helper.make_graph([helper.make_node("Identity", ["w"], ["z"])], "b", [], [value("z", 1, [2])])
    choice = helper.make_node("If", ["c"], ["b"])
    for name in ("then_branch", "else_branch"):
        attribute = choice.attribute.add(name=name, ref_attr_name="body", type=5)
        assert attribute.ref_attr_name
    nodes = [
        helper.make_node("ReduceMax", ["a"], ["m"], keepdims=0),
        helper.make_node("Cast", ["m"], ["c"], to=9),
        helper.make_node("Neg", ["a"], ["w"]),
        choice,
    ]
    function = helper.make_function("f", "F", ["a"], ["b"], nodes, opset, attributes=["body"])
    calls = [helper.make_node("Exp", ["x"], ["w"]), helper.make_node("F", ["x"], ["y"], domain="f", body=branch)]
    graph = helper.make_graph(calls, "g", [value("x", 1, [2])], [value("y", 1, [2])])
    model = helper.make_model(graph, opset_imports=opset, functions=[function])
    np.testing.assert_allclose(evaluate(read_model(model).graph, [X])[0], np.exp(X), rtol=1e-6)


BAD = {
    "unknown attribute": ("y = f.Double <k = 1> (x)", "has the attribute 'k'"),
    "too many inputs": ("y = f.Double(x, x)", "takes at most 1 inputs, got 2"),
    "too many outputs": ("y, z = f.Double(x)", "asks for 2 outputs of the function f::Double, which has 1"),
    "missing input": ("y = f.Double()", "needs its input 'A'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_calls(name: str) -> None:
    nodes, text = BAD[name]
    with pytest.raises(ValueError, match=text):
        read(f"g (float[2] x) => (float[2] y) {{ {nodes} }} {DOUBLE}")


def test_problems_inside_a_function_name_the_way_to_it() -> None:
    bad = '<domain: "f", opset_import: ["" : 17]> Bad (a) => (b) { [deep] b = Relu(nothing) }'
    with pytest.raises(LoadError, match=r"^call \(Bad\)/deep \(Relu\): reads 'nothing'"):
        read(f"g (float[2] x) => (float[2] y) {{ [call] y = f.Bad(x) }} {bad}")


def test_a_function_defined_twice_is_refused() -> None:
    with pytest.raises(LoadError, match="f::Double is defined twice"):
        read(f"g (float[2] x) => (float[2] y) {{ y = f.Double(x) }} {DOUBLE} {DOUBLE}")


def test_the_cost_is_known_before_anything_is_inlined() -> None:
    chain = " ".join(
        f'<domain: "f", opset_import: ["" : 17, "f" : 1]> F{i} (a) => (b) {{ m = f.F{i + 1}(a) b = f.F{i + 1}(m) }}'
        for i in range(10)
    )
    chain += '<domain: "f", opset_import: ["" : 17]> F10 (a) => (b) { b = Relu(a) }'
    text = f"g (float[2] x) => (float[2] y) {{ y = f.F0(x) }} {chain}"
    assert len(read(text)) == 1024
    with pytest.raises(LimitError, match=r"1024 nodes .* the limit is 1000"):
        read(text, limits=ReadLimits(nodes=1000))
