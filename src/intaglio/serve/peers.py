"""What a worker has to do with its supervisor and the other workers: messages over a pipe."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

from intaglio.serve.messages import RequestError

Say = Callable[[str], dict[str, Any]]
"""What this worker knows: of "statistics", or of "trace ID"."""
End = Callable[[Mapping[str, Any]], None]
"""Ends this worker: at once, after a while, or when its clients have left."""

CONTROL_SECONDS = 600.0


class Peers:
    """The other processes of a server, as one worker sees them."""

    def __init__(self, channel: Connection) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0

    def start(self, say: Say, end: End) -> None:
        """Listen to the supervisor, from a running loop on; an end of the supervisor ends this worker too."""
        self._loop, self._say, self._end = asyncio.get_running_loop(), say, end
        threading.Thread(target=self._listen, name="supervisor", daemon=True).start()

    def ready(self) -> None:
        """Say that this worker answers requests."""
        self._send({"kind": "ready"})

    def left(self) -> None:
        """Say that this worker takes no connections any more."""
        self._send({"kind": "left"})

    async def control(self, what: str, model: str) -> None:
        """Load or unload a model in all workers; raises RequestError where that fails."""
        found = await self._asked({"kind": "control", "what": what, "model": model}, CONTROL_SECONDS)
        if "error" in found:
            raise RequestError(found["error"], found["status"])

    async def gather(self, what: str) -> list[dict[str, Any]]:
        """What all others know, those that have ended too."""
        return (await self._asked({"kind": "ask", "what": what}, 10.0))["found"]

    async def _asked(self, message: dict[str, Any], seconds: float) -> dict[str, Any]:
        self._number += 1
        number = self._number
        self._answers[number] = future = asyncio.get_running_loop().create_future()
        try:
            self._send(message | {"number": number})
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            raise RequestError("the other processes of the server did not answer in time", 503, retry_after=1) from None
        finally:
            del self._answers[number]

    def _send(self, message: Mapping[str, Any]) -> None:
        with self._lock:
            self._channel.send(message)

    def _listen(self) -> None:
        message: dict[str, Any] = {}
        while message.get("kind") != "lost":
            try:
                message = self._channel.recv()
            except (EOFError, OSError):
                message = {"kind": "lost"}
            try:
                self._loop.call_soon_threadsafe(self._hear, message)
            except RuntimeError:  # the loop is over
                return

    def _hear(self, message: Mapping[str, Any]) -> None:
        kind = message["kind"]
        if kind == "answer":
            future = self._answers.get(message["number"])
            if future is not None and not future.done():
                future.set_result(dict(message))
        elif kind == "say":
            self._send({"kind": "say", "number": message["number"], "said": self._say(message["what"])})
        else:
            self._end({"drain": 0.0, "now": False, **message})

    def close(self, last: Mapping[str, Any]) -> None:
        """Leave what this worker knows to the supervisor."""
        try:
            self._send({"kind": "say", "number": 0, "said": last})
        except OSError:
            return
