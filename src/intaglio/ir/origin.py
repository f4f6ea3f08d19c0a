"""Where a node comes from: its place in the ONNX model, and in the program that the model was exported from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

NAME_SCOPES = "pkg.torch.onnx.name_scopes"
"""The metadata in which PyTorch's exporter tells the modules around a node, as dotted names, and the node's own."""
CLASS_HIERARCHY = "pkg.torch.onnx.class_hierarchy"
"""The metadata in which PyTorch's exporter tells the classes of those modules, and the operator of the node."""

_METADATA_LIMIT = 20_000
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")
_LABEL = re.compile(r" \([^()/]*\)$")
_NOTHING: Mapping[str, str] = MappingProxyType({})


class ModuleScope(NamedTuple):
    """A module around a node: the name that it has in the module around it, and its class where that is known."""

    name: str
    type: str = ""


class Origin:
    """The ONNX node that a node came from.

    `path` names it in messages, and `str` gives it too; `operator` and `version` are what the file says, before older
    versions are translated; `metadata` are the properties that an exporter attached. `outer` is the call of the
    function that the node stood in, or the place of its subgraph, and `base` the origin of a node that this one was
    derived from; `is_recomputed` says that the node is there to compute a value once more. An origin is never changed,
    and nodes that replace others share it. Several nodes of a model may have one path: `is_same_node` does not compare
    names.
    """

    __slots__ = ("base", "is_recomputed", "metadata", "operator", "outer", "path", "version")

    def __init__(
        self,
        path: str = "",
        operator: str = "",
        version: int = 0,
        metadata: Mapping[str, str] | None = None,
        outer: Origin | None = None,
        base: Origin | None = None,
        is_recomputed: bool = False,
    ) -> None:
        self.path = path
        self.operator = operator
        self.version = version
        self.metadata = dict(metadata) if metadata else _NOTHING
        self.outer = outer
        self.base = base
        self.is_recomputed = is_recomputed

    def renamed(self, path: str) -> Origin:
        """The same origin under another path, for nodes that were derived from it."""
        base = self.base or self
        return Origin(path, self.operator, self.version, self.metadata, self.outer, base, self.is_recomputed)

    def recomputed(self) -> Origin:
        """The origin of a node that computes the same once more."""
        if self.is_recomputed:
            return self
        path = f"recomputed: {self.path}"
        return Origin(path, self.operator, self.version, self.metadata, self.outer, self.base or self, True)

    @property
    def place(self) -> tuple[str, int]:
        """A key that is equal for the origins of one node, and differs for other nodes that have the same path."""
        return self.path, id(self.base or self)

    def is_same_node(self, other: Origin) -> bool:
        """Whether two nodes came from one node, as far as that is known: the object decides, and not the name.

        >>> first, second = Origin("twin (Mul)"), Origin("twin (Mul)")
        >>> first.is_same_node(second), first.renamed("part").is_same_node(first.renamed("part"))
        (False, True)
        """
        return bool(self) and self.place == other.place

    @property
    def name(self) -> str:
        """The path without the operator at its end."""
        return _LABEL.sub("", self.path)

    @property
    def scopes(self) -> tuple[ModuleScope, ...]:
        """The modules around the node, outermost first, as its metadata, the names of functions or its own name tell.

        >>> [scope.name for scope in Origin("/encoder/layer.0/MatMul (MatMul)").scopes]
        ['encoder', 'layer.0']
        """
        if self.base is not None:
            return self.base.scopes
        told = self.metadata.get(NAME_SCOPES)
        if told:
            return _torch_scopes(told, self.metadata.get(CLASS_HIERARCHY, ""))
        if self.outer is None:
            return _path_scopes(self.name)
        if not self.operator:
            return self.outer.scopes  # a subgraph: it is no module
        own = self.name.removeprefix(f"{self.outer.path}/")
        around = () if own.startswith("/") else (*self.outer.scopes, *_call_scope(self.outer))
        return around + _path_scopes(own)

    def __str__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"Origin({self.path!r})"

    def __bool__(self) -> bool:
        """Whether anything is known."""
        return bool(self.path)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Origin) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self.path)

    def _key(self) -> tuple[object, ...]:
        return self.path, self.operator, self.version, self.metadata, self.outer, self.base, self.is_recomputed

    def __reduce__(self) -> tuple[type[Origin], tuple[object, ...]]:
        own = self.path, self.operator, self.version, dict(self.metadata), self.outer, self.base, self.is_recomputed
        return Origin, own


UNKNOWN = Origin()
"""The origin of a node of which none is known."""


def as_origin(origin: Origin | str) -> Origin:
    """An origin, or one of which only the path is known."""
    return origin if isinstance(origin, Origin) else Origin(origin) if origin else UNKNOWN


def _path_scopes(name: str) -> tuple[ModuleScope, ...]:
    return tuple(ModuleScope(_LABEL.sub("", part)) for part in name.split("/")[:-1] if part)


def _call_scope(outer: Origin) -> tuple[ModuleScope, ...]:
    """The scope that a call of a function is: its own name in the graph around it, of the function's type."""
    name = outer.name.rpartition("/")[2]
    return (ModuleScope(name, outer.operator.rpartition("::")[2]),) if name and outer.operator else ()


def _torch_scopes(names: str, classes: str) -> tuple[ModuleScope, ...]:
    """The scopes of PyTorch's metadata: each module by the name that it has in the one around it.

    >>> _torch_scopes("['', 'net', 'net.layer.0', 'linear']", "['Model', 'Net', 'Linear', 'aten.linear.default']")
    (ModuleScope(name='net', type='Net'), ModuleScope(name='layer.0', type='Linear'))
    """
    dotted, types = _strings(names)[:-1], _strings(classes)
    found: list[ModuleScope] = []
    around = ""
    for position, name in enumerate(dotted):
        if not name:
            continue
        own = name.removeprefix(f"{around}.") if around else name
        found.append(ModuleScope(own, types[position] if position < len(types) else ""))
        around = name
    return tuple(found)


def _strings(text: str) -> list[str]:
    """The strings in the text of a Python list; text that is longer than any exporter's is not looked at."""
    if len(text) > _METADATA_LIMIT:
        return []
    return [re.sub(r"\\(.)", r"\1", single or double) for single, double in _QUOTED.findall(text)]
