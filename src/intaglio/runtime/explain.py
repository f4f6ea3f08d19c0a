"""`model.explain()`: what runs, as text and as data."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from intaglio.c.target import Target
from intaglio.ir.dim import Dim
from intaglio.ir.graph import Graph
from intaglio.kernels.plan import Action, Call, HostStep, Plan, walk
from intaglio.ops.evaluate import describe
from intaglio.passes import Report


@dataclass(frozen=True)
class ExplainedCall:
    """One kernel call, one shape written by the driver, or one host node."""

    kind: str
    title: str
    kernel: str = ""
    nodes: tuple[str, ...] = ()
    flops: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Explanation:
    """How a model runs. `print(explanation)` shows a table; `to_dict` and `to_json` give the same as data."""

    engine: str
    target: str
    threads: int
    calls: tuple[ExplainedCall, ...]
    kernels: int
    segments: int
    notes: tuple[str, ...] = field(default=())
    memory: dict[str, Any] = field(default_factory=dict[str, Any])
    """The plan of memory with all sizes open; see `Model.memory_plan`."""

    @property
    def host_nodes(self) -> tuple[ExplainedCall, ...]:
        """The nodes that the reference engine runs inside a native plan."""
        return tuple(call for call in self.calls if call.kind == "host")

    def to_dict(self) -> dict[str, Any]:
        """The explanation as plain data."""
        return asdict(self)

    def to_json(self) -> str:
        """The explanation as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        lines = [
            f"{self.engine} engine, target {self.target}, up to {self.threads} threads: {len(self.calls)} steps, "
            f"{self.kernels} kernels, {self.segments} segments, {len(self.host_nodes)} host nodes"
        ]
        for index, call in enumerate(self.calls):
            work = f"  [{call.flops} flop]" if call.flops not in ("", "0") else ""
            reason = f"  ({call.reason})" if call.reason else ""
            lines.append(f"{index:4} {call.kind:6} {call.title}{work}{reason}")
        if self.memory:
            lines.append(f"memory of a run: {self.memory['total']} bytes, {self.memory['constants']} of them constants")
        return "\n".join([*lines, *self.notes])


def explain_plan(plan: Plan, target: Target, threads: int, report: Report | None) -> Explanation:
    """The explanation of a native plan."""
    calls: list[ExplainedCall] = []
    for step in plan.steps:
        if isinstance(step, HostStep):
            title = f"{step.node.op.name} -> {', '.join(repr(value) for value in step.node.outputs)}"
            calls.append(ExplainedCall("host", title, nodes=(describe(step.node),), reason=step.reason))
        else:
            calls += [_explain_action(action) for action in walk(step.actions) if action.title]
    segments = len(plan.steps) - len(plan.host_steps)
    return Explanation("native", target.name, threads, tuple(calls), len(plan.kernels), segments, _notes(report))


def _explain_action(action: Action) -> ExplainedCall:
    nodes = tuple(describe(node) for node in action.nodes)
    if isinstance(action, Call):
        return ExplainedCall("kernel", action.title, action.kernel.hint, nodes, _flops_text(action.flops))
    return ExplainedCall("shape", action.title, nodes=nodes)


def _flops_text(flops: Dim) -> str:
    return f"{flops:,}" if isinstance(flops, int) else str(flops)


def explain_reference(graph: Graph, report: Report | None) -> Explanation:
    """The explanation of a model on the reference engine: its nodes."""
    calls = tuple(
        ExplainedCall("node", f"{node.op.name} -> {', '.join(repr(v) for v in node.outputs)}", nodes=(describe(node),))
        for node in graph.nodes
    )
    return Explanation("reference", "numpy", 1, calls, 0, 0, _notes(report))


def _notes(report: Report | None) -> tuple[str, ...]:
    return () if report is None else tuple(f"simplified: {line.strip()}" for line in str(report).splitlines())
