"""Parts of values, judged by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import intaglio
from intaglio import ops
from intaglio.errors import GraphError, InputError, IntaglioError

X = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)


def part(index: Any, type: str = "float32[2, 3, 4]", engine: str = "reference") -> Any:
    with intaglio.build("parts", inputs={"x": type}) as g:
        g.output(ops.Identity(g["x"][index]))
    return g.model(engine=engine)(X)


INDICES: dict[str, Any] = {
    "number": 1,
    "negative": -1,
    "slice": slice(1, None),
    "stop": slice(None, -1),
    "step": (slice(None), slice(None, None, 2)),
    "reversed": (slice(None), slice(None), slice(None, None, -1)),
    "reversed part": (slice(None), slice(2, 0, -1)),
    "far": (slice(None), slice(-100, 100)),
    "empty": (slice(None), slice(2, 1)),
    "ellipsis": (..., -1),
    "ellipsis alone": ...,
    "ellipsis of nothing": (0, ..., 1, 2),
    "new axis": (None, slice(None), None, 1),
    "new axis behind": (..., None),
    "new axis and number": (1, None, slice(1, 3), None),
    "all numbers": (1, 2, 3),
    "numpy number": np.int64(1),
    "list": [1, 0, 1],
    "list behind": (slice(None), slice(1, 3), [3, 3, -4]),
    "table": (slice(None), np.array([[0, 1], [2, 0]])),
    "nothing": (),
}


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("type", ["float32[2, 3, 4]", "float32[A, B, C]"])
def test_parts_are_those_of_numpy(name: str, type: str) -> None:
    np.testing.assert_array_equal(part(INDICES[name], type), X[INDICES[name]])


def test_parts_are_compiled() -> None:
    with intaglio.build("parts", inputs={"x": "float32[A, B, C]"}) as g:
        x = g["x"]
        g.output(ops.Identity(x[:, 1:, ::-2] * 2 + x[:, :1, 1::2]), ops.Identity(x[0, ..., None]))
    first, second = g.model(engine="native", strict=True)(X)
    np.testing.assert_array_equal(first, X[:, 1:, ::-2] * 2 + X[:, :1, 1::2])
    np.testing.assert_array_equal(second, X[0, ..., None])


def test_values_may_be_bounds_and_places() -> None:
    with intaglio.build("parts", inputs={"x": "float32[A, B, C]", "i": "int32[]", "n": "int64[1]"}) as g:
        x, i, n = g["x"], g["i"], g["n"]
        g.output(ops.Identity(x[:, i:, : n + 1]), ops.Identity(x[..., i]), ops.Identity(x[:, n]))
    bounded, placed, listed = g.model(engine="reference")(X, np.int32(1), np.array([2]))
    np.testing.assert_array_equal(bounded, X[:, 1:, :3])
    np.testing.assert_array_equal(placed, X[..., 1])
    np.testing.assert_array_equal(listed, X[:, [2]])


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ((0, 0, 0, 0), "4 indices for .* which has 3 axes"),
        ((..., 0, ...), "at most one ellipsis"),
        (2, "the index 2 is out of range for axis 0"),
        ((slice(None), -4), "the index -4 is out of range for axis 1"),
        (1.0, "is a float, expected numbers"),
        (True, "is a bool, expected numbers"),
        ("a", "is a str, expected numbers"),
        (slice(None, None, 0), "step of a slice is 0"),
        (slice(1.5, None), "given a float, expected whole numbers"),
        (([0, 1], [1, 2]), "index in two steps"),
        ((0, slice(None), [1, 2]), "index in two steps"),
    ],
)
def test_what_is_no_index(index: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        part(index)


def test_places_of_open_sizes_are_checked_in_the_run() -> None:
    with pytest.raises(IntaglioError, match="out of range"):
        part(5, "float32[A, B, C]")


def test_values_are_not_gone_through() -> None:
    with intaglio.build("parts", inputs={"x": "float32[3]"}) as g:
        value: Any = g["x"]
        with pytest.raises(TypeError, match="not iterable"):
            list(value)
        with pytest.raises(TypeError):
            _ = 1 in value
        with pytest.raises(InputError, match="truth values"):
            _ = value[value > 0]
    with pytest.raises(GraphError, match="active builder"):
        _ = value[1:]
