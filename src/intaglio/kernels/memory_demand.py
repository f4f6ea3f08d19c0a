"""What a segment asks for in a run besides its arena: scratch memory of kernels, and tensors whose sizes data tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from intaglio.ir.dim import THREADS, Atom, Dim, Expr, Symbol, ceildiv, floordiv, has_choice, maximum, minimum, symbols
from intaglio.ir.substitution import substitute
from intaglio.kernels.lifetimes import lifetimes
from intaglio.kernels.plan import Action, Assign, Call, FindSizes, Repeat, SegmentBody, walk
from intaglio.kernels.segment_sizes import late_buffers
from intaglio.kernels.view import Buffer

LEAST_SHARED_JOB = 4000
"""Nanoseconds of work below which the runtime leaves a kernel to the calling thread, as `pool.c` says."""

SCRATCH_UNIT = 4096
"""Scratch memory is asked for in multiples of this."""


@dataclass(frozen=True)
class Scratch:
    """The scratch memory that a call needs on each thread that takes part, and whether more than the caller may."""

    bytes: Dim | None
    is_shared: bool


def scratch_of(segment: SegmentBody, sizes: Mapping[str, Dim], threads: int) -> list[Scratch]:
    """The scratch memory of each call that needs some; None where open sizes decide how much."""
    found = [_scratch(action, sizes, threads) for action in walk(segment.actions) if isinstance(action, Call)]
    return [each for each in found if each.bytes != 0]


def _scratch(call: Call, sizes: Mapping[str, Dim], threads: int) -> Scratch:
    if call.scratch == 0:
        return Scratch(0, False)
    asked, tasks, cost = (substitute(size, sizes, threads) for size in (call.scratch, call.tasks, call.cost))
    if has_choice(asked):
        return Scratch(None, True)
    return Scratch(_rounded(asked), _is_shared(tasks, cost))


def _rounded(bytes: Dim) -> Dim:
    return (bytes + SCRATCH_UNIT - 1) // SCRATCH_UNIT * SCRATCH_UNIT if isinstance(bytes, int) else bytes


def _is_shared(tasks: Dim, cost: Dim) -> bool:
    if not isinstance(tasks, int):
        return True
    return tasks > 1 and (not isinstance(cost, int) or tasks * max(1, cost) >= LEAST_SHARED_JOB)


def buffers_of_run(segment: SegmentBody) -> list[Buffer]:
    """The buffers that are allocated in the run, outputs included."""
    found = dict.fromkeys([*late_buffers(segment.actions), *(b for b in segment.output_buffers if b.is_late)])
    return list(found)


def own_outputs(segment: SegmentBody) -> list[Buffer]:
    """The outputs whose sizes are known before the run and that have memory of their own, not that of an input."""
    shared = {alias.output for alias in segment.aliases}
    return [buffer for n, buffer in enumerate(segment.output_buffers) if not buffer.is_late and n not in shared]


def spans_of_run(segment: SegmentBody, buffers: Sequence[Buffer]) -> tuple[list[int], list[int]]:
    """The first and last action for which each of these buffers is needed; outputs are needed to the end."""
    first, last = lifetimes(segment, buffers)
    end = sum(1 for _ in walk(segment.actions))
    return first, [end if buffer.kind == "output" else moment for buffer, moment in zip(buffers, last, strict=True)]


class Bounds:
    """What the sizes that a segment finds out are at most, as far as that is known before it runs."""

    def __init__(self, segment: SegmentBody, sizes: Mapping[str, int]) -> None:
        self.late = set(segment.late) - set(sizes)
        self.sizes = sizes
        self.products: dict[Dim, Dim] = {}
        self._known: dict[tuple[Dim, frozenset[Dim]], Dim | None] = {}
        self.sources: dict[str, list[Dim | None]] = {name: [] for name in self.late}
        for action in walk(segment.actions):
            self._note(action)

    def _note(self, action: Action) -> None:
        if isinstance(action, FindSizes):
            self.products.update(action.most)
            found = {name: action.most.get(_symbol(name)) for name in action.symbols}
        elif isinstance(action, Assign):
            found = dict(action.items)
        else:
            found = {action.counter: action.most} if isinstance(action, Repeat) else {}
        for name, most in found.items():
            if name in self.sources:
                self.sources[name].append(most)

    @property
    def symbols(self) -> dict[str, Dim]:
        """The sizes that the segment finds out and of which it is known what they are at most."""
        found = {name: self._symbol(name, frozenset()) for name in self.late}
        return {name: most for name, most in found.items() if most is not None}

    def most(self, size: Dim, under_way: frozenset[Dim] = frozenset()) -> Dim | None:
        """An upper bound of a size, or None where there is none."""
        key = size, under_way
        if key not in self._known:
            self._known[key] = self._most(substitute(size, self.sizes), under_way)
        return self._known[key]

    def _most(self, size: Dim, under_way: frozenset[Dim]) -> Dim | None:
        if not isinstance(size, Expr) or symbols(size).isdisjoint(self.late):
            return size
        if size in under_way:
            return None
        if size in self.products:
            return self.most(self.products[size], under_way | {size})
        total: Dim = 0
        for monomial, factor in size.terms:
            if factor < 0 and not symbols(_product(monomial)).isdisjoint(self.late):
                continue
            term = self._monomial(monomial, under_way)
            if term is None:
                return None
            total = total + term * factor
        return total

    def _monomial(self, monomial: Sequence[Atom], under_way: frozenset[Dim]) -> Dim | None:
        late = [atom for atom in monomial if not symbols(_product([atom])).isdisjoint(self.late)]
        known = self.products.get(_product(late))
        if known is not None:
            most = self.most(known, under_way | {_product(late)})
            return None if most is None else most * _product([atom for atom in monomial if atom not in late])
        found: Dim = 1
        for atom in monomial:
            most = self._atom(atom, under_way)
            if most is None:
                return None
            found = found * most
        return found

    def _atom(self, atom: Atom, under_way: frozenset[Dim]) -> Dim | None:
        if isinstance(atom, Symbol):
            return self._symbol(atom.name, under_way)
        if atom.function in ("less", "equal", "threads"):
            return 1 if atom.function != "threads" else THREADS
        left, right = (self.most(operand, under_way) for operand in atom.operands[-2:])
        if atom.function == "min":
            return right if left is None else left if right is None else minimum(left, right)
        if left is None or right is None or atom.function == "mod":
            return right if atom.function == "mod" else None
        if atom.function in ("floordiv", "ceildiv"):
            divide = floordiv if atom.function == "floordiv" else ceildiv
            return divide(left, atom.right) if symbols(atom.right).isdisjoint(self.late) else left
        return maximum(left, right)

    def _symbol(self, name: str, under_way: frozenset[Dim]) -> Dim | None:
        itself = _symbol(name)
        if name not in self.late:
            return itself
        sources = self.sources[name]
        if not sources or itself in under_way:
            return None
        found: Dim = 0
        for source in sources:
            most = None if source is None else self.most(source, under_way | {itself})
            if most is None:
                return None
            found = maximum(found, most)
        return found


def _symbol(name: str) -> Dim:
    return Expr((((Symbol(name),), 1),))


def _product(atoms: Sequence[Atom]) -> Dim:
    return Expr(((tuple(atoms), 1),)) if atoms else 1
