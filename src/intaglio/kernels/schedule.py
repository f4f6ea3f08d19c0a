"""Schedules: how a target runs the loops of a kernel, as data that printers walk over.

A kernel of the language says what is computed; its schedule says in which order. Loops are those of tasks, outermost,
then those that a task walks one by one, and at most one whose steps are the lanes of vectors. What is done stands in
steps: outside of passes once for each walk, inside of a pass at each step of the walked loops and of the lanes.

`schedule_text` writes and reads schedules as text, `schedule_check` finds broken ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from intaglio.kernels.language import (
    Expr,
    Let,
    Load,
    LoopKernel,
    Name,
    Parameter,
    Reduce,
    Scan,
    Store,
    is_cheap,
    names_in,
    nanoseconds,
    reads_of,
)

Form = Literal["elements", "rows", "columns", "scans"]
Action = Literal["load", "compute", "reload", "add", "finish", "scan", "keep", "store"]


@dataclass(frozen=True)
class Facts:
    """What decides about the schedules of a target. Without vectors, no loop has lanes and nothing is cut or kept."""

    has_vectors: bool = True
    chunk: int = 16384
    """Elements of a row that one task computes where nothing is reduced."""
    strip: int = 128
    """Columns of one task where what is kept lies side by side, and what is reduced does not."""
    run: int = 256
    """Steps of such a reduction that are summed before the sum is added to the total."""
    scan_strip: int = 64
    """Columns of one task where sums run."""
    parts: int = 4
    """Vectors that are under way side by side where each waits for itself alone, a power of two."""


@dataclass(frozen=True)
class Step:
    """One thing that is done, with the value or, for stores, the parameter that it is about.

    `load`, `compute` and `store` are the kernel's statements. `keep` puts a value into scratch memory, `reload` reads
    it there in a later pass. `add` combines a value with what a reduction has so far; `finish` makes its result.
    """

    action: Action
    name: str


@dataclass(frozen=True)
class Pass:
    """One walk along all loops that are no tasks; `parts` vectors, each with results of its own, are under way."""

    steps: tuple[Step, ...]
    parts: int = 1

    def names(self, *actions: Action) -> list[str]:
        """What the steps of some actions are about, in order."""
        return [each.name for each in self.steps if each.action in actions]


@dataclass(frozen=True)
class Schedule:
    """How the loops of a kernel are run."""

    form: Form
    tasks: tuple[str, ...]
    """Loops whose steps tasks enumerate, the outermost first."""
    walk: tuple[str, ...]
    """Loops that a task walks one by one."""
    lanes: str | None
    """The loop whose steps are lanes of vectors; those left over behind the last whole vector are masked."""
    body: tuple[Step | Pass, ...]
    strip: int | None = None
    """How many steps of the loop of lanes a task has; None: all."""
    run: int | None = None
    """How many steps of the innermost walked loop are summed before the sum is added to the total."""
    is_reversed: bool = False
    """Whether the walk begins at the last step."""

    @property
    def passes(self) -> list[Pass]:
        """The passes, in order."""
        return [each for each in self.body if isinstance(each, Pass)]

    @property
    def kept(self) -> list[str]:
        """The values in scratch memory, in the order of their slots."""
        return [name for each in self.passes for name in each.names("keep")]


def schedule(kernel: LoopKernel, facts: Facts) -> Schedule:
    """How a target with these facts runs a kernel."""
    if kernel.scans:
        return _scans(kernel, facts)
    if facts.has_vectors and _has_columns(kernel):
        return _columns(kernel, facts)
    return _rows(kernel, facts) if kernel.has_reduction else _elements(kernel, facts)


def _elements(kernel: LoopKernel, facts: Facts) -> Schedule:
    """Without reductions a row is cut into chunks, and a task is one chunk."""
    loops = [loop.name for loop in kernel.kept]
    stores = [Step("store", name) for name in kernel.stores]
    values = list(dict.fromkeys(kernel.stores.values()))
    if not facts.has_vectors:
        steps = (*_steps(kernel, _ordered(kernel, _cone(kernel, values))), *stores)
        return Schedule("elements", tuple(loops), (), None, (Pass(steps),))
    lanes = loops[-1] if loops else None
    hoisted = [each.name for each in kernel.body if isinstance(each, Load) and _is_hoisted(kernel, each)]
    inner = (*_steps(kernel, _cone(kernel, values, hoisted)), *_results(kernel, values, (), kernel.stores))
    body = (*(Step("load", name) for name in hoisted), Pass(inner))
    return Schedule("elements", tuple(loops[:-1]), (), lanes, body, strip=facts.chunk)


def _is_hoisted(kernel: LoopKernel, load: Load) -> bool:
    """Whether a load can stand before the loop of lanes: all of them read the same element."""
    steps = _parameter(kernel, load.parameter).steps
    return bool(steps) and steps[-1] == 0


def _rows(kernel: LoopKernel, facts: Facts) -> Schedule:
    """A task is a row, with one pass over it for each level of dependence between reductions."""
    maker = _Rows(kernel, facts)
    reduced = [loop.name for loop in kernel.reduced]
    lanes = reduced.pop() if facts.has_vectors and reduced else None
    tasks = tuple(loop.name for loop in kernel.kept)
    return Schedule("rows", tasks, tuple(reduced), lanes, tuple(maker.body()))


class _Rows:
    """The passes over a row, under construction."""

    def __init__(self, kernel: LoopKernel, facts: Facts) -> None:
        self.kernel, self.facts = kernel, facts
        self.row_values, self.row_stores = kernel.row_values(), kernel.row_stores()
        self.levels = kernel.levels()
        self.kept = _kept(kernel, self.levels, self.row_values) if facts.has_vectors else []
        self.known = set[str]()

    def body(self) -> Iterable[Step | Pass]:
        kernel, last = self.kernel, max(self.levels.values(), default=0)
        for each in kernel.body:
            if isinstance(each, Load) and each.name in self.row_values:
                yield Step("load", each.name)
                self.known.add(each.name)
        for level in range(last + 1):
            yield from self._once(level)
            yield from self._pass(level, is_last=level == last)
        if self.facts.has_vectors:
            yield from (Step("store", name) for name in kernel.stores if name in self.row_stores)

    def _once(self, level: int) -> Iterable[Step]:
        """Finish the reductions of the pass before, and compute what follows from them alone."""
        for each in self.kernel.body:
            if isinstance(each, Reduce) and self.levels[each.name] == level:
                yield Step("finish", each.name)
                self.known.add(each.name)
            elif isinstance(each, Let) and self.levels[each.name] == level and self._is_known(each):
                yield Step("compute", each.name)
                self.known.add(each.name)

    def _is_known(self, value: Let) -> bool:
        """Whether a value is the same along the row, and all that it is computed of is there."""
        return value.name in self.row_values and all(name in self.known for name in reads_of(value))

    def _pass(self, level: int, *, is_last: bool) -> Iterable[Step | Pass]:
        kernel = self.kernel
        reductions = [each for each in kernel.body if isinstance(each, Reduce) and self.levels[each.name] == level + 1]
        inner = {name: value for name, value in kernel.stores.items() if name not in self.row_stores}
        targets: list[Expr] = [Name(name, kernel.definitions[name].type) for name in self.kept]
        targets = [each for each in dict.fromkeys([*targets, *inner.values()]) if self._is_in(each, level, is_last)]
        values = [*targets, *(each.value for each in reductions)]
        if not self.facts.has_vectors and is_last:
            yield from (Step("store", name) for name in kernel.stores if name in self.row_stores)
        if not reductions and not targets:
            return
        read = {name for name in self.kept if self.levels[name] < level}
        needed = _cone(kernel, values, self.known, read)
        parts = self._parts(needed, has_targets=bool(targets)) if reductions else 1
        steps = _steps(kernel, needed if self.facts.has_vectors else _ordered(kernel, needed), read)
        added = [Step("add", each.name) for each in reductions]
        kept = [name for name in self.kept if self.levels[name] == level]
        yield Pass((*steps, *added, *_results(kernel, targets, kept, inner)), parts)

    def _is_in(self, value: Expr, level: int, is_last: bool) -> bool:
        """Whether a result comes of the pass of a level: the first that can; the last without vectors."""
        if not self.facts.has_vectors:
            return is_last
        return max((self.levels.get(name, 0) for name in names_in(value)), default=0) == level

    def _parts(self, needed: Iterable[str], *, has_targets: bool) -> int:
        """Several accumulators where waiting for one of them would be most of the work."""
        found = [self.kernel.definitions[name] for name in needed]
        computed = [each for each in found if not isinstance(each, Load)]
        is_light = len(computed) <= 4 and all(nanoseconds(each) <= 0.1 for each in computed)
        return self.facts.parts if self.facts.has_vectors and is_light and not has_targets else 1


def _kept(kernel: LoopKernel, levels: dict[str, int], row_values: set[str]) -> list[str]:
    """Values too dear to compute again in a later pass."""
    last_use: dict[str, int] = {}
    computed = [each for each in kernel.body if isinstance(each, (Let, Reduce))]
    for each in reversed(computed):
        is_reduction = isinstance(each, Reduce)
        at = levels[each.name] - 1 if is_reduction else levels[each.name]
        if not is_reduction and each.name not in row_values:
            at = max(at, last_use.get(each.name, at) if is_cheap(each) else at)
        for name in reads_of(each):
            last_use[name] = max(last_use.get(name, 0), at)
    return [
        each.name
        for each in computed
        if isinstance(each, Let)
        and not is_cheap(each)
        and each.name not in row_values
        and each.type != "bool"
        and last_use.get(each.name, 0) > levels[each.name]
    ]


def _columns(kernel: LoopKernel, facts: Facts) -> Schedule:
    """The kept loop along which all is contiguous has the lanes; a task is a strip of its columns.

    Only what does not round has several parts: sums in another order would differ from those of whole vectors.
    """
    *tasks, lanes = (loop.name for loop in kernel.kept)
    reductions = [each for each in kernel.body if isinstance(each, Reduce)]
    names = [each.name for each in reductions]
    before = _steps(kernel, _cone(kernel, [each.value for each in reductions]))
    after = _steps(kernel, _cone(kernel, list(kernel.stores.values()), names))
    is_exact = all(each.function in ("max", "min") for each in reductions)
    walk = Pass((*before, *(Step("add", name) for name in names)), facts.parts if is_exact else 1)
    stores = (Step("store", each.parameter) for each in kernel.body if isinstance(each, Store))
    body = (walk, *(Step("finish", name) for name in names), *after, *stores)
    reduced = tuple(loop.name for loop in kernel.reduced)
    return Schedule("columns", tuple(tasks), reduced, lanes, body, strip=facts.strip, run=facts.run)


def _has_columns(kernel: LoopKernel) -> bool:
    """Whether the columns are contiguous in all operands, the walk is not, and the sums depend on no sums."""
    reductions = [each for each in kernel.body if isinstance(each, Reduce)]
    kept = len(kernel.kept)
    if not reductions or not kept or not kernel.reduced or kernel.checks:
        return False
    before = _cone(kernel, [each.value for each in reductions])
    if any(each.total != each.type or each.name in before for each in reductions):
        return False
    loads = [each for each in kernel.parameters if not each.is_written]
    is_even = all(each.steps[kept - 1] in ((1,) if each.is_written else (0, 1)) for each in kernel.parameters)
    is_walked_evenly = all(each.steps[-1] in (0, 1) for each in loads)
    return is_even and not is_walked_evenly and _follows_from_sums(kernel, [each.name for each in reductions])


def _follows_from_sums(kernel: LoopKernel, sums: list[str]) -> bool:
    """Whether what is stored is the same along the whole walk."""
    after = [kernel.definitions[name] for name in _cone(kernel, list(kernel.stores.values()), sums)]
    loads = [_parameter(kernel, each.parameter) for each in after if isinstance(each, Load)]
    return all(step == 0 for each in loads for step in each.steps[len(kernel.kept) :])


def _scans(kernel: LoopKernel, facts: Facts) -> Schedule:
    """A loop inside of the scanned one has the lanes; where there is none, a task is one walk, element by element."""
    walked, names = kernel.scans[0].loop, [loop.name for loop in kernel.loops]
    lanes = names[-1] if facts.has_vectors and names[-1] != walked else None
    tasks = tuple(name for name in names if name not in (walked, lanes))
    needed = set(_cone(kernel, [each.value for each in kernel.body if isinstance(each, (Store, Scan))]))
    needed |= {each.name for each in kernel.scans}
    steps = [
        Step("store", each.parameter) if isinstance(each, Store) else _step(kernel, each.name)
        for each in kernel.body
        if isinstance(each, Store) or each.name in needed
    ]
    walk = Pass(tuple(steps), facts.parts if lanes else 1)
    strip, is_reversed = facts.scan_strip if lanes else None, kernel.scans[0].is_reversed
    return Schedule("scans", tasks, (walked,), lanes, (walk,), strip=strip, is_reversed=is_reversed)


def _cone(
    kernel: LoopKernel, targets: Collection[Expr], known: Collection[str] = (), read: Collection[str] = ()
) -> list[str]:
    """What must be computed for some values, operands first; what is `known` is there, `read` values have none."""
    found: dict[str, None] = {}
    definitions = kernel.definitions
    stack = [(name, False) for value in reversed(list(targets)) for name in reversed(names_in(value))]
    while stack:
        name, is_done = stack.pop()
        if name in found or name in known:
            continue
        definition = definitions[name]
        if is_done or isinstance(definition, Load) or name in read:
            found[name] = None
            continue
        stack.append((name, True))
        stack += [(source, False) for source in reversed(reads_of(definition)) if source not in found]
    return list(found)


def _ordered(kernel: LoopKernel, names: Collection[str]) -> list[str]:
    """Names in the order of the kernel's statements."""
    return [name for name in kernel.definitions if name in names]


def _steps(kernel: LoopKernel, names: Iterable[str], read: Collection[str] = ()) -> list[Step]:
    return [Step("reload", name) if name in read else _step(kernel, name) for name in names]


def _step(kernel: LoopKernel, name: str) -> Step:
    definition = kernel.definitions[name]
    return Step("load" if isinstance(definition, Load) else "scan" if isinstance(definition, Scan) else "compute", name)


def _results(
    kernel: LoopKernel, targets: Iterable[Expr], kept: Collection[str], stores: dict[str, Expr]
) -> Iterable[Step]:
    """What becomes of each value of a pass: it is kept, stored, or both."""
    for value in targets:
        if isinstance(value, Name) and value.name in kept:
            yield Step("keep", value.name)
        yield from (Step("store", name) for name, each in stores.items() if each == value)


def _parameter(kernel: LoopKernel, name: str) -> Parameter:
    return next(each for each in kernel.parameters if each.name == name)
