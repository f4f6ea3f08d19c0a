"""Every operator in every version with every type that its schema allows, on both engines.

The reference is judged by others wherever they implement a version and type, see `matrix_judges.opinions`; the native
engine is judged by the reference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from intaglio.errors import IntaglioError
from intaglio.runtime.engine.native import NativeEngine
from intaglio.runtime.model.arrays import order_feeds
from intaglio.runtime.model.batch import compile_together

from .matrix import Cell, Problem, allowed, cells, cells_of, engine_of, numeric_host_nodes, problem_of, versions
from .matrix_judges import (
    differences,
    inference_difference,
    is_finite,
    judge,
    run_reference,
    tolerance,
    type_differences,
)
from .matrix_recipes import RECIPES

KEYS = sorted(versions())
REFUSED = {"Col2Im-18(T=tensor(string))": "strings cannot be summed"}
"""What a schema allows and nobody can compute, and what we say to it."""
AT_ONCE = 12
"""How many operators are compiled together."""
GROUPS = [KEYS[start : start + AT_ONCE] for start in range(0, len(KEYS), AT_ONCE)]


def label(key: tuple[str, str]) -> str:
    return "::".join(part for part in key if part)


def faults(cell: Cell, judges: Counter[str]) -> str:
    """What is wrong with a cell on the reference engine."""
    problem = problem_of(cell)
    ours = run_reference(problem)
    wrong = type_differences(ours, problem.results) or inference_difference(problem_of(cell, constants=True), ours)
    if wrong:
        return wrong
    name, wrong = judge(cell, problem, ours)
    judges[name] += 1
    if name == "nobody" and not all(is_finite(item) for item in ours):
        return f"{ours} is not finite"
    return wrong and f"judged by {name}: {wrong}"


@pytest.mark.parametrize(("domain", "name"), KEYS, ids=[label(key) for key in KEYS])
def test_every_version_and_type(domain: str, name: str, record_property: Callable[[str, Any], None]) -> None:
    wrong, judges, judged = [], Counter[str](), set[int]()
    for cell in cells(domain, name):
        if str(cell) in REFUSED:
            continue
        mine = Counter[str]()
        try:
            fault = faults(cell, mine)
        except IntaglioError as error:
            fault = f"{type(error).__name__}: {error}"
        if fault:
            wrong.append(f"{cell}: {fault}")
        if set(mine) - {"nobody"}:
            judged.add(cell.version)
        judges += mine
    record_property("judges", dict(judges))
    assert not wrong, "\n".join(wrong)
    assert judged == {schema.since_version for schema in versions()[(domain, name)]}, "some version has no judge"


@pytest.mark.parametrize("title", REFUSED)
def test_what_has_no_meaning_is_refused(title: str) -> None:
    (cell,) = (cell for key in KEYS for cell in cells(*key) if str(cell) == title)
    with pytest.raises(IntaglioError, match=REFUSED[title]):
        run_reference(problem_of(cell))


def test_every_operator_has_a_recipe() -> None:
    assert sorted(RECIPES) == KEYS


def test_every_type_of_every_version_is_tried() -> None:
    missed = []
    for key in KEYS:
        for schema in versions()[key]:
            bound = [dict(cell.types) for cell in cells_of(schema)]
            for variable, texts in allowed(schema).items():
                tried = {types[variable] for types in bound}
                missed += [f"{label(key)}-{schema.since_version} {variable} {t}" for t in set(texts) - tried]
                missed += [f"{label(key)}-{schema.since_version} {variable} {t}?" for t in tried - set(texts)]
    assert not missed


def different_problems(keys: list[tuple[str, str]], constants: bool) -> Iterator[tuple[Cell, Problem, NativeEngine]]:
    """The cells of some operators, one of those that become the same graph."""
    seen = set[str]()
    for cell in (cell for key in keys for cell in cells(*key)):
        if str(cell) in REFUSED:
            continue
        problem = problem_of(cell, constants)
        engine = engine_of(problem)
        text = str(engine.graph)
        if text not in seen:
            seen.add(text)
            yield cell, problem, engine


@pytest.mark.slow
@pytest.mark.parametrize("constants", [True, False], ids=["constants", "fed"])
@pytest.mark.parametrize("keys", GROUPS, ids=[label(keys[0]) for keys in GROUPS])
def test_native_agrees(keys: list[tuple[str, str]], constants: bool) -> None:
    """Parameters such as axes and shapes are constants, or inputs like the data; no number is left to the host."""
    chosen = list(different_problems(keys, constants))
    compile_together(engine for _, _, engine in chosen)
    wrong = []
    for cell, problem, engine in chosen:
        wrong += [f"{cell}: {node} on the host: {reason}" for node, reason in numeric_host_nodes(engine)]
        try:
            ours = engine.load().run(order_feeds(engine.graph.inputs, problem.feeds))
            fault = type_differences(ours, problem.results) or differences(
                ours, run_reference(problem), tolerance(cell)
            )
        except IntaglioError as error:
            fault = f"{type(error).__name__}: {error}"
        if fault:
            wrong.append(f"{cell}: {fault}")
    assert not wrong, "\n".join(wrong)
