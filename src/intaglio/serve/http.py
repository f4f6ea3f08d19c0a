"""The protocol by HTTP: an ASGI application, thin over the service.

Requests for inference take a short way; all others go through Starlette's routes.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from intaglio.serve.body import read_request, write_answer
from intaglio.serve.incoming import JSON_COST, Body, Message, Receive, Send
from intaglio.serve.messages import RequestError
from intaglio.serve.routes import routes
from intaglio.serve.service import Service, as_request_error
from intaglio.serve.trace import parent_of, trace_id_of

LARGE = 1 << 16
"""Bytes from which an answer is sent in pieces, and its client must take it in time."""
_OPEN = ("/v2/health/live", "/v2/health/ready")
"""Paths that need no key: those who watch over a server have none."""


class HttpApp:
    """The ASGI application of a service."""

    def __init__(self, service: Service) -> None:
        self.service = service
        handlers: Any = {HTTPException: _as_json, Exception: _as_json}
        self._routes = Starlette(routes=routes(service), exception_handlers=handlers)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._routes(scope, receive, send)
            return
        path: str = scope["path"]
        root: str = scope.get("root_path", "")
        path = path[len(root) :] if root and path.startswith(root) else path
        headers: dict[bytes, bytes] = dict(scope["headers"])
        refusal = self._refusal(path, headers)
        if refusal is not None:
            await _send_error(send, refusal)
        elif path.endswith("/infer") and scope["method"] == "POST":
            await self._infer(path, headers, receive, send)
        else:
            await self._other(scope, receive, send, headers)

    def close(self) -> None:
        """End the threads of all models; returns when what waits is run."""
        self.service.repository.close()

    def _refusal(self, path: str, headers: dict[bytes, bytes]) -> RequestError | None:
        """Why a request is not looked at: no key, or a page of another site sent it."""
        if self.service.settings.api_keys and path not in _OPEN and not self._has_key(headers):
            return RequestError("a valid API key is needed: Authorization: Bearer KEY", 401)
        origin = headers.get(b"origin")
        if origin is not None and not _is_same_site(origin, headers.get(b"host", b"")):
            return RequestError("requests of pages of other sites are not answered", 403)
        return None

    def _has_key(self, headers: dict[bytes, bytes]) -> bool:
        given = headers.get(b"authorization", b"").decode("latin-1")
        key = given[7:] if given[:7].lower() == "bearer " else headers.get(b"x-api-key", b"").decode("latin-1")
        return self.service.is_allowed(key)

    async def _other(self, scope: Message, receive: Receive, send: Send, headers: dict[bytes, bytes]) -> None:
        body = Body(self.service, headers)
        try:
            data = await body.read(receive, self.service.settings.max_json)
            body.reserve(JSON_COST * len(data))
            scope["intaglio.body"] = data
            await self._routes(scope, receive, self._leaving(send))
        except RequestError as error:
            await _send_error(send, error)
        finally:
            body.release()

    def _leaving(self, send: Send) -> Send:
        """Sends what is given, and asks the client to connect anew where this process ends."""

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start" and self.service.is_leaving:
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

        return sent

    async def _infer(self, path: str, headers: dict[bytes, bytes], receive: Receive, send: Send) -> None:
        service = self.service
        body = Body(service, headers)
        is_begun = False
        try:
            name, version = _model_of(path)
            service.repository.find(name, version)
            data = await body.read(receive, service.settings.max_body)
            length = _header_length(headers)
            body.reserve(JSON_COST * min(len(data) if length is None else length, service.settings.max_json))
            request = read_request(data, length, service.settings.max_json, service.regions)
            parent = headers.get(b"traceparent")
            trace_id = trace_id_of(parent.decode("latin-1") if parent else None) if parent or request.is_traced else ""
            answer = await service.infer(name, version, request, trace_id=trace_id, gone=lambda: _gone(receive))
            pieces, head = write_answer(answer, service.regions)
            is_begun = True
            await self._send(send, pieces, head, trace_id)
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
        if self.service.is_leaving or self.service.repository.is_draining:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if size < LARGE:
            await send({"type": "http.response.body", "body": b"".join(pieces)})
            return
        async with asyncio.timeout(self.service.settings.timeout):
            for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


def _is_same_site(origin: bytes, host: bytes) -> bool:
    return urlsplit(origin.decode("latin-1")).netloc.encode("latin-1") == host


async def _as_json(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, dict(error.headers or {}))
    found = as_request_error(error)
    return JSONResponse({"error": str(found)}, found.status)


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
    if error.status in (401, 403, 408, 413, 499):  # the body was not read to its end
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
