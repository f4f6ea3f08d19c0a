"""`simplify`: a model through the passes and back to its own operator set."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnx import ModelProto

from intaglio.emit.onnx.older import OLDEST, is_written, make_older
from intaglio.errors import InputError
from intaglio.ir.graph import Graph, Node, Value
from intaglio.onnx.reader import ModelInfo, parse_model, read_model
from intaglio.passes.constants import Budget
from intaglio.passes.pipeline import FOR_FILES, Pass, Report
from intaglio.passes.pipeline import simplify as run_passes
from intaglio.runtime.model.sources import as_source
from intaglio.tools.simplifying.counts import Counts, counts_of_graph, counts_of_message
from intaglio.tools.simplifying.sizes import set_sizes
from intaglio.tools.simplifying.written import Written, written

LARGE = 1 << 40
"""Bytes of a folded constant that are never reached: by default all constants are folded."""
SECONDS = 120.0
"""Seconds that folding the constants of a model may take, as estimated."""


@dataclass
class Simplified:
    """A simplified model, and what was done to it."""

    written: Written
    report: Report
    before: Counts
    after: Counts
    notes: list[str] = field(default_factory=list[str])

    def message(self) -> ModelProto:
        """The model as an ONNX message; raises LimitError where its weights do not fit into one."""
        return self.written.message()

    def save(self, path: str | os.PathLike[str], *, external_data: bool | int | None = None) -> list[Path]:
        """Write the model; returns the files that were written.

        `external_data` is what `intaglio.emit.export` takes; weights that were in other files are so again.
        """
        return self.written.save(path, external_data)


def passes() -> tuple[Pass, ...]:
    """The passes that `simplify` runs, in order, each with the reason for its place."""
    return FOR_FILES


def simplify(
    model: Any,
    *,
    disable: Collection[str] = (),
    only: Collection[str] = (),
    exact: bool = False,
    keep: Collection[str] = (),
    outputs: Sequence[str] = (),
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    largest: int | None = None,
    base_folder: str | os.PathLike[str] | None = None,
) -> Simplified:
    """Make a model smaller; it computes the same, in the operator set of its file, and in standard operators.

    `disable` leaves out passes by name, `only` runs no others. `exact` leaves out rules that can change rounding.
    `keep` names values that must stay, `outputs` the values that the new model returns instead of its own. `dims`
    gives numbers to sizes that have names, `shapes` other sizes to inputs. Constants of more than `largest` bytes are
    not folded. Names of inputs, outputs, sizes and surviving weights stay, and so does metadata; functions are inlined.

    Raises InputError for a name that is not there, and UnsupportedError where an operator is not known.
    """
    source = as_source(model)
    message, _, cut = parse_model(source)
    imported = read_model(source, base_folder=base_folder)
    graph, notes = imported.graph, list(imported.info.warnings)
    others = sum(map(len, cut.values())) + sum(path.stat().st_size for path in imported.external_files)
    before = counts_of_message(message, graph, others)
    opset = _opset(imported.info, notes)
    given = [value.name for value in graph.inputs]
    graph = set_sizes(graph, dims or {}, shapes or {})
    if outputs:
        graph.set_outputs([_find(graph, name) for name in outputs])
    report = _run(graph, opset, imported.info, keep, chosen_passes(disable, only), exact, largest)
    has_new_sizes = bool(dims or shapes or outputs) or [value.name for value in graph.inputs] != given
    result = written(graph, imported.info, None if has_new_sizes else message, opset, bool(imported.external_files))
    return Simplified(result, report, before, counts_of_graph(graph, result), notes)


def chosen_passes(disable: Collection[str], only: Collection[str]) -> tuple[Pass, ...]:
    """The passes that are left; raises InputError for a name that none has."""
    known = [each.name for each in FOR_FILES]
    for name in (*disable, *only):
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"the passes are {', '.join(known)}"
            raise InputError(f"there is no pass {name!r}; {hint}")
    return tuple(each for each in FOR_FILES if each.name not in disable and (not only or each.name in only))


def _opset(info: ModelInfo, notes: list[str]) -> int:
    """The version to write: that of the file, or the oldest that can be written."""
    opset = info.opset_imports.get("", OLDEST)
    if opset < OLDEST:
        notes.append(f"the model has operator set {opset}; it is written at {OLDEST}, the oldest that is written")
    return max(opset, OLDEST)


def _run(
    graph: Graph,
    opset: int,
    info: ModelInfo,
    keep: Collection[str],
    pipeline: Sequence[Pass],
    exact: bool,
    largest: int | None,
) -> Report:
    """Simplify a graph until all that is left can be said in an operator set."""
    domains = {domain for domain in info.opset_imports if domain != "intaglio"} | {""}

    def allows(node: Node) -> bool:
        return node.op.domain in domains and is_written(node, opset)

    kept = [value for value in (_find(graph, name) for name in keep) if value.producer is not None]
    outputs = len(graph.outputs)
    graph.set_outputs(dict.fromkeys([*graph.outputs, *kept]) if not _repeats(graph.outputs) else graph.outputs)
    limit = LARGE if largest is None else largest
    budget = Budget(SECONDS, grown=limit, largest=limit, repeats=True)
    stays = {value.producer for value in kept}
    options: dict[str, Any] = {"exact": exact, "pipeline": pipeline, "allows": allows, "budget": budget}
    report = run_passes(graph, stays=lambda node: node in stays, **options)
    is_sayable = all(map(allows, graph.all_nodes()))
    make_older(graph, opset)
    if not is_sayable:
        again = run_passes(graph, stays=lambda node: node in stays, **options)
        for name, events in again.applied.items():
            report.applied.setdefault(name, []).extend(events)
    graph.set_outputs(graph.outputs[:outputs])
    return report


def _repeats(values: Sequence[Value]) -> bool:
    return len(set(values)) < len(values)


def _find(graph: Graph, name: str) -> Value:
    """The value of a name; raises InputError where there is none."""
    values = {value.name: value for value in graph.values()}
    if name in values:
        return values[name]
    near = difflib.get_close_matches(name, list(values), 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InputError(f"the model has no value {name!r}{hint}")
