"""Matrix products against ONNX Runtime."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from intaglio.errors import ShapeError
from intaglio.ir import dim
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.linear import Gemm, MatMul

SHAPES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((5, 1, 2, 3), (6, 3, 4)),
    ((3,), (5, 3, 2)),
    ((5, 2, 3), (3,)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
]


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(3).integers(-5, 6, shape).astype(dtype)


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_matmul(agree: Any, left: tuple[int, ...], right: tuple[int, ...], dtype: Any) -> None:
    agree("MatMul", numbers(*left, dtype=dtype), numbers(*right, dtype=dtype))


def test_integers_wrap_around() -> None:
    big = np.array([[2**31]], np.uint32)
    assert MatMul().reference(big, np.array([[2]], np.uint32)).tolist() == [[0]]


GEMMS = list(product((0, 1), (0, 1), (None, (3,), (2, 1), (2, 3), (), (1,))))


@pytest.mark.parametrize(("trans_a", "trans_b", "c"), GEMMS)
def test_gemm(agree: Any, trans_a: int, trans_b: int, c: tuple[int, ...] | None) -> None:
    a, b = numbers(*((4, 2) if trans_a else (2, 4))), numbers(*((3, 4) if trans_b else (4, 3)))
    bias = None if c is None else numbers(*c)
    agree("Gemm", a, b, bias, transA=trans_a, transB=trans_b, alpha=0.5, beta=2.0)


def test_gemm_of_integers_casts_its_factors() -> None:
    a, b, c = numbers(2, 4, dtype=np.int32), numbers(4, 3, dtype=np.int32), numbers(3, dtype=np.int32)
    result = Gemm(alpha=2.0, beta=3.0).reference(a, b, c)
    assert result.dtype == np.int32
    assert (result == 2 * (a @ b) + 3 * c).all()


def test_gemm_ignores_c_where_beta_is_zero() -> None:
    c = np.full((2, 3), np.nan, np.float32)
    assert np.isfinite(Gemm(beta=0.0).reference(numbers(2, 4), numbers(4, 3), c)).all()


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [((2, 3), (4, 5), "3 and 4 differ"), ((), (3,), "rank 0"), ((2, 2, 3), (3, 3, 4), "2 and 3 cannot be broadcast")],
)
def test_wrong_shapes(left: tuple[int, ...], right: tuple[int, ...], message: str) -> None:
    b = Builder(Graph())
    a, c = (b.graph.add_input("x", TensorType(FLOAT32, shape)) for shape in (left, right))
    with pytest.raises(ShapeError, match=message):
        b.MatMul(a, c)


def test_gemm_bias_must_not_grow_the_product() -> None:
    b = Builder(Graph())
    a, c, bias = (b.graph.add_input("x", TensorType(FLOAT32, shape)) for shape in ((2, 3), (3, 1), (2, 5)))
    with pytest.raises(ShapeError, match="broadcast"):
        b.Gemm(a, c, bias)


def test_symbolic_sizes() -> None:
    b, n = Builder(Graph()), dim.symbol("N")
    a = b.graph.add_input("a", TensorType(FLOAT32, (n, 1, 4, 8)))
    c = b.graph.add_input("c", TensorType(FLOAT32, (3, 8, n)))
    assert b.MatMul(a, c).shape == (n, 3, 4, n)
