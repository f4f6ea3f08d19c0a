"""Which nodes mean something else in another version of their operator set.

The reader has an adapter for every version of an operator that does not mean what the newest one means. Two versions
with the same adapter, or with none, mean the same; what is left to check is that the schema takes the node as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from onnx import TypeProto, ValueInfoProto

from intaglio.ir.dtype import NUMBERED
from intaglio.onnx.adapters import find_adapter
from intaglio.onnx.schema import find_schema
from intaglio.tools.document import Node

_ELEMENTS = {"float32": "float", "float64": "double"}
_NUMBERED_PARTS = 18
"""Since this version a Split that is given no sizes says how many parts there are; nothing else changed in it."""


def changed_nodes(
    nodes: Iterable[Node], domain: str, old: int, new: int, types: Mapping[str, ValueInfoProto]
) -> list[tuple[Node, str]]:
    """The nodes of a domain, in bodies too, that another version does not have as they are, each with the reason."""
    found: list[tuple[Node, str]] = []
    for node in nodes:
        reason = change(node, domain, old, new, types)
        if reason is not None:
            found.append((node, reason))
        for body in node.bodies():
            found += changed_nodes(body.nodes, domain, old, new, types)
    return found


def change(node: Node, domain: str, old: int, new: int, types: Mapping[str, ValueInfoProto]) -> str | None:
    """Why a node is another one in a version of its operator set; None where it is the same."""
    own = "" if node.shell.domain == "ai.onnx" else node.shell.domain
    name = node.shell.op_type
    if own != domain:
        return None
    before, after = find_schema(domain, name, old), find_schema(domain, name, new)
    if before is None or (after is not None and before.since_version == after.since_version):
        return None
    if after is None or after.deprecated:
        return f"version {new} has no {name}"
    if _is_other(node, domain, before.since_version, after.since_version):
        return f"{name} means something else since version {max(before.since_version, after.since_version)}"
    return _misfit(node, after, types)


def _is_other(node: Node, domain: str, old: int, new: int) -> bool:
    one, other = (find_adapter(domain, node.shell.op_type, version) for version in (old, new))
    if one is other:
        return False
    if node.shell.op_type != "Split" or min(old, new) < 2:
        return True
    if has_sizes(node):
        return (old < 13) != (new < 13)
    return (old < _NUMBERED_PARTS) != (new < _NUMBERED_PARTS)


def has_sizes(node: Node) -> bool:
    """Whether a Split says how large its parts are."""
    return node.attribute("split") is not None or (len(node.inputs) > 1 and bool(node.inputs[1]))


def misfit(node: Node, version: int, types: Mapping[str, ValueInfoProto]) -> str | None:
    """Why a version of ONNX's own operator set does not take a node as it is; None where it does."""
    if node.shell.domain not in ("", "ai.onnx"):
        return None
    schema = find_schema("", node.shell.op_type, version)
    return f"version {version} has no {node.operator}" if schema is None else _misfit(node, schema, types)


def _misfit(node: Node, schema: Any, types: Mapping[str, ValueInfoProto]) -> str | None:
    version = f"version {schema.since_version} of {schema.name}"
    given = {attribute.name for attribute in node.attributes}
    needed = {name for name, attribute in schema.attributes.items() if attribute.required}
    if not given <= set(schema.attributes):
        return f"{version} has no attribute {', '.join(sorted(given - set(schema.attributes)))}"
    if not needed <= given:
        return f"{version} needs the attribute {', '.join(sorted(needed - given))}"
    if not schema.min_input <= len(node.inputs) <= schema.max_input or len(node.outputs) > schema.max_output:
        return f"{version} has another number of inputs or outputs"
    return _wrong_type(node, schema, types, version)


def _wrong_type(node: Node, schema: Any, types: Mapping[str, ValueInfoProto], version: str) -> str | None:
    allowed = {constraint.type_param_str: constraint.allowed_type_strs for constraint in schema.type_constraints}
    for names, formals in ((node.inputs, schema.inputs), (node.outputs, schema.outputs)):
        for place, name in enumerate(names):
            if not name or name not in types or not formals:
                continue
            text, formal = type_name(types[name].type), formals[min(place, len(formals) - 1)]
            known = allowed.get(formal.type_str, (formal.type_str,))
            if text is not None and text not in known:
                return f"{version} does not take {text}"
    return None


def type_name(proto: TypeProto) -> str | None:
    """A type as schemas spell it, such as `tensor(float)`; None where the message does not say it."""
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        dtype = NUMBERED.get(proto.tensor_type.elem_type)
        return None if dtype is None else f"tensor({_ELEMENTS.get(dtype.name, dtype.name)})"
    if kind in ("sequence_type", "optional_type"):
        inner = type_name(getattr(proto, kind).elem_type)
        return None if inner is None else f"{'seq' if kind == 'sequence_type' else 'optional'}({inner})"
    return None
