"""Loading a model for a command."""

from __future__ import annotations

import re
import time
from typing import Annotated

import typer

from intaglio.cli.terminal import EngineChoice, compiling
from intaglio.ir.limits import Limits
from intaglio.runtime.model import Model, load

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

MemoryLimit = Annotated[
    str | None,
    typer.Option("--memory-limit", metavar="BYTES", help="Most memory of weights and a run, such as 512M or 2G."),
]
TimeLimit = Annotated[float | None, typer.Option("--time-limit", help="Seconds that loading and each run may take.")]
LoopLimit = Annotated[int | None, typer.Option("--loop-limit", min=1, help="Most rounds of a Loop or Scan.")]
NodeLimit = Annotated[int | None, typer.Option("--node-limit", min=1, help="Most nodes, expansions counted in.")]


def parse_bytes(text: str) -> int:
    """A number of bytes, with K, M, G or T for powers of 1024.

    >>> parse_bytes("1.5K")
    1536
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE | re.ASCII)
    if match is None:
        raise typer.BadParameter(f"{text!r} is no number of bytes, such as 512M", param_hint="--memory-limit")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def make_limits(memory: str | None, seconds: float | None, rounds: int | None, nodes: int | None) -> Limits:
    """Limits from options, with the defaults for those that are not given."""
    standard = Limits()
    return Limits(
        standard.memory if memory is None else parse_bytes(memory),
        seconds,
        standard.loop_iterations if rounds is None else rounds,
        standard.nodes if nodes is None else nodes,
    )


def load_timed(
    model: str, engine: EngineChoice | None, threads: int | None = None, limits: Limits | None = None
) -> tuple[Model, float]:
    """A model with a progress bar, and the seconds it took."""
    start = time.perf_counter()
    with compiling() as progress:
        name = engine.value if engine else None
        loaded = load(model, engine=name, threads=threads, progress=progress, limits=limits)
    return loaded, time.perf_counter() - start
