"""Files behind addresses: whole or not at all, by real file systems of fsspec."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.ray.conftest import network

import intaglio
from intaglio import train
from intaglio.ray import storage

fsspec = pytest.importorskip("fsspec", reason="it comes with the extra ray, and with torch")


@pytest.fixture(params=["file", "path", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a folder that is not there yet."""
    return {"file": f"file://{tmp_path}/new", "path": f"{tmp_path}/new", "memory": f"memory://{tmp_path.name}"}[
        request.param
    ]


def test_files_are_replaced_whole(folder: str) -> None:
    address = f"{folder}/data.bin"
    assert not storage.exists(address)
    storage.stored(address, b"one")
    storage.stored(address, b"two and more")
    assert storage.exists(address)
    assert storage.fetched(address) == b"two and more"
    system, path = fsspec.core.url_to_fs(folder)
    assert [Path(found).name for found in system.ls(path, detail=False)] == ["data.bin"]


def test_what_is_not_there(folder: str) -> None:
    with pytest.raises(intaglio.ModelNotFoundError, match="nothing"):
        storage.fetched(f"{folder}/nothing.onnx")
    with pytest.raises(intaglio.UnsupportedError, match="'nosuch://bucket/file' cannot be opened"):
        storage.fetched("nosuch://bucket/file")


def test_checkpoints(folder: str) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((32, 8)).astype(np.float32), rng.integers(0, 3, 32)
    trainer = train.Trainer(network().graph, lr=0.01)
    trainer.fit((x, y), batch_size=8)
    storage.save_checkpoint(trainer, f"{folder}/run.safetensors")
    later = train.Trainer(network(seed=1).graph, lr=0.01)
    storage.load_checkpoint(later, f"{folder}/run.safetensors")
    assert later.updates == 4
    for name in trainer.state:
        np.testing.assert_array_equal(later.state[name], trainer.state[name])
