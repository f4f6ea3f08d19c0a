"""The table of ATen operators: which function says each of them in our operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Rule: TypeAlias = Callable[..., Any]

TABLE: dict[str, Rule] = {}
"""The function for each ATen operator, by its full name: `aten.add.Tensor`.

It is called with an `AtenCall` and the operator's arguments: tensors are values, sizes are dimensions. It returns a
value, or a tuple where the operator has several results (None for what nobody reads), and raises UnsupportedError with
the reason where it cannot.
"""

COMPLEX = "complex numbers are left to PyTorch"

REFUSED: dict[str, str] = {}
"""Why operators are left to PyTorch, by name; others that are not in the table are simply not written yet."""


def aten(*names: str) -> Callable[[Rule], Rule]:
    """Enter a function for ATen operators: `@aten("add.Tensor")`; a name without a dot is the default overload."""

    def enter(rule: Rule) -> Rule:
        for name in names:
            full = full_name(name)
            assert full not in TABLE, full
            TABLE[full] = rule
        return rule

    return enter


def refuse(reason: str, *names: str) -> None:
    """Say why operators are left to PyTorch."""
    REFUSED.update({full_name(name): reason for name in names})


def full_name(name: str) -> str:
    """The name with namespace and overload."""
    if name.startswith("prims."):
        return name
    overloaded = name if "." in name else f"{name}.default"
    return f"aten.{overloaded}"


def why_missing(name: str) -> str:
    """Why an operator has no function here."""
    if "." not in name:
        return f"{name} is no ATen operator: it is about functions, or has effects beside its results"
    packet = name.rpartition(".")[0] + ".default"
    return REFUSED.get(name) or REFUSED.get(packet) or f"{name} is not in the table of operators"
