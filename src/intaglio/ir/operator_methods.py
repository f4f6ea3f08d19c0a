"""The operators as methods of `Builder`; type checkers read the stub beside this file, which lists them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from intaglio.ir.op import OPERATORS, Op


class OperatorMethods:
    """What is no other attribute is the name of an operator of ONNX's own domain."""

    def apply(self, cls: type[Op], *operands: Any, **named: Any) -> Any:
        """What a call of an operator's method does."""
        raise NotImplementedError

    def __getattr__(self, operator: str) -> Callable[..., Any]:
        cls = OPERATORS.get(("", operator))
        if cls is None:
            raise AttributeError(f"there is no operator {operator}")
        return lambda *operands, **named: self.apply(cls, *operands, **named)
