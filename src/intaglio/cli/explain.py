"""`intaglio explain`: how a model runs, and the C that it became."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from intaglio.cli.session import load_timed
from intaglio.cli.terminal import EngineOption, JsonOption, ModelArgument, ThreadsOption, print_json, print_text, tell
from intaglio.errors import InputError


def explain(
    model: ModelArgument,
    c_file: Annotated[
        str | None, typer.Option("--c", metavar="FILE", help="Write the generated C here; - is stdout.")
    ] = None,
    engine: EngineOption = None,
    threads: ThreadsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the kernels of a model in the order they run, what each computes, and what is not compiled and why."""
    loaded, _ = load_timed(model, engine, threads)
    if c_file == "-":
        typer.echo(loaded.c_source())
        return
    if c_file is not None:
        _write(c_file, loaded.c_source())
    print_json(loaded.explain().to_dict()) if as_json else print_text(str(loaded.explain()))


def _write(path: str, source: str) -> None:
    try:
        Path(path).write_text(source, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path!r} cannot be written: {error.strerror or error}") from None
    tell(f"{len(source.splitlines())} lines of C written to {path}")
