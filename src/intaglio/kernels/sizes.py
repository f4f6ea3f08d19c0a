"""The values of sizes that drivers compute, worked out in Python: for plans of memory, before anything runs.

Sizes are C expressions over integers. Where dimensions are open the value is an expression of them, as long as no
choice depends on one; a choice between two numbers by their order is `min` or `max`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from intaglio.ir.dim import Dim, UndecidableError, decide_equal, floordiv, maximum, minimum, mod, substitute
from intaglio.kernels.plan import Size, SizeTerm

_TOKEN = re.compile(r"\s*(\d+|[A-Za-z_]\w*(?:->\w+)?|&&|\|\||[<>=!]=|[-+*/%<>?:()!])")
_LEVELS = (("||",), ("&&",), ("==", "!="), ("<", ">", "<=", ">="), ("+", "-"), ("*", "/", "%"))


@dataclass(frozen=True)
class _Term:
    """A number or a name (no parts), or an operator and what it is applied to."""

    operator: str
    parts: tuple[_Term, ...] = ()


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = _TOKEN.findall(text)
        if "".join(self.tokens) != re.sub(r"\s", "", text):
            raise ValueError(f"{text!r} is not a size")
        self.place = 0

    def whole(self) -> _Term:
        found = self.choice()
        if self.place < len(self.tokens):
            raise ValueError(f"{self.tokens[self.place]!r} is not expected in a size")
        return found

    def choice(self) -> _Term:
        condition = self.binary(0)
        if not self.accept("?"):
            return condition
        left = self.choice()
        if not self.accept(":"):
            raise ValueError("a choice has no second part")
        return _Term("?", (condition, left, self.choice()))

    def binary(self, level: int) -> _Term:
        if level == len(_LEVELS):
            return self.primary()
        found = self.binary(level + 1)
        while self.place < len(self.tokens) and self.tokens[self.place] in _LEVELS[level]:
            operator = self.tokens[self.place]
            self.place += 1
            found = _Term(operator, (found, self.binary(level + 1)))
        return found

    def primary(self) -> _Term:
        if self.accept("-"):
            return _Term("-", (_Term("0"), self.primary()))
        if self.accept("!"):
            return _Term("==", (_Term("0"), self.primary()))
        if self.accept("("):
            found = self.choice()
            if not self.accept(")"):
                raise ValueError("a parenthesis is not closed")
            return found
        token = self.tokens[self.place] if self.place < len(self.tokens) else ""
        if not re.match(r"\w", token):
            raise ValueError(f"{token!r} is not a number or a name")
        self.place += 1
        return _Term(token)

    def accept(self, token: str) -> bool:
        is_next = self.place < len(self.tokens) and self.tokens[self.place] == token
        self.place += is_next
        return is_next


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> _Term:
    return _Parser(text).whole()


def _quotient(left: Dim, right: Dim) -> Dim:
    """C's division, which rounds towards zero; open dimensions are at least zero."""
    if isinstance(left, int) and isinstance(right, int):
        found = abs(left) // abs(right)
        return found if (left < 0) == (right < 0) else -found
    return floordiv(left, right)


_OPERATORS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": _quotient,
    "%": mod,
    "<": lambda left, right: int(left < right),
    ">": lambda left, right: int(left > right),
    "<=": lambda left, right: int(left <= right),
    ">=": lambda left, right: int(left >= right),
    "==": lambda left, right: int(decide_equal(left, right)),
    "!=": lambda left, right: int(not decide_equal(left, right)),
}


def _value(term: _Term, names: Mapping[str, Dim]) -> Dim:
    if not term.parts:
        return int(term.operator) if term.operator.isdigit() else names[term.operator]
    if term.operator == "?":
        return _chosen(term, names)
    if term.operator in ("&&", "||"):
        left = bool(_value(term.parts[0], names))
        return int(left) if left == (term.operator == "||") else int(bool(_value(term.parts[1], names)))
    left, right = (_value(part, names) for part in term.parts)
    return _OPERATORS[term.operator](left, right)


def _chosen(term: _Term, names: Mapping[str, Dim]) -> Dim:
    condition, first, second = term.parts
    try:
        return _value(first if _value(condition, names) != 0 else second, names)
    except UndecidableError:
        if condition.operator not in ("<", ">", "<=", ">=") or {first, second} != set(condition.parts):
            raise
        is_least = (first == condition.parts[0]) == condition.operator.startswith("<")
        return (minimum if is_least else maximum)(_value(first, names), _value(second, names))


def size_value(size: Size, names: Mapping[str, Dim], bindings: Mapping[str, Dim]) -> Dim:
    """A size, of which `names` are the sizes before it; UndecidableError where it depends on an open dimension how."""
    if not isinstance(size, SizeTerm):
        return substitute(size, bindings)
    if not size.dims:
        return _value(_parsed(size.template), names)
    places = {f"dim_{place}": substitute(dim, bindings) for place, dim in enumerate(size.dims)}
    return _value(_parsed(size.template.format(*places)), {**names, **places})


def named_sizes(sizes: Iterable[tuple[str, Size]], bindings: Mapping[str, Dim], threads: int) -> dict[str, Dim]:
    """The values of a call's sizes by name; those that open dimensions leave open are not there."""
    found: dict[str, Dim] = {"call->threads": threads}
    for name, size in sizes:
        try:
            found[name] = size_value(size, found, bindings)
        except (UndecidableError, KeyError):
            continue
    return found
