"""What type rules need of sizes: refused, granted, or left for the run to decide."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from intaglio.errors import ShapeError
from intaglio.ir.dim import Dim, maximum, mod, symbol
from intaglio.ir.requirements import (
    Requirement,
    broadcast,
    broadcast_shapes,
    need_at_most,
    need_equal,
    need_multiple,
    need_stretch,
    recording,
)

N, M = symbol("N"), symbol("M")

CHECKS = {"equal": need_equal, "at most": need_at_most, "multiple": need_multiple, "stretch": need_stretch}


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [
        ("equal", 3, 4), ("equal", N, N + 1), ("equal", -1, N), ("at most", 4, 3), ("at most", N + 1, N),
        ("multiple", 5, 2), ("multiple", N, 0), ("multiple", N, -N), ("stretch", 2, 3), ("stretch", 0, N + 1),
    ],
)  # fmt: skip
def test_what_certainly_fails_is_refused(kind: str, left: Dim, right: Dim) -> None:
    with recording() as found, pytest.raises(ShapeError, match="why"):
        CHECKS[kind](left, right, "why")
    assert not found


@pytest.mark.parametrize(
    ("kind", "left", "right"),
    [
        ("equal", N, N), ("equal", 2, 2), ("at most", N, N + 1), ("at most", 0, N), ("at most", 3, 3),
        ("multiple", N * 6, 3), ("multiple", 0, 5), ("stretch", 1, N), ("stretch", N, N),
    ],
)  # fmt: skip
def test_what_certainly_holds_is_not_recorded(kind: str, left: Dim, right: Dim) -> None:
    with recording() as found:
        CHECKS[kind](left, right, "why")
    assert not found


@pytest.mark.parametrize(
    ("kind", "holds"),
    [
        ("equal", lambda n, m: n == m),
        ("at most", lambda n, m: n <= m),
        ("multiple", lambda n, m: m > 0 and n % m == 0),
        ("stretch", lambda n, m: n in (1, m)),
        ("broadcast", lambda n, m: n == m or 1 in (n, m)),
    ],
)
def test_what_is_open_is_decided_by_the_sizes(kind: str, holds: Callable[[int, int], bool]) -> None:
    with recording() as found:
        if kind == "broadcast":
            broadcast(N, M)
        else:
            CHECKS[kind](N, M, "why")
    for n, m in np.ndindex(5, 5):
        assert all(each.holds({"N": n, "M": m}) for each in found) == holds(n, m), (n, m)


def test_requirements_are_kept_once_in_order_and_by_the_innermost_recorder() -> None:
    with recording() as outer:
        need_equal(N, 3, "first")
        with recording() as inner:
            need_equal(M, 3, "inside")
        need_equal(N, 3, "again")
        need_at_most(N, M, "second")
    assert [each.message for each in outer] == ["first", "second"]
    assert list(inner) == [Requirement(((M, 3),), "inside")]
    assert list(outer)[1].pairs == ((maximum(N, M), M),)
    assert list(outer)[1].symbols == {"N", "M"}


def test_without_a_recorder_nothing_is_kept() -> None:
    need_equal(N, 3, "why")
    with recording() as found:
        pass
    assert not found


def test_sizes_that_make_a_division_by_zero_do_not_fit() -> None:
    requirement = Requirement(((mod(N, M), 0),), "why")
    assert requirement.holds({"N": 4, "M": 2})
    assert not requirement.holds({"N": 4, "M": 0})


def test_broadcast_shapes() -> None:
    with recording() as found:
        assert broadcast_shapes((3, 1), (N, 1, 5), ()) == (N, 3, 5)
        assert not found
        assert broadcast_shapes((N, 4), (M, 1)) == (broadcast(N, M), 4)
    assert [each.pairs for each in found] == [((N, M), (N, 1), (M, 1))]
    with pytest.raises(ShapeError, match="dimensions 2 and 3"):
        broadcast_shapes((2,), (3,))
