"""Sizes as expressions of a language."""

from __future__ import annotations

from collections.abc import Mapping

from intaglio.ir.dim import Atom, Dim, Expr, Symbol

PYTHON = {
    "less": "int({0} < {1})",
    "equal": "int({0} == {1})",
    "select": "({1} if {0} else {2})",
    "floordiv": "_floordiv({0}, {1})",
    "ceildiv": "_ceildiv({0}, {1})",
    "mod": "_mod({0}, {1})",
    "broadcast": "_broadcast({0}, {1})",
}
JAVASCRIPT = {"less": "({0} < {1} ? 1 : 0)", "equal": "({0} === {1} ? 1 : 0)", "select": "({0} ? {1} : {2})"}
"""How languages say functions of sizes; others they call by their names."""


def size_text(dim: Dim, names: Mapping[str, str], words: Mapping[str, str]) -> str:
    """A size in a language; `names` are its variables for symbols.

    >>> from intaglio.ir.dim import floordiv, symbol
    >>> size_text(2 * floordiv(symbol("n") + 1, 2), {"n": "rows"}, PYTHON)
    '(2 * _floordiv((1 * rows + 1), 2))'
    """
    if not isinstance(dim, Expr):
        return str(int(dim))
    terms = [
        " * ".join([str(factor), *(_atom_text(atom, names, words) for atom in monomial)])
        for monomial, factor in dim.terms
    ]
    return f"({' + '.join(terms)})"


def _atom_text(atom: Atom, names: Mapping[str, str], words: Mapping[str, str]) -> str:
    if isinstance(atom, Symbol):
        return names[atom.name]
    operands = [size_text(operand, names, words) for operand in atom.operands]
    if atom.function in words:
        return words[atom.function].format(*operands)
    return f"{atom.function}({', '.join(operands)})"
