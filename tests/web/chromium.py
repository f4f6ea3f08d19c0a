"""A real Chromium for tests: a page without faults, without requests to others, and what can be seen of it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
MISSING = "there is no Chromium here; on Debian: apt install chromium"


def program() -> str:
    """The browser's program; the test is skipped where there is none."""
    found = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(MISSING)
    return found


@contextmanager
def browser() -> Generator[Any]:
    """A running Chromium without a window."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        running = playwright.chromium.launch(executable_path=program(), args=arguments)
        try:
            yield running
        finally:
            running.close()


class Tab:
    """A tab that notes all faults: exceptions, messages of the policy, and requests to anybody else."""

    def __init__(self, running: Any, *, dark: bool = False, width: int = 1440, height: int = 900) -> None:
        scheme = "dark" if dark else "light"
        self.context = running.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.context.set_default_timeout(20_000)
        self.page = self.context.new_page()
        self.faults: list[str] = []
        self.foreign: list[str] = []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", self._heard)
        self.page.on("request", self._asked)

    def _heard(self, message: Any) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.faults.append(message.text)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "data:", "blob:", "file:")):
            self.foreign.append(request.url)

    def open(self, address: str) -> None:
        """Go to an address, and wait until the graph is drawn."""
        self.page.goto(address)
        self.drawn()

    def drawn(self) -> None:
        """Wait until the graph is drawn."""
        self.until("() => (document.querySelector('#graph')?.ariaLabel ?? '').includes('boxes')")
        self.until(f"() => ({COLOURS})(9) > 8")

    def until(self, code: str, seconds: float = 120.0) -> None:
        """Wait until a function of the page is true. The page's policy forbids that the page itself waits for it."""
        end = time.monotonic() + seconds
        while not self.page.evaluate(code):
            if time.monotonic() > end:
                pytest.fail(f"it never came true: {code}; faults: {self.faults}")
            self.page.wait_for_timeout(20)

    def picture(self) -> str:
        """What the graph shows, as text that can be compared."""
        return self.page.evaluate("() => document.getElementById('graph').toDataURL()")

    def changed(self, before: str, seconds: float = 120.0) -> None:
        """Wait until the graph shows something else."""
        end = time.monotonic() + seconds
        while self.picture() == before:
            if time.monotonic() > end:
                pytest.fail("the graph shows the same as before")
            self.page.wait_for_timeout(20)

    def shot(self, name: str) -> None:
        """Keep a picture of the tab, where the environment names a folder for them."""
        folder = os.environ.get("INTAGLIO_SHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.page.wait_for_timeout(400)
            self.page.screenshot(path=str(Path(folder) / f"{name}.png"))

    def check(self) -> None:
        """Fail where the page had a fault, or asked anybody else."""
        assert self.faults == [], self.faults
        assert self.foreign == [], self.foreign

    def close(self) -> None:
        """Close the tab, whose faults must be none."""
        self.check()
        self.context.close()


COLOURS = """(most) => {
  const canvas = document.getElementById('graph');
  const context = canvas.getContext('2d');
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  const found = new Set();
  for (let at = 0; at < data.length && found.size < most; at += 4 * 7)
    found.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
  return found.size;
}"""
