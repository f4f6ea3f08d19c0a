"""Training by real workers of Ray Train: the run of one process, checkpoints on any store, a worker that dies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.ray.conftest import network

import intaglio
from intaglio import train

pytestmark = pytest.mark.ray

RNG = np.random.default_rng(3)
DATA = RNG.standard_normal((100, 8)).astype(np.float32), RNG.integers(0, 3, 100)
OPTIONS: dict[str, Any] = {"loss": "cross_entropy", "optimizer": "adamw", "lr": 0.01, "clip_norm": 0.5, "seed": 5}


def same_state(found: train.Trainer, expected: train.Trainer) -> None:
    for name in expected.state:
        np.testing.assert_allclose(found.state[name], expected.state[name], rtol=2e-5, atol=1e-6, err_msg=name)


def test_two_workers_are_one_process_with_the_same_batches(cluster: Any, tmp_path: Path) -> None:
    """100 rows in batches of 16: the last batch has 4, which two workers share as well."""
    one = train.Trainer(network().graph, **OPTIONS)
    history = one.fit(DATA, 3, batch_size=16, validation=DATA, metrics=["accuracy"])
    place = f"file://{tmp_path}/run/state.safetensors"
    fitted = intaglio.ray.fit(
        network().graph,
        DATA,
        epochs=3,
        batch_size=16,
        workers=2,
        validation=DATA,
        metrics=["accuracy"],
        checkpoint=place,
        **OPTIONS,
    )
    same_state(fitted.trainer, one)
    assert fitted.trainer.updates == one.updates == 21
    np.testing.assert_allclose(fitted.history.losses, history.losses, rtol=1e-5)
    for found, expected in zip(fitted.history.epochs, history.epochs, strict=True):
        assert found["val_accuracy"] == expected["val_accuracy"]
        np.testing.assert_allclose(found["val_loss"], expected["val_loss"], rtol=1e-5)
    np.testing.assert_allclose(fitted.trainer.predict(DATA[0]), one.predict(DATA[0]), rtol=1e-4, atol=1e-5)
    one.fit(DATA, 1, batch_size=16)
    again = intaglio.ray.fit(network().graph, DATA, epochs=4, batch_size=16, workers=2, checkpoint=place, **OPTIONS)
    assert len(again.history.epochs) == 1
    same_state(again.trainer, one)


class DyingOnce:
    """A metric that ends the process of one worker, once, in the second epoch."""

    __name__ = "dying_once"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, prediction: Any, target: Any) -> float:
        import os
        import signal

        epoch = self.folder / "epoch"
        with epoch.open("a") as file:
            file.write(".")
        if epoch.stat().st_size > 4:
            try:
                (self.folder / "died").touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
            except FileExistsError:
                pass
        return 0.0


def test_a_worker_that_dies_is_replaced_and_training_goes_on(cluster: Any, tmp_path: Path) -> None:
    one = train.Trainer(network().graph, **OPTIONS)
    one.fit(DATA, 4, batch_size=20)
    fitted = intaglio.ray.fit(
        network().graph,
        DATA,
        epochs=4,
        batch_size=20,
        workers=2,
        failures=1,
        checkpoint=tmp_path / "state.safetensors",
        validation=tuple(array[:20] for array in DATA),
        metrics=[DyingOnce(tmp_path)],
        **OPTIONS,
    )
    assert (tmp_path / "died").exists(), "no worker died, so nothing was tested"
    assert 0 < len(fitted.history.epochs) < 4
    same_state(fitted.trainer, one)


def test_what_cannot_be_shared_out_is_refused() -> None:
    pytest.importorskip("ray", reason="Ray is not installed here: make check-ray has it")
    graph = network().graph
    with pytest.raises(intaglio.InputError, match="17 rows cannot be cut into 2 equal parts"):
        intaglio.ray.fit(graph, DATA, batch_size=17)
    with pytest.raises(intaglio.InputError, match="num_cpus"):
        intaglio.ray.fit(graph, DATA, threads=2)
    with pytest.raises(intaglio.InputError, match="expected a tuple of arrays"):
        intaglio.ray.fit(graph, "data")
