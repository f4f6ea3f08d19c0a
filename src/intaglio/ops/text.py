"""Operators on strings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import LimitError, OperatorError, ShapeError
from intaglio.ir import dim as dims
from intaglio.ir import requirements
from intaglio.ir.dtype import BOOL, FLOAT32, INT64, STRING
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op
from intaglio.ir.types import TensorType
from intaglio.ops.shared.indices import check_size, need_rank
from intaglio.ops.shared.regex import compile_pattern

LENGTH_LIMIT = 1 << 26
"""No string grows longer than this: a chain of concatenations doubles it with each link."""


FEW = 16
"""So many numbers are counted faster one by one."""

DENSE_ENTRIES = 1 << 18
"""Tables of n-grams have at most so many entries where they are arrays."""


def need_strings(value: Value) -> None:
    """Raise where a value is not a tensor of strings."""
    if value.dtype != STRING:
        raise ShapeError(f"{value.name} is {value.dtype}, expected string")


def strings(items: Any, shape: tuple[int, ...]) -> Array:
    """A tensor of strings."""
    result = np.empty(shape, dtype=object)
    result.reshape(-1)[:] = items
    return result


class StringConcat(Op):
    """X and Y joined element by element."""

    no_gradient = "it works on strings"

    def infer(self, X: Value, Y: Value) -> TensorType:
        need_strings(X)
        need_strings(Y)
        if X.tensor.shape is None or Y.tensor.shape is None:
            return TensorType(STRING, None)
        return TensorType(STRING, requirements.broadcast_shapes(X.shape, Y.shape))

    def reference(self, X: Array, Y: Array) -> Array:
        left, right = np.broadcast_arrays(X, Y)
        longest = max((len(a) + len(b) for a, b in zip(left.flat, right.flat, strict=True)), default=0)
        if longest > LENGTH_LIMIT:
            raise LimitError(f"a string of {longest} characters is over the limit of {LENGTH_LIMIT}")
        return strings([a + b for a, b in zip(left.flat, right.flat, strict=True)], left.shape)


def upper(text: str) -> str:
    """The text in capitals, letter by letter: one that would become several stays."""
    if text.isascii():
        return text.upper()
    return "".join(big if len(big := letter.upper()) == 1 else letter for letter in text)


def lower(text: str) -> str:
    """The text in small letters, letter by letter."""
    if text.isascii():
        return text.lower()
    return "".join(small if len(small := letter.lower()) == 1 else letter for letter in text)


class StringNormalizer(Op):
    """The words without stop words, in capitals, small letters or as they are; the locale makes no difference here."""

    no_gradient = "it works on strings"
    case_change_action: str = "NONE"
    is_case_sensitive: int = 0
    locale: str | None = None
    stopwords: tuple[str, ...] | None = None

    def infer(self, X: Value) -> TensorType:
        need_strings(X)
        need_rank(X, 1, 2)
        if self.case_change_action not in ("NONE", "LOWER", "UPPER"):
            raise ShapeError(f"case_change_action {self.case_change_action!r} is none of NONE, LOWER, UPPER")
        if X.tensor.shape is None:
            return X.tensor
        if X.rank == 2 and dims.compare(X.shape[0], 1) in (-1, 1):
            raise ShapeError(f"{X.name} has the shape {list(X.shape)}, expected [C] or [1, C]")
        size = dims.maximum(X.shape[-1], 1) if not self.stopwords else dims.fresh()
        return X.tensor.with_shape((*((1,) * (X.rank - 1)), size))

    def reference(self, X: Array) -> Array:
        if X.ndim == 2 and X.shape[0] != 1:
            raise OperatorError(f"the shape {list(X.shape)}: expected [C] or [1, C]")
        same = str if self.is_case_sensitive else lower
        dropped = {same(word) for word in self.stopwords or ()}
        kept = [word for word in X.reshape(-1).tolist() if same(word) not in dropped]
        change = {"LOWER": lower, "UPPER": upper}.get(self.case_change_action, str)
        words = [change(word) for word in kept] or [""]
        return strings(words, (*((1,) * (X.ndim - 1)), len(words)))

    def prepare(self, *constants: Array | None) -> Callable[..., Any]:
        same = str if self.is_case_sensitive else lower
        dropped = {same(word) for word in self.stopwords or ()}
        change = {"LOWER": lower, "UPPER": upper}.get(self.case_change_action, str)

        def normalized(X: Array) -> Array:
            if X.ndim == 2 and X.shape[0] != 1:
                raise OperatorError(f"the shape {list(X.shape)}: expected [C] or [1, C]")
            kept = [change(word) for word in X.reshape(-1).tolist() if not dropped or same(word) not in dropped] or [""]
            return strings(kept, (*((1,) * (X.ndim - 1)), len(kept)))

        return super().prepare(*constants) if constants[0] is not None else normalized


class StringSplit(Op):
    """The parts of each string between delimiters (or white space), filled up with "", and how many there are."""

    no_gradient = "it works on strings"
    output_names: ClassVar[tuple[str, ...]] = ("Y", "Z")
    delimiter: str | None = None
    maxsplit: int | None = None

    def infer(self, X: Value) -> tuple[TensorType, TensorType]:
        need_strings(X)
        shape = X.tensor.shape
        return X.tensor.with_shape(None if shape is None else (*shape, dims.fresh())), TensorType(INT64, shape)

    def reference(self, X: Array) -> tuple[Array, Array]:
        parts = [self._split(text) for text in X.flat]
        counts = np.array([len(part) for part in parts], np.int64)
        width = int(counts.max(initial=0))
        check_size((*X.shape, width), np.dtype(object))
        filled = [part + [""] * (width - len(part)) for part in parts]
        return strings([text for part in filled for text in part], (*X.shape, width)), counts.reshape(X.shape)

    def _split(self, text: str) -> list[str]:
        most = -1 if self.maxsplit is None else self.maxsplit
        if self.delimiter:
            return text.split(self.delimiter, most) if text else []
        # Bytes are stripped and split at ASCII white space only.
        parts = text.encode("utf-8", "surrogatepass").strip().split(None, most)
        return [part.decode("utf-8", "surrogatepass") for part in parts]


class RegexFullMatch(Op):
    """Whether each string as a whole matches `pattern`, in RE2's syntax and in linear time."""

    no_gradient = "it works on strings"
    pattern: str | None = None

    def infer(self, X: Value) -> TensorType:
        need_strings(X)
        compile_pattern(self.pattern or "")
        return TensorType(BOOL, X.tensor.shape)

    def reference(self, X: Array) -> Array:
        matcher = compile_pattern(self.pattern or "")
        return np.array([matcher.matches(text) for text in X.flat], bool).reshape(X.shape)


class TfIdfVectorizer(Op):
    """How often each n-gram of a pool occurs in a row, with up to `max_skip_count` elements skipped in between."""

    no_gradient = "it has no input that changes smoothly"
    max_gram_length: int
    max_skip_count: int
    min_gram_length: int
    mode: str
    ngram_counts: tuple[int, ...]
    ngram_indexes: tuple[int, ...]
    pool_int64s: tuple[int, ...] | None = None
    pool_strings: tuple[str, ...] | None = None
    weights: tuple[float, ...] | None = None

    def infer(self, X: Value) -> TensorType:
        need_rank(X, 0, 2)
        if self.mode not in ("TF", "IDF", "TFIDF"):
            raise ShapeError(f"mode {self.mode!r} is none of TF, IDF, TFIDF")
        if (self.pool_int64s is None) == (self.pool_strings is None):
            raise ShapeError("expected one of pool_int64s and pool_strings")
        if (X.dtype == STRING) != (self.pool_strings is not None):
            raise ShapeError(f"{X.name} is {X.dtype}, the pool holds {'numbers' if self.pool_int64s else 'strings'}")
        self._pool()
        shape = X.tensor.shape
        return TensorType(FLOAT32, None if shape is None else (*shape[:-1], self._width()))

    def _width(self) -> int:
        return max(self.ngram_indexes, default=-1) + 1

    def _pool(self) -> dict[tuple[Any, ...], int]:
        """The number of each n-gram in the pool."""
        pool = (self.pool_strings if self.pool_int64s is None else self.pool_int64s) or ()
        result: dict[tuple[Any, ...], int] = {}
        ends = (*self.ngram_counts[1:], len(pool))
        number = 0
        for length, (start, end) in enumerate(zip(self.ngram_counts, ends, strict=True), start=1):
            if not 0 <= start <= end <= len(pool) or (end - start) % length:
                raise ShapeError(f"ngram_counts {list(self.ngram_counts)} do not divide a pool of {len(pool)}")
            for place in range(start, end, length):
                result.setdefault(tuple(pool[place : place + length]), number)
                number += 1
        if number != len(self.ngram_indexes) or any(index < 0 for index in self.ngram_indexes):
            raise ShapeError(f"{len(self.ngram_indexes)} ngram_indexes for {number} n-grams, expected as many, from 0")
        return result

    def reference(self, X: Array) -> Array:
        pool, width = self._pool(), self._width()
        rows = X.reshape(math.prod(X.shape[:-1]), X.shape[-1] if X.ndim else 1)
        counts = np.array([self._count(row.tolist(), pool) for row in rows], np.float32).reshape(len(rows), width)
        scale = np.ones(width, np.float32)
        if self.weights is not None and self.mode != "TF":
            scale[list(self.ngram_indexes)] = self.weights
        found = np.minimum(counts, 1) if self.mode == "IDF" else counts
        return (found * scale).astype(np.float32).reshape(*X.shape[:-1], width)

    def prepare(self, *constants: Array | None) -> Callable[..., Any]:
        if constants[0] is not None:
            return super().prepare(*constants)
        width, tables = self._width(), self._tables()
        weighs, is_once = self.weights is not None and self.mode != "TF", self.mode == "IDF"
        scale = np.ones(width, np.float32)
        if weighs:
            scale[list(self.ngram_indexes)] = self.weights or ()

        dense = _dense_tables(tables, width)

        def counted(X: Array) -> Array:
            is_table = X.ndim == 2
            table = X if is_table else X.reshape(1, -1)
            if dense is not None and table.size > FEW:
                found = _dense_counts(table, *dense, width)
            else:
                found = np.zeros((len(table), width), np.float32)
                for place, row in enumerate(table.tolist()):
                    self._count_into(found[place], row, tables)
            found = np.minimum(found, 1) if is_once else found
            found = found * scale if weighs else found
            return found if is_table else found.reshape(*X.shape[:-1], width)

        return counted

    def _tables(self) -> list[tuple[int, int, dict[Any, int]]]:
        """For each length of n-grams and each step between their elements, the columns of those in the pool."""
        tables: dict[int, dict[Any, int]] = {}
        for gram, number in self._pool().items():
            key = gram[0] if len(gram) == 1 else gram
            tables.setdefault(len(gram), {})[key] = self.ngram_indexes[number]
        lengths = [n for n in range(self.min_gram_length, self.max_gram_length + 1) if n in tables]
        steps = {n: range(1, 2 + (self.max_skip_count if n > 1 else 0)) for n in lengths}
        return [(length, step, tables[length]) for length in lengths for step in steps[length]]

    def _count_into(self, counts: Array, row: list[Any], tables: list[tuple[int, int, dict[Any, int]]]) -> None:
        columns = self._columns(row, tables)
        if len(columns) > FEW:
            counts[:] = np.bincount(columns, minlength=counts.size)
            return
        for column in columns:
            counts[column] += 1

    def _columns(self, row: list[Any], tables: list[tuple[int, int, dict[Any, int]]]) -> list[int]:
        """The column of each n-gram of a row that is in the pool."""
        found: list[int] = []
        for length, step, table in tables:
            grams = row if length == 1 else zip(*[row[place * step :] for place in range(length)], strict=False)
            found += [column for column in map(table.get, grams) if column is not None]
        return found

    def _count(self, row: list[Any], pool: dict[tuple[Any, ...], int]) -> Array:
        counts = np.zeros(self._width(), np.float32)
        for length in range(self.min_gram_length, self.max_gram_length + 1):
            # A single element has nothing to skip, so it is counted once.
            for step in range(1, 2 + (self.max_skip_count if length > 1 else 0)):
                for start in range(len(row) - (length - 1) * step):
                    number = pool.get(tuple(row[start : start + (length - 1) * step + 1 : step]))
                    if number is not None:
                        counts[self.ngram_indexes[number]] += 1
        return counts


Tables = list[tuple[int, int, Array]]
"""By length of n-grams and step between their elements: the column of each n-gram, by the numbers of its words."""


class _Numbers(dict[Any, int]):
    """The number of each word, and 0 for others."""

    def __missing__(self, key: Any) -> int:
        return 0


def _dense_tables(tables: list[tuple[int, int, dict[Any, int]]], width: int) -> tuple[_Numbers, Tables] | None:
    """A number for each word of the pool, 0 for others, and tables by them; None where those would be too large.

    What is in no pool has the column `width`.
    """
    grams = [gram if length > 1 else (gram,) for length, _, table in tables for gram in table]
    words = _Numbers((word, number) for number, word in enumerate(dict.fromkeys(itertools.chain(*grams)), start=1))
    sizes = [(len(words) + 1) ** length for length, _, _ in tables]
    if sum(sizes) > DENSE_ENTRIES:
        return None
    found: Tables = []
    for length, step, table in tables:
        columns = np.full((len(words) + 1,) * length, width, np.int64)
        for gram, column in table.items():
            columns[words[gram] if length == 1 else tuple(words[word] for word in gram)] = column
        found.append((length, step, columns))
    return words, found


def _dense_counts(table: Array, words: _Numbers, tables: Tables, width: int) -> Array:
    """How often each n-gram occurs in each row."""
    rows, length = table.shape
    numbers = np.fromiter(map(words.__getitem__, table.reshape(-1).tolist()), np.int64, table.size)
    if rows > 1:
        numbers = numbers.reshape(rows, length)
    columns: list[Array] = []
    for count, step, places in tables:
        last = max(length - (count - 1) * step, 0)
        columns.append(places[tuple([numbers[..., place * step : place * step + last] for place in range(count)])])
    if rows > 1:
        offsets = np.arange(0, rows * (width + 1), width + 1)[:, None]
        columns = [(each + offsets).reshape(-1) for each in columns]
    whole = np.concatenate(columns) if columns else np.zeros(0, np.int64)
    counts = np.bincount(whole, minlength=rows * (width + 1)).reshape(rows, width + 1)
    return counts[:, :width].astype(np.float32)
