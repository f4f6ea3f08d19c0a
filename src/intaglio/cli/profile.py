"""`intaglio profile`: where the time of a model's runs goes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from intaglio.cli.arguments import make_inputs, parse_dims, read_inputs
from intaglio.cli.options import Option, UsageError
from intaglio.cli.run import DimOption, InputOption
from intaglio.cli.session import DisableOption, ExactOption, LoadRequest, load_timed
from intaglio.cli.terminal import (
    STANDARD,
    JsonOption,
    ModelArgument,
    ThreadsOption,
    counting,
    print_json,
    print_table,
    print_text,
    tell,
)
from intaglio.errors import InputError

File = str | None


def profile_model(
    model: ModelArgument,
    inputs: InputOption = None,
    dims: DimOption = None,
    runs: Annotated[int, Option("--runs", least=1, help="How many runs are counted, after a few that are not.")] = 20,
    rows: Annotated[int, Option("--rows", least=1, help="How many rows the table has; files have all.")] = 25,
    threads: ThreadsOption = None,
    exact: ExactOption = False,
    disable: DisableOption = None,
    seed: Annotated[int, Option("--seed", least=0, help="Seed of the inputs that are made up.")] = 0,
    output: Annotated[
        File, Option("--output", "-o", metavar="FILE", help="Write the profile as JSON, for --against.")
    ] = None,
    trace: Annotated[
        File, Option("--trace", metavar="FILE", help="Write single times for about:tracing or ui.perfetto.dev.")
    ] = None,
    html: Annotated[File, Option("--html", metavar="FILE", help="Write a page that needs nothing else.")] = None,
    against: Annotated[
        File, Option("--against", metavar="FILE", help="Compare with a profile that -o wrote before.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show where the time of a model's runs goes: kernel by kernel, and how near each is to the machine's limit.

    Inputs that are not given are made up, as `intaglio run` does. The limit is what arithmetic and memory allow at
    most; it is measured once and kept in the cache folder. A kernel whose data is in a cache may be above it.
    """
    from intaglio.tools.profiling import profile, read_profile

    _check_streams(as_json, output, trace, html)
    before = None if against is None else read_profile(against)
    sizes = parse_dims(dims or ())
    loaded, _ = load_timed(model, LoadRequest(None, threads, None, False, exact, disable=tuple(disable or ())))
    given = read_inputs(loaded, inputs or ())
    feeds = given | make_inputs(loaded, given, sizes, seed)
    with counting() as begin:
        found = profile(loaded, feeds, runs, progress=begin("runs") if sys.stderr.isatty() else None)
    _write_all({output: found.to_json, trace: found.trace, html: lambda: found.html(before)})
    if as_json:
        print_json(found.to_dict())
    elif STANDARD not in (output, trace, html):
        _show(found, before, rows)


def _check_streams(as_json: bool, *files: File) -> None:
    if [*files, STANDARD if as_json else None].count(STANDARD) > 1:
        raise UsageError("only one of --json, -o, --trace and --html can be written to standard output")
    paths = [path for path in files if path not in (None, STANDARD)]
    if len(set(paths)) < len(paths):
        raise UsageError("-o, --trace and --html write one file each; two of them have the same name")


def _write_all(texts: dict[File, Any]) -> None:
    for path, make in texts.items():
        if path is None:
            continue
        if path == STANDARD:
            print(make())
            continue
        try:
            Path(path).write_text(make(), encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path!r} cannot be written: {error.strerror or error}") from None
        tell(f"written to {path}")


def _show(found: Any, before: Any, rows: int) -> None:
    from intaglio.tools.profiling.record import AGAINST, COLUMNS

    if before is None:
        print_table("Where the time goes", COLUMNS, found.cells(rows))
    else:
        print_table("Before and now", AGAINST, found.against(before)[: rows + 1])
    print_text(found.summary())
