"""What gathers and scatters share: indices that count from either end, index tuples, and axes merged around an axis."""

from __future__ import annotations

from dataclasses import dataclass

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node, Value
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import row_major
from intaglio.targets.c.routine import numbered


def inputs_of(node: Node) -> list[Value]:
    """The inputs that are given."""
    return [value for value in node.inputs if value is not None]


def refuse_unknown_tuples(node: Node) -> Refusal | None:
    """The reason where the length of the index tuples is known only at run time."""
    length = inputs_of(node)[1].shape[-1]
    return (
        None
        if isinstance(length, int)
        else Refusal(Cause.SHAPE, "the length of its index tuples is not known before the run")
    )


def tuple_length(indices: Value) -> int:
    """The number of indices in each tuple."""
    length = indices.shape[-1]
    assert isinstance(length, int), "lowering refuses other tuples"
    return length


def tuple_sizes(data: Value, batch: int, length: int) -> list[tuple[str, Size]]:
    """The extents and steps of the axes that index tuples point into, behind `batch` axes: of one at least."""
    extents = data.shape[batch : batch + length] or (1,)
    steps = row_major(data.shape)[batch : batch + length] or (0,)
    return [*numbered("extent", extents), *numbered("step", steps)]


@dataclass(frozen=True)
class ElementAxes:
    """The shapes of `indices` and `data` of an elementwise gather or scatter, with axes merged where both agree."""

    indices: tuple[Dim, ...]
    data: tuple[Dim, ...]
    axis: int

    @property
    def others(self) -> list[int]:
        """The axes along which indices and data have the same position."""
        return [axis for axis in range(len(self.indices)) if axis != self.axis]

    @property
    def sizes(self) -> list[tuple[str, Size]]:
        """The sizes of lines along the axis, as kernels have them."""
        steps, index_steps = row_major(self.data), row_major(self.indices)
        return [
            ("count", self.indices[self.axis]), ("extent", self.data[self.axis]),
            ("index_step", index_steps[self.axis]), ("axis_step", steps[self.axis]),
            *numbered("other_count", [self.indices[axis] for axis in self.others]),
            *numbered("other_index_step", [index_steps[axis] for axis in self.others]),
            *numbered("other_step", [steps[axis] for axis in self.others]),
        ]  # fmt: skip


def element_axes(indices: Value, data: Value, axis: int) -> ElementAxes:
    """Merge each axis into the one before it where that one is not `axis` and indices and data have one extent.

    There is another axis always, be it one of a single position.
    """
    merged: list[tuple[Dim, Dim]] = [(1, 1)] if indices.rank == 1 else []
    place = axis
    for position, (count, extent) in enumerate(zip(indices.shape, data.shape, strict=True)):
        if position not in (0, axis, axis + 1) and count == extent:
            before_count, before_extent = merged.pop()
            merged.append((before_count * count, before_extent * extent))
        else:
            merged.append((count, extent))
        if position == axis:
            place = len(merged) - 1
    return ElementAxes(tuple(c for c, _ in merged), tuple(e for _, e in merged), place)
