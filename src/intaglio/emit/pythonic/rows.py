"""Rows that rounds of a loop stack, and the sizes that they have where there is no round."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from intaglio.emit.pythonic.block import Site, Statement, UnprintableError, Writer, indented, lines_of, needed
from intaglio.ir.dim import Symbol, lone_atom
from intaglio.ir.graph import Graph, Value
from intaglio.ir.types import TensorType


@dataclass
class Rounds:
    """The body of a loop as it is written, with what is known of the first round before it begins.

    `sizes` has the symbols that are known then; `starts` has, by their names, the lines that give a first round what
    only rounds give a value.
    """

    graph: Graph
    inner: Writer
    sizes: dict[str, tuple[str, Value]]
    starts: dict[str, str] = field(default_factory=dict[str, str])

    def tell(self, value: Value, axis: int, text: str, source: Value) -> None:
        """Note that a size of one of the body's inputs is `text`, which reads `source`."""
        atom = lone_atom(value.tensor.shape[axis]) if value.tensor.shape is not None else None
        if isinstance(atom, Symbol):
            self.sizes.setdefault(atom.name, (text, source))


def stacked_rows(
    site: Site, rounds: Rounds, value: Value, row: Value, names: tuple[str, str], more: Sequence[str] = ()
) -> list[str]:
    """The lines that stack rows to a value; `names` are those of the list of rows and of the row inside of the body."""
    stack, text = names
    lines, shape = _shape(site, rounds, row, stack.removesuffix("[::-1]"), text)
    name = site.writer.declare(value)
    call = site.call("stack_rows", *_module(site), stack, shape, site.dtype(row.dtype), *more)
    return [*lines, f"{name} = {call}"]


def _module(site: Site) -> list[str]:
    return ["xp"] if "xp" in site.writer.language.reserved else []


def _shape(site: Site, rounds: Rounds, row: Value, stack: str, text: str) -> tuple[list[str], str]:
    """The shape of a row where no round gives one, and the lines that it needs."""
    sizes = _sizes(site, rounds, row)
    if None not in sizes and row.tensor.shape is not None:
        return [], _tuple(sizes)
    kept = needed(rounds.inner.statements, [row])
    if not _has_open_rank(row, kept):
        return [], _tuple(sizes)
    return _first_round(site, rounds, lines_of(kept), stack, text)


def _first_round(site: Site, rounds: Rounds, lines: list[str], stack: str, text: str) -> tuple[list[str], str]:
    """The shape of a row as a first round makes it; lines that fail there leave it without axes."""
    shape = f"{text}.shape" if text.isidentifier() else f"({text}).shape"
    if not lines:
        return [], shape
    starts = [line for name, line in rounds.starts.items() if any(re.search(rf"\b{name}\b", each) for each in lines)]
    name = site.writer.names.give(f"{stack.removesuffix('_rows')}_shape")
    tried = ["with contextlib.suppress(Exception):", *indented([*starts, *lines, f"{name} = {shape}"])]
    return [f"{name} = ()", f"if not {stack}:  # the sizes that a first round gives", *indented(tried)], name


def _sizes(site: Site, rounds: Rounds, row: Value) -> list[str | None]:
    """The sizes of a row as a first round would have them; None where that is not known before it has run."""
    found: list[str | None] = []
    for size in row.tensor.shape or ():
        writer = site.writer.nested()
        writer.symbols = rounds.sizes
        try:
            found.append(writer.size(size))
            site.writer.reads |= writer.reads - set(rounds.graph.inputs)
        except UnprintableError:
            found.append(None)
    return found


def _tuple(sizes: Sequence[str | None]) -> str:
    items = ["0" if size is None else size for size in sizes]
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def _has_open_rank(row: Value, statements: Sequence[Statement]) -> bool:
    """Whether a rank is open among what a row is made of: its sizes have no names then."""
    values = {row}.union(*(statement.reads.union(statement.gives) for statement in statements))
    return any(isinstance(value.type, TensorType) and value.type.shape is None for value in values)
