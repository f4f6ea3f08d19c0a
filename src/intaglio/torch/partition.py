# pyright: reportMissingImports=false, reportUnknownParameterType=false
"""What of a torch.fx graph we run and what PyTorch does: classified node by node, then cut into parts."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from intaglio.errors import UnsupportedError
from intaglio.record import Record
from intaglio.torch.aten.table import COMPLEX
from intaglio.torch.translate import SYMBOLIC, Translator, operator_name


class Part(Record):
    """Nodes that run together, by us or by PyTorch."""

    is_ours: bool
    nodes: tuple[Node, ...]


class Classified(Record):
    """Which nodes PyTorch runs, and why; `translator` holds the whole graph, with those nodes' results as inputs."""

    translator: Translator
    eager: dict[Node, str] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left to PyTorch."""
        return not self.eager


def is_size(node: Node) -> bool:
    """Whether a node is a symbolic number, which is worked out from sizes and other numbers."""
    return isinstance(node.meta.get("val"), (*SYMBOLIC, bool, int, float)) and not is_item(node)


def is_item(node: Node) -> bool:
    """Whether a node reads a number out of tensors."""
    if node.op != "call_function" or not isinstance(node.meta.get("val"), (*SYMBOLIC, bool, int, float)):
        return False
    return node.target not in _SIZES and any(isinstance(n.meta.get("val"), torch.Tensor) for n in node.all_input_nodes)


_SIZES = (
    *(torch.ops.aten.sym_size.int, torch.ops.aten.sym_size.default, torch.ops.aten.sym_numel.default),
    *(torch.ops.aten.sym_stride.int, torch.ops.aten.sym_stride.default, torch.ops.aten.sym_storage_offset.default),
)


def classify(module: GraphModule, refused: Iterable[str] = ()) -> Classified:
    """Translate all nodes that can be; what cannot, and what is named in `refused`, is noted with the reason."""
    found = Classified(Translator())
    left_out = frozenset(refused)
    for node in module.graph.nodes:
        if node.op == "placeholder":
            _classify_input(found, node)
        elif node.op == "get_attr":
            _classify_constant(found, module, node)
        elif node.op == "call_function":
            _classify_call(found, node, left_out)
    _leave_makers(found, module)
    return found


def _leave_makers(found: Classified, module: GraphModule) -> None:
    """Leave to PyTorch what only makes a tensor for an operator that PyTorch runs."""
    for node in module.graph.nodes:
        is_maker = node.op == "call_function" and not is_size(node) and all(map(is_size, node.all_input_nodes))
        if is_maker and node.users and all(user in found.eager for user in node.users):
            found.eager[node] = "it makes a tensor for an operator that PyTorch runs"


def _classify_input(found: Classified, node: Node) -> None:
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        _add_input(found, node)
    elif isinstance(value, torch.SymInt):
        _add_number(found, node, value)
    elif isinstance(value, int):
        found.translator.values[node] = value


def _add_number(found: Classified, node: Node, value: torch.SymInt) -> None:
    """An integer that comes from outside; expressions that dimensions do not have stay unknown."""
    try:
        found.translator.values[node] = found.translator.sizes.dim(value)
    except UnsupportedError:
        return
    expression = value.node.expr
    if expression.is_Symbol:
        found.translator.add_symbol(str(expression), value)


def _add_input(found: Classified, node: Node) -> None:
    """What comes from outside; tensors of types that we lack stay unknown."""
    try:
        check_tensor(node.meta["val"])
        found.translator.add_input(node)
    except UnsupportedError:
        found.translator.values.pop(node, None)


def check_tensor(tensor: torch.Tensor) -> None:
    """Raise UnsupportedError for a tensor that has no array."""
    if tensor.device.type != "cpu":
        raise UnsupportedError(f"a tensor on {tensor.device}")
    if tensor.layout != torch.strided or tensor.is_complex() or tensor.is_quantized:
        raise UnsupportedError("a sparse, quantized or complex tensor")


def _classify_constant(found: Classified, module: GraphModule, node: Node) -> None:
    tensor = attribute(module, str(node.target))
    if isinstance(tensor, torch.Tensor):
        try:
            check_tensor(tensor)
            found.translator.constant(node, tensor)
        except UnsupportedError:
            return


def attribute(module: Any, path: str) -> Any:
    """What an attribute node stands for."""
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _classify_call(found: Classified, node: Node, left_out: frozenset[str]) -> None:
    known = found.translator.values
    missing = [each for each in node.all_input_nodes if each not in known]
    source = node.args[0] if node.target is operator.getitem else None
    try:
        if isinstance(source, Node) and source in found.eager:
            raise UnsupportedError(f"a result of {operator_name(source)}")
        if is_item(node):
            raise UnsupportedError("it reads a number out of a tensor")
        if is_size(node):
            found.translator.add(node)
            return
        if missing:
            raise UnsupportedError(_why_unknown(missing[0]))
        if node.name in left_out or operator_name(node) in left_out:
            raise UnsupportedError("it was left out by the options")
        found.translator.add(node)
    except UnsupportedError as error:
        found.eager[node] = str(error)
        known.pop(node, None)
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            _add_input(found, node)
        elif isinstance(value, torch.SymInt):
            _add_number(found, node, value)
    except (TypeError, KeyError, AttributeError) as error:
        raise AssertionError(f"{operator_name(node)} at {node.name}: {type(error).__name__}: {error}") from error


def _why_unknown(operand: Node) -> str:
    value = operand.meta.get("val")
    if isinstance(value, torch.Tensor) and value.is_complex():
        return COMPLEX
    return f"its operand {operand.name} is no tensor that we know"


def cut(module: GraphModule, eager: dict[Node, str]) -> list[Part]:
    """The nodes in parts that can run one after the other, few of them; sizes are in no part."""
    waiting = [n for n in module.graph.nodes if n.op == "call_function" and not is_size(n)]
    done = {node for node in module.graph.nodes if node.op in ("placeholder", "get_attr") or is_size(node)}
    needs = _all_needs(waiting)
    parts: list[Part] = []
    is_ours, is_stuck = False, False
    while waiting:
        taken = _ready(waiting, done, needs, eager, is_ours)
        if taken:
            parts.append(Part(is_ours, tuple(taken)))
            chosen = set(taken)
            waiting = [node for node in waiting if node not in chosen]
        elif is_stuck:
            raise UnsupportedError(f"{waiting[0].name} waits for what does not come")
        is_ours, is_stuck = not is_ours, not taken
    return parts


def _all_needs(nodes: Sequence[Node]) -> dict[Node, set[Node]]:
    """The nodes that must have run before each; a node that writes to memory keeps its place among all others."""
    found = {node: _needs(node) for node in nodes}
    writer: Node | None = None
    for place, node in enumerate(nodes):
        found[node] |= {writer} if writer is not None else set()
        if is_writer(node):
            found[node] |= set(nodes[:place])
            writer = node
    return found


def is_writer(node: Node) -> bool:
    """Whether a node writes to one of its arguments."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def _needs(node: Node) -> set[Node]:
    """The nodes that must have run before: those behind sizes too, where a size comes from data."""
    found: set[Node] = set()
    stack = list(node.all_input_nodes)
    while stack:
        each = stack.pop()
        if is_size(each) and each.op == "call_function":
            stack.extend(each.all_input_nodes if _is_from_data(each.meta["val"]) else ())
        else:
            found.add(each)
    return found


def _is_from_data(number: Any) -> bool:
    """Whether a symbolic number depends on more than the sizes of inputs."""
    return not isinstance(number, (bool, int, float)) and bool(free_unbacked_symbols(number))


def _ready(
    waiting: Sequence[Node], done: set[Node], needs: dict[Node, set[Node]], eager: dict[Node, str], is_ours: bool
) -> list[Node]:
    """The nodes of one kind that can run now, in order; what draws random numbers keeps its place among its like."""
    taken: list[Node] = []
    is_held = False
    for node in waiting:
        is_random = node in eager and is_ordered(node)
        if (node not in eager) == is_ours and needs[node] <= done and not (is_random and is_held):
            taken.append(node)
            done.add(node)
        elif is_random:
            is_held = True
    return taken


def is_ordered(node: Node) -> bool:
    """Whether a node must not change places with others of its kind: it draws random numbers or writes to memory."""
    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags or is_writer(node) or node.is_impure()
