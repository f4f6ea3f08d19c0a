"""All paths of HTTP but inference. `openapi` describes the same ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from intaglio.serve.body import parameters_of, parse_json
from intaglio.serve.described import (
    check_control,
    is_model_ready,
    model_config,
    model_metadata,
    model_stats,
    regions_of,
)
from intaglio.serve.messages import RequestError
from intaglio.serve.metrics import CONTENT_TYPE, metrics_text
from intaglio.serve.openapi import openapi, page
from intaglio.serve.service import Service

Handler = Callable[[Request], Awaitable[Response]]
Table = list[tuple[str, str, Handler]]


def routes(service: Service) -> list[Route]:
    """All paths but inference."""
    table = [*_server_table(service), *_model_table(service), *_repository_table(service), *_memory_table(service)]
    return [Route(path, _guarded(handler), methods=[method]) for method, path, handler in table]


def _server_table(service: Service) -> Table:
    async def live(request: Request) -> Response:
        return JSONResponse({"live": True})

    async def ready(request: Request) -> Response:
        is_ready = service.repository.is_ready
        return JSONResponse({"ready": is_ready}, 200 if is_ready else 503)

    async def server(request: Request) -> Response:
        return JSONResponse(service.metadata())

    async def metrics(request: Request) -> Response:
        return Response(metrics_text(service, await service.others()), media_type=CONTENT_TYPE)

    async def described(request: Request) -> Response:
        return JSONResponse(openapi())

    async def first_page(request: Request) -> Response:
        return HTMLResponse(page(service.metadata(), service.repository.index()))

    async def trace(request: Request) -> Response:
        found = await service.trace(request.path_params["trace"])
        if found is None:
            raise RequestError("there is no such trace; the last ones are kept", 404)
        return JSONResponse(found)

    return [
        ("GET", "/", first_page),
        ("GET", "/openapi.json", described),
        ("GET", "/metrics", metrics),
        ("GET", "/v2", server),
        ("GET", "/v2/health/live", live),
        ("GET", "/v2/health/ready", ready),
        ("GET", "/v2/trace/{trace}", trace),
    ]


def _model_table(service: Service) -> Table:
    async def ready(request: Request) -> Response:
        name, version = _named(request)
        is_ready = is_model_ready(service, name, version)
        return JSONResponse({"name": name, "ready": is_ready}, 200 if is_ready else 503)

    async def model(request: Request) -> Response:
        return JSONResponse(model_metadata(service, *_named(request)))

    async def config(request: Request) -> Response:
        return JSONResponse(model_config(service, *_named(request)))

    async def stats(request: Request) -> Response:
        return JSONResponse({"model_stats": await model_stats(service, *_named(request))})

    table: Table = [("GET", "/v2/models/stats", stats)]
    for start in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
        table += [("GET", start, model), ("GET", start + "/ready", ready)]
        table += [("GET", start + "/config", config), ("GET", start + "/stats", stats)]
    return table


def _repository_table(service: Service) -> Table:
    repository = service.repository

    async def index(request: Request) -> Response:
        return JSONResponse(repository.index(_fields(request).get("ready") is True))

    async def load(request: Request) -> Response:
        check_control(service, parameters_of(_fields(request), "the request"))
        await service.control("load", request.path_params["model"])
        return JSONResponse({})

    async def unload(request: Request) -> Response:
        check_control(service, None)
        await service.control("unload", request.path_params["model"])
        return JSONResponse({})

    return [
        ("POST", "/v2/repository/index", index),
        ("POST", "/v2/repository/models/{model}/load", load),
        ("POST", "/v2/repository/models/{model}/unload", unload),
    ]


def _memory_table(service: Service) -> Table:
    async def status(request: Request) -> Response:
        return JSONResponse(regions_of(service).status(request.path_params.get("region", "")))

    async def register(request: Request) -> Response:
        fields = _fields(request)
        name, offset = request.path_params["region"], fields.get("offset", 0)
        regions_of(service).register(name, fields.get("key"), offset, fields.get("byte_size"))
        return JSONResponse({})

    async def unregister(request: Request) -> Response:
        regions_of(service).unregister(request.path_params.get("region", ""))
        return JSONResponse({})

    start = "/v2/systemsharedmemory"
    one = start + "/region/{region}"
    return [
        ("GET", start + "/status", status),
        ("GET", one + "/status", status),
        ("POST", one + "/register", register),
        ("POST", start + "/unregister", unregister),
        ("POST", one + "/unregister", unregister),
    ]


def _named(request: Request) -> tuple[str, str]:
    return request.path_params.get("model", ""), request.path_params.get("version", "")


def _fields(request: Request) -> dict[str, Any]:
    """The body as a JSON object; an empty body is an empty object."""
    body: bytes | memoryview = request.scope["intaglio.body"]
    return parse_json(body, len(body)) if len(body) else {}


def _guarded(handler: Handler) -> Handler:
    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except RequestError as error:
            headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
            return JSONResponse({"error": str(error)}, error.status, headers)

    return answer
