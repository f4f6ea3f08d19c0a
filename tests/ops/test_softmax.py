"""Softmax and its relatives against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from intaglio.errors import ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32, INT64
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.softmax import Hardmax, LogSoftmax, Softmax

NAMES = ["Softmax", "LogSoftmax", "Hardmax"]


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name", NAMES)
def test_axis(agree: Any, name: str, axis: int) -> None:
    agree(name, np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32), axis=axis)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("row", [[1e30, -1e30, np.inf], [-np.inf, 0, 1], [-np.inf] * 3, [3.0e38, 3.0e38, 0]])
def test_extreme_inputs(agree: Any, name: str, row: list[float]) -> None:
    agree(name, np.array([row], np.float32))


@pytest.mark.parametrize("name", NAMES)
def test_empty(agree: Any, name: str) -> None:
    assert agree(name, np.zeros((2, 0, 3), np.float32), axis=1)[0].shape == (2, 0, 3)


def test_first_maximum_wins() -> None:
    assert Hardmax().reference(np.array([1.0, 2.0, 2.0])).tolist() == [0, 1, 0]


@pytest.mark.parametrize("op", [Softmax(axis=0), LogSoftmax(axis=0), Hardmax(axis=0)])
def test_scalar_counts_as_one_element(op: Any) -> None:
    assert op.reference(np.array(5.0, np.float32)).tolist() == (0 if isinstance(op, LogSoftmax) else 1)


def test_wrong_axis_and_type() -> None:
    b = Builder(Graph())
    with pytest.raises(ShapeError, match="axis 2"):
        b.Softmax(b.graph.add_input("x", TensorType(FLOAT32, (2, 3))), axis=2)
    with pytest.raises(ShapeError, match="floating-point"):
        b.Softmax(b.graph.add_input("i", TensorType(INT64, (2, 3))))
