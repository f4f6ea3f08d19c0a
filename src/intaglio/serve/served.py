"""A model as the protocol shows it: names, datatypes and shapes, and the check of what a request feeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from intaglio.errors import UnsupportedError
from intaglio.ir.types import TensorType, Type
from intaglio.runtime.model.model import Model, Signature
from intaglio.serve.datatypes import NAMES, short
from intaglio.serve.messages import InferAnswer, InferRequest, OutputRequest, RequestError
from intaglio.serve.rows import Joining, rows_of


class Served:
    """One version of a model, ready for requests."""

    def __init__(self, name: str, version: str, model: Model, *, is_batched: bool = True, why_not: str = "") -> None:
        """Raises UnsupportedError where an input is needed that the protocol cannot carry."""
        self.name, self.version, self.model = name, version, model
        self.fed: list[str] = model.fed
        self._fed = set(self.fed)
        self.inputs = {item.name: item for item in model.inputs if datatype_of(item.type) is not None}
        missing = [item for item in model.inputs if item.name in self._fed and item.name not in self.inputs]
        if missing:
            raise UnsupportedError(
                f"input {missing[0].name!r} is {missing[0].type}, for which the Open Inference Protocol has no datatype"
            )
        self.places = {item.name: place for place, item in enumerate(model.outputs) if datatype_of(item.type)}
        self.datatypes = [datatype_of(item.type) or "" for item in model.outputs]
        self.left_out = [item for item in model.outputs if item.name not in self.places]
        self.rows = rows_of(model) if is_batched else Joining(reason=why_not)

    def check(self, request: InferRequest) -> None:
        """Raise RequestError where inputs or outputs are not those of the model."""
        for name, array in request.inputs.items():
            item = self.inputs.get(name)
            if item is None:
                raise RequestError(f"model {self.name!r} has no input {short(name)}; it has {self._named(self.inputs)}")
            _check_input(item, array)
        missing = [name for name in self.fed if name not in request.inputs]
        if missing:
            raise RequestError(f"no value for input {missing[0]!r} of model {self.name!r}")
        for asked in request.outputs:
            if asked.name not in self.places:
                known = self._named(self.places)
                raise RequestError(f"model {self.name!r} has no output {short(asked.name)} to be sent; it has {known}")

    def count_rows(self, request: InferRequest) -> int:
        """The rows of a request that may be joined with others; 0 where it must run alone."""
        if self.rows.reason or len(request.inputs) != len(self.fed):
            return 0
        counts = {array.shape[0] for array in request.inputs.values()}
        return counts.pop() if len(counts) == 1 else 0

    def answer(self, request: InferRequest, results: Sequence[Any], parameters: Mapping[str, Any]) -> InferAnswer:
        """What a request is answered, made of all outputs of the model."""
        asked = request.outputs or [OutputRequest(name, request.is_binary) for name in self.places]
        outputs: list[tuple[OutputRequest, str, Any]] = []
        for each in asked:
            place = self.places[each.name]
            outputs.append((each, self.datatypes[place], np.asarray(results[place])))
        return InferAnswer(self.name, self.version, outputs, request.id, parameters)

    def metadata(self, versions: Sequence[str]) -> dict[str, Any]:
        """The protocol's description of the model; names of open sizes are in the parameters of each tensor."""
        rows = self.rows
        batching = f"rows along {rows.symbol!r}" if not rows.reason else f"off: {rows.reason}"
        properties = {"batching": batching}
        if self.left_out:
            properties["outputs_left_out"] = ", ".join(f"{item.name}: {item.type}" for item in self.left_out)
        return {
            "name": self.name,
            "versions": list(versions),
            "platform": "intaglio_onnx",
            "inputs": [_tensor(item) for item in self.inputs.values()],
            "outputs": [_tensor(item) for item in self.model.outputs if item.name in self.places],
            "properties": properties,
        }

    def _named(self, names: Mapping[str, Any]) -> str:
        return ", ".join(repr(name) for name in list(names)[:20]) or "none"


def datatype_of(type: Type) -> str | None:
    """The protocol's name of a tensor's elements; None where it has none."""
    return NAMES.get(type.dtype) if isinstance(type, TensorType) else None


def _tensor(item: Signature) -> dict[str, Any]:
    assert isinstance(item.type, TensorType)
    shape = item.type.shape
    fields: dict[str, Any] = {"name": item.name, "datatype": datatype_of(item.type)}
    fields["shape"] = [-1] if shape is None else [dim if isinstance(dim, int) else -1 for dim in shape]
    if shape is not None and not item.type.is_static:
        fields["parameters"] = {"sizes": [dim if isinstance(dim, int) else str(dim) for dim in shape]}
    return fields


def _check_input(item: Signature, array: Any) -> None:
    type = item.type
    assert isinstance(type, TensorType)
    if array.dtype != type.dtype.numpy:
        found = next((name for dtype, name in NAMES.items() if dtype.numpy == array.dtype), array.dtype)
        raise RequestError(f"input {item.name!r} has datatype {found}, expected {NAMES[type.dtype]}")
    shape = type.shape
    if shape is None:
        return
    fits = len(shape) == array.ndim
    if not fits or any(isinstance(dim, int) and dim != size for dim, size in zip(shape, array.shape, strict=True)):
        expected = ", ".join(str(dim) for dim in shape)
        raise RequestError(f"input {item.name!r} has shape {list(array.shape)}, expected [{expected}]")
