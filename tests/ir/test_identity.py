"""What identifies nodes, values and graphs: fields that every copy has, ids, digests."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest
from tests.present import producer

import intaglio.ops  # noqa: F401  (registers the operators that the tests build)
from intaglio.errors import GraphError
from intaglio.ir.build import Builder
from intaglio.ir.clone import clone
from intaglio.ir.digest import digest
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import FLOAT32, INT64
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.text import format_graph, parse_graph
from intaglio.ir.types import TensorType
from intaglio.passes import simplify

COPIES: dict[str, Callable[[Graph], Graph]] = {
    "clone": clone,
    "pickle": lambda graph: pickle.loads(pickle.dumps(graph)),
    "text": lambda graph: parse_graph(format_graph(graph)),
}


def made(scale: float = 2.0) -> Graph:
    graph = Graph("g")
    x = graph.add_input("x", TensorType(FLOAT32, (symbol("N"), 3)))
    size = graph.add_input("size", TensorType(INT64, (1,)))
    size.default = np.array([7])
    weight = graph.constant(np.arange(60, dtype=np.float32).reshape(3, 20), "weight")
    literal = graph.constant(np.array(scale, np.float32), "scale")
    literal.is_literal = True
    b = Builder(graph)
    graph.set_outputs([b.Mul(b.MatMul(x, weight), literal), size])
    return graph


def test_every_slot_is_a_field_or_a_link() -> None:
    for kind, hidden in ((Value, {"_contents": "contents"}), (Node, {"_inputs": "inputs"})):
        slots = {hidden.get(name, name) for name in kind.__slots__}
        assert slots == {*kind.FIELDS, *kind.LINKS}, "a new slot is copied (FIELDS) or made anew (LINKS)"
    assert len(Value("x", TensorType(FLOAT32, ())).state()) == len(Value.FIELDS)


@pytest.mark.parametrize("way", COPIES)
def test_copies_have_all_fields_ids_and_the_digest(way: str) -> None:
    graph = made()
    copy = COPIES[way](graph)
    assert [node.id for node in copy.nodes] == [node.id for node in graph.nodes]
    values = {value.id: value for value in (*graph.values(), *graph.constants())}
    for value in (*copy.values(), *copy.constants()):
        old = values[value.id]
        assert value is not old
        assert (value.name, value.type, value.is_literal) == (old.name, old.type, old.is_literal)
        for mine, theirs in ((value.constant, old.constant), (value.default, old.default)):
            assert (mine is None) == (theirs is None)
            np.testing.assert_array_equal(mine, theirs)
    assert digest(copy) == digest(graph)


def test_ids_stay_where_passes_do_not_touch_a_node_or_put_one_in_its_place() -> None:
    graph = Graph("g")
    x = graph.add_input("x", TensorType(FLOAT32, (3,)))
    b = Builder(graph)
    kept = b.Exp(x)
    graph.set_outputs([b.Neg(b.Identity(kept))])
    before = producer(kept).id, graph.outputs[0].id
    simplify(graph)
    assert [node.id for node in graph.nodes] == list(before)
    assert Node(producer(graph.outputs[0]).op, [x]).id == ""


def changed_constant(graph: Graph) -> None:
    (weight,) = [value for value in graph.constants() if value.name == "weight"]
    assert weight.constant is not None
    weight.constant = weight.constant.copy()
    weight.constant[0, 0] += 1


def changed_default(graph: Graph) -> None:
    graph.inputs[1].default = np.array([8])


def changed_contents(graph: Graph) -> None:
    graph.inputs[1].contents = np.array([symbol("N")], object)


def changed_operator(graph: Graph) -> None:
    graph.set_output(0, Builder(graph).Neg(graph.outputs[0]))


def changed_type(graph: Graph) -> None:
    graph.inputs[0].type = TensorType(FLOAT32, (symbol("M"), 3))


@pytest.mark.parametrize(
    "change", [changed_constant, changed_default, changed_contents, changed_operator, changed_type]
)
def test_whatever_decides_the_results_decides_the_digest(change: Callable[[Graph], None]) -> None:
    graph = made()
    change(graph)
    assert digest(graph) != digest(made())
    assert digest(made()) == digest(made())
    assert digest(made(3.0)) != digest(made())


def test_constants_that_are_no_arrays_have_no_digest() -> None:
    graph = made()
    graph.inputs[1].default = [np.zeros(1)]  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(GraphError, match="no digest"):
        digest(graph)
