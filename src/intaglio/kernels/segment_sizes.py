"""Which sizes the actions of a segment use, and which of them it is given or finds out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from intaglio.ir.dim import Dim, Expr, has_choice, symbols
from intaglio.kernels.plan import (
    Action,
    Allocate,
    Assign,
    Branch,
    Call,
    Check,
    Commit,
    Fill,
    FindSizes,
    Grow,
    Move,
    Operand,
    Pair,
    Repeat,
    SegmentBody,
    Settle,
    Swap,
    operands_of,
    walk,
)
from intaglio.kernels.view import Buffer


def segment_symbols(segment: SegmentBody) -> list[str]:
    """The symbols whose values the driver reads from `call->dim`, in order."""
    found: set[str] = set()
    for action in walk(segment.actions):
        for dim in _dims(action):
            found |= symbols(dim)
    return sorted(found - set(segment.late))


def given_dims(segment: SegmentBody) -> list[Expr]:
    """Every expression of the driver over symbols that it is given alone, each once."""
    late = set(segment.late)
    all_dims = (dim for action in walk(segment.actions) for dim in _counted(action))
    found = dict.fromkeys(dim for dim in all_dims if isinstance(dim, Expr))
    return [dim for dim in found if late.isdisjoint(symbols(dim))]


def unbound_uses(segment: SegmentBody) -> Iterator[tuple[Action, set[str]]]:
    """The actions that use symbols to which the driver gives values only behind them, with those symbols."""
    awaited = set(segment.late)
    for action in walk(segment.actions):
        if awaited:
            awaited -= {action.counter} if isinstance(action, Repeat) else set()
            early = awaited & set[str]().union(*map(symbols, _dims(action)))
            if early:
                yield action, early
            awaited -= _binds(action)


def _binds(action: Action) -> set[str]:
    if isinstance(action, FindSizes):
        return set(action.symbols)
    return {name for name, _ in action.items} if isinstance(action, Assign) else set()


def _dims(action: Action) -> list[Dim]:
    """Every expression of an action."""
    found = _counted(action)
    if isinstance(action, Call):
        found += [*(size for _, size in action.sizes), action.tasks, action.cost, action.scratch]
    return found


def _counted(action: Action) -> list[Dim]:
    """The expressions of an action that say where something lies, not those that only say how work is cut."""
    found: list[Dim] = [offset_bytes(operand) for operand in operands_of(action)]
    match action:
        case Call():
            found += [size for _, size in action.sizes if not has_choice(size)]
        case FindSizes():
            found += [] if action.limit is None else [action.limit]
        case Fill():
            found += action.items
        case Assign():
            found += [dim for _, dim in action.items]
        case Allocate():
            found += [action.buffer.size, *action.buffer.shape]
        case Grow():
            found += [action.used, *action.shape]
        case Check():
            found += [dim for pair in action.pairs for dim in pair]
        case Repeat():
            found += [] if action.limit is None or isinstance(action.limit, Operand) else [action.limit]
        case Settle():
            found.append(action.pair.first.size)
        case Move() | Branch() | Pair() | Swap() | Commit():
            pass
    return found


def offset_bytes(operand: Operand) -> Dim:
    """How far behind the start of its memory an operand lies."""
    return (operand.offset + operand.buffer.home_offset) * operand.buffer.dtype.itemsize


def late_buffers(actions: Sequence[Action]) -> list[Buffer]:
    """The buffers that the driver allocates, each once, in order."""
    found: dict[Buffer, None] = {}
    for action in walk(actions):
        homes = [operand.buffer.home for operand in operands_of(action)]
        found.update((buffer, None) for buffer in homes if buffer.is_late)
    return list(found)
