"""What people do with a trainer besides stepping: rates, gradients, fitting on, progress, tables and curves."""

from __future__ import annotations

import sys
import types
import xml.etree.ElementTree as tree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import intaglio
from intaglio import ops, train
from intaglio.train.history import text_curve

RNG = np.random.default_rng(8)
X = RNG.standard_normal((24, 5)).astype(np.float32)
Y = RNG.integers(0, 3, 24)
W = (RNG.standard_normal((5, 3)) * 0.3).astype(np.float32)


def line() -> Any:
    with intaglio.build("line", inputs={"x": "float32[N, 5]"}) as g:
        g.output(y=ops.MatMul(g["x"], g.constant(W, "w")) + g.constant(np.zeros(3, np.float32), "b"))
    return g.graph


def trainer(**options: Any) -> train.Trainer:
    return train.Trainer(line(), **{"optimizer": train.SGD(0.1), "engine": "reference"} | options)


def test_the_learning_rate_can_be_set() -> None:
    changed = trainer(schedule=train.schedules.step_decay(2, 0.5))
    judge = [0.1, 0.1, 0.05, 0.2, 0.1, 0.1]
    w = trainer()
    for number, rate in enumerate(judge):
        if number == 3:
            changed.lr = 0.2
        assert changed.lr == pytest.approx(rate)
        w.lr = rate
        assert changed.step(X, Y) == pytest.approx(w.step(X, Y), rel=1e-6)
    np.testing.assert_allclose(changed.state["w"], w.state["w"], rtol=1e-6)
    with pytest.raises(intaglio.InputError, match="lr of SGD is -1"):
        w.lr = -1.0
    with pytest.raises(intaglio.InputError, match="makes the learning rate 0 in update 1"):
        trainer(schedule=train.schedules.warmup(3)).lr = 0.1


@pytest.mark.parametrize("options", [{}, {"accumulate": 2}, {"clip_norm": 0.01}])
def test_gradients_can_be_read(options: dict[str, Any]) -> None:
    found = trainer(**options)
    found.step(X[:4], Y[:4])
    before, counters = found.state.state_dict(), found.counters()
    gradients = found.gradients(X, Y.astype(np.int32))
    for name, array in before.items():
        np.testing.assert_array_equal(found.state[name], array, err_msg="nothing is updated")
    assert found.counters() == counters
    scores = X.astype(np.float64) @ before["w"] + before["b"]
    bar = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    bar[np.arange(24), Y] -= 1
    np.testing.assert_allclose(gradients["w"], X.T @ bar / 24, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(gradients["b"], bar.sum(0) / 24, rtol=1e-4, atol=1e-6)


def test_a_second_fit_trains_on(tmp_path: Path) -> None:
    whole, parts = trainer(), trainer()
    expected = whole.fit((X, Y), 5, batch_size=8).losses
    first = parts.fit((X, Y), 1, batch_size=8)
    second = parts.fit((X, Y), 4, batch_size=8, checkpoint=tmp_path / "c")
    assert first.losses + second.losses == expected
    assert [entry["epoch"] for entry in second.epochs] == [2, 3, 4, 5]
    later = trainer()
    later.load_checkpoint(tmp_path / "c")
    with pytest.warns(UserWarning, match="nothing is left to train: the checkpoint has 5 of 5 epochs"):
        assert not later.fit((X, Y), 4, batch_size=8).epochs
    later.load_checkpoint(tmp_path / "c")
    assert [entry["epoch"] for entry in later.fit((X, Y), 6, batch_size=8).epochs] == [6, 7]
    with pytest.raises(intaglio.InputError, match="epochs is 0"):
        later.fit((X, Y), 0)


def test_logs_show_progress(capsys: pytest.CaptureFixture[str]) -> None:
    trainer().fit((X, Y), 50)
    shown = capsys.readouterr().err.splitlines()
    assert shown[0].startswith("intaglio: epoch 1/50: loss")
    assert shown[-1].startswith("intaglio: epoch 50/50: loss")
    assert len(shown) < 50, "short epochs are left out"
    trainer().fit((X, Y), 5, progress=True)
    assert len(capsys.readouterr().err.splitlines()) == 5
    trainer().fit((X, Y), 5, progress=False)
    assert not capsys.readouterr().err


def test_notebooks_show_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []

    class Handle:
        def update(self, html: str) -> None:
            seen.append(html)

    def display(html: str, display_id: bool) -> Handle:
        seen.append(html)
        return Handle()

    shell = types.SimpleNamespace(kernel=object())
    package, module = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    package.__dict__["get_ipython"] = lambda: shell
    module.__dict__.update(HTML=str, display=display)
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    trainer().fit((X, Y), 3, batch_size=8)
    assert seen[-1].startswith("<div><strong>3 epochs</strong><table")
    assert "<svg" in seen[-1]
    assert not capsys.readouterr().err


def test_a_history_has_a_table_and_curves(tmp_path: Path) -> None:
    fitted = trainer(optimizer="adam")
    fitted.step(X, Y)
    history = fitted.fit((X, Y), 3, batch_size=8, validation=(X, Y), metrics=["accuracy"], progress=False)
    lines = str(history).splitlines()
    assert lines[0].split() == ["epoch", "loss", "val_loss", "val_accuracy", "seconds"]
    assert [row.split()[0] for row in lines[1:4]] == ["1", "2", "3"]
    assert [row.split(":")[0] for row in lines[4:]] == ["loss", "val_loss", "val_accuracy"]
    assert lines[4].split()[1][0] == "█"
    plot = history.plot("title")
    plot.save(tmp_path / "curve.svg")
    root = tree.parse(tmp_path / "curve.svg").getroot()
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert [len(each.get("points", "").split()) for each in lines] == [9, 3]
    assert plot._repr_svg_() == plot.svg
    assert history.series()["training"][0][0] == 2, "a batch came before"
    assert history._repr_html_().count("<tr>") == 4
    assert str(train.History()) == "<History of 0 epochs>"
    assert train.History()._repr_html_()


def test_curves_of_text() -> None:
    assert text_curve([1.0, 1.0]) == "▁▁"
    assert text_curve([0.0, float("nan"), 1.0]) == "▁ █"
    assert text_curve([float("inf")]) == " "
    assert len(text_curve([float(x) for x in range(1000)])) <= 40


def test_a_trainer_has_a_table() -> None:
    found = trainer(groups=[train.Group("b", lr=0.2)], clip_norm=1.0, accumulate=2)
    lines = str(found).splitlines()
    assert lines[0] == "trainer of 'line' after 0 updates, 0 epochs"
    assert "learning rate 0.1, clip_norm 1.0, accumulate 2" in lines[1]
    assert lines[3].split()[:2] == ["w", "float32[5,"]
    assert lines[3].endswith("trained")
    assert lines[4].endswith("group 1")
    assert found._repr_html_().count("<tr>") == 3
    assert repr(found).startswith("<Trainer of 'line': 2 weights")
