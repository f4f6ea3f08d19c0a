"""Losses against ONNX Runtime and ONNX's own evaluator."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir.build import Builder, reference_by_expansion
from intaglio.ir.dtype import FLOAT32, INT64
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.loss import NegativeLogLikelihoodLoss

CASES = list(product(("none", "sum", "mean"), (None, 1, -1), (False, True), ((4, 5), (4, 5, 3), (2, 5, 3, 2))))


def operands(shape: tuple[int, ...], has_weights: bool, ignore_index: int | None) -> list[Any]:
    generator = np.random.default_rng(11)
    labels = generator.integers(0, 5, (shape[0], *shape[2:]))
    if ignore_index is not None:
        labels.flat[0] = ignore_index
    scores = generator.standard_normal(shape).astype(np.float32)
    return [scores, labels, np.abs(generator.standard_normal(5)).astype(np.float32) if has_weights else None]


def options(reduction: str, ignore_index: int | None) -> dict[str, Any]:
    return {"reduction": reduction} | ({} if ignore_index is None else {"ignore_index": ignore_index})


@pytest.mark.parametrize(("reduction", "ignore_index", "has_weights", "shape"), CASES)
def test_cross_entropy(agree: Any, reduction: str, ignore_index: int | None, has_weights: bool, shape: Any) -> None:
    given = options(reduction, ignore_index)
    agree("SoftmaxCrossEntropyLoss", *operands(shape, has_weights, ignore_index), opset=13, outputs=2, **given)


@pytest.mark.parametrize(("reduction", "ignore_index", "has_weights", "shape"), CASES)
def test_log_likelihood(agree: Any, reduction: str, ignore_index: int | None, has_weights: bool, shape: Any) -> None:
    given, inputs = options(reduction, ignore_index), operands(shape, has_weights, ignore_index)
    (result,) = agree("NegativeLogLikelihoodLoss", *inputs, opset=13, **given)
    expanded = reference_by_expansion(NegativeLogLikelihoodLoss(**given), inputs)
    np.testing.assert_allclose(expanded, result, rtol=1e-5, atol=1e-6)


def test_label_out_of_range() -> None:
    for label in (5, -1):
        with pytest.raises(OperatorError, match=r"they must be in \[0, 4\]"):
            NegativeLogLikelihoodLoss().reference(np.zeros((1, 5), np.float32), np.array([label]))


def test_wrong_operands() -> None:
    b = Builder(Graph())
    scores = b.graph.add_input("x", TensorType(FLOAT32, (2, 5, 3)))
    labels = b.graph.add_input("l", TensorType(INT64, (2, 4)))
    with pytest.raises(ShapeError, match="3 and 4 differ"):
        b.NegativeLogLikelihoodLoss(scores, labels)
    with pytest.raises(ShapeError, match="reduction is 'max'"):
        b.SoftmaxCrossEntropyLoss(scores, labels, reduction="max")
    with pytest.raises(ShapeError, match="integer"):
        b.SoftmaxCrossEntropyLoss(scores, scores)
