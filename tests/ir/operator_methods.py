"""The typed face of `Builder`: `python -m tests.ir.operator_methods` writes it anew from the table of operators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import intaglio.ir
from intaglio.ir.op import OPERATORS, Op, is_required

PATH = Path(intaglio.ir.__file__).parent / "operator_methods.pyi"
MOST = 8
"""Up to so many outputs their number is told by a literal."""

HEAD = '''"""The operators as methods of `Builder`, for type checkers: `python -m tests.ir.operator_methods`."""

from typing import Any, Literal, overload

from intaglio.ir.graph import Graph, Operand, Value
from intaglio.ir.op import Tensor
from intaglio.ir.types import Type

class OperatorMethods:
'''


def stub() -> str:
    """The text of the stub."""
    operators = sorted(
        (name, operator) for (domain, name), operator in OPERATORS.items() if not domain and ours(operator)
    )
    return HEAD + "\n".join(line for name, operator in operators for line in method(name, operator)) + "\n"


def ours(operator: type[Op]) -> bool:
    """Whether an operator is Intaglio's own, and not one that a test has registered."""
    return operator.__module__.startswith("intaglio.ops")


def method(name: str, operator: type[Op]) -> Iterator[str]:
    """The lines of one operator's method; one with several outputs has an overload for each kind of answer."""
    given = ", ".join(["self", *parameters(operator)])
    separator = "" if "*" in given else ", *"
    if not operator.variadic_outputs and len(operator.output_names) < 2:
        named = ", ".join(attributes(operator))
        yield f"    def {name}({given}{separator + ', ' + named if named else ''}) -> Value: ..."
        return
    several = ", ".join(str(count) for count in range(3, MOST + 1))
    results = {
        "Literal[1] = 1": "Value",
        "Literal[2]": "tuple[Value, Value]",
        f"Literal[{several}]": "tuple[Value, ...]",
        "int": "Any",
    }
    for count, result in results.items():
        named = ", ".join([f"outputs: {count}", *attributes(operator)])
        yield "    @overload"
        yield f"    def {name}({given}{separator}, {named}) -> {result}: ..."


def parameters(operator: type[Op]) -> Iterator[str]:
    """The inputs; each may be left out by position and given by name."""
    for parameter in operator.parameters():
        if parameter.kind == "variadic":
            yield f"*{parameter.name}: Operand | None"
        else:
            yield f"{parameter.name}: Operand" + (" | None = None" if parameter.kind == "optional" else "")


def attributes(operator: type[Op]) -> Iterator[str]:
    """The attributes by name."""
    for attribute in operator.attributes():
        default = "" if is_required(attribute) else " = ..."
        yield f"{attribute.name}: {attribute.type}{default}"


if __name__ == "__main__":
    PATH.write_text(stub())
