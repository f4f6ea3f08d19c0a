"""The way from the values that change to those that are differentiated, made of operators that have rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from intaglio.autodiff.rules import by_expansion, has_rule, reason_without_rule
from intaglio.errors import ShapeError, UnsupportedError
from intaglio.ir.dim import UndecidableError
from intaglio.ir.expand import expand_in_place, expand_until
from intaglio.ir.graph import Node, Value
from intaglio.ir.types import OptionalType, SequenceType, TensorType, Type

Region = Callable[[], Iterable[Node]]
"""The nodes to differentiate, in order; asked for anew after some of them were expanded."""


class NotDifferentiableError(UnsupportedError):
    """Nodes on the way that have no gradient; `missing` tells the reason of each."""

    def __init__(self, text: str, missing: Mapping[Node, str] | None = None) -> None:
        super().__init__(text)
        self.missing = dict(missing or {})


@dataclass(frozen=True)
class Path:
    """The nodes through which values depend smoothly on others, in order, and the values that change on the way."""

    nodes: list[Node]
    values: set[Value]


def operands(node: Node) -> list[Value]:
    """What a node reads, in its bodies too, each value once."""
    return list(dict.fromkeys(value for value in (*node.inputs, *node.captures()) if value is not None))


def find_path(nodes: Iterable[Node], of: Iterable[Value], wrt: Iterable[Value], straight_through: bool) -> Path:
    """The path through some nodes; with `straight_through` it also leads through numbers that were quantized."""
    varied = set(wrt)
    candidates: list[Node] = []
    for node in nodes:
        if varied.isdisjoint(operands(node)):
            continue
        changed = [v for v in node.outputs if is_smooth(v.type) or (straight_through and _is_carried(node, v, varied))]
        if changed:
            candidates.append(node)
            varied.update(changed)
    needed, chosen = set(of), list[Node]()
    for node in reversed(candidates):
        if not needed.isdisjoint(node.outputs):
            chosen.append(node)
            needed.update(operands(node))
    return Path(chosen[::-1], varied & needed)


def is_smooth(type: Type) -> bool:
    """Whether values of a type can change by a little; complex ones too, although no rule takes them."""
    if isinstance(type, (SequenceType, OptionalType)):
        return is_smooth(type.element)
    return isinstance(type, TensorType) and type.dtype.kind in ("float", "complex")


def _is_carried(node: Node, value: Value, varied: set[Value]) -> bool:
    """Whether an integer output stands for a number that was quantized."""
    if node.op.has("straight_through"):
        return value is node.output
    carries = node.op.carries_quantized or node.op.has("expand")
    return carries and any(v in varied and is_quantized(v) for v in node.inputs if v) and is_quantized(value)


def is_quantized(value: Value) -> bool:
    """Whether a value holds integers, which can stand for numbers that were quantized."""
    return isinstance(value.type, TensorType) and value.type.dtype.is_integer


def differentiable_path(
    region: Region, of: Sequence[Value], wrt: Sequence[Value], straight_through: bool
) -> tuple[Path, dict[Node, str]]:
    """The path after expansion, and the nodes on it that have no rule, with the reasons."""
    refused: dict[Node, str] = {}
    while True:
        path = find_path(region(), of, wrt, straight_through)
        lacking = [node for node in path.nodes if not has_rule(node, straight_through)]
        composite = [node for node in lacking if by_expansion(type(node.op), straight_through) and node not in refused]
        if not composite:
            return path, {node: refused.get(node) or reason_without_rule(node) for node in lacking}
        refused |= expand_until(composite, lambda node: False, expand=_expand_or_refuse)


def _expand_or_refuse(node: Node) -> None:
    """Expand a node; sizes for which it has no expansion are a reason like others."""
    try:
        expand_in_place(node)
    except (ShapeError, UndecidableError) as error:
        raise UnsupportedError(reason_of(error)) from error


def reason_of(error: Exception) -> str:
    """Why a node has no gradient, in the words of an error that its rule or its expansion raised."""
    if isinstance(error, UndecidableError):
        hint = 'export it to "onnx" with `dims=` first, which gives sizes numbers'
        return f"its gradient needs sizes that are known before the run: {error}; {hint}"
    return str(error)


def missing_text(missing: Mapping[Node, str]) -> str:
    """One line for each operator and reason: how often it stands in the way, and where first."""
    groups: dict[tuple[str, str], list[Node]] = {}
    for node, reason in missing.items():
        groups.setdefault((f"{node.op.domain}::{node.op.name}".removeprefix("::"), reason), []).append(node)
    count = len({name for name, _ in groups})
    lines = [f"{count} operator{'s' if count > 1 else ''} on the way cannot be differentiated:"]
    for (name, reason), nodes in sorted(groups.items()):
        times = f"{len(nodes)} nodes, first at " if len(nodes) > 1 else "at "
        place = nodes[0].origin.path or f"%{nodes[0].output.name}"
        lines.append(f"  {name}: {times}{place}" + (f" ({reason})" if reason else ""))
    return "\n".join(lines)
