"""`intaglio run`: run a model once or many times and show what comes out."""

from __future__ import annotations

import statistics
import time
from typing import Annotated, Any

import typer

from intaglio.cli import results
from intaglio.cli.arguments import make_inputs, parse_dims, read_inputs
from intaglio.cli.session import LoopLimit, MemoryLimit, NodeLimit, TimeLimit, load_timed, make_limits
from intaglio.cli.terminal import (
    EngineOption,
    JsonOption,
    ModelArgument,
    ThreadsOption,
    print_json,
    print_table,
    print_text,
    seconds,
)
from intaglio.runtime.model import Model

InputOption = Annotated[
    list[str] | None,
    typer.Option("--input", "-i", metavar="NAME=FILE", help="An input from .npy, .npz or an image; may be repeated."),
]
DimOption = Annotated[
    list[str] | None, typer.Option("--dim", "-d", metavar="NAME=N", help="The size of a named dimension.")
]
TensorOption = Annotated[
    list[str] | None, typer.Option("--tensor", metavar="NAME", help="Show this tensor instead of the outputs.")
]


def run(
    model: ModelArgument,
    inputs: InputOption = None,
    output: Annotated[str | None, typer.Option("--output", "-o", help="Write the outputs to this .npz file.")] = None,
    dims: DimOption = None,
    tensors: TensorOption = None,
    engine: EngineOption = None,
    threads: ThreadsOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the inputs that are made up.")] = 0,
    repeat: Annotated[int, typer.Option(min=1, help="Run so many times and show the median.")] = 1,
    timeout: Annotated[float | None, typer.Option(min=0, help="Seconds that one run may take.")] = None,
    memory_limit: MemoryLimit = None,
    time_limit: TimeLimit = None,
    loop_limit: LoopLimit = None,
    node_limit: NodeLimit = None,
    as_json: JsonOption = False,
) -> None:
    """Run a model and show its outputs.

    Inputs that are not given are made up from the signature: normal numbers for floats, valid indices or zeros and
    ones for integers.
    """
    sizes = parse_dims(dims or ())
    limits = make_limits(memory_limit, time_limit, loop_limit, node_limit)
    loaded, load_seconds = load_timed(model, engine, threads, limits)
    given = read_inputs(loaded, inputs or ())
    feeds = given | make_inputs(loaded, given, sizes, seed)
    found, times = _timed(loaded, feeds, tensors, timeout, repeat)
    if output is not None:
        results.save(found, output)
    report = {
        "model": model,
        "engine": loaded.options.engine,
        "threads": loaded.options.threads,
        "inputs": [entry | {"is_random": entry["name"] not in given} for entry in results.summaries(feeds)],
        "outputs": results.summaries(found),
        "load_seconds": load_seconds,
        "run_seconds": times,
    }
    print_json(report) if as_json else _show(report)


def _timed(
    model: Model, feeds: dict[str, Any], tensors: list[str] | None, timeout: float | None, repeat: int
) -> tuple[dict[str, Any], list[float]]:
    found: dict[str, Any] = {}
    times: list[float] = []
    for _ in range(repeat):
        start = time.perf_counter()
        found = model.run(feeds, outputs=tensors or None, timeout=timeout)
        times.append(time.perf_counter() - start)
    return found, times


def _show(report: dict[str, Any]) -> None:
    rows = [[*results.row(entry)[:6], "random" if entry["is_random"] else "given"] for entry in report["inputs"]]
    if rows:
        print_table("Inputs", ("input", "type", "shape", "#min", "#mean", "#max", "values"), rows)
    print_table("Outputs", results.COLUMNS, [results.row(entry) for entry in report["outputs"]])
    times = report["run_seconds"]
    runs = "" if len(times) == 1 else f", median of {len(times)} (best {seconds(min(times))})"
    print_text(
        f"run {seconds(statistics.median(times))}{runs}; load {seconds(report['load_seconds'])}; "
        f"{report['engine']} engine, {report['threads']} thread{'s' if report['threads'] > 1 else ''}"
    )
