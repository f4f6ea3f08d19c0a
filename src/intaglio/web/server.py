"""The process of the page's server: a socket on this machine only, and its end."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import webbrowser
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn

from intaglio.errors import InputError
from intaglio.web.app import make_app, new_token
from intaglio.web.session import Session

HOST = "127.0.0.1"
MOST_CONNECTIONS = 256
KEEP_ALIVE = 75


class _Server(uvicorn.Server):
    """Uvicorn without its signals."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals alone."""
        yield


def serve_page(session: Session, *, port: int = 0, browser: bool = True) -> None:
    """Serve a session's page to this machine until SIGINT or SIGTERM; `port` 0 is any free one.

    The address, with the token that the page needs, is printed, and opened in a browser where that is wished.
    """
    token = new_token()
    session.prepare()
    try:
        made = socket.create_server((HOST, port), backlog=128)
    except OSError as error:
        raise InputError(f"cannot listen on port {port}: {error.strerror}; choose another one with --port") from None
    with made:
        made.setblocking(False)
        address = f"http://{HOST}:{made.getsockname()[1]}/#token={token}"
        config = uvicorn.Config(
            make_app(session, token),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=2,
        )
        try:
            asyncio.run(_run(_Server(config), made, address, browser))
        finally:
            session.close()


async def _run(server: uvicorn.Server, listening: socket.socket, address: str, browser: bool) -> None:
    loop = asyncio.get_running_loop()

    def end() -> None:
        server.force_exit = server.should_exit
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    print(address, flush=True)
    print("Ctrl-C ends the page", file=sys.stderr, flush=True)
    if browser and not await asyncio.to_thread(webbrowser.open, address):
        print("no browser was found: open the address yourself", file=sys.stderr, flush=True)
    await server.serve(sockets=[listening])
