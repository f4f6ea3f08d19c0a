"""What operators say of themselves, against what they do: nothing declared is wrong, and nothing is missing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from intaglio.errors import IntaglioError
from intaglio.ir.graph import Node
from intaglio.ir.op import ALL_OPERANDS, OPERATORS, Op, Work
from intaglio.kernels.elementwise import TRANSLATIONS
from intaglio.kernels.views import VIEWS
from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate

from .matrix import cells, problem_of, versions

CHOOSING_BY_COMPARISON = {
    "Clip", "Max", "Min", "Relu", "ReduceMax", "ReduceMin", "TopK", "ThresholdedRelu", "GlobalMaxPool", "Shrink", "Abs",
    "LeakyRelu", "PRelu", "Hardmax", "MaxRoiPool", "Unique",
}  # fmt: skip
"""Operators that look at elements before they take some of them."""
IN_THE_SAMPLE = {
    "Cast": "to another type it converts",
    "CastLike": "to another type it converts",
    "Dropout": "in training it scales",
    "Optional": "it makes what is no tensor",
    "OptionalGetElement": "it takes what is no tensor apart",
    "Resize": "in other modes it computes means",
}
"""Operators that do more than move with other attributes than those of the sample."""


@cache
def sample(name: str) -> tuple[Node, list[Any], list[Any]]:
    """The node of an operator in its newest version, with arrays that it reads and gives."""
    for cell in cells("", name):
        problem = problem_of(cell)
        try:
            graph = read_model(problem.model).graph
            results = evaluate(graph, [problem.feeds[value.name] for value in graph.inputs])
        except IntaglioError:
            continue
        for node in graph.nodes:
            if node.op.name == name and all(value in graph.outputs for value in node.outputs):
                known = {value.name: problem.feeds[value.name] for value in graph.inputs}
                operands = [None if v is None else known.get(v.name, v.constant) for v in node.inputs]
                return node, operands, [results[graph.outputs.index(value)] for value in node.outputs]
    pytest.skip("it is written in other operators when it is read, or gives no tensor")


NAMES = sorted(name for domain, name in versions() if not domain and ("", name) in OPERATORS)


def declared(fact: Callable[[type[Op]], object]) -> list[str]:
    return [name for name in NAMES if fact(OPERATORS["", name])]


def elements(arrays: list[Any]) -> set[bytes]:
    return {item.tobytes() for array in arrays if isinstance(array, np.ndarray) for item in array.ravel()}


@pytest.mark.parametrize("name", declared(lambda op: op.chooses_from))
def test_what_chooses_gives_elements_of_these_operands(name: str) -> None:
    node, operands, results = sample(name)
    assert elements(results[:1]) <= elements(operands[: node.op.chooses_from])


@pytest.mark.parametrize("name", declared(lambda op: op.keeps_order))
def test_what_keeps_the_order_gives_the_data(name: str) -> None:
    _, operands, results = sample(name)
    np.testing.assert_array_equal(results[0].ravel(), operands[0].ravel())


def is_float(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype == np.float32


@pytest.mark.parametrize("name", NAMES)
def test_what_only_rearranges_the_data_says_so(name: str) -> None:
    node, operands, results = sample(name)
    data = operands[0] if operands else None
    if data is None or not all(is_float(array) for array in (data, results[0])):
        return
    if node.op.is_random or data.size < 4 or not results[0].size or not elements(results[:1]) <= elements([data]):
        return
    is_known = node.op.moves_only or node.op.chooses_from or name in CHOOSING_BY_COMPARISON or name in IN_THE_SAMPLE
    assert is_known, f"{name} gives elements of its first operand: does it move or choose?"


@pytest.mark.parametrize("name", declared(lambda op: op.is_elementwise))
def test_elementwise_operators_have_results_of_the_size_that_broadcasting_gives(name: str) -> None:
    node, operands, results = sample(name)
    shapes = [operand.shape for operand in operands if operand is not None]
    expected = shapes[0] if name in ("CastLike", "BitCast", "QuantizeLinear", "Clip") else np.broadcast_shapes(*shapes)
    assert node.op.is_elementwise
    assert results[0].shape == expected


def test_facts_do_not_contradict_each_other() -> None:
    for operator in OPERATORS.values():
        assert not operator.is_exact or operator.is_elementwise
        assert not operator.is_cheap or operator.is_elementwise
        assert not operator.keeps_order or (operator.is_view and operator.chooses_from == 1)
        assert not operator.is_view or operator.moves_only
        assert operator.number_operand is None or operator.moves_only
        assert operator.chooses_from in (0, 1, ALL_OPERANDS)
        assert isinstance(operator.work, Work)


def test_kernels_and_facts_agree() -> None:
    assert {name for name in TRANSLATIONS if not OPERATORS["", name].is_elementwise} == set()
    assert {name for name in VIEWS if not name.startswith("Reduce")} == set(declared(lambda op: op.is_view))
    composite = set(declared(lambda op: op.is_elementwise)) - TRANSLATIONS.keys()
    assert all(OPERATORS["", name].has("expand") for name in composite)
