"""Options of sessions and runs.

What is accepted is obeyed, or is what happens anyway, or is a hint about speed or memory on which no result hangs: a
session prints a line for each hint that it does not follow. All else raises and says what to do. Fields are checked
when they are set, so that the line at fault is the one that is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import IntEnum
from typing import Any, ClassVar, NoReturn

import numpy as np

from intaglio.compat.devices import PROVIDER, check_provider_options
from intaglio.compat.enums import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtExecutionProviderDevicePolicy,
)
from intaglio.compat.values import OrtValue
from intaglio.errors import InputError, UnsupportedError
from intaglio.runtime.engine.deadline import Stop

_Check = Callable[[str, Any], Any]


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} is {value!r}, expected True or False")
    return bool(value)


def _number(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputError(f"{name} is {value!r}, expected a whole number")
    return int(value)


def _severity(name: str, value: Any) -> int:
    if _number(name, value) not in range(-1, 5):
        raise InputError(f"{name} is {value}, expected 0 (all) to 4 (nothing), or -1 for the default")
    return int(value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name} is {value!r}, expected text")
    return value


def _member(kind: type[IntEnum]) -> _Check:
    """A check for a member of an enumeration, or its number."""

    def check(name: str, value: Any) -> Any:
        try:
            return kind(int(value))
        except (TypeError, ValueError):
            names = ", ".join(member.name for member in kind)
            raise InputError(f"{name} is {value!r}, expected one of {names}") from None

    return check


class _Checked:
    """Fields that are checked when they are set."""

    __slots__ = ()
    _checks: ClassVar[Mapping[str, _Check]] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        check = self._checks.get(name)
        object.__setattr__(self, name, value if check is None else check(name, value))


@dataclass(slots=True)
class SessionOptions(_Checked):
    """How a session loads and runs a model; docs/onnxruntime.md goes through the fields."""

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
    _providers: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    _sizes: dict[str, int] = field(default_factory=dict[str, int])
    _denoted_sizes: dict[str, int] = field(default_factory=dict[str, int])
    _initializers: dict[str, OrtValue] = field(default_factory=dict[str, OrtValue])
    _files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    _is_cancelled: bool = False

    _checks: ClassVar[Mapping[str, _Check]] = {
        "enable_cpu_mem_arena": _flag,
        "enable_mem_pattern": _flag,
        "enable_mem_reuse": _flag,
        "enable_profiling": _flag,
        "execution_mode": _member(ExecutionMode),
        "execution_order": _member(ExecutionOrder),
        "graph_optimization_level": _member(GraphOptimizationLevel),
        "inter_op_num_threads": _number,
        "intra_op_num_threads": _number,
        "log_severity_level": _severity,
        "log_verbosity_level": _number,
        "logid": _text,
        "optimized_model_filepath": _text,
        "profile_file_prefix": _text,
        "use_deterministic_compute": _flag,
        "use_per_session_threads": _flag,
    }

    def add_session_config_entry(self, name: str, value: str) -> None:
        """Add an entry; raises for what would have no effect, unless it is a hint about speed or memory."""
        self._entries[name] = _checked_entry(SESSION_ENTRIES, name, value)

    def get_session_config_entry(self, name: str) -> str:
        """The entry that was added under a name."""
        return _entry(self._entries, name)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Give a named dimension of the model's inputs a size."""
        self._sizes[_text("the dimension", name)] = _size(name, size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Give the dimensions of the model's inputs that have a denotation a size."""
        self._denoted_sizes[_text("the denotation", denotation)] = _size(denotation, size)

    def add_initializer(self, name: str, value: OrtValue) -> None:
        """Put an array in the place of an initializer of the model."""
        if not isinstance(value, OrtValue):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"the initializer {name!r} is a {type(value).__name__}, expected an OrtValue")
        self._initializers[name] = value

    def add_external_initializers(self, names: Sequence[str], values: Sequence[OrtValue]) -> None:
        """Put arrays in the place of initializers of the model."""
        if len(names) != len(values):
            raise InputError(f"{len(names)} names for {len(values)} values, expected as many")
        for name, value in zip(names, values, strict=True):
            self.add_initializer(name, value)

    def add_external_initializers_from_files_in_memory(
        self, names: Sequence[str], contents: Sequence[Any], lengths: Sequence[int]
    ) -> None:
        """Give the contents of files that hold external data of the model."""
        if not len(names) == len(contents) == len(lengths):
            raise InputError(f"{len(names)} files, {len(contents)} contents, {len(lengths)} lengths: expected as many")
        for name, content, length in zip(names, contents, lengths, strict=True):
            self._files[name] = bytes(memoryview(content)[: _number("the length", length)])

    def add_provider(self, provider: str, options: Mapping[str, str]) -> None:
        """Add a provider; only the CPU's is there."""
        if provider != PROVIDER:
            raise UnsupportedError(f"there is no provider {provider!r}; there is {PROVIDER}")
        check_provider_options(options)
        self._providers[provider] = dict(options)

    def add_provider_for_devices(self, devices: Sequence[Any], options: Mapping[str, str]) -> None:
        """Add the provider of devices that `get_ep_devices` gave."""
        for device in devices:
            self.add_provider(device.ep_name, options)

    def has_providers(self) -> bool:
        """Whether a provider was added."""
        return bool(self._providers)

    def set_provider_selection_policy(self, policy: OrtExecutionProviderDevicePolicy) -> None:
        """Choose by a policy that ends at the CPU: `DEFAULT` or `PREFER_CPU`."""
        taken = OrtExecutionProviderDevicePolicy.DEFAULT, OrtExecutionProviderDevicePolicy.PREFER_CPU
        if policy not in taken:
            raise UnsupportedError(f"the policy {policy!r} is not supported: models run on the CPU")
        self._providers[PROVIDER] = {}

    def set_provider_selection_policy_delegate(self, delegate: Any) -> NoReturn:
        """Always refused: there is one provider to select."""
        raise UnsupportedError(f"there is one provider, {PROVIDER}; nothing is to be selected")

    def set_ep_context_data_read_func(self, read_func: Any) -> NoReturn:
        """Always refused: such data belongs to providers that are not here."""
        raise UnsupportedError("EPContext nodes hold code for other providers, which cannot be run here")

    def clear_ep_context_data_read_func(self) -> None:
        """Nothing to clear: none can be set."""

    def set_load_cancellation_flag(self, is_cancelled: bool) -> None:
        """Stop sessions that are being made with these options, from another thread; they raise ModelLoadCanceled."""
        self._is_cancelled = _flag("the flag", is_cancelled)

    def register_custom_ops_library(self, path: str) -> NoReturn:
        """Always refused: such a library is made for ONNX Runtime's binary interface."""
        raise UnsupportedError(
            f"{path!r} is a library of operators for ONNX Runtime, which cannot be used here; "
            "write the operators in Python with intaglio.op, see docs/extending.md"
        )


def _size(name: str, size: Any) -> int:
    if _number(f"the size of {name!r}", size) < 0:
        raise InputError(f"the size of {name!r} is {size}, expected at least 0")
    return int(size)


@dataclass(slots=True)
class RunOptions(_Checked):
    """How one run is done; `terminate` stops the runs that were started with these options, from any thread."""

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    _entries: dict[str, str] = field(default_factory=dict[str, str])
    _stop: Stop = field(default_factory=Stop)

    _checks: ClassVar[Mapping[str, _Check]] = {
        "log_severity_level": _severity,
        "log_verbosity_level": _number,
        "logid": _text,
        "only_execute_path_to_fetches": _flag,
    }

    @property
    def terminate(self) -> bool:
        """Whether runs with these options are to stop, and new ones do not start."""
        return self._stop.is_set

    @terminate.setter
    def terminate(self, value: bool) -> None:
        self._stop.is_set = _flag("terminate", value)

    def add_run_config_entry(self, name: str, value: str) -> None:
        """Add an entry; raises for what would have no effect."""
        self._entries[name] = _checked_entry(RUN_ENTRIES, name, value)

    def get_run_config_entry(self, name: str) -> str:
        """The entry that was added under a name."""
        return _entry(self._entries, name)

    def add_active_adapter(self, adapter: Any) -> NoReturn:
        """Always refused: adapters are not supported."""
        raise UnsupportedError("LoRA adapters are not supported; merge the adapter into the model")


EXTERNAL_FOLDER = "session.model_external_initializers_file_folder_path"
NO_QUANTIZED = "session.disable_quant_qdq"
ASSIGNMENT = "session.record_ep_graph_assignment_info"
SHRINKAGE = "memory.enable_memory_arena_shrinkage"

_FIELD_HINTS: Mapping[str, tuple[Any, str]] = {
    "enable_mem_reuse": (True, "memory between nodes is always planned and used again"),
    "execution_mode": (ExecutionMode.ORT_SEQUENTIAL, "nodes run one after another, each on all threads of the session"),
    "execution_order": (ExecutionOrder.DEFAULT, "nodes run in the order of the compiled code"),
}
"""Fields that are hints, with the value that says what happens and the reason."""

_ENTRY_HINTS: Mapping[str, tuple[str, str]] = {
    "session.disable_prepacking": ("0", "weights are packed"),
    "session.dynamic_block_base": ("", "work is divided when the model is compiled"),
    "session.force_spinning_stop": ("1", "workers sleep soon after a run"),
    "session.inter_op.allow_spinning": ("0", "there are no such threads"),
    "session.intra_op.allow_spinning": ("0", "workers sleep soon after a run"),
    "session.intra_op_thread_affinities": ("", "the operating system places the threads; start Python under taskset"),
    "session.use_device_allocator_for_initializers": ("0", "weights have memory of their own"),
    "session.use_env_allocators": ("0", "each session plans its own memory"),
}
"""Entries that are hints, in the same way."""


def ignored_hints(options: SessionOptions) -> Iterator[str]:
    """What is asked for and does not happen, with the reason; results are the same without it."""
    for name, (usual, why) in _FIELD_HINTS.items():
        value = getattr(options, name)
        if value != usual:
            yield f"{name} = {getattr(value, 'name', value)} has no effect: {why}"
    for name, value in options._entries.items():
        usual, why = _ENTRY_HINTS.get(name, (value, ""))
        if value != usual:
            yield f"{name} = {value} has no effect: {why}"


SESSION_ENTRIES: Mapping[str, tuple[str, ...] | None] = {
    EXTERNAL_FOLDER: None,
    NO_QUANTIZED: ("0", "1"),
    ASSIGNMENT: ("0", "1"),
    "session.disable_cpu_ep_fallback": ("0",),
    "session.disable_prepacking": ("0", "1"),
    "session.dynamic_block_base": None,
    "session.force_spinning_stop": ("0", "1"),
    "session.inter_op.allow_spinning": ("0", "1"),
    "session.intra_op.allow_spinning": ("0", "1"),
    "session.intra_op_thread_affinities": None,
    "session.load_model_format": ("ONNX",),
    "session.save_model_format": ("ONNX",),
    "session.set_denormal_as_zero": ("1",),
    "session.strict_shape_type_inference": ("1",),
    "session.use_device_allocator_for_initializers": ("0", "1"),
    "session.use_env_allocators": ("0", "1"),
}
"""The values that are obeyed, say what is done anyway, or are hints; None is any."""

RUN_ENTRIES: Mapping[str, tuple[str, ...] | None] = {
    SHRINKAGE: ("cpu:0",),
    "disable_synchronize_execution_providers": ("0", "1"),
    "gpu_graph_id": ("-1",),
}
"""The same for runs."""


def _checked_entry(known: Mapping[str, tuple[str, ...] | None], name: str, value: str) -> str:
    if name not in known:
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"those that are known are {', '.join(known)}"
        raise UnsupportedError(f"the entry {name!r} would have no effect; {hint}")
    values = known[name]
    if values is not None and _text(name, value) not in values:
        raise UnsupportedError(f"the entry {name!r} can be {' or '.join(map(repr, values))}, got {value!r}")
    return _text(name, value)


def _entry(entries: Mapping[str, str], name: str) -> str:
    if name not in entries:
        raise InputError(f"there is no configuration entry {name!r}")
    return entries[name]
