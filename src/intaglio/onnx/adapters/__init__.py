"""Adapters: the meaning of older operator versions in terms of the newest ones.

    @adapts("Softmax", before=13)
    def softmax_1(b: Builder, input: Value, *, axis: int = 1) -> Value: ...

The positional parameters are the old version's inputs, the keyword-only ones its attributes with their old defaults.
Two keyword-only names are reserved: `outputs` receives the number of the node's outputs, `opset` the version of the
operator set that the model imports. A node whose schema version has no adapter must mean what the newest one means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Adapter:
    """A function that builds an old operator version, for schema versions since <= version < before."""

    function: Callable[..., Any]
    since: int
    before: int


ADAPTERS: dict[tuple[str, str], list[Adapter]] = {}
"""All adapters by domain and operator."""


def adapts(*names: str, before: int, since: int = 1, domain: str = "") -> Callable[[Any], Any]:
    """Register a function as the adapter of one or several operators' versions since <= version < before."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            ADAPTERS.setdefault((domain, name), []).append(Adapter(function, since, before))
        return function

    return register


def find_adapter(domain: str, name: str, version: int) -> Adapter | None:
    """The adapter for an operator at a schema version, or None where the newest meaning holds."""
    for adapter in ADAPTERS.get((domain, name), ()):
        if adapter.since <= version < adapter.before:
            return adapter
    return None
