"""What a run needs of a segment besides its code: ids, sizes and places, as numbers and expressions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from intaglio.errors import LimitError
from intaglio.ir.dim import Dim, symbols
from intaglio.ir.dtype import DType
from intaglio.ir.limits import Limits
from intaglio.ir.substitution import evaluate
from intaglio.kernels.status import ASSUMPTION, FAULT, REQUIREMENT
from intaglio.memory.arena import Layout
from intaglio.record import Record

MOST_ADDRESSES = 2**56
"""Bytes that no process can have."""


class Room(Record):
    """A buffer of the arena."""

    name: str
    bytes: Dim


class Result(Record):
    """An output; `shape` and `bytes` are None where only the run tells them."""

    name: str
    dtype: DType
    shape: tuple[Dim, ...] | None
    bytes: Dim | None


class Frame(Record):
    """The sizes of a segment, which follow from its plan."""

    inputs: tuple[str, ...]
    """The ids of the values that come in."""
    outputs: tuple[str, ...]
    results: tuple[Result, ...]
    """What is known of each output."""
    late: tuple[bool, ...]
    """For each buffer that the segment writes, whether its size is known only in the run."""
    symbols: tuple[str, ...]
    """The symbols whose values the segment is given, in order."""
    finds: tuple[str, ...]
    """The symbols that the segment itself gives values to."""
    told: int
    """How many of those it writes to a buffer behind its outputs, for the parts that follow."""
    arena: tuple[Room, ...]
    layout: Layout
    work: tuple[Dim, ...]
    """The operations of each call of a kernel, as far as they are known before the run."""
    aliases: tuple[tuple[int, int], ...] = ()
    """The outputs that are one array with an input: pairs of an output and an input."""
    first_write: int = -1
    """The action behind which inputs may be written over; -1 where none are."""
    is_narrow: bool = False
    """Whether an input or output has an element type that the buffer protocol does not know."""
    safe: int = -1
    """The symbols up to which no size that is computed overflows."""

    def may_have_written(self, status: int) -> bool:
        """Whether a run that ended with a status may have written over some of its inputs."""
        if self.first_write < 0 or status in (ASSUMPTION, REQUIREMENT):
            return False
        return not FAULT <= status < FAULT + self.first_write

    def rooms(self, bindings: Mapping[str, int]) -> list[int]:
        """The bytes of each buffer of the arena.

        A size below 0 belongs to a body that cannot run with these sizes; the code refuses them where it runs.
        """
        return [max(0, evaluate(room.bytes, bindings)) for room in self.arena]

    def shapes(self, bindings: Mapping[str, int]) -> list[tuple[int, ...] | None]:
        """The shape of each output; None where only the run tells it. Raises LimitError for one that no array has."""
        found = [_sizes(result.shape, bindings) for result in self.results]
        for result, shape in zip(self.results, found, strict=True):
            _check_shape(result.name, shape or (), result.dtype.numpy.itemsize)
        return found

    def check_memory(
        self, bindings: Mapping[str, int], rooms: Sequence[int], arena: int, weights: int, limits: Limits
    ) -> None:
        """Raise LimitError where the buffers, the outputs and the weights are over the limit on memory."""
        results = self._results(bindings)
        buffers = [(room.name, size) for room, size in zip(self.arena, rooms, strict=True)]
        _check_memory(buffers, results, arena, weights, limits)

    def check_addressable(self, bindings: Mapping[str, int], rooms: Sequence[int]) -> None:
        """Raise LimitError where a run needs more bytes than there are addresses."""
        names = [room.name for room in self.arena]
        sizes = [*zip(names, rooms, strict=True), *self._results(bindings)]
        total = sum(size for _, size in sizes)
        if total > MOST_ADDRESSES:
            name, size = max(sizes, key=lambda item: item[1])
            raise LimitError(f"the run needs {total} bytes, more than there can be; {name!r} alone has {size}")

    def _results(self, bindings: Mapping[str, int]) -> list[tuple[str, int]]:
        """The name and bytes of each output that has memory of its own, where the bytes are known."""
        shared = {output for output, _ in self.aliases}
        own = [each for place, each in enumerate(self.results) if place not in shared]
        return [(each.name, evaluate(each.bytes, bindings)) for each in own if each.bytes is not None]

    def needs(self) -> list[str]:
        """Every symbol that sizes, buffers or outputs depend on, without those that the segment finds itself."""
        found = set(self.symbols)
        for room in self.arena:
            found |= symbols(room.bytes)
        for result in self.results:
            for dim in result.shape or ():
                found |= symbols(dim)
        for work in self.work:
            found |= symbols(work)
        return sorted(found - set(self.finds))


def _sizes(shape: Sequence[Dim] | None, bindings: Mapping[str, int]) -> tuple[int, ...] | None:
    return None if shape is None else tuple([evaluate(dim, bindings) for dim in shape])


def _check_shape(name: str, shape: Sequence[int], itemsize: int) -> None:
    """Raise LimitError where no array can have a shape, not even one that is empty because one of its sizes is 0."""
    if math.prod(size for size in shape if size) * itemsize >= 2**63:
        raise LimitError(f"{name!r} has the shape {list(shape)}, which no array can have")


def _check_memory(
    buffers: Sequence[tuple[str, int]], outputs: Sequence[tuple[str, int]], arena: int, weights: int, limits: Limits
) -> None:
    if limits.memory is None:
        return
    returned = sum(max(0, size) for _, size in outputs)
    total = arena + returned + weights
    if total <= limits.memory:
        return
    largest, size = max([*buffers, *outputs], key=lambda item: item[1])
    parts = f"{arena} between nodes, {returned} of outputs, {weights} of weights"
    raise LimitError(
        f"the run needs {total} bytes ({parts});"
        f" the limit on memory is {limits.memory}; the largest tensor is {largest!r} with {size} bytes"
    )
