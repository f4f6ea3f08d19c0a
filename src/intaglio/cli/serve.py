"""`intaglio serve`: models behind a port."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Annotated

from intaglio.cli.options import Argument, Option
from intaglio.cli.session import LoopLimit, MemoryLimit, NodeLimit, make_limits
from intaglio.cli.terminal import ThreadsOption
from intaglio.errors import InputError
from intaglio.ir.limits import parse_bytes

KEY_VARIABLE = "INTAGLIO_KEY"
"""The environment variable that may hold a key."""


def serve_models(
    source: Annotated[
        str, Argument("MODEL|FOLDER", "A model, or a folder with NAME.onnx and NAME/VERSION/model.onnx.")
    ],
    host: Annotated[str, Option("--host", metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option("--port", least=0, help="The port of HTTP; 0 is any free one.")] = 8000,
    grpc_port: Annotated[
        int | None, Option("--grpc-port", least=0, help="The port of gRPC; 0 is any free one. Without it: HTTP alone.")
    ] = None,
    exact: Annotated[
        bool, Option("--exact", help="No batches, and no passes that can change rounding: the same bits for all.")
    ] = False,
    max_batch: Annotated[int, Option("--max-batch", least=1, help="Most rows that are run together.")] = 64,
    max_queue: Annotated[int, Option("--max-queue", least=1, help="Most requests that wait for one model.")] = 256,
    timeout: Annotated[float, Option("--timeout", least=0.001, help="Seconds until a request is given up.")] = 60.0,
    io_timeout: Annotated[
        float, Option("--client-timeout", least=0.001, help="Seconds that a slow client may keep the server waiting.")
    ] = 30.0,
    max_body: Annotated[
        int, Option("--max-body", metavar="BYTES", parse=parse_bytes, help="Largest body of a request, such as 64M.")
    ] = 256 << 20,
    max_memory: Annotated[
        int, Option("--max-bodies", metavar="BYTES", parse=parse_bytes, help="Memory of all bodies at one time.")
    ] = 1 << 30,
    max_connections: Annotated[int, Option("--max-connections", least=1, help="Most connections by HTTP.")] = 4096,
    workers: Annotated[
        int, Option("--workers", least=1, help="Processes that answer; they share the weights and the processors.")
    ] = 1,
    memory: MemoryLimit = None,
    rounds: LoopLimit = None,
    nodes: NodeLimit = None,
    threads: ThreadsOption = None,
    reload: Annotated[
        float | None, Option("--reload", least=0.05, help="Look for changed files every so many seconds.")
    ] = None,
    drain: Annotated[
        float, Option("--drain", least=0, help="After SIGTERM, seconds of answering while readiness says no.")
    ] = 0.0,
    api_keys: Annotated[
        str | None,
        Option("--api-keys", metavar="FILE", help=f"Keys of clients, one on each line; also ${KEY_VARIABLE}."),
    ] = None,
    certificate: Annotated[
        str | None, Option("--certificate", metavar="FILE", help="TLS: a certificate in PEM.")
    ] = None,
    certificate_key: Annotated[
        str | None, Option("--certificate-key", metavar="FILE", help="TLS: the key of the certificate in PEM.")
    ] = None,
    allow_python: Annotated[
        bool, Option("--allow-python", help="Load what is code in a folder: .py, .pt2 and compiled models.")
    ] = False,
    control: Annotated[bool, Option("--control/--no-control", help="Let clients load and unload models.")] = True,
    shared_memory: Annotated[
        bool, Option("--shared-memory", help="Let clients of this machine pass tensors in shared memory.")
    ] = False,
) -> None:
    """Serve models by the Open Inference Protocol, which the clients of Triton, KServe and MLServer speak.

    Needs: pip install 'intaglio[serve]'. Rows of several requests run together where the graph proves that rows do not
    mix. Ctrl-C ends the server when what is under way is answered; a second one ends it at once.
    """
    from intaglio.serve import Listen, Settings, serve

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    if (certificate is None) != (certificate_key is None):
        raise InputError("TLS needs both --certificate and --certificate-key")
    settings = Settings(
        exact=exact,
        allow_code=allow_python,
        allow_control=control,
        threads=threads,
        limits=make_limits(memory, None, rounds, nodes),
        max_body=max_body,
        max_memory=max_memory,
        max_queue=max_queue,
        max_batch=max_batch,
        timeout=timeout,
        io_timeout=io_timeout,
        api_keys=read_keys(api_keys),
        shared_memory=shared_memory,
    )
    listen = Listen(
        host=host,
        port=port,
        grpc_port=grpc_port,
        certificate=certificate,
        certificate_key=certificate_key,
        drain=drain,
        reload=reload,
        max_connections=max_connections,
        workers=workers,
    )
    serve(source, settings, listen)


def read_keys(path: str | None) -> tuple[str, ...]:
    """The keys of a file and of the environment; raises InputError where the file has none."""
    found = [os.environ[KEY_VARIABLE]] if os.environ.get(KEY_VARIABLE) else []
    if path is not None:
        try:
            lines = [line.strip() for line in Path(path).read_text("utf-8").splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"the keys {path!r} cannot be read: {error}") from None
        keys = [line for line in lines if line and not line.startswith("#")]
        if not keys:
            raise InputError(f"there is no key in {path!r}; expected one on each line")
        found += keys
    return tuple(found)
