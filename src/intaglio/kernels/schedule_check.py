"""What is wrong with a schedule of a kernel: loops, values before they are there, results that never come."""

from __future__ import annotations

from collections.abc import Iterator

from intaglio.errors import GraphError
from intaglio.kernels.language import Let, Load, LoopKernel, Reduce, Scan, Statement, Store, reads_of
from intaglio.kernels.schedule import Pass, Schedule, Step

_KINDS = {"load": Load, "compute": Let, "reload": Let, "keep": Let, "add": Reduce, "finish": Reduce, "scan": Scan}


def check_schedule(kernel: LoopKernel, schedule: Schedule) -> None:
    """Raise GraphError with what is wrong with a schedule."""
    problems = [*_loops(kernel, schedule), *_Checker(kernel).problems(schedule)]
    if problems:
        raise GraphError(f"the schedule of {kernel.name} is broken: {'; '.join(problems)}")


def _loops(kernel: LoopKernel, schedule: Schedule) -> Iterator[str]:
    given = [*schedule.tasks, *schedule.walk, *([schedule.lanes] if schedule.lanes else [])]
    for name in sorted({loop.name for loop in kernel.loops} ^ set(given)):
        yield f"it leaves out the loop {name}" if name not in given else f"the kernel has no loop {name}"
    yield from (f"it runs the loop {name} more than once" for name in dict.fromkeys(given) if given.count(name) > 1)
    reduced = {loop.name for loop in kernel.reduced}
    yield from (f"tasks share the reduced loop {name}" for name in schedule.tasks if name in reduced)
    walked = {each.loop for each in kernel.scans} - set(schedule.walk)
    yield from (f"sums run along the loop {name}, which is not walked" for name in sorted(walked))
    if kernel.scans and schedule.is_reversed != kernel.scans[0].is_reversed:
        yield "it walks the other way than its sums run"
    for name, number in (("strip", schedule.strip), ("run", schedule.run)):
        if number is not None and number < 1:
            yield f"a {name} has {number} steps"
    if any(each.parts < 1 or each.parts & (each.parts - 1) for each in schedule.passes):
        yield "the number of parts of a pass is no power of two"


class _Checker:
    """What is there while the steps of a schedule are gone through."""

    def __init__(self, kernel: LoopKernel) -> None:
        self.kernel, self.definitions = kernel, kernel.definitions
        self.known, self.kept, self.added, self.finished = set[str](), set[str](), set[str](), set[str]()
        self.row_values = kernel.row_values() if kernel.has_reduction else None
        self.stored = list[str]()

    def problems(self, schedule: Schedule) -> Iterator[str]:
        for each in schedule.body:
            if isinstance(each, Pass):
                yield from self._pass(each)
            else:
                yield from self._step(each, self.known, is_inside=False)
        for name in self.kernel.stores:
            if self.stored.count(name) != 1:
                yield f"it stores {name} {self.stored.count(name)} times"
        yield from (f"it never finishes {name}" for name in sorted(self.added - self.finished))

    def _pass(self, walk: Pass) -> Iterator[str]:
        known, kept = set(self.known), set[str]()
        for step in walk.steps:
            yield from self._step(step, known, is_inside=True)
            kept |= {step.name} if step.action == "keep" else set()
        self.kept |= kept
        self.added |= set(walk.names("add"))

    def _step(self, step: Step, known: set[str], *, is_inside: bool) -> Iterator[str]:
        name = step.name
        if step.action == "store":
            self.stored.append(name)
            if name not in self.kernel.stores:
                yield f"the kernel stores nothing to {name}"
                return
            yield from self._reads(Store(name, self.kernel.stores[name]), f"stores {name}", known)
            return
        definition = self.definitions.get(name)
        if not isinstance(definition, _KINDS[step.action]):
            yield f"it cannot {step.action} {name}"
            return
        yield from self._value(step, definition, known, is_inside)

    def _value(
        self, step: Step, definition: Load | Let | Reduce | Scan, known: set[str], is_inside: bool
    ) -> Iterator[str]:
        name = step.name
        if not is_inside and step.action in ("reload", "keep", "add", "scan"):
            yield f"it cannot {step.action} {name} outside of passes"
        if is_inside and step.action == "finish":
            yield f"it finishes {name} in a pass"
        if step.action == "reload" and name not in self.kept:
            yield f"it reloads {name}, which no pass before has kept"
        elif step.action == "finish" and name not in self.added:
            yield f"it finishes {name}, which no pass before has added up"
        elif step.action == "keep" and name not in known:
            yield f"it keeps {name} before it is there"
        elif step.action in ("compute", "add", "scan"):
            yield from self._reads(definition, f"{step.action}s {name}", known)
        if not is_inside and step.action in ("load", "compute") and not self._is_once(name):
            yield f"it {step.action}s {name} once, which differs along a row"
        self.finished |= {name} if step.action == "finish" else set()
        if step.action not in ("add", "keep"):
            known.add(name)

    def _is_once(self, name: str) -> bool:
        if self.row_values is not None:
            return name in self.row_values
        definition = self.definitions[name]
        steps = {each.name: each.steps for each in self.kernel.parameters}
        return isinstance(definition, Load) and steps[definition.parameter][-1:] == (0,)

    def _reads(self, statement: Statement, what: str, known: set[str]) -> Iterator[str]:
        for name in reads_of(statement):
            if name not in known and name not in self.kernel.given:
                yield f"it {what} before {name} is there"
