"""What the backward pass computes anew: the same numbers with less memory, and only where that keeps nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

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


def planned(layers: int, recompute: Any) -> int:
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


def test_a_budget_keeps_what_fits_it() -> None:
    """Each layer has two planes that wait for the backward pass besides the one that is kept anyway.

    Planes are counted: the few bytes of the loss fit between them or not.
    """
    sizes = [planned(4, budget) for budget in (0, PLANE // BATCH, 3 * PLANE // BATCH, 100 * PLANE)]
    assert (sizes[0], sizes[3]) == (planned(4, "all"), planned(4, "none"))
    planes = [size // PLANE for size in sizes]
    assert planes == sorted(planes)
    assert planes[0] < planes[2] < planes[3]


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("budget", [0, PLANE // BATCH, 3 * PLANE // BATCH])
def test_a_budget_changes_no_numbers(budget: int, engine: str) -> None:
    g, names = network(3)
    x = np.random.default_rng(1).standard_normal((BATCH, CHANNELS, SIZE, SIZE)).astype(np.float32)
    models = [intaglio.value_and_grad(g.graph, wrt=names, recompute=how, engine=engine) for how in ("none", budget)]
    for left, right in zip(*(model(x) for model in models), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-7)


WIDTH, ROWS = 32, 64


def blocks(count: int) -> onnx.ModelProto:
    """Blocks of two products each, named as PyTorch names modules, and a loss."""
    rng = np.random.default_rng(2)
    nodes, weights, value = list[Any](), list[Any](), "x"
    for i in range(count):
        for j in range(2):
            name = f"w{i}_{j}"
            array = rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 6
            weights.append(numpy_helper.from_array(array, name))
            place = f"/net/block.{i}/linear{j}"
            nodes.append(helper.make_node("MatMul", [value, name], [f"p{i}_{j}"], name=f"{place}/MatMul"))
            nodes.append(helper.make_node("Softplus", [f"p{i}_{j}"], [f"s{i}_{j}"], name=f"{place}/Softplus"))
            nodes.append(helper.make_node("Tanh", [f"s{i}_{j}"], [f"t{i}_{j}"], name=f"{place}/Tanh"))
            value = f"t{i}_{j}"
    nodes.append(helper.make_node("ReduceSumSquare", [value], ["loss"], name="/loss", keepdims=0))
    x, loss = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [ROWS, WIDTH]), ("loss", []))
    )
    graph = helper.make_graph(nodes, "blocks", [x], [loss], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("names", [["net/block.*"], ["net/block.1", "net/block.2"], ["*/linear0"]])
def test_blocks_that_are_computed_anew_give_the_same_numbers(names: list[str], engine: str) -> None:
    wrt = [f"w{i}_{j}" for i in range(3) for j in range(2)]
    x = np.random.default_rng(3).standard_normal((ROWS, WIDTH)).astype(np.float32)
    models = [intaglio.value_and_grad(blocks(3), wrt=wrt, recompute=how, engine=engine) for how in ("none", names)]
    kept, again = (model(x) for model in models)
    for left, right in zip(kept, again, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)
    copies = [node for node in models[1].graph.nodes if node.is_recomputed]
    assert any(node.op.name == "MatMul" for node in copies)


def test_a_block_keeps_its_result_alone() -> None:
    def growth(how: Any) -> float:
        sizes = []
        for count in (4, 8):
            wrt = [f"w{i}_{j}" for i in range(count) for j in range(2)]
            plan = intaglio.value_and_grad(blocks(count), wrt=wrt, recompute=how).memory_plan()
            sizes.append(sum(plan.to_dict()["arenas"]))
        return (sizes[1] - sizes[0]) / 4 / (4 * ROWS * WIDTH)

    assert growth("none") > 3
    assert growth(["net/block.*"]) <= 1.1


def test_a_trainer_takes_a_budget_and_blocks() -> None:
    x, losses = np.random.default_rng(4).standard_normal((ROWS, WIDTH)).astype(np.float32), list[list[float]]()
    for how in ("none", 0, ["net/block.1"]):
        trainer = intaglio.train.Trainer(blocks(2), loss="loss", optimizer="sgd", lr=1e-4, recompute=how)
        losses.append([float(trainer.step(x)) for _ in range(3)])
    np.testing.assert_allclose(losses[1:], [losses[0]] * 2, rtol=1e-5)


@pytest.mark.parametrize("how", ["some", -1, True, [3], None])
def test_another_choice_is_refused(how: Any) -> None:
    with pytest.raises(InputError, match="expected 'none', 'all', a number of bytes, or a list of block names"):
        intaglio.grad(network(1)[0].graph, recompute=how)


def test_a_block_that_is_not_there_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"recompute names 'net/blok', and the model has no such block; it has 'net', "
    ):
        intaglio.grad(blocks(1), wrt="x", recompute=["net/blok"])
