"""What people see while a model compiles: a line on a terminal, a bar in a notebook."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Protocol

from intaglio.runtime.engine.engine import Progress

DELAY = 1.0
"""Seconds that compiling may take before it is told of."""


class Display(Protocol):
    """A place where people see how far the work is."""

    def show(self, done: int, total: int, seconds: float) -> None:
        """Tell how many functions of how many are compiled, after so many seconds."""
        ...

    def close(self, total: int, seconds: float) -> None:
        """The work is over."""
        ...


@contextmanager
def told(progress: Progress | bool | None) -> Generator[Progress | None]:
    """The function that is told of compiled functions, for what `load(progress=...)` was given.

    None shows a line on a terminal and a bar in a notebook, once compiling has taken a second; True shows a line
    elsewhere too, False nothing.
    """
    if callable(progress):
        yield progress
        return
    display = None if progress is False else _display(is_wanted=progress is True)
    if display is None:
        yield None
        return
    watcher = Watcher(display, DELAY)
    try:
        yield watcher
    finally:
        watcher.close()


class Watcher:
    """Shows progress on a display when there is something to tell."""

    def __init__(self, display: Display, delay: float) -> None:
        self._display, self._delay = display, delay
        self._start: float | None = None
        self._last: tuple[int, int, int] | None = None

    def __call__(self, done: int, total: int) -> None:
        """Note that so many of so many functions are compiled."""
        now = time.monotonic()
        if self._start is None:
            self._start = now
        passed = now - self._start
        state = (done, total, int(passed))
        if passed >= self._delay and state != self._last:
            self._last = state
            self._display.show(done, total, passed)

    def close(self) -> None:
        """The work is over: take away what was shown."""
        if self._last is not None and self._start is not None:
            self._display.close(self._last[1], time.monotonic() - self._start)


class _Line:
    """One line of a terminal, written over and over, and wiped at the end."""

    def show(self, done: int, total: int, seconds: float) -> None:
        text = f"intaglio: compiling, {done} of {total} functions, {seconds:.0f} s"
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def close(self, total: int, seconds: float) -> None:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


class _Log:
    """Two lines of a file."""

    _is_told = False

    def show(self, done: int, total: int, seconds: float) -> None:
        if not self._is_told:
            print(f"intaglio: compiling {total} functions", file=sys.stderr, flush=True)
        self._is_told = True

    def close(self, total: int, seconds: float) -> None:
        print(f"intaglio: compiled {total} functions in {seconds:.1f} s", file=sys.stderr, flush=True)


class NotebookCell:
    """What is shown below the cell of a notebook; a later text takes the place of an earlier one."""

    def __init__(self, display: Any, html: Any) -> None:
        self._display, self._html = display, html
        self._handle: Any = None

    def put(self, text: str) -> None:
        """Show a text, as HTML."""
        shown = self._html(text)
        if self._handle is None:
            self._handle = self._display(shown, display_id=True)
        else:
            self._handle.update(shown)


class _Bar(NotebookCell):
    """A bar below the cell of a notebook, which becomes one line at the end."""

    def show(self, done: int, total: int, seconds: float) -> None:
        self.put(f'<progress value="{done}" max="{total}"></progress> compiling, {done} of {total} functions')

    def close(self, total: int, seconds: float) -> None:
        self.put(f"compiled {total} functions in {seconds:.1f} s")


def _display(is_wanted: bool) -> Display | None:
    """Where people look: a notebook, a terminal, or, where they want it, the standard error of any kind."""
    if is_notebook():
        from IPython.display import HTML, display  # pyright: ignore[reportMissingImports]

        return _Bar(display, HTML)
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
        return None
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return _Line()
    return _Log() if is_wanted else None


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook; looks only at what is imported already."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None
