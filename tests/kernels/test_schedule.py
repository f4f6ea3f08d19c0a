"""Schedules: what they say of kernels, as text and back, and what the checker finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from intaglio.conformance.suite import cases
from intaglio.errors import GraphError
from intaglio.kernels.language_text import parse_kernel
from intaglio.kernels.lower import lower
from intaglio.kernels.schedule import Facts, Pass, Schedule, Step, schedule
from intaglio.kernels.schedule_check import check_schedule
from intaglio.kernels.schedule_text import format_schedule, parse_schedule
from intaglio.onnx.reader import read_model
from intaglio.targets.plain.target_rules import PlainRules

VECTORS, SERIAL = Facts(), Facts(has_vectors=False)

SOFTMAX = parse_kernel("""\
kernel softmax
about ReduceMax, Sub, Exp, ReduceSum, Div
loops n0, m0 reduced
in x0: float32[n0: x0.n0, m0: 1]
out x1: float32[n0: x1.n0, m0: 1]
  v0: f32 = load x0
  v1: f32 = reduce max v0
  v2: f32 = exp(sub(v0, v1))
  v3: f32 = reduce sum v2
  v4: f32 = div(v2, v3)
  store x1, v4
""")

COLUMNS = parse_kernel("""\
kernel columns
about ReduceSum, Neg
loops n0, m0 reduced
in x0: float32[n0: 1, m0: x0.m0]
out x1: float32[n0: 1, m0: 0]
  v0: f32 = load x0
  v1: f32 = reduce sum v0
  v2: f32 = neg(v1)
  store x1, v2
""")

ADDED = parse_kernel("""\
kernel add
about Add
loops n0, n1
in x0: float32[n0: x0.n0, n1: 1]
in x1: float32[n0: x1.n0, n1: 0]
out x2: float32[n0: x2.n0, n1: 1]
  v0: f32 = load x0
  v1: f32 = load x1
  store x2, add(v0, v1)
""")

SOFTMAX_IN_VECTORS = """\
rows
tasks n0
lanes m0
pass in 4 {
    load v0
    add v1
}
finish v1
pass {
    load v0
    compute v2
    add v3
    keep v2
}
finish v3
pass {
    reload v2
    compute v4
    store x1
}"""

SOFTMAX_IN_SERIES = """\
rows
tasks n0
walk m0
pass {
    load v0
    add v1
}
finish v1
pass {
    load v0
    compute v2
    add v3
}
finish v3
pass {
    load v0
    compute v2
    compute v4
    store x1
}"""

COLUMNS_IN_VECTORS = """\
columns
walk m0 in runs of 256
lanes n0 in strips of 128
pass {
    load v0
    add v1
}
finish v1
compute v2
store x1"""

ADDED_IN_VECTORS = """\
elements
tasks n0
lanes n1 in strips of 16384
load v1
pass {
    load v0
    store x2
}"""


@pytest.mark.parametrize(
    ("kernel", "facts", "text"),
    [
        (SOFTMAX, VECTORS, SOFTMAX_IN_VECTORS),
        (SOFTMAX, SERIAL, SOFTMAX_IN_SERIES),
        (COLUMNS, VECTORS, COLUMNS_IN_VECTORS),
        (ADDED, VECTORS, ADDED_IN_VECTORS),
    ],
)
def test_what_a_schedule_says(kernel: object, facts: Facts, text: str) -> None:
    assert format_schedule(schedule(kernel, facts)) == text  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(cases())[::97])
def test_schedules_of_the_suite_hold_and_come_back_from_text(name: str) -> None:
    plan = lower(read_model(cases()[name].model()).graph, PlainRules())
    for kernel in (each.loops for each in plan.kernels if each.loops is not None):
        for facts in (VECTORS, SERIAL):
            found = schedule(kernel, facts)
            check_schedule(kernel, found)
            assert parse_schedule(format_schedule(found)) == found


def _with_steps(place: int, change: Callable[[list[Step]], object]) -> Callable[[Schedule], Schedule]:
    """A schedule whose pass at a place in the body is changed."""

    def changed(found: Schedule) -> Schedule:
        old = found.body[place]
        assert isinstance(old, Pass)
        steps = list(old.steps)
        change(steps)
        return replace(found, body=(*found.body[:place], Pass(tuple(steps), old.parts), *found.body[place + 1 :]))

    return changed


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda found: replace(found, tasks=()), "leaves out the loop n0"),
        (lambda found: replace(found, tasks=("n0", "n7")), "has no loop n7"),
        (lambda found: replace(found, walk=("m0",)), "runs the loop m0 more than once"),
        (lambda found: replace(found, tasks=("n0", "m0"), lanes=None), "tasks share the reduced loop m0"),
        (lambda found: replace(found, strip=0), "a strip has 0 steps"),
        (lambda found: replace(found, body=(Pass(found.body[0].steps, 3), *found.body[1:])), "no power of two"),
        (lambda found: replace(found, body=found.body[:-1]), "it stores x1 0 times"),
        (lambda found: replace(found, body=(*found.body, found.body[-1])), "it stores x1 2 times"),
        (lambda found: replace(found, body=found.body[1:]), "finishes v1, which no pass before has added up"),
        (lambda found: replace(found, body=(found.body[0], *found.body[2:])), "before v1 is there"),
        (lambda found: replace(found, body=(*found.body[:3], *found.body[4:])), "never finishes v3"),
        (_with_steps(2, lambda steps: steps.pop()), "reloads v2, which no pass before has kept"),
        (_with_steps(2, lambda steps: steps.pop(0)), "computes v2 before v0 is there"),
        (_with_steps(2, lambda steps: steps.append(Step("finish", "v1"))), "finishes v1 in a pass"),
        (_with_steps(2, lambda steps: steps.append(Step("store", "x9"))), "stores nothing to x9"),
        (_with_steps(4, lambda steps: steps.insert(0, Step("add", "v2"))), "cannot add v2"),
        (lambda found: replace(found, body=(Step("keep", "v2"), *found.body)), "cannot keep v2 outside of passes"),
        (lambda found: replace(found, body=(Step("load", "v0"), *found.body)), "loads v0 once, which differs"),
    ],
)
def test_what_the_checker_finds(change: Callable[[Schedule], Schedule], problem: str) -> None:
    found = schedule(SOFTMAX, VECTORS)
    check_schedule(SOFTMAX, found)
    with pytest.raises(GraphError, match=problem):
        check_schedule(SOFTMAX, change(found))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("rings\ntasks n0", "'rings' is no form of a schedule"),
        ("rows\ntasks n0\nmultiply v0", "line 3 of a schedule cannot be read: 'multiply v0'"),
        ("rows\npass {\npass {\n}", "line 3"),
        ("rows\npass {\nload v0", "does not end"),
    ],
)
def test_texts_that_are_no_schedules(text: str, problem: str) -> None:
    with pytest.raises(GraphError, match=problem):
        parse_schedule(text)
