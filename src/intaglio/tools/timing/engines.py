"""Engines that are timed: each loads a model for one set of inputs and answers again and again."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from intaglio.tools.comparing.subjects import PeerError

Feeds = dict[str, Any]
Answer = Callable[[], list[Any]]
"""Runs the model once, and gives its outputs in order."""


@dataclass(frozen=True)
class Engine:
    """Somebody who runs models: `open` is given a path, the number of threads and the inputs."""

    title: str
    module: str
    open: Callable[[str, int, Feeds], Answer]

    @property
    def is_installed(self) -> bool:
        """Whether the engine can be imported."""
        return importlib.util.find_spec(self.module) is not None

    @property
    def version(self) -> str:
        """The version that is installed."""
        if self.module == "intaglio":
            from intaglio.version import __version__

            return __version__
        try:
            return importlib.metadata.version(self.module)
        except importlib.metadata.PackageNotFoundError:
            return ""


def _open_native(path: str, threads: int, feeds: Feeds) -> Answer:
    return _open_intaglio(path, threads, feeds, "native")


def _open_reference(path: str, threads: int, feeds: Feeds) -> Answer:
    return _open_intaglio(path, threads, feeds, "reference")


def _open_intaglio(path: str, threads: int, feeds: Feeds, engine: Any) -> Answer:
    from intaglio.runtime.model.loading import load

    model = load(path, engine=engine, threads=threads, progress=False)
    return lambda: list(model.run(feeds).values())


def _open_runtime(path: str, threads: int, feeds: Feeds) -> Answer:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    runtime: Any = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds)


def _open_openvino(path: str, threads: int, feeds: Feeds) -> Answer:
    openvino: Any = importlib.import_module("openvino")
    core = openvino.Core()
    model = core.read_model(path)
    model.reshape({name: list(array.shape) for name, array in feeds.items()})
    hints = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    request = core.compile_model(model, "CPU", hints).create_infer_request()
    return lambda: list(request.infer(feeds, share_inputs=True, share_outputs=True).values())


ENGINES: dict[str, Engine] = {
    "intaglio": Engine("Intaglio", "intaglio", _open_native),
    "reference": Engine("Intaglio's reference", "intaglio", _open_reference),
    "ort": Engine("ONNX Runtime", "onnxruntime", _open_runtime),
    "openvino": Engine("OpenVINO", "openvino", _open_openvino),
}
PEERS = ("ort", "openvino")
"""The engines of others, which are timed where they are installed."""


def find_engine(name: str) -> Engine:
    """An engine by name; raises PeerError where there is none, or with the command that installs it."""
    engine = ENGINES.get({"onnxruntime": "ort", "native": "intaglio"}.get(name, name))
    if engine is None:
        raise PeerError(f"there is no engine {name!r} to time; the engines are {', '.join(ENGINES)}")
    if not engine.is_installed:
        raise PeerError(f"{engine.title} is not installed; install it: pip install {engine.module}")
    return engine
