"""Tables for notebooks: what `_repr_html_` gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from intaglio.ir.graph import Graph, Node, Value
from intaglio.ir.types import TensorType

ROWS = 200
"""A table shows at most so many rows, and says how many more there are."""

_TABLE = "border-collapse:collapse;font-size:90%;margin:0.3em 0 0.8em 0"
_CELL = "text-align:{side};vertical-align:top;padding:1px 8px;{wrap}"
_SHORT = 24
"""Texts of so many characters stay in one line; longer ones are folded where the page is too narrow."""


def shown(text: object) -> str:
    """Text from a model as HTML: no markup, and what cannot be seen is escaped.

    >>> shown("<b>\\x1b")
    '&lt;b&gt;\\\\x1b'
    """
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in str(text))
    return escape(escaped)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; columns whose titles begin with `#` hold numbers."""
    sides = ["right" if title.startswith("#") else "left" for title in header]
    all_rows = list(rows)
    head = "".join(_cell("th", side, title.lstrip("#")) for title, side in zip(header, sides, strict=True))
    body = "".join(
        "<tr>" + "".join(_cell("td", side, cell) for cell, side in zip(row, sides, strict=True)) + "</tr>"
        for row in all_rows[:ROWS]
    )
    more = f"<tr><td colspan={len(header)}>and {len(all_rows) - ROWS} more</td></tr>" if len(all_rows) > ROWS else ""
    return f'<table style="{_TABLE}"><thead><tr>{head}</tr></thead><tbody>{body}{more}</tbody></table>'


def _cell(tag: str, side: str, text: object) -> str:
    is_short = len(str(text)) <= _SHORT
    wrap = "white-space:nowrap" if is_short else "min-width:12em;max-width:50em;overflow-wrap:anywhere"
    return f'<{tag} style="{_CELL.format(side=side, wrap=wrap)}">{shown(text)}</{tag}>'


def titled(title: str, *parts: str) -> str:
    """Parts below a title."""
    return f"<div><strong>{shown(title)}</strong>{''.join(parts)}</div>"


def line(text: str) -> str:
    """One line of text."""
    return f"<div>{shown(text)}</div>"


def graph_html(graph: Graph) -> str:
    """A graph: its signature, then its nodes; weights stand there as shapes."""
    ends = [("input", value.name, value.type, _default(value)) for value in graph.inputs]
    ends += [("output", value.name, value.type, "") for value in graph.outputs]
    nodes = [_node(number, node) for number, node in enumerate(graph.nodes)]
    return titled(
        f"graph {graph.name}: {len(nodes)} nodes",
        table(("", "name", "type", ""), ends),
        table(("#", "operator", "outputs", "inputs", "attributes"), nodes),
    )


def _default(value: Value) -> str:
    return "" if value.default is None else "has a default"


def _node(number: int, node: Node) -> tuple[object, ...]:
    from intaglio.ir.text import node_attributes

    operator = f"{node.op.domain}::{node.op.name}" if node.op.domain else node.op.name
    outputs = ", ".join(f"{value.name}: {value.type}" for value in node.outputs)
    inputs = ", ".join("_" if value is None else _input(value) for value in node.inputs)
    attributes = ", ".join(f"{name}={text}" for name, text in node_attributes(node))
    return number, operator, outputs, inputs, attributes


def _input(value: Value) -> str:
    """The name of what a node reads, and the shape where it is a weight."""
    if value.constant is None:
        return value.name
    small = value.constant.size == 1 and isinstance(value.type, TensorType)
    return f"{value.name} = {value.constant.reshape(-1)[0]}" if small else f"{value.name}: {value.type}"
