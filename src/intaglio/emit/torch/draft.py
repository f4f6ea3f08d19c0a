"""A module of PyTorch under construction: what it holds, and the statements of its forward pass."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from intaglio.emit.names import Names, identifier
from intaglio.emit.pythonic.block import (
    INLINE,
    Statement,
    UnprintableError,
    Writer,
    has_literal_shape,
    is_plain,
    literal,
    sizes_text,
    snake,
)
from intaglio.emit.torch.naming import AttributeNames, Marks
from intaglio.emit.torch.roles import Roles, constant_name
from intaglio.emit.torch.words import RESERVED, array_text, dtype_text
from intaglio.ir.dtype import from_numpy
from intaglio.ir.graph import Node, Value
from intaglio.ir.op import Array

METHODS = frozenset(
    [
        "add_module",
        "apply",
        "bfloat16",
        "buffers",
        "call_super_init",
        "children",
        "compile",
        "cpu",
        "cuda",
        "double",
        "dump_patches",
        "eval",
        "extra_repr",
        "float",
        "forward",
        "from_pretrained",
        "get_buffer",
        "get_parameter",
        "get_submodule",
        "half",
        "ipu",
        "load_state_dict",
        "modules",
        "mtia",
        "named_buffers",
        "named_children",
        "named_modules",
        "named_parameters",
        "parameters",
        "register_buffer",
        "register_module",
        "register_parameter",
        "requires_grad_",
        "set_submodule",
        "share_memory",
        "state_dict",
        "to",
        "to_empty",
        "train",
        "training",
        "type",
        "xpu",
        "zero_grad",
    ]
)
"""What every module of PyTorch has, so that no attribute may be called so."""


class Text(str):
    """An argument that is written as it is."""

    __slots__ = ()


@dataclass
class Layer:
    """A layer of torch.nn or of the library: its class, the arguments by name, and its tensors by their names in it."""

    kind: str
    arguments: dict[str, Any]
    tensors: dict[str, Array]

    @property
    def dtype(self) -> str:
        """The element type of its floats; counters are of their own."""
        kinds = (from_numpy(array.dtype).name for array in self.tensors.values() if is_float_array(array))
        return next(kinds, "float32")


@dataclass
class Stored:
    """A tensor of a module's own."""

    array: Array
    is_parameter: bool


@dataclass
class Draft:
    """A module: attributes by name (`layers.0` is an item of a list), parameters and results of `forward`, its code."""

    path: tuple[str, ...]
    type: str = ""
    attributes: dict[str, Attribute] = field(default_factory=dict)
    names: Names = field(default_factory=lambda: AttributeNames(METHODS | RESERVED))
    stored: dict[Value, str] = field(default_factory=dict)
    inputs: list[tuple[str, Value]] = field(default_factory=list)
    outputs: list[tuple[str, Value]] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    is_sequential: bool = False
    layer_names: dict[Node, str] = field(default_factory=dict)
    """What layers are called for which the model has no names."""

    def add(self, hint: tuple[str, ...], attribute: Attribute) -> str:
        """Hold something under a name like a path; returns how it is reached behind `self.`."""
        name = self._list_name(hint)
        if name is None:
            name = self.names.give(identifier("_".join(hint) or "layer", "layer"))
        self.attributes[name] = attribute
        return re.sub(r"\.(\d+)", r"[\1]", name)

    def _list_name(self, hint: tuple[str, ...]) -> str | None:
        """`layers.3` for the item of a list, where that is the next one."""
        if len(hint) < 2 or not hint[-1].isdigit():
            return None
        base = identifier("_".join(hint[:-1]))
        count = sum(1 for name in self.attributes if name.startswith(f"{base}."))
        if int(hint[-1]) != count:
            return None
        if count == 0 and self.names.give(base) != base:
            return None
        return f"{base}.{count}"

    def add_layer(self, node: Node, kind: str, arguments: dict[str, Any], tensors: dict[str, Array]) -> str:
        """Hold a layer under the name that the model has for it."""
        hint = layer_hint(node, self.path) or (self.layer_names.get(node, snake(node.op.name)),)
        return self.add(hint, Layer(kind, arguments, tensors))

    def store(self, value: Value) -> str:
        """Hold a constant as a parameter or buffer."""
        if value not in self.stored:
            assert value.constant is not None
            is_parameter = value.dtype.is_float and value.constant.ndim > 0
            self.stored[value] = self.add((constant_name(value, self.path),), Stored(value.constant, is_parameter))
        return self.stored[value]

    def name_locals(self, marks: Marks) -> None:
        """Put names in the place of marks."""
        taken, given = [name for name, _ in self.inputs], [text for text, _ in self.outputs]
        naming = marks.named(taken, [statement.lines for statement in self.statements], given)
        self.inputs = [(naming.text(name), value) for name, value in self.inputs]
        self.outputs = [(naming.text(text), value) for text, value in self.outputs]
        for statement in self.statements:
            statement.lines = [naming.text(line) for line in statement.lines]


def is_float_array(array: Array) -> bool:
    """Whether an array holds floats, of types that NumPy lacks too."""
    return from_numpy(array.dtype).is_float


Attribute: TypeAlias = Layer | Stored | Draft


def scope_path(node: Node) -> tuple[str, ...]:
    """The modules around a node as single names: `layer1`, `layer1.0` is `layer1`, `0`."""
    found: list[str] = []
    for scope in node.origin.scopes:
        around = ".".join(found)
        own = scope.name.removeprefix(f"{around}.") if around else scope.name
        last = found[-1] if found else ""
        own = own.removeprefix(f"{last}.") if last else own
        found += [part for part in own.split(".") if part]
    return tuple(found[:20])


def scope_types(node: Node) -> dict[tuple[str, ...], str]:
    """The classes of the modules around a node, by their paths."""
    found: dict[tuple[str, ...], str] = {}
    names: list[str] = []
    for scope in node.origin.scopes:
        names += [part for part in scope.name.split(".") if part]
        if scope.type:
            found[tuple(names)] = scope.type
    return found


def layer_hint(node: Node, path: tuple[str, ...]) -> tuple[str, ...]:
    """What a layer is called in a module: the rest of its path or the name of its weights; nothing where neither is."""
    own = scope_path(node)
    if len(own) > len(path) and own[: len(path)] == path:
        return own[len(path) :]
    for value in node.inputs[1:2]:
        name, _, last = ("" if value is None else value.name).rpartition(".")
        if last in ("weight", "kernel") and "::" not in name and name != ".".join(path):
            return (name.removeprefix(".".join((*path, ""))),)
    for value in node.inputs[:2]:
        name, _, last = ("" if value is None or value.constant is None else value.name).rpartition(".")
        if path and name == ".".join(path) and last not in ("weight", "kernel"):
            return (last,)
    return ()


class TorchWriter(Writer):
    """The statements of a forward pass, and the module that they belong to."""

    draft: Draft
    roles: Roles | None = None

    def declare(self, value: Value, hint: str | None = None) -> str:
        """A mark for a value, which asks for the name of its role."""
        if hint is None:
            hint = "value" if self.roles is None else self.roles.of(value)
        return super().declare(value, hint)

    def read(self, value: Value) -> str:
        """Sizes are written where they are read, without the arithmetic that finds them."""
        is_free = value.constant is None and value not in self.texts and value.contents is not None
        if is_free and value.contents is not None and value.contents.size <= 2 * INLINE:
            return self.language.array(sizes_text(value, self), value.dtype)
        return super().read(value)

    def nested(self) -> TorchWriter:
        """A writer for a part of the function, in the same module."""
        inner = TorchWriter(
            self.language, self.names, self.texts, dict(self.symbols), [], self.used, set(), self.imports
        )
        inner.draft, inner.roles = self.draft, self.roles
        return inner


def constant_text(value: Value, writer: Writer) -> str:
    """A constant written out where it is small, else as an attribute of the module."""
    array = value.constant
    assert array is not None
    if isinstance(array, list):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UnprintableError(f"%{value.name} is a constant sequence")
    dtype_text(from_numpy(array.dtype))
    is_small = array.size <= INLINE and (array.dtype.kind in "iub" or array.ndim == 0)
    if is_small and is_plain(array) and has_literal_shape(array):
        return array_text(literal(array), value.dtype)
    if not isinstance(writer, TorchWriter):
        return "self.constant"
    return f"self.{writer.draft.store(value)}"


def new_names() -> Names:
    """Marks for locals, which get their names when all of them are known."""
    return Marks()
