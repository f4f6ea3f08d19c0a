"""`intaglio bench`: how fast a model is here and elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from intaglio.cli.arguments import parse_dims, read_inputs
from intaglio.cli.compare import AtolOption, RtolOption, quiet_counter
from intaglio.cli.options import Argument, Option
from intaglio.cli.run import DimOption, InputOption
from intaglio.cli.session import source_of
from intaglio.cli.terminal import JsonOption, counting, print_json, print_table, print_text, seconds, size
from intaglio.errors import InputError
from intaglio.runtime.model.loading import load

if TYPE_CHECKING:
    from intaglio.tools.timing import Row, Timing


def _numbers(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise InputError(f"{text!r} is no list of numbers such as 1,8,32")
    return tuple(map(int, parts))


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip() not in ("", "none"))


def bench(
    model: Annotated[str, Argument("MODEL", "Path of an ONNX model; - is standard input.")],
    against: Annotated[
        tuple[str, ...] | None,
        Option(
            "--against",
            metavar="ENGINES",
            parse=_names,
            help="ort, openvino, reference, separated by commas, or none; default: all others that are installed.",
        ),
    ] = None,
    batches: Annotated[
        tuple[int, ...], Option("--batch", metavar="N,N", parse=_numbers, help="Sizes of the first axis of inputs.")
    ] = (),
    threads: Annotated[
        tuple[int, ...],
        Option("--threads", metavar="N,N", parse=_numbers, help="Numbers of threads; default: all cores."),
    ] = (),
    inputs: InputOption = None,
    dims: DimOption = None,
    seed: Annotated[int, Option("--seed", least=0, help="Seed of the inputs that are made up.")] = 0,
    rounds: Annotated[int, Option("--rounds", least=1, help="How often the engines take turns.")] = 5,
    turn: Annotated[float, Option("--seconds", least=0, help="Seconds of each turn.")] = 0.3,
    rtol: RtolOption = None,
    atol: AtolOption = None,
    as_json: JsonOption = False,
) -> int:
    """Time a model here and with other engines: latency, percentiles, throughput and memory.

    Each engine runs in a process of its own, and they take turns. Outputs are compared with Intaglio's; exits with 1
    where they differ.
    """
    from intaglio.tools.comparing.tolerances import parse_tolerances
    from intaglio.tools.timing import bench as bench_model

    source = source_of(model)
    given = read_inputs(load(source, engine="reference", simplify=False), inputs) if inputs else None
    with counting() as begin:
        found = bench_model(
            source,
            against=against,
            batches=batches,
            threads=threads,
            feeds=given,
            dims=parse_dims(dims or ()),
            seed=seed,
            rounds=rounds,
            seconds=turn,
            tolerances=parse_tolerances(rtol or (), atol or ()),
            progress=quiet_counter(begin),
        )
    print_json({"model": model, **found.to_dict()}) if as_json else _show(found)
    return 0 if found.is_agreed else 1


COLUMNS = (
    "engine",
    "#batch",
    "#threads",
    "#median",
    "#p90",
    "#p99",
    "#best",
    "#a second",
    "#load",
    "#memory",
    "outputs",
)


def _show(found: Timing) -> None:
    print_table("Times of a run", COLUMNS, [_row(row) for row in found.rows])
    for row in found.rows:
        if row.failure or row.difference:
            print_text(f"{row.title}: {row.failure or row.difference}")


def _row(row: Row) -> list[str]:
    name, batch = f"{row.title} {row.version}", "" if row.batch is None else str(row.batch)
    if row.failure:
        return [name, batch, str(row.threads), *[""] * 7, "failed"]
    times = [seconds(value) for value in (row.median, row.p90, row.p99, row.least)]
    verdict = "differ" if row.difference else "agree"
    return [
        name,
        batch,
        str(row.threads),
        *times,
        f"{row.throughput:.4g}",
        seconds(row.load_seconds),
        size(row.memory),
        verdict,
    ]
