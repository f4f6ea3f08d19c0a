"""Einsum against ONNX Runtime and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from intaglio.errors import ShapeError
from intaglio.ir.build import Builder, reference_by_expansion
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.ops.einsum import Einsum
from intaglio.runtime.model.loading import load

CASES: dict[str, tuple[tuple[int, ...], ...]] = {
    "ij,jk->ik": ((2, 3), (3, 4)),
    "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)),
    "ij->ji": ((2, 3),),
    "ij->": ((2, 3),),
    "ij,j": ((2, 3), (3,)),
    " i , j -> i j ": ((2,), (3,)),
    "bhqd,bhkd->bhqk": ((1, 2, 3, 4), (1, 2, 5, 4)),
    "ab,bc,cd->ad": ((2, 3), (3, 4), (4, 5)),
    "a...b->b...a": ((2, 3, 4),),
    "...ij,...jk": ((2, 1, 3, 4), (2, 5, 4, 2)),
    "ij,ij->": ((2, 3), (2, 3)),
    "bqhd,bkhd->bhqk": ((1, 3, 2, 4), (1, 5, 2, 4)),
    "ijk,kl": ((2, 3, 4), (4, 5)),
    "aB,Bc": ((2, 3), (3, 4)),
    "abcd,cdef->abef": ((2, 3, 4, 5), (4, 5, 2, 3)),
    "ij,kl->il": ((2, 3), (4, 5)),
    "bi,bi->b": ((2, 3), (2, 3)),
}
DIAGONALS = {"ii->i": ((3, 3),), "ii": ((3, 3),), "...ii->...i": ((2, 3, 3),), "ij,jj->i": ((2, 3), (3, 3))}


def operands(shapes: tuple[tuple[int, ...], ...], dtype: Any = np.float32) -> list[Any]:
    generator = np.random.default_rng(2)
    return [generator.integers(-4, 5, shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("equation", CASES | DIAGONALS)
def test_equation(agree: Any, equation: str) -> None:
    agree("Einsum", *operands((CASES | DIAGONALS)[equation]), equation=equation)


@pytest.mark.parametrize("equation", CASES | DIAGONALS)
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, np.int16])
def test_expansion(equation: str, dtype: Any) -> None:
    arrays = operands((CASES | DIAGONALS)[equation], dtype)
    op = Einsum(equation=equation)
    expected = op.reference(*arrays)
    result = reference_by_expansion(op, arrays)
    assert expected.dtype == result.dtype == dtype
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(expected, np.einsum(equation.replace(" ", ""), *arrays))


@pytest.mark.parametrize("is_symbolic", [False, True])
def test_sampled_equations_with_empty_axes(is_symbolic: bool) -> None:
    """One to three operands with axes of 0 and 1 that are kept, summed or contracted, compiled and not."""
    random, nodes, infos, feed, expected = np.random.default_rng(6), [], [], dict[str, Any](), list[Any]()
    for index in range(30):
        letters = "abcde"[: int(random.integers(2, 6))]
        sizes = {letter: int(random.choice([0, 0, 1, 2, 3])) for letter in letters}
        terms = ["".join(random.permutation(list(letters))[: int(random.integers(1, 6))]) for _ in range(index % 3 + 1)]
        used = sorted(set("".join(terms)))
        equation = f"{','.join(terms)}->{''.join(random.permutation(used)[: int(random.integers(0, len(used) + 1))])}"
        names = [f"x{index}_{place}" for place in range(len(terms))]
        arrays = [random.integers(-3, 4, [sizes[letter] for letter in term]).astype(np.float32) for term in terms]
        for name, term, array in zip(names, terms, arrays, strict=True):
            shape = [f"{letter}{index}" if is_symbolic else sizes[letter] for letter in term]
            infos.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
            feed[name] = array
        nodes.append(helper.make_node("Einsum", names, [f"y{index}"], equation=equation))
        expected.append((equation, np.einsum(equation, *arrays)))
    outputs = [helper.make_tensor_value_info(f"y{index}", TensorProto.FLOAT, None) for index in range(len(nodes))]
    graph = helper.make_graph(nodes, "equations", infos, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for engine in ("reference", "native"):
        results = load(model, engine=engine).run(feed)
        for (equation, wanted), result in zip(expected, results.values(), strict=True):
            np.testing.assert_array_equal(result, wanted, equation)


def test_diagonal_ignores_what_is_beside_it() -> None:
    x = np.where(np.eye(3) == 1, 2, np.nan).astype(np.float32)
    assert reference_by_expansion(Einsum(equation="ii->i"), [x]).tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        ("ij", "1 terms for 2 operands"),
        ("ij,jk->il", "'l' that no operand has"),
        ("ij,jk->ii", "twice"),
        ("ijk,jk", "names 3 axes, the operand has 2"),
        ("i1,jk", "must be letters"),
        ("......,jk", "must be letters"),
        ("ij,ik->jk", "'i'"),
        ("ij,jk->->ik", "must be letters"),
    ],
)
def test_wrong_equations(equation: str, message: str) -> None:
    b = Builder(Graph())
    x, y = (b.graph.add_input("x", TensorType(FLOAT32, shape)) for shape in ((2, 3), (3, 4)))
    with pytest.raises(ShapeError, match=message):
        b.Einsum(x, y, equation=equation)
