"""What a model computes in between, recorded when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from onnx import TypeProto

from intaglio.ir.types import TensorType
from intaglio.onnx.write_types import type_proto
from intaglio.runtime.model.loading import load
from intaglio.tools.document import Document

KEPT = 1 << 30
"""Arrays of so many bytes in all are kept for later questions."""


class Recorder:
    """Tensors of a model for one set of inputs, as the reference engine computes them without any pass."""

    def __init__(self, document: Document, feeds: Mapping[str, Any]) -> None:
        self.model = load(document.message(), engine="reference", simplify=False, base_folder=document.folder)
        self.feeds = dict(feeds)
        self._kept: dict[str, Any] = {}
        graph = self.model.graph
        self._types = {value.name: value.type for value in (*graph.constants(), *graph.values())}

    def get(self, names: Iterable[str]) -> dict[str, Any]:
        """The arrays of these tensors; those that have no name in the graph are left out."""
        wanted = [name for name in names if name in self._types or name in self.feeds]
        found = {name: self.feeds[name] for name in wanted if name in self.feeds}
        found |= {name: self._kept[name] for name in wanted if name in self._kept}
        missing = [name for name in wanted if name not in found]
        if missing:
            fresh = self.model.run(self.feeds, outputs=missing, prune=True)
            found |= fresh
            self._keep(fresh)
        return found

    def _keep(self, fresh: Mapping[str, Any]) -> None:
        held = sum(_bytes(array) for array in self._kept.values())
        for name, array in fresh.items():
            if held + _bytes(array) <= KEPT:
                self._kept[name] = array
                held += _bytes(array)

    def type_of(self, name: str) -> TypeProto | None:
        """The type of a tensor with the sizes that it has in this run; None where it is no tensor or not known."""
        type = self._types.get(name)
        if type is None or not isinstance(type, TensorType):
            return None if type is None else type_proto(type)
        if type.is_static:
            return type_proto(type)
        return None


def _bytes(array: Any) -> int:
    return array.nbytes if isinstance(array, np.ndarray) else 64
