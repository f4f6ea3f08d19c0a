"""Bodies of requests and answers: JSON, and JSON with binary tensors behind it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from intaglio.serve.datatypes import (
    array_of_bytes,
    array_of_numbers,
    bytes_of_array,
    check_datatype,
    check_shape,
    numbers_of_array,
    short,
)
from intaglio.serve.messages import (
    DEFAULT_PRIORITY,
    InferAnswer,
    InferRequest,
    OutputRequest,
    RegionSlice,
    RequestError,
)

MOST_TENSORS = 1024
"""Inputs or outputs of one request."""

Regions = Callable[[RegionSlice], memoryview]
"""Finds the bytes of a slice of shared memory; raises RequestError where there are none."""


def parse_json(data: bytes | memoryview, limit: int) -> dict[str, Any]:
    """A JSON object; raises RequestError for everything else, and for one of more bytes than the limit."""
    if len(data) > limit:
        raise RequestError(
            f"the JSON has {len(data)} bytes, and the limit is {limit}; send tensors as binary data", 413
        )
    try:
        found = _DECODER.decode(str(data, "utf-8"))
    except RecursionError:
        raise RequestError("the JSON is nested too deep") from None
    except ValueError as error:  # broken text, and text that is not UTF-8
        raise RequestError(f"the body is no JSON: {short(str(error))}") from None
    if not isinstance(found, dict):
        raise RequestError("the JSON is no object")
    return cast("dict[str, Any]", found)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON; send it as binary data")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_ENCODER = json.JSONEncoder(separators=(",", ":"))


def read_request(
    body: bytes | memoryview, header_length: int | None, json_limit: int, regions: Regions | None = None
) -> InferRequest:
    """The request that a body holds; `header_length` are the bytes of JSON before binary tensors."""
    whole = memoryview(body)
    if header_length is not None and not 0 <= header_length <= len(whole):
        raise RequestError(f"Inference-Header-Content-Length is {header_length}, and the body has {len(whole)} bytes")
    end = len(whole) if header_length is None else header_length
    fields = parse_json(whole[:end], json_limit)
    parameters = parameters_of(fields, "the request")
    tensors = _objects(fields, "inputs")
    if not tensors:
        raise RequestError("the request has no inputs")
    inputs = _read_inputs(tensors, whole[end:], regions)
    request = InferRequest(inputs, id=_text(fields.get("id", ""), "id"))
    take_parameters(request, parameters)
    request.outputs = [_output(each, request.is_binary) for each in _objects(fields, "outputs")]
    return request


def take_parameters(request: InferRequest, parameters: Mapping[str, Any]) -> None:
    """Set what the parameters of a request mean; those of other servers are left alone."""
    request.is_binary = _flag(parameters, "binary_data_output")
    request.is_traced = _flag(parameters, "trace")
    request.priority = _whole(parameters.get("priority", 0), "the parameter priority") or DEFAULT_PRIORITY
    request.timeout = _whole(parameters.get("timeout", 0), "the parameter timeout") / 1e6


def _objects(fields: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found: Any = fields.get(name, [])
    if type(found) is not list or any(type(each) is not dict for each in found):  # pyright: ignore[reportUnknownArgumentType]
        raise RequestError(f"{name} is {short(found)}, expected a list of objects")
    if len(found) > MOST_TENSORS:
        raise RequestError(f"there are {len(found)} {name}, and the limit is {MOST_TENSORS}")
    return found


def parameters_of(fields: dict[str, Any], place: str) -> dict[str, Any]:
    """The object `parameters` of some fields; raises RequestError where it is none."""
    found = fields.get("parameters")
    if found is None:
        return {}
    if type(found) is not dict:
        raise RequestError(f"the parameters of {place} are {short(found)}, expected an object")
    return cast("dict[str, Any]", found)


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str) or len(value) > 4096:
        raise RequestError(f"{place} is {short(value)}, expected text of at most 4096 characters")
    return value


def _flag(parameters: Mapping[str, Any], name: str) -> bool:
    found = parameters.get(name, False)
    if type(found) is not bool:
        raise RequestError(f"the parameter {name} is {short(found)}, expected true or false")
    return found


def _whole(value: Any, place: str) -> int:
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        value = int(value)
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise RequestError(f"{place} is {short(value)}, expected an integer of at least 0")
    return value


def _read_inputs(tensors: list[dict[str, Any]], binary: memoryview, regions: Regions | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    at = 0
    for each in tensors:
        name = _text(each.get("name"), "the name of an input")
        if name in found:
            raise RequestError(f"input {name!r} is given twice")
        parameters = parameters_of(each, f"input {name!r}") if "parameters" in each else {}
        size = parameters.get("binary_data_size")
        if size is not None:
            size = _whole(size, f"binary_data_size of input {name!r}")
            if size > len(binary) - at:
                raise RequestError(f"input {name!r} has {size} binary bytes, and the body has {len(binary) - at} left")
            found[name] = _read_input(each, name, binary[at : at + size])
            at += size
        else:
            region = region_of(parameters, f"input {name!r}")
            found[name] = _read_input(each, name, None if region is None else copied_region(region, regions))
    if at != len(binary):
        raise RequestError(f"the body has {len(binary) - at} bytes behind the last binary tensor")
    return found


def _read_input(fields: dict[str, Any], name: str, binary: memoryview | None) -> Any:
    place = f"input {short(name)}"
    dtype = check_datatype(fields.get("datatype"), place)
    shape = check_shape(fields.get("shape"), place)
    if binary is None:
        return array_of_numbers(dtype, shape, fields.get("data"), place)
    if "data" in fields:
        raise RequestError(f"{place} has its data twice, in the JSON and outside of it")
    return array_of_bytes(dtype, shape, binary, place)


def region_of(parameters: Mapping[str, Any], place: str) -> RegionSlice | None:
    """The slice of shared memory that parameters of a tensor name; None where they name none."""
    name = parameters.get("shared_memory_region")
    if name is None:
        return None
    size = _whole(parameters.get("shared_memory_byte_size"), f"shared_memory_byte_size of {place}")
    offset = _whole(parameters.get("shared_memory_offset", 0), f"shared_memory_offset of {place}")
    return RegionSlice(_text(name, f"shared_memory_region of {place}"), offset, size)


def _bytes_of(region: RegionSlice, regions: Regions | None) -> memoryview:
    if regions is None:
        raise RequestError("this server takes no shared memory; start it with --shared-memory")
    return regions(region)


def copied_region(region: RegionSlice, regions: Regions | None) -> memoryview:
    """A copy of shared memory: its owner may write there while kernels that have checked indices read them."""
    return memoryview(bytes(_bytes_of(region, regions)))


def _output(fields: dict[str, Any], is_binary: bool) -> OutputRequest:
    name = _text(fields.get("name"), "the name of an output")
    parameters = parameters_of(fields, f"output {name!r}")
    if parameters.get("classification"):
        raise RequestError(f"output {name!r}: this server has no classification extension")
    binary = _flag(parameters, "binary_data") if "binary_data" in parameters else is_binary
    return OutputRequest(name, binary, region_of(parameters, f"output {name!r}"))


def write_answer(answer: InferAnswer, regions: Regions | None = None) -> tuple[list[bytes | memoryview], int | None]:
    """The body of an answer as pieces, and the bytes of JSON before binary tensors; None where there are none."""
    outputs: list[dict[str, Any]] = []
    binary: list[bytes | memoryview] = []
    for asked, datatype, array in answer.outputs:
        fields: dict[str, Any] = {"name": asked.name, "datatype": datatype, "shape": list(array.shape)}
        if asked.region is not None:
            fields["parameters"] = write_region(asked, array, regions)
        elif asked.is_binary:
            data = bytes_of_array(array)
            binary.append(data)
            fields["parameters"] = {"binary_data_size": len(data)}
        else:
            fields["data"] = numbers_of_array(array, asked.name)
        outputs.append(fields)
    head: dict[str, Any] = {"model_name": answer.model, "model_version": answer.version, "outputs": outputs}
    if answer.id:
        head["id"] = answer.id
    if answer.parameters:
        head["parameters"] = dict(answer.parameters)
    text = _ENCODER.encode(head).encode()
    return [text, *binary], len(text) if binary else None


def write_region(asked: OutputRequest, array: Any, regions: Regions | None) -> dict[str, Any]:
    """Copy an output to the shared memory that the client named; returns the parameters of the answer."""
    region = asked.region
    assert region is not None
    data = bytes_of_array(array)
    target = _bytes_of(region, regions)
    if len(data) > len(target):
        raise RequestError(f"output {asked.name!r} has {len(data)} bytes, and its shared memory {len(target)}")
    if target.readonly:
        raise RequestError(f"output {asked.name!r}: the shared memory cannot be written")
    target[: len(data)] = data
    return {
        "shared_memory_region": region.region,
        "shared_memory_offset": region.offset,
        "shared_memory_byte_size": len(data),
    }
