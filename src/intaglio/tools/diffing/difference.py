"""`diff`: everything in which one model differs from another, as data and as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, TensorProto, ValueInfoProto

from intaglio.errors import LoadError
from intaglio.onnx.external import ExternalData
from intaglio.onnx.reader import Source
from intaglio.onnx.tensors import read_tensor
from intaglio.tools.diffing.matching import Matching, match
from intaglio.tools.document import Document, Graph, Node, read_document
from intaglio.tools.document.weights import Weights
from intaglio.tools.drawing.picture import tensor_type, type_text

LONGEST_TEXT = 120
CHUNK_ELEMENTS = 1 << 20


@dataclass(frozen=True)
class Changed:
    """Something that both models have, and what of it differs: pairs of old and new by a name."""

    what: str
    where: str
    changes: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class WeightChange:
    """How far a tensor moved: its largest difference, that difference by the largest number, and how many differ."""

    name: str
    type: str
    largest: float
    relative: float
    count: int
    total: int


@dataclass
class Difference:
    """What differs between two models. An empty one is false."""

    old: str
    new: str
    model: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    """Versions, producer, metadata, text: a name, the old and the new."""
    added: list[str] = field(default_factory=list[str])
    removed: list[str] = field(default_factory=list[str])
    changed: list[Changed] = field(default_factory=list[Changed])
    weights: list[WeightChange] = field(default_factory=list[WeightChange])
    same_nodes: int = 0
    same_weights: int = 0
    unread: list[str] = field(default_factory=list[str])
    """Tensors whose data could not be read, with the reason."""

    def __bool__(self) -> bool:
        return bool(self.model or self.added or self.removed or self.changed or self.weights or self.unread)

    def to_json(self) -> dict[str, Any]:
        """The difference as what `json.dumps` takes; numbers that JSON cannot spell are text."""
        return {
            "old": self.old,
            "new": self.new,
            "equal": not self,
            "model": [{"what": what, "old": old, "new": new} for what, old, new in self.model],
            "added": self.added,
            "removed": self.removed,
            "changed": [
                {
                    "what": each.what,
                    "where": each.where,
                    "changes": [{"what": what, "old": old, "new": new} for what, old, new in each.changes],
                }
                for each in self.changed
            ],
            "weights": [_weight_json(each) for each in self.weights],
            "same_nodes": self.same_nodes,
            "same_weights": self.same_weights,
            "unread": self.unread,
        }

    def text(self) -> str:
        """The difference for people: `-` is only in the old model, `+` only in the new one, `~` in both."""
        lines = [f"~ {what}: {old or '(none)'} -> {new or '(none)'}" for what, old, new in self.model]
        lines += [f"- {text}" for text in self.removed]
        lines += [f"+ {text}" for text in self.added]
        for each in self.changed:
            lines.append(f"~ {each.what} {each.where}")
            lines += [f"    {what}: {old or '(none)'} -> {new or '(none)'}" for what, old, new in each.changes]
        lines += [f"~ weight {weight_text(each)}" for each in self.weights]
        lines += [f"? {text}" for text in self.unread]
        lines.append(f"{self.same_nodes:,} nodes and {self.same_weights:,} tensors are the same")
        return "\n".join(lines)

    def html(self) -> str:
        """The difference as a page that needs nothing else."""
        from intaglio.tools.diffing.page import page

        return page(self)


def _weight_json(each: WeightChange) -> dict[str, Any]:
    numbers = {"largest": each.largest, "relative": each.relative}
    return {
        "name": each.name,
        "type": each.type,
        **{name: number if math.isfinite(number) else str(number) for name, number in numbers.items()},
        "differing": each.count,
        "elements": each.total,
    }


def weight_text(each: WeightChange) -> str:
    """How far a tensor moved, in one line."""
    far = f"differs by up to {each.largest:.3g} ({each.relative:.2%} of its largest number)"
    return f"{each.name} {each.type}: {far} in {each.count:,} of {each.total:,} elements"


def diff(old: Source | Document, new: Source | Document) -> Difference:
    """Compare two models as their files are. Nodes are matched by names, then by what they compute and by neighbours.

    Bodies and functions are compared inside of their nodes and by their names. Weights are compared by their numbers,
    piece by piece. Models that cannot be run are compared too.
    """
    first, second = (each if isinstance(each, Document) else read_document(each) for each in (old, new))
    found = Difference(_title(first), _title(second))
    found.model = list(_pairs(_facts(first), _facts(second)))
    compare = _Comparison(found, Weights(first), Weights(second))
    compare.graphs(first.graph, second.graph, "")
    functions = [{each.key: each for each in document.functions} for document in (first, second)]
    for key in dict.fromkeys([*functions[0], *functions[1]]):
        mine, theirs = (members.get(key) for members in functions)
        name = f"function {'.'.join(filter(None, key[:2]))}"
        if mine is None or theirs is None:
            (found.added if mine is None else found.removed).append(name)
            continue
        ends = [list(zip_longest(getattr(mine.shell, end), getattr(theirs.shell, end))) for end in ("input", "output")]
        if any(a != b for pairs in ends for a, b in pairs):
            found.changed.append(Changed(name, "", (("signature", _signature(mine.shell), _signature(theirs.shell)),)))
        compare.graphs(Graph(GraphProto(), mine.nodes), Graph(GraphProto(), theirs.nodes), f"{name}: ")
    return found


def _title(document: Document) -> str:
    return str(document.path) if document.path is not None else document.graph.shell.name or "model"


def _signature(shell: Any) -> str:
    return _short(f"({', '.join(shell.input)}) -> ({', '.join(shell.output)})")


def _facts(document: Document) -> dict[str, str]:
    """What a file says of itself."""
    shell = document.shell
    facts = {
        "ir_version": str(shell.ir_version),
        "producer": f"{shell.producer_name} {shell.producer_version}".strip(),
        "domain": shell.domain,
        "model version": str(shell.model_version),
        "description": _short(shell.doc_string),
        "graph": document.graph.shell.name,
    }
    facts |= {f"operator set {each.domain or 'ai.onnx'}": str(each.version) for each in shell.opset_import}
    return facts | {f"metadata {each.key}": _short(each.value) for each in shell.metadata_props}


def _pairs(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for name in dict.fromkeys([*old, *new]):
        if old.get(name, "") != new.get(name, ""):
            yield name, old.get(name, ""), new.get(name, "")


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


class _Comparison:
    """Compares graphs and fills in a difference."""

    def __init__(self, found: Difference, old: Weights, new: Weights) -> None:
        self.found, self.old, self.new = found, old, new

    def graphs(self, old: Graph, new: Graph, where: str) -> None:
        """Compare two graphs; `where` begins the names of what is in them."""
        self._ends("input", old.inputs, new.inputs, where)
        self._ends("output", old.outputs, new.outputs, where)
        matching = match(old, new)
        for node in old.nodes:
            partner = matching.pairs.get(node.number)
            if partner is None:
                self.found.removed.append(_short(where + describe(node)))
            else:
                self._nodes(node, partner, matching, where)
        alone = [node for node in new.nodes if node.number not in matching.back]
        self.found.added += [_short(where + describe(node)) for node in alone]
        self._weights(old, new, matching, where)

    def _ends(self, what: str, old: Sequence[ValueInfoProto], new: Sequence[ValueInfoProto], where: str) -> None:
        mine, theirs = ({info.name: _type(info) for info in infos} for infos in (old, new))
        self.found.removed += [f"{where}{what} {name}: {mine[name]}" for name in mine if name not in theirs]
        self.found.added += [f"{where}{what} {name}: {theirs[name]}" for name in theirs if name not in mine]
        for name in mine:
            if name in theirs and mine[name] != theirs[name]:
                self.found.changed.append(Changed(what, where + name, (("type", mine[name], theirs[name]),)))

    def _nodes(self, old: Node, new: Node, matching: Matching, where: str) -> None:
        changes = [*_attribute_changes(old, new), *_wiring_changes(old, new, matching)]
        if old.name != new.name:
            changes.insert(0, ("name", old.name, new.name))
        if changes:
            self.found.changed.append(Changed("node", _short(where + describe(old)), tuple(changes)))
        else:
            self.found.same_nodes += 1
        bodies = [{each.name: each.bodies() for each in node.attributes if each.bodies()} for node in (old, new)]
        for name in bodies[0]:
            for mine, theirs in zip(bodies[0][name], bodies[1].get(name, ()), strict=False):
                self.graphs(mine, theirs, f"{where}{old.name or old.operator}.{name}: ")

    def _weights(self, old: Graph, new: Graph, matching: Matching, where: str) -> None:
        mine = {tensor.name: tensor for tensor in old.initializers}
        theirs = {tensor.name: tensor for tensor in new.initializers}
        renamed = _renamed(mine, theirs, matching)
        for name, tensor in mine.items():
            other = theirs.get(name) or theirs.get(renamed.get(name, ""))
            if other is None:
                self.found.removed.append(f"{where}weight {name}: {tensor_type(tensor)}")
                continue
            if other.name != name:
                self.found.changed.append(Changed("weight", where + name, (("name", name, other.name),)))
            self._tensors(tensor, other, where)
        known = {*mine, *renamed.values()}
        self.found.added += [
            f"{where}weight {name}: {tensor_type(theirs[name])}" for name in theirs if name not in known
        ]

    def _tensors(self, old: TensorProto, new: TensorProto, where: str) -> None:
        if tensor_type(old) != tensor_type(new):
            change = ("type", tensor_type(old), tensor_type(new))
            self.found.changed.append(Changed("weight", where + old.name, (change,)))
            return
        try:
            arrays = self.old.array(old), self.new.array(new)
        except LoadError as error:
            self.found.unread.append(f"{where}weight {old.name}: {error}")
            return
        change = weight_change(where + old.name, tensor_type(old), *arrays)
        if change is None:
            self.found.same_weights += 1
        else:
            self.found.weights.append(change)


def _type(info: ValueInfoProto) -> str:
    return type_text(info.type) or "of any type"


def describe(node: Node) -> str:
    """A node for people: its operator, and its name or what it makes."""
    return f"{node.operator} {node.name or ', '.join(filter(None, node.outputs))}"


def _attribute_changes(old: Node, new: Node) -> Iterator[tuple[str, str, str]]:
    texts = [{each.name: attribute_text(each.shell) for each in node.attributes} for node in (old, new)]
    raw = [
        {each.name: each.shell.SerializeToString(deterministic=True) for each in node.attributes} for node in (old, new)
    ]
    for name in dict.fromkeys([*texts[0], *texts[1]]):
        if raw[0].get(name) != raw[1].get(name):
            yield f"attribute {name}", texts[0].get(name, ""), texts[1].get(name, "")


def attribute_text(attribute: AttributeProto) -> str:
    """The value of an attribute, cut to one line."""
    kinds: dict[int, Callable[[], Any]] = {
        AttributeProto.INT: lambda: attribute.i,
        AttributeProto.FLOAT: lambda: f"{attribute.f:.9g}",
        AttributeProto.STRING: lambda: attribute.s.decode(errors="replace"),
        AttributeProto.INTS: lambda: list(attribute.ints),
        AttributeProto.FLOATS: lambda: [float(f"{each:.9g}") for each in attribute.floats],
        AttributeProto.STRINGS: lambda: [each.decode(errors="replace") for each in attribute.strings],
        AttributeProto.TENSOR: lambda: _tensor_text(attribute.t),
    }
    return _short(str(kinds.get(attribute.type, lambda: AttributeProto.AttributeType.Name(attribute.type).lower())()))


def _tensor_text(tensor: TensorProto) -> str:
    """The type of a tensor, and its elements where they are few."""
    if math.prod(tensor.dims) > 8 or tensor.data_location == TensorProto.EXTERNAL:
        return tensor_type(tensor)
    try:
        return f"{tensor_type(tensor)} {read_tensor(tensor, ExternalData(None)).tolist()}"
    except LoadError:
        return tensor_type(tensor)


def _wiring_changes(old: Node, new: Node, matching: Matching) -> Iterator[tuple[str, str, str]]:
    """Inputs that come from other nodes than before; values that were only renamed are the same."""
    for slot, (mine, theirs) in enumerate(zip_longest(old.shell.input, new.shell.input, fillvalue="")):
        if matching.value(mine) != theirs and not _are_one_weight(mine, theirs, matching):
            yield f"input {slot}", mine, theirs


def _are_one_weight(mine: str, theirs: str, matching: Matching) -> bool:
    """Whether two names are of tensors that the other graph lacks: what they hold is compared under other names."""
    old, new = matching.old.tensors, matching.new.tensors
    return mine in old and theirs in new and mine not in new and theirs not in old


def _renamed(mine: Mapping[str, TensorProto], theirs: Mapping[str, TensorProto], matching: Matching) -> dict[str, str]:
    """Tensors with other names that the same node reads at the same place."""
    found: dict[str, str] = {}
    for node in matching.old.graph.nodes:
        partner = matching.pairs.get(node.number)
        for name, other in zip(node.shell.input, partner.shell.input if partner is not None else (), strict=False):
            if name in mine and name not in theirs and other in theirs and other not in mine:
                found.setdefault(name, other)
    return found


def weight_change(name: str, type: str, old: Any, new: Any) -> WeightChange | None:
    """How far a tensor moved, or None where it did not; NaN at one place in both is the same."""
    count, largest, most = 0, 0.0, 0.0
    for a, b in _pieces(old, new):
        if a.dtype == object or a.dtype.kind in "US":
            count += int(np.count_nonzero(a != b))
            largest = math.nan if count else largest
            continue
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        left, right = a.astype(wide), b.astype(wide)
        differs = (left != right) & ~(np.isnan(left) & np.isnan(right))
        count += int(np.count_nonzero(differs))
        if differs.any():
            with np.errstate(invalid="ignore"):
                largest = float(np.fmax(largest, np.max(np.abs(right[differs] - left[differs]))))
        finite = np.abs(left[np.isfinite(left)])
        most = max(most, float(finite.max()) if finite.size else 0.0)
    if not count:
        return None
    return WeightChange(name, type, largest, largest / most if most else math.inf, count, int(old.size))


def _pieces(old: Any, new: Any) -> Iterable[tuple[Any, Any]]:
    a, b = old.reshape(-1), new.reshape(-1)
    for start in range(0, a.size, CHUNK_ELEMENTS):
        yield a[start : start + CHUNK_ELEMENTS], b[start : start + CHUNK_ELEMENTS]
