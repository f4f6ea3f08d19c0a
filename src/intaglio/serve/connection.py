"""One connection of HTTP, with limits that uvicorn's own protocol lacks: on headers, slow clients and connections."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEADERS = 1 << 16
"""Bytes of the request line and headers of one request."""


class Connection(HttpToolsProtocol):
    """A connection whose client must send headers, and take answers, in time and within limits."""

    wait_seconds: float = 30.0
    most_connections: int = 4096

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._is_in_head = True
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Take a connection, or refuse it where there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            self._refuse(b"503 Service Unavailable", b"there are too many connections")
            return
        self._head_timer = self.loop.call_later(self.wait_seconds, self._end_slow_head)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything."""
        self._stop_head_timer()
        self.resume_writing()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        """Parse bytes; ends the connection where headers go on for too long."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if not self._is_in_head:
            return
        self._head_bytes += len(data)
        if self._head_bytes > MOST_HEADERS:
            self._refuse(b"431 Request Header Fields Too Large", b"the headers are too long")
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(self.wait_seconds, self._end_slow_head)

    def on_message_begin(self) -> None:
        """Headers begin."""
        super().on_message_begin()
        self._is_in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """Headers are over, and the application is called."""
        self._is_in_head = False
        self._stop_head_timer()
        super().on_headers_complete()

    def pause_writing(self) -> None:
        """The client takes its answer more slowly than we write it; it has some time."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.wait_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client took what was written."""
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        super().resume_writing()

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _end_slow_head(self) -> None:
        self._refuse(b"408 Request Timeout", b"the headers did not come in time")

    def _refuse(self, status: bytes, why: bytes) -> None:
        """Write an answer and end the connection, at the latest after some time."""
        body = b'{"error":"%s"}' % why
        head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        if not self.transport.is_closing():
            self.transport.write(head % (status, len(body)) + body)
            self.transport.close()


def limited(wait_seconds: float, most_connections: int) -> type[Connection]:
    """The class of connections with these limits, for uvicorn."""
    fields = {"wait_seconds": wait_seconds, "most_connections": most_connections}
    return type("LimitedConnection", (Connection,), fields)
