"""Does a server speak the Open Inference Protocol? `python -m intaglio.serve.conformance http://localhost:8000 MODEL`.

The checks are written from the protocol's specification, version 2 by HTTP, and work with any server and any model
whose inputs may be all zeros: names, datatypes and shapes are taken from the server's own metadata. Extensions are
checked where the server says that it has them. Nothing but Python's standard library is needed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import struct
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

BYTES_OF = {
    "BOOL": 1, "UINT8": 1, "UINT16": 2, "UINT32": 4, "UINT64": 8, "INT8": 1, "INT16": 2, "INT32": 4, "INT64": 8,
    "FP16": 2, "FP32": 4, "FP64": 8, "BF16": 2,
}  # fmt: skip
"""The datatypes of the protocol whose elements have a fixed size; BYTES is the other one."""


class BrokenError(Exception):
    """What a server does that the specification forbids."""


@dataclass
class Finding:
    """One check: what the specification asks for, and why the server fails; "" where it does not."""

    section: str
    text: str
    failure: str
    is_skipped: bool = False


@dataclass
class Answer:
    """What a server answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        """The body, which must be a JSON object."""
        try:
            found: Any = json.loads(self.body)
        except ValueError:
            raise BrokenError(f"the body is no JSON: {self.body[:80]!r}") from None
        need(isinstance(found, dict), f"the body is no JSON object: {self.body[:80]!r}")
        return found


def need(is_so: bool, failure: str) -> None:
    """Raise BrokenError where something is not so."""
    if not is_so:
        raise BrokenError(failure)


class Subject:
    """A server and one of its models."""

    def __init__(self, url: str, model: str, headers: dict[str, str] | None = None) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        self.model, self._parts, self._headers = model, parts, headers or {}
        self.extensions: list[str] = []
        self.metadata: dict[str, Any] = {}

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """One request; a body that is no bytes is sent as JSON."""
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._parts.netloc, timeout=60)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json"} if body is not None else {}
        try:
            connection.request(
                method, f"{self._parts.path.rstrip('/')}/{path}", data, {**sent, **self._headers, **(headers or {})}
            )
            response = connection.getresponse()
            return Answer(
                response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
            )
        finally:
            connection.close()

    @property
    def path(self) -> str:
        """Where the model is."""
        return f"v2/models/{quote(self.model, safe='')}"

    def inputs(self) -> list[dict[str, Any]]:
        """Zeros for all inputs; open sizes are 1."""
        return [self.tensor(each) for each in self.metadata["inputs"]]

    def tensor(self, item: dict[str, Any]) -> dict[str, Any]:
        """Zeros for one input."""
        shape = [1 if size < 0 else size for size in item["shape"]]
        zero: Any = {"BOOL": False, "BYTES": ""}.get(item["datatype"], 0)
        fields = {name: item[name] for name in ("name", "datatype")}
        if "parameters" in item and "content_type" in item["parameters"]:
            fields["parameters"] = {"content_type": item["parameters"]["content_type"]}
        return {**fields, "shape": shape, "data": [zero] * math.prod(shape)}

    def infer(self, **fields: Any) -> Answer:
        """An inference of zeros, with more fields."""
        return self.ask("POST", f"{self.path}/infer", {"inputs": self.inputs(), **fields})


Check = Callable[[Subject], None]
_CHECKS: list[tuple[str, str, str, Check]] = []


def check(section: str, text: str, extension: str = "") -> Callable[[Check], Check]:
    """Enter a check: the section of the specification, what it asks for, and the extension that it belongs to."""

    def enter(function: Check) -> Check:
        _CHECKS.append((section, text, extension, function))
        return function

    return enter


@check("Health", "GET v2/health/live is answered with 200")
def _live(subject: Subject) -> None:
    need_status(subject.ask("GET", "v2/health/live"), 200)


@check("Health", "GET v2/health/ready is answered with 200 when models are ready")
def _ready(subject: Subject) -> None:
    need_status(subject.ask("GET", "v2/health/ready"), 200)


@check("Health", "GET v2/models/MODEL/ready is answered with 200 when the model is ready")
def _model_ready(subject: Subject) -> None:
    need_status(subject.ask("GET", f"{subject.path}/ready"), 200)


@check("Health", "the readiness of a model that is not there is an error of the client")
def _nothing_ready(subject: Subject) -> None:
    need_refusal(subject.ask("GET", "v2/models/there-is-no-such-model/ready"), has_text=False)


@check("Server metadata", "GET v2 has a name, a version and a list of extensions")
def _server(subject: Subject) -> None:
    answer = subject.ask("GET", "v2")
    need_status(answer, 200)
    found = answer.json
    for name in ("name", "version"):
        need(isinstance(found.get(name), str), f"{name} is {found.get(name)!r}, which is no text")
    extensions = found.get("extensions")
    need(isinstance(extensions, list), f"extensions is {extensions!r}, which is no list")
    subject.extensions = [str(each) for each in extensions or []]


@check("Model metadata", "GET v2/models/MODEL has the model's name, its platform, inputs and outputs")
def _model(subject: Subject) -> None:
    answer = subject.ask("GET", subject.path)
    need_status(answer, 200)
    found = answer.json
    need(found.get("name") == subject.model, f"name is {found.get('name')!r}")
    need(isinstance(found.get("platform"), str), "there is no platform")
    for side in ("inputs", "outputs"):
        tensors = found.get(side)
        need(isinstance(tensors, list), f"{side} is {tensors!r}, which is no list")
        for each in tensors or []:
            need_tensor_metadata(each)
    subject.metadata = found


def need_tensor_metadata(found: Any) -> None:
    """Raise BrokenError where the description of a tensor lacks something."""
    need(isinstance(found, dict) and isinstance(found.get("name"), str), f"{found!r} has no name")
    datatype = found.get("datatype")
    need(datatype in BYTES_OF or datatype == "BYTES", f"{found['name']} has the datatype {datatype!r}")
    shape = found.get("shape")
    is_shape = isinstance(shape, list) and all(type(size) is int and size >= -1 for size in shape)
    need(is_shape, f"{found['name']} has the shape {shape!r}")


@check("Model metadata", "versions are a list of texts, each of which has metadata of its own")
def _versions(subject: Subject) -> None:
    need(bool(subject.metadata), "there is no metadata of the model")
    for version in subject.metadata.get("versions") or []:
        need(isinstance(version, str), f"{version!r} is no text")
        need_status(subject.ask("GET", f"{subject.path}/versions/{quote(version)}"), 200)


@check("Model metadata", "a model that is not there is an error of the client, with its text in `error`")
def _nothing(subject: Subject) -> None:
    need_refusal(subject.ask("GET", "v2/models/there-is-no-such-model"))


@check("Inference", "an inference has the model's name and each output with name, datatype, shape and data")
def _infer(subject: Subject) -> None:
    answer = subject.infer()
    need_status(answer, 200)
    found = answer.json
    need(found.get("model_name") == subject.model, f"model_name is {found.get('model_name')!r}")
    outputs = found.get("outputs")
    need(isinstance(outputs, list) and bool(outputs), f"outputs is {outputs!r}")
    known = {each["name"]: each for each in subject.metadata["outputs"]}
    for each in outputs or []:
        need_output(each)
        need(not known or each["name"] in known, f"there is no output {each['name']!r} in the metadata")
        if known:
            need_fitting(each, known[each["name"]])


def need_output(found: Any) -> None:
    """Raise BrokenError where an output lacks something."""
    need_tensor_metadata(found)
    data = found.get("data")
    need(isinstance(data, list), f"the data of {found['name']} is {data!r}")
    count = sum(1 for _ in leaves(data))
    need(count == math.prod(found["shape"]), f"{found['name']} has {count} elements and the shape {found['shape']}")


def need_fitting(found: dict[str, Any], described: dict[str, Any]) -> None:
    """Raise BrokenError where an output is not as the metadata has it."""
    name = found["name"]
    need(found["datatype"] == described["datatype"], f"{name} is {found['datatype']}, not {described['datatype']}")
    sizes = described["shape"]
    fits = len(sizes) == len(found["shape"]) and all(a in (-1, b) for a, b in zip(sizes, found["shape"], strict=True))
    need(fits, f"{name} has the shape {found['shape']}, and the metadata says {sizes}")


def leaves(data: Any) -> Iterable[Any]:
    """The elements of nested lists in order."""
    for each in data:
        if isinstance(each, list):
            yield from leaves(each)
        else:
            yield each


@check("Inference", "the id of a request is in its answer")
def _id(subject: Subject) -> None:
    found = subject.infer(id="forty-two").json
    need(found.get("id") == "forty-two", f"id is {found.get('id')!r}")


@check("Inference", "of several outputs only those are sent that are asked for")
def _outputs(subject: Subject) -> None:
    name = (
        subject.metadata["outputs"][0]["name"]
        if subject.metadata["outputs"]
        else subject.infer().json["outputs"][0]["name"]
    )
    answer = subject.infer(outputs=[{"name": name}])
    need_status(answer, 200)
    found = [each.get("name") for each in answer.json["outputs"]]
    need(found == [name], f"asked for {name!r}, got {found}")


@check("Inference", "data may be nested as the shape or flat, and means the same")
def _nested(subject: Subject) -> None:
    inputs = [{**each, "data": nested(each["data"], each["shape"])} for each in subject.inputs()]
    answer = subject.ask("POST", f"{subject.path}/infer", {"inputs": inputs})
    need_status(answer, 200)
    for ours, theirs in zip(answer.json["outputs"], subject.infer().json["outputs"], strict=True):
        need(list(leaves(ours["data"])) == list(leaves(theirs["data"])), f"{ours['name']} differs")


def nested(data: list[Any], shape: list[int]) -> list[Any]:
    """A flat list as lists in the form of a shape."""
    if len(shape) < 2:
        return data
    step = math.prod(shape[1:])
    return [nested(data[start : start + step], shape[1:]) for start in range(0, len(data), step or 1)]


@check("Inference", "an inference of a version is that of the model")
def _version_infer(subject: Subject) -> None:
    need(bool(subject.metadata), "there is no metadata of the model")
    for version in subject.metadata.get("versions") or []:
        answer = subject.ask("POST", f"{subject.path}/versions/{quote(version)}/infer", {"inputs": subject.inputs()})
        need_status(answer, 200)
        found = answer.json.get("model_version")
        need(found in (None, version), f"model_version is {found!r}, asked for {version!r}")


@check("Errors", "a body that is no JSON is an error of the client")
def _no_json(subject: Subject) -> None:
    need_refusal(subject.ask("POST", f"{subject.path}/infer", b"{"))


@check("Errors", "a request without inputs is an error of the client")
def _no_inputs(subject: Subject) -> None:
    need_refusal(subject.ask("POST", f"{subject.path}/infer", {}))


@check("Errors", "an input that the model does not have is an error of the client")
def _unknown_input(subject: Subject) -> None:
    extra = {"name": "there-is-no-such-input", "datatype": "FP32", "shape": [1], "data": [0]}
    need_refusal(subject.ask("POST", f"{subject.path}/infer", {"inputs": [extra]}))


@check("Errors", "fewer elements than the shape says are an error of the client")
def _short_data(subject: Subject) -> None:
    inputs = subject.inputs()
    inputs[0] = {**inputs[0], "shape": [7, *inputs[0]["shape"][1:]] if inputs[0]["shape"] else [7]}
    need_refusal(subject.ask("POST", f"{subject.path}/infer", {"inputs": inputs}))


@check("Errors", "a datatype that the protocol does not have is an error of the client")
def _unknown_datatype(subject: Subject) -> None:
    inputs = [{**each, "datatype": "FP99"} for each in subject.inputs()]
    need_refusal(subject.ask("POST", f"{subject.path}/infer", {"inputs": inputs}))


@check("Errors", "an inference of a model that is not there is an error of the client")
def _nothing_infer(subject: Subject) -> None:
    need_refusal(subject.ask("POST", "v2/models/there-is-no-such-model/infer", {"inputs": subject.inputs()}))


@check("Binary tensor data", "inputs behind the JSON mean what they mean in it", "binary_tensor_data")
def _binary_inputs(subject: Subject) -> None:
    answer = subject.ask("POST", f"{subject.path}/infer", *binary(subject, {}))
    need_status(answer, 200)
    for ours, theirs in zip(answer.json["outputs"], subject.infer().json["outputs"], strict=True):
        need(list(leaves(ours["data"])) == list(leaves(theirs["data"])), f"{ours['name']} differs")


@check("Binary tensor data", "outputs that are asked for as binary are behind the JSON", "binary_tensor_data")
def _binary_outputs(subject: Subject) -> None:
    answer = subject.ask(
        "POST", f"{subject.path}/infer", *binary(subject, {"parameters": {"binary_data_output": True}})
    )
    need_status(answer, 200)
    length = answer.headers.get("inference-header-content-length", "")
    need(length.isdigit(), f"Inference-Header-Content-Length is {length!r}")
    head, at = json.loads(answer.body[: int(length)]), int(length)
    for each in head["outputs"]:
        size = each.get("parameters", {}).get("binary_data_size")
        need(type(size) is int, f"binary_data_size of {each['name']} is {size!r}")
        width = BYTES_OF.get(each["datatype"])
        need(width is None or size == width * math.prod(each["shape"]), f"{each['name']} has {size} bytes")
        at += size
    need(at == len(answer.body), f"the body has {len(answer.body)} bytes, and its parts {at}")


def binary(subject: Subject, fields: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of an inference of zeros whose tensors are binary."""
    parts, tensors = list[bytes](), list[dict[str, Any]]()
    for each in subject.inputs():
        count = len(each.pop("data"))
        data = (
            struct.pack("<I", 0) * count if each["datatype"] == "BYTES" else bytes(count * BYTES_OF[each["datatype"]])
        )
        parts.append(data)
        tensors.append({**each, "parameters": {**each.get("parameters", {}), "binary_data_size": len(data)}})
    head = json.dumps({"inputs": tensors, **fields}).encode()
    kind = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head))}
    return head + b"".join(parts), kind


@check("Model repository", "POST v2/repository/index lists the model with its state", "model_repository")
def _index(subject: Subject) -> None:
    answer = subject.ask("POST", "v2/repository/index", {})
    need_status(answer, 200)
    found: Any = json.loads(answer.body)
    need(isinstance(found, list), "the body is no list")
    states = [each.get("state") for each in found if each.get("name") == subject.model]
    need("READY" in states, f"the states of {subject.model} are {states}")


@check("Statistics", "GET v2/models/MODEL/stats counts inferences", "statistics")
def _statistics(subject: Subject) -> None:
    counts = list[int]()
    for _ in range(2):
        answer = subject.ask("GET", f"{subject.path}/stats")
        need_status(answer, 200)
        stats = answer.json["model_stats"]
        counts.append(sum(each["inference_count"] for each in stats))
        need_status(subject.infer(), 200)
    need(counts[1] > counts[0], f"inference_count was {counts[0]}, and {counts[1]} after one more")


def need_status(answer: Answer, status: int) -> None:
    """Raise BrokenError where an answer has another status."""
    need(answer.status == status, f"status {answer.status}, expected {status}: {answer.body[:200]!r}")


def need_refusal(answer: Answer, *, has_text: bool = True) -> None:
    """Raise BrokenError where an answer is no error of the client, or does not say what is wrong."""
    need(400 <= answer.status < 500, f"status {answer.status}, expected 4xx: {answer.body[:200]!r}")
    if has_text:
        text = answer.json.get("error")
        need(isinstance(text, str) and bool(text), f"there is no text in `error`: {answer.body[:200]!r}")


def judge(subject: Subject) -> list[Finding]:
    """What came of all checks; those of extensions that the server does not name are skipped."""
    found: list[Finding] = []
    for section, text, extension, function in _CHECKS:
        if extension and extension not in subject.extensions:
            found.append(Finding(section, text, f"the server does not name {extension}", is_skipped=True))
            continue
        try:
            function(subject)
        except BrokenError as error:
            found.append(Finding(section, text, str(error)))
        except (OSError, http.client.HTTPException, KeyError, TypeError, ValueError) as error:
            found.append(Finding(section, text, f"{type(error).__name__}: {error}"))
        else:
            found.append(Finding(section, text, ""))
    return found


def main(arguments: list[str] | None = None) -> int:
    """Print what came of all checks; returns 1 where one failed."""
    parser = argparse.ArgumentParser(
        prog="python -m intaglio.serve.conformance", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("url", help="where the server is, such as http://localhost:8000")
    parser.add_argument("model", help="one of its models, which takes zeros")
    parser.add_argument("--header", action="append", default=[], metavar="NAME:VALUE", help="sent with each request")
    given = parser.parse_args(arguments)
    headers = {name.strip(): value.strip() for name, _, value in (each.partition(":") for each in given.header)}
    found = judge(Subject(given.url, given.model, headers))
    for each in found:
        word = "skipped" if each.is_skipped else "failed" if each.failure else "passed"
        print(f"{word:8} {each.section}: {each.text}{f': {each.failure}' if each.failure else ''}")
    failures = sum(bool(each.failure) and not each.is_skipped for each in found)
    skipped = sum(each.is_skipped for each in found)
    print(f"{len(found) - failures - skipped} passed, {failures} failed, {skipped} skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
