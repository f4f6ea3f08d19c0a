"""The reference engine: watching, cancelling, limits, and expansions that hold subgraphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.present import constant, tensor

from intaglio.errors import LimitError
from intaglio.ir.build import Builder, EagerBuilder
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.limits import Limits, within
from intaglio.ir.op import Op
from intaglio.ir.text import parse_graph
from intaglio.ir.types import TensorType
from intaglio.ops.control import Loop
from intaglio.ops.evaluate import evaluate


class StopError(Exception):
    """What a watch raises here."""


def endless_loop() -> Graph:
    """A loop without a limit whose body has no nodes."""
    graph = Graph("endless")
    body = Graph("body", outer=graph)
    types = Loop.body_types("body", [None, None], {})
    condition = [body.add_input(name, tensor(type)) for name, type in zip(("i", "go"), types, strict=True)][1]
    x = graph.add_input("x", TensorType(FLOAT32, (2,)))
    body.add_input("v", x.type)
    body.set_outputs([condition, body.inputs[2]])
    graph.set_outputs([Builder(graph).Loop(None, None, x, body=body)])
    return graph


def test_a_loop_with_an_empty_body_can_be_stopped() -> None:
    seen: list[Node] = []

    def watch(node: Node) -> None:
        seen.append(node)
        if len(seen) == 100:
            raise StopError

    with pytest.raises(StopError):
        evaluate(endless_loop(), [np.zeros(2, np.float32)], watch=watch)
    assert {node.op.name for node in seen} == {"Loop"}


class Greedy(Op):
    """An operator that asks for more memory than there is."""

    domain = "test"

    def infer(self, x: Value) -> Any:
        return x.type

    def reference(self, x: Any) -> Any:
        raise MemoryError("Unable to allocate 8.00 EiB")


def test_memory_that_is_not_there_is_a_limit() -> None:
    graph = Graph("greedy")
    x = graph.add_input("x", TensorType(FLOAT32, (2,)))
    graph.set_outputs([Builder(graph, origin="node 7").apply(Greedy, x)])
    with pytest.raises(LimitError, match=r"Greedy at node 7 needs more memory for \(float32\[2\]\).*8.00 EiB"):
        evaluate(graph, [np.zeros(2, np.float32)])


def test_an_eager_builder_runs_operators_with_subgraphs() -> None:
    b = EagerBuilder()
    body = Graph("body")
    state, item = (body.add_input(name, TensorType(FLOAT32, ())) for name in ("state", "item"))
    inner = Builder(body)
    total = inner.Add(state, inner.Mul(item, b.constant(np.float32(10))))
    body.set_outputs([total, total])
    items = np.array([1, 2, 3], np.float32)
    last, all_sums = b.Scan(np.array(0, np.float32), items, body=body, num_scan_inputs=1, outputs=2)
    assert last.constant == 60
    assert constant(all_sums).tolist() == [10, 30, 60]


@pytest.mark.parametrize("names", [("outer", "inner"), ("one", "one"), ("", "")])
def test_a_loop_with_too_many_rounds_names_itself_once_and_what_is_around_it(names: tuple[str, str]) -> None:
    outer, inner = (f' @"{name}"' if name else "" for name in names)
    graph = parse_graph(f"""graph "g" (%x: float32[]) -> (%y) {{
      %y = Loop(int64[] {{2}}, _, %x; body=graph "b" (%i: int64[], %c: bool[], %p: float32[]) -> (%c, %r) {{
        %r = Loop(int64[] {{5}}, _, %p; body=graph "c" (%j: int64[], %d: bool[], %q: float32[]) -> (%d, %s) {{
          %s = Neg(%q)
        }}){inner}
      }}){outer}
    }}""")
    with within(Limits(loop_iterations=3)), pytest.raises(LimitError) as caught:
        evaluate(graph, [np.float32(2)])
    titles = [f"Loop at {name}" if name else "Loop" for name in names]
    assert str(caught.value) == f"{titles[0]}: {titles[1]} runs more than 3 rounds, the limit on loop_iterations"
