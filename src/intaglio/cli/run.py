"""`intaglio run`: run a model once or many times and show what comes out."""

from __future__ import annotations

import statistics
import time
from typing import Annotated, Any

from intaglio.cli import results
from intaglio.cli.arguments import make_inputs, parse_dims, read_inputs
from intaglio.cli.images import make_norm, parse_numbers
from intaglio.cli.options import Option, UsageError
from intaglio.cli.session import (
    DisableOption,
    ExactOption,
    LoadRequest,
    LoopLimit,
    MemoryLimit,
    NodeLimit,
    QuickOption,
    StrictOption,
    TimeLimit,
    load_timed,
    make_limits,
)
from intaglio.cli.terminal import (
    STANDARD,
    EngineOption,
    JsonOption,
    ModelArgument,
    ThreadsOption,
    print_json,
    print_table,
    print_text,
    seconds,
)
from intaglio.runtime.model.model import Model

InputOption = Annotated[
    list[str] | None,
    Option(
        "--input",
        "-i",
        metavar="NAME=VALUE",
        help="An input: a .npy, .npz or image file, - for standard input, or a value as JSON spells it, such as 3.5 "
        "or [[1, 2]]; may be repeated.",
    ),
]
OutputOption = Annotated[
    str | None,
    Option(
        "--output", "-o", metavar="FILE", help="Write the outputs to a .npz, .npy or .json file; - is .npz on stdout."
    ),
]
DimOption = Annotated[
    list[str] | None, Option("--dim", "-d", metavar="NAME=N", help="The size of a named dimension; may be repeated.")
]
TensorOption = Annotated[
    list[str] | None,
    Option("--tensor", metavar="NAME", help="Show this tensor instead of the outputs; may be repeated."),
]
MeanOption = Annotated[
    tuple[float, ...] | None,
    Option("--mean", metavar="M,M,M", parse=parse_numbers, help="Take this off the channels of images scaled to 0..1."),
]
StdOption = Annotated[
    tuple[float, ...] | None,
    Option("--std", metavar="S,S,S", parse=parse_numbers, help="Then divide the channels of images by this."),
]


def run(
    model: ModelArgument,
    inputs: InputOption = None,
    output: OutputOption = None,
    dims: DimOption = None,
    tensors: TensorOption = None,
    mean: MeanOption = None,
    std: StdOption = None,
    engine: EngineOption = None,
    threads: ThreadsOption = None,
    strict: StrictOption = False,
    exact: ExactOption = False,
    quick: QuickOption = False,
    disable: DisableOption = None,
    seed: Annotated[int, Option("--seed", least=0, help="Seed of the inputs that are made up.")] = 0,
    repeat: Annotated[int, Option("--repeat", least=1, help="Run so many times and show the median.")] = 1,
    timeout: Annotated[float | None, Option("--timeout", least=0, help="Seconds that one run may take.")] = None,
    memory_limit: MemoryLimit = None,
    time_limit: TimeLimit = None,
    loop_limit: LoopLimit = None,
    node_limit: NodeLimit = None,
    as_json: JsonOption = False,
) -> None:
    """Run a model and show its outputs.

    Inputs that are not given are made up from the signature: normal numbers for floats, valid indices or zeros and
    ones for integers. With --json, outputs are there with all their data.
    """
    _check_streams(model, inputs or [], output, as_json)
    sizes, norm = parse_dims(dims or ()), make_norm(mean, std)
    limits = make_limits(memory_limit, time_limit, loop_limit, node_limit)
    loaded, load_seconds = load_timed(
        model, LoadRequest(engine, threads, limits, strict, exact, quick, tuple(disable or ()))
    )
    given = read_inputs(loaded, inputs or (), norm)
    feeds = given | make_inputs(loaded, given, sizes, seed)
    found, times = _timed(loaded, feeds, tensors, timeout, repeat)
    if output is not None:
        results.save(found, output)
    report = {
        "model": model,
        "engine": loaded.options.engine,
        "threads": loaded.options.threads,
        "quick": loaded.options.quick,
        "inputs": [entry | {"is_random": entry["name"] not in given} for entry in results.summaries(feeds)],
        "outputs": results.reports(found) if as_json else results.summaries(found),
        "load_seconds": load_seconds,
        "run_seconds": times,
    }
    if as_json:
        print_json(report)
    elif output != STANDARD:
        _show(report)


def _check_streams(model: str, inputs: list[str], output: str | None, as_json: bool) -> None:
    """Each standard stream can serve one purpose; and nothing is run for a file that could not be written."""
    if [model, *(text.rpartition("=")[2] for text in inputs)].count(STANDARD) > 1:
        raise UsageError("standard input can be the model or one input, not several")
    if output == STANDARD and as_json:
        raise UsageError("--json and -o - both write to standard output; choose one")
    if output is not None:
        results.check_path(output)


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
        f"{', compiled quickly' if report['quick'] else ''}"
    )
