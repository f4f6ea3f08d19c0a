"""Loss curves as SVG, which browsers and documents show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 72, 20, 40, 50
COLOURS = ("#1f6fb2", "#c8553d", "#3a7d44", "#7a4e9c")


def curve(title: str, series: Mapping[str, Points], across: str = "update") -> str:
    """A picture of some curves over one axis; points that are not finite are left out, and lines break there."""
    places = [x for points in series.values() for x, _ in points]
    heights = [y for points in series.values() for _, y in points if math.isfinite(y)]
    frame = _Frame(min(places, default=0), max(places, default=1), min(heights, default=0), max(heights, default=1))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="15">{escape(title)}</text>',
        *frame.axes(),
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(across)}</text>',
    ]
    for number, (name, points) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        parts += [frame.line(run, colour) for run in _runs(points)]
        x = WIDTH - RIGHT - 140
        parts.append(
            f'<line x1="{x}" x2="{x + 20}" y1="{20 + 16 * number}" y2="{20 + 16 * number}" stroke="{colour}"/>'
        )
        parts.append(f'<text x="{x + 26}" y="{24 + 16 * number}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


class _Frame:
    """Where numbers are in the picture."""

    def __init__(self, left: float, right: float, bottom: float, top: float) -> None:
        self.x = _ticks(left, right if right > left else left + 1)
        self.y = _ticks(bottom, top if top > bottom else bottom + 1)

    def place(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x[0]) / (self.x[-1] - self.x[0])
        up = (y - self.y[0]) / (self.y[-1] - self.y[0])
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    def axes(self) -> list[str]:
        found: list[str] = []
        for y in self.y:
            _, height = self.place(self.x[0], y)
            found.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{height:.1f}" y2="{height:.1f}" stroke="#ddd"/>')
            found.append(f'<text x="{LEFT - 6}" y="{height + 4:.1f}" text-anchor="end">{y:.4g}</text>')
        for x in self.x:
            across, _ = self.place(x, self.y[0])
            found.append(f'<text x="{across:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{x:.4g}</text>')
        return found

    def line(self, points: Points, colour: str) -> str:
        placed = " ".join("{:.1f},{:.1f}".format(*self.place(x, y)) for x, y in points)
        if len(points) == 1:
            x, y = self.place(*points[0])
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
        return f'<polyline points="{placed}" fill="none" stroke="{colour}" stroke-width="1.5"/>'


def _runs(points: Points) -> list[list[tuple[float, float]]]:
    """The pieces of a curve between points that are not finite."""
    found: list[list[tuple[float, float]]] = [[]]
    for x, y in points:
        if math.isfinite(y):
            found[-1].append((x, y))
        elif found[-1]:
            found.append([])
    return [run for run in found if run]


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from at most `low` to at least `high`."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]
