"""What people see while a model compiles: on a terminal, in a notebook, in a file, and who asked for silence."""

from __future__ import annotations

import io
import sys
import types
from typing import Any

import numpy as np
import onnx
import pytest

import intaglio
from intaglio.runtime.model import progress
from intaglio.runtime.model.progress import Watcher, told


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Recorder:
    """A display that remembers."""

    def __init__(self) -> None:
        self.shown: list[tuple[int, int]] = []
        self.closed = 0

    def show(self, done: int, total: int, seconds: float) -> None:
        self.shown.append((done, total))

    def close(self, total: int, seconds: float) -> None:
        self.closed += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_short_work_is_not_told(clock: list[float]) -> None:
    display = Recorder()
    watcher = Watcher(display, 1.0)
    for done in range(4):
        watcher(done, 3)
        clock[0] += 0.3
    watcher.close()
    assert (display.shown, display.closed) == ([], 0)


def test_long_work_is_told_when_something_changes(clock: list[float]) -> None:
    display = Recorder()
    watcher = Watcher(display, 1.0)
    for done in (0, 0, 0, 0, 2, 2, 3):
        watcher(done, 3)
        clock[0] += 0.4
    watcher.close()
    assert display.shown == [(0, 3), (2, 3), (2, 3), (3, 3)]  # once more when another second has passed
    assert display.closed == 1


def run_told(wish: Any, clock: list[float]) -> None:
    with told(wish) as watcher:
        if watcher is not None:
            watcher(0, 7)
            clock[0] += 2
            watcher(4, 7)


def test_a_line_on_a_terminal(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    run_told(None, clock)
    assert "compiling, 4 of 7 functions, 2 s" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert "\n" not in terminal.getvalue()


@pytest.mark.parametrize("wish", [False, None])
def test_silence(clock: list[float], monkeypatch: pytest.MonkeyPatch, wish: bool | None) -> None:
    stream = Terminal() if wish is False else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    run_told(wish, clock)
    assert stream.getvalue() == ""


@pytest.mark.parametrize("terminal", ["dumb", "xterm"])
def test_no_terminal_and_none_that_can_wipe(clock: list[float], monkeypatch: pytest.MonkeyPatch, terminal: str) -> None:
    stream = Terminal() if terminal == "dumb" else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", terminal)
    run_told(None, clock)
    assert stream.getvalue() == ""
    run_told(True, clock)
    assert stream.getvalue().splitlines() == [
        "intaglio: compiling 7 functions",
        "intaglio: compiled 7 functions in 2.0 s",
    ]


def test_no_standard_error_at_all(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    run_told(None, clock)
    run_told(True, clock)


def test_a_bar_in_a_notebook(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, item: str) -> None:
            shown.append(item)

    def display(item: str, display_id: bool) -> Handle:
        shown.append(item)
        return Handle()

    notebook = types.ModuleType("IPython")
    notebook.get_ipython = lambda: types.SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    shows = types.ModuleType("IPython.display")
    shows.HTML, shows.display = str, display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", shows)
    run_told(None, clock)
    assert shown[0].startswith('<progress value="4" max="7">')
    assert shown[-1] == "compiled 7 functions in 2.0 s"


def test_a_function_is_told_at_once(clock: list[float]) -> None:
    calls: list[tuple[int, int]] = []
    run_told(lambda done, total: calls.append((done, total)), clock)
    assert calls == [(0, 7), (4, 7)]


def test_load_obeys(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, affine: onnx.ModelProto
) -> None:
    from intaglio.targets.c import cache

    monkeypatch.setattr(progress, "DELAY", 0.0)
    for wish, is_told in ((None, True), (False, False)):
        monkeypatch.setenv("INTAGLIO_CACHE", str(tmp_path_factory.mktemp("cache")))
        cache.default_cache.cache_clear()
        terminal = Terminal()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", terminal)
            patch.setenv("TERM", "xterm")
            model = intaglio.load(affine, progress=wish)
        assert ("intaglio: compiling" in terminal.getvalue()) == is_told
        assert model(np.array([[1, 2, 3]], np.float32), np.array([1, 1, 1], np.float32)).tolist() == [[2, 3, 4]]
    cache.default_cache.cache_clear()
