from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import intaglio.ops  # noqa: F401  (registers the operators that the texts name)
from intaglio.errors import GraphError
from intaglio.ir.dtype import FLOAT32, INT64
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.text import parse_graph
from intaglio.ir.types import SequenceType, TensorType
from intaglio.ir.verify import is_compatible, verify

TEXT = """
graph "model" (%x: float32[N, 4], %c: bool[]) -> (%z) {
  %w: float32[4] = {1.0, 2.0, 3.0, 4.0}
  %a = Add(%x, %w) @"first"
  %b = Relu(%a) @"second"
  %d = If(%c; then_branch=graph "then" () -> (%p) {
    %p = Exp(%b)
  }, else_branch=graph "else" () -> (%q) {
    %q = Neg(%b)
  })
  %z = Mul(%d, %a)
}"""


def nodes(graph: Graph) -> dict[str, Node]:
    return {node.op.name: node for node in graph.all_nodes()}


def _late(graph: Graph) -> None:
    graph.move(nodes(graph)["Relu"], None)


def _escaped(graph: Graph) -> None:
    nodes(graph)["Mul"].set_input(1, nodes(graph)["Exp"].output)


def _inner_reads_later(graph: Graph) -> None:
    nodes(graph)["Exp"].set_input(0, nodes(graph)["Mul"].output)


def _lost_use(graph: Graph) -> None:
    value = nodes(graph)["Relu"].inputs[0]
    assert value is not None
    del value.uses[(nodes(graph)["Relu"], 0)]


def _false_use(graph: Graph) -> None:
    graph.inputs[0].uses[(nodes(graph)["Mul"], 0)] = None


def _stranger(graph: Graph) -> None:
    stranger = Node(nodes(graph)["Relu"].op, [graph.inputs[0]])
    stranger.outputs = (Value("s", graph.inputs[0].type, stranger),)


def _same_name(graph: Graph) -> None:
    nodes(graph)["Relu"].output.name = "a"


def _wrong_type(graph: Graph) -> None:
    nodes(graph)["Relu"].output.type = TensorType(FLOAT32, (4,))


def _wrong_dtype(graph: Graph) -> None:
    nodes(graph)["Relu"].output.type = TensorType(INT64, (4, 4))


def _wrong_constant(graph: Graph) -> None:
    (constant,) = graph.constants()
    constant.constant = np.ones(3, np.float32)


def _wrong_producer(graph: Graph) -> None:
    nodes(graph)["Relu"].output.producer = nodes(graph)["Add"]


def _unlinked(graph: Graph) -> None:
    nodes(graph)["Relu"].previous = None


def _cycle(graph: Graph) -> None:
    nodes(graph)["Mul"].next = nodes(graph)["Add"]


def _length(graph: Graph) -> None:
    graph._length += 1


def _bad_operand(graph: Graph) -> None:
    nodes(graph)["Add"].set_input(1, graph.constant(np.ones(3, np.float32)))


def _lost_output(graph: Graph) -> None:
    del graph.outputs[0].uses[(graph, 0)]


def _contents(graph: Graph) -> None:
    nodes(graph)["Relu"].output.contents = np.zeros(3, object)


FAULTS: list[tuple[Callable[[Graph], None], str]] = [
    (_late, "%b: .* is read by Neg.* is not defined before it"),
    (_escaped, "%p: .* is read by Mul.* not defined before"),
    (_inner_reads_later, "%z: .* is read by Exp.* not defined before"),
    (_lost_use, "%a does not know its reader Relu"),
    (_false_use, "%x lists Mul.* as its reader at 0, which does not"),
    (_stranger, "%x lists Relu.* which is not in the model"),
    (_same_name, "two values are named %a"),
    (_wrong_type, r"%b has type float32\[4\], Relu gives float32\[N, 4\]"),
    (_wrong_dtype, r"%b has type int64\[4, 4\], Relu gives float32\[N, 4\]"),
    (_wrong_constant, r"the constant %w holds float32\[3\], its type is float32\[4\]"),
    (_wrong_producer, "%b names Add.* as its producer"),
    (_unlinked, "does not link back"),
    (_cycle, "does not link back|cycle"),
    (_length, "5 were counted"),
    (_bad_operand, "Add cannot take"),
    (_lost_output, "%z does not know that graph 'model' returns it"),
    (_contents, "known contents"),
]


def test_a_sound_graph_passes() -> None:
    verify(parse_graph(TEXT))


@pytest.mark.parametrize(("break_it", "message"), FAULTS, ids=lambda item: getattr(item, "__name__", ""))
def test_each_fault_is_found(break_it: Callable[[Graph], None], message: str) -> None:
    graph = parse_graph(TEXT)
    break_it(graph)
    with pytest.raises(GraphError, match=message):
        verify(graph)


def test_the_message_shows_the_surroundings() -> None:
    graph = parse_graph(TEXT)
    nodes(graph)["Relu"].output.type = TensorType(FLOAT32, (4,))
    with pytest.raises(GraphError) as caught:
        verify(graph)
    assert str(caught.value).splitlines() == [
        "%b has type float32[4], Relu gives float32[N, 4] (in graph 'model')",
        '     1 | graph "model" (%x: float32[N, 4], %c: bool[]) -> (%z) {',
        "     2 |   %w: float32[4] = {1.0, 2.0, 3.0, 4.0}",
        '     3 |   %a: float32[N, 4] = Add(%x, %w) @"first"',
        '     4 |   %b: float32[4] = Relu(%a) @"second"',
        "       |   ^^",
        "     5 |   %d: float32[N, 4] = If(%c;",
        '     6 |       else_branch=graph "else" () -> (%q) {',
        "     7 |         %q: float32[N, 4] = Neg(%b)",
    ]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("float32[N]", "float32[M]", True),
        ("float32[N]", "float32[N + 1]", False),
        ("float32[2]", "float32[3]", False),
        ("float32[...]", "float32[3]", True),
        ("float32[2]", "float32[2, 1]", False),
        ("float32[2]", "float64[2]", False),
        ("seq(float32[2])", "seq(float32[N])", True),
        ("seq(float32[2])", "float32[2]", False),
        ("map(int64, float32[])", "map(string, float32[])", False),
    ],
)
def test_compatibility(left: str, right: str, expected: bool) -> None:
    graph = parse_graph(f'graph "g" (%a: {left}, %b: {right}) -> () {{}}')
    assert is_compatible(graph.inputs[0].type, graph.inputs[1].type) == expected
    assert is_compatible(SequenceType(graph.inputs[1].type), SequenceType(graph.inputs[0].type)) == expected
