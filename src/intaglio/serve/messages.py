"""Requests and answers of the Open Inference Protocol as records, whatever carried them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from intaglio.errors import IntaglioError

DEFAULT_PRIORITY = 8
"""The priority of requests that give none, or 0."""


class RequestError(IntaglioError, ValueError):
    """A request that the server does not answer; `status` is HTTP's number for the reason.

    `retry_after` are the seconds after which the same request may succeed.
    """

    def __init__(self, text: str, status: int = 400, retry_after: int | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.retry_after = retry_after


@dataclass(slots=True)
class OutputRequest:
    """An output that the client asks for, and how it wants its data."""

    name: str
    is_binary: bool = False
    region: RegionSlice | None = None
    """Where in shared memory the data goes; None where the answer carries it."""


@dataclass(slots=True)
class RegionSlice:
    """Some bytes of a registered region of shared memory."""

    region: str
    offset: int
    byte_size: int


@dataclass(slots=True)
class InferRequest:
    """What one inference is asked for, with its arrays by the names of inputs.

    `outputs` is empty where the client wants all of them. `timeout` are the seconds that it waits; 0 is no wish.
    Of requests that wait, the smallest `priority` goes first; 1 is the smallest that clients can give.
    """

    inputs: dict[str, Any]
    outputs: list[OutputRequest] = field(default_factory=list[OutputRequest])
    id: str = ""
    is_binary: bool = False
    """Whether outputs are binary that do not say otherwise."""
    priority: int = DEFAULT_PRIORITY
    timeout: float = 0.0
    is_traced: bool = False


@dataclass(slots=True)
class InferAnswer:
    """The outputs of one inference, in the order in which they are sent."""

    model: str
    version: str
    outputs: list[tuple[OutputRequest, str, Any]]
    """What was asked for, its datatype and its array."""
    id: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
