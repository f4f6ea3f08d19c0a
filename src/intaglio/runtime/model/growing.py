"""Caches that grow, as state with a capacity.

A model that takes a past and gives `Concat(past, new)` copies the past in every run. Here the past lies in an array
with room for more: a run writes what is new behind it, and reads as much as there is by then. The length is a size of
the graph, so nothing is compiled for another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from intaglio.errors import InputError, OperatorError
from intaglio.ir.build import Builder
from intaglio.ir.dim import Symbol, lone_atom, symbol
from intaglio.ir.dtype import BOOL, FLOAT32
from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.types import TensorType
from intaglio.ops.shared.indices import resolve_axis
from intaglio.passes.driver import replace_value
from intaglio.record import Record
from intaglio.runtime.model.loading import load
from intaglio.runtime.model.model import Signature
from intaglio.runtime.model.state import State, StatefulModel

Array = np.ndarray[Any, Any]


class GrowingModel(StatefulModel):
    """A model with state of which some tensors grow, up to a capacity; see `stateful`.

    A run that fails leaves the state as it was: what it wrote lies behind the end of the caches. Other tensors of the
    state become what the run returns for them.
    """

    def __init__(self, model: Any, arrays: Mapping[str, Array], growth: Growth, writes: Mapping[str, str]) -> None:
        self._caches = {cache.name: cache for cache in growth.caches}
        self._growth = growth
        self.lengths: dict[str, int] = first_lengths(arrays, growth.caches)
        """How long the caches are by now, by the symbol of their length."""
        held = {
            name: room_for(array, self._caches[name], growth.capacity[self._caches[name].length])
            if name in self._caches
            else array
            for name, array in arrays.items()
        }
        super().__init__(model, State(held), {name: name for name in arrays}, writes)
        self._sizes = set(growth.inputs.values())
        self._names.difference_update(self._sizes)
        self._results = [name for name in self._results if name not in growth.outputs.values()]

    @property
    def inputs(self) -> tuple[Signature, ...]:
        """The inputs that a run is given, in order."""
        return tuple(item for item in super().inputs if item.name not in self._sizes)

    @property
    def outputs(self) -> tuple[Signature, ...]:
        """The outputs that a run returns, in order."""
        return tuple(item for item in super().outputs if item.name not in self._growth.outputs.values())

    def cache(self, name: str) -> Array:
        """What a cache holds by now: a view of the memory with room for more, which later runs write behind."""
        found = self._caches.get(name)
        if found is None:
            raise InputError(f"there is no cache {name!r}; the caches are {', '.join(map(repr, self._caches))}")
        return view_of(self.state.held(name), found, self.lengths[found.length])

    def cut(self, lengths: Mapping[str, int]) -> None:
        """Forget what caches hold behind these lengths, by the symbols of their lengths: `cut({"past": 0})`."""
        with self.state.lock:
            for name, length in lengths.items():
                if not 0 <= length <= self.lengths.get(name, -1):
                    raise InputError(f"cut: {name!r} is {self.lengths.get(name)}, so it cannot be cut to {length}")
            self.lengths.update(lengths)

    def run(self, feeds: Mapping[str, Any], accept: Callable[[dict[str, Any]], bool] | None = None) -> dict[str, Any]:
        """Run on inputs by name; returns outputs by name. What the run appends is in the caches afterwards.

        Raises OperatorError where a cache has no room for it. Then, and where `accept` refuses, the caches are as they
        were.
        """
        if len(feeds) != len(self._names) or not self._names.issuperset(feeds):
            self._check_feeds(feeds)
        with self.state.lock:
            sizes = {name: np.empty((self.lengths[of], 0), np.float32) for of, name in self._growth.inputs.items()}
            held = {name: self.state.held(name) for name in self.state}
            try:
                found = self.model.run({**feeds, **held, **sizes})
            except OperatorError as error:
                full = [f"{n} of {self._growth.capacity[of]} along {of!r}" for of, n in self.lengths.items()]
                text = str(error).partition("; the inputs that were given away")[0]
                raise OperatorError(f"{text}. The caches are as they were: they hold {', '.join(full)}") from error
            results = {name: found[name] for name in self._results if name not in self._writes}
            if accept is None or accept(results):
                plain = {of: found[name] for name, of in self._writes.items() if of not in self._caches}
                self.state.replace(plain)
                self.lengths = {of: int(found[name][0]) for of, name in self._growth.outputs.items()}
        return results


def growing(
    graph: Graph,
    arrays: Mapping[str, Array],
    updates: Mapping[str, str],
    capacity: Mapping[str, int],
    options: Mapping[str, Any],
) -> GrowingModel:
    """The model of a graph with caches that have room; the graph is changed."""
    for name, most in capacity.items():
        if type(most) is not int or most < 1:
            raise InputError(f"capacity[{name!r}] is {most!r}, expected a number of elements")
    spell_out_attention(graph)
    growth = with_room(graph, updates, capacity)
    made = {cache.name: cache.output for cache in growth.caches}
    model = load(graph, **{name: option for name, option in options.items() if name != "donate"}, donate=made)
    writes = {made.get(name, output): name for name, output in updates.items()}
    return GrowingModel(model, arrays, growth, writes)


class Cache(Record):
    """A tensor of the state that grows: its axis, the symbol of its length there, and the output that it becomes."""

    name: str
    axis: int
    length: str
    output: str


class Growth(Record):
    """The caches of a graph; by the symbol of each length, the input that brings it and the output that it becomes."""

    caches: tuple[Cache, ...]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    capacity: Mapping[str, int]


def with_room(graph: Graph, updates: Mapping[str, str], capacity: Mapping[str, int]) -> Growth:
    """Change a graph whose outputs are longer than the inputs that they become; `capacity` has the most of each length.

    Raises InputError for an output that is no `Concat` of its input and something new.
    """
    inputs, outputs = ({value.name: value for value in values} for values in (graph.inputs, graph.outputs))
    lengths = {name: _length_input(graph, name) for name in capacity}
    caches: list[Cache] = []
    ends: dict[str, Value] = {}
    for name, output in updates.items():
        past, present = inputs.get(name), outputs.get(output)
        found = None if past is None or present is None else _growing_axis(past, capacity)
        if past is None or present is None or found is None:
            continue
        axis, length = found
        node = _joins(past, present, axis)
        made, end = _write_behind(graph, past, node, axis, capacity[length], lengths[length])
        ends.setdefault(length, end)
        caches.append(Cache(name, axis, length, made.name))
    unused = [name for name in capacity if name not in ends]
    if unused:
        raise InputError(f"capacity: no state grows along {unused[0]!r}; give the symbol of a dimension of an input")
    graph.set_outputs([*graph.outputs, *ends.values()])
    return Growth(
        tuple(caches),
        {name: value.name for name, value in lengths.items()},
        {name: value.name for name, value in ends.items()},
        dict(capacity),
    )


def spell_out_attention(graph: Graph) -> None:
    """Write each `Attention` with a past as Concat of keys and values, and attention to all of them.

    A causal one gets a mask: it counts places from the begin of the past.
    """
    for node in list(graph.nodes):
        is_asked = node.op.name == "Attention" and not node.op.domain and node.optional(4) is not None
        is_plain = is_asked and node.op.left_window_size < 0 and node.op.right_window_size < 0
        if is_plain and (len(node.outputs) < 4 or not node.outputs[3].uses):
            with (b := Builder(graph, before=node, origin=node.origin)).active():
                made = _attention(b, node)
            names = [value.name for value in node.outputs]
            for old, new in zip(node.outputs, made, strict=False):
                replace_value(graph, old, new)
            graph.remove(node)
            for new, name in zip(made, names, strict=False):
                new.name = name


def _attention(b: Builder, node: Node) -> tuple[Value, Value, Value]:
    op = node.op
    heads = (op.q_num_heads, op.kv_num_heads, op.kv_num_heads)
    q, k, v = (_split(b, node.needed(place), count) for place, count in enumerate(heads))
    keys, values = (b.Concat(node.needed(place), new, axis=2) for place, new in ((4, k), (5, v)))
    mask = node.optional(3)
    if op.is_causal:
        mask = _causal(b, q, keys, node.needed(4), mask)
    kept = {name: getattr(op, name) for name in ("scale", "softcap", "softmax_precision")}
    y = b.Attention(q, keys, values, mask, **{name: each for name, each in kept.items() if each is not None})
    if node.input.rank == 3:
        y = b.Reshape(b.Transpose(y, perm=(0, 2, 1, 3)), b.constant(np.array([0, 0, -1])))
    return y, keys, values


def _split(b: Builder, value: Value, heads: int) -> Value:
    """A value as (batch, heads, sequence, head size)."""
    if value.rank == 4:
        return value
    return b.Transpose(b.Reshape(value, b.constant(np.array([0, 0, heads, -1]))), perm=(0, 2, 1, 3))


def _causal(b: Builder, q: Value, keys: Value, past: Value, mask: Value | None) -> Value:
    """A mask of the keys that each query may see: those of the past, and the new ones up to its own place."""
    zero, one = (b.constant(np.int64(number)) for number in (0, 1))
    sizes = [b.Squeeze(b.Shape(value, start=2, end=3), b.constant(np.array([0]))) for value in (q, keys, past)]
    row = b.Unsqueeze(b.Range(zero, sizes[0], one) + sizes[2], b.constant(np.array([1])))
    is_seen = b.LessOrEqual(b.Unsqueeze(b.Range(zero, sizes[1], one), b.constant(np.array([0]))), row)
    if mask is None:
        return is_seen
    return b.And(is_seen, mask) if mask.dtype == BOOL else b.Where(is_seen, mask, b.constant(-np.inf, mask.dtype))


def _length_input(graph: Graph, name: str) -> Value:
    """An input without elements, whose size is a length."""
    value = Value(graph.unique_name(f"{name}@length"), TensorType(FLOAT32, (symbol(name), 0)))
    graph.inputs.append(value)
    return value


def _growing_axis(past: Value, capacity: Mapping[str, int]) -> tuple[int, str] | None:
    atoms = [lone_atom(dim) for dim in past.shape]
    found = [(n, atom.name) for n, atom in enumerate(atoms) if isinstance(atom, Symbol) and atom.name in capacity]
    if len(found) > 1 or (found and found[0][0] == 0):
        raise InputError(
            f"capacity: the state {past.name!r} is {past.type}; expected one growing axis behind the first"
        )
    return found[0] if found else None


def _joins(past: Value, present: Value, axis: int) -> Node:
    """The node that makes the present of the past; raises InputError where that is no Concat of both."""
    node = present.producer
    is_concat = node is not None and node.op.name == "Concat" and len(node.inputs) == 2 and node.inputs[0] is past
    if node is None or not is_concat or resolve_axis(node.op.axis, past.rank) != axis:
        made = "an input" if node is None else f"made by {node.op.name}"
        raise InputError(
            f"capacity: the output {present.name!r} is {made}, expected Concat({past.name!r}, new) along axis {axis}"
        )
    return node


def _write_behind(graph: Graph, past: Value, node: Node, axis: int, most: int, length: Value) -> tuple[Value, Value]:
    """Write the second operand of a Concat behind the first one, in its memory; the memory, and the length by then."""
    before, type = past.tensor, node.output.tensor
    first = Builder(graph, before=graph.first)
    readers = [(reader, place) for reader, place in past.uses if reader is not node]
    past.type = before.with_shape((*past.shape[:axis], most, *past.shape[axis + 1 :]))
    part = _beginning(first, past, axis, first.Shape(length, start=0, end=1), before) if readers else past
    for reader, place in readers:
        if not isinstance(reader, Node):
            raise InputError(f"capacity: the state {past.name!r} is itself an output of a graph")
        reader.set_input(place, part)
    b, new = Builder(graph, before=node), node.needed(1)
    count = b.Shape(length, start=0, end=1)
    start = b.Expand(count, b.Shape(past, start=0, end=1))
    made = b.TensorScatter(past, new, start, axis=axis)
    end = b.Add(count, b.Shape(new, start=axis, end=axis + 1))
    present = _beginning(b, made, axis, end, type)
    old = node.output
    made.name = graph.unique_name(f"{old.name}@room")
    graph.set_outputs([made if value is old else value for value in graph.outputs])
    replace_value(graph, old, present)
    graph.remove(node)
    return made, end


def _beginning(b: Builder, value: Value, axis: int, end: Value, type: TensorType) -> Value:
    """The first elements along an axis; there are as many as the type says, which a slice would not know."""
    part = b.Slice(value, b.constant(np.array([0])), end, b.constant(np.array([axis])))
    part.type = type
    return part


def room_for(array: Array, cache: Cache, most: int) -> Array:
    """An array with room for `most` along the axis of a cache, which begins with what is given."""
    if array.shape[cache.axis] > most:
        raise InputError(f"state {cache.name!r} has {array.shape[cache.axis]} along {cache.length!r}, capacity {most}")
    shape = (*array.shape[: cache.axis], most, *array.shape[cache.axis + 1 :])
    found = np.zeros(shape, array.dtype)
    found[_part(cache, array.shape[cache.axis])] = array
    return found


def _part(cache: Cache, length: int) -> tuple[slice, ...]:
    return (*[slice(None)] * cache.axis, slice(length))


def view_of(array: Array, cache: Cache, length: int) -> Array:
    """So much of a cache, with the strides of its capacity."""
    return array[_part(cache, length)]


def first_lengths(arrays: Mapping[str, Array], caches: Sequence[Cache]) -> dict[str, int]:
    """How long the caches are at first; raises InputError where two of one length differ."""
    found: dict[str, int] = {}
    for cache in caches:
        size = arrays[cache.name].shape[cache.axis]
        if found.setdefault(cache.length, size) != size:
            raise InputError(f"state {cache.name!r} has {size} along {cache.length!r}, others {found[cache.length]}")
    return found
