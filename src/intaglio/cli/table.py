"""Tables of text that fit a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

GAP = "  "
LEAST_WIDTH = 8
"""No column is made narrower than this."""

Style = Callable[[str], str]


def format_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], width: int, bold: Style = str, *, has_rule: bool = True
) -> list[str]:
    """Lines of a table, folded where it would be wider than `width`; `#` before a title sets numbers to the right.

    >>> print(*format_table(("name", "#size"), [("a", "5"), ("bc", "100")], 80), sep="\\n")
    name  size
    ──────────
    a        5
    bc     100
    """
    titles = [title.lstrip("#") for title in header]
    is_number = [title.startswith("#") for title in header]
    widths = _fitting([_column(i, [titles, *rows]) for i in range(len(titles))], width)
    lines = [bold(line) for line in _lines(titles, widths, is_number)] if has_rule else []
    if has_rule:
        lines.append("─" * (sum(widths) + len(GAP) * (len(widths) - 1)))
    return [*lines, *(line for row in rows for line in _lines(row, widths, is_number))]


def _column(index: int, rows: Sequence[Sequence[str]]) -> int:
    return max(text_width(line) for row in rows for line in row[index].split("\n"))


def _fitting(widths: list[int], width: int) -> list[int]:
    """The widths of columns, the widest made narrower until all fit."""
    room = width - len(GAP) * (len(widths) - 1)
    while sum(widths) > room and max(widths) > LEAST_WIDTH:
        widest = widths.index(max(widths))
        others = sum(widths) - widths[widest]
        second = max([LEAST_WIDTH, *(w for i, w in enumerate(widths) if i != widest and w < widths[widest])])
        widths[widest] = max(second, room - others) if second < widths[widest] else widths[widest] - 1
    return widths


def _lines(cells: Sequence[str], widths: Sequence[int], is_number: Sequence[bool]) -> list[str]:
    folded = [fold(cell, width) for cell, width in zip(cells, widths, strict=True)]
    lines: list[str] = []
    for index in range(max(map(len, folded), default=0)):
        parts = [cell[index] if index < len(cell) else "" for cell in folded]
        padded = [_pad(part, width, right) for part, width, right in zip(parts, widths, is_number, strict=True)]
        lines.append(GAP.join(padded).rstrip())
    return lines


def _pad(text: str, width: int, is_right: bool) -> str:
    space = " " * (width - text_width(text))
    return space + text if is_right else text + space


def fold(text: str, width: int) -> list[str]:
    """Text in lines of at most so many columns, cut at a space where there is one in the last half of the line.

    >>> fold("one two three", 9)
    ['one two', 'three']
    """
    lines: list[str] = []
    for part in text.split("\n"):
        while text_width(part) > width:
            end = _most(part, width)
            space = part.rfind(" ", end // 2, end + 1)
            cut = space if space > 0 else end
            lines.append(part[:cut].rstrip())
            part = part[cut:].lstrip() if space > 0 else part[cut:]
        lines.append(part)
    return lines


def _most(text: str, width: int) -> int:
    """How many characters fit, at least one."""
    taken = 0
    for index, char in enumerate(text):
        taken += text_width(char)
        if taken > width:
            return max(1, index)
    return len(text)


def text_width(text: str) -> int:
    """The columns that text takes on a terminal.

    >>> text_width("onyx"), text_width("瑪瑙")
    (4, 4)
    """
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
