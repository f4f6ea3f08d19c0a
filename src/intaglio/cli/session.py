"""Loading a model for a command."""

from __future__ import annotations

import time

from intaglio.cli.terminal import EngineChoice, compiling
from intaglio.runtime.model import Model, load


def load_timed(model: str, engine: EngineChoice | None, threads: int | None = None) -> tuple[Model, float]:
    """A model with a progress bar, and the seconds it took."""
    start = time.perf_counter()
    with compiling() as progress:
        loaded = load(model, engine=engine.value if engine else None, threads=threads, progress=progress)
    return loaded, time.perf_counter() - start
