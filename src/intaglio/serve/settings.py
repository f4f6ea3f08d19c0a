"""What a server is told when it starts."""

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
    threads: int | None = None
    limits: Limits | None = None
    max_body: int = 256 << 20
    max_json: int = 16 << 20
    max_memory: int = 1 << 30
    """All bodies that are in the server at one time."""
    max_queue: int = 256
    """Requests that wait for one model."""
    max_batch: int = 64
    """Rows that are run together; 1 is no batches."""
    timeout: float = 60.0
    """From the arrival of a request to its answer."""
    io_timeout: float = 30.0
    """For the body of a request to come, and for an answer to be taken."""
    api_key: str | None = None
    shared_memory: bool = False
