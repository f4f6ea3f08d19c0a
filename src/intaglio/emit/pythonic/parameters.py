"""Parameters of exported functions, where inputs of a model have defaults."""

from __future__ import annotations

from collections.abc import Sequence

from intaglio.ir.graph import Value
from intaglio.ir.types import OptionalType


def behind_defaults(inputs: Sequence[Value]) -> list[Value]:
    """The inputs without a default behind one with a default: Python wants a default for them too."""
    first = next((place for place, value in enumerate(inputs) if value.default is not None), len(inputs))
    return [value for value in inputs[first:] if value.default is None]


def missing(name: str, value: Value) -> list[str]:
    """Lines that raise TypeError where such an input is not given; none where it may be None."""
    if isinstance(value.type, OptionalType):
        return []
    return [f"if {name} is None:", f'    raise TypeError("{name} is missing")']
