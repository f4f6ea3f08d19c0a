"""Two real processes train one model: the same weights as one process with the batches of both."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import intaglio
from intaglio import train
from intaglio.runtime.model.tensor_files import read_tensors

PROGRAM = """
import sys
import numpy as np
import torch.distributed as group
import intaglio
from intaglio import train

folder, rank, engine = sys.argv[1], int(sys.argv[2]), sys.argv[3]
group.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
data = np.load(f"{folder}/data.npz")
trainer = train.Trainer(f"{folder}/model-{rank}.onnx", "mse", "adam", lr=0.05, clip_norm=0.5,
                        processes=train.torch_processes(), engine=engine)
for step in range(5):
    rows = slice(16 * step + 8 * rank, 16 * step + 8 * rank + 8)
    trainer.step(data["x"][rows], data["y"][rows])
trainer.state.save(f"{folder}/state-{rank}.safetensors")
group.destroy_process_group()
"""


def make_model(seed: int, path: Path) -> Any:
    from intaglio import ops

    rng = np.random.default_rng(seed)
    with intaglio.build("mlp", inputs={"x": "float32[N, 5]"}) as g:
        h = ops.Tanh(ops.MatMul(g["x"], g.constant(rng.standard_normal((5, 7)).astype(np.float32), "w1")))
        g.output(y=ops.MatMul(h, g.constant(rng.standard_normal((7, 2)).astype(np.float32), "w2")))
    g.save(path)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_two_processes_are_one_with_the_batches_of_both(tmp_path: Path, engine: str) -> None:
    pytest.importorskip("torch", reason="torch.distributed connects the processes")
    rng = np.random.default_rng(0)
    data = {"x": rng.standard_normal((80, 5)), "y": rng.standard_normal((80, 2))}
    data = {name: array.astype(np.float32) for name, array in data.items()}
    np.savez(tmp_path / "data.npz", **data)
    for rank in (0, 1):
        make_model(rank, tmp_path / f"model-{rank}.onnx")  # weights of its own, which the first process's replace
    started = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path), str(rank), engine], stderr=subprocess.PIPE)
        for rank in (0, 1)
    ]
    for process in started:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors.decode()
    one = train.Trainer(tmp_path / "model-0.onnx", "mse", "adam", lr=0.05, clip_norm=0.5, engine=engine)
    for step in range(5):
        one.step(data["x"][16 * step : 16 * step + 16], data["y"][16 * step : 16 * step + 16])
    found = [read_tensors(tmp_path / f"state-{rank}.safetensors")[0] for rank in (0, 1)]
    for name in one.state:
        np.testing.assert_array_equal(found[0][name], found[1][name], err_msg=name)
        np.testing.assert_allclose(found[0][name], one.state[name], rtol=2e-5, atol=1e-6, err_msg=name)


def test_without_a_group_of_processes() -> None:
    pytest.importorskip("torch", reason="the error is about its processes")
    with pytest.raises(intaglio.InputError, match="init_process_group"):
        train.torch_processes()


class Alone:
    """One process that plays two: the other has the same gradients."""

    rank = 1

    def __init__(self) -> None:
        self.calls: list[int] = []

    def average(self, arrays: Any) -> None:
        self.calls.append(len(arrays))

    def share(self, arrays: Any) -> None:
        self.calls.append(-len(arrays))


def test_gradients_are_exchanged_once_an_update(tmp_path: Path) -> None:
    make_model(0, tmp_path / "m.onnx")
    others = Alone()
    trainer = train.Trainer(tmp_path / "m.onnx", "mse", "sgd", lr=0.05, accumulate=2, processes=others)
    plain = train.Trainer(tmp_path / "m.onnx", "mse", "sgd", lr=0.05, accumulate=2)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((8, 5)).astype(np.float32), rng.standard_normal((8, 2)).astype(np.float32)
    for _ in range(4):
        assert trainer.step(x, y) == plain.step(x, y)
    assert others.calls == [-len(trainer.state), 2, 2]
