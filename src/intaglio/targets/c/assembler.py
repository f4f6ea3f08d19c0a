"""Statements of a driver under construction: sizes, checks and blocks, put together before they become lines of C."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

from intaglio.ir.dim import Dim
from intaglio.targets.c.size_text import Variables, dim_text, size_text

_Item = str | tuple[str, ...]
"""A line, or the symbols that were given values at its place."""


class Assembler:
    """Statements in order, each with its depth.

    The assembler prints the sizes that statements use. It knows which of them can overflow, and which functions of
    sizes are to be computed anew where a symbol is given a value: `check` and `settle` stand where that matters.
    """

    def __init__(self, names: Variables, overflow_status: str) -> None:
        self.names = names
        self._stop = ["if (overflow)", f"    return {overflow_status};"]
        self._items: list[tuple[int, _Item]] = []
        self._depth = 0
        self._is_unsure = False
        self.has_checks = False
        """Whether a statement looks at `overflow`, or may; known once `lines` was called."""

    def add(self, *lines: str) -> None:
        """Add statements as they are."""
        self._items += [(self._depth, line) for line in lines]

    @contextmanager
    def block(self, head: str = "{", tail: str = "}") -> Generator[None]:
        """Add a block; what is added meanwhile stands inside of it. A `tail` of nothing is left out."""
        self.add(head)
        self._depth += 1
        yield
        self._depth -= 1
        if tail:
            self.add(tail)

    def refuse(self, condition: str, status: str) -> None:
        """Add a return for where a condition holds."""
        self.add(f"if ({condition})", f"    return {status};")

    def dim(self, dim: Dim) -> str:
        """The text of a size for the next statement, which `check` follows."""
        self._is_unsure |= self.names.can_overflow(dim)
        return dim_text(dim, self.names)

    def size(self, size: Dim) -> str:
        """The text of a size that is brought near where it is a number beyond all memory."""
        self._is_unsure |= self.names.can_overflow(size)
        return size_text(size, self.names)

    def check(self) -> None:
        """Add a return for where a size since the last check did overflow, if one of them can."""
        if self._is_unsure:
            self.add(*self._stop)
            self.has_checks = True
        self._is_unsure = False

    def settle(self, names: Sequence[str]) -> None:
        """Have all functions of these symbols, which were just given values, computed here; what they are is known
        when the whole driver is."""
        self._items.append((self._depth, tuple(names)))

    def lines(self) -> Iterator[str]:
        """All statements."""
        for depth, item in self._items:
            for line in (item,) if isinstance(item, str) else self._settled(item):
                yield "    " * depth + line

    def _settled(self, names: Sequence[str]) -> list[str]:
        lines, can_overflow = self.names.settled(names)
        self.has_checks |= can_overflow
        return [*lines, *self._stop] if can_overflow else lines
