"""`InferenceSession`: a model with ONNX Runtime's methods."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from intaglio.compat import edits, messages
from intaglio.compat.binding import IOBinding
from intaglio.compat.devices import (
    PROVIDER,
    OrtEpAssignedNode,
    OrtEpAssignedSubgraph,
    OrtEpDevice,
    OrtMemoryInfo,
    ProviderList,
    check_device,
    ignored_provider_hints,
    split_providers,
)
from intaglio.compat.enums import GraphOptimizationLevel
from intaglio.compat.environment import process
from intaglio.compat.errors import ModelLoadCanceled
from intaglio.compat.messages import INFO, VERBOSE, WARNING
from intaglio.compat.naming import dim_name, type_name
from intaglio.compat.options import (
    ASSIGNMENT,
    EXTERNAL_FOLDER,
    NO_QUANTIZED,
    SHRINKAGE,
    RunOptions,
    SessionOptions,
    ignored_hints,
)
from intaglio.compat.profile import Profile
from intaglio.compat.scalars import ScalarInputs
from intaglio.compat.values import OrtValue, OrtValueVector
from intaglio.errors import InputError, IntaglioError, RunTimeoutError, UnsupportedError
from intaglio.ir.limits import Limits, within
from intaglio.ir.types import TensorType
from intaglio.runtime.engine.deadline import stoppable
from intaglio.runtime.engine.limits import settled
from intaglio.runtime.model.loading import load
from intaglio.runtime.model.model import Model, Signature

if TYPE_CHECKING:
    from intaglio.ir.graph import Graph
    from intaglio.onnx.reader import Source

Callback = Callable[[list[Any], Any, str], None]


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


class InferenceSession:
    """A model ready to run, with the methods of ONNX Runtime's class of that name.

    Safe to use from several threads, after fork, and to pickle and copy; Ctrl-C stops a run.
    """

    def __init__(
        self,
        path_or_bytes: Source,
        sess_options: SessionOptions | None = None,
        providers: ProviderList | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        limits: Limits | None = None,
        **kwargs: Any,
    ) -> None:
        self._model_path = os.fspath(path_or_bytes) if isinstance(path_or_bytes, (str, os.PathLike)) else None
        self._sess_options = options = sess_options or SessionOptions()
        self._providers, self._fallback_providers = [PROVIDER], [PROVIDER]
        disabled = self._take_arguments(kwargs)
        own = self._set_providers(providers, provider_options)
        for hint in (*ignored_hints(options), *ignored_provider_hints(own)):
            self._tell(hint)
        self._keeps_memory = options.enable_cpu_mem_arena and own.get("use_arena") != "0"
        self._profile = Profile(options.profile_file_prefix) if options.enable_profiling else None
        with self._span("model_loading"):
            self._model = self._load(path_or_bytes, disabled, limits)
        self._names = [item.name for item in self._model.outputs]
        self._scalars = ScalarInputs(self._model, self._load_graph)
        self._is_plain = self._keeps_memory and options.enable_mem_pattern and self._profile is None
        self._check_seed()
        if options.optimized_model_filepath:
            from intaglio.onnx.writer import save_model

            save_model(self._model.simplified, options.optimized_model_filepath, self._model.info)
        self._tell_of_model()

    def _take_arguments(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """The passes to leave out; raises for arguments that would have no effect."""
        known = "disabled_optimizers", "enable_fallback", "read_config_from_model"
        unknown = [name for name in arguments if name not in known]
        if unknown:
            raise InputError(f"InferenceSession has no argument {', '.join(map(repr, unknown))}")
        self._enable_fallback = bool(int(arguments.get("enable_fallback", 1)))
        if int(arguments.get("read_config_from_model", 0)):
            raise UnsupportedError("read_config_from_model is not supported: give the options in SessionOptions")
        return tuple(arguments.get("disabled_optimizers") or ())

    def _load(self, source: Any, disabled: tuple[str, ...], limits: Limits | None) -> Model:
        options = self._sess_options
        level = options.graph_optimization_level
        threads = options.intra_op_num_threads if options.use_per_session_threads else process.threads
        if options._entries.get(NO_QUANTIZED) == "1":
            disabled = (*disabled, "integer-arithmetic")
        model, folder = edits.edited(source, options)
        with within(settled(limits), deadline=self._check_cancelled):
            self._check_cancelled()
            return load(
                model,
                threads=threads if threads > 0 else None,
                simplify=level != GraphOptimizationLevel.ORT_DISABLE_ALL,
                exact=level == GraphOptimizationLevel.ORT_ENABLE_BASIC,
                disable=disabled,
                base_folder=options._entries.get(EXTERNAL_FOLDER, folder),
                limits=limits,
            )

    def _load_graph(self, graph: Graph) -> Model:
        """A graph that was made of the model's, loaded in the same way."""
        options = self._model.options
        return load(
            graph,
            threads=options.threads,
            simplify=options.simplify,
            exact=options.exact,
            disable=options.disable,
            limits=options.limits,
        )

    def _check_cancelled(self) -> None:
        if self._sess_options._is_cancelled:
            raise ModelLoadCanceled("the session was not made: its options say that loading is cancelled")

    def _check_seed(self) -> None:
        if process.seed is None:
            return
        nodes = [node for node in self._model.graph.all_nodes() if getattr(node.op, "is_random", False)]
        without = [f"{node.op.name} at {node.origin}" for node in nodes if getattr(node.op, "seed", None) is None]
        if without:
            raise UnsupportedError(
                f"set_seed was called, and these operators draw new numbers in each run: {', '.join(without)}; "
                "give them the attribute `seed`"
            )

    def _set_providers(
        self, providers: ProviderList | None, options: Sequence[Mapping[str, Any]] | None
    ) -> dict[str, str]:
        """The options of the CPU's provider; tells which of the others are not there."""
        names, own = split_providers(providers, options)
        self._provider_options = {PROVIDER: own}
        missing = [name for name in names if name != PROVIDER]
        if missing:
            self._tell(f"{', '.join(missing)} is not available, the model runs on {PROVIDER}")
        return own | self._sess_options._providers.get(PROVIDER, {})

    def _tell(self, text: str, level: int = WARNING) -> None:
        messages.tell(text, level, self._sess_options.log_severity_level, self._sess_options.logid)

    def _tell_of_model(self) -> None:
        options = self._sess_options
        self._tell(f"{self._model!r} is ready with {self._model.options.threads} threads", INFO)
        if messages.is_verbose(options.log_severity_level, options.log_verbosity_level):
            self._tell(str(self._model.explain()), VERBOSE)

    @property
    def model(self) -> Model:
        """The model behind the session, with everything that Intaglio adds: `explain()`, any tensor as an output."""
        return self._model

    @property
    def _sess(self) -> InferenceSession:
        return self

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """The named outputs, or all of them for None, for inputs by name."""
        names = list(output_names) if output_names else self._names
        feeds = {name: item.numpy() if isinstance(item, OrtValue) else item for name, item in input_feed.items()}
        wanted = None if names == self._names else names
        model, feeds = self._scalars.fitting(feeds)
        if self._is_plain and run_options is None and not messages.is_told(VERBOSE, self._severity(None)):
            results = model.run(feeds, outputs=wanted)
        else:
            options = run_options or RunOptions()
            with self._running(options, feeds, model):
                results = model.run(feeds, outputs=wanted, prune=options.only_execute_path_to_fetches)
        return [results[name] for name in names]

    def _severity(self, options: RunOptions | None) -> int:
        own = -1 if options is None else options.log_severity_level
        return own if own >= 0 else self._sess_options.log_severity_level

    @contextmanager
    def _running(self, options: RunOptions, feeds: Mapping[str, Any], model: Model | None = None) -> Generator[None]:
        """A run as its options and those of the session want it."""
        if options.terminate:
            raise RunTimeoutError("the run was not started: its options say `terminate`")
        begin = time.monotonic()
        is_native = self._model.options.engine == "native"
        try:
            with ExitStack() as stack:
                if self._profile is not None:
                    stack.enter_context(self._profile.nodes(model or self._model, feeds))
                stack.enter_context(self._span("model_run"))
                stack.enter_context(stoppable(options._stop, is_native=is_native))
                if is_native and not (self._keeps_memory and SHRINKAGE not in options._entries):
                    from intaglio.targets import executor_for

                    stack.enter_context(executor_for().keeping_no_memory())
                yield
        except RunTimeoutError as error:
            if options.terminate:
                raise RunTimeoutError("the run was stopped: its options say `terminate`") from error
            raise
        finally:
            if not self._sess_options.enable_mem_pattern:
                self._model.forget_sizes()
        self._tell_of_run(options, feeds, time.monotonic() - begin)

    def _tell_of_run(self, options: RunOptions, feeds: Mapping[str, Any], seconds: float) -> None:
        severity = self._severity(options)
        text = f"the run took {seconds * 1000:.3f} ms"
        if messages.is_verbose(severity, max(options.log_verbosity_level, self._sess_options.log_verbosity_level)):
            text += "".join(f", {name} {list(getattr(item, 'shape', ()))}" for name, item in feeds.items())
        messages.tell(text, VERBOSE, severity, options.logid or self._sess_options.logid)

    @contextmanager
    def _span(self, name: str) -> Generator[None]:
        if self._profile is None:
            yield
        else:
            with self._profile.span(name):
                yield

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callback,
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """`run` in a thread of its own, which calls `callback(results, user_data, error)` at the end.

        Where the run fails, there are no results and the error is its message; else that is empty.
        """

        def work() -> None:
            try:
                results, error = self.run(output_names, input_feed, run_options), ""
            except IntaglioError as caught:
                results, error = [], str(caught)
            callback(results, user_data, error)

        threading.Thread(target=work, name="intaglio-run-async").start()

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """`run` with OrtValues in and out."""
        return [OrtValue(result) for result in self.run(output_names, input_dict_ort_values, run_options)]

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: Sequence[OrtValue],
        fetch_names: Sequence[str],
        fetches: OrtValueVector,
        fetch_devices: Sequence[Any],
    ) -> None:
        """`run` with values in a row: results go into the memory of `fetches`, or are added to them."""
        for device in fetch_devices:
            check_device(device)
        inputs = dict(zip(feed_names, feeds, strict=True))
        for place, value in enumerate(self.run_with_ort_values(fetch_names, inputs, run_options)):
            if place < len(fetches) and fetches[place].has_value():
                fetches[place].update_inplace(value)
            else:
                fetches[place : place + 1] = [value]

    def io_binding(self) -> IOBinding:
        """A new binding for `run_with_iobinding`."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Run on what is bound; the results stay in the binding."""
        if iobinding._session is not self:
            raise InputError("the binding belongs to another session; make it with this session's io_binding()")
        iobinding._run(run_options)

    def create_ortvalue_from_shape_and_type(
        self, shape: Sequence[int], element_type: Any, device_type: str, device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """A value of zeros."""
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id, vendor_id)

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that a run must be given."""
        return [_node_arg(item) for item in self._model.inputs if not item.is_optional]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """The inputs that have a default."""
        return [_node_arg(item) for item in self._model.inputs if item.is_optional]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs."""
        return [_node_arg(item) for item in self._model.outputs]

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """Where inputs are expected: in the CPU's memory."""
        return [OrtMemoryInfo() for _ in self.get_inputs()]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """Where outputs are: in the CPU's memory."""
        return [OrtMemoryInfo() for _ in self.get_outputs()]

    def get_input_epdevices(self) -> list[OrtEpDevice]:
        """Which device takes each input: the CPU."""
        return [OrtEpDevice() for _ in self.get_inputs()]

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

    def get_provider_graph_assignment_info(self) -> list[OrtEpAssignedSubgraph]:
        """The nodes of the model, all on the CPU; the session's options must ask for it, as ONNX Runtime's must."""
        if self._sess_options._entries.get(ASSIGNMENT) != "1":
            raise InputError(f"the session option {ASSIGNMENT!r} must be '1' for this")
        nodes = [OrtEpAssignedNode(node.origin.path, node.op.domain, node.op.name) for node in self._model.graph.nodes]
        return [OrtEpAssignedSubgraph(PROVIDER, tuple(nodes))]

    def get_session_options(self) -> SessionOptions:
        """The options that the session was made with."""
        return self._sess_options

    def get_providers(self) -> list[str]:
        """Where the model runs: always the CPU."""
        return list(self._providers)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of each provider."""
        return {name: dict(options) for name, options in self._provider_options.items()}

    def set_providers(
        self, providers: ProviderList | None = None, provider_options: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        """Tell which of the providers are not available; the model stays on the CPU."""
        own = self._set_providers(providers, provider_options)
        self._keeps_memory = self._sess_options.enable_cpu_mem_arena and own.get("use_arena") != "0"
        self._is_plain = self._is_plain and self._keeps_memory

    def disable_fallback(self) -> None:
        """Nothing to disable: no run ever moves to another provider."""
        self._enable_fallback = False

    def enable_fallback(self) -> None:
        """Nothing to enable: no run ever moves to another provider."""
        self._enable_fallback = True

    def end_profiling(self) -> str:
        """Write the profile, with the times of loading, runs and nodes; its path, or nothing without a profile."""
        return "" if self._profile is None else self._profile.end()

    def get_profiling_start_time_ns(self) -> int:
        """When the profile began, on Python's monotonic clock; 0 without a profile."""
        return 0 if self._profile is None else self._profile.start_ns

    def get_tuning_results(self) -> list[Any]:
        """Nothing: kernels are not tuned at run time."""
        return []

    def set_tuning_results(self, results: Sequence[Any], *, error_on_invalid: bool = False) -> None:
        """Refused unless empty: kernels are not tuned at run time."""
        if results:
            raise UnsupportedError("kernels are not tuned at run time: tuning results cannot be used")

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Refused unless empty: the CPU has no such options."""
        if options:
            raise UnsupportedError(f"{PROVIDER} has no dynamic options, got {', '.join(map(repr, options))}")

    def release_captured_graph(self, graph_annotation_id: int = 0) -> None:
        """Always refused: no graph is captured on a CPU."""
        raise UnsupportedError(f"there is no captured graph {graph_annotation_id}: a CPU captures none")


def _node_arg(item: Signature) -> NodeArg:
    shape = item.type.shape if isinstance(item.type, TensorType) else None
    return NodeArg(item.name, [dim_name(dim) for dim in shape or ()], type_name(item.type))
