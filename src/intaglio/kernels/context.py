"""What the rules of operators work with while a graph is lowered: views of values, buffers, and calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from intaglio.errors import GraphError
from intaglio.ir.dim import Dim, Symbol, lone_atom, product, symbol, symbols
from intaglio.ir.dtype import DType, from_numpy
from intaglio.ir.graph import Node, Value
from intaglio.ir.requirements import Requirement
from intaglio.ir.types import TensorType
from intaglio.kernels.elements import is_computable
from intaglio.kernels.faults import Faults, blaming
from intaglio.kernels.in_place import Sharing
from intaglio.kernels.plan import (
    ASSUMPTION,
    FAULT,
    REQUIREMENT,
    Action,
    Allocate,
    Assign,
    Call,
    Check,
    FindSizes,
    HostNode,
    Operand,
    PlanPart,
    Segment,
)
from intaglio.kernels.refusal import Refusal
from intaglio.kernels.target_rules import TargetRules
from intaglio.kernels.view import Buffer, View, whole
from intaglio.memory.constants import drop_pages, share
from intaglio.processor import usable_cores
from intaglio.workers import map_in_threads


@dataclass(frozen=True)
class Deferred:
    """An array that is still to be made, from another one that need not stay in memory."""

    make: Callable[[], Any]
    source: Any = None
    nodes: tuple[Node, ...] = ()

    def made(self) -> Any:
        """The array, the same for all models of the process that make an equal one."""
        with blaming(self.nodes):
            array = share(self.make())
        drop_pages(self.source)
        return array


def make_constants(constants: list[Any]) -> list[Any]:
    """The constants with every deferred one made, on as many threads as there are cores; in the list itself too."""
    deferred = [place for place, item in enumerate(constants) if isinstance(item, Deferred)]
    made = map_in_threads(Deferred.made, [constants[place] for place in deferred], usable_cores())
    for place, array in zip(deferred, made, strict=True):
        constants[place] = array
    return constants


@dataclass(frozen=True)
class _Outer:
    """The state of lowering around a block."""

    actions: list[Action] | None
    views: dict[Value, View]


@dataclass
class Context:
    """The state of lowering: finished steps, the segment under way, and where each value lies in it."""

    rules: TargetRules
    exact: bool = False
    """Whether kernels that round more than the operator's definition are ruled out."""
    parts: list[PlanPart] = field(default_factory=list[PlanPart])
    constants: list[Any] = field(default_factory=list[Any])
    views: dict[Value, View] = field(default_factory=dict[Value, View])
    segment: Segment = field(default_factory=Segment)
    assumptions: Sequence[tuple[Dim, Dim]] = ()
    """Dimensions that are taken to be equal; the driver checks those that it binds itself."""
    inferred: Mapping[Value, tuple[Dim, ...]] = field(default_factory=dict[Value, tuple[Dim, ...]])
    """The shapes of values before anything was assumed."""
    requirements: Sequence[Requirement] = ()
    """What the graph under way needs of sizes that drivers bind."""
    awaited: set[str] = field(default_factory=set[str])
    """The symbols that host nodes still to come bind."""
    growing: set[str] = field(default_factory=set[str])
    """The symbols of what loops under way stack: they have values on the way that mean nothing yet."""
    notes: dict[Node, Any] = field(default_factory=dict[Node, Any])
    """What the rule that binds a node's sizes leaves for the one that lowers it."""
    late_symbols: set[str] = field(default_factory=set[str])
    """All symbols that drivers bind."""
    told: set[str] = field(default_factory=set[str])
    """Those of them that have a meaning outside of subgraphs, which later segments may use."""
    nodes: tuple[Node, ...] = ()
    """The nodes that are being lowered."""
    not_fused: str = ""
    """Why the group under way does not belong to the one before, for the first call that computes it."""
    faults: Faults = field(default_factory=Faults)
    """What could not be lowered before, and runs in a simpler way now."""
    donated: Sequence[tuple[Value, Value]] = ()
    """Inputs whose memory outputs are to take."""
    is_atomic: bool = False
    """Whether a run that stops before its end must leave inputs that are given away as they were."""
    apart: dict[Value, str] = field(default_factory=dict[Value, str])
    """Outputs that cannot take the memory of their input, and why."""
    _copies: list[Call] = field(default_factory=list[Call])
    """The calls that copy all of a buffer to all of another one."""
    _bound: set[str] = field(default_factory=set[str])
    _known: set[str] = field(default_factory=set[str])
    _actions: list[Action] | None = None
    _constant_buffers: dict[int, Buffer] = field(default_factory=dict[int, Buffer])
    _packed: dict[tuple[int, str], Buffer] = field(default_factory=dict[tuple[int, str], Buffer])

    def view(self, value: Value) -> View:
        """Where a value lies; values from outside the segment become its inputs, constants are added to the plan."""
        found = self.views.get(value)
        if found is None:
            found = self.constant_view(value) if value.constant is not None else self._input_view(value)
            self.views[value] = found
        return found

    def constant_view(self, value: Value) -> View:
        """The view of a constant value."""
        assert value.constant is not None
        return whole(self.constant(value.constant), value.shape)

    def constant(self, array: Any) -> Buffer:
        """A constant of the plan, the same array once."""
        if id(array) not in self._constant_buffers:
            buffer = Buffer("constant", from_numpy(array.dtype), int(array.size), "constant", len(self.constants))
            self.constants.append(array)
            self._constant_buffers[id(array)] = buffer
        return self._constant_buffers[id(array)]

    def packed(self, value: Value, form: str, pack: Callable[[], Any]) -> Buffer:
        """A constant in the form that a kernel wants; the same value in the same form once.

        `pack` makes the array; it runs later, together with the others on several threads.
        """
        key = (id(value.constant), form)
        if key not in self._packed:
            self._packed[key] = Buffer("packed", value.dtype, 0, "constant", len(self.constants))
            self.constants.append(Deferred(pack, value.constant, self.nodes))
        return self._packed[key]

    def constant_array(self, buffer: Buffer) -> Any:
        """The array behind a constant's buffer, made now if it was deferred."""
        item = self.constants[buffer.index]
        if isinstance(item, Deferred):
            item = self.constants[buffer.index] = item.made()
        return item

    def _input_view(self, value: Value) -> View:
        buffer = Buffer(value.name, value.dtype, value.tensor.size, "input", len(self.segment.inputs))
        self.segment.inputs.append(value)
        self.segment.input_buffers.append(buffer)
        return whole(buffer, value.shape)

    def take_inputs(self, values: Sequence[Value]) -> None:
        """Let a segment that is the whole graph have its inputs in their order, those included that nobody reads."""
        if all(isinstance(value.type, TensorType) and is_computable(value.type.dtype) for value in values):
            for value in values:
                self.view(value)

    def allocate(self, value: Value) -> View:
        """Fresh contiguous memory for a value that the next call writes."""
        view = whole(self.temporary(value.dtype, value.tensor.size, value.name, value.shape), value.shape)
        self.views[value] = view
        return view

    def temporary(self, dtype: DType, size: Dim, name: str = "temporary", shape: Sequence[Dim] = ()) -> Buffer:
        """Fresh memory: in the arena, or allocated now where this segment itself finds out the size (or the shape)."""
        is_late = any(self._is_late(dim) for dim in (size, *shape))
        buffer = self.late_buffer(dtype, size, name) if is_late else Buffer(name, dtype, size)
        self.segment.arena.append(buffer)
        if buffer.is_late:
            self.emit(Allocate(buffer, nodes=self.nodes, title=name))
        return buffer

    def late_buffer(self, dtype: DType, size: Dim, name: str) -> Buffer:
        """A buffer that is allocated in the run, which the caller has to ask for."""
        return Buffer(name, dtype, size, "late", is_late=True)

    def adopt(self, buffer: Buffer) -> None:
        """Let the segment know a late buffer that was not made by `temporary`."""
        self.segment.arena.append(buffer)

    def unbound(self, value: Value) -> list[tuple[int, str]]:
        """The axes of a value whose sizes are symbols that a driver binds and has not bound yet, with those symbols."""
        found: list[tuple[int, str]] = []
        for axis, dim in enumerate(self.inferred.get(value, value.shape)):
            atom = lone_atom(dim)
            if isinstance(atom, Symbol) and atom.name in self.late_symbols and atom.name not in self._known:
                found.append((axis, atom.name))
        return found

    def is_known(self, dim: Dim) -> bool:
        """Whether all symbols of a dimension have a value by now."""
        return symbols(dim) & self.late_symbols <= self._known

    def _is_late(self, dim: Dim) -> bool:
        return not self._bound.isdisjoint(symbols(dim))

    def bind(
        self,
        node: Node,
        names: Sequence[str | None],
        numbers: View,
        *,
        least: int | None = None,
        limit: Dim | None = None,
        most: Mapping[Dim, Dim] | None = None,
    ) -> None:
        """Give symbols the values of int64 numbers side by side in memory; see `FindSizes`."""
        if not names:
            return
        title = f"sizes of {node.op.name} -> {node.outputs[0].name}"
        bounds: dict[Dim, Dim] = {} if limit is None else {symbol(name): limit for name in names if name is not None}
        operand = Operand(numbers.buffer, numbers.offset)
        found = FindSizes(tuple(names), operand, least, limit, bounds | dict(most or {}), nodes=(node,), title=title)
        self.emit(found)
        self.declare(found.symbols)

    def assign(self, items: Sequence[tuple[str, Dim]], node: Node | None = None) -> None:
        """Give symbols the values of dimensions, for a node that has sizes of them."""
        if items:
            self.emit(Assign(list(items), nodes=() if node is None else (node,)))
            self.declare([name for name, _ in items])

    def need(self, node: Node, *pairs: tuple[Dim, Dim]) -> None:
        """Stop the run where no pair of dimensions is equal; the node's reference says what is wrong."""
        if not any(left == right for left, right in pairs):
            title = f"sizes that {node.op.name} -> {node.outputs[0].name} allows"
            self.emit(Check(pairs, FAULT, nodes=(node,), title=title))

    def declare(self, names: Sequence[str]) -> None:
        """Symbols that have a value from here on; what is assumed of them is checked."""
        self._bound.update(names)
        self._known.update(names)
        self.segment.late += [name for name in names if name not in self.segment.late]
        for left, right in self.assumptions:
            used = symbols(left) | symbols(right)
            is_known = used & self.late_symbols <= self._known and used.isdisjoint(self.awaited | self.growing)
            if not used.isdisjoint(names) and is_known:
                self.emit(Check([(left, right)], ASSUMPTION, title=f"{left} = {right}"))
        self._check([each for each in self.requirements if not each.symbols.isdisjoint(names)])

    def require(self, requirements: Sequence[Requirement], *, is_body: bool) -> Sequence[Requirement]:
        """Check from here on what a graph needs as soon as its sizes are known; returns what was checked before.

        The runtime itself checks what needs no symbol of a driver, but for a body, which may not run at all.
        """
        before, self.requirements = self.requirements, requirements
        if is_body:
            self._check(requirements)
        return before

    def _check(self, requirements: Sequence[Requirement]) -> None:
        for each in requirements:
            if each.symbols & self.late_symbols <= self._known and each.symbols.isdisjoint(self.awaited | self.growing):
                self.emit(Check(each.pairs, REQUIREMENT, title=each.message))

    def begin_block(self) -> _Outer:
        """Start a block of actions of its own; `end_block` gives them and returns to the one around."""
        outer = _Outer(self._actions, dict(self.views))
        self._actions = []
        return outer

    def end_block(self, outer: _Outer) -> list[Action]:
        """The actions since `begin_block`; views of values that were made in the block are forgotten."""
        actions = self._actions
        assert actions is not None
        kept = {value: view for value, view in self.views.items() if view.buffer.kind in ("input", "constant")}
        self._actions, self.views = outer.actions, kept | outer.views
        return actions

    def contiguous(self, value: Value) -> View:
        """The value in row-major order, copied where it is not."""
        view = self.view(value)
        if not view.is_contiguous:
            view = self.copy(value, view)
            self.views[value] = view
        return view

    def copy(self, value: Value, view: View, into: View | None = None) -> View:
        """Copy a view into fresh memory, or into another view."""
        size = product(view.shape)
        target = into or whole(self.temporary(value.dtype, size, value.name, view.shape), view.shape)
        call = self.rules.copy_call(value, view, target)
        if view.is_whole and target.is_whole and view.buffer.dtype == target.buffer.dtype:
            self._copies.append(call)
        self.emit(call)
        return target

    def emit(self, action: Action) -> None:
        """Add an action to the block under way."""
        if self.not_fused and isinstance(action, Call) and action.nodes:
            action.not_fused, self.not_fused = self.not_fused, ""
        self.actions.append(action)

    @property
    def actions(self) -> list[Action]:
        """The block under way."""
        return self.segment.actions if self._actions is None else self._actions

    @property
    def place(self) -> int:
        """Where the next action will stand in the block under way."""
        return len(self.actions)

    def insert(self, place: int, action: Action) -> None:
        """Add an action to the block under way before the one that stands at a place."""
        self.actions.insert(place, action)

    def add_host(self, node: Node, refusal: Refusal) -> None:
        """Add a host node; the segment must have been closed."""
        inferred = {value: self.inferred[value] for value in node.outputs if value in self.inferred}
        self.parts.append(HostNode(node, refusal, inferred))

    def close_segment(self, needed: Callable[[Value], bool], results: Sequence[Value] = ()) -> None:
        """End the segment: values that are needed later become its outputs, and it starts afresh.

        `results` are those of the graph where this is its last segment: they come first, in their order.
        """
        segment, is_last = self.segment, bool(results)
        exported: dict[Buffer, Value] = {}
        ordered = {value: self.view(value) for value in results if value in self.views or self._can_copy(value)}
        for value, view in [*ordered.items(), *((v, w) for v, w in self.views.items() if v not in ordered)]:
            is_made = value.constant is None and value not in segment.inputs
            if needed(value) and (is_made or (value in ordered and self._can_copy(value))):
                self._export(value, view, exported)
        if is_last and not self.parts:
            self._share_memory()
        for kind in ("arena", "late", "place"):
            for index, buffer in enumerate(buffer for buffer in segment.arena if buffer.kind == kind):
                buffer.index = index
        segment.arena = [buffer for buffer in segment.arena if buffer.kind == "arena"]
        told = [name for name in segment.late if name in self.told]
        segment.late = told + [name for name in segment.late if name not in self.told]
        segment.told = 0 if is_last else len(told)
        if segment.actions or segment.outputs:
            self.parts.append(segment)
        self.segment = Segment()
        self.views = {}
        self._bound = set()

    def _share_memory(self) -> None:
        """Let outputs take the memory of inputs that the caller gives away, where that can be."""
        segment = self.segment
        inputs = dict(zip(segment.inputs, segment.input_buffers, strict=True))
        outputs = dict(zip(segment.outputs, segment.output_buffers, strict=True))
        pairs = [(given, made) for given, made in self.donated if given in inputs and made in outputs]
        if not pairs:
            return
        buffers = [(inputs[given], outputs[made]) for given, made in pairs]
        sharing = Sharing(segment, self._copies, buffers, is_atomic=self.is_atomic)
        for given, made in pairs:
            refusal = sharing.take(inputs[given], outputs[made])
            if refusal:
                self.apart[made] = refusal
        sharing.finish()

    def _can_copy(self, value: Value) -> bool:
        """Whether a result that is an input or a constant can be copied by a segment that is the whole graph."""
        is_given = value.constant is not None or value in self.segment.inputs
        return not self.parts and is_given and isinstance(value.type, TensorType) and is_computable(value.type.dtype)

    def _export(self, value: Value, view: View, exported: dict[Buffer, Value]) -> None:
        """Let a value leave the segment: in the memory where it lies if that is its own, else in a copy."""
        is_whole = view.is_contiguous and view.offset == 0 and view.buffer.size == value.tensor.size
        is_own = view.buffer.kind in ("arena", "late") and not view.buffer.is_shared
        is_told = not view.buffer.shape or view.buffer.shape == value.shape
        if not is_whole or not is_own or not is_told or view.buffer in exported:
            view = self.copy(value, view)
        exported[view.buffer] = value
        view.buffer.kind = "output"
        view.buffer.shape = value.shape
        view.buffer.index = len(self.segment.outputs)
        self.segment.outputs.append(value)
        self.segment.output_buffers.append(view.buffer)


def as_array(value: Value) -> np.ndarray[Any, Any]:
    """The array of a constant value."""
    if value.constant is None:
        raise GraphError(f"{value!r} is not a constant")
    return value.constant
