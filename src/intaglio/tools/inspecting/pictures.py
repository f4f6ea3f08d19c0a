"""Histograms as pictures: SVG written by hand, and a page of them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from intaglio.tools.inspecting.measure import Facts

WIDTH, HEIGHT = 240, 60
"""Of one histogram, in pixels."""
ROW = HEIGHT + 36
_STYLE = "font-family:sans-serif;font-size:11px;fill:#333"


def histogram_svg(facts: Facts, x: int = 0, y: int = 0) -> str:
    """The bars of a histogram as a group of SVG, with the range below."""
    counts = facts.histogram
    if not counts:
        return (
            f'<g transform="translate({x},{y})"><text y="{HEIGHT // 2}" style="{_STYLE}">no finite numbers</text></g>'
        )
    top, wide = max(counts), WIDTH / len(counts)
    bars = "".join(
        f'<rect x="{place * wide:.2f}" y="{HEIGHT - height:.2f}" width="{max(wide - 0.5, 0.5):.2f}" '
        f'height="{height:.2f}"><title>{count}</title></rect>'
        for place, count in enumerate(counts)
        for height in [max(1.0, count / top * HEIGHT) if count else 0.0]
    )
    zero = _zero_line(facts)
    ends = f'<text y="{HEIGHT + 12}" style="{_STYLE}">{facts.least:.4g}</text>'
    ends += f'<text x="{WIDTH}" y="{HEIGHT + 12}" text-anchor="end" style="{_STYLE}">{facts.largest:.4g}</text>'
    return f'<g transform="translate({x},{y})" fill="#4a6d8c">{bars}{zero}{ends}</g>'


def _zero_line(facts: Facts) -> str:
    """A line where zero is, if that is in the range."""
    if facts.least is None or facts.largest is None or not facts.least < 0 < facts.largest:
        return ""
    place = -facts.least / (facts.largest - facts.least) * WIDTH
    return f'<line x1="{place:.2f}" x2="{place:.2f}" y1="0" y2="{HEIGHT}" stroke="#b33" stroke-width="0.7"/>'


def to_svg(tensors: Sequence[Facts]) -> str:
    """One picture of all tensors: a histogram each, beside its name and what is to be said of it."""
    rows = "".join(
        f"{histogram_svg(each, 10, 10 + place * ROW)}{_label(each, 10 + place * ROW)}"
        for place, each in enumerate(tensors)
    )
    width, height = WIDTH + 480, 20 + ROW * max(1, len(tensors))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'<rect width="100%" height="100%" fill="white"/>{rows}</svg>\n'
    )


def _label(facts: Facts, y: int) -> str:
    shape = "x".join(map(str, facts.shape)) or "scalar"
    lines = [facts.name, f"{facts.kind}, {facts.dtype} {shape}", summary(facts), "; ".join(facts.advice)]
    return "".join(
        f'<text x="{WIDTH + 30}" y="{y + 12 + 15 * place}" style="{_STYLE}'
        f'{";font-weight:bold" if not place else ""}">{escape(_printable(line))}</text>'
        for place, line in enumerate(lines)
        if line
    )


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


def summary(facts: Facts) -> str:
    """The mean, the deviation, zeros and what is not finite, in one line."""
    parts = [f"mean {facts.mean:.4g}" if facts.mean is not None else ""]
    parts.append(f"deviation {facts.deviation:.4g}" if facts.deviation is not None else "")
    parts.append(f"{facts.sparsity:.1%} zero" if facts.zeros else "")
    parts.append(f"{facts.nan} NaN" if facts.nan else "")
    parts.append(f"{facts.infinite} infinite" if facts.infinite else "")
    return ", ".join(part for part in parts if part)


def to_html(title: str, tensors: Sequence[Facts]) -> str:
    """A page that needs nothing else: a table of all tensors with their histograms."""
    rows = "".join(
        f"<tr><td>{escape(_printable(each.name))}<br><small>{each.kind}</small></td><td>{each.dtype}</td>"
        f"<td>{'x'.join(map(str, each.shape)) or 'scalar'}</td>"
        f'<td><svg width="{WIDTH}" height="{HEIGHT + 16}">{histogram_svg(each)}</svg></td>'
        f"<td>{escape(summary(each))}<br>{escape('; '.join(each.advice))}</td></tr>\n"
        for each in tensors
    )
    style = "body{font-family:sans-serif}td{padding:4px 12px;vertical-align:top;border-bottom:1px solid #ddd}"
    head = "<tr><th>tensor</th><th>type</th><th>shape</th><th>histogram</th><th>facts</th></tr>"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{style}</style></head><body><h1>{escape(title)}</h1><table>{head}\n{rows}</table></body></html>\n"
    )
