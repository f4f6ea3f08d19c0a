"""Candidates: each is tried once, and counted, until time is up."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto

from intaglio.onnx.reader import check_model
from intaglio.tools.reducing.checks import Check

Progress = Callable[[str, int, int], None]
"""Is told what is tried, how many candidates were, and of how many nodes the smallest one is."""


class TimeUpError(Exception):
    """The time for reducing is over."""


@dataclass
class Draft:
    """A model that fails, and its inputs."""

    model: ModelProto
    feeds: dict[str, Any]

    @property
    def nodes(self) -> int:
        """How many nodes it has, those of bodies included."""
        return count_nodes(self.model.graph)


def count_nodes(graph: Any) -> int:
    """The nodes of a graph and of the graphs in its nodes."""
    count = len(graph.node)
    for node in graph.node:
        for attribute in node.attribute:
            bodies = [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]
            count += sum(count_nodes(body) for body in bodies)
    return count


class Attempts:
    """Asks whether candidates fail as the whole model does."""

    def __init__(self, check: Check, time_limit: float | None, progress: Progress | None) -> None:
        self.check = check
        self.end = None if time_limit is None else time.monotonic() + time_limit
        self.tell: Progress = progress or (lambda what, done, nodes: None)
        self.tried: dict[bytes, bool] = {}
        self.expected = "fails"
        self.is_validated = True
        self.best: Draft | None = None

    def begin(self, draft: Draft) -> bool:
        """Whether the whole model fails; how it does is what all candidates must do."""
        self.expected = self.check(draft.model, draft.feeds)
        self.is_validated = not check_model(draft.model)
        self.best = draft
        return bool(self.expected)

    def fails(self, draft: Draft, what: str) -> bool:
        """Whether a candidate fails in the same way; a smaller one that does is kept."""
        key = _digest(draft.model, draft.feeds)
        if key not in self.tried:
            if self.end is not None and time.monotonic() > self.end:
                raise TimeUpError
            self.tell(what, len(self.tried), 0 if self.best is None else self.best.nodes)
            is_sound = not self.is_validated or not check_model(draft.model)
            self.tried[key] = is_sound and self.check(draft.model, draft.feeds) == self.expected
        if self.tried[key]:
            self.best = draft
        return self.tried[key]


def _digest(model: ModelProto, feeds: Mapping[str, Any]) -> bytes:
    found = hashlib.sha256(model.SerializeToString(deterministic=True))
    for name in sorted(feeds):
        array = feeds[name]
        found.update(name.encode())
        if isinstance(array, np.ndarray) and array.dtype != object:
            found.update(f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        else:
            found.update(repr(array).encode())
    return found.digest()
