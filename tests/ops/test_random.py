"""Random operators: types, distributions and seeds."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from intaglio.errors import LimitError, OperatorError, ShapeError
from intaglio.ir import dim
from intaglio.ir.build import infer_types
from intaglio.ir.dtype import BOOL, FLOAT16, FLOAT32, FLOAT64, INT32, INT64
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.random import (
    Bernoulli,
    Multinomial,
    RandomNormal,
    RandomNormalLike,
    RandomUniform,
    RandomUniformLike,
)

EXAMPLE = np.zeros((500, 20), np.float32)


def infer(op, *types):
    graph = Graph("test")
    return infer_types(op, [graph.add_input("x", type) for type in types], 1, "y")[0]


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        (RandomNormal, {"shape": (500, 20)}),
        (RandomNormalLike, {}),
        (RandomUniform, {"shape": (500, 20)}),
        (RandomUniformLike, {}),
    ],
)
def test_a_seed_repeats_the_numbers(op, inputs):
    arguments = [] if "shape" in inputs else [EXAMPLE]
    first = op(seed=1.5, **inputs).reference(*arguments)
    np.testing.assert_array_equal(first, op(seed=1.5, **inputs).reference(*arguments))
    assert (first != op(seed=1.25, **inputs).reference(*arguments)).any()
    assert (op(**inputs).reference(*arguments) != op(**inputs).reference(*arguments)).any()
    assert first.shape == (500, 20)
    assert first.dtype == np.float32
    assert op.is_random


def test_distributions():
    normal = RandomNormal(shape=(100, 100), mean=3.0, scale=2.0, seed=0.0, dtype=11).reference()
    assert normal.dtype == np.float64
    assert abs(normal.mean() - 3) < 0.1
    assert abs(normal.std() - 2) < 0.1
    uniform = RandomUniformLike(low=-1.0, high=4.0, seed=0.0).reference(EXAMPLE.astype(ml_dtypes.bfloat16))
    assert uniform.dtype == ml_dtypes.bfloat16
    numbers = uniform.astype(np.float32)
    assert numbers.min() >= -1
    assert numbers.max() <= 4
    assert abs(numbers.mean() - 1.5) < 0.1


def test_bernoulli_follows_the_probability():
    chance = np.full((100, 100), 0.25)
    drawn = Bernoulli(seed=2.0).reference(chance)
    assert drawn.dtype == np.float64
    assert set(np.unique(drawn)) == {0, 1}
    assert abs(drawn.mean() - 0.25) < 0.02
    certain = Bernoulli(dtype=9).reference(np.array([0.0, 1.0], np.float32))
    assert certain.tolist() == [False, True]


def test_multinomial_follows_the_weights():
    logarithms = np.log(np.array([[0.5, 0.25, 0.25, 0], [1e-30, 0, 0, 3]], np.float32) + 1e-37)
    drawn = Multinomial(sample_size=4000, seed=1.0, dtype=7).reference(logarithms)
    assert drawn.shape == (2, 4000)
    assert drawn.dtype == np.int64
    shares = np.bincount(drawn[0], minlength=4) / 4000
    np.testing.assert_allclose(shares, [0.5, 0.25, 0.25, 0], atol=0.03)
    assert (drawn[1] == 3).all()


def test_types():
    n = dim.symbol("N")
    assert infer(RandomNormal(shape=(2, 0))) == TensorType(FLOAT32, (2, 0))
    assert infer(RandomUniformLike(dtype=11), TensorType(INT32, (n,))) == TensorType(FLOAT64, (n,))
    assert infer(Bernoulli(dtype=9), TensorType(FLOAT16, None)) == TensorType(BOOL, None)
    assert infer(Multinomial(sample_size=3, dtype=7), TensorType(FLOAT32, (n, 5))) == TensorType(INT64, (n, 3))


def test_wrong_attributes_are_refused():
    with pytest.raises(ShapeError, match="negative size"):
        infer(RandomNormal(shape=(-1,)))
    with pytest.raises(ShapeError, match="kind float, got int32"):
        infer(RandomUniformLike(), TensorType(INT32, ()))
    with pytest.raises(ShapeError, match="batch, classes"):
        infer(Multinomial(), TensorType(FLOAT32, (3,)))
    with pytest.raises(ShapeError, match="int32 or int64"):
        infer(Multinomial(dtype=1), TensorType(FLOAT32, (3, 3)))
    with pytest.raises(OperatorError, match="from 0 classes"):
        Multinomial().reference(np.zeros((2, 0), np.float32))
    with pytest.raises(LimitError, match="over the limit"):
        RandomNormal(shape=(2**31, 2**31)).reference()
