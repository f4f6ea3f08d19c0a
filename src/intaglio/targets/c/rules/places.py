"""What gathers and scatters share: indices that count from either end, index tuples, and axes merged around an axis."""

from __future__ import annotations

from dataclasses import dataclass

from intaglio.ir.dim import Dim
from intaglio.ir.graph import Node, Value
from intaglio.kernels.plan import Size
from intaglio.kernels.refusal import Cause, Refusal
from intaglio.kernels.view import row_major

PLACE = """
static inline int64_t IG_FUNCTION_place(int64_t index, int64_t extent)
{
    const int64_t place = index < 0 ? index + extent : index;
    return (uint64_t)place < (uint64_t)extent ? place : -1;
}
"""
"""C: the place that an index means, counted from the end where it is negative; -1 where it is out of range."""


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
    """The extents and strides of the axes that index tuples point into, behind `batch` axes."""
    strides = row_major(data.shape)
    sizes: list[tuple[str, Size]] = [(f"extent{i}", data.shape[batch + i]) for i in range(length)]
    return sizes + [(f"step{i}", strides[batch + i]) for i in range(length)]


def tuple_text(length: int, row: str, base: str) -> str:
    """C that leaves the offset of a row's index tuple in `at`, and in `is_inside` whether it is in range."""
    lines = [f"        int64_t at = {base}, is_inside = 1;"]
    for i in range(length):
        lines.append(
            f"        const int64_t place{i} = IG_FUNCTION_place((int64_t)index[{row} * {length} + {i}], extent{i});"
        )
        lines.append(f"        is_inside &= place{i} >= 0;")
        lines.append(f"        at += place{i} * step{i};")
    return "\n".join(lines)


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
        """The sizes that `line_text` uses."""
        steps = row_major(self.data)
        rows = row_major(self.indices)
        sizes: list[tuple[str, Size]] = [("count", self.indices[self.axis]), ("extent", self.data[self.axis])]
        sizes += [("index_step", rows[self.axis]), ("axis_step", steps[self.axis])]
        for axis in self.others:
            sizes += [(f"count{axis}", self.indices[axis]), (f"row{axis}", rows[axis]), (f"step{axis}", steps[axis])]
        return sizes

    @property
    def line_text(self) -> str:
        """C that decodes `row`, the number of a line along the axis: `from` in the indices, `to` in the data."""
        lines = ["        int64_t rest = row, from = 0, to = 0;"]
        for axis in reversed(self.others):
            lines.append(f"        from += rest % count{axis} * row{axis};")
            lines.append(f"        to += rest % count{axis} * step{axis};")
            lines.append(f"        rest /= count{axis};")
        return "\n".join([*lines, "        (void)rest;"])


def element_axes(indices: Value, data: Value, axis: int) -> ElementAxes:
    """Merge each axis into the one before it where that one is not `axis` and indices and data have one extent."""
    merged: list[tuple[Dim, Dim]] = []
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
