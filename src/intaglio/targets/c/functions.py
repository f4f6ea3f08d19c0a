"""The functions of plans: one for each kernel, and a driver for each segment."""

from __future__ import annotations

import re
from collections.abc import Sequence

from intaglio.errors import CompileError
from intaglio.kernels.kernel import Kernel
from intaglio.kernels.plan import Call, walk
from intaglio.kernels.plan_form import PlanForm, SegmentForm
from intaglio.targets.c import cache
from intaglio.targets.c.compiler import find_compiler
from intaglio.targets.c.driver import driver_source
from intaglio.targets.c.kernel_source import kernel_source
from intaglio.targets.c.source_file import HEADERS
from intaglio.targets.c.target import Target
from intaglio.targets.c.units import CFunction

LONG_DRIVER = 150_000
"""Drivers of so many characters are not optimised: that took the compiler up to 20 times as long, and a driver only
computes sizes and calls kernels."""


def functions_of(form: PlanForm) -> list[CFunction]:
    """The kernels of a plan, then the driver of each segment."""
    kernels = form.kernels
    places = {kernel: place for place, kernel in enumerate(kernels)}
    drivers = [driver_function(driver_source(segment, places)) for segment in form.segments]
    return [*map(kernel_function, kernels), *drivers]


def kernel_function(kernel: Kernel) -> CFunction:
    """A kernel as a function of the cache."""
    return CFunction(kernel.hint, kernel_source(kernel), "-O3", HEADERS)


def driver_function(source: str) -> CFunction:
    """A driver as a function of the cache."""
    return CFunction("driver", source, "-O1" if len(source) < LONG_DRIVER else "-O0", ("ig.h",))


def nodes_of_refused(
    form: PlanForm, functions: Sequence[CFunction], refused: set[CFunction], target: Target
) -> list[tuple[str, ...]]:
    """The ids of the nodes that refused functions of a plan serve, call by call."""
    kernels = form.kernels
    is_refused = [function in refused for function in functions]
    wanted = {kernel for kernel, bad in zip(kernels, is_refused, strict=False) if bad}
    calls = [action for part in form.segments for action in walk(part.actions) if isinstance(action, Call)]
    found = [tuple(node.id for node in call.served) for call in calls if call.kernel in wanted]
    places = {kernel: place for place, kernel in enumerate(kernels)}
    for segment, bad in zip(form.segments, is_refused[len(places) :], strict=True):
        if bad:
            marked = driver_source(segment, places, is_marked=True)
            found += _nodes_of_driver(segment, _refusal(driver_function(marked), target))
    return found


def _nodes_of_driver(part: SegmentForm, messages: str) -> list[tuple[str, ...]]:
    """The nodes of the actions that a compiler complains of, where the driver's text tells it the place of each."""
    actions = list(walk(part.actions))
    found = sorted({int(place) for place in re.findall(r"\baction(\d+):", messages)})
    served = [actions[place].served for place in found if place < len(actions)]
    return [tuple(node.id for node in nodes) for nodes in served if nodes]


def _refusal(function: CFunction, target: Target) -> str:
    """What the compiler says of a function that it refuses; nothing where it takes it."""
    try:
        cache.ensure([function], find_compiler(), target)
    except CompileError as error:
        return str(error)
    return ""
