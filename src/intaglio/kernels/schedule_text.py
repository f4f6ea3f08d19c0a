"""Schedules as text, and back.

>>> from intaglio.kernels.schedule import Pass, Schedule, Step
>>> walk = Pass((Step("load", "v0"), Step("add", "v1")), 4)
>>> schedule = Schedule("rows", ("n0",), (), "m0", (walk, Step("finish", "v1"), Step("store", "x1")))
>>> print(format_schedule(schedule))
rows
tasks n0
lanes m0
pass in 4 {
    load v0
    add v1
}
finish v1
store x1
>>> parse_schedule(format_schedule(schedule)) == schedule
True
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

from intaglio.errors import GraphError
from intaglio.kernels.schedule import Action, Form, Pass, Schedule, Step


def format_schedule(schedule: Schedule) -> str:
    """The text of a schedule."""
    return "\n".join(_lines(schedule))


def _lines(schedule: Schedule) -> Iterator[str]:
    yield schedule.form
    if schedule.tasks:
        yield f"tasks {', '.join(schedule.tasks)}"
    if schedule.walk:
        run = f" in runs of {schedule.run}" if schedule.run else ""
        yield f"walk {', '.join(schedule.walk)}{run}{' reversed' if schedule.is_reversed else ''}"
    if schedule.strip or schedule.lanes:
        strip = f" in strips of {schedule.strip}" if schedule.strip else ""
        yield f"lanes {schedule.lanes or '-'}{strip}"
    for each in schedule.body:
        if isinstance(each, Step):
            yield f"{each.action} {each.name}"
        else:
            yield "pass {" if each.parts == 1 else f"pass in {each.parts} {{"
            yield from (f"    {step.action} {step.name}" for step in each.steps)
            yield "}"


_TASKS = re.compile(r"tasks (\S+(?:, \S+)*)")
_WALK = re.compile(r"walk (\S+(?:, \S+)*?)( in runs of (\d+))?( reversed)?")
_LANES = re.compile(r"lanes (\S+)(?: in strips of (\d+))?")
_PASS = re.compile(r"pass(?: in (\d+))? \{")
_STEP = re.compile(rf"({'|'.join(get_args(Action))}) (\S+)")


def parse_schedule(text: str) -> Schedule:
    """The schedule that a text says; raises GraphError with the line that is none."""
    form, *lines = [line.strip() for line in text.strip().splitlines()]
    if form not in get_args(Form):
        raise GraphError(f"{form!r} is no form of a schedule; expected {', '.join(get_args(Form))}")
    found: dict[str, Any] = {"tasks": (), "walk": (), "lanes": None}
    body, steps, parts = list[Step | Pass](), None, 1
    for number, line in enumerate(lines, 2):
        if match := _STEP.fullmatch(line):
            step: Any = Step(match[1], match[2])  # type: ignore[arg-type]
            (body if steps is None else steps).append(step)
        elif (match := _PASS.fullmatch(line)) and steps is None:
            steps, parts = list[Step](), int(match[1] or 1)
        elif line == "}" and steps is not None:
            body.append(Pass(tuple(steps), parts))
            steps = None
        elif match := _TASKS.fullmatch(line):
            found["tasks"] = tuple(match[1].split(", "))
        elif match := _WALK.fullmatch(line):
            found |= {"walk": tuple(match[1].split(", ")), "is_reversed": bool(match[4])}
            found["run"] = int(match[3]) if match[3] else None
        elif match := _LANES.fullmatch(line):
            found |= {"lanes": None if match[1] == "-" else match[1], "strip": int(match[2]) if match[2] else None}
        else:
            raise GraphError(f"line {number} of a schedule cannot be read: {line!r}")
    if steps is not None:
        raise GraphError("a pass of a schedule does not end")
    return Schedule(form, body=tuple(body), **found)  # type: ignore[arg-type]
