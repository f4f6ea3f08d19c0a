"""Modules that repeats tell, for models in which neither nodes nor weights have names of modules.

The nodes are cut where a single value goes from those before to those behind, as between the blocks of a network. What
lives for long, such as a mask that all layers read, does not count. Pieces that are alike, or of which several in a row
come again, are blocks; blocks that follow one another are numbered parts of one module.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TypeAlias

from intaglio.emit.torch.structure import Path, operands
from intaglio.emit.torch.vocabulary import NORMS, POINTWISE, PRODUCTS, RECURRENT
from intaglio.ir.graph import Node, Value
from intaglio.ir.types import TensorType

LARGEST = 40
"""A piece of more nodes is cut further, across values that live longest in it."""

DROPPED = 120
"""At most so many values do not count because they live for long."""

LONGEST_PERIOD = 8
"""At most so many pieces make up a block."""

ASIDE = 24
"""At most so many nodes are computed in front of the block that has them first."""


@dataclass
class Piece:
    """Nodes one after the other, between places where one value passes."""

    nodes: list[Node]
    free: frozenset[Value]
    kind: int = 0
    is_block: bool = False

    def __post_init__(self) -> None:
        self.kind = hash(kind_of(self.nodes, self.free))

    @property
    def layers(self) -> list[Node]:
        """The nodes that have weights, normalisations left out."""
        return [node for node in self.nodes if node.op.name in PRODUCTS | RECURRENT]

    @property
    def is_wide(self) -> bool:
        """Whether it has paths beside each other, and layers on them."""
        return len(self.nodes) > 2 and len(self.layers) > 1 and not _is_chain(self.nodes, self.free)

    @property
    def last(self) -> Node:
        """The node that gives what comes out."""
        return self.nodes[-1]


def repeated_blocks(nodes: Sequence[Node], free: frozenset[Value]) -> tuple[dict[Node, Path], dict[Path, str]]:
    """The modules around each node, and the classes of the modules; nothing where nothing repeats."""
    none: dict[Node, Path] = dict.fromkeys(nodes, ())
    if sum(node.op.name in PRODUCTS | RECURRENT for node in nodes) < 3:
        return none, {}
    cuts = _Cuts(nodes, free)
    pieces = [Piece(part, free) for part in cuts.parts()]
    pieces = _composed(_with_ends(_units(pieces)))
    if sum(piece.is_block for piece in pieces) < 2:
        return none, {}
    paths, types = _placed(pieces)
    return none | paths, types


def kind_of(nodes: Sequence[Node], free: frozenset[Value]) -> tuple[object, ...]:
    """What pieces that are alike have in common: operators, attributes and wiring, not sizes."""
    places = {value: (place, number) for place, node in enumerate(nodes) for number, value in enumerate(node.outputs)}
    outside: dict[Value, int] = {}
    found: list[object] = []
    for node in nodes:
        wires: list[object] = []
        for value in (*node.inputs, *node.captures()):
            if value is None or value in free:
                wires.append(None)
            elif value.constant is not None:
                wires.append((str(value.dtype), value.constant.ndim))
            else:
                wires.append(places.get(value, ("from outside", outside.setdefault(value, len(outside)))))
        found.append((node.op.domain, node.op.name, _attributes(node), tuple(wires)))
    return tuple(found)


_SIZES = frozenset(["strides", "pads", "dilations", "scale", "auto_pad"])


def _attributes(node: Node) -> object:
    """Attributes that a class has in its code; those that its constructor takes are left out."""
    op = node.op
    if next(op.subgraphs(), None) is not None:
        return id(node)
    chosen = [each.name for each in op.attributes() if each.name not in _SIZES]
    return tuple((name, (name != "group" and repr(getattr(op, name))) or op.group > 1) for name in chosen)


def _is_chain(nodes: Sequence[Node], free: frozenset[Value]) -> bool:
    return all(set(operands(after, free)) <= set(before.outputs) for before, after in pairwise(nodes))


Span: TypeAlias = tuple[int, int, Value]
"""The first and the last place at which a value lives, and the value."""


def _shared_out(edges: Sequence[int], spans: Sequence[Span]) -> list[list[Span]]:
    """The spans within each part between edges, cut to it."""
    found: list[list[Span]] = [[] for _ in edges[1:]]
    for first, last, value in spans:
        place = bisect_right(edges, first) - 1
        while place < len(found) and edges[place] < last:
            begin, end = max(first, edges[place]), min(last, edges[place + 1] - 1)
            if begin < end:
                found[place].append((begin, end, value))
            place += 1
    return found


class _Cuts:
    """The places where a sequence of nodes can be cut."""

    def __init__(self, nodes: Sequence[Node], free: frozenset[Value]) -> None:
        self._free = free
        self._left = DROPPED
        self._nodes = list(nodes)
        self._ends: dict[Value, int] = {}
        self._index()

    def _index(self) -> None:
        self._places = {node: place for place, node in enumerate(self._nodes)}
        self._ends = {}
        for place, node in enumerate(self._nodes):
            for value in operands(node, self._free):
                if value.producer in self._places:
                    self._ends[value] = place

    def parts(self) -> list[list[Node]]:
        """The pieces; nodes that prepare what lives for long come out of the middle of others."""
        dropped: set[Value] = set()
        list(self._split(dropped))
        aside = _aside(dropped, self._places, self._free)
        if aside:
            self._nodes = [node for node in self._nodes if node not in aside]
            self._index()
            self._left = DROPPED
        return list(self._split(dropped))

    def _split(self, dropped: set[Value]) -> Iterator[list[Node]]:
        waiting = [(0, len(self._nodes), 1, self._spans(dropped))]
        while waiting:
            begin, end, width, spans = waiting.pop()
            edges = self._edges(begin, end, spans, width)
            if len(edges) > 2:
                parts = _shared_out(edges, spans)
                waiting += [(a, b, width, part) for (a, b), part in zip(pairwise(edges), parts, strict=True)][::-1]
            elif end - begin > LARGEST and self._left > 0 and spans:
                self._left -= 1
                longest = max(spans, key=lambda span: (span[1] - span[0], -span[0]))
                if longest[1] - longest[0] > LARGEST // 2 or width > 2:
                    dropped.add(longest[2])
                    waiting.append((begin, end, 1, [span for span in spans if span[2] is not longest[2]]))
                else:
                    waiting.append((begin, end, width + 1, spans))
            else:
                yield self._nodes[begin:end]

    def _spans(self, dropped: set[Value]) -> list[Span]:
        """From where to where each value lives."""
        found: list[Span] = []
        for value, last in self._ends.items():
            if value not in dropped and value.producer is not None:
                found.append((self._places[value.producer], last, value))
        return found

    @staticmethod
    def _edges(begin: int, end: int, spans: Sequence[Span], width: int) -> list[int]:
        counts = [0] * (end - begin + 1)
        for first, last, _ in spans:
            counts[first - begin] += 1
            counts[last - begin] -= 1
        found, live = [begin], 0
        for place in range(begin, end - 1):
            live += counts[place - begin]
            if live <= width:
                found.append(place + 1)
        return [*found, end]


def _aside(values: Iterable[Value], places: dict[Node, int], free: frozenset[Value]) -> set[Node]:
    """The nodes that prepare values, where they are few and need nothing that a layer computes."""
    found: set[Node] = set()
    for value in values:
        cone: set[Node] = set()
        waiting = [value.producer]
        while waiting and len(cone) <= ASIDE:
            node = waiting.pop()
            if node is None or node in cone or node not in places:
                continue
            cone.add(node)
            waiting += [each.producer for each in operands(node, free)]
        if len(cone) <= ASIDE and not any(node.op.name in PRODUCTS | RECURRENT | NORMS for node in cone):
            found |= cone
    return found


def _joined(pieces: Sequence[Piece]) -> Piece:
    return Piece([node for piece in pieces for node in piece.nodes], pieces[0].free)


def _follows(piece: Piece) -> bool:
    """Whether a piece is one node that belongs to the layer before it."""
    return len(piece.nodes) == 1 and piece.last.op.name in POINTWISE


def _units(pieces: Sequence[Piece]) -> list[Piece]:
    """A layer with the normalisation and the activation behind it is one piece."""
    found: list[list[Piece]] = []
    for piece in pieces:
        is_layer = bool(found) and len(found[-1][0].layers) == 1 and not found[-1][0].is_wide
        if is_layer and _follows(piece) and found[-1][0].last.op.name in PRODUCTS:
            found[-1].append(piece)
        else:
            found.append([piece])
    return [_joined(unit) for unit in found]


def _with_ends(pieces: Sequence[Piece]) -> list[Piece]:
    """What stands behind every piece of paths that ends with the same operator belongs to it."""
    behind: dict[str, list[tuple[object, ...]]] = {}
    for place, piece in enumerate(pieces):
        if piece.is_wide:
            behind.setdefault(piece.last.op.name, []).append(_followers(pieces, place))
    counts = {name: _common_length(ends) for name, ends in behind.items()}
    found: list[Piece] = []
    place = 0
    while place < len(pieces):
        piece = pieces[place]
        count = counts[piece.last.op.name] if piece.is_wide else 0
        found.append(_joined(pieces[place : place + 1 + count]))
        place += 1 + count
    return found


def _followers(pieces: Sequence[Piece], place: int) -> tuple[object, ...]:
    found: list[object] = []
    for after in range(place + 1, len(pieces)):
        if not _follows(pieces[after]):
            break
        found.append(pieces[after].last.op.name)
    return tuple(found)


def _common_length(ends: Sequence[tuple[object, ...]]) -> int:
    for length in range(min(len(each) for each in ends), 0, -1):
        if len({each[:length] for each in ends}) == 1:
            return length
    return 0


def _composed(pieces: list[Piece]) -> list[Piece]:
    """Pieces that come again, alone or several in a row, as blocks."""
    pieces = _rows_of_wide(pieces)
    pieces = _rows_of_narrow(pieces)
    families = Counter(_family(piece) for piece in pieces if piece.is_wide)
    for piece in pieces:
        piece.is_block = piece.is_block or (piece.is_wide and families[_family(piece)] > 1)
    return pieces


def _family(piece: Piece) -> object:
    """What blocks that may stand in one list have in common."""
    ends = [node.op.name for node in piece.nodes if node.op.name in ("Add", "QLinearAdd", "Concat", "Attention")]
    return piece.is_wide, ends[-1] if ends else "", frozenset(node.op.name for node in piece.layers)


def _rows_of_wide(pieces: list[Piece]) -> list[Piece]:
    """Rows of different pieces, paths among them, that come again at once, such as attention and what follows it."""
    alone = {a.kind for a, b in pairwise(pieces) if a.kind == b.kind and a.is_wide}
    for period in range(2, LONGEST_PERIOD + 1):
        runs = list(_runs(pieces, period))
        for begin, count in reversed(runs):
            row = pieces[begin : begin + period]
            if not any(piece.is_wide for piece in row) or any(piece.kind in alone for piece in row):
                continue
            blocks = [_joined(pieces[begin + i * period : begin + (i + 1) * period]) for i in range(count)]
            for block in blocks:
                block.is_block = True
            pieces = [*pieces[:begin], *blocks, *pieces[begin + count * period :]]
    return pieces


def _runs(pieces: Sequence[Piece], period: int) -> Iterator[tuple[int, int]]:
    """Where a row of so many pieces comes at least twice at once, and how often."""
    place = 0
    while place + 2 * period <= len(pieces):
        length = 0
        while place + length + period < len(pieces) and _is_same(
            pieces[place + length], pieces[place + length + period]
        ):
            length += 1
        if length >= period:
            count = length // period + 1
            yield place, count
            place += count * period
        else:
            place += length + 1


def _is_same(left: Piece, right: Piece) -> bool:
    return left.kind == right.kind and not left.is_block and not right.is_block


def _rows_of_narrow(pieces: list[Piece]) -> list[Piece]:
    """Rows of layers one after the other that come again somewhere, such as those of an inverted residual."""
    for _ in range(LONGEST_PERIOD):
        found = _best_row(pieces)
        if found is None:
            return pieces
        kinds, length = found
        joined: list[Piece] = []
        place = 0
        while place < len(pieces):
            row = pieces[place : place + length]
            if _is_narrow(row) and tuple(piece.kind for piece in row) == kinds:
                joined.append(_joined(row))
                joined[-1].is_block = True
                place += length
            else:
                joined.append(pieces[place])
                place += 1
        pieces = joined
    return pieces


def _is_narrow(row: Sequence[Piece]) -> bool:
    return all(not piece.is_wide and not piece.is_block for piece in row)


def _best_row(pieces: Sequence[Piece]) -> tuple[tuple[object, ...], int] | None:
    """The row that saves most where it is written once: its kinds and its length."""
    best: tuple[int, int, tuple[object, ...], int] | None = None
    for length in range(1, LONGEST_PERIOD + 1):
        places: dict[tuple[object, ...], list[int]] = {}
        for place in range(len(pieces) - length + 1):
            row = pieces[place : place + length]
            kinds = tuple(piece.kind for piece in row)
            if not _is_narrow(row) or not row[0].layers or _is_power(kinds):
                continue
            known = places.setdefault(kinds, [])
            if not known or known[-1] + length <= place:
                known.append(place)
        for kinds, known in places.items():
            row = pieces[known[0] : known[0] + length]
            size, layers = sum(len(piece.nodes) for piece in row), sum(len(piece.layers) for piece in row)
            least = 2 if layers > 2 else 3 if layers > 1 else 4
            if len(known) < least or size < 2 or (layers == 1 and not _is_at_once(known, length, least)):
                continue
            score = (size * (len(known) - 1), -length, kinds, length)
            if best is None or score[:2] > best[:2]:
                best = score
    return None if best is None else best[2:]


def _is_at_once(places: Sequence[int], length: int, least: int) -> bool:
    """Whether so many of them follow one another."""
    row = best = 1
    for before, after in pairwise(places):
        row = row + 1 if after == before + length else 1
        best = max(best, row)
    return best >= least


def _is_power(kinds: Sequence[object]) -> bool:
    """Whether a row is a shorter one several times."""
    length = len(kinds)
    return any(
        length % part == 0 and tuple(kinds[:part]) * (length // part) == tuple(kinds) for part in range(1, length)
    )


def _placed(pieces: Sequence[Piece]) -> tuple[dict[Node, Path], dict[Path, str]]:
    """Blocks that follow one another as numbered parts of one module."""
    rows = [(is_block, list(row)) for is_block, row in groupby(pieces, key=lambda piece: piece.is_block)]
    lists = [part for is_block, row in rows if is_block for part in _stages(row)]
    names = _list_names(lists)
    paths: dict[Node, Path] = {}
    types: dict[Path, str] = {}
    for name, row in zip(names, lists, strict=True):
        for number, piece in enumerate(row):
            path = (name, str(number)) if len(row) > 1 else (name,)
            paths |= dict.fromkeys(piece.nodes, path)
            types[path] = class_of(piece)
    return paths, types


def _stages(row: list[Piece]) -> Iterator[list[Piece]]:
    """Blocks of one family; where sizes change only now and then, cut there."""
    for _, same in groupby(row, key=lambda piece: frozenset(node.op.name for node in piece.layers)):
        family = list(same)
        stages = [list(part) for _, part in groupby(family, key=_size)]
        if 2 * len(stages) <= len(family) + 1:
            yield from stages
        else:
            yield family


def _size(piece: Piece) -> object:
    """The sizes of what a block gives, without the batch."""
    given = piece.last.output.type
    return given.shape[1:] if isinstance(given, TensorType) and given.shape else None


def _list_names(lists: Sequence[Sequence[Piece]]) -> list[str]:
    """`layers` or `stages`, or `stage1`, `stage2` and so on."""
    words = ["layer" if "Layer" in class_of(row[0]) else "stage" for row in lists]
    counts, numbers = Counter(words), Counter[str]()
    found: list[str] = []
    for word, row in zip(words, lists, strict=True):
        numbers[word] += 1
        whole = f"{word}s" if word == "layer" else "blocks"
        single = whole if len(row) > 1 else word
        found.append(single if counts[word] == 1 else f"{word}{numbers[word]}")
    return found


def class_of(piece: Piece) -> str:
    """What a block is called by what is in it."""
    names = Counter(node.op.name for node in piece.nodes)
    products = sum(names[name] for name in PRODUCTS)
    convolutions = names["Conv"] + names["QLinearConv"]
    if names["Attention"] or (names["Softmax"] and names["MatMul"]):
        return "TransformerLayer" if products > 2 else "AttentionLayer"
    if any(names[name] for name in RECURRENT):
        return "RecurrentLayer"
    end = next((node for node in reversed(piece.nodes) if node.op.name in ("Add", "QLinearAdd", "Concat")), None)
    if end is not None and end.op.name == "Concat":
        own = {value for node in piece.nodes for value in node.outputs}
        has_input = any(value is not None and value not in own and value.constant is None for value in end.inputs)
        return "DenseLayer" if has_input else "BranchBlock"
    is_separable = any(getattr(node.op, "group", 1) > 1 for node in piece.layers)
    if is_separable:
        return "InvertedResidual" if end is not None else "SeparableBlock"
    if end is not None and convolutions:
        has_shortcut = _has_shortcut(piece, end)
        return ("Projection" if has_shortcut else "") + (
            "Bottleneck" if convolutions - has_shortcut > 2 else "ResidualBlock"
        )
    return "ConvBlock" if convolutions else "FeedForward" if products else "Block"


def _has_shortcut(piece: Piece, end: Node) -> bool:
    """Whether both sides of a sum are computed by layers of the block."""
    own = {value for node in piece.nodes for value in node.outputs}
    return all(value in own for value in end.inputs if value is not None and value.constant is None)
