"""Bodies of HTTP requests on their way in, within limits that hold before memory is taken."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, cast

import numpy as np

from intaglio.serve.messages import RequestError
from intaglio.serve.service import Service

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

SLOWEST = 1 << 20
"""Bytes a second that a client must send of a large body."""
JSON_COST = 24
"""Most bytes that Python's objects take for one byte of JSON."""


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

    def reserve(self, size: int) -> None:
        """Reserve more memory, which `release` lets go of; raises RequestError where there is none."""
        self._service.reserve(size)
        self._reserved += size

    async def read(self, receive: Receive, limit: int) -> bytes | memoryview:
        """The whole body; raises RequestError where it is too large or too slow."""
        size = self._expected(limit)
        if size is not None:
            self.reserve(size)
        message = await self._next(receive, self._service.settings.io_timeout)
        if not message.get("more_body"):
            body: bytes | memoryview = message.get("body", b"")
            if size is None:
                self.reserve(len(body))
        else:
            try:
                async with asyncio.timeout(self._service.settings.io_timeout + (size or limit) / SLOWEST):
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
        whole = memoryview(cast("Any", np.empty(size, np.uint8))).cast("B")
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
        self.reserve(total)
        while is_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise RequestError("the client left", 499)
            part, is_more = message.get("body", b""), message.get("more_body", False)
            total += len(part)
            if total > limit:
                raise RequestError(f"the body has more than {limit} bytes, which is the limit", 413)
            self.reserve(len(part))
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
        self.reserve(len(found))
        return found
