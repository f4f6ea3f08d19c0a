"""`intaglio view` in a real browser on large graphs: first picture, layout, search, panning, folding; others beside it.

    python -m bench.viewer                            # our page
    python -m bench.viewer --peers build/viewers/bin  # and others, where pip put them: netron,
                                                      # ai-edge-model-explorer, model-explorer-onnx

Needs Chromium and playwright. Times are from the page's address to the first picture with boxes. Script time of a frame
is what callbacks of `requestAnimationFrame` take while the graph is dragged.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

FRAMES = """(() => {
  const own = window.requestAnimationFrame.bind(window);
  window.frames_ = [];
  window.requestAnimationFrame = (call) => own((time) => {
    const begin = performance.now();
    call(time);
    window.frames_.push(performance.now() - begin);
  });
})()"""
"""Notes how long callbacks of frames take; in a page before its own script."""

DRAWN = """() => {
  const canvas = document.getElementById('graph');
  if (!canvas || !canvas.width || !(canvas.ariaLabel ?? '').includes('boxes')) return false;
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const found = new Set();
  for (let at = 0; at < data.length && found.size < 9; at += 44) found.add(data[at] << 16 | data[at + 1] << 8);
  return found.size > 8;
}"""
SEARCH = """(text) => new Promise((done) => {
  const input = document.getElementById('search');
  const begin = performance.now();
  const look = () => document.querySelector('.count') ? done(performance.now() - begin) : setTimeout(look, 0);
  input.value = text;
  input.dispatchEvent(new Event('input', { bubbles: true }));
  look();
})"""
FOLD = """() => new Promise((done) => {
  const graph = document.getElementById('graph');
  const before = graph.ariaLabel;
  const begin = performance.now();
  const watch = new MutationObserver(() => {
    if (graph.ariaLabel === before) return;
    watch.disconnect();
    done(performance.now() - begin);
  });
  watch.observe(graph, { attributes: true });
  document.querySelector('[role=treeitem][aria-expanded] .twist').click();
})"""


def chain(count: int, scopes: int) -> onnx.ModelProto:
    """A random chain with skips; in so many modules by its names, or flat."""
    generator, nodes, names = np.random.default_rng(0), list[onnx.NodeProto](), ["x"]
    for place in range(count):
        other = names[int(generator.integers(max(0, len(names) - 20), len(names)))]
        operator = ("Add", "Relu", "Mul", "Sigmoid", "Tanh")[int(generator.integers(5))]
        inputs = [names[-1], other] if operator in ("Add", "Mul") else [names[-1]]
        name = f"/part{place * scopes // count}/n{place}" if scopes else f"n{place}"
        nodes.append(helper.make_node(operator, inputs, [f"v{place}"], name))
        names.append(f"v{place}")
    ends = [helper.make_tensor_value_info(name, 1, ["n", 4]) for name in ("x", names[-1])]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@contextmanager
def server(command: Sequence[str]) -> Generator[subprocess.Popen[str]]:
    """A process that serves a page until the block ends."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def processor_seconds() -> float:
    """What all processes below this one have used: the server, and the browser with its parts."""
    parents, used = dict[int, int](), dict[int, float]()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        parents[int(entry.name)] = int(fields[1])
        used[int(entry.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    own, below = os.getpid(), {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return sum(used.get(pid, 0.0) for pid in below - {own})


def is_ours_drawn(tab: Any) -> bool:
    """Whether our canvas shows boxes."""
    return tab.evaluate(DRAWN)


def is_netron_drawn(tab: Any) -> bool:
    """Whether the nodes of Netron's SVG have places."""
    return tab.locator("body.default").count() > 0 and tab.locator("svg .node[transform]").count() > 0


def is_explorer_drawn(tab: Any) -> bool:
    """Whether Model Explorer has its renderer, and waits for nothing."""
    return tab.locator("webgl-renderer canvas").count() > 0 and tab.locator("mat-spinner").count() == 0


def until(tab: Any, is_drawn: Callable[[Any], bool], limit: float) -> bool:
    """Whether a page showed its graph in so many seconds."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        try:
            if is_drawn(tab):
                return True
        except Exception:  # the page is on its way to another address
            time.sleep(0.05)
        tab.wait_for_timeout(50)
    return False


def first_picture(
    browser: Any, address: str, is_drawn: Callable[[Any], bool], limit: float
) -> tuple[Any, tuple[float, float] | None]:
    """A tab with a page; the seconds until its graph is there, by the clock and of processors; None where not."""
    tab = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    tab.set_default_timeout(limit * 1000)
    tab.add_init_script(FRAMES)
    begin, used = time.monotonic(), processor_seconds()
    try:
        tab.goto(address, wait_until="commit")
        came = until(tab, is_drawn, limit)
    except Exception as error:
        print(f"  {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
        return tab, None
    if not came:
        return tab, None
    return tab, (time.monotonic() - begin, processor_seconds() - used)


def seconds_of(found: tuple[float, float] | None) -> dict[str, Any]:
    """The seconds of a first picture by name."""
    return {"picture": None} if found is None else {"picture": found[0], "processors": found[1]}


def dragged(tab: Any, steps: int = 60) -> list[float]:
    """The milliseconds of script of each frame while the graph is dragged."""
    tab.evaluate("() => { window.frames_.length = 0 }")
    tab.mouse.move(720, 500)
    tab.mouse.down()
    for step in range(steps):
        tab.mouse.move(720 + 3 * step, 500 - 4 * step)
    tab.mouse.up()
    tab.wait_for_timeout(100)
    return tab.evaluate("() => window.frames_") or [0.0]


def marks(tab: Any, name: str) -> list[float]:
    """What the page itself measured under a name, in milliseconds."""
    return tab.evaluate("(name) => performance.getEntriesByName(name).map((each) => each.duration)", f"intaglio:{name}")


def measure_ours(browser: Any, path: Path, limit: float) -> dict[str, Any]:
    """Our page on one file."""
    begin = time.monotonic()
    with server([sys.executable, "-m", "intaglio", "view", str(path), "--no-browser"]) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        started = time.monotonic() - begin
        tab, seconds = first_picture(browser, address, is_ours_drawn, limit)
        found: dict[str, Any] = {"start": started, **seconds_of(seconds)}
        if seconds is None:
            return found
        layout = marks(tab, "layout")
        found["layout"] = max(layout) / 1000 if layout else None
        found["search"] = statistics.median([tab.evaluate(SEARCH, text) for text in ("v999", "relu", "n7")])
        tab.evaluate("() => { const s = document.getElementById('search'); s.value = '';"
                     " s.dispatchEvent(new Event('input', { bubbles: true })) }")  # fmt: skip
        overview = dragged(tab)
        tab.keyboard.press("Escape")
        tab.locator("#graph").press("1")
        tab.wait_for_timeout(300)
        near = dragged(tab)
        found["pan far"] = statistics.median(overview)
        found["pan near"] = statistics.median(near)
        if tab.evaluate("() => document.querySelector('[role=treeitem][aria-expanded] .twist') !== null"):
            found["fold"] = statistics.median([tab.evaluate(FOLD) for _ in range(4)])
        tab.context.close()
        return found


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        return made.getsockname()[1]


def wait_for_port(port: int, limit: float = 60.0) -> None:
    """Wait until somebody listens."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"nobody listens on port {port}")


def measure_netron(browser: Any, path: Path, programs: Path, limit: float) -> dict[str, Any]:
    """Netron on one file: the graph is an SVG, which is there when it has nodes."""
    port = free_port()
    command = [str(programs / "netron"), str(path), "--port", str(port), "--host", "127.0.0.1"]
    with server(command):
        wait_for_port(port)
        tab = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        tab.goto(f"http://127.0.0.1:{port}/")
        tab.get_by_text("Accept").click(timeout=60_000)  # it asks before it opens anything
        begin, used = time.monotonic(), processor_seconds()
        came = until(tab, is_netron_drawn, limit)
        seconds = (time.monotonic() - begin, processor_seconds() - used) if came else None
        tab.context.close()
        return seconds_of(seconds)


def measure_explorer(browser: Any, path: Path, programs: Path, limit: float) -> dict[str, Any]:
    """Model Explorer on one file; its graph is there when the tree of nodes beside it is."""
    port = free_port()
    command = [
        str(programs / "model-explorer"),
        str(path),
        "--host=127.0.0.1",
        f"--port={port}",
        "--no_open_in_browser",
        "--extensions=model_explorer_onnx",
    ]
    with server(command) as process:
        assert process.stdout is not None
        address = ""
        for line in process.stdout:
            if "http://" in line:
                address = line[line.index("http://") :].split()[0]
                break
        if not address:
            return {"picture": None}
        tab, seconds = first_picture(browser, address, is_explorer_drawn, limit)
        tab.context.close()
        return seconds_of(seconds)


def show(title: str, found: dict[str, Any]) -> None:
    """One line of results."""
    texts = [
        f"{name} {number:.3g}" if isinstance(number, float) else f"{name} {number}" for name, number in found.items()
    ]
    print(f"{title:<28} {'  '.join(texts)}", flush=True)


def main() -> int:
    """Measure; prints a line for each file and program, and writes JSON where that is wished."""
    parser = argparse.ArgumentParser(prog="python -m bench.viewer", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 40_000])
    parser.add_argument("--peers", type=Path, help="The folder with the programs netron and model-explorer.")
    parser.add_argument("--limit", type=float, default=180.0, help="Seconds that a first picture may take.")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        print("there is no Chromium here; on Debian: apt install chromium", file=sys.stderr)
        return 2
    rows: list[dict[str, Any]] = []
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for size in given.sizes:
            for scopes in (0, max(2, size // 200)) if given.peers is None else (0,):
                path = Path(folder) / f"{size}-{'nested' if scopes else 'flat'}.onnx"
                onnx.save(chain(size, scopes), path)
                todo = [("intaglio", lambda path=path: measure_ours(browser, path, given.limit))]
                if given.peers is not None:
                    todo.append(("netron", lambda path=path: measure_netron(browser, path, given.peers, given.limit)))
                    todo.append(
                        ("explorer", lambda path=path: measure_explorer(browser, path, given.peers, given.limit))
                    )
                for name, measure in todo:
                    try:
                        found = measure()
                    except Exception as error:
                        found = {"error": f"{type(error).__name__}: {str(error)[:120]}"}
                    rows.append({"file": path.stem, "program": name, **found})
                    show(f"{path.stem} {name}", found)
        browser.close()
    if given.json is not None:
        given.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
