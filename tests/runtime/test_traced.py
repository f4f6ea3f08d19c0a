"""Derivatives of Python functions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import intaglio
from intaglio import ops
from intaglio.errors import InputError

X, Y = (np.random.default_rng(3).standard_normal((4, 3)).astype(np.float32) for _ in range(2))


def product(x: Any, y: Any) -> Any:
    return ops.ReduceSum(x * x * y)


def steps(x: Any) -> Any:
    """The squares of the differences of neighbours."""
    difference = x[1:] - x[:-1]
    return ops.ReduceSum(difference * difference)


def test_gradients_by_all_arguments() -> None:
    by_x, by_y = intaglio.grad(product)(X, Y)
    np.testing.assert_allclose(by_x, 2 * X * Y, rtol=1e-6)
    np.testing.assert_allclose(by_y, X * X, rtol=1e-6)


def test_gradients_by_one_argument_of_a_partial_function_and_of_a_lambda() -> None:
    np.testing.assert_allclose(intaglio.grad(product, wrt="y")(X, Y), X * X, rtol=1e-6)
    np.testing.assert_allclose(intaglio.grad(partial(product, y=Y))(X), 2 * X * Y, rtol=1e-6)
    np.testing.assert_allclose(intaglio.grad(lambda x: ops.ReduceSum(ops.Exp(x)))(X), np.exp(X), rtol=1e-6)


def test_gradients_of_slices() -> None:
    expected = np.zeros_like(X)
    expected[1:] += 2 * (X[1:] - X[:-1])
    expected[:-1] -= 2 * (X[1:] - X[:-1])
    value, gradient = intaglio.value_and_grad(steps)(X)
    np.testing.assert_allclose(value, np.square(X[1:] - X[:-1]).sum(), rtol=1e-5)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)


def test_the_other_derivatives() -> None:
    np.testing.assert_allclose(intaglio.jacobian(lambda x: x * x)(X[0]), np.diag(2 * X[0]), rtol=1e-6)
    np.testing.assert_allclose(intaglio.jvp(ops_exp)(X, Y), np.exp(X) * Y, rtol=1e-6)
    np.testing.assert_allclose(intaglio.vjp(ops_exp)(X, Y), np.exp(X) * Y, rtol=1e-6)
    cubes = intaglio.hessian_vector_product(lambda x: ops.ReduceSum(x * x * x))
    np.testing.assert_allclose(cubes(X, Y), 6 * X * Y, rtol=1e-5)


def ops_exp(x: Any) -> Any:
    return ops.Exp(x)


def test_a_model_is_made_once_for_each_type() -> None:
    calls: list[str] = []

    def traced(x: Any) -> Any:
        calls.append(str(x.type))
        return ops.ReduceSum(x * x)

    gradient = intaglio.grad(traced, engine="reference")
    for array in (X, X + 1, X[:2], X.astype(np.float64)):
        result = gradient(array)
        np.testing.assert_allclose(result, 2 * array, rtol=1e-6)
        assert result.dtype == array.dtype
    assert calls == ["float32[4, 3]", "float32[2, 3]", "float64[4, 3]"]
    assert gradient.model(X).options.engine == "reference"
    assert repr(gradient) == "<derivative of traced(x)>"
    assert gradient.__name__ == "traced"


def test_what_cannot_be_traced() -> None:
    with pytest.raises(InputError, match="product takes 2 arrays, got 1"):
        intaglio.grad(product)(X)
    with pytest.raises(InputError, match="returned a tuple, expected one value"):
        intaglio.grad(lambda x: (x, x))(X)
    with pytest.raises(InputError, match="rest"):
        intaglio.grad(lambda *rest: rest[0])
    with pytest.raises(InputError, match="load was given a type"):
        intaglio.grad(dict)
