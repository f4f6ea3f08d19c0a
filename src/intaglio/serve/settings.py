"""How a server is set up."""

from __future__ import annotations

from dataclasses import dataclass

from intaglio.ir.limits import Limits


@dataclass(frozen=True)
class Settings:
    """How models are loaded, and what requests may cost. Sizes are bytes, times are seconds."""

    exact: bool = False
    """No batches, and models without the passes that can change rounding."""
    allow_code: bool = False
    """Whether files of a folder are loaded that are code: Python, exported programs, compiled models."""
    allow_control: bool = True
    """Whether clients may load and unload models."""
    threads: int | None = None
    """Most threads of one run; None is all cores."""
    limits: Limits | None = None
    """What loading and running a model may cost."""
    max_body: int = 256 << 20
    """The body of one request."""
    max_json: int = 16 << 20
    """The JSON of one request."""
    max_memory: int = 1 << 30
    """All bodies that are in the server at one time, with what parsing them takes."""
    max_queue: int = 256
    """Requests that wait for one model."""
    max_batch: int = 64
    """Rows that are run together; 1 is no batches."""
    timeout: float = 60.0
    """From the arrival of a request to its answer."""
    io_timeout: float = 30.0
    """How long a client may keep the server waiting."""
    api_keys: tuple[str, ...] = ()
    """Keys of which a client must give one; none where there are none."""
    shared_memory: bool = False
    """Whether clients may name shared memory of this machine."""
    shared_weights: bool = False
    """Whether weights stay in mapped files, which several processes share."""


@dataclass(frozen=True)
class Listen:
    """Where a server listens and how it ends. Times are seconds."""

    host: str = "127.0.0.1"
    port: int = 8000
    """The port of HTTP; 0 is any free one."""
    grpc_port: int | None = None
    """The port of gRPC; 0 is any free one, None is no gRPC."""
    certificate: str | None = None
    """A file in PEM with the certificate; with it, all connections are encrypted."""
    certificate_key: str | None = None
    """A file in PEM with the key of the certificate."""
    drain: float = 0.0
    """After SIGTERM, how long requests are still taken while readiness says no."""
    reload: float | None = None
    """How often files are looked at for changes; None is never."""
    max_connections: int = 4096
    """Connections by HTTP of one process; further ones are refused with 503."""
    workers: int = 1
    """Processes that answer; with several, a supervisor starts another one where one ends."""
