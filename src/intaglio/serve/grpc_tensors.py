"""Requests and answers of gRPC as the records of the protocol, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from intaglio.serve.body import MOST_TENSORS, Regions, copied_region, region_of, take_parameters, write_region
from intaglio.serve.datatypes import (
    array_of_bytes,
    array_of_numbers,
    bytes_of_array,
    check_datatype,
    check_shape,
    short,
)
from intaglio.serve.grpc_messages import message
from intaglio.serve.messages import InferAnswer, InferRequest, OutputRequest, RequestError

_CONTENTS = {
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents",
    "INT64": "int64_contents", "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents",
    "UINT64": "uint64_contents", "FP32": "fp32_contents", "FP64": "fp64_contents", "BYTES": "bytes_contents",
}  # fmt: skip
"""Where typed contents of a datatype stand; the others come as raw bytes alone."""


def request_of(given: Any, regions: Regions | None) -> InferRequest:
    """The request that a message holds; raises RequestError where it holds none."""
    for name, tensors in (("inputs", given.inputs), ("outputs", given.outputs)):
        if len(tensors) > MOST_TENSORS:
            raise RequestError(f"there are {len(tensors)} {name}, and the limit is {MOST_TENSORS}")
    if not given.inputs:
        raise RequestError("the request has no inputs")
    request = InferRequest(_inputs(given, regions), id=given.id)
    take_parameters(request, parameters_of(given.parameters))
    request.outputs = [_asked(each) for each in given.outputs]
    return request


def parameters_of(pairs: Iterable[Any]) -> dict[str, Any]:
    """Parameters by their keys; one without a value is left out."""
    found: dict[str, Any] = {}
    for pair in pairs:
        choice = pair.value.WhichOneof("choice")
        if choice is not None:
            found[pair.key] = getattr(pair.value, choice)
    return found


def _asked(given: Any) -> OutputRequest:
    parameters = parameters_of(given.parameters)
    if parameters.get("classification"):
        raise RequestError(f"output {short(given.name)}: this server has no classification extension")
    return OutputRequest(given.name, True, region_of(parameters, f"output {short(given.name)}"))


def _inputs(given: Any, regions: Regions | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    raw = list(given.raw_input_contents)
    for each in given.inputs:
        if each.name in found:
            raise RequestError(f"input {short(each.name)} is given twice")
        place = f"input {short(each.name)}"
        dtype, shape = check_datatype(each.datatype, place), check_shape(tuple(each.shape), place)
        region = region_of(parameters_of(each.parameters), place)
        if region is not None:
            found[each.name] = array_of_bytes(dtype, shape, copied_region(region, regions), place)
        elif given.raw_input_contents:
            if not raw:
                raise RequestError(f"{place} has no raw contents, and others have: all inputs or none are raw")
            found[each.name] = array_of_bytes(dtype, shape, memoryview(raw.pop(0)), place)
        else:
            found[each.name] = array_of_numbers(dtype, shape, _typed(each, place), place)
    if raw:
        raise RequestError(f"there are {len(raw)} raw contents more than inputs")
    return found


def _typed(tensor: Any, place: str) -> list[Any]:
    field = _CONTENTS.get(tensor.datatype)
    if field is None:
        raise RequestError(f"{place} is {tensor.datatype}, which only raw contents can hold")
    for other, items in tensor.contents.ListFields():
        if other.name != field and len(items):
            raise RequestError(f"{place} is {tensor.datatype} and has {other.name}, expected {field}")
    items = list(getattr(tensor.contents, field))
    if field != "bytes_contents":
        return items
    try:
        return [item.decode() for item in items]
    except UnicodeDecodeError:
        raise RequestError(f"{place} has an element that is no UTF-8") from None


def response_of(answer: InferAnswer, regions: Regions | None) -> Any:
    """The message of an answer; data is raw, or in shared memory where the client asked for that."""
    found = message("InferResponse")(model_name=answer.model, model_version=answer.version, id=answer.id)
    _add_parameters(found, answer.parameters)
    for asked, datatype, array in answer.outputs:
        output = found.outputs.add(name=asked.name, datatype=datatype, shape=array.shape)
        if asked.region is None:
            found.raw_output_contents.append(bytes(bytes_of_array(array)))
        else:
            _add_parameters(output, write_region(asked, array, regions))
            found.raw_output_contents.append(b"")
    return found


def _add_parameters(target: Any, parameters: Any) -> None:
    for key, value in parameters.items():
        pair = target.parameters.add(key=key)
        if isinstance(value, bool):
            pair.value.bool_param = value
        elif isinstance(value, int):
            pair.value.int64_param = value
        elif isinstance(value, float):
            pair.value.double_param = value
        else:
            pair.value.string_param = str(value)
