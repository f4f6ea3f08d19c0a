"""What the reader needs to know of ONNX's schemas, and how an operator name is resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import onnx
from onnx import defs

from intaglio.ir.op import OPERATORS, Op
from intaglio.onnx.adapters import ADAPTERS, Adapter, all, find_adapter
from intaglio.ops import families

_FILLING = (families, all)
"""Importing these fills the tables of operators and adapters."""

Schema: TypeAlias = Any
"""An `onnx.defs.OpSchema`, whose type stubs lack half of its members."""

KNOWN: dict[str, int] = {
    "": 28,
    "ai.onnx.ml": 5,
    "ai.onnx.preview": 1,
    "ai.onnx.preview.training": 1,
    "ai.onnx.training": 1,
}
"""The newest operator set version of each domain whose operators are written here; a test tells when ONNX goes on."""


def newest_known(defined: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """The newest version of each domain that both ONNX, by its first and last versions, and this package know."""
    return {domain: min(last, KNOWN.get(domain, last)) for domain, (_, last) in defined.items()}


NEWEST: dict[str, int] = newest_known(defs.C.schema_version_map())
"""The newest operator set version of each domain that the installed `onnx` defines and this package knows."""


def normal_domain(domain: str) -> str:
    """The domain with one spelling for ONNX's own: the empty one."""
    return "" if domain == "ai.onnx" else domain


@cache
def find_schema(domain: str, name: str, version: int) -> Schema | None:
    """The schema that an operator has in an operator set, or None."""
    try:
        return defs.get_schema(name, version, domain)
    except (defs.SchemaError, TypeError, OverflowError):
        return None


@dataclass(frozen=True)
class Resolution:
    """What stands for an operator: an adapter, an operator class, or the function body of its schema."""

    schema: Schema | None
    adapter: Adapter | None = None
    operator: type[Op] | None = None
    has_body: bool = False

    @property
    def is_known(self) -> bool:
        """Whether there is anything that stands for the operator."""
        return self.adapter is not None or self.operator is not None or self.has_body


def resolve(domain: str, name: str, version: int) -> Resolution:
    """Find what stands for an operator at the imported version of its domain.

    A version that is newer than what is known means what the newest known one does; an operator that is only in that
    newer version is its own function body.
    """
    schema = find_schema(domain, name, min(version, NEWEST.get(domain, version))) or find_schema(domain, name, version)
    if schema is None and domain in NEWEST and version >= 1:
        return Resolution(None, operator=None if defs_has(domain, name) else OPERATORS.get((domain, name)))
    adapter = None if schema is None else find_adapter(domain, name, schema.since_version)
    if adapter is not None:
        return Resolution(schema, adapter)
    operator = OPERATORS.get((domain, name))
    has_body = schema is not None and (schema.has_function or schema.has_context_dependent_function)
    return Resolution(schema, None, operator, operator is None and has_body)


def defs_has(domain: str, name: str) -> bool:
    """Whether ONNX defines an operator in any version."""
    return defs.has(name, domain)


def output_is_variadic(schema: Schema | None) -> bool:
    """Whether the number of outputs is the node's to say."""
    variadic = defs.OpSchema.FormalParameterOption.Variadic
    return schema is not None and bool(schema.outputs) and schema.outputs[-1].option == variadic


def function_body(
    schema: Schema, version: int, node: onnx.NodeProto, types: list[onnx.TypeProto]
) -> onnx.FunctionProto | None:
    """The body that the schema gives for one node, in operators of at most `version`; None where it has none."""
    encoded: Any = b""
    if schema.has_context_dependent_function:
        known = [v for v in schema.context_dependent_function_opset_versions if v <= version]
        inputs = [proto.SerializeToString() for proto in types]
        if known:
            encoded = schema.get_context_dependent_function_with_opset_version(
                max(known), node.SerializeToString(), inputs
            )
    elif schema.has_function:
        known = [v for v in schema.function_opset_versions if v <= version]
        encoded = schema.get_function_with_opset_version(max(known)) if known else b""
    return onnx.FunctionProto.FromString(encoded) if encoded else None


def known_names(domain: str) -> list[str]:
    """Every operator name of a domain, for did-you-mean."""
    names = {name for d, name in OPERATORS if d == domain} | {name for d, name in ADAPTERS if d == domain}
    names |= {schema.name for schema in defs.get_all_schemas() if schema.domain == domain}
    return sorted(names)
