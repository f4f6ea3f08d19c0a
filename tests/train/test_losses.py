"""Losses against PyTorch: values and gradients on both engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import intaglio
from intaglio import train
from intaglio.autodiff import add_backward
from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import DTYPES
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType

torch = pytest.importorskip("torch", reason="PyTorch is the judge")
F = torch.nn.functional

WEIGHT = np.array([0.5, 2.0, 1.0, 0.25], np.float32)


def labels(shape: tuple[int, ...], rng: Any) -> Any:
    found = rng.integers(0, 4, shape)
    found.flat[1] = -100
    return found


def same(shape: tuple[int, ...], rng: Any) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def shares(shape: tuple[int, ...], rng: Any) -> Any:
    found = np.exp(rng.standard_normal(shape))
    found[0, 0] = 0
    return (found / found.sum(1, keepdims=True)).astype(np.float32)


def bits(shape: tuple[int, ...], rng: Any) -> Any:
    return rng.integers(0, 2, shape).astype(np.float32)


def logs(shape: tuple[int, ...], rng: Any) -> Any:
    return np.log(shares(shape, rng) + 1e-3).astype(np.float32)


def cross(**options: Any) -> Any:
    return lambda x, t: F.cross_entropy(x, t, **options)


W = torch.tensor(WEIGHT)
CASES = {
    "cross_entropy": (train.CrossEntropy(), labels, cross()),
    "cross_entropy sum": (train.CrossEntropy("sum"), labels, cross(reduction="sum")),
    "cross_entropy weights": (train.CrossEntropy(weight=WEIGHT), labels, cross(weight=W)),
    "cross_entropy smooth": (train.CrossEntropy(label_smoothing=0.2), labels, cross(label_smoothing=0.2)),
    "cross_entropy all": (
        train.CrossEntropy(weight=WEIGHT, label_smoothing=0.1, ignore_index=2),
        lambda shape, rng: rng.integers(0, 4, shape),
        cross(weight=W, label_smoothing=0.1, ignore_index=2),
    ),
    "cross_entropy soft": (train.CrossEntropy(soft=True, label_smoothing=0.1), shares, None),
    "cross_entropy soft weights": (
        train.CrossEntropy("sum", soft=True, weight=WEIGHT),
        shares,
        cross(weight=W, reduction="sum"),
    ),
    "nll": (train.NLL(), labels, F.nll_loss),
    "nll weights": (train.NLL(weight=WEIGHT), labels, lambda x, t: F.nll_loss(x, t, weight=W)),
    "mse": (train.MSE(), same, F.mse_loss),
    "mse sum": (train.MSE("sum"), same, lambda x, t: F.mse_loss(x, t, reduction="sum")),
    "l1": (train.L1(), same, F.l1_loss),
    "huber": (train.Huber(delta=0.7), same, lambda x, t: F.huber_loss(x, t, delta=0.7)),
    "bce": (train.BCEWithLogits(), bits, F.binary_cross_entropy_with_logits),
    "bce pos_weight": (
        train.BCEWithLogits(pos_weight=2.5),
        bits,
        lambda x, t: F.binary_cross_entropy_with_logits(x, t, pos_weight=torch.tensor(2.5)),
    ),
    "kl": (train.KLDiv(), shares, lambda x, t: F.kl_div(x, t, reduction="none").mean()),
    "kl batchmean": (train.KLDiv("batchmean"), shares, lambda x, t: F.kl_div(x, t, reduction="batchmean")),
    "kl log": (
        train.KLDiv("sum", log_target=True),
        logs,
        lambda x, t: F.kl_div(x, t, reduction="sum", log_target=True),
    ),
}


def loss_graph(losses: dict[str, Any], dtype: str, shape: tuple[Any, ...]) -> Graph:
    """The losses, each of a prediction and a target of its own, and their sum."""
    graph = Graph("losses")
    b = Builder(graph)
    outputs = []
    for name, loss in losses.items():
        x = graph.add_input(f"x {name}", TensorType(DTYPES[dtype], shape))
        outputs.append(loss.build(b, x, graph.add_input(f"target {name}", loss.target_type(x))))
        outputs[-1].name = graph.unique_name(f"loss {name}")
    total = outputs[0] if len(outputs) == 1 else b.Sum(*outputs)
    graph.set_outputs([*outputs[1:], total] if len(outputs) == 1 else [*outputs, total])
    return graph


def judged(judge: Any, x: Any, target: Any) -> tuple[Any, Any]:
    theirs = torch.tensor(x, requires_grad=True)
    expected = judge(theirs, torch.tensor(target))
    expected.backward()
    return expected.detach().numpy(), theirs.grad.numpy()


@pytest.mark.parametrize("shape", [(6, 4), (3, 4, 2)])
def test_losses_are_those_of_pytorch(shape: tuple[int, ...]) -> None:
    feeds, expected = {}, {}
    for name, (_, make, judge) in CASES.items():
        rng = np.random.default_rng(len(name))
        x = rng.standard_normal(shape).astype(np.float32) * 3
        is_label = make is labels or name == "cross_entropy all"
        target = make((shape[0], *shape[2:]) if is_label else shape, rng)
        feeds |= {f"x {name}": x, f"target {name}": target}
        expected[name] = judged(judge or cross(label_smoothing=0.1), x, target)
    open_shape = (symbol("N"), 4, *(symbol(f"d{axis}") for axis in range(len(shape) - 2)))
    graph = loss_graph({name: case[0] for name, case in CASES.items()}, "float32", open_shape)
    wrt = [f"x {name}" for name in CASES]
    gradients = add_backward(graph, graph.outputs[-1], wrt)
    for engine in ("reference", "native"):
        results = intaglio.load(graph, engine=engine).run(feeds)
        for name, (value, gradient) in expected.items():
            np.testing.assert_allclose(results[f"loss {name}"], value, rtol=2e-6, err_msg=name)
            found = results[gradients[f"x {name}"].name]
            np.testing.assert_allclose(found, gradient, rtol=1e-5, atol=1e-7, err_msg=name)


def test_losses_are_computed_in_single_precision_at_least() -> None:
    x = np.array([[60000, -60000, 0, 1]], np.float16)
    model = intaglio.load(loss_graph({"a": train.CrossEntropy()}, "float16", (symbol("N"), 4)))
    assert model(x, np.array([1])) == np.float32(120000)


def test_a_label_that_is_no_class_is_no_small_loss() -> None:
    for engine in ("reference", "native"):
        model = intaglio.load(loss_graph({"a": train.CrossEntropy()}, "float32", (symbol("N"), 4)), engine=engine)
        for wrong in (-1, 4, 100):
            assert np.isnan(model(np.zeros((2, 4), np.float32), np.array([0, wrong])))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: train.MSE("none"), "reduction is 'none'"),
        (lambda: train.Huber(delta=0), "delta is 0"),
        (lambda: train.CrossEntropy(label_smoothing=1.5), "label_smoothing is 1.5"),
    ],
)
def test_wrong_options(make: Any, text: str) -> None:
    with pytest.raises(intaglio.InputError, match=text):
        make()


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_smoothing_in_double_precision_is_not_rounded_to_single(engine: str) -> None:
    weight, scores = np.array([0.3, 1.7, 0.9]), np.random.default_rng(1).standard_normal((6, 3))
    labels = np.array([0, 2, -100, 1, 1, 0])
    with intaglio.build("scale", inputs={"x": "float64[N, 3]"}) as g:
        g.output(y=g["x"] * g.constant(np.ones(3), "w"))
    loss = train.CrossEntropy(weight=weight, label_smoothing=0.7)
    found = train.Trainer(g.graph, loss, train.SGD(0.0), engine=engine).step(scores, labels)
    expected = torch.nn.functional.cross_entropy(
        torch.tensor(scores), torch.tensor(labels), torch.tensor(weight), label_smoothing=0.7
    )
    assert found == pytest.approx(expected.item(), rel=1e-14)
