"""A difference as one page of HTML without scripts. Text of models is only ever text in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from intaglio.tools.diffing.difference import Difference

_STYLE = """
body{font:14px/1.5 Inter,'Helvetica Neue',Arial,sans-serif;margin:2rem auto;max-width:70rem;color:#1c2024}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;width:100%}
td,th{border-bottom:1px solid #d0d7de;padding:.3rem .6rem;text-align:left;vertical-align:top;overflow-wrap:anywhere}
.gone{background:#ffebe9}.new{background:#dafbe1}.moved{background:#fff8c5}code{font:12px ui-monospace,monospace}
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}td,th{border-color:#30363d}
.gone{background:#4b1113}.new{background:#12361c}.moved{background:#3b2e05}}
"""


def page(difference: Difference) -> str:
    """The page."""
    body = [f"<h1>{_text(difference.old)} → {_text(difference.new)}</h1>"]
    same = f"{difference.same_nodes:,} nodes and {difference.same_weights:,} tensors are the same."
    body.append(f"<p>{'The models are equal. ' if not difference else ''}{same}</p>")
    body += _section("Only in the old model", ["what"], [[each] for each in difference.removed], "gone")
    body += _section("Only in the new model", ["what"], [[each] for each in difference.added], "new")
    changes = [
        [f"{each.what} {each.where}", what, old, new] for each in difference.changed for what, old, new in each.changes
    ]
    body += _section("Changed", ["where", "what", "old", "new"], changes, "moved")
    weights = [
        [each.name, each.type, f"{each.largest:.3g}", f"{each.relative:.2%}", f"{each.count:,} of {each.total:,}"]
        for each in difference.weights
    ]
    body += _section(
        "Weights", ["tensor", "type", "largest difference", "of the largest", "elements"], weights, "moved"
    )
    body += _section("Model", ["what", "old", "new"], [list(each) for each in difference.model], "moved")
    body += _section("Not read", ["what"], [[each] for each in difference.unread], "gone")
    head = f'<meta charset="utf-8"><title>Difference of two models</title><style>{_STYLE}</style>'
    policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    return f'<!doctype html><html lang="en"><head>{policy}{head}</head><body>{"".join(body)}</body></html>\n'


def _section(title: str, columns: list[str], rows: Iterable[list[str]], style: str) -> Iterator[str]:
    lines = [
        f'<tr class="{style}">{"".join(f"<td><code>{_text(cell)}</code></td>" for cell in row)}</tr>' for row in rows
    ]
    if lines:
        yield f"<h2>{title} ({len(lines):,})</h2><table><tr>{''.join(f'<th>{name}</th>' for name in columns)}</tr>"
        yield from lines
        yield "</table>"


def _text(text: str) -> str:
    return escape("".join(c if c.isprintable() else "\ufffd" for c in text))
