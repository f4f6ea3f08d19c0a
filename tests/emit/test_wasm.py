"""Models as WebAssembly: run by node, and by a real browser where one is installed."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest
from tests.emit.models import FEEDS, MODELS, drawn, parse
from tests.emit.test_c import ASSUMED

import intaglio
from intaglio.conformance.exported import UNSAID, export_row, export_subject
from intaglio.conformance.suite import cases
from intaglio.conformance.wasm import WasmModel, WasmRunError
from intaglio.errors import CompileError, InputError, UnsupportedError

NODE = shutil.which("node")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SAMPLE = 400

needs_node = pytest.mark.skipif(
    NODE is None or importlib.util.find_spec("ziglang") is None,
    reason="node or the package ziglang is missing: `apt install nodejs`, `pip install ziglang`",
)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed: `apt install chromium`")


def run_node(folder: Path, script: str = "test.js") -> str:
    assert NODE is not None
    done = subprocess.run(
        [NODE, str(folder / script)], capture_output=True, text=True, check=False, timeout=120, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class _Server(http.server.ThreadingHTTPServer):
    def __init__(self, handler: Any) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.told: queue.Queue[str] = queue.Queue()


@contextmanager
def served(folder: Path, handler: type[http.server.SimpleHTTPRequestHandler] | None = None) -> Iterator[_Server]:
    """A server of a folder."""
    with _Server(functools.partial(handler or _Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def address_of(server: _Server) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Told(_Quiet):
    """Pages send a text back where they are done."""

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.send_response(204)
        self.end_headers()
        cast("_Server", self.server).told.put(text)


class _Isolated(_Told):
    """The same for pages that are isolated, which may share memory."""

    def end_headers(self) -> None:
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()


def browse(address: str) -> str:
    """The page at an address after its scripts have run."""
    assert BROWSER is not None
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=60000", "--dump-dom"]
    done = subprocess.run([*command, address], capture_output=True, text=True, check=False, timeout=180)
    return done.stdout


FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
COMMANDS = {
    "chromium": [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=PROFILE"],
    "firefox": [FIREFOX, "--headless", "--no-remote", "--profile", "PROFILE"],
}
browsers = pytest.mark.parametrize(
    "browser",
    [
        pytest.param("chromium", marks=needs_browser),
        pytest.param(
            "firefox",
            marks=pytest.mark.skipif(FIREFOX is None, reason="no Firefox is installed: `apt install firefox-esr`"),
        ),
    ],
)


def visit(browser: str, folder: Path, page: str, handler: type[_Told], profile: Path) -> str:
    """What a page sends back from a real browser."""
    profile.mkdir()
    with served(folder, handler) as server:
        command = [str(part).replace("PROFILE", str(profile)) for part in COMMANDS[browser]]
        process = subprocess.Popen(
            [*command, f"{address_of(server)}/{page}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True, env={**os.environ, "HOME": str(profile)},
        )  # fmt: skip
        try:
            return server.told.get(timeout=240)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@needs_node
@pytest.mark.parametrize("name", sorted(MODELS)[:3])
def test_exported_models_are_right(name: str) -> None:
    model = MODELS[name]()
    expected = intaglio.load(model, engine="reference")(*FEEDS[name])
    try:
        wasm = WasmModel(model)
    except UnsupportedError as error:
        pytest.skip(f"C does not say it: {error}")
    for left, right in zip(wasm(*FEEDS[name]), expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-6)


HOSTILE = 'x"]; throw new Error("out"); //\n\u2028</script>`${1}'


def hostile_model() -> onnx.ModelProto:
    """Names that try to get out of strings and comments, and sizes that the caller chooses."""
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", [HOSTILE], ["y*/"])], "g",
        [value(HOSTILE, onnx.TensorProto.FLOAT, ["n", 3])], [value("y*/", onnx.TensorProto.FLOAT, ["n", 3])],
    )  # fmt: skip
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)


@needs_node
def test_names_stay_names_and_sizes_are_free() -> None:
    wasm = WasmModel(hostile_model())
    for rows in (1, 7, 0, 2):
        x = np.random.default_rng(rows).normal(size=(rows, 3)).astype(np.float32)
        np.testing.assert_array_equal(wasm(x)[0], np.maximum(x, 0))


@needs_node
def test_sizes_that_a_plan_assumes_to_be_others_are_told_by_inputs() -> None:
    text, weights, right, wrong = ASSUMED["a part of a table"]
    model = parse(text, **weights)
    wasm = WasmModel(model)
    np.testing.assert_allclose(wasm(*right)[0], intaglio.load(model, engine="reference")(*right), rtol=1e-5)
    with pytest.raises(WasmRunError, match="other relations"):
        wasm(*wrong)


@needs_node
def test_random_numbers_have_seeds_of_their_own(tmp_path: Path) -> None:
    text = '<ir_version: 10, opset_import: ["" : 21]> net (float[n] x) => (float[n] y) { y = Bernoulli(x) }'
    intaglio.export(onnx.parser.parse_model(text), "wasm", tmp_path)
    (tmp_path / "draw.js").write_text(
        """
        import { load } from "./model.js";
        const model = await load();
        const data = new Float32Array(1000).fill(0.5);
        console.log(JSON.stringify([1, 2].map(() => Array.from(model.run({ x: { data, dims: [1000] } }).y.data))));
        """
    )
    first, second = json.loads(run_node(tmp_path, "draw.js"))
    assert set(first) == {0, 1}
    assert 300 < sum(first) < 700
    assert first != second


@needs_node
def test_the_folder_tests_itself_and_refuses_wrong_inputs(tmp_path: Path) -> None:
    intaglio.export(hostile_model(), "wasm", tmp_path)
    assert "numbers are right" in run_node(tmp_path)
    (tmp_path / "wrong.js").write_text(
        """
        import { load } from "./model.js";
        const model = await load();
        const name = model.inputs[0].name;
        for (const feeds of [{}, { other: new Float32Array(3) }, { [name]: new Float64Array(3) },
                             { [name]: { data: new Float32Array(4), dims: [1, 3] } },
                             { [name]: { data: new Float32Array(4), dims: [1, 4] } },
                             { [name]: new Float32Array(3) }])
            try { model.run(feeds); console.log("taken"); } catch (error) { console.log(error.message); }
        """
    )
    lines = [line for line in run_node(tmp_path, "wrong.js").splitlines() if line]
    assert "taken" not in lines
    text = "\n".join(lines)
    for wanted in (
        "no value for the input",
        "expected a Float32Array",
        "its dims 1,3 need 3",
        "expected 1,3",
        "open sizes",
    ):
        assert wanted in text


@needs_node
@needs_browser
def test_a_browser_runs_it(tmp_path: Path) -> None:
    intaglio.export(hostile_model(), "wasm", tmp_path)
    with served(tmp_path) as server:
        assert "PASSED" in browse(f"{address_of(server)}/test.html")
        page = browse(f"{address_of(server)}/index.html")
    assert re.search(r"Ready after \d+ ms", page)
    assert "throw new Error" in page  # the hostile name as text


def wide_model() -> onnx.ModelProto:
    """Products that are worth several threads, rows, a convolution, and an open size."""
    return parse(
        """net (float[n, 48, 64] x) => (float[n, 48, 48] y, float[n, 4, 46, 62] z) {
            a = MatMul(x, w) b = Relu(a) p = Softmax(b) y = MatMul(p, v)
            one = Constant <value_ints=[1]> () u = Unsqueeze(x, one) z = Conv(u, k) }""",
        w=drawn(64, 96), v=drawn(96, 48), k=drawn(4, 1, 3, 3),
    )  # fmt: skip


COMPARE = """
import { load } from "./model.js";

function sample(rows, round) {
    const data = Float32Array.from({ length: rows * 48 * 64 }, (_, place) => Math.sin(place * 0.7 + round));
    return { x: { data, dims: [rows, 48, 64] } };
}

/** Whether one thread and several give the same bits, run after run, and what is left when they are ended. */
export async function compare() {
    const one = await load(undefined, { threads: 1 }), many = await load(undefined, { threads: 3 });
    const counts = [one.threads, many.threads];
    for (let round = 0; round < 40; round++) {
        if (round === 35) many.close();
        const feeds = sample(round % 4, round);
        const left = one.run(feeds), right = many.run(feeds);
        for (const name of ["y", "z"])
            left[name].data.forEach((value, place) => {
                if (!Object.is(value, right[name].data[place])) throw new Error(`${name}[${place}] differs`);
            });
    }
    return `threads ${counts}, then ${many.threads}: the same numbers`;
}
"""
COMPARE_PAGE = """<!doctype html><title>test</title><script type="module">
import { compare } from "./compare.js";
const text = await compare().catch((error) => `FAILED: ${error.message}`);
await fetch("/told", { method: "POST", body: text });
</script>"""


@pytest.fixture(scope="module")
def threaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose model may have four threads."""
    folder = tmp_path_factory.mktemp("threads")
    found = intaglio.export(wide_model(), "wasm", folder, threads=4)
    assert {"model.wasm", "model.threads.wasm", "worker.js"} <= set(found.files)
    (folder / "compare.js").write_text(COMPARE)
    (folder / "compare.html").write_text(COMPARE_PAGE)
    return folder


@needs_node
def test_threads_give_the_same_numbers(threaded: Path) -> None:
    (threaded / "run.js").write_text('import { compare } from "./compare.js"; console.log(await compare());')
    assert "threads 1,3, then 1: the same numbers" in run_node(threaded, "run.js")
    assert "numbers are right" in run_node(threaded)


@pytest.mark.parametrize("missing", ["worker.js", "model.threads.wasm"])
@needs_node
def test_threads_that_cannot_be_had_are_told_and_done_without(missing: str, threaded: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(threaded, tmp_path / "folder")
    (folder / missing).unlink()
    (folder / "run.js").write_text('import { compare } from "./compare.js"; console.log(await compare());')
    assert NODE is not None
    done = subprocess.run(
        [NODE, "run.js"], cwd=folder, capture_output=True, text=True, check=True, timeout=120
    )  # fmt: skip
    assert "threads 1,1, then 1: the same numbers" in done.stdout
    assert "the model runs on one thread" in done.stderr


@needs_node
@browsers
@pytest.mark.parametrize(("handler", "threads"), [(_Isolated, 3), (_Told, 1)])
def test_pages_have_threads_where_they_are_isolated(
    browser: str, handler: type[_Told], threads: int, threaded: Path, tmp_path: Path
) -> None:
    told = visit(browser, threaded, "compare.html", handler, tmp_path / "profile")
    assert told == f"threads 1,{threads}, then 1: the same numbers"


@needs_node
def test_a_model_with_nothing_to_share_has_one_module(tmp_path: Path) -> None:
    text = '<ir_version: 10, opset_import: ["" : 21]> net (float[3] x) => (float[3] y) { y = Identity(x) }'
    found = intaglio.export(onnx.parser.parse_model(text), "wasm", tmp_path, threads=2)
    has_tasks = "model.threads.wasm" in found.files
    assert has_tasks == ("threads: 2" in (tmp_path / "model.js").read_text())
    assert "numbers are right" in run_node(tmp_path)


def test_wrong_numbers_of_threads(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="threads is 0"):
        intaglio.export(hostile_model(), "wasm", tmp_path, threads=0)


@needs_node
@pytest.mark.parametrize("name", list(cases())[::SAMPLE])
def test_onnx_tests_in_wasm(name: str) -> None:
    result, error = cases()[name].run(export_subject("wasm"))
    if error is not None and not isinstance(error, UnsupportedError) and result.outcome != "random":
        raise error


@needs_node
@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_all_of_onnx_tests() -> None:
    subject = export_subject("wasm")
    results = [case.run(subject)[0] for case in cases().values()]
    _, passed, _, _ = export_row("wasm", results)
    assert passed >= 1700
    wrong = [result.name for result in results if result.outcome == "failed" and not result.reason.startswith(UNSAID)]
    assert not wrong


@needs_node
@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenet_v2", "silero-vad-18"])
def test_networks_in_a_browser(name: str, tmp_path: Path) -> None:
    """Real networks on a page; their answers are compared with the native engine's."""
    from bench.models import select

    (found,) = select([name])
    intaglio.export(found.path(), "wasm", tmp_path)
    model = intaglio.load(found.path())
    feeds = found.feeds(1)
    write_example(tmp_path, feeds, model.run(feeds))
    with served(tmp_path) as server:
        assert "PASSED" in browse(f"{address_of(server)}/test.html")


def write_example(folder: Path, feeds: dict[str, Any], outputs: dict[str, Any]) -> None:
    import base64
    import json
    import shutil as files

    from intaglio.emit.wasm.script import LIBRARY

    kinds = {"f4": "Float32Array", "f8": "Float64Array", "i8": "BigInt64Array", "i4": "Int32Array", "b1": "Uint8Array"}

    def stored(array: Any) -> dict[str, Any]:
        data = np.ascontiguousarray(array)
        kind = kinds[data.dtype.str[1:]]
        return {"kind": kind, "dims": list(np.shape(array)), "bytes": base64.b64encode(data.tobytes()).decode()}

    data = {"tolerance": 1e-4, "inputs": {k: stored(v) for k, v in feeds.items()},
            "outputs": {k: stored(v) for k, v in outputs.items()}}  # fmt: skip
    (folder / "test.json").write_text(json.dumps(data))
    for name in ("test.js", "test.html"):
        files.copy(LIBRARY / name, folder / name)


def test_without_its_compiler_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CompileError, match="pip install ziglang"):
        intaglio.export(hostile_model(), "wasm", tmp_path)


def test_options_of_other_languages_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="style"):
        intaglio.export(hostile_model(), "wasm", tmp_path, style="readable")
