"""Words that must not come again, compiled, against the reference and ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import parser

import intaglio
from intaglio.errors import IntaglioError

RNG = np.random.default_rng(8)
HEADER = '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>'


def model(count: int) -> Any:
    text = f"y = com.microsoft.NGramRepeatBlock<ngram_size={count}>(words, scores)"
    return parser.parse_model(f"{HEADER} agraph (int64[a,l] words, float[b,v] scores) => (float[b,v] y) {{ {text} }}")


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_repeats(count: int) -> None:
    native = intaglio.load(model(count), engine="native", strict=True)
    reference = intaglio.load(model(count), engine="reference")
    session = onnxruntime.InferenceSession(model(count).SerializeToString(), providers=["CPUExecutionProvider"])
    blocked = 0
    for rows, length, words in [(2, 7, 5), (3, 1, 4), (1, 40, 3), (2, 2, 6), (9, 300, 4), (2, 0, 3), (0, 4, 3)]:
        text, scores = RNG.integers(0, words, (rows, length)), RNG.random((rows, words), np.float32)
        scores[:, :1] = np.nan
        found = native(text, scores)
        np.testing.assert_array_equal(found, reference(text, scores))
        blocked += np.isneginf(found).sum()
        if rows and length >= count:
            np.testing.assert_array_equal(found, session.run(None, {"words": text, "scores": scores})[0])
    assert blocked > 0


@pytest.mark.parametrize("word", [5, -1, 2**40])
def test_words_without_a_score(word: int) -> None:
    native = intaglio.load(model(1), engine="native", strict=True)
    with pytest.raises(IntaglioError, match=f"NGramRepeatBlock.*the word {word} has no score: expected 0 to 4"):
        native(np.array([[1, word]]), np.zeros((1, 5), np.float32))


def test_rows_that_do_not_fit() -> None:
    native = intaglio.load(model(1), engine="native", strict=True)
    with pytest.raises(IntaglioError, match=r"NGramRepeatBlock.*rows of words and of scores: 2 and 1 differ"):
        native(np.zeros((2, 3), np.int64), np.zeros((1, 5), np.float32))
    with pytest.raises(IntaglioError, match="ngram_size is 0, it must be at least 1"):
        intaglio.load(model(0))
