"""The process of a server: sockets, signals, loading, draining."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import signal
import socket
import ssl
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import uvicorn
import uvloop

from intaglio.errors import InputError
from intaglio.serve import require_extra
from intaglio.serve.connection import limited
from intaglio.serve.http import HttpApp
from intaglio.serve.repository import Repository
from intaglio.serve.service import Service
from intaglio.serve.settings import Listen, Settings

if TYPE_CHECKING:
    from intaglio.serve.grpc import GrpcServer

LOG = logging.getLogger("intaglio.serve")

BACKLOG = 2048
"""Connections that the system keeps until we take them."""
KEEP_ALIVE = 75
"""Seconds for which an idle connection is kept."""


def run_server(source: str | os.PathLike[str] | Mapping[str, Any], settings: Settings, listen: Listen) -> None:
    """Answer requests until a signal; see `intaglio.serve.serve`."""
    if settings.allow_control and not settings.api_keys and not is_loopback(listen.host):
        LOG.warning("clients may not load and unload models: others than this machine reach the server without a key")
        settings = replace(settings, allow_control=False)
    repository = Repository(source, settings)
    service = Service(repository, settings)
    if not repository.is_folder:
        repository.load_all()
        repository.raise_if_empty()
    with bound(listen.host, listen.port) as http:
        try:
            if listen.grpc_port is not None:
                require_extra("grpc")
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(Process(service, listen, http).run())
        finally:
            repository.close()


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host's address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextmanager
def bound(host: str, port: int) -> Generator[socket.socket]:
    """A socket that listens; raises InputError where that is not possible."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise InputError(
            f"cannot listen on port {port} of {host}: {error.strerror}; choose another one with --port"
        ) from None
    with found:
        found.setblocking(False)
        yield found


class HttpServer(uvicorn.Server):
    """Uvicorn without its signals, which `Process` handles."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals alone."""
        yield


class Process:
    """The tasks of one server."""

    def __init__(self, service: Service, listen: Listen, http: socket.socket) -> None:
        self._service, self._listen, self._http = service, listen, http
        self._server = HttpServer(self._config())
        self._signals = 0

    def _config(self) -> uvicorn.Config:
        listen, settings = self._listen, self._service.settings
        config = uvicorn.Config(
            HttpApp(self._service),
            http=limited(settings.io_timeout, listen.max_connections),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=max(1, round(settings.timeout)),
            ssl_certfile=listen.certificate,
            ssl_keyfile=listen.certificate_key,
        )
        try:
            config.load()
        except (OSError, ssl.SSLError) as error:
            raise InputError(f"the certificate {listen.certificate!r} cannot be used: {error}") from None
        return config

    async def run(self) -> None:
        """Serve until a signal has come and what was under way is answered."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._end, number)
        rpc = await self._start_grpc()
        scheme = "https" if self._listen.certificate else "http"
        host, port = self._http.getsockname()[:2]
        announce(f"listening on {scheme}://{f'[{host}]' if ':' in host else host}:{port}")
        side = asyncio.create_task(self._models())
        try:
            await self._server.serve(sockets=[self._http])
        finally:
            side.cancel()
            if rpc is not None:
                await rpc.stop(0 if self._server.force_exit else self._service.settings.timeout)

    async def _start_grpc(self) -> GrpcServer | None:
        if self._listen.grpc_port is None:
            return None
        from intaglio.serve.grpc import GrpcServer

        found = GrpcServer(self._service, self._listen)
        await found.start()
        host = self._listen.host
        announce(f"listening on grpc://{f'[{host}]' if ':' in host else host}:{found.port}")
        return found

    async def _models(self) -> None:
        """Load models, and load them again when their files change."""
        repository = self._service.repository
        if repository.is_folder:
            await asyncio.to_thread(repository.load_all)
        while self._listen.reload is not None:
            await asyncio.sleep(self._listen.reload)
            if not repository.is_draining:
                await asyncio.to_thread(repository.refresh)

    def _end(self, number: int) -> None:
        """Say that the server is not ready, then take no connections any more; a second signal ends it at once."""
        self._signals += 1
        self._service.repository.is_draining = True
        if self._signals > 1:
            self._server.should_exit = self._server.force_exit = True
            return
        wait = self._listen.drain if number == signal.SIGTERM else 0.0
        announce(f"draining: {self._service.in_flight} requests are under way")
        asyncio.get_running_loop().call_later(wait, self._stop)

    def _stop(self) -> None:
        self._server.should_exit = True


def announce(text: str) -> None:
    """Print a line for people on standard error."""
    print(text, file=sys.stderr, flush=True)
