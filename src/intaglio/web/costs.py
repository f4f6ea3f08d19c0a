"""Numbers by node: what nodes cost, and where the time of runs goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from intaglio.runtime.model.model import Model
from intaglio.tools.document import Document
from intaglio.tools.drawing.picture import is_constant
from intaglio.tools.profiling import Profile
from intaglio.tools.statistics import Statistics, stats
from intaglio.web.paths import NodePaths

Json = dict[str, Any]


def cost_rows(document: Document, dims: Mapping[str, int]) -> Json:
    """Multiplications, parameters and bytes by node, and in all; raises IntaglioError where a model cannot be read."""
    return statistics_json(document, stats(document.message(), dims=dims, base_folder=document.folder))


def statistics_json(document: Document, found: Statistics) -> Json:
    """Statistics with the numbers of nodes in place of their paths."""
    paths = NodePaths(document)
    rows: list[Json] = []
    for row in found.nodes:
        for number in paths.numbers(row.name)[:1]:
            rows.append({"id": number, "macs": row.macs, "flops": row.flops, "parameters": row.parameters,
                         "bytes": row.activation_bytes, "weight_bytes": row.weight_bytes})  # fmt: skip
    total = found.total
    return {
        "dims": found.sizes,
        "rows": _added(rows),
        "total": {
            "macs": total.macs, "flops": total.flops, "parameters": total.parameters, "bytes": total.activation_bytes,
            "weight_bytes": total.weight_bytes, "peak_bytes": found.peak_bytes, "formula": found.macs_formula,
        },
        "notes": found.notes,
    }  # fmt: skip


def _added(rows: list[Json]) -> list[Json]:
    """One row for each node: what stands in a function counts for its call."""
    found: dict[int, Json] = {}
    for row in rows:
        known = found.setdefault(row["id"], dict.fromkeys(row, 0) | {"id": row["id"]})
        known |= {name: known[name] + number for name, number in row.items() if name != "id"}
    return list(found.values())


def profile_json(document: Document, model: Model, found: Profile) -> Json:
    """A profile of a loaded model in the order of the plan; each row has the nodes that it serves, and its share.

    A node that simplification put into another one, as a normalisation into a product, is served where that is.
    """
    paths, whole = NodePaths(document), found.seconds or 1.0
    left = {number for node in model.simplified.nodes for number in paths.numbers(node.origin.path)}
    folded = _folded(document, left)
    rows: list[Json] = [
        {
            "id": [each for number in paths.described(row.nodes) for each in (number, *folded.get(number, ()))],
            "name": row.title[:400],
            "kind": row.kind,
            "kernel": row.kernel,
            "us": row.seconds * 1e6,
            "calls": row.calls,
            "share": row.seconds / whole,
            "flops": row.flops,
            "bytes": row.bytes,
            "limit": row.efficiency,
            "live": row.live,
        }
        for row in found.rows
    ]
    return {
        "rows": rows,
        "total_us": found.seconds * 1e6,
        "target": found.target,
        "threads": found.threads,
        "inputs": dict(found.inputs),
        "summary": found.summary(),
    }


def _folded(document: Document, left: set[int]) -> dict[int, list[int]]:
    """The nodes of which nothing is left, by the node that stands for them: the first one behind them that is left."""
    readers: dict[str, list[int]] = {}
    for node in document.graph.nodes:
        for name in node.shell.input:
            readers.setdefault(name, []).append(node.number)
    heir: dict[int, int] = {number: number for number in left}
    found: dict[int, list[int]] = {}
    for node in reversed(document.graph.nodes):
        is_left = node.number in left or is_constant(node)
        after = [] if is_left else [each for name in node.shell.output for each in readers.get(name, ())]
        heirs = [heir[each] for each in after if each in heir]
        if heirs:
            heir[node.number] = heirs[0]
            found.setdefault(heirs[0], []).append(node.number)
    return found
