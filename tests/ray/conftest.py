"""A cluster of Ray on this machine, started once for the tests of this folder, and models for it."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import intaglio

RAYS_OWN = (
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)
"""Warnings of Ray about Ray: its own deprecated settings, and sockets and processes that it leaves to the collector."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What Ray warns itself of is no fault of the tests that start it."""
    for item in items:
        if item.get_closest_marker("ray"):
            for ignored in RAYS_OWN:
                item.add_marker(pytest.mark.filterwarnings(ignored))


SRC = Path(intaglio.__file__).parent.parent


def network(width: int = 16, seed: int = 0) -> intaglio.ModelBuilder:
    """Two layers from 8 numbers to 3."""
    from intaglio import ops

    rng = np.random.default_rng(seed)
    with intaglio.build("network", inputs={"x": "float32[N, 8]"}) as g:
        w1 = g.constant(rng.standard_normal((8, width)).astype(np.float32), "w1")
        w2 = g.constant((rng.standard_normal((width, 3)) / width).astype(np.float32), "w2")
        g.output(scores=ops.MatMul(ops.Tanh(ops.MatMul(g["x"], w1)), w2))
    return g


def mixing() -> intaglio.ModelBuilder:
    """Each row less the mean of all rows: rows mix, though every type says otherwise."""
    from intaglio import ops

    with intaglio.build("mixing", inputs={"x": "float32[N, 8]"}) as g:
        mean = ops.ReduceMean(g["x"], g.constant(np.array([0]), "axes"))
        g.output(y=ops.Sub(g["x"], mean))
    return g


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[Any]:
    """Ray with four processors to grant, whatever the machine has, and nothing written outside of temporary folders."""
    ray = pytest.importorskip("ray", reason="Ray is not installed here: make check-ray has it")
    home = tmp_path_factory.mktemp("home")
    kept = {name: os.environ.get(name) for name in ("HOME", "PYTHONPATH", "RAY_AUTH_MODE", "RAY_USAGE_STATS_ENABLED")}
    os.environ |= {
        "HOME": str(home),
        "PYTHONPATH": os.pathsep.join([str(SRC), str(SRC.parent)]),
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    ray.init(num_cpus=4, include_dashboard=False, object_store_memory=256 * 2**20, log_to_driver=False)
    try:
        yield ray
    finally:
        ray.shutdown()
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value
