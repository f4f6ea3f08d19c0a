"""Runs of an opened model, whose rows are compared with those of the original one by one."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from intaglio.errors import InputError
from intaglio.tools.samples import Difference, differences, make_feeds, runner, worst

if TYPE_CHECKING:
    from intaglio.tools.dynamic.make_dynamic import Dynamic

TOLERANCE = 1e-4
"""How far a row may be from what the original gives for it, by the largest value of the output."""


@dataclass
class Proof:
    """A run of the opened model: with how many rows, and how far its outputs were from those of the original."""

    size: int
    differences: list[Difference]


def prove(model: Any, found: Dynamic, sizes: Sequence[int], seed: int) -> list[Proof]:
    """Run a model at several sizes; raises InputError where a row is not what the original gives for it."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "opened.onnx"
        found.save(target)
        original, opened = (
            runner(model if isinstance(model, (str, Path, bytes)) else model.SerializeToString()),
            runner(target),
        )
        proofs = list[Proof]()
        for size in sizes:
            feeds = make_feeds(found.written.graph, seed, {found.name: size})
            proofs.append(Proof(size, _compare(found, feeds, size, original, opened)))
    _check(proofs)
    return proofs


def _compare(found: Dynamic, feeds: dict[str, Any], size: int, original: Any, opened: Any) -> list[Difference]:
    """The largest difference of each output over all groups of as many rows as the original takes."""
    names = [value.name for value in found.written.graph.outputs]
    results = dict(zip(names, opened(feeds), strict=True))
    per_group = list[list[Difference]]()
    for start in range(0, size, found.size):
        rows = [min(start + place, size - 1) for place in range(found.size)]
        expected = original(_rows_of(feeds, found, rows))
        cut = {name: _cut(results[name], found.outputs.get(name), rows, size) for name in names}
        wanted = [_cut(array, found.outputs.get(name), range(found.size), found.size)
                  for name, array in zip(names, expected, strict=True)]  # fmt: skip
        per_group.append(differences(names, wanted, list(cut.values())))
    return worst(per_group)


def _rows_of(feeds: Mapping[str, Any], found: Dynamic, rows: Sequence[int]) -> dict[str, Any]:
    return {name: np.take(array, rows, found.axis) if name in found.inputs else array for name, array in feeds.items()}


def _cut(array: Any, axis: int | None, rows: Sequence[int], size: int) -> Any:
    """The rows of an output, each of which may be several elements of its axis."""
    if axis is None:
        return array
    share = array.shape[axis] // size
    places = [row * share + offset for row in rows for offset in range(share)]
    return np.take(array, places, axis)


def _check(proofs: Sequence[Proof]) -> None:
    for proof in proofs:
        wrong = [each for each in proof.differences if not each.relative <= TOLERANCE]
        if wrong:
            listed = "; ".join(map(str, wrong))
            raise InputError(f"with {proof.size} rows the opened model answers otherwise than the original: {listed}")
