"""Operators on strings, and their regular expressions."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intaglio.errors import IntaglioError, LimitError, OperatorError, ShapeError, UnsupportedError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32, STRING
from intaglio.ir.graph import Graph
from intaglio.ir.op import OPERATORS
from intaglio.ir.types import TensorType
from intaglio.ops.shared.regex import compile_pattern


def texts(*items):
    return np.array(items, object)


def reference(name, *arrays, **attributes):
    return OPERATORS[("", name)](**attributes).reference(*arrays)


def test_string_concat_agrees_with_runtime(agree):
    agree("StringConcat", texts("a", "é"), texts("b", ""))
    agree("StringConcat", texts("a", "b").reshape(2, 1), texts("x", "y", "z").reshape(1, 3))
    agree("StringConcat", np.array("a", object), np.array("b", object))


def test_strings_do_not_grow_without_end():
    word = texts("a" * 2**25)
    double = reference("StringConcat", word, word)
    with pytest.raises(LimitError, match="characters is over the limit"):
        reference("StringConcat", double, texts("b"))


@pytest.mark.parametrize("action", ["NONE", "LOWER", "UPPER"])
@pytest.mark.parametrize("sensitive", [0, 1])
def test_string_normalizer_agrees_with_runtime(agree, action, sensitive):
    words = texts("Monday", "tuesday", "Friday")
    options = {"case_change_action": action, "is_case_sensitive": sensitive, "stopwords": ["monday", "Friday"]}
    (row,) = agree("StringNormalizer", words, locale="C", **options)
    options["stopwords"] = tuple(options["stopwords"])
    assert reference("StringNormalizer", words.reshape(1, 3), **options).tolist() == [row.tolist()]


def test_string_normalizer_without_words(agree):
    agree("StringNormalizer", texts("a", "a"), is_case_sensitive=1, stopwords=["a"])
    agree("StringNormalizer", texts("a", "b"))
    with pytest.raises(OperatorError, match=r"expected \[C\] or \[1, C\]"):
        reference("StringNormalizer", texts("a", "b").reshape(2, 1))


@pytest.mark.parametrize(
    ("delimiter", "maxsplit"), [(None, None), ("", None), (",", None), (",", 1), (None, 1), ("ab", None), (",", 0)]
)
def test_string_split_agrees_with_runtime(agree, delimiter, maxsplit):
    words = texts("a,b,c", " a  b c ", "", ",x,,", "zabyab", "one").reshape(2, 3)
    options = {"delimiter": delimiter, "maxsplit": maxsplit}
    agree("StringSplit", words, outputs=2, **{k: v for k, v in options.items() if v is not None})


def test_string_split_of_nothing():
    parts, counts = reference("StringSplit", np.zeros((0, 2), object))
    assert parts.shape == (0, 2, 0)
    assert counts.shape == (0, 2)


PATTERNS = [
    "",
    "abc",
    "a*b+c?",
    "(a|b)*abb",
    "[a-c]{2,3}",
    "[^a-c]+",
    r"\d{3}-\d{4}",
    r"\w+@[\w.]+\.(com|org)",
    "a.c",
    "(?s)a.c",
    "(?i)aBc",
    "^abc$",
    r"\babc\b",
    "(?:ab)+",
    "a{0}b",
    "a{2}",
    "a{2,}",
    "[]a]+",
    "[a-]+",
    r"[\d\-x]+",
    r"\x41\x{42}",
    "[[:alpha:]]+",
    r"\Qa.c\E",
    "(?P<name>a)b",
    "a|",
    r"\pL+",
    "x*?y",
]
SUBJECTS = ["", "abc", "aabbc", "b", "abb", "ababb", "ccc", "xyz", "555-1234", "me@x.org", "a\nc", "ABC", "aa", "aaa"]
SUBJECTS += ["a-a", "]a", "AB", "a.c", "ab", "12-x", "é", "éa", "xxy", "a{2}"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_regex_agrees_with_runtime(agree, pattern):
    agree("RegexFullMatch", texts(*SUBJECTS), pattern=pattern)


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "a**", "*a", "[a", "[b-a]", "a{2000}", r"\y", r"(?=a)", r"(a)\1", "(?z)a", "[[:nope:]]", "a{3,2}"],
)
def test_wrong_patterns_are_refused(pattern):
    with pytest.raises(ShapeError, match="is wrong at"):
        compile_pattern(pattern)


def test_hostile_patterns_are_bounded():
    with pytest.raises(LimitError, match="states"):
        compile_pattern("((a{500}){500}){500}")
    with pytest.raises(LimitError, match="deep"):
        compile_pattern("(" * 5000 + ")" * 5000)
    with pytest.raises(UnsupportedError, match="Greek"):
        compile_pattern(r"\p{Greek}")
    assert not compile_pattern("(a*)*(a|aa)+b").matches("a" * 2000)  # by backtracking it would never end


PIECES = st.sampled_from(["a", "b", ".", "(a|b)", "[ab]", "[^a]", "(ab)"])
SIGNS = st.sampled_from(["", "*", "+", "?", "{2}", "{1,2}"])


@given(st.lists(st.tuples(PIECES, SIGNS), max_size=4), st.text("abc", max_size=6))
def test_regex_matches_as_python_does(parts, text):
    pattern = "".join(piece + sign for piece, sign in parts)
    assert compile_pattern(pattern).matches(text) == bool(re.fullmatch(pattern, text))


@given(st.text(r"ab()[]{}*+?|^$\.-,:=!<>Pdx0123", max_size=12))
def test_any_text_as_a_pattern_compiles_or_is_refused(pattern):
    try:
        matcher = compile_pattern(pattern)
    except IntaglioError:
        return
    assert matcher.matches("ab") in (True, False)


VECTORIZERS = [
    {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, "mode": "TF"},
    {"min_gram_length": 2, "max_gram_length": 2, "max_skip_count": 1, "mode": "TF"},
    {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 5, "mode": "TF"},
    {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 5, "mode": "IDF"},
    {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 5, "mode": "TFIDF"},
]


@pytest.mark.parametrize("options", VECTORIZERS)
@pytest.mark.parametrize("shape", [(12,), (2, 6)])
@pytest.mark.parametrize("weights", [None, [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5]])
def test_tf_idf_vectorizer_agrees_with_runtime(agree, options, shape, weights):
    data = np.array([1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8], np.int64).reshape(shape)
    pool = {
        "ngram_counts": [0, 4],
        "ngram_indexes": [0, 1, 2, 3, 4, 5, 6],
        "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
    }
    agree("TfIdfVectorizer", data, **options, **pool, **({} if weights is None else {"weights": weights}))


def test_tf_idf_vectorizer_of_words(agree):
    words = texts("the", "cat", "sat", "the", "cat")
    pool = {"ngram_counts": [0, 2], "ngram_indexes": [2, 0, 1], "pool_strings": ["cat", "dog", "the", "cat"]}
    agree("TfIdfVectorizer", words, min_gram_length=1, max_gram_length=2, max_skip_count=0, mode="TF", **pool)


def test_strings_are_needed():
    b = Builder(Graph())
    x = b.graph.add_input("x", TensorType(FLOAT32, (2,)))
    with pytest.raises(ShapeError, match="expected string"):
        b.StringConcat(x, x)
    words = b.graph.add_input("w", TensorType(STRING, (2,)))
    with pytest.raises(ShapeError, match="the pool holds numbers"):
        b.TfIdfVectorizer(
            words,
            min_gram_length=1,
            max_gram_length=1,
            max_skip_count=0,
            mode="TF",
            ngram_counts=(0,),
            ngram_indexes=(0,),
            pool_int64s=(1,),
        )
