"""The protocol by HTTP: an ASGI application, thin over the service.

Requests for inference take a short way; all others go through Starlette's routes.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from intaglio.serve.body import parameters_of, parse_json, read_request, write_answer
from intaglio.serve.messages import RequestError
from intaglio.serve.metrics import CONTENT_TYPE, metrics_text
from intaglio.serve.openapi import openapi, page
from intaglio.serve.service import Service, as_request_error
from intaglio.serve.trace import parent_of, trace_id_of

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

LARGE = 1 << 16
"""Bytes from which an answer is sent in pieces, and its client must take it in time."""
_OPEN = ("/v2/health/live", "/v2/health/ready")
"""Paths that need no key: those who watch over a server have none."""


class HttpApp:
    """The ASGI application of a service."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._routes = Starlette(routes=routes(service))

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._routes(scope, receive, send)
            return
        path: str = scope["path"]
        root: str = scope.get("root_path", "")
        path = path[len(root) :] if root and path.startswith(root) else path
        headers = dict(scope["headers"])
        if self.service.settings.api_key is not None and path not in _OPEN and not self._has_key(headers):
            await _send_error(send, RequestError("a valid API key is needed: Authorization: Bearer KEY", 401))
        elif path.endswith("/infer") and scope["method"] == "POST":
            await self._infer(path, headers, receive, send)
        else:
            await self._other(scope, receive, send, headers)

    def _has_key(self, headers: dict[bytes, bytes]) -> bool:
        given = headers.get(b"authorization", b"").decode("latin-1")
        key = given[7:] if given[:7].lower() == "bearer " else headers.get(b"x-api-key", b"").decode("latin-1")
        return self.service.is_allowed(key)

    async def _other(self, scope: Message, receive: Receive, send: Send, headers: dict[bytes, bytes]) -> None:
        body = Body(self.service, headers)
        try:
            scope["intaglio.body"] = await body.read(receive, self.service.settings.max_json)
            await self._routes(scope, receive, send)
        except RequestError as error:
            await _send_error(send, error)
        finally:
            body.release()

    async def _infer(self, path: str, headers: dict[bytes, bytes], receive: Receive, send: Send) -> None:
        service = self.service
        body = Body(service, headers)
        is_begun = False
        try:
            name, version = _model_of(path)
            service.repository.find(name, version)
            data = await body.read(receive, service.settings.max_body)
            request = read_request(data, _header_length(headers), service.settings.max_json, service.regions)
            parent = headers.get(b"traceparent")
            trace_id = trace_id_of(parent.decode("latin-1") if parent else None) if parent or request.is_traced else ""
            answer = await service.infer(name, version, request, trace_id=trace_id, gone=lambda: _gone(receive))
            pieces, head = write_answer(answer, service.regions)
            is_begun = True
            await self._send(send, pieces, head, trace_id)
        except RequestError as error:
            await _send_error(send, error)
        except Exception as error:
            if is_begun:
                raise
            await _send_error(send, as_request_error(error))
        finally:
            body.release()

    async def _send(self, send: Send, pieces: list[bytes | memoryview], head: int | None, trace_id: str) -> None:
        size = sum(map(len, pieces))
        kind = b"application/json" if head is None else b"application/octet-stream"
        headers = [(b"content-type", kind), (b"content-length", b"%d" % size)]
        if head is not None:
            headers.append((b"inference-header-content-length", b"%d" % head))
        if trace_id:
            headers.append((b"traceparent", parent_of(trace_id).encode()))
        if self.service.repository.is_draining:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if size < LARGE:
            await send({"type": "http.response.body", "body": b"".join(pieces)})
            return
        async with asyncio.timeout(self.service.settings.io_timeout):
            for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


class Body:
    """The body of one request, and the memory that is reserved for it."""

    def __init__(self, service: Service, headers: dict[bytes, bytes]) -> None:
        self._service = service
        self._length = headers.get(b"content-length")
        self._encoding = headers.get(b"content-encoding", b"").decode("latin-1").strip().lower()
        self._reserved = 0

    def release(self) -> None:
        """Let go of the memory."""
        self._service.release(self._reserved)
        self._reserved = 0

    def _reserve(self, size: int) -> None:
        self._service.reserve(size)
        self._reserved += size

    async def read(self, receive: Receive, limit: int) -> bytes | memoryview:
        """The whole body; raises RequestError where it is too large or too slow."""
        size = self._expected(limit)
        if size is not None:
            self._reserve(size)
        message = await self._next(receive, self._service.settings.io_timeout)
        if not message.get("more_body"):
            body: bytes | memoryview = message.get("body", b"")
            if size is None:
                self._reserve(len(body))
        else:
            try:
                async with asyncio.timeout(self._service.settings.io_timeout):
                    body = await self._rest(receive, message["body"], size, limit)
            except TimeoutError:
                raise RequestError("the body did not come in time", 408) from None
        return self._decoded(body, limit) if self._encoding not in ("", "identity") else body

    def _expected(self, limit: int) -> int | None:
        """The size that the client announces; None where it announces none."""
        if self._length is None:
            return None
        size = int(self._length) if self._length.isdigit() and len(self._length) < 20 else -1
        if size < 0:
            raise RequestError("Content-Length is no number")
        if size > limit:
            raise RequestError(f"the body has {size} bytes, and the limit is {limit}", 413)
        return size

    async def _next(self, receive: Receive, seconds: float) -> Message:
        """The next part of the body; most often it is there already."""
        try:
            async with asyncio.timeout(seconds):
                message = await receive()
        except TimeoutError:
            raise RequestError("the body did not come in time", 408) from None
        if message["type"] == "http.disconnect":
            raise RequestError("the client left", 499)
        return message

    async def _rest(self, receive: Receive, first: bytes, size: int | None, limit: int) -> memoryview:
        """The first part and all that come; a size that is announced has its memory at once, which nobody touches."""
        if size is None:
            return await self._unannounced(receive, first, limit)
        whole = memoryview(np.empty(size, np.uint8)).cast("B")
        at, part, is_more = 0, first, True
        while True:
            if at + len(part) > size:
                raise RequestError("the body is longer than announced")
            whole[at : at + len(part)] = part
            at += len(part)
            if not is_more:
                break
            message = await receive()
            if message["type"] == "http.disconnect":
                raise RequestError("the client left", 499)
            part, is_more = message.get("body", b""), message.get("more_body", False)
        if at != size:
            raise RequestError("the body is shorter than announced")
        return whole

    async def _unannounced(self, receive: Receive, first: bytes, limit: int) -> memoryview:
        parts, part, is_more = [first], first, True
        total = len(first)
        self._reserve(total)
        while is_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise RequestError("the client left", 499)
            part, is_more = message.get("body", b""), message.get("more_body", False)
            total += len(part)
            if total > limit:
                raise RequestError(f"the body has more than {limit} bytes, which is the limit", 413)
            self._reserve(len(part))
            parts.append(part)
        return memoryview(b"".join(parts))

    def _decoded(self, body: bytes | memoryview, limit: int) -> bytes:
        """A compressed body as it was, as long as it is within the limits."""
        if self._encoding not in ("gzip", "deflate"):
            raise RequestError("Content-Encoding must be gzip, deflate or identity", 415)
        decoder = zlib.decompressobj(31 if self._encoding == "gzip" else 15)
        room = min(limit, self._service.settings.max_memory - self._service.memory)
        try:
            found = decoder.decompress(body, max(1, room))
        except zlib.error:
            raise RequestError(f"the body is no {self._encoding}") from None
        if decoder.unconsumed_tail or len(found) > limit:
            raise RequestError("the decompressed body is larger than the limit", 413)
        if not decoder.eof:
            raise RequestError(f"the body is no whole {self._encoding}")
        self._reserve(len(found))
        return found


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _model_of(path: str) -> tuple[str, str]:
    """The model and version of a path for inference."""
    parts = path.split("/")
    if len(parts) == 5 and parts[:3] == ["", "v2", "models"]:
        return parts[3], ""
    if len(parts) == 7 and parts[:3] == ["", "v2", "models"] and parts[4] == "versions":
        return parts[3], parts[5]
    raise RequestError("there is nothing here", 404)


def _header_length(headers: dict[bytes, bytes]) -> int | None:
    text = headers.get(b"inference-header-content-length")
    if text is None:
        return None
    if not text.isdigit() or len(text) > 19:
        raise RequestError("Inference-Header-Content-Length is no number")
    return int(text)


async def _send_error(send: Send, error: RequestError) -> None:
    body = json.dumps({"error": str(error)}).encode("utf-8", "replace")
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if error.retry_after is not None:
        headers.append((b"retry-after", b"%d" % error.retry_after))
    if error.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if error.status in (408, 413, 499):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


Handler = Callable[[Request], Awaitable[Response]]


def routes(service: Service) -> list[Route]:
    """All paths but inference; `openapi` has the same."""
    repository = service.repository

    async def live(request: Request) -> Response:
        return JSONResponse({"live": True})

    async def ready(request: Request) -> Response:
        is_ready = repository.is_ready
        return JSONResponse({"ready": is_ready}, 200 if is_ready else 503)

    async def server(request: Request) -> Response:
        return JSONResponse(service.metadata())

    async def model_ready(request: Request) -> Response:
        name, version = _named(request)
        entry = repository.find(name, version)
        is_ready = entry.is_ready and not repository.is_draining
        return JSONResponse({"name": entry.name, "ready": is_ready}, 200 if is_ready else 503)

    async def model(request: Request) -> Response:
        name, version = _named(request)
        lane = repository.find(name, version).lane
        if lane is None:
            raise RequestError("the model is not loaded")
        return JSONResponse(lane.served.metadata(repository.versions(name)))

    async def config(request: Request) -> Response:
        name, version = _named(request)
        return JSONResponse(model_config(service, name, version))

    async def stats(request: Request) -> Response:
        name, version = _named(request)
        return JSONResponse({"model_stats": model_stats(service, name, version)})

    async def index(request: Request) -> Response:
        fields = _fields(request)
        return JSONResponse(repository.index(fields.get("ready") is True))

    async def load(request: Request) -> Response:
        parameters = parameters_of(_fields(request), "the request")
        if parameters:
            raise RequestError("a load takes no parameters here: models come from the server's own folder alone")
        await asyncio.to_thread(repository.load, request.path_params["model"])
        return JSONResponse({})

    async def unload(request: Request) -> Response:
        await asyncio.to_thread(repository.unload, request.path_params["model"])
        return JSONResponse({})

    async def metrics(request: Request) -> Response:
        return Response(metrics_text(service), media_type=CONTENT_TYPE)

    async def described(request: Request) -> Response:
        return JSONResponse(openapi())

    async def first_page(request: Request) -> Response:
        return HTMLResponse(page(service.metadata(), repository.index()))

    async def trace(request: Request) -> Response:
        found = service.traces.find(request.path_params["trace"])
        if found is None:
            raise RequestError("there is no such trace; the last ones are kept", 404)
        return JSONResponse(found)

    one, versioned = "/v2/models/{model}", "/v2/models/{model}/versions/{version}"
    table: list[tuple[str, str, Handler]] = [
        ("GET", "/", first_page),
        ("GET", "/openapi.json", described),
        ("GET", "/metrics", metrics),
        ("GET", "/v2", server),
        ("GET", "/v2/health/live", live),
        ("GET", "/v2/health/ready", ready),
        ("GET", "/v2/models/stats", stats),
        ("POST", "/v2/repository/index", index),
        ("POST", "/v2/repository/models/{model}/load", load),
        ("POST", "/v2/repository/models/{model}/unload", unload),
        ("GET", "/v2/trace/{trace}", trace),
    ]
    for start in (one, versioned):
        table += [("GET", start, model), ("GET", start + "/ready", model_ready)]
        table += [("GET", start + "/config", config), ("GET", start + "/stats", stats)]
    found = [Route(path, _guarded(handler), methods=[method]) for method, path, handler in table]
    return found + shared_memory_routes(service)


def shared_memory_routes(service: Service) -> list[Route]:
    """The paths of the system shared memory extension."""

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
    table: list[tuple[str, str, Handler]] = [
        ("GET", start + "/status", status),
        ("GET", one + "/status", status),
        ("POST", one + "/register", register),
        ("POST", start + "/unregister", unregister),
        ("POST", one + "/unregister", unregister),
    ]
    return [Route(path, _guarded(handler), methods=[method]) for method, path, handler in table]


def regions_of(service: Service) -> Any:
    """The registered shared memory; raises RequestError where the server takes none."""
    if service.regions is None:
        raise RequestError("this server takes no shared memory; start it with --shared-memory")
    return service.regions


def model_stats(service: Service, name: str = "", version: str = "") -> list[dict[str, Any]]:
    """The statistics of a model, or of all."""
    entries = [service.repository.find(name, version)] if name else service.repository.entries()
    return [
        {"name": entry.name, "version": entry.version, **entry.lane.statistics.fields()}
        for entry in entries
        if entry.lane is not None
    ]


def model_config(service: Service, name: str, version: str = "") -> dict[str, Any]:
    """How a model is run, in the words of the model configuration extension."""
    entry = service.repository.find(name, version)
    lane = entry.lane
    if lane is None:
        raise RequestError("the model is not loaded")
    metadata = lane.served.metadata(service.repository.versions(name))
    sides = {
        side: [
            {"name": item["name"], "data_type": f"TYPE_{_TYPES.get(item['datatype'], item['datatype'])}",
             "dims": item["shape"]}
            for item in metadata[side + "s"]
        ]
        for side in ("input", "output")
    }  # fmt: skip
    return {"name": name, "platform": metadata["platform"], "max_batch_size": 0, **sides}


_TYPES = {"BYTES": "STRING"}


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


