"""What people see while a trainer fits: a line of a terminal, a table in a notebook, lines of a log."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Protocol

from intaglio.runtime.model.progress import NotebookCell, is_notebook
from intaglio.train.history import History

LIVE_DELAY, LOG_DELAY = 0.1, 1.0
"""Seconds between two states of a live display, and between two lines of a log."""


class Display(Protocol):
    """A place where people see how far training is."""

    def step(self, text: str) -> None:
        """Show a batch that is done."""
        ...

    def epoch(self, text: str, history: History, is_last: bool) -> None:
        """Show an epoch that is done."""
        ...


class _Terminal:
    """One line that is written over and over; epochs stay."""

    def step(self, text: str) -> None:
        print(f"\r\x1b[K{text} ", end="", file=sys.stderr, flush=True)

    def epoch(self, text: str, history: History, is_last: bool) -> None:
        print(f"\r\x1b[K{text}", file=sys.stderr, flush=True)


class _Log:
    """A line for each epoch; short epochs are left out, but not the last one."""

    def __init__(self, delay: float) -> None:
        self._delay, self._last = delay, float("-inf")

    def step(self, text: str) -> None:
        pass

    def epoch(self, text: str, history: History, is_last: bool) -> None:
        now = time.monotonic()
        if is_last or now - self._last >= self._delay:
            self._last = now
            print(text, file=sys.stderr, flush=True)


class _Notebook(NotebookCell):
    """The history below the cell, and the present epoch while it goes on."""

    def __init__(self, display: Any, html: Any) -> None:
        super().__init__(display, html)
        self._table = ""

    def step(self, text: str) -> None:
        self.put(f"{self._table}<div>{text}</div>")

    def epoch(self, text: str, history: History, is_last: bool) -> None:
        self._table = history._repr_html_()  # pyright: ignore[reportPrivateUsage]
        self.put(self._table)


def display_of(progress: bool | None) -> Display | None:
    """Where `fit(progress=...)` shows how far it is: nowhere for False, and all epochs in a log for True."""
    if progress is False or sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
        return None
    if is_notebook():
        from IPython.display import HTML, display  # pyright: ignore[reportMissingImports]

        return _Notebook(display, HTML)
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return _Terminal()
    return _Log(0.0 if progress else LOG_DELAY)


class Progress:
    """Tells a display of batches and epochs, not too often."""

    def __init__(self, progress: bool | None, epochs: int) -> None:
        self._display, self._epochs, self._last = display_of(progress), epochs, 0.0

    def step(self, epoch: int, batch: int, count: int | None, loss: float) -> None:
        """A batch is done."""
        now = time.monotonic()
        if self._display is not None and now - self._last > LIVE_DELAY:
            self._last = now
            done = f"{batch}" if count is None else f"[{'#' * (20 * batch // count):20}] {batch}/{count}"
            self._display.step(f"intaglio: epoch {epoch + 1}/{self._epochs} {done}, loss {loss:.4g}")

    def epoch(self, history: History) -> None:
        """The last epoch of a history is done."""
        if self._display is not None:
            entry = history.epochs[-1]
            shown = ", ".join(f"{name} {value:.4g}" for name, value in entry.items() if name != "epoch")
            text = f"intaglio: epoch {entry['epoch']:.0f}/{self._epochs}: {shown}"
            self._display.epoch(text, history, entry["epoch"] >= self._epochs)
