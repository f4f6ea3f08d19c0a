"""com.microsoft's Tokenizer, judged by ONNX Runtime, and searches for regular expressions."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest

import intaglio
from intaglio.errors import LimitError, ShapeError
from intaglio.ops.shared import regex_search
from intaglio.ops.shared.regex_search import compile_search
from intaglio.ops.tokenizer import Tokenizer

from ..conftest import node_model, run_runtime

TEXTS = ["Hello World", "I love  computer science !", "", "a,b;,c", "éa ab\ncd éé", "aabab bab", "x_1 yé2 "]
ATOMS = ["a", "b", "é", " ", ",", "[a-z]", "[^a]", r"\w", r"\s", ".", r"\d", "ab", "(a|ab)", "(b|,|ba)", "[,; ]"]
PLACES = [r"\b", "^", "$", r"\B"]


def options(rng: random.Random) -> dict[str, Any]:
    """Random attributes: expressions of atoms, repetitions, choices and places."""
    chosen: dict[str, Any] = {"mark": rng.randint(0, 1), "mincharnum": rng.choice([1, 1, 2, 3]), "pad_value": "#"}
    if rng.random() < 0.5:
        return {**chosen, "tokenexp": expression(rng)}
    return {**chosen, "separators": [expression(rng) for _ in range(rng.randint(1, 3))]}


def expression(rng: random.Random, may_look: bool = True) -> str:
    parts = [rng.choice(ATOMS) + rng.choice(["", "", "+", "*", "?", "{1,2}"]) for _ in range(rng.randint(1, 2))]
    if may_look and rng.random() < 0.2:
        parts.insert(rng.randrange(len(parts) + 1), rng.choice(PLACES))
    text = "".join(parts)
    return f"{text}|{rng.choice(ATOMS)}" if rng.random() < 0.2 else text


def agree(texts: Any, **attributes: Any) -> None:
    x = np.array(texts, dtype=object)
    model = node_model("Tokenizer", [x], 1, {"": 21, "com.microsoft": 1}, "com.microsoft", True, **attributes)
    expected = run_runtime(model, {"x0": x})[0]
    for engine in ("reference", "native"):
        found = intaglio.load(model, engine=engine)(x)
        assert found.shape == expected.shape, attributes
        assert found.tolist() == expected.tolist(), attributes


@pytest.mark.parametrize("seed", range(60))
def test_random_expressions(seed: int) -> None:
    rng = random.Random(seed)
    attributes = options(rng)
    if attributes.get("tokenexp") == ".":
        attributes["mincharnum"] = 1
    agree(rng.sample(TEXTS, 4), **attributes)
    agree(np.array(rng.sample(TEXTS, 4), object).reshape(2, 2), **attributes)


@pytest.mark.parametrize("mark", [0, 1])
@pytest.mark.parametrize("how", [{"separators": [""]}, {"tokenexp": "."}], ids=str)
def test_letters(mark: int, how: dict[str, Any]) -> None:
    agree(TEXTS, mark=mark, mincharnum=1, pad_value="pad", **how)
    agree(["", ""], mark=mark, mincharnum=1, pad_value="pad", **how)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "what a token is"),
        ({"tokenexp": ""}, "what a token is"),
        ({"tokenexp": "(", "mincharnum": 1}, "pattern"),
        ({"separators": ("a", "[")}, "pattern"),
        ({"separators": ("",), "mincharnum": 2}, "each letter is a token"),
        ({"tokenexp": "a", "mincharnum": 0}, "at least 1"),
    ],
)
def test_what_is_refused(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        Tokenizer(**{"mark": 0, "mincharnum": 1, "pad_value": "", **attributes}).reference(np.array(["a"], object))


def test_no_texts_have_no_tokens() -> None:
    tokenizer = Tokenizer(mark=1, mincharnum=1, pad_value="", tokenexp="a")
    assert tokenizer.reference(np.empty((0,), object)).shape == (0, 0)
    assert tokenizer.reference(np.empty((2, 0), object)).shape == (2, 0, 0)


@pytest.mark.parametrize("seed", range(30))
def test_searches_find_the_first_and_longest(seed: int) -> None:
    rng = random.Random(seed)
    pattern = expression(rng, may_look=False)
    judge = re.compile(f"(?a){pattern}")
    text = "".join(rng.choice("ab é,;1_\n") for _ in range(20))
    found, place = [], 0
    while place <= len(text):
        ends = [end for end in range(place, len(text) + 1) if judge.fullmatch(text[place:end])]
        found += [(place, max(ends))] if ends else []
        place = max([place + 1, *ends])
    assert list(compile_search(pattern).matches(text)) == found


def test_a_search_that_never_ends_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex_search, "STEP_LIMIT", 10_000)
    with pytest.raises(LimitError, match="more than 10000 letters"):
        list(compile_search("a*b").matches("a" * 1000))


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex_search, "MEMORY_LIMIT", 3)
    text = "abcdefgh ijk lmnop"
    assert [text[a:b] for a, b in compile_search("[a-p]+").matches(text)] == text.split()
