"""What the backward passes of operators with bodies are made of: bodies computed anew, and the rounds of loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from intaglio.autodiff.reverse import Seeds, nodes_between, pull_back, remove_unread
from intaglio.autodiff.sequences import zero_bar
from intaglio.errors import UnsupportedError
from intaglio.ir.build import Builder, infer_types
from intaglio.ir.clone import clone_into
from intaglio.ir.dim import symbols
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.resize import type_symbols
from intaglio.ir.substitution import substitute
from intaglio.ir.types import TensorType, Type
from intaglio.ops.control import Loop, scan_slice
from intaglio.ops.logic import Identity

Bars = Sequence[Value | None]


class Backward:
    """A body that computes another one anew, and the gradients of that."""

    def __init__(self, b: Builder, body: Graph, straight_through: bool) -> None:
        self.graph = Graph(f"gradient of {body.name}", outer=b.graph)
        self.builder = Builder(self.graph, origin=b.origin)
        self.values: dict[Value, Value] = {}
        self._body = body
        self._straight_through = straight_through

    def input(self, value: Value, suffix: str = "", type: Type | None = None) -> Value:
        """A new input that is named after a value."""
        return self.graph.add_input(value.name + suffix, value.type if type is None else type)

    def pull_back(self, seeds: Callable[[], Seeds], wrt: Sequence[Value]) -> list[Value | None]:
        """Copy the body into this one, then differentiate the copy; `seeds` are asked for in between."""
        last = self.graph.last
        clone_into(self._body, self.graph, self.values)
        with self.builder.active():
            wanted = [self.values.get(value, value) for value in wrt]
            region = partial(nodes_between, self.graph, last, None)
            return pull_back(self.builder, region, seeds(), wanted, self._straight_through)

    def weighted(self, output: Value, bar: Value) -> tuple[Value, Value]:
        """An output of the body as it is here, with its gradient in that shape."""
        made = self.values.get(output, output)
        is_known = made.type == bar.type or not isinstance(made.type, TensorType)
        return made, bar if is_known else self.builder.Reshape(bar, self.builder.Shape(made), allowzero=1)

    def finish(self, results: Sequence[Value]) -> Graph:
        """Make the outputs, each computed in here, and leave out what nobody reads."""
        own = {value for node in self.graph.nodes for value in node.outputs}
        with self.builder.active():
            results = [value if value in own else self.builder.Identity(value) for value in results]
        results = [v if v not in results[:i] else self.builder.Identity(v) for i, v in enumerate(results)]
        self.graph.set_outputs(results)
        remove_unread(self.graph, results)
        _refuse_random(self.graph)
        return self.graph

    def drop(self) -> None:
        """Take all nodes out, so that nothing outside counts as read by them."""
        self.graph.set_outputs(())
        remove_unread(self.graph, ())


def _refuse_random(graph: Graph) -> None:
    for node in graph.all_nodes():
        mode = node.optional(2) if node.op.name == "Dropout" else None
        is_inference = node.op.name == "Dropout" and (
            mode is None or (mode.constant is not None and not mode.constant.any())
        )
        if node.op.is_random and not is_inference:
            raise UnsupportedError(
                f"its body draws random numbers in {node.op.name}, and the backward pass would draw others; "
                "draw them outside of the body"
            )


def or_zero(b: Builder, bars: Bars, values: Sequence[Value]) -> list[Value]:
    """The gradients, zeros in the place of those that are missing."""
    with b.active():
        return [zero_bar(b, value) if bar is None else bar for bar, value in zip(bars, values, strict=True)]


@dataclass(frozen=True)
class State:
    """A value that passes from round to round: where it starts, what the body gets and gives, and how it ends."""

    initial: Value
    given: Value
    carried: Value
    final: Value


@dataclass(frozen=True)
class Slices:
    """What the body gets or gives in each round, as one array outside: the axis, and whether it goes backwards."""

    outer: Value
    inner: Value
    axis: int
    direction: int


class Rounds:
    """A Loop or a Scan, in one vocabulary."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.body: Graph = node.op.body
        self.is_loop = isinstance(node.op, Loop)
        skipped = 2 if self.is_loop else 0
        count = len(node.inputs) - (skipped if self.is_loop else node.op.num_scan_inputs)
        operands = [node.needed(i) for i in range(skipped, len(node.inputs))]
        inner, made = self.body.inputs[skipped:], self.body.outputs[1 if self.is_loop else 0 :]
        self.states = [State(operands[i], inner[i], made[i], node.outputs[i]) for i in range(count)]
        self.scanned = self._slices(operands[count:], inner[count:], "scan_input")
        self.stacked = self._slices(node.outputs[count:], made[count:], "scan_output")

    def _slices(self, outer: Sequence[Value], inner: Sequence[Value], kind: str) -> list[Slices]:
        axes, directions = (getattr(self.node.op, f"{kind}_{name}", None) for name in ("axes", "directions"))
        rows = zip(outer, inner, axes or [0] * len(outer), directions or [0] * len(outer), strict=True)
        return [Slices(*row) for row in rows]

    def keep(self, given: Value) -> Slices:
        """An input of the body in all rounds, as one more stacked output of the operator, or one that it has."""
        for slices in self.stacked:
            producer = slices.inner.producer
            if slices.inner is given or (producer and producer.op.name == "Identity" and producer.input is given):
                return slices
        self.check_kept(given)
        builder = Builder(self.body, origin=self.node.origin)
        (copy,) = builder.add(Identity(), [given], names=[f"{given.name}.kept"])
        self.body.set_outputs((*self.body.outputs, copy))
        value = self._add_output(f"{given.name}.rounds")
        self.stacked.append(Slices(value, copy, 0, 0))
        return self.stacked[-1]

    def check_kept(self, given: Value) -> None:
        """Refuse what cannot be stacked. A size that merely may change is taken: a run in which it does is refused."""
        if not isinstance(given.type, TensorType):
            raise UnsupportedError(
                f"its body carries %{given.name}, a {given.type}, which cannot be kept for each round"
            )
        if given.type.shape is None:
            raise UnsupportedError(f"its body carries %{given.name}, whose rank is not known before the run")
        state = next((state for state in self.states if state.given is given), None)
        if state is not None and any(self._changes(state, axis) for axis in range(given.rank)):
            raise UnsupportedError(
                f"its body carries %{given.name}, whose size changes from round to round; a Loop may carry it"
            )

    def _changes(self, state: State, axis: int) -> bool:
        """Whether a size of a state goes on changing, or in a Loop is made of what only the body knows."""
        own, initial, carried = state.given.shape[axis], state.initial.tensor.shape, state.carried.tensor.shape
        outside = self.outside_symbols()
        if symbols(own) <= outside:
            return False
        if initial is None or carried is None:
            return True
        if not self.is_loop:
            later = substitute(carried[axis], dict.fromkeys(symbols(own), carried[axis]))
            return later != carried[axis]
        return isinstance(initial[axis], int) or not symbols(carried[axis]) <= outside

    def outside_symbols(self) -> set[str]:
        """The symbols of sizes that have one value in all rounds."""
        values = [value for value in (*self.node.inputs, *self.node.captures()) if value is not None]
        return set[str]().union(*(type_symbols(value.type) for value in values))

    def _add_output(self, hint: str) -> Value:
        node, op = self.node, self.node.op
        changes: dict[str, object] = {"output_count": op.output_count + 1}
        for name in ("scan_output_axes", "scan_output_directions"):
            if getattr(op, name, None) is not None:
                changes[name] = (*getattr(op, name), 0)
        node.op = op.changed(**changes)
        type = infer_types(node.op, node.inputs, op.output_count + 1, hint)[-1]
        if self.stacked and isinstance(type, TensorType) and type.shape:
            first = self.stacked[0]
            length = scan_slice(first.outer, first.axis)[0]
            type = type if length is None else type.with_shape((length, *type.shape[1:]))
        assert node.graph is not None
        value = Value(node.graph.unique_name(hint), type, node)
        node.outputs += (value,)
        return value
