"""What an adapter's signature says."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from intaglio.errors import LoadError
from intaglio.ir.graph import Value
from intaglio.ir.op import Op, is_required

RESERVED = ("outputs", "opset")
"""Keyword parameters of adapters that are not attributes."""


@dataclass(frozen=True)
class Signature:
    """The inputs of an adapter, and its attributes with whether each is required."""

    required_inputs: tuple[str, ...]
    most_inputs: int | None
    attributes: Mapping[str, bool]
    reserved: frozenset[str]

    def check_inputs(self, inputs: Sequence[Value | None]) -> None:
        """Raise LoadError where there are too many inputs or a required one is missing."""
        if self.most_inputs is not None and len(inputs) > self.most_inputs:
            raise LoadError(f"takes at most {self.most_inputs} inputs in this version, got {len(inputs)}")
        for position, name in enumerate(self.required_inputs):
            if position >= len(inputs) or inputs[position] is None:
                raise LoadError(f"needs its input {name!r}")


@cache
def adapter_signature(function: Callable[..., Any]) -> Signature:
    """Read an adapter's signature."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    kinds = inspect.Parameter
    positional = [p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    named = {p.name: p.default is kinds.empty for p in parameters if p.kind is kinds.KEYWORD_ONLY}
    is_variadic = any(p.kind is kinds.VAR_POSITIONAL for p in parameters)
    return Signature(
        tuple(p.name for p in positional if p.default is kinds.empty),
        None if is_variadic else len(positional),
        {name: is_needed for name, is_needed in named.items() if name not in RESERVED},
        frozenset(named).intersection(RESERVED),
    )


def operator_signature(operator: type[Op], *missing: str, **named: Any) -> inspect.Signature:
    """The signature of an adapter with the inputs and attributes of an operator as it is now, but those `missing`.

    `named` are further keyword parameters, or attributes with another default.
    """
    kinds = inspect.Parameter
    inputs = [
        kinds(each.name, kinds.POSITIONAL_OR_KEYWORD, default=kinds.empty if each.kind == "single" else None)
        for each in operator.parameters()
    ]
    own = {f.name: kinds.empty if is_required(f) else f.default for f in operator.attributes() if f.name not in missing}
    keywords = [kinds(name, kinds.KEYWORD_ONLY, default=default) for name, default in (own | named).items()]
    return inspect.Signature([kinds("b", kinds.POSITIONAL_OR_KEYWORD), *inputs, *keywords])
