"""What is wrong with a plan: ids that nobody has, buffers that are not declared or too small, sizes before they are
known, kernels with other operands than they take.

Sizes are symbols, so what lies outside of a buffer is found where that can be proved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from intaglio.errors import GraphError
from intaglio.ir.dim import Dim, compare, symbols
from intaglio.ir.resize import type_symbols
from intaglio.kernels.in_place import Order, conflict, needs_another_plan
from intaglio.kernels.kernel import SourceKernel
from intaglio.kernels.language import LoopKernel, Parameter
from intaglio.kernels.plan import (
    Action,
    Allocate,
    Assign,
    Call,
    Fill,
    FindSizes,
    Grow,
    Move,
    Operand,
    Pair,
    Repeat,
    Swap,
    operands_of,
    walk,
)
from intaglio.kernels.plan_form import ConstantForm, HostForm, PlanForm, SegmentForm
from intaglio.kernels.segment_sizes import segment_symbols, unbound_uses
from intaglio.kernels.view import Buffer

LISTED = 8
"""So many problems are named."""


def check_plan(form: PlanForm) -> None:
    """Raise GraphError with what is wrong with a plan."""
    problems = list(dict.fromkeys(plan_problems(form)))
    if problems:
        more = f"; and {len(problems) - LISTED} more" if len(problems) > LISTED else ""
        raise GraphError("the plan is broken: " + "; ".join(problems[:LISTED]) + more)


def plan_problems(form: PlanForm) -> Iterator[str]:
    """Everything that is wrong with a plan, in its order."""
    types = {value.id: value.type for value in form.values}
    if len(types) < len(form.values):
        yield "a value is declared twice"
    made = {value.id for value in form.values if value.is_constant} | set(form.inputs)
    known = {name for each in form.inputs if each in types for name in type_symbols(types[each])} | {"threads"}
    for place, part in enumerate(form.parts):
        where = f"part {place}"
        for name in dict.fromkeys([*part.inputs, *part.outputs]):
            if name is not None and name not in types:
                yield f"{where}: there is no value {name!r}"
        yield from (f"{where}: {n!r} is read before it is made" for n in part.inputs if n is not None and n not in made)
        made.update(part.outputs)
        if isinstance(part, HostForm):
            known |= _sizes_of_host(part, form)
        else:
            yield from (f"{where}: {text}" for text in _Segment(part, form.constants, known).problems())
            known |= set(part.late[: part.told])
    yield from (f"the result {name!r} is not made" for name in form.outputs if name not in made)


def _sizes_of_host(host: HostForm, form: PlanForm) -> set[str]:
    found = {name for shape in host.inferred.values() for dim in shape for name in symbols(dim)}
    types = [value.type for value in form.values if value.id in host.outputs]
    return found.union(*map(type_symbols, types))


class _Segment:
    """One segment under examination; `known` are the sizes that it can be given."""

    def __init__(self, segment: SegmentForm, constants: Sequence[ConstantForm], known: set[str]) -> None:
        self.segment, self.constants, self.known = segment, constants, known
        self._held = set[int]()
        """The late buffers and pointers that have memory by now."""

    def problems(self) -> Iterator[str]:
        """All that is wrong."""
        segment = self.segment
        yield from self._interface()
        for name in segment_symbols(segment):
            if name not in self.known:
                yield f"nobody knows the size {name!r}"
        for buffer in (*segment.arena, *segment.output_buffers):
            unknown = set[str]() if buffer.is_late else symbols(buffer.size) - self.known
            yield from (f"the size of {buffer.name!r} needs {name!r}, which is not known" for name in sorted(unknown))
        for action, names in unbound_uses(segment):
            yield f"{_title(action)} uses {', '.join(map(repr, sorted(names)))} before it has a value"
        for action in walk(segment.actions):
            yield from (f"{_title(action)} {text}" for text in self._action(action))

    def _interface(self) -> Iterator[str]:
        segment = self.segment
        for kind, names, buffers in (
            ("input", segment.inputs, segment.input_buffers),
            ("output", segment.outputs, segment.output_buffers),
            ("arena", segment.arena, segment.arena),
        ):
            if len(names) != len(buffers):
                yield f"{len(names)} values and {len(buffers)} buffers are its {kind}s"
            for place, buffer in enumerate(buffers):
                if (buffer.kind, buffer.index) != (kind, place):
                    yield f"{buffer.name!r} is {buffer.kind} {buffer.index}, expected {kind} {place}"
        if not 0 <= segment.told <= len(segment.late):
            yield f"{segment.told} of {len(segment.late)} sizes are given"
        bound = {name for action in walk(segment.actions) for name in _bound(action)}
        yield from self._aliases()
        yield from (f"{name!r} is never given a value" for name in segment.late if name not in bound)
        yield from (f"{name!r} is given a value and is not late" for name in sorted(bound - set(segment.late)))

    def _aliases(self) -> Iterator[str]:
        """Outputs that cannot have the memory of their inputs."""
        segment, order = self.segment, Order(self.segment)
        for kind in ("input", "output"):
            places = [getattr(alias, kind) for alias in segment.aliases]
            yield from (f"{kind} {place} shares its memory twice" for place in places if places.count(place) > 1)
        for alias in segment.aliases:
            name = f"output {alias.output} in the memory of input {alias.input}"
            if not (0 <= alias.output < len(segment.outputs) and 0 <= alias.input < len(segment.inputs)):
                yield f"{name}: there is none"
                continue
            made, given = segment.output_buffers[alias.output], segment.input_buffers[alias.input]
            if made.dtype != given.dtype or compare(made.size, given.size) in (-1, 1):
                yield f"{name}: {made.dtype} {made.size} and {given.dtype} {given.size}"
            refusal = conflict(order, given, made, order.where(needs_another_plan))
            if refusal:
                yield f"{name}: {refusal}"

    def _action(self, action: Action) -> Iterator[str]:
        if isinstance(action, (Allocate, Grow)):
            self._held.add(id(action.buffer))
        if isinstance(action, Pair):
            self._held |= {id(action.now), id(action.following)}
        touched = operands_of(action)
        if isinstance(action, Swap):
            touched = [Operand(action.now), Operand(action.following)]
        for operand in touched:
            if isinstance(action, Move) and operand.buffer is action.target:
                self._held.add(id(operand.buffer))
            yield from self._operand(operand)
        if isinstance(action, Call):
            yield from _call_problems(action)
        if isinstance(action, (Fill, FindSizes)):
            yield from _number_problems(action)

    def _operand(self, operand: Operand) -> Iterator[str]:
        home, name = operand.buffer.home, repr(operand.buffer.name)
        if home.kind in ("late", "place") or home.is_late:
            if id(home) not in self._held:
                yield f"touches {name} before it has memory"
            return
        declared = self._declared(home)
        if declared is not None:
            yield f"touches {name}, {declared}"
        if operand.is_written and home.kind in ("input", "constant"):
            yield f"writes to {name}, which is an {home.kind}".replace("an c", "a c")
        start = operand.offset + operand.buffer.home_offset
        if compare(start, 0) == -1 or compare(start, home.size) == 1:
            yield f"begins at {start} of {name}, which has {home.size} elements"

    def _declared(self, buffer: Buffer) -> str | None:
        """What is wrong with where a buffer is declared."""
        if buffer.kind == "constant":
            return self._constant_problem(buffer)
        lists = {
            "input": self.segment.input_buffers,
            "output": self.segment.output_buffers,
            "arena": self.segment.arena,
        }
        declared = lists[buffer.kind]
        if not 0 <= buffer.index < len(declared) or declared[buffer.index] is not buffer:
            return f"which is not declared as {buffer.kind} {buffer.index}"
        return None

    def _constant_problem(self, buffer: Buffer) -> str | None:
        if not 0 <= buffer.index < len(self.constants):
            return f"constant {buffer.index} of {len(self.constants)}"
        there = math.prod(self.constants[buffer.index].shape)
        if compare(buffer.size, there) == 1:
            return f"a constant of {there} elements, expected {buffer.size}"
        return None


def _title(action: Action) -> str:
    return f"{type(action).__name__} {action.title!r}"


def _bound(action: Action) -> list[str]:
    match action:
        case FindSizes():
            return list(action.symbols)
        case Assign():
            return [name for name, _ in action.items]
        case Repeat():
            return [action.counter]
        case _:
            return []


def _number_problems(action: Fill | FindSizes) -> Iterator[str]:
    operand = action.operand if isinstance(action, Fill) else action.numbers
    count = len(action.items if isinstance(action, Fill) else action.names)
    if isinstance(action, FindSizes) and operand.buffer.dtype.name != "int64":
        yield f"finds sizes among numbers of {operand.buffer.dtype}, expected int64"
    if not operand.buffer.is_late and compare(operand.offset + count, operand.buffer.size) == 1:
        yield f"touches {count} numbers at {operand.offset} of {operand.buffer.size}"


def _call_problems(call: Call) -> Iterator[str]:
    """A kernel that is called with other operands or sizes than it takes; what a target supplies is its own matter."""
    body = call.kernel.body
    count = _operand_count(call)
    if count is not None and count != len(call.operands):
        yield f"has {len(call.operands)} operands, {call.kernel.hint} takes {count}"
    elif isinstance(body, LoopKernel):
        yield from _loop_problems(call, body)
    if isinstance(body, SourceKernel) and len(body.sizes) != len(call.sizes):
        yield f"has {len(call.sizes)} sizes, {call.kernel.hint} takes {len(body.sizes)}"


def _operand_count(call: Call) -> int | None:
    match call.kernel.body:
        case LoopKernel() as loops:
            return len(loops.parameters)
        case SourceKernel() as source:
            return len(source.buffers)
        case _:
            return None


def _loop_problems(call: Call, kernel: LoopKernel) -> Iterator[str]:
    sizes = dict(call.sizes)
    for parameter, operand in zip(kernel.parameters, call.operands, strict=True):
        if parameter.is_written != operand.is_written:
            yield f"{'reads' if parameter.is_written else 'writes'} {parameter.name} other than {kernel.name} does"
        if parameter.dtype.itemsize != operand.buffer.dtype.itemsize:
            yield f"gives {operand.buffer.dtype} for {parameter.name}, expected {parameter.dtype}"
        if set(kernel.sizes) <= sizes.keys() and not operand.buffer.is_late:
            end = _end(kernel, parameter, sizes)
            if end is not None and compare(operand.offset + end, operand.buffer.size) == 1:
                last, size = operand.offset + end, operand.buffer.size
                yield f"reaches element {last} of {operand.buffer.name!r}, which has {size}"


def _end(kernel: LoopKernel, parameter: Parameter, sizes: dict[str, Dim]) -> Dim | None:
    """How many elements behind its begin a parameter reaches; None where a step goes back or a loop may be empty."""
    end: Dim = 1
    for loop, step in zip(kernel.loops, parameter.steps, strict=True):
        stride, extent = sizes[step] if isinstance(step, str) else step, sizes[loop.name]
        if compare(extent, 0) != 1 or compare(stride, 0) not in (0, 1):
            return None
        end = end + (extent - 1) * stride
    return end
