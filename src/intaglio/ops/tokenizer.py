"""com.microsoft's Tokenizer: texts as rows of tokens."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import ShapeError
from intaglio.ir import dim as dims
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op
from intaglio.ir.types import TensorType
from intaglio.ops.shared.indices import check_size, need_rank
from intaglio.ops.shared.regex_search import Searcher, compile_search
from intaglio.ops.text import need_strings, strings

START, END = "\x02", "\x03"

FEW = 1 << 16
"""So many tokens always fit into memory."""

_LETTERS = re.compile(r"\[(?:[A-Za-z0-9_]|[A-Z]-[A-Z]|[a-z]-[a-z]|[0-9]-[0-9])+\]\+")
"""Expressions that Python's own search reads as ours does, and fast: as many as there are of some plain letters."""


class Tokenizer(Op):
    """The tokens of each text along a new last axis, filled up with `pad_value`.

    Tokens are what lies between matches of the separators, each of which divides what those before it left; or what
    matches `tokenexp`. Shorter ones than `mincharnum` are left out. With `mark`, each row stands between two marks.
    """

    no_gradient = "it works on strings"
    domain: ClassVar[str] = "com.microsoft"
    mark: int
    mincharnum: int
    pad_value: str
    separators: tuple[str, ...] | None = None
    tokenexp: str | None = None

    def infer(self, X: Value) -> TensorType:
        need_strings(X)
        need_rank(X, 1, 2)
        self._divider()
        shape = X.tensor.shape
        return X.tensor.with_shape(None if shape is None else (*shape, dims.fresh()))

    def _divider(self) -> Callable[[str], list[str]]:
        """What makes tokens of one text."""
        if self.mincharnum < 1:
            raise ShapeError(f"mincharnum is {self.mincharnum}, expected at least 1")
        if not self.separators and not self.tokenexp:
            raise ShapeError("neither separators nor tokenexp say what a token is")
        if self.separators == ("",) or (not self.separators and self.tokenexp == "."):
            if self.mincharnum > 1:
                raise ShapeError(f"mincharnum is {self.mincharnum}, but each letter is a token")
            return list
        if self.separators:
            separators = [compile_search(each) for each in self.separators]
            return lambda text: self._separated(text, separators)
        searcher = compile_search(self.tokenexp or "")
        if _LETTERS.fullmatch(self.tokenexp or ""):
            find = re.compile(self.tokenexp or "").findall
            return find if self.mincharnum == 1 else lambda text: self._long_enough(find(text))
        return lambda text: self._long_enough([text[a:b] for a, b in searcher.matches(text)])

    def _separated(self, text: str, separators: list[Searcher]) -> list[str]:
        tokens = [text]
        for separator in separators:
            tokens = self._long_enough([piece for token in tokens for piece in _pieces(token, separator)])
        return tokens

    def _long_enough(self, tokens: list[str]) -> list[str]:
        return [token for token in tokens if len(token) >= self.mincharnum]

    def reference(self, X: Array) -> Array:
        return self.prepare(None)(X)

    def prepare(self, *constants: Array | None) -> Callable[..., Any]:
        divide = self._divider()
        return super().prepare(*constants) if constants[0] is not None else lambda X: self._tokens(X, divide)

    def _tokens(self, X: Array, divide: Callable[[str], list[str]]) -> Array:
        rows = [divide(text) for text in X.reshape(-1).tolist()]
        width = max(map(len, rows), default=0)
        if self.mark and width:
            rows, width = [[START, *row, END] for row in rows], width + 2
        if X.size * width > FEW:
            check_size((*X.shape, width), np.dtype(object))
        if len(rows) == 1:
            return strings(rows[0], (*X.shape, width))
        filled = [token for row in rows for token in row + [self.pad_value] * (width - len(row))]
        return strings(filled, (*X.shape, width))


def _pieces(text: str, separator: Searcher) -> list[str]:
    """What lies between the matches of a separator; where it matches nothing, the letter that follows is taken off."""
    found: list[str] = []
    start = 0
    for begin, end in separator.matches(text):
        found.append(text[start:begin])
        start = max(end, begin + 1)
    return [*found, text[start:]]
