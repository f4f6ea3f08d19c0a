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
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import uvicorn
import uvloop

from intaglio.errors import InputError
from intaglio.processor import usable_cores
from intaglio.serve import require_extra
from intaglio.serve.connection import limited
from intaglio.serve.http import HttpApp
from intaglio.serve.peers import Peers
from intaglio.serve.repository import Repository
from intaglio.serve.service import Service
from intaglio.serve.settings import Listen, Settings
from intaglio.serve.workers import Supervisor

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
    if listen.workers > 1:
        settings = for_workers(settings, listen)
    repository = Repository(source, settings)
    if listen.workers > 1 or not repository.is_folder:
        repository.load_all()
        repository.raise_if_empty()
    with bound(listen.host, listen.port) as http:
        try:
            if listen.grpc_port is not None:
                require_extra("grpc")
            if listen.workers > 1:
                run_workers(repository, listen, http)
            else:
                run_process(repository, listen, http, None)
        finally:
            repository.close()


def run_process(repository: Repository, listen: Listen, http: socket.socket, peers: Peers | None) -> None:
    """Answer requests in this process until it is to end; with peers, it is one of several."""
    service = Service(repository, repository.settings)
    service.peers = peers
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(Process(service, listen, http).run())
    if peers is not None:
        peers.close(service.said("statistics"))


def for_workers(settings: Settings, listen: Listen) -> Settings:
    """The settings of each of several processes, which share the processors and the weights."""
    if settings.shared_memory:
        raise InputError(
            "several workers cannot share regions of shared memory; leave out --workers or --shared-memory"
        )
    threads = settings.threads or max(1, usable_cores() // listen.workers)
    return replace(settings, threads=threads, shared_weights=True)


def run_workers(repository: Repository, listen: Listen, http: socket.socket) -> None:
    """Answer requests in several processes until a signal."""
    with reserved(listen) as found:
        if found.grpc_port is not None:
            announce(f"listening on grpc://{bracketed(found.host)}:{found.grpc_port}")
        announce_http(listen, http)
        Supervisor(repository, found, http, lambda peers: run_process(repository, found, http, peers)).run()


@contextmanager
def reserved(listen: Listen) -> Generator[Listen]:
    """The same with a number for the port of gRPC, which no other program gets meanwhile."""
    if listen.grpc_port is None:
        yield listen
        return
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            found.bind((listen.host, listen.grpc_port))
        except OSError as error:
            raise InputError(
                f"cannot listen on port {listen.grpc_port} of {listen.host}: {error.strerror}; choose another one with "
                "--grpc-port"
            ) from None
        yield replace(listen, grpc_port=found.getsockname()[1])


def bracketed(host: str) -> str:
    """A host as it stands in an address."""
    return f"[{host}]" if ":" in host else host


def announce_http(listen: Listen, http: socket.socket) -> None:
    """Say where the server listens."""
    host, port = http.getsockname()[:2]
    announce(f"listening on {'https' if listen.certificate else 'http'}://{bracketed(host)}:{port}")


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
        self._peers = service.peers
        self._server = HttpServer(self._config())
        self._rpc: GrpcServer | None = None
        self._leaving: asyncio.Task[None] | None = None
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
        self._watch_signals()
        self._rpc = rpc = await self._start_grpc()
        if self._peers is None:
            announce_http(self._listen, self._http)
        side = asyncio.create_task(self._models() if self._peers is None else self._say_when_ready(self._peers))
        try:
            await self._server.serve(sockets=[self._http])
        finally:
            side.cancel()
            if rpc is not None:
                await rpc.stop(0 if self._server.force_exit else self._service.settings.timeout)

    def _watch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._end, self._listen.drain)
        if self._peers is None:
            loop.add_signal_handler(signal.SIGINT, self._end, 0.0)
        else:
            self._peers.start(self._service.said, self._obey)

    async def _say_when_ready(self, peers: Peers) -> None:
        while not self._server.started:
            await asyncio.sleep(0.001)
        peers.ready()

    def _obey(self, message: Mapping[str, Any]) -> None:
        """Do what the supervisor says."""
        if message["kind"] == "retire":
            self._leave(KEEP_ALIVE)
            asyncio.get_running_loop().call_later(0.01, self._say_left)
            return
        self._end(message["drain"])
        if message["now"]:
            self._server.should_exit = self._server.force_exit = True

    async def _start_grpc(self) -> GrpcServer | None:
        if self._listen.grpc_port is None:
            return None
        from intaglio.serve.grpc import GrpcServer

        found = GrpcServer(self._service, self._listen)
        await found.start()
        if self._peers is None:
            announce(f"listening on grpc://{bracketed(self._listen.host)}:{found.port}")
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

    def _say_left(self) -> None:
        if self._peers is not None:
            self._peers.left()

    def _end(self, drain: float) -> None:
        """Say that the server is not ready, then take no connections any more; a second signal ends it at once."""
        self._signals += 1
        self._service.repository.is_draining = True
        if self._signals > 1:
            self._server.should_exit = self._server.force_exit = True
            return
        announce(f"draining: {self._service.in_flight} requests are under way")
        asyncio.get_running_loop().call_later(drain, self._leave, drain)

    def _leave(self, seconds: float) -> None:
        """Take no connections any more, and end when clients have left those that are there, or after some seconds.

        Each client is asked to leave with its next answer: one that is cut off may have a request on its way.
        """
        if self._service.is_leaving:
            return
        self._service.is_leaving = True
        for server in self._server.servers:
            server.close()
        loop = asyncio.get_running_loop()
        self._leaving = loop.create_task(self._stop_after(time.monotonic() + seconds))

    async def _stop_after(self, end: float) -> None:
        stopped = None if self._rpc is None else asyncio.create_task(self._rpc.stop(self._service.settings.timeout))
        while self._server.server_state.connections and time.monotonic() < end and not self._server.should_exit:
            await asyncio.sleep(0.02)
        if stopped is not None:
            await stopped
        self._server.should_exit = True


def announce(text: str) -> None:
    """Print a line for people on standard error."""
    print(text, file=sys.stderr, flush=True)
