"""An engine for the outputs that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from intaglio.record import Record

if TYPE_CHECKING:
    from intaglio.ir.graph import Value
    from intaglio.passes import Report
    from intaglio.runtime.engine.engine import Engine
    from intaglio.runtime.engine.outline import Port
    from intaglio.runtime.engine.weights import HeldGraph
    from intaglio.runtime.model.implementations import Choice


class Variant(Record):
    """An engine for one choice of outputs and fed inputs; `held` is its graph, unless it came from a stored plan."""

    engine: Engine
    inputs: Sequence[Value | Port]
    names: list[str]
    held: HeldGraph | None = None
    report: Report | None = None
    choices: tuple[Choice, ...] = ()
