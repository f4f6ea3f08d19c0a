"""One face for every engine of the race: `ENGINES[name](path, threads, feeds)` loads, `.run()` answers with arrays.

Each adapter asks its engine for float32 arithmetic, the same number of threads and its best settings for one request at
a time. Where that helps an engine and it cannot find out by itself, it is told the input shapes before it compiles.
"""

import importlib.metadata
import importlib.util
import os
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

Feeds = dict[str, np.ndarray]
EARLIER = "INTAGLIO_EARLIER"  # the environment variable that tells workers where the other checkout is


class Engine(ABC):
    """A model loaded by one engine, bound to one set of inputs."""

    title: str
    module: str
    note: str = ""

    @abstractmethod
    def __init__(self, path: Path, threads: int, feeds: Feeds) -> None:
        """Load the model; whatever the engine raises is its reason for refusing."""

    @classmethod
    def prepare(cls) -> None:
        """What is to be done before the engine's module is imported: for most, nothing."""
        return

    @abstractmethod
    def run(self) -> list[np.ndarray]:
        """Answer once, with the outputs in the model's order. The arrays may be overwritten by the next call."""

    @classmethod
    def is_installed(cls) -> bool:
        return importlib.util.find_spec(cls.module) is not None

    @classmethod
    def version(cls) -> str:
        """The version of the installed engine, without importing it."""
        try:
            return importlib.metadata.version(cls.module)
        except importlib.metadata.PackageNotFoundError:
            return "not installed as a package" if cls.is_installed() else "absent"


class Intaglio(Engine):
    title = "Intaglio"
    module = "intaglio"
    engine: Literal["native", "reference"] = "native"

    def __init__(self, path: Path, threads: int, feeds: Feeds) -> None:
        import intaglio

        self.feeds = feeds
        self.model = intaglio.load(path, engine=self.engine, threads=threads)

    def run(self) -> list[np.ndarray]:
        return list(self.model.run(self.feeds).values())

    @classmethod
    def version(cls) -> str:
        from intaglio.version import __version__  # a checkout that is only on the path has one too

        return __version__


class Earlier(Intaglio):
    """Intaglio as another checkout has it: the race between a change and what was there before."""

    title = "Intaglio before"
    note = "Intaglio before is the checkout that `--earlier` names."

    @classmethod
    def prepare(cls) -> None:
        sys.path.insert(0, str(Path(os.environ[EARLIER]) / "src"))


class OnnxRuntime(Engine):
    title = "ONNX Runtime"
    module = "onnxruntime"
    is_optimised = True

    def __init__(self, path: Path, threads: int, feeds: Feeds) -> None:
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"
        import onnxruntime

        options = onnxruntime.SessionOptions()
        if not self.is_optimised:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.feeds = feeds
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(self) -> list[np.ndarray]:
        return cast("list[np.ndarray]", self.session.run(None, self.feeds))


class Judge(OnnxRuntime):
    """ONNX Runtime without its graph optimisations, some of which cost accuracy. It judges and does not race."""

    title = "ONNX Runtime, not optimised"
    is_optimised = False


class OpenVino(Engine):
    title = "OpenVINO"
    module = "openvino"
    note = "OpenVINO is given static input shapes, float32 precision, and shares its input and output buffers."

    def __init__(self, path: Path, threads: int, feeds: Feeds) -> None:
        import openvino

        core = openvino.Core()
        model = core.read_model(path)
        model.reshape({name: list(array.shape) for name, array in feeds.items()})
        settings = {
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",  # the default is bfloat16 where the machine has it
            "PERFORMANCE_HINT": "LATENCY",
        }
        self.feeds = feeds
        self.request = core.compile_model(model, "CPU", settings).create_infer_request()

    def run(self) -> list[np.ndarray]:
        return list(self.request.infer(self.feeds, share_inputs=True, share_outputs=True).values())


class Tract(Engine):
    title = "tract"
    module = "tract"
    note = "tract is given static input shapes; its Python binding has no setting for threads and runs on one."

    def __init__(self, path: Path, threads: int, feeds: Feeds) -> None:
        import tract

        model = tract.onnx().load(path)
        names = [model.input_name(index) for index in range(model.input_count())]
        symbols = _tract_symbols(model, [feeds[name] for name in names])
        try:
            for index, name in enumerate(names):
                model.set_input_fact(index, _tract_fact(feeds[name]))
            typed = model.into_model()
        except tract.TractError:
            # Known input shapes contradict symbolic ones that the file declares inside; then the symbols are set.
            typed = tract.onnx().load(path).into_model()
            typed.transform(tract.SetSymbols(symbols))
        self.feeds = [feeds[name] for name in names]
        self.runnable = typed.into_runnable()

    def run(self) -> list[np.ndarray]:
        return [tensor.to_numpy() for tensor in self.runnable.run(self.feeds)]


def _tract_symbols(model: Any, arrays: list[np.ndarray]) -> dict[str, int]:
    """The value of each symbolic input dim; a fact reads `batch,3,224,224,f32`."""
    symbols: dict[str, int] = {}
    for index, array in enumerate(arrays):
        dims = model.input_fact(index).dump().split(",")[:-1]
        symbols |= {dim: size for dim, size in zip(dims, array.shape, strict=False) if not dim.isdigit()}
    return symbols


def _tract_fact(array: np.ndarray) -> str:
    dtype = array.dtype
    return ",".join([*map(str, array.shape), f"{dtype.kind}{8 * dtype.itemsize}" if dtype.kind != "b" else "bool"])


ENGINES: dict[str, type[Engine]] = {
    "intaglio": Intaglio,
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVino,
    "tract": Tract,
}
