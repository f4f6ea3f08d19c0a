"""What was seen in training, for people: tables and curves."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

from intaglio.ir.html import table, titled
from intaglio.runtime.model.tensor_files import replace_file
from intaglio.train.curve import Points, curve

_BARS = "▁▂▃▄▅▆▇█"
_SHORT = 40
"""A curve of text has at most so many characters."""


class Plot:
    """Curves as a picture: notebooks show it, `save` writes it as SVG."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to an .svg file."""
        replace_file(path, self.svg.encode())

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return "<Plot: notebooks show it, plot.save('curve.svg') writes it>"


class History:
    """What was seen in training: an entry for each epoch, and the loss of each batch.

    `print(history)` is a table with curves of text; a notebook shows a table and a picture.
    """

    def __init__(self) -> None:
        self.epochs: list[dict[str, float]] = []
        self.losses: list[float] = []
        self.first_batch = 0
        """How many batches the trainer had seen before."""

    def __repr__(self) -> str:
        last = "" if not self.epochs else ": " + ", ".join(f"{k} {v:.4g}" for k, v in self.epochs[-1].items())
        return f"<History of {len(self.epochs)} epochs{last}>"

    def __str__(self) -> str:
        if not self.epochs:
            return repr(self)
        rows = [list(self.epochs[0]), *(list(_cells(entry).values()) for entry in self.epochs)]
        widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        names = [name for name in self.epochs[0] if name not in ("epoch", "seconds")]
        return "\n".join([*lines, *(f"{name}: {self._text_curve(name)}" for name in names)])

    def _text_curve(self, name: str) -> str:
        values = [entry[name] for entry in self.epochs]
        return f"{text_curve(values)} {values[0]:.4g} to {values[-1]:.4g}"

    def plot(self, title: str = "loss") -> Plot:
        """The curves of the training loss by batch and of what was measured by epoch."""
        return Plot(curve(title, self.series(), across="batch"))

    def series(self) -> dict[str, Points]:
        """The curves by name: points of the number of the batch and the loss."""
        found: dict[str, Points] = {"training": [(self.first_batch + i, y) for i, y in enumerate(self.losses, 1)]}
        if self.epochs and "val_loss" in self.epochs[0]:
            each = len(self.losses) / len(self.epochs)
            measured = enumerate((entry["val_loss"] for entry in self.epochs), 1)
            found["validation"] = [(self.first_batch + i * each, y) for i, y in measured]
        return found

    def _repr_html_(self) -> str:
        rows = [list(_cells(entry).values()) for entry in self.epochs]
        header = [f"#{name}" for name in (self.epochs[0] if self.epochs else {"epoch": 0})]
        return titled(f"{len(self.epochs)} epochs", table(header, rows), self.plot().svg if self.losses else "")


def _cells(entry: dict[str, float]) -> dict[str, str]:
    return {name: f"{value:.0f}" if name == "epoch" else f"{value:.4g}" for name, value in entry.items()}


def text_curve(values: Sequence[float]) -> str:
    """A curve of blocks, one for each of at most forty places; numbers that are not finite are gaps.

    >>> text_curve([3.0, 2.0, 1.0])
    '█▅▁'
    """
    step = max(1, math.ceil(len(values) / _SHORT))
    chosen = [values[place] for place in range(0, len(values), step)]
    finite = [value for value in chosen if math.isfinite(value)]
    if not finite:
        return " " * len(chosen)
    low, high = min(finite), max(finite)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[round((y - low) * scale)] if math.isfinite(y) else " " for y in chosen)
