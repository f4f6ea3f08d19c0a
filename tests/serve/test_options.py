"""Options of `intaglio serve` that no other test here sets."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from tests.serve.processes import HEADER, SLOW, TWICE, Server, json_tensor, save, serving

X = np.ones((1, 4), np.float32)
SUM = HEADER + "g (float[n, k] x) => (float[n, k] y) { a = Add(x, x) b = Exp(a) y = Mul(b, a) }"


def wait_until_ready(server: Server) -> None:
    while server.ask("GET", "/v2/health/ready").status != 200:
        assert server.process.poll() is None


def test_another_address_takes_the_control_of_models_away(tmp_path: Path) -> None:
    path = save(tmp_path / "twice.onnx", TWICE)
    with serving(path, "--host", "0.0.0.0") as server:
        assert server.ask("POST", "/v2/repository/models/twice/unload").status == 403
        assert server.infer("twice", {"x": X}).status == 200


def test_control_of_models_can_be_switched_off(tmp_path: Path) -> None:
    with serving(save(tmp_path / "twice.onnx", TWICE), "--no-control") as server:
        assert server.ask("POST", "/v2/repository/models/twice/load").status == 403


def test_code_is_loaded_where_it_is_allowed(tmp_path: Path) -> None:
    save(tmp_path / "kept" / "twice.onnx", TWICE)
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "code.py").write_text(
        f"import intaglio\nmodel = intaglio.load({str(tmp_path / 'kept' / 'twice.onnx')!r})\n"
    )
    with serving(folder, "--allow-python") as server:
        wait_until_ready(server)
        assert np.array_equal(server.infer("code", {"x": X}).array("y"), 2 * X)


def test_limits_of_models(tmp_path: Path) -> None:
    with serving(save(tmp_path / "slow.onnx", SLOW), "--loop-limit", "10", "--threads", "1") as server:
        answer = server.infer("slow", {"x": X, "rounds": np.array(11)})
        assert (answer.status, "10" in answer.json["error"]) == (413, True)
    save(tmp_path / "models" / "sum.onnx", SUM)
    with serving(tmp_path / "models", "--node-limit", "2") as server:
        while (found := server.ask("POST", "/v2/repository/index").json[0])["state"] == "LOADING" or not found.get(
            "reason"
        ):
            assert server.process.poll() is None
        assert "node" in found["reason"]
    with serving(save(tmp_path / "twice.onnx", TWICE), "--memory-limit", "1M") as server:
        large = {"inputs": [json_tensor("x", np.zeros((1000, 500), np.float32))]}
        assert server.ask("POST", "/v2/models/twice/infer", large).status == 413


def test_a_full_queue_is_answered_with_503(tmp_path: Path) -> None:
    with serving(save(tmp_path / "slow.onnx", SLOW), "--max-queue", "1") as server:
        fields = {"parameters": {"timeout": 2_000_000}}
        inputs = {"x": X, "rounds": np.array(10**9)}
        answers: list[int] = []

        def client() -> None:
            answer = server.infer("slow", inputs, **fields)
            answers.append(answer.status)
            assert answer.status != 503 or int(answer.headers["retry-after"]) >= 1

        threads = [threading.Thread(target=client) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers.count(503) >= 4
        assert set(answers) == {503, 504}


def test_shared_memory(tmp_path: Path) -> None:
    import tritonclient.http as triton
    from tritonclient.utils import shared_memory

    with serving(save(tmp_path / "twice.onnx", TWICE), "--shared-memory") as server:
        client = triton.InferenceServerClient(f"127.0.0.1:{server.port}")
        size, key = X.nbytes, f"/intaglio-test-{server.port}"
        region = shared_memory.create_shared_memory_region("both", key, 2 * size)
        try:
            shared_memory.set_shared_memory_region(region, [X])
            client.register_system_shared_memory("both", key, 2 * size)
            given = triton.InferInput("x", [1, 4], "FP32")
            given.set_shared_memory("both", size)
            wanted = triton.InferRequestedOutput("y")
            wanted.set_shared_memory("both", size, size)
            client.infer("twice", [given], outputs=[wanted])
            found = shared_memory.get_contents_as_numpy(region, np.float32, [1, 4], offset=size)
            assert np.array_equal(found, 2 * X)
            given.set_shared_memory("both", 4 * size)
            with pytest.raises(triton.InferenceServerException, match="not within"):
                client.infer("twice", [given])
            client.unregister_system_shared_memory()
            with pytest.raises(triton.InferenceServerException, match="cannot be opened"):
                client.register_system_shared_memory("passwords", "/intaglio-nothing", 8)
            with pytest.raises(triton.InferenceServerException, match="no name of shared memory"):
                client.register_system_shared_memory("passwords", "/../../etc/passwd", 8)
        finally:
            shared_memory.destroy_shared_memory_region(region)
            client.close()
