"""A profile as a page that needs nothing else: times as bars, a timeline of one run, memory over time, the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from intaglio.ir.html import shown
from intaglio.tools.profiling.record import AGAINST, COLUMNS, Profile, bytes_text, seconds_text

WIDTH, HEIGHT = 1000, 120
"""The size of a chart, in pixels."""
HUES = {"kernel": "#3b6ea5", "host": "#c0504d", "driver": "#8a8a8a", "shape": "#7ba05b", "size": "#7ba05b"}
"""The colours of kinds."""

_STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 1240px; padding: 0 1em; color: #222;
  background: #fff }
h1 { font-size: 1.4em } h2 { font-size: 1.1em; margin-top: 1.8em }
table { border-collapse: collapse; width: 100%; font-size: 13px }
th { text-align: left; border-bottom: 1px solid #999; padding: 3px 8px; position: sticky; top: 0; background: #fff }
td { border-bottom: 1px solid #eee; padding: 2px 8px; vertical-align: top; white-space: nowrap }
td:last-child { white-space: normal; overflow-wrap: anywhere }
.number { text-align: right }
.bar { display: inline-block; height: 0.7em; margin-right: 6px; vertical-align: middle }
.nodes { color: #777; font-size: 12px }
svg { display: block; width: 100%; height: auto; background: #f7f7f7 }
svg text { font: 11px system-ui, sans-serif; fill: #555 }
.legend span { margin-right: 1.2em }
"""


def page(profile: Profile, before: Profile | None = None) -> str:
    """The whole page."""
    parts = [f"<h1>{shown(profile.name or 'model')}</h1>", *(f"<div>{shown(line)}</div>" for line in
             profile.summary().splitlines())]  # fmt: skip
    parts += ["<h2>Where the time goes</h2>", _legend(profile), _timeline(profile)]
    parts += ["<h2>Memory between kernels</h2>", _memory(profile)]
    if before is not None:
        parts += ["<h2>Compared with the profile before</h2>", _table(AGAINST, profile.against(before))]
    parts += ["<h2>All that runs</h2>", table_html(profile, None)]
    body = "\n".join(part for part in parts if part)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Profile of '
        f"{shown(profile.name or 'model')}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def table_html(profile: Profile, most: int | None) -> str:
    """The table of rows, the slowest first, each with a bar for its share."""
    rows = profile.slowest[:most]
    largest = max((row.seconds for row in rows), default=0.0) or 1.0
    extra = [
        (f'<span class="bar" style="width:{60 * row.seconds / largest:.1f}px;background:{_hue(row.kind)}"></span>',
         f'<div class="nodes">{shown(", ".join(row.nodes))}</div>' if row.nodes else "")
        for row in rows
    ]  # fmt: skip
    return _table(COLUMNS, profile.cells(most)[: len(rows)], extra)


def _table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], extra: Sequence[tuple[str, str]] | None = None
) -> str:
    """A table; `extra` has what stands in front of the first and behind the last cell of each row, as HTML."""
    classes = [' class="number"' if title.startswith("#") else "" for title in columns]
    head = "".join(f"<th{kind}>{shown(title.lstrip('#'))}</th>" for title, kind in zip(columns, classes, strict=True))
    lines: list[str] = []
    for place, row in enumerate(rows):
        first, last = extra[place] if extra else ("", "")
        cells = [f"<td{kind}>{shown(cell)}</td>" for cell, kind in zip(row, classes, strict=True)]
        cells[0] = cells[0].replace(">", f">{first}", 1)
        cells[-1] = cells[-1].removesuffix("</td>") + f"{last}</td>"
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _hue(kind: str) -> str:
    return HUES.get(kind, "#8a8a8a")


def _legend(profile: Profile) -> str:
    kinds = dict.fromkeys(row.kind for row in profile.rows)
    marks = [
        f'<span><span class="bar" style="width:12px;background:{_hue(kind)}"></span>{shown(kind)}</span>'
        for kind in kinds
    ]
    return f'<p class="legend">{"".join(marks)}</p>'


def _timeline(profile: Profile) -> str:
    """The mean run as a strip: a box for each row, in the order of the plan, as wide as its share."""
    total = sum(row.seconds for row in profile.rows)
    if not total:
        return ""
    boxes: list[str] = []
    at = 0.0
    for place, row in enumerate(profile.rows):
        width = WIDTH * row.seconds / total
        label = f"{row.title}: {seconds_text(row.seconds)}"
        boxes.append(
            f'<rect x="{at:.2f}" y="0" width="{max(width, 0.2):.2f}" height="44" fill="{_hue(row.kind)}" '
            f'fill-opacity="{0.95 if place % 2 else 0.7}"><title>{shown(label)}</title></rect>'
        )
        if width > 60:
            name = "+".join(row.operators) or row.kind
            boxes.append(f'<text x="{at + 4:.2f}" y="26" style="fill:#fff">{shown(name[: int(width / 7)])}</text>')
        at += width
    return _svg(boxes, 64, f"0 to {seconds_text(total)} of kernels, in the order of the plan")


def _memory(profile: Profile) -> str:
    """What the arena holds during each kernel, over the mean time of the run."""
    steps = [(row.seconds, row.live) for row in profile.rows if row.live is not None]
    most, total = max((live for _, live in steps), default=0), sum(time for time, _ in steps)
    if not most or not total:
        return "<p>Nothing lies in the arena.</p>"
    at, points = 0.0, ["0,100"]
    for time, live in steps:
        y = 100 - 95 * live / most
        points.append(f"{at:.2f},{y:.2f}")
        at += WIDTH * time / total
        points.append(f"{at:.2f},{y:.2f}")
    shape = f'<polygon points="{" ".join([*points, f"{WIDTH},100"])}" fill="#7ba05b" fill-opacity="0.6"/>'
    return _svg([shape], HEIGHT, f"at most {bytes_text(most)} over {seconds_text(total)}")


def _svg(parts: Sequence[Any], height: int, note: str) -> str:
    text = f'<text x="4" y="{height - 5}">{shown(note)}</text>'
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}{text}</svg>'
