"""The one rewrite driver.

A rule is a function of a builder and a node, decorated with the operators at which it looks:

    @rule("Mul")
    def swish(b: Builder, node: Node) -> Result:
        \"\"\"x * sigmoid(x) -> swish(x)\"\"\"

It guards first and returns the value that takes the place of the node's output (a tuple for several outputs), None
where it does not apply, or a `Refusal` where it nearly applies, whose reason is reported. New nodes go before the node.
The driver checks the types of what it gets, keeps the names of the graph's outputs, removes what is then dead and goes
on until nothing changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TypeAlias

from intaglio.errors import GraphError, IntaglioError
from intaglio.ir.build import Builder, infer_node
from intaglio.ir.graph import Graph, Node, Value, replace_use
from intaglio.ir.limits import check_time
from intaglio.ir.op import OPERATORS, Op
from intaglio.ir.origin import Origin
from intaglio.ir.verify import is_compatible

ANY = "*"
"""Stands for every operator in `rule`."""
STEPS_PER_NODE = 20
"""A run of the driver stops after this many rewrites for each node that it began with."""
PATTERN_LIMIT = 64
"""The most nodes that one pattern may cover."""


@dataclass(frozen=True)
class Refusal:
    """Why a rule that nearly applies does not."""

    reason: str


Stays: TypeAlias = Callable[[Node], bool]
"""Says which nodes must be neither replaced nor removed."""

Allows: TypeAlias = Callable[[Node], bool]
"""Says which nodes a rule may add."""

Result: TypeAlias = Value | tuple[Value, ...] | Refusal | None
RuleFunction: TypeAlias = Callable[[Builder, Node], Result]


@dataclass(frozen=True)
class Rule:
    """A rewrite rule. `fuses` refuses a match whose inner values have readers outside it."""

    function: RuleFunction
    operators: tuple[str, ...]
    changes_rounding: bool
    fuses: bool

    @property
    def name(self) -> str:
        """The function's name with hyphens."""
        return self.function.__name__.replace("_", "-")

    @property
    def algebra(self) -> str:
        """What the rule does, from its docstring."""
        return (self.function.__doc__ or "").strip()


def rule(*operators: str, changes_rounding: bool = False, fuses: bool = False) -> Callable[[RuleFunction], Rule]:
    """Make a rule of a function; `operators` are the names of those (of ONNX's own domain) at which it looks."""
    return lambda function: Rule(function, operators, changes_rounding, fuses)


def rules_of(module: ModuleType) -> tuple[Rule, ...]:
    """All rules that a module defines, in order."""
    return tuple(item for item in vars(module).values() if isinstance(item, Rule))


@dataclass(frozen=True)
class Event:
    """A rule that was applied or refused, at the node with this path or output."""

    rule: str
    place: str
    reason: str = ""
    changes_rounding: bool = False


@dataclass
class Outcome:
    """What a run of the driver did."""

    applied: list[Event] = field(default_factory=list[Event])
    refused: list[Event] = field(default_factory=list[Event])
    is_complete: bool = True
    """False where the step limit stopped the run."""

    @property
    def has_changes(self) -> bool:
        """Whether the graph was changed."""
        return bool(self.applied)


def nothing_stays(node: Node) -> bool:
    """Every node may go."""
    del node
    return False


def all_allowed(node: Node) -> bool:
    """Every node may be added."""
    del node
    return True


def rewrite(
    graph: Graph,
    rules: Iterable[Rule],
    steps: int | None = None,
    stays: Stays = nothing_stays,
    allows: Allows = all_allowed,
) -> Outcome:
    """Apply the rules everywhere, also in subgraphs, until nothing changes or `steps` rewrites were made.

    A rule that would add a node which is not allowed does not apply.
    """
    return _Driver(graph, rules, steps, stays, allows).run()


class _Recorder(Builder):
    """A builder that remembers the nodes it added."""

    def __init__(self, graph: Graph, before: Node) -> None:
        super().__init__(graph, before, before.origin)
        self.added: list[Node] = []

    def add(
        self,
        op: Op,
        inputs: Sequence[Value | None],
        outputs: int = 1,
        names: Sequence[str] = (),
        origin: Origin | None = None,
    ) -> tuple[Value, ...]:
        """Add a node as Builder does."""
        values = super().add(op, inputs, outputs, names, origin)
        if values and values[0].producer is not None:
            self.added.append(values[0].producer)
        return values

    def undo(self) -> None:
        """Remove all added nodes."""
        for node in reversed(self.added):
            if node.graph is not None:
                node.graph.remove(node)


class _Driver:
    def __init__(self, graph: Graph, rules: Iterable[Rule], steps: int | None, stays: Stays, allows: Allows) -> None:
        self.graph = graph
        self.stays = stays
        self.allows = allows
        self.outcome = Outcome()
        self.steps = steps if steps is not None else STEPS_PER_NODE * (sum(1 for _ in graph.all_nodes()) + 10)
        self.retype = False
        self.rules: dict[str, list[Rule]] = {}
        for each in rules:
            for operator in each.operators:
                self.rules.setdefault(operator, []).append(each)

    def run(self) -> Outcome:
        """Rounds over all nodes until one changes nothing; in a round each change is followed up at once."""
        while True:
            before = len(self.outcome.applied)
            self.outcome.refused.clear()
            self.round()
            if len(self.outcome.applied) == before or not self.outcome.is_complete:
                break
        if self.retype:
            infer_graph(self.graph)
        return self.outcome

    def round(self) -> None:
        waiting = deque(self.graph.all_nodes())
        queued = set(waiting)
        while waiting:
            node = waiting.popleft()
            queued.discard(node)
            check_time()
            for follower in self.visit(node):
                if follower not in queued:
                    queued.add(follower)
                    waiting.append(follower)
            if not self.outcome.is_complete:
                return

    def visit(self, node: Node) -> list[Node]:
        """Try all rules at one node; the nodes that a rewrite has made worth another look."""
        if node.graph is None or self.stays(node):
            return []
        if is_dead(node):
            remove_dead([node], self.stays)
            return []
        for each in (*self.rules.get(node.op.name, ()), *self.rules.get(ANY, ())):
            if node.op.domain and each.operators != (ANY,):
                continue
            followers = self.apply(each, node)
            if followers is not None:
                return followers
        return []

    def apply(self, each: Rule, node: Node) -> list[Node] | None:
        """Try one rule; None where it did not apply."""
        assert node.graph is not None
        builder = _Recorder(node.graph, node)
        place = node.origin.path or f"%{node.outputs[0].name}"
        result = _try(each, builder, node)
        if isinstance(result, Value):
            result = (result,)
        if isinstance(result, tuple):
            _check_types(each, node, result)
            if each.fuses:
                result = _outside_reader(node, builder.added) or result
            result = self.not_allowed(builder.added) or result
        if isinstance(result, Refusal):
            self.outcome.refused.append(Event(each.name, place, result.reason, each.changes_rounding))
        if not isinstance(result, tuple) or not self.replace(node, result):
            builder.undo()
            return None
        self.outcome.applied.append(Event(each.name, place, changes_rounding=each.changes_rounding))
        self.outcome.is_complete = len(self.outcome.applied) < self.steps
        return [*builder.added, *(reader for value in result for reader in value.readers)]

    def not_allowed(self, added: Sequence[Node]) -> Refusal | None:
        """A refusal where a rule has added what may not be there."""
        if self.allows is all_allowed:
            return None
        names = [new.op.name for new in added if new.graph is not None and not self.allows(new)]
        return Refusal(f"{names[0]} may not be added here") if names else None

    def replace(self, node: Node, values: tuple[Value, ...]) -> bool:
        """Put values in the place of a node's outputs; False where that would change nothing."""
        pairs = [(old, new) for old, new in zip(node.outputs, values, strict=False) if old is not new and old.uses]
        moved = [replace_value(self.graph, old, new) for old, new in pairs]
        self.retype = self.retype or any(old.type != new.type for old, new in pairs)
        remove_dead([node], self.stays)
        return any(moved)


def _try(each: Rule, builder: Builder, node: Node) -> Result:
    """The rule's answer; an operator that cannot take what the rule would give it is a refusal."""
    try:
        with builder.active():
            return each.function(builder, node)
    except IntaglioError as error:
        return Refusal(str(error))


def _check_types(each: Rule, node: Node, values: tuple[Value, ...]) -> None:
    """A replacement of another type is a bug of the rule."""
    for old, new in zip(node.outputs, values, strict=False):
        if not is_compatible(new.type, old.type):
            raise GraphError(f"the rule {each.name} would replace {old!r} by {new!r}, which has another type")


def _outside_reader(node: Node, added: Sequence[Node]) -> Refusal | None:
    """A refusal where a value between the new nodes' inputs and the replaced node is read outside that pattern."""
    leaves = {value for new in added for value in new.inputs if value is not None}
    inside: dict[Node, None] = {node: None}
    waiting = [node]
    while waiting and len(inside) < PATTERN_LIMIT:
        for value in waiting.pop().inputs:
            producer = None if value is None or value in leaves or is_known(value) else value.producer
            if producer is not None and producer not in inside:
                inside[producer] = None
                waiting.append(producer)
    for inner in list(inside)[1:]:
        if inner.graph is not node.graph:
            return Refusal(f"%{inner.outputs[0].name} is computed outside this subgraph")
        for value in inner.outputs:
            outside = [user for user, _ in value.uses if user not in inside and user not in added]
            if outside:
                reader = repr(outside[0]) if isinstance(outside[0], Node) else "the graph"
                return Refusal(f"the inner value %{value.name} is also read by {reader}")
    return None


def is_known(value: Value) -> bool:
    """Whether the value is a constant, or integers that are known before the run."""
    return value.constant is not None or (
        value.contents is not None and all(type(i) is int for i in value.contents.flat)
    )


def replace_value(graph: Graph, old: Value, new: Value) -> bool:
    """Make all readers of `old` read `new`; the names of the model's outputs stay. False if nothing changed.

    Where `new` cannot take an output's name (it is an input, or an output itself) an Identity stands for the output.
    """
    if new.contents is None:
        new.contents = old.contents
    is_model_output = any(user is graph for user, _ in old.uses)
    is_input = new.producer is None and new.constant is None
    may_rename = not is_input and not any(user is graph for user, _ in new.uses)
    if not is_model_output or may_rename:
        if is_model_output or (not new.uses and not is_input):
            old.name, new.name = new.name, old.name
        old.replace_uses(new)
        return True
    others = [(user, position) for user, position in old.uses if user is not graph]
    for user, position in others:
        replace_use(user, position, new)
    producer = old.producer
    if producer is None or producer.op.name == "Identity" or producer.graph is not graph:
        return bool(others)
    (copy,) = Builder(graph, producer, producer.origin).add(OPERATORS["", "Identity"](), [new])
    old.name, copy.name = copy.name, old.name
    old.replace_uses(copy)
    return True


def is_dead(node: Node) -> bool:
    """Whether nobody reads any of the node's outputs."""
    return not any(value.uses for value in node.outputs)


def remove_dead(candidates: Iterable[Node], stays: Stays = nothing_stays) -> int:
    """Remove those of the nodes whose outputs nobody reads, and what only they read; the number of removed nodes."""
    waiting, removed = list(candidates), 0
    while waiting:
        node = waiting.pop()
        if node.graph is None or not is_dead(node) or stays(node):
            continue
        read = [value for value in (*node.inputs, *node.captures()) if value is not None]
        node.graph.remove(node)
        removed += 1
        waiting += [value.producer for value in read if value.producer is not None]
    return removed


def infer_graph(graph: Graph) -> None:
    """Infer all types anew, in order, those of subgraphs before the node that holds them."""
    for node in graph.nodes:
        for _, inner in node.op.subgraphs():
            infer_graph(inner)
        try:
            infer_node(node)
        except IntaglioError as error:
            raise GraphError(f"{node!r} at {node.origin.path!r} no longer fits its inputs: {error}") from None
