"""Operators whose functions are made ready once: what these give, and refuse, is what the reference does."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from intaglio.errors import IntaglioError
from intaglio.ir.op import Op
from intaglio.ops import text
from intaglio.ops.indexing import Gather
from intaglio.ops.ml.labels import Lookup
from intaglio.ops.shape import Reshape
from intaglio.ops.shared.regex_search import compile_search
from intaglio.ops.text import StringNormalizer, TfIdfVectorizer
from intaglio.ops.tokenizer import Tokenizer

WORDS = ["red", "Green", "BLUE", "ß", "Éa", "ﬁn", "", "a b", "x_1", "a-b", "σς", "0"]


def texts(draw: random.Random, *shape: int) -> Any:
    found = np.empty(int(np.prod(shape)), object)
    found[:] = [" ".join(draw.choices(WORDS, k=draw.randint(0, 4))) for _ in range(found.size)]
    return found.reshape(shape)


def outcome(function: Any, *arrays: Any) -> Any:
    """The result, or that there is none."""
    try:
        return function(*arrays)
    except (ArithmeticError, LookupError, TypeError, ValueError, IntaglioError):
        return None


def check(op: Op, constants: list[Any], *arrays: Any) -> None:
    rest = iter(arrays)
    given = [next(rest) if constant is None else constant for constant in constants]
    expected, found = outcome(op.reference, *given), outcome(op.prepare(*constants), *arrays)
    assert (found is None) == (expected is None)
    if expected is not None:
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("seed", range(20))
def test_texts_are_normalised(seed: int) -> None:
    draw = random.Random(seed)
    shape = draw.choice([(0,), (1,), (5,), (1, 4), (2, 2), (1, 0)])
    op = StringNormalizer(
        case_change_action=draw.choice(["NONE", "LOWER", "UPPER"]),
        is_case_sensitive=draw.randint(0, 1),
        stopwords=draw.choice([None, (), ("red", "σς"), tuple(WORDS)]),
    )
    words = np.array(draw.choices(WORDS, k=int(np.prod(shape))), object).reshape(shape)
    check(op, [None], words)
    check(op, [words])


@pytest.mark.parametrize("entries", [0, text.DENSE_ENTRIES])
@pytest.mark.parametrize("seed", range(40))
def test_grams_are_counted(seed: int, entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "DENSE_ENTRIES", entries)
    draw = random.Random(seed)
    is_text, longest = draw.random() < 0.5, draw.randint(1, 3)
    alphabet: Any = ["a", "b", "c"] if is_text else [1, 2, 3]
    pool, counts = [], []
    for length in range(1, longest + 1):
        counts.append(len(pool))
        for _ in range(draw.randint(0 if length > 1 else 1, 5)):
            pool += draw.choices(alphabet, k=length)
    grams = sum((end - start) // n for n, (start, end) in enumerate(zip(counts, [*counts[1:], len(pool)]), start=1))  # noqa: B905
    columns = tuple(draw.choices(range(grams + 2), k=grams))
    least = draw.randint(1, longest)
    op = TfIdfVectorizer(
        max_gram_length=longest, min_gram_length=least, max_skip_count=draw.randint(0, 2),
        mode=draw.choice(["TF", "IDF", "TFIDF"]), ngram_counts=tuple(counts), ngram_indexes=columns,
        weights=draw.choice([None, tuple(draw.uniform(0.5, 2) for _ in columns)]),
        **{"pool_strings" if is_text else "pool_int64s": tuple(pool)},
    )  # fmt: skip
    for shape in ((0,), (7,), (40,), (3, 6), (0, 2), (2, 0)):
        data = np.array(
            draw.choices([*alphabet, "z" if is_text else 9], k=int(np.prod(shape))), object if is_text else np.int64
        )
        check(op, [None], data.reshape(shape))


@pytest.mark.parametrize("pattern", ["[a-z]+", "[A-Za-z0-9_]+", "[abc]+", "[0-9x]+", "[a-cX-Z_]+"])
@pytest.mark.parametrize("least", [1, 2])
def test_plain_letters_are_found_as_by_our_own_search(pattern: str, least: int) -> None:
    draw, searcher = random.Random(7), compile_search(pattern)
    op = Tokenizer(mark=0, mincharnum=least, pad_value="#", tokenexp=pattern)
    letters = "abczXYZ_019 -ßéσ\n\0ﬁ"
    for _ in range(50):
        text = "".join(draw.choices(letters, k=draw.randint(0, 30)))
        expected = [text[a:b] for a, b in searcher.matches(text) if b - a >= least]
        assert op.reference(np.array([text], object)).tolist() == [expected]


@pytest.mark.parametrize("mark", [0, 1])
@pytest.mark.parametrize(
    "options", [{"separators": (" ",)}, {"tokenexp": "."}, {"tokenexp": "[a-z]+"}, {"tokenexp": "[a-z]"}]
)
def test_tokens(mark: int, options: dict[str, Any]) -> None:
    op = Tokenizer(mark=mark, mincharnum=1, pad_value="#", **options)
    for shape in ((0,), (1,), (3,), (2, 2), (2, 0)):
        check(op, [None], texts(random.Random(3), *shape))


@pytest.mark.parametrize("shape", [[-1], [2, -1], [-1, 3], [6], [0, -1], [3, 2, 1], [-1, -1], [4, -1], []])
def test_shapes(shape: list[int]) -> None:
    for given in ((6,), (2, 3), (0, 3), (1,), ()):
        check(Reshape(), [None, np.array(shape, np.int64)], np.arange(np.prod(given)).reshape(given))


@pytest.mark.parametrize("default", [None, [-1]])
def test_labels(default: Any) -> None:
    keys, values = np.array(["red", "Green"], object), np.array([4, 9])
    for data in (np.array([["red", "Green"]], object), np.array(["red", "none"], object), np.array([], object)):
        check(Lookup(), [None, keys, values, *([] if default is None else [np.array(default)])], data)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gathered(axis: int) -> None:
    data, indices = np.arange(6).reshape(2, 3), np.array([1, -1])
    check(Gather(axis=axis), [None, indices], data)
    check(Gather(axis=axis), [data, None], indices)
    check(Gather(axis=axis), [data, None], np.array([7]))
