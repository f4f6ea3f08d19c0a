"""A trainer for people: its tensors as a table of text or of a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from intaglio.ir.html import line, table, titled

if TYPE_CHECKING:
    from intaglio.train.trainer import Trainer

HEADER = ("tensor", "type", "#numbers", "#mean", "#deviation", "how")


def trainer_text(trainer: Trainer) -> str:
    """The settings and a table of all tensors that training changes."""
    rows = [[title.lstrip("#") for title in HEADER], *_rows(trainer)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEADER))]
    lines = ["  ".join(_aligned(row, widths)).rstrip() for row in rows]
    return "\n".join([_title(trainer), _settings(trainer), *lines])


def trainer_html(trainer: Trainer) -> str:
    """The same for a notebook."""
    return titled(_title(trainer), line(_settings(trainer)), table(HEADER, _rows(trainer)))


def _aligned(row: list[str], widths: list[int]) -> list[str]:
    pairs = zip(row, widths, HEADER, strict=True)
    return [cell.rjust(width) if title.startswith("#") else cell.ljust(width) for cell, width, title in pairs]


def _title(trainer: Trainer) -> str:
    return f"trainer of {trainer.graph.name!r} after {trainer.updates:,} updates, {trainer.epoch:,} epochs"


def _settings(trainer: Trainer) -> str:
    settings = trainer.settings
    names = ("clip_norm", "clip_value", "ema", "precision")
    chosen = {name: getattr(settings, name) for name in names if getattr(settings, name) is not None}
    if trainer.accumulate > 1:
        chosen["accumulate"] = trainer.accumulate
    more = "".join(f", {name} {value}" for name, value in chosen.items())
    return f"{settings.optimizer}, learning rate {trainer.lr:.4g}{more}"


def _rows(trainer: Trainer) -> list[list[str]]:
    groups = trainer.settings.group_of(list(trainer.trained))
    rows: list[list[str]] = []
    for name, array in trainer.trained_tensors().items():
        wide = np.asarray(array, np.float64)
        mean, deviation = (f"{wide.mean():.4g}", f"{wide.std():.4g}") if wide.size else ("", "")
        how = "statistic of batches" if name not in groups else f"group {groups[name]}" if groups[name] else "trained"
        rows.append([name, f"{array.dtype}{list(array.shape)}", f"{array.size:,}", mean, deviation, how])
    return rows
