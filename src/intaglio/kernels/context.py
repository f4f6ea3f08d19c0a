"""What the rules of operators work with while a graph is lowered: views of values, buffers, and calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from intaglio.c.target import Target, usable_cores
from intaglio.errors import GraphError
from intaglio.ir.dim import Dim, product
from intaglio.ir.dtype import DType, from_numpy
from intaglio.ir.graph import Node, Value
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.loops import Program, loop_call
from intaglio.kernels.plan import Action, HostStep, NativeStep, Step
from intaglio.kernels.transpose import transpose_call
from intaglio.kernels.view import Buffer, View, whole


@dataclass(frozen=True)
class Deferred:
    """An array that is still to be made."""

    make: Callable[[], Any]


def make_constants(constants: Sequence[Any]) -> list[Any]:
    """The constants with every deferred one made, on as many threads as there are cores."""
    with ThreadPoolExecutor(usable_cores(), thread_name_prefix="intaglio-pack") as executor:
        futures = [executor.submit(item.make) if isinstance(item, Deferred) else item for item in constants]
        return [item.result() if isinstance(item, Future) else item for item in futures]


@dataclass
class Context:
    """The state of lowering: finished steps, the segment under way, and where each value lies in it."""

    target: Target
    exact: bool = False
    """Whether kernels that round more than the operator's definition are ruled out."""
    steps: list[Step] = field(default_factory=list[Step])
    constants: list[Any] = field(default_factory=list[Any])
    views: dict[Value, View] = field(default_factory=dict[Value, View])
    segment: NativeStep = field(default_factory=NativeStep)
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
            self.constants.append(Deferred(pack))
        return self._packed[key]

    def constant_array(self, buffer: Buffer) -> Any:
        """The array behind a constant's buffer, made now if it was deferred."""
        item = self.constants[buffer.index]
        if isinstance(item, Deferred):
            item = self.constants[buffer.index] = item.make()
        return item

    def _input_view(self, value: Value) -> View:
        buffer = Buffer(value.name, value.dtype, value.tensor.size, "input", len(self.segment.inputs))
        self.segment.inputs.append(value)
        self.segment.input_buffers.append(buffer)
        return whole(buffer, value.shape)

    def allocate(self, value: Value) -> View:
        """Fresh contiguous memory for a value that the next call writes."""
        view = whole(self.temporary(value.dtype, value.tensor.size, value.name), value.shape)
        self.views[value] = view
        return view

    def temporary(self, dtype: DType, size: Dim, name: str = "temporary") -> Buffer:
        """Fresh memory in the arena."""
        buffer = Buffer(name, dtype, size)
        self.segment.arena.append(buffer)
        return buffer

    def contiguous(self, value: Value) -> View:
        """The value in row-major order, copied where it is not."""
        view = self.view(value)
        if not view.is_contiguous:
            view = self.copy(value, view)
            self.views[value] = view
        return view

    def copy(self, value: Value, view: View, into: View | None = None) -> View:
        """Copy a view into fresh memory, or into another view."""
        target = into or whole(self.temporary(value.dtype, product(view.shape), value.name), view.shape)
        program = Program([], view.shape, (), {value: view}, {value: target}, f"copy of {value.name}")
        transpose = transpose_call(value, view, target, self.target.vector_bytes)
        self.emit(transpose or loop_call(program))
        return target

    def emit(self, action: Action) -> None:
        """Add a call to the segment."""
        self.segment.actions.append(action)

    def add_host(self, node: Node, reason: str) -> None:
        """Add a host node; the segment must have been closed."""
        self.steps.append(HostStep(node, reason))

    def close_segment(self, needed: Callable[[Value], bool]) -> None:
        """End the segment: values that are needed later become its outputs, and it starts afresh."""
        segment = self.segment
        exported: dict[Buffer, Value] = {}
        for value, view in list(self.views.items()):
            if value.constant is None and value not in segment.inputs and needed(value):
                self._export(value, view, exported)
        for index, buffer in enumerate(buffer for buffer in segment.arena if buffer.kind == "arena"):
            buffer.index = index
        segment.arena = [buffer for buffer in segment.arena if buffer.kind == "arena"]
        if segment.actions or segment.outputs:
            self.steps.append(segment)
        self.segment = NativeStep()
        self.views = {}

    def _export(self, value: Value, view: View, exported: dict[Buffer, Value]) -> None:
        """Let a value leave the segment: in the memory where it lies if that is its own, else in a copy."""
        is_whole = view.is_contiguous and view.offset == 0 and view.buffer.size == value.tensor.size
        if not is_whole or view.buffer.kind != "arena" or view.buffer in exported:
            view = self.copy(value, view)
        exported[view.buffer] = value
        view.buffer.kind = "output"
        view.buffer.index = len(self.segment.outputs)
        self.segment.outputs.append(value)
        self.segment.output_buffers.append(view.buffer)


@dataclass(frozen=True)
class Anchor:
    """How a structured operator is lowered.

    `refuse(node)` gives the reason why the rule does not apply, or None. `reads` are the inputs that the kernels read
    (others only steer types). `lower(context, node, epilogue)` emits the calls; where `fuses`, elementwise nodes that
    follow are handed over as the epilogue, else it is empty and the rule allocates the outputs itself.
    """

    lower: Callable[[Context, Node, Epilogue], None]
    refuse: Callable[[Node], str | None] = lambda node: None
    reads: Callable[[Node], Sequence[Value]] = lambda node: [v for v in node.inputs if v is not None]
    fuses: Callable[[Node], bool] = lambda node: False


ANCHORS: dict[str, Anchor] = {}
"""The structured operators by name."""


def anchor(
    *names: str,
    refuse: Callable[[Node], str | None] = lambda node: None,
    reads: Callable[[Node], Sequence[Value]] | None = None,
    fuses: Callable[[Node], bool] = lambda node: False,
) -> Callable[[Callable[[Context, Node, Epilogue], None]], Callable[[Context, Node, Epilogue], None]]:
    """Register the lowering of structured operators."""

    def register(lower: Callable[[Context, Node, Epilogue], None]) -> Callable[[Context, Node, Epilogue], None]:
        for name in names:
            if name in ANCHORS:
                raise GraphError(f"{name} has two lowerings")
            options = {} if reads is None else {"reads": reads}
            ANCHORS[name] = Anchor(lower, refuse, fuses=fuses, **options)
        return lower

    return register


def as_array(value: Value) -> np.ndarray[Any, Any]:
    """The array of a constant value."""
    if value.constant is None:
        raise GraphError(f"{value!r} is not a constant")
    return value.constant
