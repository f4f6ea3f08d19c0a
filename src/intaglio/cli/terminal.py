"""What the commands share: where text goes, and how text from a model is made safe to show."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

_WIDTH_OF_FILES = 160
"""Columns where the output is no terminal."""


class EngineChoice(StrEnum):
    """The engines, for the option `--engine`."""

    native = "native"
    reference = "reference"


ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="Path of an ONNX model.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
EngineOption = Annotated[EngineChoice | None, typer.Option(help="The engine; default: $INTAGLIO_ENGINE, else native.")]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="Most threads of a run; default: all cores.")]


def console() -> Console:
    """Standard output, for data."""
    return _console(sys.stdout)


def error_console() -> Console:
    """Standard error, for progress and messages."""
    return _console(sys.stderr)


def _console(file: Any) -> Console:
    width = None if file.isatty() or "COLUMNS" in os.environ else _WIDTH_OF_FILES
    return Console(file=file, markup=False, highlight=False, emoji=False, width=width)


def shown(text: object) -> str:
    """Text from a model as it may be printed: control characters and the like become escapes, lines stay lines.

    >>> shown("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    return "\n".join(_printable_line(line) for line in str(text).split("\n"))


def _printable_line(line: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in line)


def tell(text: str) -> None:
    """A line for people on standard error."""
    error_console().print(Text(shown(text)))


def tell_error(text: str) -> None:
    """What went wrong, on standard error."""
    error_console().print(Text.assemble(("error: ", "bold red"), shown(text)), soft_wrap=True)


def print_json(data: Any) -> None:
    """Data on standard output; numbers that JSON lacks become null."""
    typer.echo(json.dumps(data, indent=2, allow_nan=False, default=str))


def print_text(text: str) -> None:
    """Text on standard output, in whole lines."""
    console().print(Text(shown(text)), soft_wrap=True)


def print_pairs(pairs: Iterable[tuple[str, object]]) -> None:
    """Names and values in two columns."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(Text(shown(name)), Text(shown(value)))
    console().print(table)


def print_table(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """A table with a title; columns whose names begin with `#` hold numbers."""
    table = Table(title=Text(shown(title)), title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        is_number = column.startswith("#")
        table.add_column(column.lstrip("#"), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(shown(cell)) for cell in row))
    console().print(table)


@contextmanager
def compiling() -> Generator[Callable[[int, int], None]]:
    """A progress bar on standard error for `load(progress=...)`, where that is a terminal."""
    target = error_console()
    columns = (TextColumn("compiling"), BarColumn(), MofNCompleteColumn(), TextColumn("functions"), TimeElapsedColumn())
    with Progress(*columns, console=target, transient=True, disable=not target.is_terminal) as bars:
        task = bars.add_task("compiling", total=None, visible=False)

        def progress(done: int, total: int) -> None:
            bars.update(task, completed=done, total=total, visible=True)

        yield progress


def seconds(value: float) -> str:
    """A time as people read it.

    >>> seconds(0.00123)
    '1.23 ms'
    """
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if value * factor >= 1 or unit == "us":
            return f"{value * factor:.3g} {unit}"
    return ""


def size(count: int) -> str:
    """Bytes as people read them.

    >>> size(1536)
    '1.5 KiB'
    """
    value, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.4g} {units[0]}"
