"""`model.explain()`: what runs, as text and as data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from intaglio.c.target import Target
from intaglio.ir.dim import Dim
from intaglio.ir.graph import Graph
from intaglio.kernels.plan import (
    Action,
    Allocate,
    Assign,
    Bind,
    Branch,
    Call,
    Check,
    Fill,
    Grow,
    HostStep,
    Move,
    Pair,
    Plan,
    Repeat,
    Settle,
    Swap,
)
from intaglio.kernels.view import Buffer
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
    """Why a node is on the host, or why a kernel's nodes are not computed by the kernel before."""
    shape: str = ""
    layout: str = ""
    tile: str = ""
    bytes: str = ""
    """What the buffers hold that the kernel reads and writes."""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    """Buffers: what they hold, and where: in the arena, a constant, an input, an output, or allocated in the run."""
    depth: int = 0
    """How many branches and loops are around."""


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
    memory_summary: str = ""
    """The plan in a few lines."""

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
            facts = [f"{call.flops} flop" if call.flops not in ("", "0") else "", call.layout]
            facts += [f"tile {call.tile}" if call.tile else "", f"{call.bytes} bytes" if call.bytes else ""]
            work = f"  [{', '.join(fact for fact in facts if fact)}]" if any(facts) else ""
            reason = f"  ({call.reason})" if call.reason else ""
            lines.append(f"{index:4} {call.kind:6} {'  ' * call.depth}{call.title}{work}{reason}")
        return "\n".join([*lines, *([self.memory_summary] if self.memory_summary else []), *self.notes])


def explain_plan(plan: Plan, target: Target, threads: int, report: Report | None) -> Explanation:
    """The explanation of a native plan."""
    calls: list[ExplainedCall] = []
    for step in plan.steps:
        if isinstance(step, HostStep):
            title = f"{step.node.op.name} -> {', '.join(repr(value) for value in step.node.outputs)}"
            calls.append(ExplainedCall("host", title, nodes=(describe(step.node),), reason=step.reason))
        else:
            calls += _explain_block(step.actions, 0)
    segments = len(plan.steps) - len(plan.host_steps)
    notes = (*map(str, plan.faults), *_notes(report))
    return Explanation("native", target.name, threads, tuple(calls), len(plan.kernels), segments, notes)


def _explain_block(actions: Sequence[Action], depth: int) -> list[ExplainedCall]:
    found: list[ExplainedCall] = []
    for action in actions:
        if isinstance(action, (Branch, Repeat)):
            kind, words = ("branch", ("then", "else")) if isinstance(action, Branch) else ("loop", ("each round",))
            nodes = tuple(describe(node) for node in action.nodes)
            for word, block in zip(words, action.blocks, strict=True):
                found.append(ExplainedCall(kind, f"{action.title}: {word}", nodes=nodes, depth=depth))
                found += _explain_block(block, depth + 1)
        elif isinstance(action, Call):
            found.append(_explain_call(action, depth))
        elif action.title:
            nodes = tuple(describe(node) for node in action.nodes)
            found.append(ExplainedCall(_KINDS[type(action)], action.title, nodes=nodes, depth=depth))
    return found


_KINDS = {
    Fill: "shape",
    Bind: "size",
    Assign: "size",
    Allocate: "memory",
    Grow: "memory",
    Move: "memory",
    Pair: "memory",
    Swap: "memory",
    Settle: "memory",
    Check: "check",
}


def _explain_call(call: Call, depth: int) -> ExplainedCall:
    buffers = list(dict.fromkeys(operand.buffer for operand in call.operands))
    written = {operand.buffer for operand in call.operands if operand.is_written}
    moved: Dim = 0
    for buffer in buffers:
        moved = moved + buffer.bytes
    return ExplainedCall(
        "kernel",
        call.title,
        call.kernel.hint,
        tuple(describe(node) for node in call.nodes),
        _flops_text(call.flops),
        call.apart,
        str(call.nodes[-1].outputs[0].type) if call.nodes else "",
        "channels last" if any(node.op.name == "ChannelsLast" for node in call.nodes) else "",
        call.tile,
        _flops_text(moved) if moved != 0 else "",
        tuple(_buffer_text(buffer) for buffer in buffers if buffer not in written),
        tuple(_buffer_text(buffer) for buffer in buffers if buffer in written),
        depth,
    )


def _buffer_text(buffer: Buffer) -> str:
    places = {"arena": "arena", "late": "allocated in the run", "place": "one of two in the arena"}
    return f"{buffer.name}: {places.get(buffer.kind, buffer.kind)}, {_flops_text(buffer.bytes)} bytes"


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
