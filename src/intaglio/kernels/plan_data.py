"""Plans as JSON holds them, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any

from intaglio.errors import GraphError
from intaglio.ir.dim import Dim
from intaglio.ir.dim_data import DimReader, DimWriter
from intaglio.ir.dtype import DTYPES
from intaglio.ir.requirements import Requirement
from intaglio.kernels.faults import Fault
from intaglio.kernels.kernel import FileKernel, Kernel, LibraryCall, SourceBuffer, SourceKernel
from intaglio.kernels.language import LoopKernel
from intaglio.kernels.language_text import format_kernel, parse_kernel
from intaglio.kernels.plan import (
    Action,
    Alias,
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
    NodeForm,
    Operand,
    Pair,
    Repeat,
    Settle,
    Swap,
)
from intaglio.kernels.plan_form import ConstantForm, HostForm, PlanForm, SegmentForm, ValueForm
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import Buffer

Data = dict[str, Any]

FORMAT = 2
"""The form's own number: another one is refused."""

ACTIONS: dict[str, tuple[type[Action], dict[str, str]]] = {
    "call": (
        Call,
        {
            "kernel": "kernel", "operands": "operands", "sizes": "named", "tasks": "dim", "cost": "dim",
            "scratch": "dim", "checks": "plain", "flops": "dim", "tile": "plain", "not_fused": "plain",
            "replaces": "buffer_pairs",
        },
    ),
    "fill": (Fill, {"operand": "operand", "items": "dims"}),
    "find": (FindSizes, {"names": "tuple", "numbers": "operand", "least": "plain", "limit": "limit", "most": "bounds"}),
    "assign": (Assign, {"items": "named"}),
    "allocate": (Allocate, {"buffer": "buffer"}),
    "grow": (Grow, {"buffer": "buffer", "used": "dim", "shape": "dims"}),
    "move": (Move, {"source": "buffer", "target": "buffer"}),
    "pair": (Pair, {"now": "buffer", "following": "buffer", "first": "buffer", "second": "buffer"}),
    "swap": (Swap, {"now": "buffer", "following": "buffer"}),
    "settle": (Settle, {"pair": "action"}),
    "commit": (Commit, {}),
    "check": (Check, {"pairs": "pairs", "status": "plain"}),
    "branch": (Branch, {"condition": "operand", "then": "block", "otherwise": "block"}),
    "repeat": (
        Repeat,
        {
            "counter": "plain", "limit": "limit", "condition": "limit", "again": "limit", "body": "block",
            "most": "limit",
        },
    ),
}  # fmt: skip
"""The word of each action, and how each of its fields is written."""

_WORDS = {kind: word for word, (kind, _) in ACTIONS.items()}
_COMMON = {"title": "plain", "served": "nodes"}


def plan_data(form: PlanForm) -> Data:
    """A plan as JSON holds it; kernels, buffers, nodes, symbols and functions of sizes are there once each."""
    return PlanWriter().plan(form)


def plan_from_data(data: Data) -> PlanForm:
    """The inverse of `plan_data`. Raises GraphError for data of another format, and for what is no plan at all."""
    if data.get("format") != FORMAT:
        raise GraphError(f"this plan has the format {data.get('format')}, expected {FORMAT}: make it anew")
    try:
        return PlanReader(data).plan(data)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise GraphError(f"this is no plan: {error!r}") from error


class PlanWriter(DimWriter):
    """Writes plans. What is used several times has a table, in which it stands where it is first used."""

    def __init__(self) -> None:
        super().__init__()
        self._tables: dict[str, dict[Any, int]] = {"kernels": {}, "buffers": {}, "nodes": {}}
        self._rows: dict[str, list[Any]] = {"kernels": [], "buffers": [], "nodes": []}

    def plan(self, form: PlanForm) -> Data:
        """All of a plan."""
        found: Data = {
            "format": FORMAT,
            "values": [self.value(value) for value in form.values],
            "constants": [[each.dtype, list(each.shape)] for each in form.constants],
            "inputs": list(form.inputs),
            "outputs": list(form.outputs),
            "assumptions": self.pairs(form.assumptions),
            "requirements": [[self.pairs(each.pairs), each.message] for each in form.requirements],
            "apart": [list(each) for each in form.apart],
            "faults": [[list(each.nodes), each.error, each.remedy] for each in form.faults],
            "parts": [self.segment(part) if isinstance(part, SegmentForm) else self.host(part) for part in form.parts],
        }
        return found | self._rows | {"atoms": self.atoms}

    def value(self, value: ValueForm) -> list[Any]:
        """A value with its type."""
        made_by = [] if value.made_by is None else self.nodes([value.made_by])
        return [value.id, self.type(value.type), int(value.is_constant), *made_by]

    def segment(self, segment: SegmentForm) -> Data:
        """A segment with its actions."""
        return {
            "inputs": list(segment.inputs),
            "outputs": list(segment.outputs),
            "input_buffers": self.buffers(segment.input_buffers),
            "output_buffers": self.buffers(segment.output_buffers),
            "arena": self.buffers(segment.arena),
            "late": list(segment.late),
            "told": segment.told,
            "aliases": [[alias.output, alias.input] for alias in segment.aliases],
            "actions": self.block(segment.actions),
        }

    def host(self, host: HostForm) -> Data:
        """A node of the reference engine."""
        return {
            "host": self.nodes([host.node])[0],
            "inputs": list(host.inputs),
            "outputs": list(host.outputs),
            "refusal": [host.refusal.cause.name, host.refusal.text],
            "inferred": [[name, self.dims(shape)] for name, shape in host.inferred.items()],
        }

    def action(self, action: Action) -> Data:
        """An action: its word, and its fields that have no default."""
        word = _WORDS[type(action)]
        kinds, found = ACTIONS[word][1] | _COMMON, {"do": word}
        for each in fields(action):
            value = getattr(action, each.name)
            if each.name in kinds and (each.default is MISSING or value != each.default):
                found[each.name] = getattr(self, kinds[each.name])(value)
        return found

    def block(self, actions: Sequence[Action]) -> list[Data]:
        """Several actions."""
        return [self.action(action) for action in actions]

    def plain(self, value: Any) -> Any:
        """What JSON holds as it is."""
        return value

    def tuple(self, values: Sequence[Any]) -> list[Any]:
        """Several such."""
        return list(values)

    def named(self, items: Sequence[tuple[str, Dim]]) -> list[Any]:
        """Sizes by name."""
        return [[name, self.dim(size)] for name, size in items]

    def pairs(self, pairs: Sequence[tuple[Dim, Dim]]) -> list[Any]:
        """Pairs of sizes."""
        return [self.dims(pair) for pair in pairs]

    def bounds(self, most: dict[Dim, Dim]) -> list[Any]:
        """What sizes are at most."""
        return self.pairs(list(most.items()))

    def limit(self, limit: Operand | Dim | None) -> Any:
        """An operand, or a size."""
        if limit is None or isinstance(limit, Operand):
            return None if limit is None else {"at": self.operand(limit)}
        return self.dim(limit)

    def operand(self, operand: Operand) -> Any:
        """A buffer with an offset; what is written has a third entry."""
        return [self.buffer(operand.buffer), self.dim(operand.offset), *([1] if operand.is_written else [])]

    def operands(self, operands: Sequence[Operand]) -> list[Any]:
        """Several operands."""
        return [self.operand(each) for each in operands]

    def buffer(self, buffer: Buffer) -> Any:
        """The number of a buffer."""
        if buffer not in self._tables["buffers"]:
            place = None if buffer.place is None else [self.buffer(buffer.place), self.dim(buffer.place_offset)]
            row = [buffer.name, buffer.dtype.name, self.dim(buffer.size), buffer.kind, buffer.index]
            row += [int(buffer.is_late), int(buffer.is_shared), self.dims(buffer.shape), place]
            self._enter("buffers", buffer, row)
        return self._tables["buffers"][buffer]

    def buffers(self, buffers: Sequence[Buffer]) -> list[Any]:
        """The numbers of buffers."""
        return [self.buffer(each) for each in buffers]

    def buffer_pairs(self, pairs: Sequence[tuple[Buffer, Buffer]]) -> list[Any]:
        """Pairs of buffers."""
        return [self.buffers(pair) for pair in pairs]

    def nodes(self, nodes: Sequence[NodeForm]) -> list[Any]:
        """The numbers of nodes."""
        for node in nodes:
            if node not in self._tables["nodes"]:
                self._enter("nodes", node, [node.id, node.domain, node.operator, node.path])
        return [self._tables["nodes"][node] for node in nodes]

    def kernel(self, kernel: Kernel) -> Any:
        """The number of a kernel."""
        if kernel not in self._tables["kernels"]:
            self._enter("kernels", kernel, [kernel.hint, body_data(kernel.body), [list(item) for item in kernel.fixed]])
        return self._tables["kernels"][kernel]

    def _enter(self, table: str, key: Any, row: list[Any]) -> None:
        self._tables[table][key] = len(self._rows[table])
        self._rows[table].append(row)


def body_data(body: LoopKernel | FileKernel | LibraryCall | SourceKernel) -> Data:
    """What a kernel runs, as JSON holds it."""
    match body:
        case LoopKernel():
            return {"loops": format_kernel(body), "given": body.given}
        case FileKernel():
            epilogue = {} if body.epilogue is None else {"epilogue": body_data(body.epilogue)}
            return {"file": body.name, "parameters": [list(item) for item in body.parameters], **epilogue}
        case LibraryCall():
            return {"library": body.name, "parameters": [list(item) for item in body.parameters]}
        case SourceKernel():
            buffers = [[each.name, each.element, each.is_written] for each in body.buffers]
            found: Data = {"about": body.about, "buffers": buffers}
            return found | {"sizes": list(body.sizes), "text": body.text, "checks": body.checks}


def body_from_data(data: Data) -> Any:
    """The inverse of `body_data`."""
    parameters = tuple((name, value) for name, value in data.get("parameters", ()))
    if "loops" in data:
        return parse_kernel(data["loops"], data["given"])
    if "file" in data:
        epilogue = body_from_data(data["epilogue"]) if "epilogue" in data else None
        return FileKernel(data["file"], parameters, epilogue)
    if "library" in data:
        return LibraryCall(data["library"], parameters)
    buffers = tuple(SourceBuffer(*each) for each in data["buffers"])
    return SourceKernel(data["about"], buffers, tuple(data["sizes"]), data["text"], data["checks"])


class PlanReader(DimReader):
    """Reads plans."""

    def __init__(self, data: Data) -> None:
        super().__init__(data["atoms"])
        self._nodes = [NodeForm(*row) for row in data["nodes"]]
        self._kernels = [
            Kernel(hint, body_from_data(body), tuple((name, size) for name, size in fixed))
            for hint, body, fixed in data["kernels"]
        ]
        self._buffers: list[Buffer] = []
        for name, dtype, size, kind, index, is_late, is_shared, shape, place in data["buffers"]:
            home, offset = (None, 0) if place is None else (self.buffer(place[0]), self.dim(place[1]))
            more = (kind, index, bool(is_late), bool(is_shared), self.dims(shape), home, offset)
            self._buffers.append(Buffer(name, DTYPES[dtype], self.dim(size), *more))

    def plan(self, data: Data) -> PlanForm:
        """All of a plan."""
        return PlanForm(
            values=[self.value(*row) for row in data["values"]],
            parts=[self.host(part) if "host" in part else self.segment(part) for part in data["parts"]],
            constants=[ConstantForm(dtype, tuple(shape)) for dtype, shape in data["constants"]],
            inputs=data["inputs"],
            outputs=data["outputs"],
            assumptions=list(self.pairs(data["assumptions"])),
            requirements=[Requirement(self.pairs(pairs), message) for pairs, message in data["requirements"]],
            apart=[(made, given, reason) for made, given, reason in data["apart"]],
            faults=[Fault(tuple(nodes), error, remedy) for nodes, error, remedy in data["faults"]],
        )

    def value(self, name: str, type: Any, is_constant: int, made_by: int | None = None) -> ValueForm:
        """The inverse of `PlanWriter.value`."""
        maker = None if made_by is None else self._nodes[made_by]
        return ValueForm(name, self.type(*type), bool(is_constant), maker)

    def segment(self, data: Data) -> SegmentForm:
        """The inverse of `PlanWriter.segment`."""
        return SegmentForm(
            actions=self.block(data["actions"]),
            input_buffers=self.buffers(data["input_buffers"]),
            output_buffers=self.buffers(data["output_buffers"]),
            arena=self.buffers(data["arena"]),
            late=data["late"],
            told=data["told"],
            aliases=[Alias(*pair) for pair in data["aliases"]],
            inputs=data["inputs"],
            outputs=data["outputs"],
        )

    def host(self, data: Data) -> HostForm:
        """The inverse of `PlanWriter.host`."""
        cause, text = data["refusal"]
        inferred = {name: self.dims(shape) for name, shape in data["inferred"]}
        node = self._nodes[data["host"]]
        return HostForm(node, data["inputs"], data["outputs"], Refusal(Cause[cause], text), inferred)

    def action(self, data: Data) -> Action:
        """The inverse of `PlanWriter.action`."""
        kind, kinds = ACTIONS[data["do"]]
        kinds = kinds | _COMMON
        given = {name: getattr(self, kinds[name])(value) for name, value in data.items() if name != "do"}
        return kind(**given)

    def block(self, data: Sequence[Data]) -> list[Action]:
        """Several actions."""
        return [self.action(each) for each in data]

    def plain(self, data: Any) -> Any:
        """What JSON holds as it is."""
        return data

    def tuple(self, data: Sequence[Any]) -> tuple[Any, ...]:
        """Several such."""
        return tuple(data)

    def named(self, data: Sequence[Any]) -> list[tuple[str, Dim]]:
        """Sizes by name."""
        return [(name, self.dim(size)) for name, size in data]

    def pairs(self, data: Sequence[Any]) -> tuple[tuple[Dim, Dim], ...]:
        """Pairs of sizes."""
        return tuple(self.pair(each) for each in data)

    def bounds(self, data: Sequence[Any]) -> dict[Dim, Dim]:
        """What sizes are at most."""
        return dict(self.pairs(data))

    def limit(self, data: Any) -> Operand | Dim | None:
        """An operand, or a size."""
        if isinstance(data, dict):
            return self.operand(data["at"])  # pyright: ignore[reportUnknownArgumentType]
        return None if data is None else self.dim(data)

    def operand(self, data: Any) -> Operand:
        """A buffer with an offset."""
        return Operand(self.buffer(data[0]), self.dim(data[1]), len(data) > 2)

    def operands(self, data: Sequence[Any]) -> list[Operand]:
        """Several operands."""
        return [self.operand(each) for each in data]

    def buffer(self, data: Any) -> Buffer:
        """A buffer by its number."""
        return self._buffers[data]

    def buffers(self, data: Sequence[Any]) -> list[Buffer]:
        """Buffers by their numbers."""
        return [self.buffer(each) for each in data]

    def buffer_pairs(self, data: Sequence[Any]) -> tuple[tuple[Buffer, Buffer], ...]:
        """Pairs of buffers."""
        return tuple((self.buffer(left), self.buffer(right)) for left, right in data)

    def nodes(self, data: Sequence[Any]) -> tuple[NodeForm, ...]:
        """Nodes by their numbers."""
        return tuple(self._nodes[each] for each in data)

    def kernel(self, data: Any) -> Kernel:
        """A kernel by its number."""
        return self._kernels[data]
