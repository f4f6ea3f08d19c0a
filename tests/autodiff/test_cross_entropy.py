"""Cross-entropy and its gradient: sampled, against finite differences and PyTorch, with nothing kept in between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import intaglio
from intaglio import ops, train
from intaglio.ir.build import Builder
from intaglio.ir.graph import Graph
from intaglio.runtime.engine.engine import EngineName

Generator = np.random.Generator


class Case:
    """A loss of the operator or of a trainer, with scores and labels."""

    def __init__(self, rng: Generator) -> None:
        classes, rest = int(rng.integers(1, 40)), tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(0, 3))))
        batch = int(rng.integers(1, 7))
        self.shape = (batch, classes, *rest)
        self.x = rng.standard_normal(self.shape) * 3 + rng.uniform(-100, 100)
        self.labels = rng.integers(0, classes, (batch, *rest))
        self.weight = rng.uniform(0.2, 2, classes) if rng.random() < 0.5 else None
        self.reduction = str(rng.choice(["mean", "sum"]))
        self.ignored = -100
        if rng.random() < 0.5:
            self.labels[rng.random(self.labels.shape) < 0.3] = self.ignored
            self.labels.flat[0] = 0
        self.smoothing = float(rng.choice([0.0, 0.25]))
        self.is_operator = bool(rng.random() < 0.5)
        self.smoothing = 0.0 if self.is_operator else self.smoothing

    def graph(self, dtype: str) -> Graph:
        """The loss as the output of a graph with open sizes but for the classes."""
        names = ["N", str(self.shape[1]), *(f"d{i}" for i in range(len(self.shape) - 2))]
        inputs = {"x": f"{dtype}[{', '.join(names)}]", "labels": f"int64[{', '.join([names[0], *names[2:]])}]"}
        with intaglio.build("loss", inputs=inputs) as g:
            weight = None if self.weight is None else self.weight.astype(dtype)
            if self.is_operator:
                more = [] if weight is None else [g.constant(weight, "weight")]
                named: dict[str, Any] = {"reduction": self.reduction, "ignore_index": self.ignored}
                g.output(loss=ops.SoftmaxCrossEntropyLoss(g["x"], g["labels"], *more, **named))
            else:
                loss = train.CrossEntropy(weight=weight, label_smoothing=self.smoothing, reduction=self.reduction)
                g.output(loss=loss.build(Builder(g.graph), g["x"], g["labels"]))
        return g.graph

    def __str__(self) -> str:
        named = f"{self.reduction} {self.smoothing} operator={self.is_operator} ignores={(self.labels < 0).any()}"
        return f"{self.shape} {named} weighted={self.weight is not None}"


CASES = [Case(np.random.default_rng(seed)) for seed in range(10)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_are_what_finite_differences_tell(case: Case) -> None:
    value = intaglio.load(case.graph("float64"), engine="reference")
    gradient = intaglio.grad(case.graph("float64"), wrt="x", engine="reference")(case.x, case.labels)
    rng = np.random.default_rng(1)
    for _ in range(6):
        at = tuple(int(rng.integers(0, n)) for n in case.shape)
        moved = []
        for step in (1e-5, -1e-5):
            x = case.x.copy()
            x[at] += step
            moved.append(float(value(x, case.labels)))
        np.testing.assert_allclose(gradient[at], (moved[0] - moved[1]) / 2e-5, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_and_gradients_are_those_of_pytorch(case: Case, engine: EngineName) -> None:
    torch = pytest.importorskip("torch")
    x = torch.tensor(case.x, requires_grad=True)
    weight = None if case.weight is None else torch.tensor(case.weight)
    loss = torch.nn.functional.cross_entropy(
        x, torch.tensor(case.labels), weight, reduction=case.reduction, label_smoothing=case.smoothing
    )
    loss.backward()
    model = intaglio.value_and_grad(case.graph("float32"), wrt="x", engine=engine, strict=engine == "native")
    value, gradient = model(case.x.astype(np.float32), case.labels)
    np.testing.assert_allclose(value, loss.item(), rtol=1e-4)
    largest = np.abs(x.grad.numpy()).max()
    np.testing.assert_allclose(gradient, x.grad.numpy(), rtol=0, atol=1e-4 * largest + 1e-7)


@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[3]], ids=str)
def test_second_derivatives(case: Case) -> None:
    rng = np.random.default_rng(2)
    tangent = rng.standard_normal(case.shape)
    product = intaglio.hessian_vector_product(case.graph("float64"), wrt="x", engine="reference")
    found = product.run({"x": case.x, "labels": case.labels, "x.tangent": tangent})["x.product"]
    gradient = intaglio.grad(case.graph("float64"), wrt="x", engine="reference")
    ahead, behind = (gradient(case.x + step * tangent, case.labels) for step in (1e-5, -1e-5))
    np.testing.assert_allclose(found, (ahead - behind) / 2e-5, rtol=1e-4, atol=1e-8)


def test_nothing_of_the_size_of_the_scores_is_kept() -> None:
    with intaglio.build("loss", inputs={"x": "float32[N, 1000]", "labels": "int64[N]"}) as g:
        g.output(loss=train.CrossEntropy().build(Builder(g.graph), g["x"], g["labels"]))
    plan = intaglio.value_and_grad(g.graph, wrt="x", strict=True).memory_plan(N=256)
    assert sum(plan.to_dict()["arenas"]) < 256 * 100
