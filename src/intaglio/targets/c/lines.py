"""Lines of generated C: their width, their indentation, and comments that nothing in a model can break out of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

WIDTH = 120
"""Columns of the text; what stands far inside of loops is folded at its spaces."""


def filled(start: str, items: Sequence[str], end: str) -> list[str]:
    """Lines of items with commas between them."""
    lines, indent = [start], " " * 4 * (1 + (len(start) - len(start.lstrip())) // 4)
    for place, item in enumerate(items):
        part = item + (end if place + 1 == len(items) else ",")
        is_first = lines[-1] in (start, indent)
        if len(lines[-1]) + len(part) + 1 > WIDTH - 16 and not is_first:
            lines.append(indent if start.strip() else start)
            is_first = True
        lines[-1] += part if is_first else " " + part
    return lines


def folded_line(line: str, *, at_commas: bool = False) -> Iterator[str]:
    """A line in pieces of at most so many columns, cut where spaces stand; behind commas, where there are such."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    while len(line) > WIDTH:
        place = line.rfind(" ", len(indent), WIDTH + 1)
        if at_commas:
            place = max(line.rfind(", ", WIDTH // 2, WIDTH) + 1, 0) or place
        cut = place if place >= 0 else line.rfind("(", len(indent), WIDTH) + 1 or line.find(" ", WIDTH)
        if cut <= 0 or line.lstrip().startswith("#"):
            break
        yield line[:cut]
        line = indent + line[cut:].lstrip()
    yield line


def narrowed(text: str) -> str:
    """A text whose lines keep to the width: function names that only a whole file knows have made some longer.

    Lines of the preprocessor stay as they are.
    """
    lines = text.split("\n")
    return "\n".join(
        part for line in lines for part in (folded_line(line, at_commas=True) if not line.endswith("\\") else (line,))
    )


def indented(lines: Sequence[str]) -> list[str]:
    """Lines one level deeper."""
    return [f"    {line}" for line in lines]


def comment(text: str) -> str:
    """Any text made safe for the inside of a C comment: one line of plain ASCII that cannot end it."""
    plain = "".join(c if " " <= c <= "~" and c not in "\\?" else "." for c in text)
    return plain.replace("*/", "* /").replace("/*", "/ *")[:200]
