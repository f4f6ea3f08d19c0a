"""What values and layers are to the module that they stand in, as words for names.

A model's own names are kept where they say something. Names such as `v124`, `Relu_17` or `linear_3` do not: there the
role in the module is the name (`query`, `scores`, `hidden`; `conv1`, `norm1`, `fc`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache

from intaglio.emit.names import identifier
from intaglio.emit.pythonic.block import snake, value_hint
from intaglio.emit.torch.vocabulary import (
    ARITHMETIC,
    COMPARISONS,
    CONVOLUTIONS,
    GENERIC,
    MOVEMENT,
    NORMS,
    POINTWISE,
    POOLS,
    PRODUCTS,
    PURPOSES,
    RECURRENT,
    WORDS,
)
from intaglio.ir.graph import Node, Value
from intaglio.ir.op import OPERATORS
from intaglio.ir.types import TensorType


@cache
def _operator_words() -> frozenset[str]:
    names = [name for _, name in OPERATORS]
    return frozenset(word for name in names for word in (name.lower(), *snake(name).split("_")))


def is_telling(name: str) -> bool:
    """Whether a name says more than which operator it came from and how late.

    >>> is_telling("v124"), is_telling("Relu_17"), is_telling("pooler_output"), is_telling("logits")
    (False, False, True, True)
    """
    words = [word for word in re.split(r"[\W_\d]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()) if word]
    known = _operator_words()
    return any(word not in GENERIC and word not in known and len(word) > 1 for word in words) and len(name) <= 40


def own_name(value: Value, is_root: bool) -> str | None:
    """What of a value's name is worth keeping; within a block only what all blocks like it may have."""
    hint = re.sub(r"(_\d+)+$", "", value_hint(value))
    if is_root and value.producer is None:
        return hint
    if not is_telling(hint) or (not is_root and (re.search(r"\d", hint) or "." in hint or value.is_output)):
        return None
    return hint


def result_name(name: str) -> str | None:
    """What of the name of a model's result is worth keeping: all but numbers and operators with numbers."""
    last = name.rstrip("/").rpartition("/")[2].removesuffix("_output_0").removesuffix(":0")
    plain = re.sub(r"(_\d+)+$", "", last)
    return plain if plain and len(last) <= 40 and (is_telling(last) or not re.search(r"\d", last)) else None


class Roles:
    """The names that values of one module ask for."""

    def __init__(self, nodes: Sequence[Node], inputs: Sequence[Value], results: Mapping[Value, str] | None) -> None:
        """`results` are the outputs of the model with their names in its file; None for a module within it."""
        self._nodes = set(nodes)
        self._is_root = results is not None
        self._outputs = set(results or ())
        names = {value: result_name(name) for value, name in (results or {}).items()}
        self._known = {value: name for value, name in names.items() if name is not None and value.producer is not None}
        self._plan(nodes)
        for place, value in enumerate(inputs):
            self._known[value] = self._input(value, place)
        self._planned = frozenset(self._known)
        for node in nodes:
            for value in node.outputs:
                self.of(value)

    def _plan(self, nodes: Sequence[Node]) -> None:
        """Roles that what comes behind a value gives it."""
        for node in nodes:
            name = node.op.name
            if name == "Attention":
                for place, word in enumerate(("query", "key", "value", "mask")):
                    self._mark_back(node.optional(place), word)
            elif name == "MatMul":
                self._mark_attention(node)
            elif name in ("Sigmoid", "HardSigmoid") and _is_gate(node):
                self._known.setdefault(node.output, "gate")
            elif name == "Add" and len(node.inputs) == 2:
                self._mark_shortcut(node.needed(0), node.needed(1))
            elif name == "QLinearAdd":
                self._mark_shortcut(node.needed(0), node.needed(3))
            elif name == "Concat":
                self._mark_branches(node)

    def _mark_attention(self, node: Node) -> None:
        """Attention that is written out: weights times values, where the weights are a softmax of scores."""
        weights = node.needed(0)
        chosen = weights.producer if weights.producer in self._nodes else None
        while chosen is not None and chosen.op.name in ("Where", "Cast"):
            self._known.setdefault(chosen.output, "weights")
            ahead = next((each for each in reversed(chosen.inputs) if each is not None and each.constant is None), None)
            chosen = None if ahead is None or ahead.producer not in self._nodes else ahead.producer
        if chosen is not None and chosen.op.name == "Softmax":
            self._known.setdefault(chosen.output, "weights")
            self._known.setdefault(node.output, "attention")
            self._mark_scores(chosen.input)
            self._mark_back(node.needed(1), "value")

    def _mark_branches(self, node: Node) -> None:
        """Paths from one value that are joined again."""
        for value in node.inputs:
            while value is not None and value.constant is None and len(value.readers) == 1:
                maker = value.producer
                if maker is None or maker not in self._nodes or len(maker.outputs) > 1 or value in self._known:
                    break
                if maker.op.name not in PRODUCTS | POINTWISE | POOLS:
                    break
                self._known[value] = "branch"
                value = main_operand(maker)

    def _mark_back(self, value: Value | None, word: str) -> None:
        """A role for a value and for what it was moved or scaled from, up to the layer that gives it."""
        while value is not None and value.constant is None and value not in self._known:
            node = value.producer
            if node is None or node not in self._nodes or len(node.outputs) > 1:
                break
            self._known[value] = word
            if (node.op.name not in MOVEMENT and node.op.name not in ("Mul", "Div")) or _is_selection(node):
                break
            value = main_operand(node)
        if value is not None and value not in self._known and value.producer is not None:
            is_part = value.producer in self._nodes and len(value.producer.outputs) > 1
            if is_part or (word == "mask" and value.producer not in self._nodes):
                self._known[value] = word

    def _mark_scores(self, value: Value) -> None:
        """Scores of an attention that is written out, and what their product was made of."""
        while value.producer in self._nodes and value not in self._known:
            self._known[value] = "scores"
            node = value.producer
            if node.op.name == "MatMul":
                self._mark_back(node.needed(0), "query")
                self._mark_back(node.needed(1), "key")
                return
            if node.op.name not in ("Add", "Mul", "Div", "Where"):
                return
            operands = [each for each in node.inputs if each is not None and each.constant is None]
            ahead = next((each for each in operands if _comes_from(each, "MatMul")), None)
            for each in operands:
                if each is not ahead:
                    self._mark_back(each, "mask")
            if ahead is None:
                return
            value = ahead

    def _mark_shortcut(self, left: Value, right: Value) -> None:
        """A layer beside a deeper path to the same sum is a shortcut; layers whose result is added again, an MLP."""
        for value, other in ((left, right), (right, left)):
            short, deep = _layers_behind(value, self._nodes), _layers_behind(other, self._nodes)
            if len(short) == 1 and len(deep) > 1 and short[0].needed(0) is deep[-1].needed(0):
                self._mark_back_to(value, short[0], "shortcut")
                return
            is_linear = len(deep) == 2 and all(each.op.name not in CONVOLUTIONS for each in deep)
            if is_linear and value in _sources(deep[-1]) and value.producer in self._nodes:
                self._mark_back_to(other, deep[-1], "mlp")

    def _mark_back_to(self, value: Value, end: Node, word: str) -> None:
        node = value.producer
        while node is not None and node is not end:
            self._known.setdefault(node.output, word)
            ahead = main_operand(node)
            node = None if ahead is None else ahead.producer
        self._known.setdefault(end.output, word)

    def _input(self, value: Value, place: int) -> str:
        """What a parameter of the module is called."""
        if self._is_root:
            return own_name(value, is_root=True) or "x"
        if place == 0:
            return "x"
        planned = self._known.get(value)
        if planned is not None:
            return planned
        for user, position in value.uses:
            if isinstance(user, Node) and user in self._nodes:
                if (user.op.name, position) == ("Where", 0) or value.dtype.name == "bool":
                    return "mask"
                if user.op.name == "Add" and len(user.inputs) == 2 and _comes_from(user.needed(1 - position), "MatMul"):
                    return "mask"
        return own_name(value, is_root=False) or "other"

    def of_call(self, value: Value) -> str:
        """The name that a result of another module asks for."""
        if value not in self._planned:
            self._known[value] = own_name(value, self._is_root) or "hidden"
        return self._known[value]

    def of(self, value: Value) -> str:
        """The name that a value asks for."""
        if value not in self._known:
            self._known[value] = self._found(value)
        return self._known[value]

    def _found(self, value: Value) -> str:
        own = own_name(value, self._is_root)
        if own is not None:
            return own
        node = value.producer
        if node is None:
            return "x"
        if self._is_root and value in self._outputs:
            return {"Linear": "logits", "Softmax": "probabilities"}.get(node.op.name, "output")
        return self._by_operator(node, node.outputs.index(value))

    def _by_operator(self, node: Node, place: int) -> str:
        name = node.op.name
        main = main_operand(node)
        if name in ("Gather", "Embedding") and node.needed(0).constant is not None:
            return "embedding"
        if name in MOVEMENT:
            first = node.needed(0)
            if _is_selection(node):
                return {"0": "first", "-1": "last"}.get(str(node.needed(1).constant), "selected")
            return _purpose(first) if first.constant is not None else self._kept(first)
        if name in COMPARISONS or (name == "Where" and all(_is_constant(each) for each in node.inputs[1:])):
            return "mask"
        if name in RECURRENT:
            return ("hidden", "state", "cell")[place]
        if name == "TopK":
            return ("largest", "indices")[place]
        if name == "DynamicQuantizeLinear":
            return ("quantized", "scale", "zero_point")[place]
        if len(node.outputs) > 1:
            return "part"
        if name == "ReduceMean" and main is not None and _is_image(main):
            return "pooled"
        if name in WORDS:
            return WORDS[name]
        if name in ARITHMETIC:
            return self._sum(node)
        if name in POINTWISE and main is not None:
            kept = self._kept(main)
            return kept if main.producer is not None and main.producer in self._nodes else "hidden"
        return "hidden" if _is_tensor(node.output) else identifier(snake(name))

    def _kept(self, main: Value) -> str:
        """The role of an operand, where a result has the same one."""
        found = self.of(main)
        return "hidden" if found in ("x", "largest", "joined") else found

    def _sum(self, node: Node) -> str:
        """Arithmetic on what layers gave is hidden; on other numbers it is named after the sign."""
        operands = [value for value in node.inputs if value is not None and value.constant is None]
        words = [self._kept(value) for value in operands]
        if len(operands) == 1 and words[0] not in ("mask",):
            return words[0] if operands[0].producer in self._nodes or not self._is_root else "hidden"
        if "attention" in words or "hidden" in words or "gate" in words or "shortcut" in words:
            return "hidden"
        same = [word for word in words if word == words[0]]
        return words[0] if len(same) == len(words) > 1 else "hidden" if _is_tensor(node.output) else "number"


def main_operand(node: Node) -> Value | None:
    """The first operand that is computed."""
    return next((value for value in node.inputs if value is not None and value.constant is None), None)


def _is_selection(node: Node) -> bool:
    """Whether a node takes one entry along an axis."""
    index = node.needed(1).constant if node.op.name == "Gather" else None
    return index is not None and index.ndim == 0


def _is_constant(value: Value | None) -> bool:
    return value is not None and value.constant is not None


def _is_tensor(value: Value) -> bool:
    is_number = isinstance(value.type, TensorType) and (value.type.dtype.is_float or value.type.dtype.bits == 8)
    return is_number and isinstance(value.type, TensorType) and bool(value.type.shape)


def _is_image(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.shape is not None and len(value.type.shape) >= 4


def _is_gate(node: Node) -> bool:
    return any(user.op.name == "Mul" and node.input not in user.inputs for user in node.output.readers)


def _comes_from(value: Value, operator: str, steps: int = 5) -> bool:
    """Whether a value is a result of an operator, but for what was added or multiplied since."""
    node = value.producer
    if node is None or steps == 0:
        return False
    if node.op.name == operator:
        return True
    computed = [each for each in node.inputs if each is not None and each.constant is None]
    is_light = node.op.name in ("Add", "Mul", "Div", "Where", "Cast")
    return is_light and any(_comes_from(each, operator, steps - 1) for each in computed)


def _layers_behind(value: Value, nodes: set[Node]) -> list[Node]:
    """The layers on the way from a value to where its path begins, last one first."""
    found: list[Node] = []
    node = value.producer
    for _ in range(40):
        if node is None or node not in nodes or node.op.name in ("Add", "QLinearAdd"):
            break
        if node.op.name in PRODUCTS:
            found.append(node)
            if any(len(value.readers) > 1 for value in _sources(node)):
                break
        ahead = main_operand(node)
        node = None if ahead is None else ahead.producer
    return found


def _sources(node: Node) -> list[Value]:
    """What a layer reads, and what that is the normalised or moved form of."""
    found = [node.needed(0)]
    while found[-1].producer is not None and found[-1].producer.op.name in NORMS | MOVEMENT:
        ahead = main_operand(found[-1].producer)
        if ahead is None:
            break
        found.append(ahead)
    return found


def layer_names(nodes: Sequence[Node], roles: Mapping[Node, str]) -> dict[Node, str]:
    """What layers without names are called: by kind, numbered where a module has several."""
    words = {node: word for node in nodes if (word := roles.get(node) or _layer_word(node)) is not None}
    counts = Counter(words.values())
    numbers: Counter[str] = Counter()
    found: dict[Node, str] = {}
    for node, word in words.items():
        numbers[word] += 1
        found[node] = word if counts[word] == 1 else f"{word}{numbers[word]}"
    return found


def _layer_word(node: Node) -> str | None:
    name, weight = node.op.name, node.optional(1)
    has_weight = weight is not None and weight.constant is not None
    if name in CONVOLUTIONS and has_weight:
        groups = getattr(node.op, "group", 1)
        channels = node.needed(0).tensor.shape
        return "depthwise" if groups > 1 and channels is not None and channels[1] == groups else "conv"
    if name in PRODUCTS:
        return "fc"
    if name in NORMS and has_weight:
        return "norm"
    if name in RECURRENT and has_weight:
        return name.lower()
    table = node.needed(0).constant if name == "Gather" else None
    if table is not None and table.ndim == 2:
        return "embedding"
    return {"PRelu": "prelu", "FakeQuantize": "quantize", "QuantizeLinear": "quantize",
            "DequantizeLinear": "dequantize", "QLinearAdd": "add"}.get(name)  # fmt: skip


def layer_roles(nodes: Sequence[Node], roles: Roles) -> dict[Node, str]:
    """Layers with a part of their own: the projections of an attention, shortcuts."""
    found: dict[Node, str] = {}
    for node in nodes:
        if node.op.name in PRODUCTS:
            word = roles.of(node.output)
            if word in ("query", "key", "value"):
                found[node] = word
            elif word == "shortcut":
                found[node] = "shortcut"
            elif _are_parts_of_attention(node.output, roles):
                found[node] = "qkv"
            elif roles.of(node.needed(0)) == "attention":
                found[node] = "out"
    counts = Counter(found.values())
    return {node: word for node, word in found.items() if counts[word] == 1}


def _are_parts_of_attention(value: Value, roles: Roles) -> bool:
    """Whether queries, keys and values are parts of a value."""
    users = value.readers
    if len(users) == 1 and users[0].op.name in ("Reshape", "Transpose", "Add", "Squeeze"):
        return _are_parts_of_attention(users[0].output, roles)
    return {roles.of(each) for user in users for each in user.outputs} == {"query", "key", "value"}


def constant_name(value: Value, path: Sequence[str]) -> str:
    """What a constant of a module is called: its own name without those of the modules around, or what it is for."""
    hint = value_hint(value)
    hint = hint.removeprefix(".".join((*path, "")))
    if "." in hint and path:
        hint = hint.rpartition(".")[2]
    words = {word for word in re.split(r"[\W_\d]+", hint.lower()) if word}
    if is_telling(hint) or (not path and words & {"weight", "bias", "scale", "step", "w", "b"}):
        return hint if not path else re.sub(r"\d+", "", hint).strip("_") or "constant"
    return _purpose(value)


def _purpose(value: Value) -> str:
    """What a constant is for, by the first node that reads it."""
    if value.dtype.name == "bool":
        return "mask"
    for user, place in value.uses:
        if isinstance(user, Node):
            if user.op.name == "Slice" and place == 0:
                return "positions" if value.dtype.is_integer else "table"
            word = PURPOSES.get(user.op.name)
            if word is not None:
                return word if (user.op.name, place) != ("Gather", 1) else "indices"
    return "constant"
