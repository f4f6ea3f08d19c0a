"""Operators with subgraphs: If, Loop, Scan."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim as dims
from intaglio.ir.build import Runner, infer_node, type_of
from intaglio.ir.clone import clone_with_values
from intaglio.ir.dim import Atom, Dim
from intaglio.ir.dtype import BOOL, INT64
from intaglio.ir.graph import Graph, Value
from intaglio.ir.op import Array, Op, output_count
from intaglio.ir.resize import own_symbols
from intaglio.ir.types import OptionalType, SequenceType, TensorType, Type
from intaglio.ops.shared.body_sizes import known_sizes, size_of
from intaglio.ops.shared.indices import join_types, known, resolve_axis, unify


class If(Op):
    """The outputs of `then_branch` where `cond` is true, else those of `else_branch`."""

    moves_only = True
    variadic_outputs: ClassVar[bool] = True
    else_branch: Graph
    then_branch: Graph
    output_count: int = output_count()

    def infer(self, cond: Value) -> tuple[Type, ...]:
        del cond
        branches = (self.then_branch, self.else_branch)
        counts = [len(branch.outputs) for branch in branches]
        if counts != [self.output_count] * 2:
            raise ShapeError(f"branches with {counts[0]} and {counts[1]} outputs, expected {self.output_count}")
        then, otherwise = ([outside(v.type, seen(branch)) for v in branch.outputs] for branch in branches)
        return tuple(join_types(a, b) for a, b in zip(then, otherwise, strict=True))

    def interpret(self, run: Runner, cond: Array) -> tuple[Any, ...]:
        if cond.size != 1:
            raise OperatorError(f"the condition has {cond.size} elements, expected 1")
        return tuple(run(self.then_branch if cond.item() else self.else_branch, []))


class Loop(Op):
    """`body` repeated up to `M` times while its condition holds; carried values pass from one round to the next."""

    moves_only = True
    variadic_outputs: ClassVar[bool] = True
    body: Graph
    output_count: int = output_count()

    @staticmethod
    def body_types(name: str, inputs: Sequence[Value | None], attributes: Mapping[str, Any]) -> list[Type | None]:
        """The types that the body's inputs take in the first round."""
        del name, attributes
        carried = [None if value is None else value.type for value in inputs[2:]]
        return [TensorType(INT64, ()), TensorType(BOOL, ()), *carried]

    def infer(self, M: Value | None = None, cond: Value | None = None, *v_initial: Value) -> tuple[Type, ...]:
        count = len(v_initial)
        if len(self.body.inputs) != count + 2 or len(self.body.outputs) != 1 + self.output_count:
            raise ShapeError(
                f"a body with {len(self.body.inputs)} inputs and {len(self.body.outputs)} outputs,"
                f" expected {count + 2} and {1 + self.output_count}"
            )
        carried = self.body.outputs[1 : 1 + count]
        settle(self.body, self.body.inputs[2:], v_initial, carried)
        shared = seen(self.body, v_initial)
        final = [join_types(a.type, outside(b.type, shared)) for a, b in zip(v_initial, carried, strict=True)]
        rounds = self._rounds(M, cond)
        return *final, *(stacked(outside(v.type, shared), rounds, 0) for v in self.body.outputs[1 + count :])

    def _rounds(self, M: Value | None, cond: Value | None) -> Dim:
        """The number of rounds where only `M` decides it, else a fresh symbol."""
        limit, last = known(M), self.body.outputs[0]
        goes_on = last.constant is not None and bool(last.constant.all())
        goes_on = goes_on or (last is self.body.inputs[1] or _is_copy(last, self.body.inputs[1]))
        starts = cond is None or (cond.constant is not None and bool(cond.constant.all()))
        return dims.maximum(limit[0], 0) if limit and goes_on and starts else dims.fresh()

    def interpret(
        self, run: Runner, M: Array | None = None, cond: Array | None = None, *v_initial: Any
    ) -> tuple[Any, ...]:
        limit = None if M is None else M.item()
        goes_on, carried, rounds = cond is None or bool(cond.item()), list(v_initial), 0
        scanned: list[list[Any]] = [[] for _ in self.body.outputs[1 + len(carried) :]]
        while goes_on and (limit is None or rounds < limit):
            number, flag = np.asarray(rounds, np.int64), np.asarray(True)
            first = [_like(number, self.body.inputs[0]), _like(flag, self.body.inputs[1])]
            condition, *results = run(self.body, [*first, *carried])
            goes_on, carried, rounds = bool(condition.item()), results[: len(carried)], rounds + 1
            for values, item in zip(scanned, results[len(carried) :], strict=True):
                values.append(item)
        outputs = self.body.outputs[1 + len(carried) :]
        known = {} if rounds else {**run.known, **dict(zip(self.body.inputs[2:], v_initial, strict=True))}
        elements = first_types(self.body, outputs, known)
        sizes = known_sizes(known)
        return *carried, *(stack(values, type, 0, sizes) for values, type in zip(scanned, elements, strict=True))


class Scan(Op):
    """`body` for each slice of the scanned inputs; states pass on from slice to slice, other outputs are stacked."""

    moves_only = True
    variadic_outputs: ClassVar[bool] = True
    body: Graph
    num_scan_inputs: int
    scan_input_axes: tuple[int, ...] | None = None
    scan_input_directions: tuple[int, ...] | None = None
    scan_output_axes: tuple[int, ...] | None = None
    scan_output_directions: tuple[int, ...] | None = None
    output_count: int = output_count()

    @staticmethod
    def body_types(name: str, inputs: Sequence[Value | None], attributes: Mapping[str, Any]) -> list[Type | None]:
        """The types that the body's inputs take in the first round."""
        del name
        axes, count = attributes.get("scan_input_axes"), attributes.get("num_scan_inputs", 0)
        types = [None if value is None else value.type for value in inputs[: len(inputs) - count]]
        scanned = inputs[len(inputs) - count :]
        pairs = zip(scanned, (0,) * count if axes is None else axes, strict=False)
        return types + [None if value is None else scan_slice(value, axis)[1] for value, axis in pairs]

    def infer(self, *initial_state_and_scan_inputs: Value) -> tuple[Type, ...]:
        states = self._states(initial_state_and_scan_inputs)
        count, scanned = len(states), initial_state_and_scan_inputs[len(states) :]
        if (len(self.body.inputs), len(self.body.outputs)) != (count + len(scanned), self.output_count):
            raise ShapeError(f"a body with {len(self.body.inputs)} inputs and {len(self.body.outputs)} outputs")
        axes = self._flags("scan_input_axes", len(scanned))
        slices = [scan_slice(value, axis) for value, axis in zip(scanned, axes, strict=True)]
        changed = {i for i, (_, type) in zip(self.body.inputs[count:], slices, strict=True) if change_type(i, type)}
        retype(self.body, changed)
        settle(self.body, self.body.inputs[:count], states, self.body.outputs[:count])
        shared = seen(self.body, initial_state_and_scan_inputs)
        length = self.length(initial_state_and_scan_inputs)
        final = [join_types(a.type, outside(b.type, shared)) for a, b in zip(states, self.body.outputs, strict=False)]
        axes = self._flags("scan_output_axes", self.output_count - count)
        elements = [outside(value.type, shared) for value in self.body.outputs[count:]]
        return *final, *(stacked(type, length, axis) for type, axis in zip(elements, axes, strict=True))

    def length(self, inputs: Sequence[Value]) -> Dim:
        """The number of slices, in which all scanned inputs must agree."""
        scanned = inputs[len(self._states(inputs)) :]
        axes = self._flags("scan_input_axes", len(scanned))
        found = [scan_slice(value, axis)[0] for value, axis in zip(scanned, axes, strict=True)]
        sizes = [size for size in found if size is not None] or [dims.fresh()]
        return reduce(lambda a, c: unify(a, c, "the lengths of the scanned axes"), sizes)

    def _states(self, inputs: Sequence[Any]) -> Sequence[Any]:
        if not 1 <= self.num_scan_inputs <= len(inputs):
            raise ShapeError(f"num_scan_inputs {self.num_scan_inputs}: expected 1 to {len(inputs)}")
        return inputs[: len(inputs) - self.num_scan_inputs]

    def _flags(self, name: str, count: int) -> tuple[int, ...]:
        flags = getattr(self, name)
        if flags is not None and len(flags) != count:
            raise ShapeError(f"{name} has {len(flags)} entries, expected {count}")
        return (0,) * count if flags is None else flags

    def interpret(self, run: Runner, *initial_state_and_scan_inputs: Any) -> tuple[Any, ...]:
        states = list(self._states(initial_state_and_scan_inputs))
        scanned = initial_state_and_scan_inputs[len(states) :]
        axes = self._flags("scan_input_axes", len(scanned))
        rows = [np.moveaxis(array, resolve_axis(a, array.ndim), 0) for array, a in zip(scanned, axes, strict=True)]
        back = self._flags("scan_input_directions", len(scanned))
        rows = [array[::-1] if is_back else array for array, is_back in zip(rows, back, strict=True)]
        if len({len(array) for array in rows}) != 1:
            raise OperatorError(f"the scanned axes have the lengths {[len(array) for array in rows]}, expected one")
        outputs = self.body.outputs[len(states) :]
        known = {} if len(rows[0]) else {**run.known, **self._first_inputs(states, rows)}
        elements, sizes = first_types(self.body, outputs, known), known_sizes(known)
        found: list[list[Any]] = [[] for _ in outputs]
        for slices in zip(*rows, strict=True):
            items = (np.asarray(item, row.dtype) for item, row in zip(slices, rows, strict=True))
            results = run(self.body, [*states, *items])
            states = results[: len(states)]
            for values, item in zip(found, results[len(states) :], strict=True):
                values.append(item)
        axes = self._flags("scan_output_axes", len(outputs))
        back = self._flags("scan_output_directions", len(outputs))
        rest = zip(found, elements, axes, back, strict=True)
        stacks = (stack(values[::-1] if flip else values, type, axis, sizes) for values, type, axis, flip in rest)
        return *states, *stacks

    def _first_inputs(self, states: Sequence[Any], rows: Sequence[Array]) -> dict[Value, Any]:
        """The body's inputs with arrays of the sizes that a first round would have had."""
        slices = [np.broadcast_to(np.zeros((), row.dtype), row.shape[1:]) for row in rows]
        return dict(zip(self.body.inputs, (*states, *slices), strict=True))


def scan_slice(value: Value, axis: int) -> tuple[Dim | None, Type]:
    """The length of a scanned axis, and the type of one slice."""
    if value.tensor.shape is None:
        return None, value.tensor
    axis = resolve_axis(axis, value.rank)
    return value.shape[axis], value.tensor.with_shape((*value.shape[:axis], *value.shape[axis + 1 :]))


def stacked(type: Type, length: Dim, axis: int) -> TensorType:
    """The type of values stacked along a new axis; there may be none, also where sizes would not let the body run."""
    if not isinstance(type, TensorType):
        raise ShapeError(f"only tensors can be stacked, got {type}")
    if type.shape is None:
        return type
    axis = resolve_axis(axis, len(type.shape) + 1)
    shape = [dims.maximum(size, 0) for size in type.shape]
    return type.with_shape((*shape[:axis], length, *shape[axis:]))


def stack(values: list[Array], type: TensorType, axis: int, known: Mapping[Atom, Dim]) -> Array:
    """Values stacked along a new axis; where there are none, with the sizes that their type tells, else 0."""
    if values:
        return np.stack(values, axis=resolve_axis(axis, values[0].ndim + 1))
    sizes = [size_of(size, known) for size in type.shape or ()]
    sizes.insert(resolve_axis(axis, len(sizes) + 1), 0)
    return np.zeros(sizes, type.dtype.numpy)


def first_types(body: Graph, outputs: Sequence[Value], known: Mapping[Value, Any]) -> list[TensorType]:
    """The types of values that a body stacks; as a first round would find them with these arrays where a rank is open.

    That may be the rank of a value itself, or of one that the body reads: its sizes have no names then. `known` has the
    arrays around the body and those of its inputs.
    """
    types = [value.tensor for value in outputs]
    if not known or not any(_has_open_rank(value) for value in (*outputs, *known)):
        return types
    copy, values = clone_with_values(body)
    if not any(_has_open_rank(value) for value in (*outputs, *(value for value in known if value in values))):
        return types
    changed = {values[value] for value in known if value in values}
    for value, array in known.items():
        if value in values and array is not None:
            values[value].type = _array_type(array, value.type)
    with contextlib.suppress(OperatorError, ShapeError):  # it may never run, and says so itself where it does
        retype(copy, changed)
    return [values[value].tensor for value in outputs]


def _has_open_rank(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.shape is None


def _array_type(array: Any, type: Type) -> Type:
    """The type of a run-time value that has this type too; only that of an empty list tells no more than that."""
    if not isinstance(array, list):
        return type_of(array) if isinstance(array, np.ndarray) else type
    found = [_array_type(item, type.element) for item in array if isinstance(type, SequenceType)]
    return SequenceType(reduce(join_types, found)) if found else type


def _like(scalar: Array, value: Value) -> Array:
    """A scalar as the body declares it: some write it as a tensor of one element."""
    rank = len(value.tensor.shape or ())
    return scalar.reshape((1,) * rank)


def _is_copy(value: Value, source: Value) -> bool:
    while value.producer is not None and value.producer.op.name == "Identity":
        value = value.producer.inputs[0] or source
    return value is source


def change_type(value: Value, type: Type) -> bool:
    """Give a value another type; whether it had a different one."""
    is_changed = value.type != type
    value.type = type
    return is_changed


def settle(body: Graph, inner: Sequence[Value], initial: Sequence[Value], carried: Sequence[Value]) -> None:
    """Give the carried inputs of a body the types that hold in every round, and infer the body anew with them.

    They start as the initial values' types. A size that the body returns otherwise than it got it becomes a symbol of
    the input's own, a rank that changes becomes unknown; since either happens once only, this ends.
    """
    wanted = [_started(value, given) for value, given in zip(inner, initial, strict=True)]
    while True:
        changed = {value for value, type in zip(inner, wanted, strict=True) if change_type(value, type)}
        retype(body, changed)
        widened = [_widened(value, result.type) for value, result in zip(inner, carried, strict=True)]
        if widened == wanted:
            return
        wanted = widened


def _own_symbol(value: Value, axis: int) -> dims.Expr:
    return dims.symbol(f"{value.name}:round{axis}")


def _started(value: Value, initial: Value) -> Type:
    """The initial value's type, with what an earlier inference has found to vary."""
    before, given = value.type, initial.type
    if not isinstance(before, TensorType) or not isinstance(given, TensorType):
        return given
    if given.shape is None or before.shape is None or len(before.shape) != len(given.shape):
        return given
    sizes = enumerate(zip(before.shape, given.shape, strict=True))
    return given.with_shape(tuple(old if old == _own_symbol(value, axis) else new for axis, (old, new) in sizes))


def _widened(value: Value, returned: Type) -> Type:
    if isinstance(value.type, TensorType) and isinstance(returned, TensorType) and value.dtype == returned.dtype:
        shape, other = value.type.shape, returned.shape
        if shape is None or other is None or len(shape) != len(other):
            return value.type.with_shape(None)
        sizes = enumerate(zip(shape, other, strict=True))
        return value.type.with_shape(tuple(a if a == b else _own_symbol(value, axis) for axis, (a, b) in sizes))
    joined = join_types(value.type, returned)
    return value.type if type(joined) is type(value.type) and _only_sizes_differ(value.type, joined) else joined


def _only_sizes_differ(left: Type, right: Type) -> bool:
    """Whether the sizes that differ between two types are unknown in both."""
    if isinstance(left, TensorType) and isinstance(right, TensorType):
        if left.shape is None or right.shape is None:
            return left.shape is right.shape
        return all(a == b or not isinstance(a, int) for a, b in zip(left.shape, right.shape, strict=True))
    if isinstance(left, (SequenceType, OptionalType)) and isinstance(right, (SequenceType, OptionalType)):
        return _only_sizes_differ(left.element, right.element)
    return left == right


def retype(graph: Graph, changed: set[Value]) -> None:
    """Infer anew the nodes that read changed values, and those that read what thereby changes."""
    if not changed:
        return
    for node in graph.nodes:
        for _, subgraph in node.op.subgraphs():
            retype(subgraph, changed)
        if changed.isdisjoint(value for value in (*node.inputs, *node.captures()) if value is not None):
            continue
        before = [(value.type, value.contents) for value in node.outputs]
        infer_node(node)
        after = [(value.type, value.contents) for value in node.outputs]
        for value, old, new in zip(node.outputs, before, after, strict=True):
            if old[0] != new[0] or not np.array_equal(old[1], new[1]):  # pyright: ignore
                changed.add(value)


def seen(graph: Graph, inputs: Iterable[Value | None] = ()) -> set[str]:
    """The symbols that a subgraph shares with the world outside: those of the values that it reads from there."""
    found: set[str] = set()
    for value in (*graph.captures(), *inputs):
        if value is not None:
            found |= own_symbols(value)
    return found


def outside(type: Type, shared: set[str]) -> Type:
    """The type as it is known outside of a subgraph: a size that only the inside knows becomes a fresh symbol."""
    if isinstance(type, TensorType) and type.shape is not None:
        sizes = (size if dims.symbols(size) <= shared else dims.fresh() for size in type.shape)
        return type.with_shape(tuple(sizes))
    if isinstance(type, SequenceType):
        return SequenceType(outside(type.element, shared))
    return OptionalType(outside(type.element, shared)) if isinstance(type, OptionalType) else type
