"""The page's server: what it answers, and whom it refuses."""

from __future__ import annotations

import base64
import io
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.web.pages import HEADER, SMALL, Page, page, write

from intaglio.cli.app import main
from intaglio.cli.demo_model import demo_model

SLOW = HEADER + (
    "g (float[4] x) => (float[4] y) <int64 rounds = {4000000000}, bool go = {1}> { y = Loop (rounds, go, x)"
    " <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] w) { d = Identity(c) w = Sin(v) }> }"
)


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Generator[Page]:
    """A server that shows two models and changes nothing."""
    folder = tmp_path_factory.mktemp("view")
    write(folder / "small.onnx")
    write(folder / "other.onnx", SMALL.replace("[relu] r = Relu", "[relu] r = Tanh").replace("{1,2,", "{1,3,"))
    with page(folder / "small.onnx", folder / "other.onnx", "--port", "0") as found:
        yield found


def npy(array: np.ndarray[Any, Any]) -> dict[str, str]:
    written = io.BytesIO()
    np.save(written, array)
    return {"npy": base64.b64encode(written.getvalue()).decode()}


REFUSED: dict[str, tuple[dict[str, str | None], int]] = {
    "no token": ({"X-Intaglio-Token": None}, 401),
    "wrong token": ({"X-Intaglio-Token": "x" * 43}, 401),
    "another origin": ({"Origin": "http://example.com"}, 403),
    "no origin": ({"Origin": "null"}, 403),
    "another port of this machine": ({"Origin": "http://127.0.0.1:1"}, 403),
    "a name that leads here": ({"Host": "example.com"}, 403),
    "no host": ({"Host": None}, 400),
    "a page of another site": ({"Sec-Fetch-Site": "cross-site"}, 403),
    "a page of the same site": ({"Sec-Fetch-Site": "same-site"}, 403),
}


@pytest.mark.parametrize("case", REFUSED)
def test_strangers_are_refused(viewer: Page, case: str) -> None:
    headers, status = REFUSED[case]
    found = viewer.ask("GET", "/api/models", headers=headers)
    assert found.status == status
    assert b"small.onnx" not in found.body


def test_the_own_page_is_answered(viewer: Page) -> None:
    own = {"Origin": f"http://127.0.0.1:{viewer.port}", "Sec-Fetch-Site": "same-origin"}
    assert viewer.ask("GET", "/api/models", headers=own).status == 200
    assert viewer.ask("GET", "/", headers={"X-Intaglio-Token": None}).status == 200


def test_the_page_has_a_strict_policy(viewer: Page) -> None:
    headers = viewer.ask("GET", "/").headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "http:" not in policy
    assert "https:" not in policy


@pytest.mark.parametrize(
    "path", ["/../app.py", "/..%2fapp.py", "/%2e%2e/app.py", "/assets/index.html", "/etc/passwd", "//x"]
)
def test_nothing_but_the_page_is_a_file(viewer: Page, path: str) -> None:
    assert viewer.ask("GET", path).status == 404


def test_only_this_machine_listens(viewer: Page) -> None:
    lines = Path("/proc/net/tcp").read_text().splitlines()
    ports = [line.split()[1] for line in lines if line.split()[1].endswith(f":{viewer.port:04X}")]
    assert ports
    assert all(each.startswith("0100007F:") for each in ports)


def test_structure_is_kept_until_it_changes(viewer: Page) -> None:
    found = viewer.ask("GET", "/api/models/0/structure")
    again = viewer.ask("GET", "/api/models/0/structure", headers={"If-None-Match": found.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    assert [row["file"] for row in viewer.get("/api/models")["models"]] == ["small.onnx", "other.onnx"]


def test_panels_say_what_the_file_and_the_schema_say(viewer: Page) -> None:
    node = viewer.get("/api/models/0/nodes/0")
    assert (node["op"], node["name"], node["since"]) == ("MatMul", "product", 13)
    assert [(each["name"], each["value"], each["type"]) for each in node["inputs"]] == [
        ("A", "x", "float32[n, 4]"), ("B", "w", "float32[4, 4]")
    ]  # fmt: skip
    value = viewer.get("/api/models/0/values/m")
    assert (value["kind"], value["maker"], value["readers"]) == ("intermediate", 0, [1])
    weight = viewer.tensor("w", "?start=12&count=2")
    assert weight["values"] == [5.0, 0.0]
    assert (weight["statistics"]["max"], weight["statistics"]["zeros"]) == (5.0, 8)
    assert sum(weight["histogram"]["counts"]) == 16
    assert viewer.tensor("k")["values"] == [0.5, -0.5, 1.0, 2.0]
    assert viewer.get("/api/models/0/stats?dim=n=3")["total"]["macs"] == 48
    assert viewer.post("/api/models/0/types", {"dims": {"n": 7}})["types"]["y"] == "float32[7, 4]"


BAD = {
    "/api/models/9/structure": 404,
    "/api/models/0/nodes/99": 400,
    "/api/models/0/values/none": 400,
    "/api/models/0/tensors/x": 400,
    "/api/models/0/tensors/w?start=-1": 400,
    "/api/models/0/tensors/w?run=77": 400,
    "/api/models/0/stats?dim=n": 400,
    "/api/models/0/stats?dim=zz=1": 400,
    "/api/models/0/source?to=cobol": 400,
    "/api/jobs/77": 404,
    "/api/none": 404,
    "/api/operators?name=None": 400,
}


@pytest.mark.parametrize("path", BAD)
def test_bad_requests_have_a_message(viewer: Page, path: str) -> None:
    found = viewer.ask("GET", path)
    assert found.status == BAD[path], found.body
    assert found.json["error"]["message"]


def test_bodies_are_checked(viewer: Page) -> None:
    for body in (b"{", b"[1]", b'"x"', b"\xff", b"[" * 100_000):
        assert viewer.ask("POST", "/api/models/0/run", body).status == 400
    assert viewer.ask("POST", "/api/models/0/run", b"", {"Content-Length": str(1 << 40)}).status == 413
    for bad in ({"dims": {"n": -1}}, {"dims": []}, {"seed": "x"}, {"tensors": "y"}, {"tensors": [1]}, {"inputs": [1]},
                {"inputs": {"x": {"npy": "%"}}}, {"inputs": {"x": {"values": "[", "dtype": "float32"}}}):  # fmt: skip
        assert viewer.ask("POST", "/api/models/0/run", bad).status == 400, bad


def test_nothing_is_changed_without_edit(viewer: Page) -> None:
    for path in ("edit", "undo", "redo", "save"):
        found = viewer.ask("POST", f"/api/models/0/{path}", {"commands": [{"name": "prune", "arguments": {}}]})
        assert found.status == 403
        assert "--edit" in found.json["error"]["message"]
    assert viewer.ask("POST", "/api/models", b"x").status == 403


def test_a_run_gives_any_tensor(viewer: Page) -> None:
    x = np.array([[1, 2, 3, 4]], np.float32)
    job = viewer.finish(viewer.post("/api/models/0/run", {"inputs": {"x": npy(x)}, "tensors": ["m"], "against": "ort"}))
    assert job["state"] == "done", job
    w = np.array([[1, 2, 3, 4], [0, 1, 0, 0], [0, 0, 1, 0], [5, 0, 0, 1]], np.float32)
    (m,) = job["result"]["tensors"]
    assert m["values"] == (x @ w).reshape(-1).tolist()
    assert job["result"]["nodes"]["m"] == 0
    assert viewer.tensor("m", f"?run={job['id']}")["values"] == m["values"]
    assert job["result"]["against"]["equal"] is True
    typed = {"x": {"values": "[[1, 2, 3, 4]]", "dtype": "float32"}}
    again = viewer.finish(viewer.post("/api/models/0/run", {"inputs": typed}))
    assert again["result"]["outputs"] == job["result"]["outputs"]


def test_a_profile_has_the_time_of_each_node(viewer: Page) -> None:
    job = viewer.finish(viewer.post("/api/models/0/profile", {"dims": {"n": 2}, "runs": 2}))
    served = {number for row in job["result"]["rows"] for number in row["id"]}
    assert {0, 1, 3} == served
    assert job["result"]["total_us"] > 0


@pytest.mark.parametrize("to", ["native", "python", "c"])
def test_source_is_shown(viewer: Page, to: str) -> None:
    started = viewer.ask("GET", f"/api/models/0/source?to={to}")
    assert started.status == 202
    result = viewer.finish(started.json)["result"]
    assert all(file["text"] for file in result["files"])
    if to == "native":
        name, first, last = result["lines"]["0"]
        lines = result["files"][0]["text"].splitlines()
        assert name == result["files"][0]["name"]
        assert 0 < first < last <= len(lines)


def test_the_difference_of_two_models_names_nodes(viewer: Page) -> None:
    found = viewer.get("/api/diff")
    assert (found["nodes"]["removed"], found["nodes"]["added"]) == ([1], [1])
    assert [0, 0] in found["nodes"]["pairs"]
    assert [each["name"] for each in found["weights"]] == ["w"]


def test_tools_open_what_they_make(viewer: Page) -> None:
    made = viewer.finish(viewer.post("/api/models/0/tools/set-opset", {"options": {"version": 17}}))
    model = made["result"]["model"]
    assert ["operators ai.onnx", "17"] in viewer.get(f"/api/models/{model}/structure")["about"]
    assert viewer.ask("DELETE", f"/api/models/{model}").status == 200
    assert viewer.ask("DELETE", "/api/models/0").status == 400
    assert viewer.finish(viewer.post("/api/models/0/tools/lint"))["result"]["model"] is None
    assert viewer.ask("POST", "/api/models/0/tools/none", {}).status == 400


def test_simplify_links_what_became_what(tmp_path: Path) -> None:
    path = tmp_path / "bn.onnx"
    onnx.save(onnx.parser.parse_model(HEADER + (
        "g (float[1, 2, 4, 4] x) => (float[1, 2, 2, 2] y) <float[2, 2, 3, 3] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,"
        "1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9}, float[2] s = {1, 2}, float[2] b = {1, 2}, float[2] mean = {1, 2},"
        "float[2] var = {1, 2}> { [conv] c = Conv(x, w) [norm] y = BatchNormalization(c, s, b, mean, var) }"
    )), path)  # fmt: skip
    with page(path) as found:
        job = found.finish(found.post("/api/models/0/tools/simplify"))
        made = found.get(f"/api/models/{job['result']['model']}/structure")["graphs"][0]["nodes"]["id"]
        assert len(made) == 1
        nodes = found.get(f"/api/diff?a=0&b={job['result']['model']}")["nodes"]
        assert {(a, b) for a, b in [*nodes["pairs"], *nodes["became"]]} >= {(0, made[0]), (1, made[0])}
        heat = found.finish(found.post("/api/models/0/profile", {"runs": 1}))["result"]
        assert {0, 1} == {number for row in heat["rows"] for number in row["id"]}


def test_a_long_run_is_cancelled(tmp_path: Path) -> None:
    with page(write(tmp_path / "slow.onnx", SLOW)) as found:
        job = found.post("/api/models/0/run", {})
        while found.get(f"/api/jobs/{job['job']}")["note"] != "running":
            pass
        assert found.ask("DELETE", f"/api/jobs/{job['job']}").status == 200
        assert found.finish(job)["state"] == "cancelled"


def test_the_server_ends_when_it_is_told_to(tmp_path: Path) -> None:
    with page(write(tmp_path / "small.onnx")) as found:
        assert found.get("/api/models")
        assert found.end() == 0


def test_wrong_usage_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write(tmp_path / "small.onnx"))
    cases = {
        ("view", path, path, path): 2,
        ("view", path, "--weights"): 2,
        ("view", path, "--html", "x.html", "--edit"): 2,
        ("view", str(tmp_path / "none.onnx"), "--no-browser"): 1,
    }
    for arguments, status in cases.items():
        with pytest.raises(SystemExit) as left:
            main(list(arguments))
        assert left.value.code == status, arguments
        assert capsys.readouterr().err


def test_a_million_nodes_are_refused_politely(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = onnx.parser.parse_model(HEADER + "g (float[2] x) => (float[2] y) { y = Relu(x) }")
    node = model.graph.node[0].SerializeToString()
    field = b"\x0a" + bytes([len(node)]) + node
    graph = model.graph.SerializeToString() + field * 1_000_000
    del model.graph.node[:]
    model.ClearField("graph")
    size, digits = len(graph), list[int]()
    while size:
        digits.append(size & 127 | (128 if size > 127 else 0))
        size >>= 7
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString() + b"\x3a" + bytes(digits) + graph)
    with pytest.raises(SystemExit) as left:
        main(["view", str(tmp_path / "m.onnx"), "--no-browser"])
    assert left.value.code == 1
    assert "1,000,001 nodes" in capsys.readouterr().err


def test_texts_of_a_megabyte_and_markup_are_answered(tmp_path: Path) -> None:
    name = "</script><img src=x onerror=alert(1)>" + "n" * 1_000_000
    model = onnx.parser.parse_model(SMALL)
    model.doc_string = model.graph.name = name
    model.graph.node[0].name = model.graph.node[0].doc_string = name
    model.graph.node[0].output[0] = model.graph.node[1].input[0] = name
    onnx.save(model, tmp_path / "long.onnx")
    with page(tmp_path / "long.onnx") as found:
        answers = [found.ask("GET", f"/api/models/{path}") for path in ("0/structure", "0/nodes/0", "0/faults")]
        for each in answers:
            assert (each.status, each.headers["content-type"]) == (200, "application/json")
            assert b"<" not in each.body
            assert len(each.body) < 300_000
        assert found.ask("GET", f"/api/models/0/values/{'x' * 60_000}").status in (400, 414)


def test_the_page_of_the_demo_has_all_it_needs(tmp_path: Path) -> None:
    onnx.save(demo_model(), tmp_path / "demo.onnx")
    with page(tmp_path / "demo.onnx") as found:
        filters = found.tensor("stem.weight")["filters"]
        assert base64.b64decode(filters["png"]).startswith(b"\x89PNG")
        assert filters["total"] == 48
