"""`model.explain()`: what runs, as text and as data."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from intaglio.ir.dim import Dim, has_choice
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.html import line, table, titled
from intaglio.ir.types import TensorType
from intaglio.kernels.plan import (
    Action,
    Allocate,
    Assign,
    Branch,
    Call,
    Check,
    Commit,
    Fill,
    FindSizes,
    Grow,
    Move,
    Pair,
    Repeat,
    Settle,
    Swap,
)
from intaglio.kernels.plan_form import HostForm, PlanForm
from intaglio.kernels.view import Buffer
from intaglio.ops.evaluate import describe
from intaglio.passes import Report
from intaglio.runtime.engine.lowered import Lowered
from intaglio.runtime.model.naming import Sizes, name_sizes

WIDTH = 160
"""The columns that a line of text has at most."""


def fold_lines(text: str) -> str:
    """Text whose long lines go on in further lines, which are indented."""
    return "\n".join(each for given in text.split("\n") for each in _fold(given))


def _fold(given: str) -> list[str]:
    if len(given) <= WIDTH:
        return [given]
    return textwrap.wrap(given, WIDTH, subsequent_indent=" " * 12, break_on_hyphens=False, expand_tabs=False)


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

    @property
    def facts(self) -> list[str]:
        """What there is to say of the work: operations, layout, tile and bytes."""
        facts = [f"{self.flops} flop" if self.flops not in ("", "0") else "", self.layout]
        facts += [f"tile {self.tile}" if self.tile else "", f"{self.bytes} bytes" if self.bytes else ""]
        return [fact for fact in facts if fact]

    @property
    def remarks(self) -> str:
        """Layout, tile and reason in one text."""
        return "; ".join(text for text in (self.layout, f"tile {self.tile}" if self.tile else "", self.reason) if text)


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
    """The plan of memory; see `Model.memory_plan`."""
    memory_summary: str = ""
    """The plan in a few lines."""
    dims: dict[str, int] = field(default_factory=dict[str, int])
    """The sizes that were given for named dimensions."""
    sizes: dict[str, str] = field(default_factory=dict[str, str])
    """Names for expressions of sizes that occur several times, each of them in terms of those before it."""

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
        lines = [self._title()]
        for index, call in enumerate(self.calls):
            facts = call.facts
            work = f"  [{', '.join(facts)}]" if facts else ""
            reason = f"  ({call.reason})" if call.reason else ""
            lines.append(f"{index:4} {call.kind:6} {'  ' * call.depth}{call.title}{work}{reason}")
        lines += [f"where {name} = {text}" for name, text in self.sizes.items()]
        return fold_lines("\n".join([*lines, *([self.memory_summary] if self.memory_summary else []), *self.notes]))

    def _title(self) -> str:
        given = ", ".join(f"{name} = {size}" for name, size in self.dims.items())
        return (
            f"{self.engine} engine, target {self.target}, up to {self.threads} threads: {len(self.calls)} steps, "
            f"{self.kernels} kernels, {self.segments} segments, {len(self.host_nodes)} host nodes"
            f"{', for ' + given if given else ''}"
        )

    def _repr_html_(self) -> str:
        """The explanation as a table, for notebooks."""
        rows = [
            (index, call.kind, "\u2003" * call.depth + call.title, call.flops, call.bytes, call.remarks)
            for index, call in enumerate(self.calls)
        ]
        sizes = table(("size", "is"), self.sizes.items()) if self.sizes else ""
        notes = [line(text) for note in (self.memory_summary, *self.notes) for text in note.splitlines()]
        calls = table(("#", "kind", "what", "#operations", "#bytes", "remarks"), rows)
        return titled(self._title(), calls, sizes, *notes)


def explain_plan(lowered: Lowered, device: str, threads: int, report: Report | None, sizes: Sizes) -> Explanation:
    """The explanation of a native plan, with numbers and names for sizes."""
    form, block = lowered.form, _Block(lowered, sizes)
    calls: list[ExplainedCall] = []
    for part in form.parts:
        if isinstance(part, HostForm):
            title = _node_title(lowered.node(part.node.id), sizes)
            calls.append(ExplainedCall("host", title, nodes=(str(part.node),), reason=part.refusal.text))
        else:
            calls += block.explained(part.actions, 0)
    notes = (*map(str, form.faults), *_memory_notes(form), *_notes(report))
    return Explanation("native", device, threads, tuple(calls), len(form.kernels), len(form.segments), notes)


def _memory_notes(form: PlanForm) -> Iterator[str]:
    """Which outputs take the memory of inputs, and which are copied there, and why."""
    for segment in form.segments:
        for alias in segment.aliases:
            yield f"in place: {segment.outputs[alias.output]} takes the memory of {segment.inputs[alias.input]}"
    for made, given, reason in form.apart:
        yield f"copied at the end: {form.outputs[made]} to the memory of {form.inputs[given]}, because {reason}"


def sizes_of_plan(lowered: Lowered, dims: Mapping[str, int]) -> Sizes:
    """Numbers for named dimensions, and names for the sizes of a plan's tensors that occur several times."""
    return name_sizes([size for node in lowered.all_nodes() for size in _sizes_of(node.outputs)], dims)


def sizes_of_graph(graph: Graph, dims: Mapping[str, int]) -> Sizes:
    """The same for the nodes of a graph."""
    return name_sizes([size for node in graph.nodes for size in _sizes_of(node.outputs)], dims)


def _node_title(node: Node, sizes: Sizes) -> str:
    outputs = ", ".join(sizes.put_into_text(repr(value), _sizes_of([value])) for value in node.outputs)
    return f"{node.op.name} -> {outputs}"


def _sizes_of(values: Sequence[Value | None]) -> Iterator[Dim]:
    for value in values:
        if value is not None and isinstance(value.type, TensorType):
            yield from value.type.shape or ()


_KINDS = {
    Fill: "shape",
    FindSizes: "size",
    Assign: "size",
    Allocate: "memory",
    Grow: "memory",
    Move: "memory",
    Pair: "memory",
    Swap: "memory",
    Settle: "memory",
    Check: "check",
    Commit: "check",
}


class _Block:
    """Explains actions; what is known of their nodes is in the side table of the plan."""

    def __init__(self, lowered: Lowered, sizes: Sizes) -> None:
        self._lowered, self._sizes = lowered, sizes

    def explained(self, actions: Sequence[Action], depth: int) -> list[ExplainedCall]:
        """Some actions and those inside of them."""
        return [each for action in actions for each in self._action(action, depth)]

    def _action(self, action: Action, depth: int) -> Iterator[ExplainedCall]:
        nodes = tuple(map(str, action.served))
        if isinstance(action, (Branch, Repeat)):
            kind, words = ("branch", ("then", "else")) if isinstance(action, Branch) else ("loop", ("each round",))
            for word, block in zip(words, action.blocks, strict=True):
                yield ExplainedCall(kind, f"{action.title}: {word}", nodes=nodes, depth=depth)
                yield from self.explained(block, depth + 1)
        elif isinstance(action, Call):
            yield self._call(action, depth)
        elif action.title:
            title = self._sizes.put_into_text(action.title, self._sizes_of_action(action))
            yield ExplainedCall(_KINDS[type(action)], title, nodes=nodes, depth=depth)

    def _sizes_of_action(self, action: Action) -> Iterator[Dim]:
        """The sizes that may stand in an action's title."""
        for node in self._lowered.nodes(action):
            yield from _sizes_of([*node.inputs, *node.outputs])
        if isinstance(action, Call):
            yield from (size for _, size in action.sizes if not has_choice(size))
        if isinstance(action, Check):
            yield from (size for pair in action.pairs for size in pair)

    def _call(self, call: Call, depth: int) -> ExplainedCall:
        buffers = list(dict.fromkeys(operand.buffer for operand in call.operands))
        written = {operand.buffer for operand in call.operands if operand.is_written}
        sizes, moved = self._sizes, sum((self._sizes.put(buffer.bytes) for buffer in buffers), 0)
        nodes = self._lowered.nodes(call)
        return ExplainedCall(
            "kernel",
            sizes.put_into_text(call.title, self._sizes_of_action(call)),
            call.kernel.hint,
            tuple(map(str, call.served)),
            _flops_text(sizes.put(call.flops)),
            call.not_fused,
            str(sizes.put_into_type(nodes[-1].outputs[0].type)) if nodes else "",
            "channels last" if any(node.operator == "ChannelsLast" for node in call.served) else "",
            call.tile,
            _flops_text(moved) if moved != 0 else "",
            tuple(_buffer_text(buffer, sizes) for buffer in buffers if buffer not in written),
            tuple(_buffer_text(buffer, sizes) for buffer in buffers if buffer in written),
            depth,
        )


def _buffer_text(buffer: Buffer, sizes: Sizes) -> str:
    if buffer.place is not None:
        return f"{buffer.name}: in {buffer.home.name}, {_flops_text(sizes.put(buffer.bytes))} bytes"
    places = {"arena": "arena", "late": "allocated in the run", "place": "one of two in the arena"}
    return f"{buffer.name}: {places.get(buffer.kind, buffer.kind)}, {_flops_text(sizes.put(buffer.bytes))} bytes"


def _flops_text(flops: Dim) -> str:
    return f"{flops:,}" if isinstance(flops, int) else str(flops)


def explain_reference(graph: Graph, report: Report | None, sizes: Sizes) -> Explanation:
    """The explanation of a model on the reference engine: its nodes."""
    calls = tuple(ExplainedCall("node", _node_title(node, sizes), nodes=(describe(node),)) for node in graph.nodes)
    return Explanation("reference", "numpy", 1, calls, 0, 0, _notes(report))


def _notes(report: Report | None) -> tuple[str, ...]:
    return () if report is None else tuple(f"simplified: {line.strip()}" for line in str(report).splitlines())
