"""ONNX Runtime's Python interface over Intaglio: `import intaglio.compat as onnxruntime`.

    session = InferenceSession("model.onnx")
    (y,) = session.run(None, {"x": x})

Options that mean something here are honoured; the others can be set and change nothing about the results. What a
program asks for and does not get, such as a GPU, is told in one line on stderr. There is no telemetry to switch off.
"""

from __future__ import annotations

import ctypes
import enum
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from intaglio.c.target import usable_cores
from intaglio.errors import (
    GraphError,
    InputError,
    IntaglioError,
    LoadError,
    ModelNotFoundError,
    OperatorError,
    RunTimeoutError,
    UnsupportedError,
)
from intaglio.ir.dtype import DType, from_numpy
from intaglio.ir.limits import Limits
from intaglio.ir.types import MapType, OptionalType, SequenceType, TensorType, Type
from intaglio.onnx.reader import Source
from intaglio.onnx.types import is_made_up
from intaglio.onnx.write_types import dim_text
from intaglio.onnx.writer import save_model
from intaglio.runtime.model import Model, Signature, load
from intaglio.version import __version__

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "Fail",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelMetadata",
    "NoSuchFile",
    "NodeArg",
    "NotImplemented",
    "OrtValue",
    "RunOptions",
    "RuntimeException",
    "SessionOptions",
    "__version__",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_version_string",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
]

PROVIDER = "CPUExecutionProvider"
_WARNING = 2

Fail = IntaglioError
InvalidArgument = InputError
InvalidGraph = GraphError
InvalidProtobuf = LoadError
NoSuchFile = ModelNotFoundError
NotImplemented = UnsupportedError
RuntimeException = OperatorError

_TYPE_NAMES = {"float32": "float", "float64": "double"}


class GraphOptimizationLevel(enum.IntEnum):
    """How much a model is rewritten: nothing, only what cannot change rounding, or everything."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Accepted; nodes always run in order, each on all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    """Accepted; the order is the model's own."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


@dataclass(slots=True)
class SessionOptions:
    """How a session runs.

    `intra_op_num_threads` (0: as many as may run), `graph_optimization_level`, `optimized_model_filepath` and
    `log_severity_level` (3 and more: no warning lines) are honoured.
    """

    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_profiling: bool = False
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    execution_order: ExecutionOrder = ExecutionOrder.DEFAULT
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    inter_op_num_threads: int = 0
    intra_op_num_threads: int = 0
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    optimized_model_filepath: str = ""
    profile_file_prefix: str = "onnxruntime_profile_"
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True
    _entries: dict[str, str] = field(default_factory=dict[str, str])

    def add_session_config_entry(self, name: str, value: str) -> None:
        """Keep an entry; none of them changes anything here."""
        self._entries[name] = value

    def get_session_config_entry(self, name: str) -> str:
        """The entry that was added under a name."""
        return _entry(self._entries, name)

    def register_custom_ops_library(self, path: str) -> None:
        """Always refused: such a library is made for ONNX Runtime's binary interface."""
        raise UnsupportedError(f"{path!r} is a library of operators for ONNX Runtime, which cannot be used here")


@dataclass(slots=True)
class RunOptions:
    """How one run is done. A run whose options say `terminate` does not start."""

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False
    _entries: dict[str, str] = field(default_factory=dict[str, str])

    def add_run_config_entry(self, name: str, value: str) -> None:
        """Keep an entry; none of them changes anything here."""
        self._entries[name] = value

    def get_run_config_entry(self, name: str) -> str:
        """The entry that was added under a name."""
        return _entry(self._entries, name)


def _entry(entries: Mapping[str, str], name: str) -> str:
    if name not in entries:
        raise InputError(f"there is no configuration entry {name!r}")
    return entries[name]


@dataclass(frozen=True)
class NodeArg:
    """An input or output: `shape` holds numbers, names, and None where a dimension has neither."""

    name: str
    shape: list[int | str | None]
    type: str


@dataclass(frozen=True)
class ModelMetadata:
    """What a model says about itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


class OrtValue:
    """A value that is kept between runs: an array, or a list of arrays."""

    def __init__(self, value: Any) -> None:
        self._value = value

    @staticmethod
    def ortvalue_from_numpy(numpy_obj: Any, device_type: str = "cpu", device_id: int = 0) -> OrtValue:
        """Hold an array, without a copy."""
        _check_device(device_type)
        return OrtValue(numpy_obj)

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """Hold a new array of zeros."""
        _check_device(device_type)
        return OrtValue(np.zeros(shape, element_type))

    def numpy(self) -> Any:
        """The array itself."""
        return self._value

    def shape(self) -> list[int]:
        """The array's shape."""
        return list(self._value.shape)

    def data_type(self) -> str:
        """The type as text, such as `tensor(float)`."""
        if isinstance(self._value, list):
            items: list[Any] = self._value
            return f"seq({OrtValue(items[0]).data_type()})" if items else "seq(tensor(float))"
        return f"tensor({_dtype_name(from_numpy(self._value.dtype))})"

    def data_ptr(self) -> int:
        """The address of the array's first element."""
        return self._value.ctypes.data

    def device_name(self) -> str:
        """Always `cpu`."""
        return "cpu"

    def has_value(self) -> bool:
        """Whether there is anything."""
        return self._value is not None

    def is_tensor(self) -> bool:
        """Whether it is an array."""
        return isinstance(self._value, np.ndarray)

    def is_tensor_sequence(self) -> bool:
        """Whether it is a list of arrays."""
        return isinstance(self._value, list)

    def update_inplace(self, np_arr: Any) -> None:
        """Overwrite the array's elements."""
        np.copyto(self._value, np_arr, casting="no")


def _check_device(name: str) -> None:
    if name.lower() != "cpu":
        raise UnsupportedError(f"the device {name!r} is not supported: values live in the CPU's memory ('cpu')")


class IOBinding:
    """Inputs and outputs bound before a run."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, OrtValue | None] = {}
        self._results: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Feed an array."""
        self._inputs[name] = arr_on_cpu

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Feed a value."""
        self._inputs[name] = ortvalue

    def bind_output(self, name: str, device_type: str = "cpu", *rest: Any, **options: Any) -> None:
        """Ask for an output in memory of its own."""
        _check_device(device_type)
        self._outputs[name] = None

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Ask for an output in the memory of a value."""
        self._outputs[name] = ortvalue

    def clear_binding_inputs(self) -> None:
        """Forget the inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget the outputs."""
        self._outputs.clear()

    def synchronize_inputs(self) -> None:
        """Nothing to wait for on the CPU."""

    def synchronize_outputs(self) -> None:
        """Nothing to wait for on the CPU."""

    def get_outputs(self) -> list[OrtValue]:
        """The outputs of the last run, in the order they were bound."""
        return list(self._results)

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The outputs of the last run as arrays."""
        return [value.numpy() for value in self._results]

    def run(self) -> None:
        """Run the session on what is bound."""
        results = self._session.run(list(self._outputs) or None, self._inputs)
        bound = list(self._outputs.values()) or [None] * len(results)
        self._results = [_deliver(value, result) for value, result in zip(bound, results, strict=True)]


def _deliver(value: OrtValue | None, result: Any) -> OrtValue:
    if value is None:
        return OrtValue(result)
    value.update_inplace(result)
    return value


class InferenceSession:
    """A model ready to run, with the methods of ONNX Runtime's class of that name.

    Safe to use from several threads, after fork, and to pickle and copy; Ctrl-C stops a run.
    """

    def __init__(
        self,
        path_or_bytes: Source,
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        limits: Limits | None = None,
        **kwargs: Any,
    ) -> None:
        self._options = sess_options or SessionOptions()
        self._tell_missing(providers or ())
        level = self._options.graph_optimization_level
        self._model = load(
            path_or_bytes,
            threads=self._options.intra_op_num_threads or None,
            simplify=level != GraphOptimizationLevel.ORT_DISABLE_ALL,
            exact=level == GraphOptimizationLevel.ORT_ENABLE_BASIC,
            limits=limits,
        )
        if self._options.optimized_model_filepath:
            save_model(self._model.simplified, self._options.optimized_model_filepath, self._model.info)

    def _tell_missing(self, providers: Sequence[str | tuple[str, Mapping[str, Any]]]) -> None:
        names = [item if isinstance(item, str) else item[0] for item in providers]
        missing = [name for name in names if name != PROVIDER]
        if missing:
            self._tell(f"{', '.join(missing)} is not available, the model runs on {PROVIDER}")
        if self._options.enable_profiling:
            self._tell("enable_profiling is not available, no profile is written")

    def _tell(self, text: str) -> None:
        severity = self._options.log_severity_level
        if (severity if severity >= 0 else _logging.severity) <= _WARNING:
            print(f"intaglio: {text}", file=sys.stderr)

    @property
    def model(self) -> Model:
        """The model behind the session, with everything that Intaglio adds: `explain()`, any tensor as an output."""
        return self._model

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """The named outputs, or all of them for None, for inputs by name."""
        if run_options is not None and run_options.terminate:
            raise RunTimeoutError("the run was not started: its options say `terminate`")
        feeds = {name: item.numpy() if isinstance(item, OrtValue) else item for name, item in input_feed.items()}
        results = self._model.run(feeds, outputs=list(output_names) if output_names else None)
        return [results[name] for name in output_names] if output_names else list(results.values())

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """`run` with OrtValues in and out."""
        return [OrtValue(result) for result in self.run(output_names, input_dict_ort_values, run_options)]

    def io_binding(self) -> IOBinding:
        """A new binding for `run_with_iobinding`."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Run on what is bound; the results stay in the binding."""
        iobinding.run()

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that a run must be given."""
        return [_node_arg(item) for item in self._model.inputs if not item.is_optional]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The inputs that have a default."""
        return [_node_arg(item) for item in self._model.inputs if item.is_optional]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs."""
        return [_node_arg(item) for item in self._model.outputs]

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says about itself."""
        info, graph = self._model.info, self._model.graph
        return ModelMetadata(
            info.producer_name,
            graph.name,
            info.domain,
            info.doc,
            graph.doc,
            info.model_version,
            dict(info.metadata_props),
        )

    def get_session_options(self) -> SessionOptions:
        """The options that the session was made with."""
        return self._options

    def get_providers(self) -> list[str]:
        """Where the model runs: always the CPU."""
        return [PROVIDER]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of each provider: none."""
        return {PROVIDER: {}}

    def set_providers(
        self, providers: Sequence[str] | None = None, provider_options: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        """Tell which of the providers are not available; the model stays on the CPU."""
        self._tell_missing(providers or ())

    def disable_fallback(self) -> None:
        """Nothing to disable: no run ever moves to another provider."""

    def enable_fallback(self) -> None:
        """Nothing to enable: no run ever moves to another provider."""


def _node_arg(item: Signature) -> NodeArg:
    shape = item.type.shape if isinstance(item.type, TensorType) else None
    return NodeArg(item.name, [_dim(dim) for dim in shape or ()], type_name(item.type))


def _dim(dim: Any) -> int | str | None:
    if isinstance(dim, int):
        return dim
    name = dim_text(dim)
    return None if is_made_up(name) else name


def type_name(type: Type) -> str:
    """A type in ONNX Runtime's spelling, such as `tensor(float)` or `seq(tensor(int64))`."""
    if isinstance(type, TensorType):
        return f"tensor({_dtype_name(type.dtype)})"
    if isinstance(type, MapType):
        return f"map({_dtype_name(type.key)},{type_name(type.value)})"
    kind = {SequenceType: "seq", OptionalType: "optional"}[type.__class__]
    return f"{kind}({type_name(type.element)})"


def _dtype_name(dtype: DType) -> str:
    return _TYPE_NAMES.get(dtype.name, dtype.name)


class _Logging:
    severity = _WARNING


_logging = _Logging()


def set_default_logger_severity(severity: int) -> None:
    """From 3 on, sessions print no warning lines."""
    _logging.severity = severity


def set_default_logger_verbosity(verbosity: int) -> None:
    """Accepted; there is no more verbose log."""


def get_available_providers() -> list[str]:
    """Where models can run: on the CPU."""
    return [PROVIDER]


def get_all_providers() -> list[str]:
    """Where models can run: on the CPU."""
    return [PROVIDER]


def get_device() -> str:
    """Always `CPU`."""
    return "CPU"


def get_version_string() -> str:
    """Intaglio's version."""
    return __version__


def get_build_info() -> str:
    """The build in one line."""
    return f"intaglio {__version__}, {ctypes.sizeof(ctypes.c_void_p) * 8} bit, {usable_cores()} threads, {os.name}"


def disable_telemetry_events() -> None:
    """Nothing to disable: there is no telemetry."""


def enable_telemetry_events() -> None:
    """Refused: there is no telemetry."""
    raise UnsupportedError("Intaglio has no telemetry")
