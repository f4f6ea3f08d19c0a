"""The paths of the server for people and programs: an OpenAPI description and a page that needs nothing else."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from intaglio.version import __version__

_PATHS = (
    ("get", "/v2", "What the server is and which extensions it has."),
    ("get", "/v2/health/live", "Whether the process answers."),
    ("get", "/v2/health/ready", "Whether requests should be sent here: 503 while it starts, loads or drains."),
    ("get", "/v2/models/{model}", "Inputs, outputs and versions of a model."),
    ("get", "/v2/models/{model}/ready", "Whether a model takes requests."),
    ("get", "/v2/models/{model}/config", "How a model is run."),
    ("get", "/v2/models/{model}/stats", "Counts and times of a model."),
    ("get", "/v2/models/stats", "Counts and times of all models."),
    ("post", "/v2/models/{model}/infer", "Run a model; JSON, or JSON with binary tensors behind it."),
    ("post", "/v2/models/{model}/versions/{version}/infer", "Run a version of a model."),
    ("post", "/v2/repository/index", "The models of the repository."),
    ("post", "/v2/repository/models/{model}/load", "Load a model, or load it again."),
    ("post", "/v2/repository/models/{model}/unload", "Let go of a model."),
    ("get", "/v2/systemsharedmemory/status", "Registered regions of shared memory."),
    ("post", "/v2/systemsharedmemory/region/{region}/register", "Register shared memory."),
    ("post", "/v2/systemsharedmemory/region/{region}/unregister", "Let go of shared memory."),
    ("get", "/v2/trace/{trace}", "Kernels of a request that asked for a trace, for Chrome's tracing."),
    ("get", "/metrics", "Metrics for Prometheus."),
)


def openapi() -> dict[str, Any]:
    """The description of all paths."""
    paths: dict[str, dict[str, Any]] = {}
    for method, path, text in _PATHS:
        names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
        parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
        operation: dict[str, Any] = {"summary": text, "responses": _RESPONSES}
        operation |= {"parameters": parameters} if parameters else {}
        if path.endswith("/infer"):
            operation["requestBody"] = {"required": True, "content": _CONTENT}
        paths.setdefault(path, {})[method] = operation
    info = {"title": "Open Inference Protocol", "version": __version__}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": _SCHEMAS}}


_TENSOR = {
    "type": "object",
    "required": ["name", "datatype", "shape"],
    "properties": {
        "name": {"type": "string"},
        "datatype": {"type": "string"},
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "data": {"type": "array"},
        "parameters": {"type": "object"},
    },
}
_REQUEST = {
    "type": "object",
    "required": ["inputs"],
    "properties": {
        "id": {"type": "string"},
        "parameters": {"type": "object"},
        "inputs": {"type": "array", "items": {"$ref": "#/components/schemas/Tensor"}},
        "outputs": {"type": "array", "items": {"type": "object", "required": ["name"]}},
    },
}
_SCHEMAS = {
    "Tensor": _TENSOR,
    "InferRequest": _REQUEST,
    "Error": {"type": "object", "properties": {"error": {"type": "string"}}},
}
_CONTENT = {
    "application/json": {"schema": {"$ref": "#/components/schemas/InferRequest"}},
    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
}
_FAILURE = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
_RESPONSES = {
    "200": {"description": "Done."},
    "4XX": {"description": "Refused.", "content": _FAILURE},
    "5XX": {"description": "Not done.", "content": _FAILURE},
}


def page(server: Mapping[str, Any], models: Sequence[Mapping[str, str]]) -> str:
    """A page with the models and the paths, names shown as text."""
    rows = "".join(
        f"<tr><td>{html.escape(each['name'])}<td>{html.escape(each['version'])}<td>{html.escape(each['state'])}"
        f"<td>{html.escape(each.get('reason', ''))}"
        for each in models
    )
    paths = "".join(f"<tr><td>{method.upper()}<td><code>{path}</code><td>{text}" for method, path, text in _PATHS)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>intaglio serve</title>"
        "<style>body{font:16px/1.5 system-ui;margin:2em;max-width:70em}td{padding:.2em 1em .2em 0}</style>"
        f"<h1>{html.escape(server['name'])} {html.escape(server['version'])}</h1>"
        f"<h2>Models</h2><table><tr><th>name<th>version<th>state<th>{rows}</table>"
        f"<h2>Paths</h2><table>{paths}</table><p><a href=openapi.json>openapi.json</a></html>"
    )
