"""Places for boxes in boxes: each group is laid out by itself, from the innermost outwards.

A value that enters or leaves a group does so at a port on the group's upper or lower edge. Inside, ports are boxes
without a size in the first and last layer; outside, lines begin and end where the ports are.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from intaglio.tools.drawing.boxes import Box, Drawing, Line
from intaglio.tools.drawing.layered import Layout, Point, Spacing, Wires, layered_layout
from intaglio.tools.drawing.theme import text_width

TITLE_SIZE, LINE_SIZE = 12.0, 9.5
PADDING, MARGIN, HEADER = 8.0, 14.0, 22.0
BOLD = 1.12
"""How much wider text in a bold type is."""


@dataclass(frozen=True)
class Curve:
    """A part of a line inside of one group, as points; its label is at its begin. `is_end`: it arrives at a leaf."""

    points: list[Point]
    value: str
    label: str
    is_end: bool


@dataclass
class Place:
    """Where a box is: its upper left corner, its size, and what is drawn inside of it."""

    box: Box
    x: float
    y: float
    width: float
    height: float
    inside: list[Place] = field(default_factory=list["Place"])
    curves: list[Curve] = field(default_factory=list[Curve])


@dataclass
class _Local:
    """One line of a group's own graph: from a member or an entry (None) to a member or an exit (None)."""

    source: Box | None
    target: Box | None
    value: str
    label: str
    is_end: bool


@dataclass
class _Sized:
    """A box with its size, and how far its ports are from its middle."""

    width: float
    height: float
    entries: dict[str, float] = field(default_factory=dict[str, float])
    exits: dict[str, float] = field(default_factory=dict[str, float])
    place: Place | None = None


def nested_layout(drawing: Drawing, spacing: Spacing | None = None) -> Place:
    """The place of the outermost box, with all others inside."""
    inner = _local_lines(drawing.lines)
    sized: dict[Box, _Sized] = {}
    for box in _inside_out(drawing.root):
        sized[box] = _group(box, inner.get(box, []), sized, spacing) if box.inside else _leaf(box)
    place = sized[drawing.root].place
    return place if place is not None else Place(drawing.root, 0, 0, 0, 0)


def _inside_out(root: Box) -> list[Box]:
    order, waiting = list[Box](), [root]
    while waiting:
        box = waiting.pop()
        order.append(box)
        waiting += box.inside
    return order[::-1]


def _local_lines(lines: list[Line]) -> dict[Box, list[_Local]]:
    """Cut lines where they cross the borders of groups; parts of one value in one group are one."""
    found: dict[Box, dict[tuple[Box | None, Box | None, str], _Local]] = {}

    def add(group: Box, source: Box | None, target: Box | None, line: Line, is_end: bool) -> None:
        known = found.setdefault(group, {})
        local = known.setdefault((source, target, line.value), _Local(source, target, line.value, line.label, is_end))
        local.is_end = local.is_end or is_end

    for line in lines:
        above, below = line.source.path(), line.target.path()
        depth = next(place for place, (a, b) in enumerate(zip(above, below, strict=False)) if a is not b)
        for outer, inner in zip(above[depth:], above[depth + 1 :], strict=False):
            add(outer, inner, None, line, False)
        for outer, inner in zip(below[depth:], below[depth + 1 :], strict=False):
            add(outer, None, inner, line, inner is line.target)
        add(above[depth - 1], above[depth], below[depth], line, below[depth] is line.target)
    return {group: list(locals.values()) for group, locals in found.items()}


def _leaf(box: Box) -> _Sized:
    widest = max([text_width(box.title, TITLE_SIZE) * BOLD, *(text_width(line, LINE_SIZE) for line in box.lines)])
    height = 2 * PADDING + TITLE_SIZE + len(box.lines) * (LINE_SIZE + 3.5)
    return _Sized(max(widest + 2 * PADDING, 44.0), height, place=Place(box, 0, 0, 0, 0))


def _group(box: Box, lines: list[_Local], sized: dict[Box, _Sized], spacing: Spacing | None) -> _Sized:
    """Lay out what is in a group, and find where its ports are."""
    entries = list(dict.fromkeys(line.value for line in lines if line.source is None))
    exits = list(dict.fromkeys(line.value for line in lines if line.target is None))
    number: dict[Box | tuple[str, str], int] = {member: place for place, member in enumerate(box.inside)}
    number |= {("in", value): len(number) + place for place, value in enumerate(entries)}
    number |= {("out", value): len(number) + place for place, value in enumerate(exits)}
    sizes = [(sized[member].width, sized[member].height) for member in box.inside]
    sizes += [(2.0, 0.0)] * (len(entries) + len(exits))
    edges = [(number[line.source or ("in", line.value)], number[line.target or ("out", line.value)]) for line in lines]
    shifts = [_shift(line, sized) for line in lines]
    values = {value: place for place, value in enumerate(dict.fromkeys(line.value for line in lines))}
    wires = Wires(
        shifts,
        [values[line.value] for line in lines],
        frozenset(number["in", value] for value in entries),
        frozenset(number["out", value] for value in exits),
    )
    layout = layered_layout(sizes, edges, wires, spacing)
    header = HEADER if box.around is not None else 0.0
    title = text_width(box.title, TITLE_SIZE) * BOLD + 2 * MARGIN if box.around is not None else 0.0
    width, height = max(layout.width + 2 * MARGIN, title), layout.height + 2 * MARGIN + header
    left, top = (width - layout.width) / 2, MARGIN + header
    result = _Sized(width, height)
    result.entries = {value: layout.x[number["in", value]] + left - width / 2 for value in entries}
    result.exits = {value: layout.x[number["out", value]] + left - width / 2 for value in exits}
    result.place = Place(box, 0, 0, width, height, _members(box, layout, sized, left, top))
    _label_once(lines)
    result.place.curves = [
        _curve(line, edge, shift, points, layout, sizes, (left, top, height))
        for line, edge, shift, points in zip(lines, edges, shifts, layout.points, strict=True)
    ]
    return result


def _label_once(lines: list[_Local]) -> None:
    """Keep one label for each value, where it leaves the leaf that makes it."""
    labelled: set[str] = set()
    for line in lines:
        if line.source is None or line.source.inside or line.value in labelled:
            line.label = ""
        labelled.add(line.value)


def _shift(line: _Local, sized: dict[Box, _Sized]) -> tuple[float, float]:
    begin = sized[line.source].exits.get(line.value, 0.0) if line.source is not None else 0.0
    end = sized[line.target].entries.get(line.value, 0.0) if line.target is not None else 0.0
    return begin, end


def _members(box: Box, layout: Layout, sized: dict[Box, _Sized], left: float, top: float) -> list[Place]:
    found: list[Place] = []
    for number, member in enumerate(box.inside):
        size = sized[member]
        place = size.place
        assert place is not None
        place.x, place.y = layout.x[number] - size.width / 2 + left, layout.y[number] - size.height / 2 + top
        place.width, place.height = size.width, size.height
        found.append(place)
    return found


def _curve(
    line: _Local,
    edge: tuple[int, int],
    shift: tuple[float, float],
    points: list[Point],
    layout: Layout,
    sizes: list[tuple[float, float]],
    frame: tuple[float, float, float],
) -> Curve:
    """A line from the lower edge of its source to the upper edge of its target, or from border to border."""
    left, top, height = frame
    source, target = edge
    is_down = layout.y[source] <= layout.y[target]
    side = 0.5 if is_down else -0.5
    start = layout.x[source] + shift[0] + left, layout.y[source] + side * sizes[source][1] + top
    end = layout.x[target] + shift[1] + left, layout.y[target] - side * sizes[target][1] + top
    first = start if line.source is not None else (start[0], 0.0)
    last = end if line.target is not None else (end[0], height)
    middle = [(x + left, y + top) for x, y in points]
    return Curve([first, *middle, last], line.value, line.label, line.is_end)
