"""Optimizers and schedules against PyTorch on both engines; Lion against its formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import intaglio
from intaglio import ops, train
from intaglio.train import schedules

torch = pytest.importorskip("torch", reason="PyTorch is the judge")

RNG = np.random.default_rng(0)
W = RNG.standard_normal((5, 3)).astype(np.float32)
B = RNG.standard_normal(3).astype(np.float32)
X = RNG.standard_normal((7, 5)).astype(np.float32)
Y = RNG.standard_normal((7, 3)).astype(np.float32)


def line() -> Any:
    with intaglio.build("line", inputs={"x": "float32[N, 5]"}) as g:
        g.output(y=ops.MatMul(g["x"], g.constant(W, "w")) + g.constant(B, "b"))
    return g.graph


CASES: dict[str, tuple[Any, Any]] = {
    "sgd": (train.SGD(0.1), lambda p: torch.optim.SGD(p, 0.1)),
    "sgd decay": (train.SGD(0.1, weight_decay=0.3), lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.3)),
    "momentum": (
        train.SGD(0.1, momentum=0.9, dampening=0.2),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.2),
    ),
    "nesterov": (
        train.SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    ),
    "adam": (train.Adam(0.05), lambda p: torch.optim.Adam(p, 0.05)),
    "adam decay": (
        train.Adam(0.05, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.2),
        lambda p: torch.optim.Adam(p, 0.05, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.2),
    ),
    "adamw": (train.AdamW(0.05), lambda p: torch.optim.AdamW(p, 0.05)),
    "amsgrad": (
        train.AdamW(0.05, betas=(0.5, 0.6), amsgrad=True),
        lambda p: torch.optim.AdamW(p, 0.05, betas=(0.5, 0.6), amsgrad=True),
    ),
    "adagrad": (
        train.Adagrad(0.1, lr_decay=0.3, weight_decay=0.1, initial_accumulator_value=0.2),
        lambda p: torch.optim.Adagrad(p, 0.1, lr_decay=0.3, weight_decay=0.1, initial_accumulator_value=0.2),
    ),
    "rmsprop": (train.RMSprop(0.01), lambda p: torch.optim.RMSprop(p, 0.01)),
    "rmsprop all": (
        train.RMSprop(0.01, alpha=0.9, momentum=0.5, centered=True, weight_decay=0.1),
        lambda p: torch.optim.RMSprop(p, 0.01, alpha=0.9, momentum=0.5, centered=True, weight_decay=0.1),
    ),
}


def judged(optimizer: Any, steps: int, clip: Any = None, schedule: Any = None) -> tuple[list[float], Any, Any]:
    w, b = torch.tensor(W, requires_grad=True), torch.tensor(B, requires_grad=True)
    theirs = optimizer([w, b])
    rates = None if schedule is None else schedule(theirs)
    losses = []
    for _ in range(steps):
        theirs.zero_grad()
        loss = torch.nn.functional.mse_loss(torch.tensor(X) @ w + b, torch.tensor(Y))
        loss.backward()
        if clip is not None:
            clip([w, b])
        theirs.step()
        if rates is not None:
            rates.step()
        losses.append(loss.item())
    return losses, w.detach().numpy(), b.detach().numpy()


def check(trainer: train.Trainer, expected: tuple[list[float], Any, Any]) -> None:
    losses = [trainer.step(X, Y) for _ in expected[0]]
    np.testing.assert_allclose(losses, expected[0], rtol=2e-6)
    np.testing.assert_allclose(trainer.state["w"], expected[1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(trainer.state["b"], expected[2], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("name", CASES)
def test_an_optimizer_is_that_of_pytorch(name: str, engine: str) -> None:
    ours, theirs = CASES[name]
    check(train.Trainer(line(), "mse", ours, engine=engine), judged(theirs, 8))


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_lion(engine: str) -> None:
    trainer = train.Trainer(line(), "mse", train.Lion(0.01, weight_decay=0.1), engine=engine)
    w, b, m, n = W.astype(np.float64), B.astype(np.float64), 0.0, 0.0
    for _ in range(8):
        trainer.step(X, Y)
        bar = 2 * (X @ w + b - Y) / Y.size
        g, h = X.T @ bar, bar.sum(0)
        w = w * (1 - 0.01 * 0.1) - 0.01 * np.sign(0.9 * m + 0.1 * g)
        b = b * (1 - 0.01 * 0.1) - 0.01 * np.sign(0.9 * n + 0.1 * h)
        m, n = 0.99 * m + 0.01 * g, 0.99 * n + 0.01 * h
    np.testing.assert_allclose(trainer.state["w"], w, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(trainer.state["b"], b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_clipping(engine: str) -> None:
    def by_norm(limit: float) -> Any:
        return judged(CASES["momentum"][1], 6, lambda p: torch.nn.utils.clip_grad_norm_(p, limit))

    def by_value(limit: float) -> Any:
        return judged(CASES["momentum"][1], 6, lambda p: torch.nn.utils.clip_grad_value_(p, limit))

    momentum = CASES["momentum"][0]
    for limit in (0.3, 100.0):
        check(train.Trainer(line(), "mse", momentum, clip_norm=limit, engine=engine), by_norm(limit))
        check(train.Trainer(line(), "mse", momentum, clip_value=limit / 10, engine=engine), by_value(limit / 10))


def test_groups_have_their_own_rate_and_decay() -> None:
    def groups(p: Any) -> Any:
        parts = [{"params": [p[0]], "lr": 0.02}, {"params": [p[1]], "weight_decay": 0.0}]
        return torch.optim.AdamW(parts, 0.05, weight_decay=0.3)

    ours = [train.Group("w", lr=0.02), train.Group(["b"], weight_decay=0.0)]
    check(train.Trainer(line(), "mse", train.AdamW(0.05, 0.3), groups=ours), judged(groups, 6))
    with pytest.raises(intaglio.InputError, match="no trained weight is named 'c'"):
        train.Trainer(line(), "mse", groups=[train.Group("c")])


lr_scheduler = torch.optim.lr_scheduler
SCHEDULES = {
    "constant": (schedules.constant(), lambda o: lr_scheduler.ConstantLR(o, 1.0)),
    "cosine": (schedules.cosine(10, 0.1), lambda o: lr_scheduler.CosineAnnealingLR(o, 10, 0.1 * 0.05)),
    "one cycle": (schedules.one_cycle(10), lambda o: lr_scheduler.OneCycleLR(o, 0.05, 10, cycle_momentum=False)),
    "one cycle of one": (
        schedules.one_cycle(9, rise=0.5, first=0.1, last=0.001),
        lambda o: lr_scheduler.OneCycleLR(
            o, 0.05, 9, pct_start=0.5, cycle_momentum=False, div_factor=10, final_div_factor=100
        ),
    ),
    "warmup": (schedules.warmup(4, first=0.2), lambda o: lr_scheduler.LinearLR(o, 0.2, 1.0, 4)),
    "step": (schedules.step_decay(3, 0.5), lambda o: lr_scheduler.StepLR(o, 3, 0.5)),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_is_that_of_pytorch(name: str) -> None:
    ours, theirs = SCHEDULES[name]
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.05)
    judge = theirs(optimizer)
    for step in range(9):
        assert 0.05 * ours(step) == pytest.approx(judge.get_last_lr()[0], rel=1e-9)
        optimizer.step()
        judge.step()


def test_a_schedule_drives_the_updates() -> None:
    ours, theirs = SCHEDULES["cosine"]
    trainer = train.Trainer(line(), "mse", train.SGD(0.05), schedule=ours)
    check(trainer, judged(lambda p: torch.optim.SGD(p, 0.05), 9, schedule=theirs))
    assert trainer.lr == pytest.approx(0.05 * ours(9))
    after = schedules.warmup(2, schedules.step_decay(2, 0.5))
    assert [after(step) for step in range(6)] == [0.0, 0.5, 1.0, 1.0, 0.5, 0.5]


def test_a_learning_rate_beside_an_optimizer_counts() -> None:
    trainer = train.Trainer(line(), "mse", train.SGD(9.0, momentum=0.9, dampening=0.2), lr=0.1)
    check(trainer, judged(CASES["momentum"][1], 3))


def test_wrong_settings() -> None:
    for make, text in [
        (lambda: train.Adam(lr=-1), "lr of Adam is -1"),
        (lambda: train.Adam(betas=(0.9, 1.0)), "betas of Adam"),
        (lambda: train.SGD(nesterov=True), "nesterov needs momentum"),
        (lambda: train.Trainer(line(), "mse", "adan"), "did you mean 'adam'"),
        (lambda: train.Trainer(line(), "msee"), "did you mean 'mse'"),
        (lambda: train.Trainer(line(), "mse", clip_norm=0), "clip_norm is 0"),
        (lambda: schedules.cosine(0), "a schedule of 0 steps"),
    ]:
        with pytest.raises(intaglio.InputError, match=text):
            make()
