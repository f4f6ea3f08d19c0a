"""Loading a model for a command."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from intaglio.cli.options import Option
from intaglio.cli.terminal import STANDARD, EngineChoice
from intaglio.errors import InputError, LoadError
from intaglio.ir.limits import Limits, parse_bytes
from intaglio.runtime.model.loading import load
from intaglio.runtime.model.model import Model

MemoryLimit = Annotated[
    int | None,
    Option("--memory-limit", metavar="BYTES", parse=parse_bytes, help="Most memory of weights and a run, such as 2G."),
]
TimeLimit = Annotated[float | None, Option("--time-limit", help="Seconds that loading and each run may take.")]
LoopLimit = Annotated[int | None, Option("--loop-limit", least=1, help="Most rounds of a Loop or Scan.")]
NodeLimit = Annotated[int | None, Option("--node-limit", least=1, help="Most nodes, expansions counted in.")]

StrictOption = Annotated[bool, Option("--strict", help="Refuse a model of which a node cannot be compiled.")]
ExactOption = Annotated[bool, Option("--exact", help="Leave out the passes that can change rounding.")]
DeviceOption = Annotated[
    str, Option("--device", metavar="DEVICE", help="What the model runs on: cpu, cuda or cuda:NUMBER.")
]
Tf32Option = Annotated[
    bool, Option("--tf32", help="Let a CUDA device round the operands of products of single precision: faster.")
]
QuickOption = Annotated[bool, Option("--quick", help="Let the C compiler do less: sooner ready, slightly slower runs.")]
DonateOption = Annotated[
    list[str] | None,
    Option(
        "--donate",
        metavar="INPUT=OUTPUT",
        help="Let this output take the memory of this input, of the same type and shape; may be repeated.",
    ),
]
DisableOption = Annotated[
    list[str] | None, Option("--disable", metavar="PASS", help="Leave out this pass; may be repeated.")
]


def source_of(model: str) -> str | bytes:
    """What a command's MODEL names: a path, or the bytes on standard input."""
    if model != STANDARD:
        return model
    found = sys.stdin.buffer.read()
    if not found:
        raise LoadError("standard input is empty, so not a model")
    return found


def make_limits(memory: int | None, seconds: float | None, rounds: int | None, nodes: int | None) -> Limits:
    """Limits from options, with the defaults for those that are not given."""
    given = {"memory": memory, "time": seconds, "loop_iterations": rounds, "nodes": nodes}
    return Limits(**{name: value for name, value in given.items() if value is not None})  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class LoadRequest:
    """How a command wants its model loaded."""

    engine: EngineChoice | None = None
    threads: int | None = None
    limits: Limits | None = None
    strict: bool = False
    exact: bool = False
    quick: bool = False
    disable: tuple[str, ...] = ()
    device: str = "cpu"
    tf32: bool = False
    donate: tuple[str, ...] = ()


def parse_donated(texts: Sequence[str]) -> dict[str, str]:
    """What `--donate` was given, each an input and an output; raises InputError for what is not."""
    pairs = [text.partition("=") for text in texts]
    for text, (given, _, made) in zip(texts, pairs, strict=True):
        if not given or not made:
            raise InputError(f"--donate {text!r}: expected the name of an input, =, and the name of an output")
    return {given: made for given, _, made in pairs}


def load_timed(model: str, request: LoadRequest) -> tuple[Model, float]:
    """A model, and the seconds it took."""
    start = time.perf_counter()
    loaded = load(
        source_of(model),
        engine=request.engine.value if request.engine else None,
        threads=request.threads,
        limits=request.limits,
        strict=request.strict,
        exact=request.exact,
        quick=request.quick,
        disable=request.disable,
        device=request.device,
        tf32=request.tf32,
        donate=parse_donated(request.donate),
    )
    return loaded, time.perf_counter() - start
