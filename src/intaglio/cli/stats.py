"""`intaglio stats`: what a model costs."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from intaglio.cli.arguments import parse_dims
from intaglio.cli.options import Option
from intaglio.cli.session import source_of
from intaglio.cli.simplify import DimOption, ShapeOption, parse_shapes
from intaglio.cli.terminal import JsonOption, ModelArgument, print_json, print_pairs, print_table, size, tell

if TYPE_CHECKING:
    from intaglio.tools.statistics import Row, Statistics


class By(StrEnum):
    """What the option `--by` takes."""

    operator = "operator"
    scope = "scope"
    node = "node"
    tensor = "tensor"


def stats_of_model(
    model: ModelArgument,
    dims: DimOption = None,
    shapes: ShapeOption = None,
    by: Annotated[By, Option("--by", help="What each line of the table is of.")] = By.operator,
    depth: Annotated[int, Option("--depth", least=1, help="How many parts of a node's name make a scope.")] = 2,
    top: Annotated[int, Option("--top", least=0, help="Lines of the table; 0 is all.")] = 20,
    as_json: JsonOption = False,
) -> int:
    """Count parameters, multiplications (MACs), operations (FLOPs) and memory of a model, for given sizes.

    Nothing is run. docs/simplifying.md has the rule by which each operator is counted.
    """
    from intaglio.tools.statistics import stats

    found = stats(source_of(model), dims=parse_dims(dims or ()), shapes=parse_shapes(shapes or ()), depth=depth)
    for note in found.notes:
        tell(f"note: {note}")
    if as_json:
        print_json({"model": model, **_as_json(found)})
        return 0
    _show(found, by, top)
    return 0


def _as_json(found: Statistics) -> dict[str, Any]:
    data = asdict(found)
    data["tensors"] = [{"name": n, "type": t, "bytes": b} for n, t, b in found.tensors]
    return {**data, "memory_bytes": found.memory_bytes}


def _show(found: Statistics, by: By, top: int) -> None:
    total = found.total
    print_pairs([
        ("parameters", f"{total.parameters:,} ({size(total.weight_bytes)})"),
        ("MACs", f"{total.macs:,}"),
        *([("", f"= {found.macs_formula}")] if found.sizes else []),
        ("FLOPs", f"{total.flops:,}"),
        ("results", f"{size(total.activation_bytes)} in all, {size(found.peak_bytes)} at one time"),
        ("memory", f"{size(found.memory_bytes)} for weights and what lives at one time"),
        *([("KV cache", f"{size(found.cache_bytes)} after this step")] if found.cache_bytes else []),
    ])  # fmt: skip
    print()
    if by is By.tensor:
        rows = found.tensors[: top or None]
        print_table("Weights", ("name", "type", "#size"), ((name, type, size(count)) for name, type, count in rows))
        return
    groups = {By.operator: found.operators, By.scope: found.scopes, By.node: found.nodes}[by]
    columns = (by.value, "#nodes", "#MACs", "#share", "#FLOPs", "#parameters", "#results")
    print_table(f"By {by.value}", columns, (_cells(row, total) for row in groups[: top or None]))


def _cells(row: Row, total: Row) -> tuple[object, ...]:
    share = f"{row.macs / total.macs:.1%}" if total.macs else ""
    results = size(row.activation_bytes)
    return row.name, row.nodes, f"{row.macs:,}", share, f"{row.flops:,}", f"{row.parameters:,}", results
