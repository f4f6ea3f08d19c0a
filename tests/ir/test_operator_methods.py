"""What type checkers see of `Builder` is what it has."""

from __future__ import annotations

import ast

from intaglio.ir.build import Builder
from intaglio.ir.graph import Graph
from intaglio.ir.op import OPERATORS

from .operator_methods import PATH, ours, stub


def test_the_typed_face_of_the_builder_is_that_of_the_table() -> None:
    assert PATH.read_text() == stub(), "run `python -m tests.ir.operator_methods`"


def test_every_operator_is_a_method() -> None:
    (methods,) = (node for node in ast.parse(stub()).body if isinstance(node, ast.ClassDef))
    names = {node.name for node in methods.body if isinstance(node, ast.FunctionDef)}
    assert names == {name for (domain, name), operator in OPERATORS.items() if not domain and ours(operator)}
    builder = Builder(Graph("g"))
    assert all(callable(getattr(builder, name)) for name in names)
    assert not hasattr(builder, "NoSuchOperator")
