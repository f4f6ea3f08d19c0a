from __future__ import annotations

import numpy as np
import pytest
from tests.present import contents, operator, producer

import intaglio.ops  # noqa: F401  (registers the operators that the tests build)
from intaglio.errors import GraphError, ShapeError
from intaglio.ir.build import Builder, EagerBuilder, infer_node, take_place
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import DTYPES, FLOAT32, INT64, from_numpy
from intaglio.ir.expand import expand_in_place, expand_node
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.op import OPERATORS, Op, Tensor
from intaglio.ir.text import format_graph, parse_graph
from intaglio.ir.types import TensorType
from intaglio.ir.verify import verify


@pytest.fixture
def graph() -> Graph:
    graph = Graph("g")
    x = graph.add_input("x", TensorType(FLOAT32, (symbol("N"), 3)))
    b = Builder(graph)
    graph.set_outputs([b.Mul(b.Relu(x), b.Exp(x)), x])
    verify(graph)
    return graph


def by_name(graph: Graph) -> dict[str, Node]:
    return {node.op.name: node for node in graph.nodes}


def test_replace_uses_moves_every_reader(graph: Graph) -> None:
    x, relu = graph.inputs[0], by_name(graph)["Relu"].output
    graph.set_outputs([relu, relu, x])
    relu.replace_uses(x)
    assert graph.outputs == (x, x, x)
    assert by_name(graph)["Mul"].inputs[0] is x
    assert not relu.uses
    graph.remove(by_name(graph)["Relu"])
    verify(graph)


def test_removal_of_a_read_node_is_refused(graph: Graph) -> None:
    with pytest.raises(GraphError, match=r"cannot remove Relu\(%x\): .* is read by Mul"):
        graph.remove(by_name(graph)["Relu"])
    with pytest.raises(GraphError, match="is read by the graph"):
        graph.remove(by_name(graph)["Mul"])
    verify(graph)


def test_iteration_survives_removal_and_insertion(graph: Graph) -> None:
    graph.set_outputs(())
    seen = []
    for node in graph.nodes:
        seen.append(node.op.name)
        if node.op.name == "Relu":
            Builder(graph, before=node).Neg(graph.inputs[0])
            Builder(graph, before=node.next).Abs(graph.inputs[0])
        if node.op.name == "Mul":
            graph.remove(node)
    assert seen == ["Relu", "Abs", "Exp", "Mul"]
    assert [node.op.name for node in graph.nodes] == ["Neg", "Relu", "Abs", "Exp"]
    verify(graph)


def test_set_inputs_with_more_and_fewer(graph: Graph) -> None:
    b = Builder(graph)
    x = graph.inputs[0]
    node = producer(b.Concat(x, x, axis=0))
    node.set_inputs([x])
    assert list(x.uses).count((node, 0)) == 1
    assert (node, 1) not in x.uses
    node.set_inputs([x, x, x])
    infer_node(node)
    assert str(node.output.type) == "float32[3*N, 3]"
    verify(graph)


def test_removing_a_node_releases_what_its_subgraphs_read() -> None:
    graph = parse_graph("""
        graph "g" (%x: float32[N], %c: bool[]) -> (%a) {
          %a = Relu(%x)
          %b = If(%c; then_branch=graph "t" () -> (%p) { %p = Neg(%a) }, else_branch=graph "e" () -> (%a) {})
        }""")
    assert len(by_name(graph)["Relu"].output.uses) == 3
    graph.remove(by_name(graph)["If"])
    assert len(by_name(graph)["Relu"].output.uses) == 1
    verify(graph)


def test_names_are_unique_across_subgraphs(graph: Graph) -> None:
    inner = Graph("inner", outer=graph)
    assert inner.add_input("x", TensorType(FLOAT32, ())).name == "x_1"
    assert graph.unique_name("x") == "x_2"
    assert [graph.unique_name("relu_1"), graph.unique_name("relu")] == ["relu_1", "relu_2"]


def test_builder_takes_numbers_lists_and_inputs_by_name(graph: Graph) -> None:
    b = Builder(graph)
    x = graph.inputs[0]
    with b.active():
        value = 2 * x + 1
    assert value.dtype == FLOAT32
    assert str(b.ReduceSum(x, axes=[1], keepdims=0).type) == "float32[N]"
    assert str(b.Clip(x, max=6.0).type) == "float32[N, 3]"
    assert producer(b.Clip(x, max=6.0)).inputs[1] is None
    with pytest.raises(AttributeError, match="Rellu"):
        b.Rellu(x)  # pyright: ignore[reportAttributeAccessIssue]


def test_arithmetic_needs_a_builder(graph: Graph) -> None:
    with pytest.raises(GraphError, match="active builder"):
        _ = graph.inputs[0] + 1


def test_a_node_that_cannot_be_typed_leaves_no_trace(graph: Graph) -> None:
    before = str(graph)
    with pytest.raises(ShapeError, match="Add cannot take"):
        Builder(graph).Add(graph.inputs[0], graph.constant(np.ones(5, np.float32)))
    with pytest.raises(GraphError, match="needs its input"):
        Builder(graph).Add(graph.inputs[0])  # pyright: ignore[reportCallIssue]
    assert str(graph) == before
    verify(graph)


def test_contents_follow_shapes(graph: Graph) -> None:
    b = Builder(graph)
    shape = b.Shape(graph.inputs[0])
    assert [str(item) for item in contents(b.Concat(shape, [7], axis=0))] == ["N", "3", "7"]


def test_eager_builder_computes() -> None:
    b = EagerBuilder()
    with b.active():
        result = b.constant(np.array([1, -2], np.float32)) * 3.0
    np.testing.assert_array_equal(b.Relu(result).constant, np.array([3, 0], np.float32))


def test_expand_node_keeps_the_graph_whole() -> None:
    graph = parse_graph('graph "g" (%x: float32[N]) -> (%y) { %y = Swish(%x) }')
    expand_node(by_name(graph)["Swish"])
    assert "Swish" not in by_name(graph)
    verify(graph)


def test_equal_graphs_are_those_with_equal_text(graph: Graph) -> None:
    assert parse_graph(format_graph(graph)) == graph
    assert parse_graph(format_graph(graph).replace("Relu", "Abs")) != graph


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_every_element_type_is_found_from_numpy(dtype) -> None:
    assert from_numpy(dtype.numpy) is dtype
    assert np.zeros(2, dtype.numpy).dtype == dtype.numpy


def test_numpy_types_without_a_counterpart() -> None:
    assert from_numpy(np.dtype(">i8")) is INT64
    with pytest.raises(TypeError, match="datetime64"):
        from_numpy(np.dtype("datetime64[s]"))


def test_tensors_are_compared_by_bits() -> None:
    nan, zero = np.float32("nan"), np.float32(0)
    assert Tensor(nan) == Tensor(nan)
    assert hash(Tensor([nan])) == hash(Tensor([nan]))
    assert Tensor(zero) != Tensor(-zero)
    assert Tensor(zero) != Tensor(np.int32(0))
    assert Tensor(np.zeros(2)) != Tensor(np.zeros((2, 1)))
    with pytest.raises(ValueError, match="read-only"):
        Tensor(np.zeros(2)).array[0] = 1


def test_a_value_that_is_no_tensor_says_so() -> None:
    graph = parse_graph('graph "g" (%s: seq(float32[])) -> () {}')
    with pytest.raises(GraphError, match=r"s is seq\(float32\[\]\), a tensor is needed"):
        _ = graph.inputs[0].shape
    assert isinstance(graph.inputs[0], Value)


def test_expansion_in_place_keeps_values() -> None:
    graph = parse_graph('graph "g" (%x: float32[N]) -> (%y, %z) { %y = Swish(%x) %z = Neg(%y) }')
    value = graph.outputs[0]
    expand_in_place(by_name(graph)["Swish"])
    verify(graph)
    assert graph.outputs[0] is value
    assert (value.name, producer(value).op.name) == ("y", "Mul")
    assert [reader.op.name for reader in value.readers] == ["Neg"]


class Same(Op):
    """Its first input twice, and a constant."""

    domain = "test"
    output_names = ("a", "b", "c")

    def expand(self, b, x):
        return x, x, b.constant(np.array([1], np.float32))


def test_expansion_in_place_copies_what_was_there_before() -> None:
    graph = Graph("g")
    x = graph.add_input("x", TensorType(FLOAT32, (1,)))
    outputs = Builder(graph).add(Same(), [x], 3)
    graph.set_outputs(outputs)
    expand_in_place(producer(outputs[0]))
    verify(graph)
    assert graph.outputs == outputs
    assert [node.op.name for node in graph.nodes] == ["Identity"] * 3


def test_float_attributes_are_single_precision() -> None:
    single = float(np.float32(0.1))
    made = {operator("LeakyRelu", alpha=alpha) for alpha in (0.1, single, np.float32(0.1))}
    assert [op.alpha for op in made] == [single]
    assert operator("LeakyRelu", alpha=0.01) == operator("LeakyRelu")
    text = 'graph "g" (%x: float32[1]) -> (%y) { %y = LeakyRelu(%x; alpha=0.1) }'
    assert "alpha=0.1)" in str(parse_graph(text))
    assert next(iter(parse_graph(text).nodes)).op in made


def test_lists_of_floats_are_single_precision() -> None:
    scaler = operator("Scaler", "ai.onnx.ml", offset=(0.1,), scale=(1, 2))
    assert scaler.offset == (float(np.float32(0.1)),)
    assert scaler.scale == (1.0, 2.0)


def test_sizes_of_expansions_have_names_of_their_own() -> None:
    """Two windows whose lengths are data have two lengths, although one expansion gives the types of both."""
    graph = Graph("windows")
    builder = Builder(graph)
    lengths = [graph.add_input(name, TensorType(INT64, ())) for name in ("a", "b")]
    first, second = (builder.HannWindow(length) for length in lengths)
    assert first.shape != second.shape


def test_weights_open_and_inputs_close() -> None:
    graph = Graph()
    x = graph.add_input("x", TensorType(FLOAT32, (3,)))
    weight = graph.constant(np.arange(3, dtype=np.float32), "weight")
    (total,) = Builder(graph).add(OPERATORS["", "Add"](), [x, weight])
    graph.set_outputs([total])
    assert graph.open(weight) is weight
    assert graph.inputs == [x, weight]
    assert weight.constant is None
    for value in (weight, total):
        with pytest.raises(GraphError, match="cannot become an input"):
            graph.open(value)
    array = np.ones(3, np.float32)
    graph.close(x, array)
    assert graph.inputs == [weight]
    assert x.constant is array
    with pytest.raises(GraphError, match="is no input"):
        graph.close(x, array)


def test_an_opened_constant_forgets_its_elements() -> None:
    graph = Graph()
    shape = graph.constant(np.array([2, 3]), "shape")
    assert shape.contents is not None
    graph.open(shape)
    assert shape.contents is None


def test_nodes_are_counted_and_reversed_and_outputs_replaced() -> None:
    graph = Graph()
    x = graph.add_input("x", TensorType(FLOAT32, (3,)))
    builder = Builder(graph)
    first = builder.Exp(x)
    second = builder.Neg(first)
    graph.set_outputs([second, first])
    assert len(graph.nodes) == 2
    assert [node.op.name for node in reversed(graph.nodes)] == ["Neg", "Exp"]
    graph.set_output(0, first)
    assert graph.outputs == (first, first)
    assert not second.uses
    assert not Graph().nodes


def test_a_detached_node_leaves_its_outputs_to_others() -> None:
    graph = Graph()
    x = graph.add_input("x", TensorType(FLOAT32, (3,)))
    builder = Builder(graph)
    old = builder.Exp(x)
    graph.set_outputs([old])
    node = old.producer
    assert node is not None
    take_place(old, Builder(graph, before=node).Neg(x))
    graph.detach(node)
    assert [each.op.name for each in graph.nodes] == ["Neg"]
    assert graph.outputs[0].producer is graph.last
