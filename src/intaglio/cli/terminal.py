"""What the commands share: where text goes, and how text from a model is made safe to show."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any, TextIO, cast

from intaglio.cli.options import Argument, Option
from intaglio.cli.table import format_table

_WIDTH_OF_FILES = 160
"""Columns where the output is no terminal."""

STANDARD = "-"
"""Instead of a file: standard input or output."""


class EngineChoice(StrEnum):
    """The engines, for the option `--engine`."""

    native = "native"
    reference = "reference"


ModelArgument = Annotated[str, Argument("MODEL", "Path of an ONNX model or a compiled one; - is standard input.")]
JsonOption = Annotated[bool, Option("--json", help="Print the result, or the error, as JSON.")]
EngineOption = Annotated[
    EngineChoice | None, Option("--engine", help="The engine; default: $INTAGLIO_ENGINE, else native.")
]
ThreadsOption = Annotated[
    int | None, Option("--threads", metavar="N", least=1, help="Most threads of a run; default: all cores.")
]


def _has_colour(file: TextIO) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return file.isatty() and os.environ.get("TERM") != "dumb"


def _styled(code: str, file: TextIO) -> Callable[[str], str]:
    """Text in a style where the file shows styles."""
    return (lambda text: f"\x1b[{code}m{text}\x1b[0m") if _has_colour(file) else str


def _width() -> int:
    """The columns of standard output."""
    is_known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return shutil.get_terminal_size().columns if is_known else _WIDTH_OF_FILES


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
    print(shown(text), file=sys.stderr)


def tell_error(text: str) -> None:
    """What went wrong, on standard error."""
    print(_styled("1;31", sys.stderr)("error: ") + shown(text), file=sys.stderr)


def print_json(data: Any) -> None:
    """Data on standard output."""
    print(to_json(data))


def to_json(data: Any, depth: int = 0) -> str:
    """Data as JSON, a list of plain values in one line.

    >>> print(to_json({"shape": [1, 3], "rows": [[1, 2], [3, 4]]}))
    {
      "shape": [1, 3],
      "rows": [
        [1, 2],
        [3, 4]
      ]
    }
    """
    begin, end = "\n" + "  " * (depth + 1), "\n" + "  " * depth
    if isinstance(data, dict) and data:
        items = cast("dict[Any, Any]", data).items()
        parts = [f"{json.dumps(str(key))}: {to_json(value, depth + 1)}" for key, value in items]
        return "{" + begin + f",{begin}".join(parts) + end + "}"
    if isinstance(data, (list, tuple)) and any(
        isinstance(item, (dict, list, tuple)) for item in cast("list[Any]", data)
    ):
        parts = [to_json(item, depth + 1) for item in cast("list[Any]", data)]
        return "[" + begin + f",{begin}".join(parts) + end + "]"
    return json.dumps(data, allow_nan=False, default=str)


def print_text(text: str) -> None:
    """Text on standard output, in whole lines."""
    print(shown(text))


def print_pairs(pairs: Iterable[tuple[str, object]]) -> None:
    """Names and values in two columns."""
    rows = [(shown(name), shown(value)) for name, value in pairs]
    print("\n".join(format_table(("", ""), rows, _width(), has_rule=False)))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """A table with a title; columns whose names begin with `#` hold numbers."""
    bold = _styled("1", sys.stdout)
    cells = [[shown(cell) for cell in row] for row in rows]
    print("\n".join([bold(shown(title)), *format_table(columns, cells, _width(), bold), ""]))


@contextmanager
def counting() -> Generator[Callable[[str], Callable[[int, int], None]]]:
    """A line on standard error that counts, where that is a terminal; else only what is counted is told.

    Gives a function that begins to count something, and which gives another one for how many of how many are done.
    """
    is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def begin(description: str) -> Callable[[int, int], None]:
        if not is_terminal:
            tell(description)
            return lambda done, total: None
        return lambda done, total: print(f"\r\x1b[K{shown(description)} {done}/{total}", end="", file=sys.stderr)

    try:
        yield begin
    finally:
        if is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


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
