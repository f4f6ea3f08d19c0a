"""`simplify`: the passes in their order, each with its reason, repeated until nothing changes."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType

from intaglio.errors import InputError
from intaglio.ir.graph import Graph, Value
from intaglio.passes import (
    activations,
    affine,
    algebra,
    attention,
    batchnorm,
    branches,
    compact,
    constants,
    control,
    gathers,
    gelu,
    layernorm,
    noops,
    quantized,
    sequences,
    shapes,
)
from intaglio.passes.deadcode import remove_dead_code
from intaglio.passes.driver import (
    Allows,
    Event,
    Outcome,
    Rule,
    Stays,
    all_allowed,
    nothing_stays,
    rewrite,
    rules_of,
)
from intaglio.passes.duplicates import merge_equal_constants
from intaglio.passes.loops import simplify_loops
from intaglio.passes.subexpressions import merge_common_subexpressions

ROUNDS = 8
"""The pipeline is repeated at most this many times."""


@dataclass(frozen=True)
class Pass:
    """A step of the pipeline: rules for the driver, or a function of the graph; `reason` says why it stands here."""

    name: str
    reason: str
    rules: tuple[Rule, ...] = ()
    function: Callable[[Graph, Stays], Outcome] | None = None

    def without(self, *rules: str) -> Pass:
        """The pass without some of its rules."""
        return replace(self, rules=tuple(rule for rule in self.rules if rule.name not in rules))

    def run(
        self, graph: Graph, exact: bool = False, stays: Stays = nothing_stays, allows: Allows = all_allowed
    ) -> Outcome:
        """Apply the step; with `exact` the rules that may change rounding are left out."""
        if self.function is not None:
            return self.function(graph, stays)
        rules = [rule for rule in self.rules if not (exact and rule.changes_rounding)]
        return rewrite(graph, rules, stays=stays, allows=allows)


def _rewriting(name: str, module: ModuleType, reason: str) -> Pass:
    return Pass(name, reason, rules=rules_of(module))


PIPELINE: tuple[Pass, ...] = (
    Pass("dead-code", "first, so that nothing is done for what nobody reads", function=remove_dead_code),
    _rewriting("fold-shapes", shapes, "before constants: Shape of a value needs no constant, and makes some"),
    _rewriting(
        "integer-arithmetic", quantized, "before constants, which would take weights out of their quantized form"
    ),
    _rewriting("fold-constants", constants, "before control flow, whose conditions it computes"),
    _rewriting("constant-control", control, "before all patterns, which do not reach into a branch"),
    _rewriting("remove-noops", noops, "before subexpressions, so that equal values are reached the same way"),
    Pass(
        "common-subexpressions",
        "before patterns, which compare values by identity",
        function=merge_common_subexpressions,
    ),
    _rewriting("sequences", sequences, "before loops: what reads tensors in the place of sequences can be compiled"),
    Pass("loops", "before patterns, which do not reach out of a body", function=simplify_loops),
    _rewriting("algebra", algebra, "before patterns, so that they meet one spelling of a formula"),
    _rewriting("fuse-batchnorm", batchnorm, "before activations, so that they stand behind the convolution"),
    _rewriting("merge-branches", branches, "after normalisations, which are in the weights of their convolutions now"),
    _rewriting("recognise-gelu", gelu, "before activations, which share its inner nodes"),
    _rewriting("recognise-layernorm", layernorm, "after algebra, which writes squares one way"),
    _rewriting("recognise-attention", attention, "after shapes and constants, which make its scale a number"),
    _rewriting("recognise-activations", activations, "last of the patterns: its rules are the least specific"),
)
"""What `simplify` runs, in this order, and again until nothing changes."""

FOR_FILES: tuple[Pass, ...] = (
    Pass("equal-constants", "first: what reads them is equal too then", function=merge_equal_constants),
    *(each.without("transpose-of-concat") for each in PIPELINE if each.name != "integer-arithmetic"),
    _rewriting("fold-affine", affine, "after normalisations and patterns, which look for the factors that it takes"),
    _rewriting("compact", compact, "last: the patterns know the longer spelling"),
)
"""What makes a graph that is written for others small; it has no passes for the sake of our own kernels."""

_PATTERNS = (
    "fold-shapes", "fold-constants", "remove-noops", "common-subexpressions", "algebra", "recognise-gelu",
    "recognise-attention",
)  # fmt: skip
_RECOGNITION = (
    *(each for each in PIPELINE if each.name in _PATTERNS),
    _rewriting("gathers", gathers, "what is taken one by one has a dear gradient"),
)
"""What `recognise` runs."""


@dataclass
class Report:
    """What `simplify` did: the rules applied and refused by pass, and the number of nodes before and after."""

    nodes_before: int = 0
    nodes_after: int = 0
    rounds: int = 0
    applied: dict[str, list[Event]] = field(default_factory=dict[str, list[Event]])
    refused: dict[str, list[Event]] = field(default_factory=dict[str, list[Event]])
    incomplete: list[str] = field(default_factory=list[str])
    """Passes that the step limit stopped; the graph is right all the same."""

    @property
    def changes_rounding(self) -> bool:
        """Whether some applied rule can change the rounding of a result."""
        return any(event.changes_rounding for events in self.applied.values() for event in events)

    def add(self, name: str, outcome: Outcome) -> None:
        """Count one run of a pass in; a refusal is kept unless the rule was applied there later."""
        self.applied.setdefault(name, []).extend(outcome.applied)
        applied = {(event.rule, event.place) for event in self.applied[name]}
        met = dict.fromkeys([*self.refused.get(name, ()), *outcome.refused])
        self.refused[name] = [event for event in met if (event.rule, event.place) not in applied]
        if not outcome.is_complete:
            self.incomplete.append(name)

    def __str__(self) -> str:
        lines = [f"{self.nodes_before} nodes -> {self.nodes_after} in {self.rounds} rounds"]
        for name, events in self.applied.items():
            counts = Counter((event.rule, event.changes_rounding) for event in events)
            for (rule, rounding), count in counts.items():
                lines.append(f"  {name}: {rule} {count} times{' (can change rounding)' if rounding else ''}")
        for name, events in self.refused.items():
            lines += [f"  {name}: {event.rule} refused at {event.place}: {event.reason}" for event in events]
        lines += [f"  {name}: stopped at its step limit" for name in self.incomplete]
        return "\n".join(lines)


def simplify(
    graph: Graph,
    *,
    disable: Collection[str] = (),
    exact: bool = False,
    pipeline: Sequence[Pass] = PIPELINE,
    stays: Stays = nothing_stays,
    allows: Allows = all_allowed,
    budget: constants.Budget | None = None,
) -> Report:
    """Rewrite the graph in place to a simpler one with the same meaning, and report what was done.

    `disable` names passes to leave out; `exact` leaves out the rules that can change the rounding of a result. A node
    that `stays` is neither replaced nor removed, and rules add no node but what the caller `allows`. `budget` is what
    folding of constants may cost.
    Raises InputError for a name that no pass has.
    """
    _check_names(disable, pipeline)
    report = Report(nodes_before=_count(graph))
    with constants.budget(budget):
        while report.rounds < ROUNDS:
            report.rounds += 1
            outcomes = [
                (each.name, each.run(graph, exact, stays, allows)) for each in pipeline if each.name not in disable
            ]
            for name, outcome in outcomes:
                report.add(name, outcome)
            if not any(outcome.has_changes for _, outcome in outcomes):
                break
    report.nodes_after = _count(graph)
    return report


def recognise(graph: Graph, kept: Collection[Value], *, disable: Collection[str] = (), exact: bool = False) -> None:
    """Put operators that have short gradients in the place of those that spell them out, before a graph is
    differentiated.

    `kept` are values that the graph is differentiated by, or that are read later: they stay, and so do the outputs.
    Constants among them count as unknown.
    """
    outputs, constants = list(graph.outputs), {value: value.constant for value in kept if value.constant is not None}
    pinned = dict.fromkeys([*outputs, *(value for value in kept if value.producer is not None)])
    pipeline = [each for each in _RECOGNITION if each.name not in disable]
    graph.set_outputs(pinned)
    for value in constants:
        value.constant = None
    try:
        simplify(graph, exact=exact, pipeline=pipeline, stays=lambda node: any(v in pinned for v in node.outputs))
    finally:
        graph.set_outputs(outputs)
        for value, constant in constants.items():
            value.constant = constant


def _count(graph: Graph) -> int:
    return sum(1 for _ in graph.all_nodes())


def _check_names(names: Collection[str], pipeline: Sequence[Pass]) -> None:
    known = [each.name for each in pipeline]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"the passes are {', '.join(known)}"
            raise InputError(f"there is no pass {name!r}; {hint}")
