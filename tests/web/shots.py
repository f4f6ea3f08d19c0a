"""Takes the pictures of docs/viewing.md: `python -m tests.web.shots`. They are looked at before they are kept."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import onnx
from tests.web.chromium import Tab, browser
from tests.web.pages import page
from tests.web.test_browser import details, search, two_models

from intaglio.cli.demo_model import demo_model

FOLDER = Path(__file__).parent.parent.parent / "docs" / "pictures"


def shown(running: Any, address: str, *, dark: bool = False) -> Tab:
    """A tab of the size of the pictures."""
    tab = Tab(running, dark=dark, width=1280, height=800)
    tab.open(address)
    return tab


def take(running: Any, folder: Path) -> None:
    """All pictures."""
    onnx.save(demo_model(), folder / "demo.onnx")
    with page(folder / "demo.onnx", "--edit") as found:
        for name, dark in (("light", False), ("dark", True)):
            tab = shown(running, found.address, dark=dark)
            search(tab, "block2.conv1")
            details(tab).get_by_text("strides", exact=True).wait_for()
            tab.shot(name)
            tab.close()
        tab = shown(running, found.address)
        tab.page.get_by_label("Heat").select_option("time")
        tab.page.locator("footer [role=status]").wait_for(state="detached", timeout=120_000)
        search(tab, "block2.conv1")
        details(tab).get_by_text("kernel").first.wait_for()
        tab.page.locator("#search").fill("")
        tab.shot("heat")
        tab.close()
        tab = shown(running, found.address)
        search(tab, "block2.relu1")
        details(tab).get_by_role("button", name="Delete", exact=True).click()
        tab.page.locator("button.faults").wait_for()
        tab.page.locator("button.faults").click()
        details(tab).get_by_role("alert").first.wait_for()
        tab.shot("edit")
        tab.close()
    with page(*two_models(folder)) as found:
        tab = shown(running, found.address)
        tab.page.get_by_role("button", name="Compare", exact=True).click()
        panel = tab.page.get_by_role("complementary", name="Compare")
        panel.get_by_role("button", name="Compare", exact=True).click()
        panel.get_by_text("Missing").wait_for()
        tab.shot("diff")
        tab.close()


if __name__ == "__main__":
    os.environ["INTAGLIO_SHOTS"] = str(FOLDER)
    with browser() as chrome, tempfile.TemporaryDirectory() as made:
        take(chrome, Path(made))
