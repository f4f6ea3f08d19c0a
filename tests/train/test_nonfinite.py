"""Gradients that are not finite behind a finite loss: no step is taken, or clipping bounds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import intaglio
from intaglio import ops, train
from intaglio.runtime.engine.engine import EngineName

ENGINES = ["reference", "native"]
GOOD, ZERO = np.full((2, 3), 2, np.float32), np.zeros((2, 3), np.float32)
TARGET = np.ones((2, 3), np.float32)


def roots() -> Any:
    """y = sqrt(|x| w) + b: by w, the gradient is infinite where w is 0, and NaN where x is 0."""
    with intaglio.build("roots", inputs={"x": "float32[N, 3]"}) as g:
        w = g.constant(np.array([4, 0.5, 0], np.float32), "w")
        g.output(y=ops.Sqrt(ops.Abs(g["x"]) * w) + g.constant(np.zeros(3, np.float32), "b"))
    return g.graph


def usual() -> Any:
    """The same with weights whose gradients are finite where x is not 0."""
    graph = roots()
    next(value for value in graph.constants() if value.name == "w").constant = np.array([4, 0.5, 1], np.float32)
    return graph


def unchanged(trainer: train.Trainer, before: dict[str, Any]) -> None:
    for name, array in before.items():
        np.testing.assert_array_equal(trainer.state[name], array, err_msg=name)


@pytest.mark.parametrize(
    ("optimizer", "engine"),
    [(name, "reference") for name in ("sgd", "adam", "adagrad", "rmsprop", "lion")] + [("adam", "native")],
)
def test_a_step_that_would_break_weights_is_not_taken(optimizer: str, engine: EngineName) -> None:
    trainer = train.Trainer(usual(), "mse", optimizer, lr=0.01, engine=engine, ema=0.9)
    trainer.step(GOOD, TARGET)
    before = trainer.state.state_dict()
    with pytest.raises(intaglio.TrainingError, match=r"the loss is 1.* the update would make 'w.* as before\."):
        trainer.step(ZERO, TARGET)
    unchanged(trainer, before)
    assert trainer.updates == 1
    trainer.nonfinite = "skip"
    with pytest.warns(UserWarning, match="the batch is left out"):
        trainer.step(ZERO, TARGET)
    unchanged(trainer, before)
    assert np.isfinite(trainer.step(GOOD, TARGET))
    assert all(np.isfinite(array).all() for array in trainer.state.state_dict().values())
    trainer.nonfinite = "ignore"
    trainer.step(ZERO, TARGET)
    assert not all(np.isfinite(array).all() for array in trainer.state.state_dict().values())


def test_weights_that_were_broken_before_are_named() -> None:
    trainer = train.Trainer(usual(), "mse", "sgd", lr=0.01, nonfinite="ignore", engine="reference")
    trainer.step(ZERO, TARGET)
    trainer.nonfinite = "stop"
    with pytest.raises(intaglio.TrainingError, match="numbers in 'w' that were not finite then"):
        trainer.step(GOOD, TARGET)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("accumulate", [1, 2])
def test_clipping_bounds_an_infinite_gradient(accumulate: int, engine: EngineName) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the judge")
    trainer = train.Trainer(roots(), "mse", "adam", lr=0.1, clip_value=0.5, accumulate=accumulate, engine=engine)
    w = torch.tensor([4, 0.5, 0], requires_grad=True)
    b = torch.zeros(3, requires_grad=True)
    judge = torch.optim.Adam([w, b], 0.1)
    for _ in range(3):
        judge.zero_grad()
        for _ in range(accumulate):
            loss = torch.nn.functional.mse_loss(torch.sqrt(torch.tensor(GOOD) * w) + b, torch.tensor(TARGET))
            (loss / accumulate).backward()
            assert trainer.step(GOOD, TARGET) == pytest.approx(loss.item(), rel=1e-5)
        torch.nn.utils.clip_grad_value_([w, b], 0.5)
        judge.step()
    np.testing.assert_allclose(trainer.state["w"], w.detach().numpy(), rtol=1e-5)


@pytest.mark.parametrize("clip_value", [None, 0.5])
def test_accumulated_gradients_that_are_nan_are_left_out(clip_value: float | None) -> None:
    options: dict[str, Any] = {"accumulate": 2, "nonfinite": "skip", "engine": "reference", "clip_value": clip_value}
    trainer = train.Trainer(usual(), "mse", "sgd", lr=0.01, **options)
    before = trainer.state.state_dict()
    trainer.step(GOOD, TARGET)
    with pytest.warns(UserWarning, match="left out"):
        trainer.step(ZERO, TARGET)
    trainer.step(GOOD, TARGET)
    assert np.isfinite(trainer.state["w"]).all()
    assert trainer.updates == (1 if clip_value is None else 0), "one batch is left out, or all of an update"
    if clip_value is not None:
        np.testing.assert_array_equal(trainer.state["w"], before["w"])
        trainer.step(GOOD, TARGET)
    assert trainer.updates == 1
    assert (trainer.state["w"] != before["w"]).any()
    trainer.step(GOOD, TARGET)
    assert np.isfinite(trainer.step(GOOD, TARGET))
    assert trainer.updates == 2


def test_infinities_that_were_there_stay_allowed() -> None:
    with intaglio.build("masked", inputs={"x": "float32[N, 3]"}) as g:
        mask = g.constant(np.array([0, 0, -np.inf], np.float32), "mask")
        g.output(y=ops.Softmax(g["x"] * g.constant(np.ones(3, np.float32), "w") + mask))
    trainer = train.Trainer(g.graph, "mse", "sgd", engine="reference")
    assert np.isfinite(trainer.step(GOOD, ZERO))
    assert trainer.state["mask"][2] == -np.inf


class Alone:
    """One process that counts how often the others would wait for it."""

    rank, averaged = 0, 0

    def average(self, arrays: Sequence[Any]) -> None:
        self.averaged += 1

    def share(self, arrays: Sequence[Any]) -> None:
        pass


def test_a_batch_left_out_does_not_keep_other_processes_waiting() -> None:
    processes = Alone()
    trainer = train.Trainer(usual(), "mse", "sgd", nonfinite="skip", engine="reference", processes=processes)
    trainer.step(GOOD, TARGET)
    with pytest.warns(UserWarning, match="left out"):
        trainer.step(ZERO, TARGET)
    assert processes.averaged == trainer.updates == 2
