"""The C variables of a kernel's values."""

from __future__ import annotations

from collections.abc import Mapping

from intaglio.kernels.language import Expr, Let, Reduce
from intaglio.targets.c.printing.expression import assigned, vector
from intaglio.targets.c.printing.register import Register, kind_of, literal


class Variables:
    """The C variables of a kernel's values: v0, v1 and so on as they are asked for, behind those that are `given`."""

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self._names = dict(given or {})

    def name(self, name: str) -> str:
        """The variable of a value."""
        return self._names.setdefault(name, f"v{len(self._names)}")

    def register(self, value: Expr) -> Register:
        """An expression over the variables."""
        return vector(value, self.name)

    def assign(self, statement: Let) -> str:
        """The statement that computes a value."""
        kind, text = assigned(self.register(statement.value))
        return self.declare(statement.name, kind, text)

    def declare(self, name: str, kind: str, text: str) -> str:
        """The statement that makes the variable of a value, in a register of a kind."""
        return f"const ig_{kind} {self.name(name)} = {text};"


COMBINE = {"sum": "add", "mean": "add", "product": "mul", "max": "max", "min": "min"}
"""The function that combines two values of a reduction."""


def nothing(statement: Reduce) -> str:
    """What a reduction of nothing gives, in a register of the kind that it adds up in."""
    kind = kind_of(statement.total)
    extreme = {"max": "lowest", "min": "highest"}.get(statement.function)
    if extreme is None:
        return literal(1 if statement.function == "product" else 0, kind)
    if statement.type == "bool":
        return literal(0 if statement.function == "max" else 1, kind)
    return f"ig_set_{kind}(ig_{extreme}_{kind})"
