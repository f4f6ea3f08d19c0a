"""Dimensions read from text."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from intaglio.errors import GraphError
from intaglio.ir.dim import ARITIES, FUNCTIONS, Dim, floordiv, mod, symbol


def parse(text: str) -> Dim:
    """The inverse of `str` for dimensions.

    >>> parse("2*N + floordiv(M, 3)")
    2*N + floordiv(M, 3)
    """
    try:
        return _parse_node(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError as error:
        raise GraphError(f"{text!r} is not a dimension: {error.msg}") from None


_OPERATORS: dict[type, Callable[[Any, Any], Dim]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: floordiv,
    ast.Mod: mod,
}


def _parse_node(node: ast.expr) -> Dim:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Constant(value=str(name)) | ast.Name(id=name):
            return symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_parse_node(operand)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            return _OPERATORS[type(operator)](_parse_node(left), _parse_node(right))
        case ast.Call(func=ast.Name(id=name), args=args) if name in FUNCTIONS and len(args) == ARITIES.get(name, 2):
            return FUNCTIONS[name](*map(_parse_node, args))
        case _:
            raise GraphError(f"{ast.unparse(node)!r} is not a dimension")
