"""What the backward pass computes anew: the same numbers with less memory, and only where that keeps nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import intaglio
from intaglio import ops
from intaglio.errors import InputError

CHANNELS, SIZE, BATCH = 4, 16, 2
PLANE = 4 * BATCH * CHANNELS * SIZE * SIZE
"""The bytes of what one layer gives."""


def network(layers: int) -> tuple[intaglio.ModelBuilder, list[str]]:
    """Convolutions, each with Mish behind it."""
    generator = np.random.default_rng(0)
    names = [f"w{i}" for i in range(layers)]
    with intaglio.build("network", inputs={"x": f"float32[B, {CHANNELS}, {SIZE}, {SIZE}]"}) as g:
        h: Any = g["x"]
        for name in names:
            w = generator.standard_normal((CHANNELS, CHANNELS, 3, 3)).astype(np.float32) / 5
            h = ops.Conv(h, g.constant(w, name), pads=[1, 1, 1, 1])
            h = h * ops.Tanh(ops.Softplus(h))
        g.output(loss=ops.ReduceMean(h * h, keepdims=0))
    return g, names


def planned(layers: int, recompute: str) -> int:
    g, names = network(layers)
    plan = intaglio.value_and_grad(g.graph, wrt=names, recompute=recompute).memory_plan(B=BATCH)
    return sum(plan.to_dict()["arenas"])


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_the_numbers_are_the_same(engine: str) -> None:
    g, names = network(3)
    x = np.random.default_rng(1).standard_normal((BATCH, CHANNELS, SIZE, SIZE)).astype(np.float32)
    models = [intaglio.value_and_grad(g.graph, wrt=names, recompute=how, engine=engine) for how in ("none", "all")]
    kept, again = (model(x) for model in models)
    for left, right in zip(kept, again, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-7)


def test_a_layer_keeps_one_array_instead_of_three() -> None:
    growth = {how: (planned(8, how) - planned(4, how)) / 4 for how in ("none", "all")}
    assert growth["none"] >= 3 * PLANE
    assert growth["all"] < 1.5 * PLANE


def test_a_chain_by_itself_is_one_kernel_that_keeps_nothing() -> None:
    """The Mish function of DaCeML's documents, forward and backward."""
    with intaglio.build("mish", inputs={"x": "float32[N]"}) as g:
        g.output(y=g["x"] * ops.Tanh(ops.Softplus(g["x"])))
    model = intaglio.vjp(g.graph)
    assert len(model.explain().to_dict()["calls"]) == 1
    assert sum(model.memory_plan(N=1000).to_dict()["arenas"]) == 0


def test_another_choice_is_refused() -> None:
    with pytest.raises(InputError, match="recompute is 'some', expected 'none' or 'all'"):
        intaglio.grad(network(1)[0].graph, recompute="some")
