"""What a model says about itself, and a model as it was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from intaglio.record import Record

if TYPE_CHECKING:
    from intaglio.ir.graph import Graph


class ModelInfo(Record):
    """What a model says about itself. `warnings` are contradictions that do not stop it from running."""

    ir_version: int
    opset_imports: Mapping[str, int]
    producer_name: str = ""
    producer_version: str = ""
    domain: str = ""
    model_version: int = 0
    doc: str = ""
    metadata_props: Mapping[str, str] = field(default_factory=dict)
    path: Path | None = None
    warnings: tuple[str, ...] = ()
    newer: tuple[str, ...] = ()
    """Those of the warnings that tell of versions that had to be guessed: they are newer than what is known here, or
    the model imports none. `strict` refuses such a model."""


class Imported(Record):
    """A model as it was read."""

    graph: Graph
    info: ModelInfo
    external_files: tuple[Path, ...] = ()
    """The other files that tensors were read from."""
