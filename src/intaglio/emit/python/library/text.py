"""Strings."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np


def join_strings(a: Any, b: Any) -> Any:
    """Strings joined element by element."""
    left, right = np.broadcast_arrays(a, b)
    return np.array([x + y for x, y in zip(left.flat, right.flat, strict=True)], dtype=object).reshape(left.shape)


def split_strings(x: Any, delimiter: str | None, most: int | None) -> tuple[Any, Any]:
    """The parts of each string, filled up with empty ones, and their number."""
    parts = [text.split(delimiter or None, -1 if most is None else most) for text in x.flat]
    width = max(map(len, parts), default=0)
    rows = [part + [""] * (width - len(part)) for part in parts]
    table = np.array(rows, dtype=object).reshape(*x.shape, width)
    return table, np.array([len(part) for part in parts], dtype=np.int64).reshape(x.shape)


def normalize_strings(x: Any, stopwords: Any, case: str, is_case_sensitive: bool) -> Any:
    """Strings without stopwords, in another case."""
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(case, str)
    banned = set(stopwords) if is_case_sensitive else {word.lower() for word in stopwords}
    rows = x.reshape(-1, x.shape[-1])
    kept = [
        [change(word) for word in row if (word if is_case_sensitive else word.lower()) not in banned] for row in rows
    ]
    kept = [row or [""] for row in kept]
    return np.array(kept if x.ndim > 1 else kept[0], dtype=object)


def match_strings(x: Any, pattern: str) -> Any:
    """Whether each string as a whole matches a pattern."""
    found = re.compile(pattern)
    return np.array([found.fullmatch(text) is not None for text in x.flat], dtype=bool).reshape(x.shape)


def count_ngrams(
    x: Any, grams: Any, counts: Any, indexes: Any, weights: Any, shortest: int, longest: int, skip: int, mode: str
) -> Any:
    """How often each known sequence of words comes in each row, words being taken with gaps of up to some length."""
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    known: dict[Any, int] = {}
    ends = [*counts[1:], len(grams)]
    number = 0
    for size, (start, end) in enumerate(zip(counts, ends, strict=True), 1):
        for place in range(start, end, size):
            known[tuple(grams[place : place + size])] = number
            number += 1
    result = np.zeros((len(rows), max(indexes) + 1), dtype=np.float32)
    for r, row in enumerate(rows.tolist()):
        for size in range(shortest, longest + 1):
            for gap in range(1, (skip if size > 1 else 0) + 2):
                for start in range(len(row) - (size - 1) * gap):
                    found = known.get(tuple(itertools.islice(row, start, start + (size - 1) * gap + 1, gap)))
                    if found is not None:
                        result[r, indexes[found]] += 1
    factor = np.zeros(result.shape[1], dtype=np.float32)
    factor[list(indexes)] = 1 if weights is None else weights
    if mode == "TF":
        factor = np.ones_like(factor)
    elif mode == "IDF":
        result = (result > 0).astype(np.float32)
    result = result * factor
    return result[0] if x.ndim == 1 else result


def look_up(x: Any, keys: Any, values: Any, default: Any = None) -> Any:
    """The value of each key, or the default; NaN is a key too."""

    def plain(item: Any) -> Any:
        return None if isinstance(item, float) and item != item else item

    table = dict(zip(map(plain, keys.tolist()), values.tolist(), strict=True))
    items = [plain(item) for item in x.ravel().tolist()]
    found = [table[item] if default is None else table.get(item, default.tolist()[0]) for item in items]
    return np.array(found, dtype=values.dtype).reshape(x.shape)
