"""Requirements on sizes at run time: each set of sizes is looked at once."""

from __future__ import annotations

from collections.abc import Mapping

from intaglio.ir.dim import symbol
from intaglio.ir.requirements import Requirement
from intaglio.runtime.engine.size_checks import FITTING_LIMIT, Fitting

N, M, K = symbol("N"), symbol("M"), symbol("K")
EQUAL, LATER = Requirement(((N, M),), "N and M"), Requirement(((N, K),), "N and K")


class Counting(Requirement):
    """A requirement that counts how often it is looked at."""

    looks = 0

    def holds(self, bindings: Mapping[str, int]) -> bool:
        Counting.looks += 1
        return super().holds(bindings)


def test_the_first_requirement_that_fails_is_told() -> None:
    fitting = Fitting([EQUAL, LATER])
    assert fitting.broken({"N": 2, "M": 2, "K": 2}) is None
    assert fitting.broken({"N": 2, "M": 3, "K": 3}) is EQUAL
    assert fitting.broken({"N": 2, "M": 2, "K": 3}) is LATER


def test_what_is_not_known_yet_is_checked_later() -> None:
    fitting = Fitting([EQUAL, LATER])
    assert fitting.broken({}) is None
    assert fitting.broken({"N": 2, "M": 2}) is None
    assert fitting.broken({"N": 2, "M": 2, "K": 1}) is LATER


def test_sizes_that_fit_are_remembered_and_those_that_do_not_are_looked_at_again() -> None:
    Counting.looks = 0
    fitting = Fitting([Counting(((N, M),), "N and M")])
    for _ in range(3):
        assert fitting.broken({"N": 2, "M": 2, "other": 1}) is None
    assert Counting.looks == 1
    for _ in range(3):
        assert fitting.broken({"N": 2, "M": 3, "other": 1}) is not None
    assert Counting.looks == 4
    for size in range(FITTING_LIMIT + 1):
        assert fitting.broken({"N": size, "M": size, "other": 1}) is None
    assert Counting.looks == 4 + FITTING_LIMIT
