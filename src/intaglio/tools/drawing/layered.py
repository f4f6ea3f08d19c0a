"""A layered layout of a directed graph: every edge goes down, from layer to layer.

The time is linear in boxes, edges and the layers that edges cross, because the number of sweeps is fixed:

1. edges that close a cycle are turned around;
2. a box lies one layer below the lowest box that it reads, and as near to its readers as it can;
3. edges of one source that cross layers share a chain of points, one in each layer;
4. sweeps order each layer by the mean place of its neighbours;
5. further sweeps move boxes towards their neighbours and keep the order and the gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Edge = tuple[int, int]
Point = tuple[float, float]

LONGEST_CHAIN = 256
"""An edge that crosses more layers has no points on its way: it is drawn in one curve."""


@dataclass(frozen=True)
class Spacing:
    """Gaps between boxes of one layer and between layers, in the unit of the sizes, and the number of sweeps."""

    beside: float = 20.0
    between: float = 34.0
    point: float = 10.0
    """The gap around a point of an edge."""
    order_sweeps: int = 8
    place_sweeps: int = 8


@dataclass(frozen=True)
class Wires:
    """What is known of edges beyond their ends, each list as long as that of the edges, or empty.

    `shifts` says how far from the centres of its source and target an edge begins and ends; edges of one source and one
    of `bundles` share a line. Boxes in `first` are above all others, boxes in `last` below.
    """

    shifts: Sequence[tuple[float, float]] = ()
    bundles: Sequence[int] = ()
    first: frozenset[int] = frozenset()
    last: frozenset[int] = frozenset()


@dataclass
class Layout:
    """The centre of each box, the points of each edge between its ends, and the size of the whole."""

    x: list[float]
    y: list[float]
    points: list[list[Point]]
    width: float
    height: float


@dataclass
class _Layers:
    """Boxes and the points of edges as vertices, each in one layer."""

    layer: list[int]
    above: list[list[int]]
    below: list[list[int]]
    members: list[list[int]] = field(default_factory=list[list[int]])
    chains: dict[Edge, list[int]] = field(default_factory=dict[Edge, list[int]])
    """The points of each source box and bundle, from the layer below the box on."""

    def add_point(self, layer: int) -> int:
        """A new vertex in a layer."""
        self.layer.append(layer)
        self.above.append([])
        self.below.append([])
        return len(self.layer) - 1

    def join(self, upper: int, lower: int) -> None:
        """An edge between two vertices of neighbouring layers."""
        self.below[upper].append(lower)
        self.above[lower].append(upper)


def layered_layout(
    sizes: Sequence[tuple[float, float]],
    edges: Sequence[Edge],
    wires: Wires | None = None,
    spacing: Spacing | None = None,
) -> Layout:
    """Place boxes of the given widths and heights. Edges are (source, target); an edge to itself has no points."""
    spacing, wires = spacing or Spacing(), wires or Wires()
    forward = [
        (b, a) if turned else (a, b) for (a, b), turned in zip(edges, back_edges(len(sizes), edges), strict=True)
    ]
    bundles = wires.bundles or [0] * len(edges)
    layers = _cut(layers_of(len(sizes), forward, wires.first, wires.last), forward, bundles)
    _order(layers, spacing.order_sweeps)
    widths = [size[0] for size in sizes] + [0.0] * (len(layers.layer) - len(sizes))
    pulls = _pulls(layers, len(sizes), forward, wires.shifts)
    x = _places(layers, widths, len(sizes), pulls, spacing)
    tops = _tops(layers, sizes, spacing)
    return _finish(layers, x, tops, sizes, edges, forward, bundles, wires.shifts)


def back_edges(count: int, edges: Sequence[Edge]) -> list[bool]:
    """Whether each edge closes a cycle, in a search from the first box on."""
    leaving: list[list[int]] = [[] for _ in range(count)]
    for number, (source, _) in enumerate(edges):
        leaving[source].append(number)
    state, turned = bytearray(count), [False] * len(edges)
    for root in range(count):
        if state[root]:
            continue
        state[root] = 1
        stack = [(root, iter(leaving[root]))]
        while stack:
            box, rest = stack[-1]
            for number in rest:
                target = edges[number][1]
                if state[target] == 1:
                    turned[number] = target != box
                elif state[target] == 0:
                    state[target] = 1
                    stack.append((target, iter(leaving[target])))
                    break
            else:
                state[box] = 2
                stack.pop()
    return turned


def layers_of(
    count: int, edges: Sequence[Edge], first: frozenset[int] = frozenset(), last: frozenset[int] = frozenset()
) -> list[int]:
    """The layer of each box of a graph without cycles: below all that it reads, and near to its readers."""
    below: list[list[int]] = [[] for _ in range(count)]
    waiting, reads = [0] * count, [0] * count
    for source, target in edges:
        if source != target:
            below[source].append(target)
            waiting[target] += 1
            reads[target] += 1
    layer = [int(bool(first) and box not in first) for box in range(count)]
    order = [box for box in range(count) if waiting[box] == 0]
    for box in order:
        for target in below[box]:
            layer[target] = max(layer[target], layer[box] + 1)
            waiting[target] -= 1
            if waiting[target] == 0:
                order.append(target)
    for box in reversed(order):
        if below[box] and box not in first and reads[box] < len(below[box]) + (reads[box] <= 1):
            layer[box] = max(layer[box], min(layer[target] for target in below[box]) - 1)
    lowest = max(layer, default=0) + 1
    return [lowest if box in last else layer[box] for box in range(count)] if last else layer


def _cut(layer: list[int], edges: Sequence[Edge], bundles: Sequence[int]) -> _Layers:
    """Chains of points where edges cross layers; edges of one source and bundle share one."""
    count = len(layer)
    layers = _Layers(list(layer), [[] for _ in range(count)], [[] for _ in range(count)])
    for (source, target), bundle in zip(edges, bundles, strict=True):
        span = layer[target] - layer[source]
        if span < 1 or span > LONGEST_CHAIN:
            continue
        chain = layers.chains.setdefault((source, bundle), [])
        while len(chain) < span - 1:
            point = layers.add_point(layer[source] + len(chain) + 1)
            layers.join(chain[-1] if chain else source, point)
            chain.append(point)
        layers.join(chain[span - 2] if span > 1 else source, target)
    layers.members = [[] for _ in range(max(layers.layer, default=-1) + 1)]
    for vertex in _first_order(layers):
        layers.members[layers.layer[vertex]].append(vertex)
    return layers


def _first_order(layers: _Layers) -> list[int]:
    """All vertices in the order of a search from those without anything above: what belongs together is near."""
    count = len(layers.layer)
    seen, order = bytearray(count), list[int]()
    for root in sorted(range(count), key=lambda vertex: layers.layer[vertex]):
        if seen[root] or layers.above[root]:
            continue
        stack = [root]
        while stack:
            vertex = stack.pop()
            if not seen[vertex]:
                seen[vertex] = 1
                order.append(vertex)
                stack += [other for other in reversed(layers.below[vertex]) if not seen[other]]
    return order


def _order(layers: _Layers, sweeps: int) -> None:
    """Order the layers by the mean place of neighbours, down and up in turn; the best order is kept."""
    place = [0.0] * len(layers.layer)
    for members in layers.members:
        _number(members, place)
    best, fewest = [list(members) for members in layers.members], _crossings(layers, place)
    for sweep in range(sweeps):
        if fewest == 0:
            break
        is_down = sweep % 2 == 0
        neighbours = layers.above if is_down else layers.below
        for members in layers.members if is_down else reversed(layers.members):
            wanted = {
                vertex: sum([place[other] for other in near]) / len(near)
                if (near := neighbours[vertex])
                else place[vertex]
                for vertex in members
            }
            members.sort(key=wanted.__getitem__)
            _number(members, place)
        found = _crossings(layers, place)
        if found < fewest:
            best, fewest = [list(members) for members in layers.members], found
    layers.members = best


def _number(members: list[int], place: list[float]) -> None:
    """Number the members of a layer; layers of different lengths have the same middle."""
    start = -len(members) / 2
    for position, vertex in enumerate(members):
        place[vertex] = start + position


def _crossings(layers: _Layers, place: list[float]) -> int:
    """How many pairs of neighbours in a layer would cross fewer edges in the other order: a cheap measure."""
    total = 0
    for members in layers.members:
        for left, right in pairwise(members):
            for near in (layers.above, layers.below):
                if near[left] and near[right]:
                    total += max(place[other] for other in near[left]) > min(place[other] for other in near[right])
    return total


@dataclass(frozen=True)
class _Pull:
    """A neighbour that draws a vertex: its number, how strongly, and how far beside its centre."""

    other: int
    weight: float
    shift: float


def _pulls(
    layers: _Layers, boxes: int, edges: Sequence[Edge], shifts: Sequence[tuple[float, float]]
) -> tuple[list[list[_Pull]], list[list[_Pull]]]:
    """What draws each vertex from above and from below. Points keep chains straight, so they draw each other most."""
    offset: dict[Edge, tuple[float, float]] = dict(zip(edges, shifts, strict=True)) if shifts else {}
    first = {source: shift[0] for (source, _), shift in offset.items()}
    up: list[list[_Pull]] = [[] for _ in layers.layer]
    down: list[list[_Pull]] = [[] for _ in layers.layer]
    last = {point: source for (source, _), chain in layers.chains.items() for point in chain}
    for upper, lowers in enumerate(layers.below):
        for lower in lowers:
            weight = float(1 + 2 * (upper >= boxes) + 13 * (lower >= boxes and upper >= boxes))
            source = upper if upper < boxes else last[upper]
            begin, end = offset.get((source, lower), (first.get(source, 0.0), 0.0))
            begin, end = (begin if upper < boxes else 0.0), (end if lower < boxes else 0.0)
            up[lower].append(_Pull(upper, weight, begin - end))
            down[upper].append(_Pull(lower, weight, end - begin))
    return up, down


def _places(
    layers: _Layers,
    widths: list[float],
    boxes: int,
    pulls: tuple[list[list[_Pull]], list[list[_Pull]]],
    spacing: Spacing,
) -> list[float]:
    """The centre of each vertex along its layer."""
    x = [0.0] * len(layers.layer)
    gaps = [_gaps(members, widths, boxes, spacing) for members in layers.members]
    for members, gap in zip(layers.members, gaps, strict=True):
        _spread(members, gap, [0.0] * len(members), [1.0] * len(members), x)
    up, down = pulls
    for sweep in range(spacing.place_sweeps):
        is_last = sweep >= spacing.place_sweeps - 2
        order = range(len(layers.members)) if sweep % 2 == 0 else range(len(layers.members) - 1, -1, -1)
        for number in order:
            wanted, weights = list[float](), list[float]()
            for vertex in layers.members[number]:
                drawn = up[vertex] + down[vertex] if is_last else (up[vertex] if sweep % 2 == 0 else down[vertex])
                weight = sum([pull.weight for pull in drawn])
                wanted.append(
                    sum([pull.weight * (x[pull.other] + pull.shift) for pull in drawn]) / weight if drawn else x[vertex]
                )
                weights.append(weight or 0.2)
            _spread(layers.members[number], gaps[number], wanted, weights, x)
    return x


def _gaps(members: list[int], widths: list[float], boxes: int, spacing: Spacing) -> list[float]:
    """The least distance of each member's centre from the one before it; the first has 0."""
    gaps = [0.0]
    for left, right in pairwise(members):
        are_boxes = left < boxes and right < boxes
        gaps.append((widths[left] + widths[right]) / 2 + (spacing.beside if are_boxes else spacing.point))
    return gaps[: len(members)]


def _spread(members: list[int], gaps: list[float], wanted: list[float], weights: list[float], x: list[float]) -> None:
    """Put the members of a layer as near to where they want to be as the gaps allow, in the sense of least squares.

    Members that want to overlap form a block, whose place is the weighted mean of what its members want.
    """
    starts: list[int] = []
    means: list[float] = []
    totals: list[float] = []
    offset, offsets = 0.0, list[float]()
    for position, gap in enumerate(gaps):
        offset += gap
        offsets.append(offset)
        start, mean, total = position, wanted[position] - offset, weights[position]
        while means and means[-1] > mean:
            mean = (means.pop() * totals[-1] + mean * total) / (totals[-1] + total)
            total += totals.pop()
            start = starts.pop()
        starts.append(start)
        means.append(mean)
        totals.append(total)
    starts.append(len(members))
    for block, mean in enumerate(means):
        for position in range(starts[block], starts[block + 1]):
            x[members[position]] = mean + offsets[position]


def _tops(layers: _Layers, sizes: Sequence[tuple[float, float]], spacing: Spacing) -> list[tuple[float, float]]:
    """The upper edge and the height of each layer."""
    found, top = list[tuple[float, float]](), 0.0
    for members in layers.members:
        height = max((sizes[vertex][1] for vertex in members if vertex < len(sizes)), default=0.0)
        found.append((top, height))
        top += height + spacing.between
    return found


def _finish(
    layers: _Layers,
    x: list[float],
    tops: list[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    edges: Sequence[Edge],
    forward: Sequence[Edge],
    bundles: Sequence[int],
    shifts: Sequence[tuple[float, float]],
) -> Layout:
    """The layout with its upper left corner at 0."""
    lefts = [x[vertex] - (sizes[vertex][0] / 2 if vertex < len(sizes) else 0) for vertex in range(len(x))]
    rights = [x[vertex] + (sizes[vertex][0] / 2 if vertex < len(sizes) else 0) for vertex in range(len(x))]
    left = min(lefts, default=0.0)
    moved = [place - left for place in x]
    middle = [tops[layer][0] + tops[layer][1] / 2 for layer in layers.layer]
    points: list[list[Point]] = []
    for (source, target), edge, bundle in zip(forward, edges, bundles, strict=True):
        span = layers.layer[target] - layers.layer[source]
        chain = layers.chains.get((source, bundle), [])[: max(span - 1, 0)] if span <= LONGEST_CHAIN else []
        begin, end = shifts[len(points)][:: 1 if edge[0] == source else -1] if shifts else (0.0, 0.0)
        places = [point for vertex in chain for point in _through(moved[vertex], tops[layers.layer[vertex]])]
        if span > 0:
            places.insert(0, (moved[source] + begin, sum(tops[layers.layer[source]])))
            places.append((moved[target] + end, tops[layers.layer[target]][0]))
        points.append(places if edge[0] == source else places[::-1])
    height = sum(tops[-1]) if tops else 0.0
    return Layout(moved[: len(sizes)], middle[: len(sizes)], points, max(rights, default=0.0) - left, height)


def _through(x: float, layer: tuple[float, float]) -> list[Point]:
    """An edge goes straight through a layer, so that it does not touch tall boxes beside it."""
    top, height = layer
    return [(x, top)] if height == 0 else [(x, top), (x, top + height)]
