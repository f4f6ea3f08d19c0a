"""Serving beside others, on loopback: `python -m bench.serving`; `make bench-serving` makes their environments first.

All servers run at the same time and take turns; the client is a process of its own on one core. What is compared are
medians over the turns. A server whose environment is missing is left out.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).parent.parent
ENVIRONMENTS = ROOT / "build"
LARGE = 10 << 20
"""Bytes of a large tensor."""


@dataclass
class Server:
    """A server that runs, and the request that it is sent."""

    name: str
    port: int
    request: str
    process: subprocess.Popen[bytes]


def http_request(path: str, body: bytes, headers: dict[str, str] | None = None) -> bytes:
    """The bytes of one request."""
    fields = {
        "Host": "localhost",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **(headers or {}),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body


def json_body(x: np.ndarray) -> bytes:
    """A request of the protocol as JSON."""
    tensor = {"name": "x", "datatype": "FP32", "shape": list(x.shape), "data": x.ravel().tolist()}
    return json.dumps({"inputs": [tensor]}).encode()


def binary_request(model: str, x: np.ndarray) -> bytes:
    """A request of the protocol with binary tensors in both directions."""
    tensor = {"name": "x", "datatype": "FP32", "shape": list(x.shape), "parameters": {"binary_data_size": x.nbytes}}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    length = {"Inference-Header-Content-Length": str(len(head))}
    return http_request(f"/v2/models/{model}/infer", head + x.tobytes(), length)


def write_models(folder: Path) -> None:
    """`m` is x + x; `deep` multiplies by eight matrices of 1024 x 1024."""
    save(folder / "m.onnx", [helper.make_node("Add", ["x", "x"], ["y"])], [], 4)
    random, nodes, weights = np.random.default_rng(0), list[Any](), list[Any]()
    for layer in range(8):
        names = ("x" if layer == 0 else f"x{layer}"), ("y" if layer == 7 else f"x{layer + 1}")
        weight = (random.standard_normal((1024, 1024)) / 32).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [names[0], f"w{layer}"], [names[1]]))
    save(folder / "deep.onnx", nodes, weights, 1024)


def save(path: Path, nodes: list[Any], weights: list[Any], width: int) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width]) for name in "xy")
    graph = helper.make_graph(nodes, path.stem, [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


def commands(folder: Path) -> dict[str, tuple[list[str], bytes]]:
    """How each server is started, without its port, and what it is asked."""
    x = np.ones((1, 4), np.float32)
    model, rivals = str(folder / "m.onnx"), ROOT / "bench" / "rivals"
    plain = json.dumps({"x": x.tolist()}).encode()
    ours = [sys.executable, "-m", "intaglio", "serve", model, "--port"]
    found = {
        "uvicorn alone": ([sys.executable, str(rivals / "floor.py"), model], http_request("/fixed", json_body(x))),
        "intaglio, JSON": (ours, http_request("/v2/models/m/infer", json_body(x))),
        "intaglio, binary": (ours, binary_request("m", x)),
    }
    for name, (script, path, body) in {
        "mlserver": ("mlserver_runtime.py", "/v2/models/m/infer", json_body(x)),
        "litserve": ("litserve_api.py", "/predict", plain),
        "bentoml": ("bentoml_service.py", "/predict", plain),
        "ray": ("ray_serve.py", "/predict", plain),
    }.items():
        python = ENVIRONMENTS / f"rival-{name}" / "bin" / "python"
        if python.exists():
            found[name] = ([str(python), str(rivals / script), model], http_request(path, body))
        else:
            print(f"{name} is left out: there is no {python.relative_to(ROOT)}; make bench-serving makes it")
    return found


@contextlib.contextmanager
def running(folder: Path, name: str, command: list[str], port: int, request: bytes) -> Iterator[Server]:
    """A server on a port, until the block ends."""
    path = folder / f"{name.replace(' ', '-')}.request"
    path.write_bytes(request)
    quiet = os.environ | {"PYTHONPATH": str(ROOT / "src") if sys.executable == command[0] else ""}
    process = subprocess.Popen(
        [*command, str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=quiet,
        start_new_session=True,
    )
    try:
        yield Server(name, port, str(path), process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 15)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)


def wait_for(server: Server, seconds: float = 120) -> bool:
    """Whether a server answers its request within some time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.process.poll() is None:
        with contextlib.suppress(
            OSError, ValueError, KeyError, http.client.HTTPException, subprocess.CalledProcessError
        ):
            if not load(server.port, [server.request], 1)["failures"]:
                return True
        time.sleep(0.5)
    return False


def load(port: int, requests: list[str], count: int) -> dict[str, Any]:
    """Send requests by as many connections as there are files; returns latencies and failures."""
    given = json.dumps({"port": port, "requests": requests, "count": count, "core": min(os.sched_getaffinity(0))})
    command = [sys.executable, "-m", "bench.load", given]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=600)
    return json.loads(done.stdout)


def median(found: dict[str, Any]) -> float:
    return statistics.median(found["latencies"][next(iter(found["latencies"]))])


def small_tensors(folder: Path, turns: int, count: int) -> None:
    """The table of latencies with one client."""
    times: dict[str, list[float]] = {}
    with contextlib.ExitStack() as stack:
        servers = list[Server]()
        for place, (name, (command, request)) in enumerate(commands(folder).items()):
            server = stack.enter_context(running(folder, name, command, 18100 + 10 * place, request))
            if wait_for(server):
                servers.append(server)
            else:
                print(f"{name} is left out: it does not answer")
        for _ in range(turns):
            for server in servers:
                found = load(server.port, [server.request], count)
                assert not found["failures"], (server.name, found["failures"])
                times.setdefault(server.name, []).append(median(found))
    floor = statistics.median(times["uvicorn alone"])
    print(f"\nOne client, 1 x 4 floats: microseconds, medians of {turns} turns of {count} requests\n")
    print("| server | median | above uvicorn | in units of uvicorn |\n|---|---|---|---|")
    for name, each in times.items():
        found = statistics.median(each)
        above = statistics.median([a - b for a, b in zip(each, times["uvicorn alone"], strict=True)])
        print(f"| {name} | {found:.0f} | {above:.0f} | {found / floor:.1f} |")


def large_tensors(folder: Path, turns: int) -> None:
    """Ten megabytes in and out, beside uvicorn that sends back what it gets."""
    x = np.ones((LARGE // 16, 4), np.float32)
    ours = [sys.executable, "-m", "intaglio", "serve", str(folder / "m.onnx"), "--port"]
    echo = [sys.executable, str(ROOT / "bench" / "rivals" / "floor.py"), "-"]
    times: dict[str, list[float]] = {"uvicorn, echo": [], "intaglio": []}
    with (
        running(folder, "uvicorn, echo", echo, 18200, http_request("/echo", x.tobytes())) as floor,
        running(folder, "intaglio", ours, 18210, binary_request("m", x)) as server,
    ):
        assert wait_for(floor)
        assert wait_for(server)
        for _ in range(turns):
            for each in (floor, server):
                times[each.name].append(median(load(each.port, [each.request], 20)) / 1000)
    print(f"\nOne client, 10 MB in and 10 MB out: milliseconds, medians of {turns} turns of 20 requests\n")
    for name, each in times.items():
        print(f"{name:16} {statistics.median(each):8.1f}")
    ratios = [a / b for a, b in zip(times["intaglio"], times["uvicorn, echo"], strict=True)]
    print(f"{'ratio':16} {statistics.median(ratios):8.2f}")


def many_clients(folder: Path, turns: int, count: int) -> None:
    """64 clients with one row each: requests a second with batches and without."""
    x = np.ones((1, 1024), np.float32)
    command = [sys.executable, "-m", "intaglio", "serve", str(folder / "deep.onnx")]
    rates: dict[str, list[float]] = {}
    with (
        running(folder, "batched", [*command, "--port"], 18300, binary_request("deep", x)) as batched,
        running(
            folder, "one by one", [*command, "--max-batch", "1", "--port"], 18310, binary_request("deep", x)
        ) as single,
    ):
        for server in (batched, single):
            assert wait_for(server)
        for _ in range(turns):
            for server in (batched, single):
                found = load(server.port, [server.request] * 64, count)
                assert not found["failures"], found["failures"]
                rates.setdefault(server.name, []).append(count / found["seconds"])
    print(f"\n64 clients, eight products of 1024 x 1024: requests a second, medians of {turns} turns of {count}\n")
    for name, each in rates.items():
        print(f"{name:16} {statistics.median(each):8.0f}")
    ratios = [a / b for a, b in zip(rates["batched"], rates["one by one"], strict=True)]
    print(f"{'ratio':16} {statistics.median(ratios):8.2f}")


def two_models(folder: Path, turns: int, count: int) -> None:
    """16 clients of two models without batches: how far the slowest requests are from the middle."""
    two = folder / "two"
    two.mkdir()
    for name in "ab":
        (two / f"{name}.onnx").write_bytes((folder / "deep.onnx").read_bytes())
        (folder / f"{name}.request").write_bytes(binary_request(name, np.ones((4, 1024), np.float32)))
    command = [sys.executable, "-m", "intaglio", "serve", str(two), "--max-batch", "1", "--port"]
    requests = [str(folder / f"{name}.request") for name in "ab"] * 8
    print(f"\n16 clients of two models, 4 rows each, without batches: {turns} turns of {count} requests\n")
    with running(folder, "two", command, 18400, binary_request("a", np.ones((4, 1024), np.float32))) as server:
        assert wait_for(server)
        for _ in range(turns):
            found = load(server.port, requests, count)
            assert not found["failures"], found["failures"]
            for name, each in found["latencies"].items():
                half, most = np.percentile(each, [50, 99]) / 1000
                print(f"{Path(name).stem}: p50 {half:.1f} ms, p99 {most:.1f} ms, ratio {most / half:.2f}")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_models(folder)
        parts = sys.argv[1:] or ["small", "large", "many", "two"]
        if "small" in parts:
            small_tensors(folder, 9, 300)
        if "large" in parts:
            large_tensors(folder, 9)
        if "many" in parts:
            many_clients(folder, 5, 2000)
        if "two" in parts:
            two_models(folder, 3, 2000)


if __name__ == "__main__":
    main()
