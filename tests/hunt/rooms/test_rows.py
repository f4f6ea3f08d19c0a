"""A fixed part of the hunt among rows."""

from __future__ import annotations

import numpy as np
import pytest

from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType

from . import rows


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_do_not_mix_do_not(seed: int) -> None:
    seen = rows.look(seed, 4, lambda phase: None)
    assert seen.cases > 30
    assert seen.verdict.judges["mixed"] > 20
    assert not seen.verdict.findings, "\n".join(map(str, seen.verdict.findings[:3]))


def test_a_wrong_claim_is_found() -> None:
    graph = Graph()
    x = graph.add_input("x", TensorType(FLOAT32, (symbol("n"), 3)))
    graph.set_outputs([Builder(graph).CumSum(x, Builder(graph).constant(0))])
    assert "give something else" in rows.mixing(graph, {graph.outputs[0]: 0}, np.random.default_rng(0))
