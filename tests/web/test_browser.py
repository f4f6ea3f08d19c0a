"""The page in a real Chromium: everything that a person does with it. `make check-web` runs all of it."""

from __future__ import annotations

import signal
from collections.abc import Generator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from onnx import helper
from tests.web.chromium import Tab, browser
from tests.web.pages import HEADER, SMALL, Page, page, write
from tests.web.test_standalone import HOSTILE

import intaglio
from intaglio.cli.demo_model import demo_model
from intaglio.web.standalone import standalone_page

AXE = Path(__file__).parent.parent.parent / "build" / "web" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture(scope="module")
def chromium() -> Generator[Any]:
    with browser() as running:
        yield running


@pytest.fixture
def demo(tmp_path: Path) -> Generator[Page]:
    onnx.save(demo_model(), tmp_path / "demo.onnx")
    with page(tmp_path / "demo.onnx") as found:
        yield found


def count_boxes(tab: Tab) -> int:
    """How many boxes the graph says it shows."""
    label: str = tab.page.get_attribute("#graph", "aria-label")
    return int(label.partition(": ")[2].split()[0])


def search(tab: Tab, text: str) -> None:
    """Type into the search, and go to the first thing that is found."""
    tab.page.locator("#search").fill(text)
    tab.page.locator("#found-0").click()


def details(tab: Tab) -> Any:
    """The panel that says what is selected."""
    return tab.page.get_by_role("complementary", name="Details")


def test_smoke(chromium: Any, demo: Page) -> None:
    """Open, search, select, panels, fold, heat, colours, keyboard, deep links and the way back."""
    tab = Tab(chromium)
    tab.open(demo.address)
    assert demo.token not in tab.page.url
    assert tab.page.title() == "demo.onnx · Intaglio"
    boxes = count_boxes(tab)
    search(tab, "block2.conv1")
    details(tab).get_by_role("heading", name="Conv", exact=True).wait_for()
    details(tab).get_by_text("strides", exact=True).wait_for()
    assert "#node=" in tab.page.url
    link = tab.page.url
    tab.page.locator("#search").fill("")
    tab.page.locator("#graph").press("Shift+E")
    tab.page.locator("[role=treeitem][aria-expanded=false]").first.wait_for()
    assert count_boxes(tab) < boxes
    tab.page.locator("#graph").press("e")
    tab.until(f"() => document.querySelector('#graph').ariaLabel.includes(' {boxes} boxes')")
    before = tab.picture()
    tab.page.get_by_label("Heat").select_option("macs")
    tab.changed(before)
    before = tab.picture()
    tab.page.get_by_role("button", name="Dark colours").click()
    tab.changed(before)
    assert tab.page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    tab.page.goto("about:blank")
    tab.open(link)
    details(tab).get_by_role("heading", name="Conv", exact=True).wait_for()
    details(tab).get_by_text("block2.conv1").first.wait_for()
    tab.close()


@pytest.mark.slow
def test_time_as_heat(chromium: Any, demo: Page) -> None:
    tab = Tab(chromium)
    tab.open(demo.address)
    tab.page.get_by_label("Heat").select_option("time")
    tab.page.get_by_role("status").filter(has_text="…").wait_for(state="detached", timeout=60_000)
    search(tab, "block2.conv1")
    details(tab).get_by_text("kernel").first.wait_for()
    tab.shot("heat")
    tab.close()


@pytest.mark.slow
def test_the_file_form_needs_no_server(chromium: Any, tmp_path: Path) -> None:
    standalone_page(demo_model(), tmp_path / "demo.html", weights=True, profiled=True, dims={"batch": 1})
    tab = Tab(chromium)
    tab.open((tmp_path / "demo.html").as_uri())
    search(tab, "stem")
    details(tab).get_by_role("heading", name="Conv", exact=True).wait_for()
    tab.page.get_by_label("Heat").select_option("time")
    details(tab).get_by_text("kernel").first.wait_for()
    tab.shot("file")
    tab.close()


@pytest.mark.slow
def test_a_notebook_frame_shows_the_graph(chromium: Any, tmp_path: Path) -> None:
    (tmp_path / "n.html").write_text("<!doctype html><body>" + intaglio.view(demo_model())._repr_html_())
    tab = Tab(chromium)
    tab.page.goto((tmp_path / "n.html").as_uri())
    frame = tab.page.frame_locator("iframe")
    frame.get_by_role("treeitem").first.wait_for()
    frame.locator("#search").fill("Gemm")
    frame.locator("#found-0").click()
    frame.get_by_role("heading", name="Gemm", exact=True).wait_for()
    tab.close()


@pytest.mark.slow
def test_names_that_are_markup_are_text(chromium: Any, tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", [a], [b], b, doc_string=b) for a, b in pairwise(HOSTILE)]
    ends = [helper.make_tensor_value_info(name, 1, [2]) for name in (HOSTILE[0], HOSTILE[-1])]
    model = helper.make_model(helper.make_graph(nodes, HOSTILE[0], ends[:1], ends[1:], doc_string=HOSTILE[1]))
    path = tmp_path / "<img src=x onerror=alert(2)>.onnx"
    onnx.save(model, path)
    with page(path) as found:
        tab = Tab(chromium)
        dialogs: list[str] = []
        tab.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        tab.open(found.address)
        for text in HOSTILE[1:3]:
            search(tab, text[:12])
            details(tab).wait_for()
        assert tab.page.locator("img").count() == 0
        assert tab.page.locator("script").count() == 1
        assert dialogs == []
        tab.close()


@pytest.mark.slow
def test_broken_models_show_their_faults(chromium: Any, tmp_path: Path) -> None:
    text = HEADER + "g (float[2] x) => (float[2] y) { [a] m = Relu(nowhere) [b] n = Unknown(x) [c] y = Add(x, x) }"
    with page(write(tmp_path / "broken.onnx", text)) as found:
        tab = Tab(chromium)
        tab.open(found.address)
        tab.page.get_by_role("button", name="faults").click()
        details(tab).get_by_role("alert").first.wait_for()
        tab.shot("faults")
        tab.close()


@pytest.mark.slow
def test_a_wrong_token_is_told(chromium: Any, demo: Page) -> None:
    tab = Tab(chromium)
    tab.page.goto(demo.address[:-3] + "xxx")
    tab.page.get_by_role("alert").first.wait_for()
    tab.close()


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_serious(chromium: Any, demo: Page, dark: bool) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: make check-web installs it by npm")
    tab = Tab(chromium, dark=dark)
    tab.open(demo.address)
    search(tab, "block2.conv1")
    details(tab).get_by_text("strides", exact=True).wait_for()
    for _ in range(2):
        tab.page.evaluate(AXE.read_text())
        found = tab.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        assert found["passes"], "axe looked at nothing"
        serious = [
            (each["id"], [node["html"][:200] for node in each["nodes"]])
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        assert serious == []
        tab.page.keyboard.press("Control+k")
        tab.page.get_by_role("dialog").wait_for()
    tab.shot("palette-dark" if dark else "palette")
    tab.close()


@pytest.mark.slow
def test_a_run_compared_with_onnx_runtime(chromium: Any, demo: Page) -> None:
    tab = Tab(chromium)
    tab.open(demo.address)
    search(tab, "block2.conv1")
    tab.page.get_by_role("button", name="Run", exact=True).click()
    panel = tab.page.get_by_role("complementary", name="Run")
    panel.get_by_label("Compare with").select_option("ort")
    panel.get_by_role("button", name="Run", exact=True).click()
    panel.get_by_text("The answers agree.").wait_for(timeout=120_000)
    panel.get_by_text("probabilities").first.wait_for()
    panel.get_by_text("block2.conv1").first.wait_for()
    tab.shot("run")
    tab.close()


@pytest.mark.slow
def test_simplify_and_compare(chromium: Any, tmp_path: Path) -> None:
    with page(
        write(tmp_path / "m.onnx", SMALL.replace("[relu] r = Relu (m)", "i = Identity (m) [relu] r = Relu (i)"))
    ) as found:
        tab = Tab(chromium)
        tab.open(found.address)
        tab.page.get_by_role("button", name="Tools", exact=True).click()
        panel = tab.page.get_by_role("complementary", name="Tools")
        panel.get_by_role("button", name="Simplify", exact=True).click()
        panel.get_by_text("Simplify: done").wait_for()
        panel.get_by_role("button", name="Open the result").click()
        tab.until("() => document.title.includes('simplify')")
        tab.page.get_by_label("Model", exact=True).wait_for()
        tab.close()


@pytest.mark.slow
def test_two_models_in_colour(chromium: Any, tmp_path: Path) -> None:
    with page(*two_models(tmp_path)) as found:
        tab = Tab(chromium)
        tab.open(found.address)
        before = tab.picture()
        tab.page.get_by_role("button", name="Compare", exact=True).click()
        panel = tab.page.get_by_role("complementary", name="Compare")
        panel.get_by_role("button", name="Compare", exact=True).click()
        panel.get_by_text("Missing").wait_for()
        tab.changed(before)
        tab.shot("diff")
        tab.close()


def two_models(folder: Path) -> tuple[Path, Path]:
    """The demo, and the same with another operator, another name and another weight."""
    new = demo_model()
    new.graph.node[1].op_type = "Sigmoid"
    new.graph.node[7].name = "renamed"
    del new.graph.initializer[0].float_data[:]
    shape = list(new.graph.initializer[0].dims)
    new.graph.initializer[0].CopyFrom(
        onnx.numpy_helper.from_array(np.ones(shape, np.float32), new.graph.initializer[0].name)
    )
    onnx.save(demo_model(), folder / "old.onnx")
    onnx.save(new, folder / "new.onnx")
    return folder / "old.onnx", folder / "new.onnx"


@pytest.mark.slow
def test_the_c_of_a_node(chromium: Any, demo: Page) -> None:
    tab = Tab(chromium)
    tab.open(demo.address)
    search(tab, "block2.conv1")
    tab.page.get_by_role("button", name="Source", exact=True).click()
    tab.page.locator(".hit").first.wait_for(timeout=120_000)
    tab.shot("source")
    tab.close()


@pytest.mark.slow
def test_edit_undo_save_and_a_killed_server(chromium: Any, tmp_path: Path) -> None:
    path = tmp_path / "demo.onnx"
    onnx.save(demo_model(), path)
    tab = Tab(chromium)
    with page(path, "--edit") as found:
        tab.open(found.address)
        search(tab, "block2.relu1")
        details(tab).get_by_role("button", name="Delete", exact=True).click()
        tab.page.get_by_role("button", name="faults").or_(tab.page.get_by_role("button", name="fault")).first.wait_for()
        tab.shot("edit")
        tab.page.get_by_role("button", name="Undo").click()
        tab.page.locator("button.faults").wait_for(state="detached")
        search(tab, "block2.conv1")
        details(tab).get_by_role("button", name="Rename", exact=True).click()
        details(tab).get_by_label("new name").fill("renamed")
        details(tab).locator("form").get_by_role("button", name="Rename").click()
        details(tab).get_by_text("renamed").first.wait_for()
        tab.page.get_by_role("button", name="Save", exact=True).first.click()
        tab.page.get_by_text("Saved as").wait_for()
        assert "renamed" in [node.name for node in onnx.load_model(tmp_path / "demo.edited.onnx").graph.node]
        search(tab, "stem")
        details(tab).get_by_label("new name").fill("kept")
        details(tab).locator("form").get_by_role("button", name="Rename").click()
        details(tab).get_by_text("kept").first.wait_for()
        found.end(signal.SIGKILL)
        tab.page.get_by_role("alert").filter(has_text="does not answer").wait_for(timeout=60_000)
    with page(path, "--edit") as found:
        tab.open(found.address)
        tab.page.get_by_role("button", name="Undo").and_(tab.page.locator(":enabled")).wait_for()
        search(tab, "kept")
        details(tab).get_by_role("heading", name="Conv", exact=True).wait_for()
    tab.close()
