"""Intaglio behind ONNX's own backend interface: `prepare`, `run_model`, `run_node`, `supports_device`.

    from intaglio import backend

    outputs = backend.run_model(model, [x])

The engine is the one that INTAGLIO_ENGINE names, or the `engine` argument. See `onnx.backend.base`.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from onnx import IR_VERSION, ModelProto, NodeProto, ValueInfoProto, helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from intaglio.errors import InputError, IntaglioError, UnsupportedError
from intaglio.ir.dtype import FLOAT32, from_numpy
from intaglio.ir.types import MapType, OptionalType, SequenceType, TensorType, Type
from intaglio.onnx.reader import read_model
from intaglio.onnx.schema import NEWEST, normal_domain
from intaglio.onnx.write_types import type_proto
from intaglio.runtime.model.loading import load
from intaglio.runtime.model.model import Model
from intaglio.targets import cuda_devices

__all__ = [
    "IntaglioBackend",
    "IntaglioBackendRep",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]

LOAD_OPTIONS = frozenset(inspect.signature(load).parameters) - {"source"}
"""Keyword arguments of `prepare` that go to `intaglio.load`."""

RUNNER_OPTIONS = frozenset({"rtol", "atol"})
"""Keyword arguments that ONNX's test runner passes on, although they are for its own comparison of results."""

RUN_OPTIONS = frozenset({"timeout", "threads"})
"""Keyword arguments of `run` that go to `Model.run`."""


class IntaglioBackendRep(BackendRep):
    """A model that is ready to run."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._outputs = namedtupledict("Outputs", [output.name for output in model.outputs])

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run on arrays in the order of the inputs, or by name; the outputs answer to positions and to names.

        Inputs that have a default may be left out. `timeout` and `threads` are those of `Model.run`.
        """
        _check_options(kwargs, RUN_OPTIONS)
        feeds = dict(inputs) if isinstance(inputs, Mapping) else self._by_name(_as_list(inputs))
        return self._outputs(*self.model.run(feeds, **kwargs).values())

    def _by_name(self, arrays: Sequence[Any]) -> dict[str, Any]:
        names = [item.name for item in self.model.inputs]
        required = [item.name for item in self.model.inputs if not item.is_optional]
        if len(required) <= len(arrays) <= len(names):
            return dict(zip(required if len(arrays) == len(required) else names, arrays, strict=False))
        raise InputError(f"{len(arrays)} inputs were given, the model has {len(names)}: {', '.join(names)}")


class IntaglioBackend(Backend):
    """The backend. A subclass may fix `engine`, and `fixed_device` for whatever device is asked for."""

    engine: str | None = None
    fixed_device: str | None = None

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether models run on a device such as "CPU" or "CUDA:1": the CPU, and CUDA devices that are there."""
        try:
            wanted = Device(device)
        except (AttributeError, ValueError):
            return False
        if wanted.type == DeviceType.CUDA:
            return wanted.device_id < len(cuda_devices())
        return wanted.type == DeviceType.CPU

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether the model can be read and the device is supported."""
        _check_options(kwargs, LOAD_OPTIONS | RUNNER_OPTIONS)
        try:
            read_model(model, base_folder=kwargs.get("base_folder"))
        except IntaglioError:
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> IntaglioBackendRep:
        """Make a model ready to run; keyword arguments of `intaglio.load` are taken over, others are refused."""
        cls._check_device(device)
        options: dict[str, Any] = {name: value for name, value in kwargs.items() if name not in RUNNER_OPTIONS}
        _check_options(options, LOAD_OPTIONS)
        options.setdefault("engine", cls.engine)
        if "device" not in options:
            options["device"] = cls.fixed_device or _device_name(device)
        return IntaglioBackendRep(load(model, **options))

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Run a model once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node on arrays in the order of its inputs, or by name; None stands for an input left out.

        `opset_version` chooses the version of the node's operator set, the newest by default. `outputs_info` is not
        needed: the outputs' types follow from the inputs'.
        """
        cls._check_device(device)
        given = _node_inputs(node, inputs)
        model = node_model(node, given, kwargs.pop("opset_version", None))
        fed = {info.name: given[info.name] for info in model.graph.input}
        return cls.run_model(model, fed, device, **kwargs)

    @classmethod
    def _check_device(cls, device: str) -> None:
        if not cls.supports_device(device):
            found = ", ".join(["CPU", *(f"CUDA:{number}" for number in range(len(cuda_devices())))])
            raise UnsupportedError(f"the device {device!r} is not supported; the devices here are {found}")


def _device_name(device: str) -> str:
    """A device of ONNX's, as `load` names it."""
    wanted = Device(device)
    return f"cuda:{wanted.device_id}" if wanted.type == DeviceType.CUDA else "cpu"


def _check_options(given: Iterable[str], known: Collection[str]) -> None:
    """Raise InputError for an option that nobody would obey."""
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"the options are {', '.join(sorted(known))}"
            raise InputError(f"there is no option {name!r}; {hint}")


def _as_list(inputs: Any) -> list[Any]:
    if isinstance(inputs, (list, tuple)):
        return list(inputs)
    return [inputs]


def _node_inputs(node: NodeProto, inputs: Any) -> dict[str, Any]:
    """The values of a node's inputs by name, without those left out."""
    if isinstance(inputs, Mapping):
        return {name: value for name, value in inputs.items() if name}
    arrays = _as_list(inputs)
    names = list(node.input) if len(arrays) == len(node.input) else [name for name in node.input if name]
    if len(arrays) > len(names):
        raise InputError(f"{len(arrays)} inputs were given, the node {node.op_type} has {len(names)}: {names}")
    return {name: value for name, value in zip(names, arrays, strict=False) if name}


def node_model(node: NodeProto, inputs: Mapping[str, Any], opset_version: int | None = None) -> ModelProto:
    """A model of one node whose input types are those of the given values."""
    absent = {name for name, value in inputs.items() if value is None and not node.op_type.startswith("Optional")}
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = ["" if name in absent else name for name in node.input]
    given = [(name, value) for name, value in inputs.items() if name not in absent]
    infos = [ValueInfoProto(name=name, type=type_proto(type_of(value))) for name, value in given]
    outputs = [ValueInfoProto(name=name) for name in node.output if name]
    domain = normal_domain(node.domain)
    imports = {"": NEWEST[""]} | {domain: opset_version or NEWEST.get(domain, 1)}
    return helper.make_model(
        helper.make_graph([copy], node.op_type, infos, outputs),
        opset_imports=[helper.make_opsetid(name, version) for name, version in imports.items()],
        ir_version=IR_VERSION,
    )


def type_of(value: Any) -> Type:
    """The type that a Python value has: lists of arrays are sequences, dicts maps, None an absent optional.

    An empty list and None don't tell what they are made of: float32 tensors are assumed.
    """
    if value is None:
        return OptionalType(TensorType(FLOAT32, None))
    if isinstance(value, Mapping):
        return _map_type(cast("Mapping[Any, Any]", value))
    if isinstance(value, (list, tuple)) and _is_sequence(cast("Sequence[Any]", value)):
        return SequenceType(_element_type([type_of(item) for item in cast("Sequence[Any]", value)]))
    array = np.asarray(value)
    return TensorType(from_numpy(array.dtype), array.shape)


def _is_sequence(items: Sequence[Any]) -> bool:
    """Whether a list stands for a sequence of values rather than for the numbers of one tensor."""
    return not items or any(item is None or hasattr(item, "shape") or isinstance(item, (list, dict)) for item in items)


def _element_type(types: Sequence[Type]) -> Type:
    if not types:
        return TensorType(FLOAT32, None)
    first = types[0]
    return TensorType(first.dtype, None) if isinstance(first, TensorType) and len(set(types)) > 1 else first


def _map_type(items: Mapping[Any, Any]) -> MapType:
    keys, values = np.asarray(list(items)), np.asarray(list(items.values()))
    return MapType(from_numpy(keys.dtype), TensorType(from_numpy(values.dtype), ()))


is_compatible = IntaglioBackend.is_compatible
prepare = IntaglioBackend.prepare
run_model = IntaglioBackend.run_model
run_node = IntaglioBackend.run_node
supports_device = IntaglioBackend.supports_device
