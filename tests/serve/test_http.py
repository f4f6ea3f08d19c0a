"""The protocol by HTTP, against a real server: JSON, binary tensors, and the client of Triton."""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
from tests.serve.processes import CENTRED, KINDS, SLOW, TWICE, Server, binary_request, json_tensor, save, serving

from intaglio.serve.openapi import openapi

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("models")
    for name, text in {"twice": TWICE, "centred": CENTRED, "slow": SLOW, "kinds": KINDS}.items():
        save(folder / f"{name}.onnx", text)
    save(folder / "many" / "1" / "model.onnx", TWICE)
    save(folder / "many" / "10" / "model.onnx", TWICE.replace("Add", "Mul"))
    (folder / "code.py").write_text("raise SystemExit('this was run')\n")
    with serving(folder) as found:
        wait_until_ready(found)
        yield found


def wait_until_ready(server: Server) -> None:
    while server.ask("GET", "/v2/health/ready").status != 200:
        assert server.process.poll() is None


def test_json_is_answered_by_json(server: Server) -> None:
    answer = server.infer("twice", {"x": X}, id="seven")
    assert answer.status == 200
    assert answer.json == {
        "model_name": "twice",
        "model_version": "1",
        "id": "seven",
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [2, 3], "data": (2 * X).ravel().tolist()}],
    }


def test_data_may_be_nested_as_the_shape(server: Server) -> None:
    tensor = json_tensor("x", X) | {"data": X.tolist()}
    answer = server.ask("POST", "/v2/models/twice/infer", {"inputs": [tensor]})
    assert np.array_equal(answer.array("y"), 2 * X)


def test_binary_tensors(server: Server) -> None:
    body, headers = binary_request({"x": X})
    answer = server.ask("POST", "/v2/models/twice/infer", body, headers)
    assert answer.status == 200
    length = int(answer.headers["inference-header-content-length"])
    assert np.array_equal(np.frombuffer(answer.body[length:], np.float32).reshape(2, 3), 2 * X)


def test_compressed_bodies(server: Server) -> None:
    body, headers = binary_request({"x": X})
    answer = server.ask("POST", "/v2/models/twice/infer", gzip.compress(body), {**headers, "Content-Encoding": "gzip"})
    assert answer.status == 200


def test_large_tensors_come_back_whole(server: Server) -> None:
    large = np.random.default_rng(0).random((1000, 2500), np.float32)
    body, headers = binary_request({"x": large})
    answer = server.ask("POST", "/v2/models/twice/infer", body, headers)
    length = int(answer.headers["inference-header-content-length"])
    assert np.array_equal(np.frombuffer(answer.body[length:], np.float32).reshape(large.shape), 2 * large)


def test_metadata_names_open_sizes(server: Server) -> None:
    found = server.ask("GET", "/v2/models/twice").json
    assert found["inputs"] == [
        {"name": "x", "datatype": "FP32", "shape": [-1, -1], "parameters": {"sizes": ["n", "k"]}}
    ]
    assert found["properties"] == {"batching": "rows along 'n'"}


def test_rows_that_mix_are_not_batched_and_the_reason_is_said(server: Server) -> None:
    batching = server.ask("GET", "/v2/models/centred").json["properties"]["batching"]
    assert batching.startswith("off: rows may mix: ")
    assert "ReduceMean" in batching


def test_versions(server: Server) -> None:
    assert server.ask("GET", "/v2/models/many").json["versions"] == ["1", "10"]
    assert np.array_equal(server.infer("many", {"x": X}).array("y"), X * X)
    assert np.array_equal(server.infer("many/versions/1", {"x": X}).array("y"), X + X)
    assert server.infer("many/versions/2", {"x": X}).status == 404


def test_code_in_a_folder_is_not_run(server: Server) -> None:
    names = {each["name"] for each in server.ask("POST", "/v2/repository/index").json}
    assert names == {"twice", "centred", "slow", "kinds", "many"}


def test_load_and_unload(server: Server) -> None:
    assert server.ask("POST", "/v2/repository/models/kinds/unload").status == 200
    assert server.ask("GET", "/v2/models/kinds/ready").status == 503
    assert server.ask("GET", "/v2/models/kinds").status == 400
    assert server.ask("GET", "/v2/health/ready").status == 200
    assert server.ask("POST", "/v2/repository/models/kinds/load").status == 200
    assert server.ask("GET", "/v2/models/kinds/ready").status == 200
    refused = server.ask("POST", "/v2/repository/models/kinds/load", {"parameters": {"config": "{}"}})
    assert (refused.status, "own folder" in refused.json["error"]) == (400, True)


def test_statistics_and_metrics(server: Server) -> None:
    before = server.ask("GET", "/v2/models/twice/stats").json["model_stats"][0]
    server.infer("twice", {"x": X})
    after = server.ask("GET", "/v2/models/twice/stats").json["model_stats"][0]
    assert after["inference_stats"]["success"]["count"] == before["inference_stats"]["success"]["count"] + 1
    text = server.ask("GET", "/metrics").body.decode()
    for name in ("intaglio_queue_seconds_bucket", "intaglio_compute_seconds_bucket", "intaglio_batch_rows_bucket"):
        assert f'{name}{{le="1.0",model="twice",version="1"}}' in text


def test_every_described_path_is_there(server: Server) -> None:
    assert server.ask("GET", "/openapi.json").json == openapi()
    values = {"{model}": "twice", "{version}": "1", "{region}": "r", "{trace}": "0"}
    for path, methods in openapi()["paths"].items():
        for name, value in values.items():
            path = path.replace(name, value)
        if "unload" in path:
            continue
        for method in methods:
            found = server.ask(method.upper(), path, {} if method == "post" else None)
            assert path == "/metrics" or isinstance(found.json, (dict, list))
            assert found.status != 405, path
            assert found.status != 404 or "trace" in path, path
    assert b"twice" in server.ask("GET", "/").body


def test_traces(server: Server) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    fields = {"inputs": [json_tensor("x", X)], "parameters": {"trace": True}}
    answer = server.ask("POST", "/v2/models/twice/infer", fields, headers)
    assert answer.headers["traceparent"].split("-")[1] == trace
    assert answer.json["parameters"] == {"trace_id": trace}
    assert server.ask("GET", f"/v2/trace/{trace}").json["traceEvents"]


def output(result: triton.InferResult, name: str) -> Any:
    found = result.as_numpy(name)
    assert found is not None, f"there is no output {name}"
    return found


def wrong(**fields: Any) -> dict[str, Any]:
    return {"inputs": [json_tensor("x", X) | fields]}


@pytest.mark.parametrize(
    ("body", "status", "part"),
    [
        (b"{", 400, "no JSON"),
        (b"[]", 400, "no object"),
        (b"[" * 100_000, 400, "nested"),
        (b"\xff\xfe", 400, "no JSON"),
        ({"inputs": []}, 400, "no inputs"),
        ({"inputs": 3}, 400, "list of objects"),
        (wrong(name="z"), 400, "no input 'z'"),
        (wrong(datatype="FP99"), 400, "FP99"),
        (wrong(datatype="INT64"), 400, "float"),
        (wrong(datatype="INT32", data=[1] * 6), 400, "expected FP32"),
        (wrong(shape=[2, -3]), 400, "at least 0"),
        (wrong(shape=[1 << 40, 1 << 40]), 400, "elements"),
        (wrong(shape=[6]), 400, "expected [n, k]"),
        (wrong(shape=[1] * 40), 400, "at most 32"),
        (wrong(data=[1, 2]), 400, "2 elements"),
        (wrong(data=[1e300] * 6), 400, "cannot hold"),
        (wrong(parameters={"binary_data_size": 1 << 62}), 400, "binary bytes"),
        (wrong(parameters={"shared_memory_region": "r", "shared_memory_byte_size": 4}), 400, "--shared-memory"),
        (wrong() | {"outputs": [{"name": "z"}]}, 400, "no output 'z'"),
        (wrong() | {"parameters": {"timeout": "soon"}}, 400, "timeout"),
    ],
)
def test_wrong_bodies_have_a_clear_status(server: Server, body: Any, status: int, part: str) -> None:
    answer = server.ask("POST", "/v2/models/twice/infer", body)
    assert (answer.status, part in answer.json["error"]) == (status, True), answer.body


def test_other_failures(server: Server) -> None:
    assert server.infer("nothing", {"x": X}).status == 404
    assert server.ask("GET", "/v2/nothing").json == {"error": "Not Found"}
    assert server.ask("DELETE", "/v2").status == 405
    infinite = server.infer("twice", {"x": np.full((1, 1), 3e38, np.float32)})
    assert (infinite.status, "binary_data" in infinite.json["error"]) == (422, True)
    other = {"Origin": "http://elsewhere.example"}
    assert server.ask("POST", "/v2/repository/models/twice/unload", headers=other).status == 403


def test_the_client_of_triton(server: Server) -> None:
    client = triton.InferenceServerClient(f"127.0.0.1:{server.port}")
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("twice")
    assert client.get_server_metadata()["name"] == "intaglio"
    assert client.get_model_config("kinds")["output"][2]["data_type"] == "TYPE_STRING"
    assert client.get_inference_statistics("twice")["model_stats"][0]["name"] == "twice"
    arrays = {
        "a": np.array([1, -2], np.int64),
        "b": np.array([True, False]),
        "s": np.array([b"ab", "ä".encode()], object),
        "h": np.array([1, 2], np.float16),
    }
    for is_binary in (True, False):
        inputs: list[Any] = []
        for (name, array), kind in zip(arrays.items(), ("INT64", "BOOL", "BYTES", "FP16"), strict=True):
            each = triton.InferInput(name, list(array.shape), kind)
            each.set_data_from_numpy(array, binary_data=is_binary or kind == "FP16")
            inputs.append(each)
        outputs = [triton.InferRequestedOutput(name, binary_data=is_binary) for name in "cdt"]
        result = client.infer("kinds", inputs, outputs=outputs, request_id="1", priority=1, timeout=10_000_000)
        assert output(result, "c").tolist() == [-1, 2]
        assert output(result, "d").tolist() == [False, True]
        texts = [each if isinstance(each, bytes) else each.encode() for each in output(result, "t").tolist()]
        assert texts == [b"abab", "ää".encode()]
    client.unload_model("many")
    client.load_model("many")
    with pytest.raises(triton.InferenceServerException, match="no model"):
        client.infer("nothing", [triton.InferInput("x", [1], "FP32").set_data_from_numpy(np.zeros(1, np.float32))])
    client.close()


def test_a_missing_extra_is_named(tmp_path: Path) -> None:
    code = "import sys; sys.modules['uvicorn'] = None\nfrom intaglio.cli.app import main; main(['serve', sys.argv[1]])"
    command = [sys.executable, "-c", code, str(save(tmp_path / "m.onnx", TWICE))]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, "pip install 'intaglio[serve]'" in found.stderr) == (1, True)


def test_other_commands_load_no_server() -> None:
    code = (
        "import sys, intaglio, intaglio.cli.app\n"
        "intaglio.load, intaglio.train, intaglio.compat\n"
        "print([name for name in ('intaglio.serve', 'starlette', 'uvicorn', 'grpc') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
