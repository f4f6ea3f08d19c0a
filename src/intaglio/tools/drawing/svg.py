"""A drawing as SVG: one file without scripts, fonts or anything from outside. Text of models is only ever text."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from intaglio.tools.drawing.layered import Point
from intaglio.tools.drawing.nested import LINE_SIZE, MARGIN, PADDING, TITLE_SIZE, Curve, Place
from intaglio.tools.drawing.theme import COLOURS

_GROUPS = ("#ffffff", "#f6f8fa", "#eef2f6", "#e7edf3", "#e0e7ee")
_STYLE = (
    "text{font-family:Inter,'Helvetica Neue',Helvetica,Arial,sans-serif}"
    f".t{{font-size:{TITLE_SIZE}px;font-weight:600}}.l{{font-size:{LINE_SIZE}px;opacity:.78}}"
    f".g{{font-size:{TITLE_SIZE - 1}px;font-weight:600;fill:#57606a}}"
    ".e{fill:none;stroke:#8c959f;stroke-width:1.2}.v{font-size:8px;fill:#6e7781}"
)


def svg_text(place: Place, title: str = "") -> str:
    """The drawing as the text of an SVG file; `title` is its title for screen readers."""
    width, height = place.width + 2 * MARGIN, place.height + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.1f} {height:.1f}" role="img">',
        f"<title>{clean(title or place.box.title or 'model')}</title><style>{_STYLE}</style>",
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0 .8 7.4 4 0 7.2z" fill="#8c959f"/></marker></defs>',
        f'<rect width="{width:.1f}" height="{height:.1f}" fill="#ffffff"/>',
        *_inside(place, MARGIN, MARGIN, 0),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def clean(text: str) -> str:
    """Text of a model for XML: marks are escaped, characters that XML forbids are replaced.

    >>> clean("<b>\\x00&")
    '&lt;b&gt;\\ufffd&amp;'
    """
    return escape("".join(c if _is_allowed(ord(c)) else "\ufffd" for c in text))


def _is_allowed(code: int) -> bool:
    if code < 0x20:
        return code in (0x9, 0xA, 0xD)
    return not (0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000 or code in (0xFFFE, 0xFFFF) or 0x202A <= code < 0x202F)


def _inside(place: Place, x: float, y: float, depth: int) -> Iterator[str]:
    """What is drawn in a place whose corner is at x, y: groups, lines above them, and boxes above the lines."""
    groups = [inner for inner in place.inside if inner.box.inside]
    for inner in groups:
        yield from _group(inner, x + inner.x, y + inner.y, depth + 1)
    yield from (_line(curve, x, y) for curve in place.curves)
    yield from (_label(curve, x, y) for curve in place.curves if curve.label)
    for inner in place.inside:
        if not inner.box.inside:
            yield _leaf(inner, x + inner.x, y + inner.y)


def _group(place: Place, x: float, y: float, depth: int) -> Iterator[str]:
    face, attribute = _GROUPS[min(depth, len(_GROUPS) - 1)], clean(place.box.title).replace('"', "&quot;")
    yield (
        f'<g role="group" aria-label="{attribute}">'
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{place.width:.1f}" '
        f'height="{place.height:.1f}" rx="8" fill="{face}" stroke="#d0d7de"/>'
    )
    if place.box.tip:
        yield f"<title>{clean(place.box.tip)}</title>"
    yield f'<text class="g" x="{x + MARGIN:.1f}" y="{y + 17:.1f}">{clean(place.box.title)}</text>'
    yield from _inside(place, x, y, depth)
    yield "</g>"


def _leaf(place: Place, x: float, y: float) -> str:
    box, colours = place.box, COLOURS[place.box.theme]
    radius = 5 if box.kind == "operator" else place.height / 2 if box.kind in ("input", "output") else 8
    dash = ' stroke-dasharray="4 3"' if box.kind == "fold" else ""
    middle, baseline = x + place.width / 2, y + PADDING + TITLE_SIZE - 2
    tip = f"<title>{clean(box.tip)}</title>" if box.tip else ""
    node = "" if box.number is None else f' data-node="{box.number}"'
    lines = "".join(
        f'<text class="l" x="{middle:.1f}" y="{baseline + number * (LINE_SIZE + 3.5):.1f}" text-anchor="middle">'
        f"{clean(line)}</text>"
        for number, line in enumerate(box.lines, 1)
    )
    return (
        f'<g fill="{colours.text}"{node}>{tip}<rect x="{x:.1f}" y="{y:.1f}" width="{place.width:.1f}" '
        f'height="{place.height:.1f}" rx="{radius:.1f}" fill="{colours.face}" stroke="{colours.border}"{dash}/>'
        f'<text class="t" x="{middle:.1f}" y="{baseline:.1f}" text-anchor="middle">{clean(box.title)}</text>{lines}</g>'
    )


def _line(curve: Curve, x: float, y: float) -> str:
    marker = ' marker-end="url(#a)"' if curve.is_end else ""
    path = path_of([(a + x, b + y) for a, b in curve.points])
    return f'<path class="e" d="{path}"{marker}><title>{clean(curve.value)}</title></path>'


def path_of(points: list[Point]) -> str:
    """A smooth path through points that leaves and arrives upright; upright parts are straight."""
    (x, y), parts = points[0], list[str]()
    parts.append(f"M{x:.1f} {y:.1f}")
    for a, b in points[1:]:
        middle = (y + b) / 2
        parts.append(
            f"V{b:.1f}" if abs(a - x) < 0.05 else f"C{x:.1f} {middle:.1f} {a:.1f} {middle:.1f} {a:.1f} {b:.1f}"
        )
        x, y = a, b
    return "".join(parts)


def _label(curve: Curve, x: float, y: float) -> str:
    """The type of a value beside the begin of its line."""
    left, top = curve.points[0]
    return f'<text class="v" x="{x + left + 5:.1f}" y="{y + top + 10:.1f}">{clean(curve.label)}</text>'
