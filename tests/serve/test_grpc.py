"""The protocol by gRPC, judged by Triton's own client."""

from __future__ import annotations

import queue
import re
import signal
import subprocess
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.serve.processes import KINDS, SLOW, TWICE, Server, save, serving

grpc: Any = pytest.importorskip("grpc", reason="grpcio is not installed")
triton: Any = pytest.importorskip("tritonclient.grpc", reason="tritonclient is not installed")


class Client:
    """A server with a client of Triton."""

    def __init__(self, server: Server, **options: Any) -> None:
        self.server = server
        match = next(found for line in server.lines if (found := re.match(r"listening on grpc://(.*)$", line)))
        self.address = match[1]
        self.triton = triton.InferenceServerClient(self.address, **options)

    def channel(self) -> Any:
        """A plain channel."""
        return grpc.insecure_channel(self.address)

    def infer(self, model: str, inputs: dict[str, Any], **options: Any) -> Any:
        """One inference."""
        return self.triton.infer(model, tensors(inputs), **options)


NAMES = {"float32": "FP32", "int64": "INT64", "bool": "BOOL", "object": "BYTES", "float16": "FP16"}


def tensors(inputs: dict[str, Any]) -> list[Any]:
    """Inputs as the client takes them."""
    found: list[Any] = []
    for name, array in inputs.items():
        tensor = triton.InferInput(name, list(array.shape), NAMES[str(array.dtype)])
        tensor.set_data_from_numpy(array)
        found.append(tensor)
    return found


@contextmanager
def client(source: Path, *options: str, **named: Any) -> Generator[Client]:
    """A server on free ports."""
    with serving(source, "--grpc-port", "0", *options) as server:
        wait_until_ready(server)
        yield Client(server, **named)


def wait_until_ready(server: Server) -> None:
    for _ in range(600):
        if server.ask("GET", "/v2/health/ready").status == 200:
            return
        time.sleep(0.05)
    raise AssertionError("the server is not ready after 30 seconds")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Generator[Client]:
    folder = tmp_path_factory.mktemp("grpc")
    for name, text in (("twice", TWICE), ("kinds", KINDS), ("slow", SLOW)):
        save(folder / f"{name}.onnx", text)
    with client(folder, "--shared-memory") as found:
        yield found


def test_health_and_metadata(running: Client) -> None:
    found = running.triton
    assert found.is_server_live()
    assert found.is_server_ready()
    assert found.is_model_ready("twice")
    server = found.get_server_metadata(as_json=True)
    assert server["name"] == "intaglio"
    assert "binary_tensor_data" in server["extensions"]
    model = found.get_model_metadata("twice", as_json=True)
    assert model["versions"] == ["1"]
    assert model["inputs"] == [{"name": "x", "datatype": "FP32", "shape": ["-1", "-1"]}]
    config = found.get_model_config("kinds", as_json=True)["config"]
    assert [each["data_type"] for each in config["input"]] == ["TYPE_INT64", "TYPE_BOOL", "TYPE_STRING", "TYPE_FP16"]
    assert [each["name"] for each in config["output"]] == ["c", "d", "t", "i"]


@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (1, 1), (500, 700)])
def test_inference(running: Client, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    answer = running.infer("twice", {"x": x}, request_id="seven")
    assert np.array_equal(answer.as_numpy("y"), x + x)
    assert answer.get_response().id == "seven"


def test_all_kinds_of_elements(running: Client) -> None:
    inputs = {
        "a": np.array([1, -(2**62)], np.int64),
        "b": np.array([True, False]),
        "s": np.array(["ä", ""], object),
        "h": np.array([1.5, np.inf], np.float16),
    }
    answer = running.infer("kinds", inputs)
    assert answer.as_numpy("c").tolist() == [-1, 2**62]
    assert answer.as_numpy("d").tolist() == [False, True]
    assert [text.decode() for text in answer.as_numpy("t")] == ["ää", ""]
    assert answer.as_numpy("i").tolist() == [-1.5, -np.inf]


def test_typed_contents(running: Client) -> None:
    from tritonclient.grpc import service_pb2, service_pb2_grpc

    pb: Any = service_pb2
    request = pb.ModelInferRequest(model_name="twice")
    tensor = request.inputs.add(name="x", datatype="FP32", shape=[1, 2])
    tensor.contents.fp32_contents.extend([1.5, 2.0])
    with running.channel() as channel:
        stub: Any = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        answer = stub.ModelInfer(request)
        assert np.frombuffer(answer.raw_output_contents[0], np.float32).tolist() == [3.0, 4.0]
        tensor.contents.int_contents.append(1)
        with pytest.raises(grpc.RpcError, match="has int_contents, expected fp32_contents"):
            stub.ModelInfer(request)


@pytest.mark.parametrize(
    ("model", "inputs", "code", "text"),
    [
        ("none", {"x": np.zeros((1, 2), np.float32)}, "NOT_FOUND", "there is no model 'none'"),
        ("twice", {"z": np.zeros((1, 2), np.float32)}, "INVALID_ARGUMENT", "'z'"),
        ("twice", {"x": np.zeros((1, 2), np.int64)}, "INVALID_ARGUMENT", "INT64"),
        ("twice", {"x": np.zeros(2, np.float32)}, "INVALID_ARGUMENT", "'x'"),
    ],
)
def test_errors(running: Client, model: str, inputs: dict[str, Any], code: str, text: str) -> None:
    with pytest.raises(triton.InferenceServerException) as caught:
        running.infer(model, inputs)
    assert caught.value.status() == f"StatusCode.{code}"
    assert text in caught.value.message()


def test_bytes_that_are_no_message(running: Client) -> None:
    with running.channel() as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"\xff\xff\xff")
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/inference.GRPCInferenceService/Nothing")(b"")
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.timeout(60)
def test_a_deadline_ends_the_run(running: Client) -> None:
    """A thousand million rounds would take minutes, and the request behind them would wait for their end."""
    inputs = {"x": np.zeros((200, 4), np.float32), "rounds": np.array(10**9)}
    with pytest.raises(triton.InferenceServerException, match="DEADLINE_EXCEEDED"):
        running.infer("slow", inputs, client_timeout=0.3)
    assert running.infer("slow", inputs | {"rounds": np.array(1)}).as_numpy("y").shape == (200, 4)


def test_statistics_and_repository(running: Client) -> None:
    before = running.triton.get_inference_statistics("kinds").model_stats[0].inference_count
    test_all_kinds_of_elements(running)
    found = running.triton.get_inference_statistics("kinds").model_stats[0]
    assert found.inference_count == before + 1
    assert found.inference_stats.success.ns > 0
    assert {each.name for each in running.triton.get_model_repository_index().models} == {"twice", "kinds", "slow"}


def test_load_and_unload(tmp_path: Path) -> None:
    save(tmp_path / "twice.onnx", TWICE)
    with client(tmp_path) as found:
        found.triton.unload_model("twice")
        assert not found.triton.is_model_ready("twice")
        found.triton.load_model("twice")
        assert found.triton.is_model_ready("twice")
        with pytest.raises(triton.InferenceServerException, match="a load takes no parameters"):
            found.triton.load_model("twice", config="{}")


def test_streams_go_on_after_an_error(running: Client) -> None:
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    x = np.ones((1, 2), np.float32)
    running.triton.start_stream(lambda result, error: answers.put((result, error)))
    try:
        for model in ("twice", "none", "twice"):
            running.triton.async_stream_infer(model, tensors({"x": x}))
        found = [answers.get(timeout=30) for _ in range(3)]
    finally:
        running.triton.stop_stream()
    assert [error is None for _, error in found] == [True, False, True]
    assert "there is no model 'none'" in str(found[1][1])
    assert np.array_equal(found[2][0].as_numpy("y"), x + x)


def test_shared_memory(running: Client) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    memory = shared_memory.SharedMemory(create=True, size=2 * x.nbytes)
    try:
        assert memory.buf is not None
        memory.buf[: x.nbytes] = x.tobytes()
        running.triton.register_system_shared_memory("both", memory.name, 2 * x.nbytes)
        assert running.triton.get_system_shared_memory_status().regions["both"].byte_size == 2 * x.nbytes
        tensor = triton.InferInput("x", [2, 3], "FP32")
        tensor.set_shared_memory("both", x.nbytes)
        output = triton.InferRequestedOutput("y")
        output.set_shared_memory("both", x.nbytes, x.nbytes)
        running.triton.infer("twice", [tensor], outputs=[output])
        assert bytes(memory.buf[x.nbytes : 2 * x.nbytes]) == (x + x).tobytes()
        running.triton.unregister_system_shared_memory("both")
    finally:
        memory.close()
        memory.unlink()


def test_keys(tmp_path: Path) -> None:
    save(tmp_path / "twice.onnx", TWICE)
    (tmp_path / "keys").write_text("secret\n")
    x = np.ones((1, 2), np.float32)
    with client(tmp_path, "--api-keys", str(tmp_path / "keys")) as found:
        assert found.triton.is_server_ready()
        for headers in (None, {"authorization": "Bearer wrong"}):
            with pytest.raises(triton.InferenceServerException) as caught:
                found.infer("twice", {"x": x}, headers=headers)
            assert caught.value.status() == "StatusCode.UNAUTHENTICATED"
        answer = found.infer("twice", {"x": x}, headers={"authorization": "Bearer secret"})
        assert np.array_equal(answer.as_numpy("y"), x + x)


def test_bodies_have_a_limit(tmp_path: Path) -> None:
    save(tmp_path / "twice.onnx", TWICE)
    with client(tmp_path, "--max-body", "1M") as found:
        with pytest.raises(triton.InferenceServerException) as caught:
            found.infer("twice", {"x": np.zeros((1, 1 << 20), np.float32)})
        assert caught.value.status() == "StatusCode.RESOURCE_EXHAUSTED"
        assert found.infer("twice", {"x": np.zeros((1, 2), np.float32)}).as_numpy("y").shape == (1, 2)


def test_draining_answers_what_is_under_way(tmp_path: Path) -> None:
    save(tmp_path / "slow.onnx", SLOW)
    answers: list[Any] = []
    inputs = {"x": np.zeros((500, 4), np.float32), "rounds": np.array(30_000)}
    with client(tmp_path) as found:
        found.infer("slow", inputs | {"rounds": np.array(1)})
        thread = threading.Thread(target=lambda: answers.append(found.infer("slow", inputs).as_numpy("y").shape))
        thread.start()
        time.sleep(0.2)
        status, _ = found.server.end(signal.SIGTERM)
        thread.join(60)
    assert status == 0
    assert answers == [(500, 4)]


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    save(tmp_path / "twice.onnx", TWICE)
    with client(tmp_path) as found:
        port = found.address.rsplit(":", 1)[1]
        with (
            pytest.raises(AssertionError, match="choose another port with --grpc-port"),
            serving(tmp_path, "--grpc-port", port),
        ):
            pass


def test_tls(tmp_path: Path) -> None:
    save(tmp_path / "twice.onnx", TWICE)
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", str(certificate), "-keyout", str(key)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    options = ("--grpc-port", "0", "--certificate", str(certificate), "--certificate-key", str(key))
    x = np.ones((1, 2), np.float32)
    with serving(tmp_path / "twice.onnx", *options) as server:
        found = Client(server, ssl=True, root_certificates=str(certificate))
        assert np.array_equal(found.infer("twice", {"x": x}).as_numpy("y"), x + x)
