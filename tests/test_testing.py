"""Times of functions side by side."""

from __future__ import annotations

import pytest

from intaglio import InputError
from intaglio.testing import print_time_statistics, time_funcs


def test_functions_take_turns() -> None:
    calls: list[str] = []
    times = time_funcs([lambda: calls.append("a"), lambda: calls.append("b")], ["a", "b"], warmups=2, num_iters=3)
    assert "".join(calls) == "aabb" + "ababab"
    assert [len(each) for each in times] == [3, 3]
    assert all(time >= 0 for each in times for time in each)


def test_statistics(capsys: pytest.CaptureFixture[str]) -> None:
    print_time_statistics([[1.0, 3.0, 5.0], [2.0]], ["first", "the other"])
    header, first, other = capsys.readouterr().out.splitlines()
    assert header.split() == ["Name", "Min", "Mean", "Median", "Stdev", "Max"]
    assert first.split() == ["first", "1.0000", "3.0000", "3.0000", "2.0000", "5.0000"]
    assert other.removeprefix("the other").split() == ["2.0000", "2.0000", "2.0000", "0.0000", "2.0000"]
    assert len({len(line) for line in (header, first, other)}) == 1


def test_wrong_arguments() -> None:
    with pytest.raises(InputError, match="1 names for 2 functions"):
        time_funcs([print, print], ["one"])
    with pytest.raises(InputError, match="num_iters is 0"):
        time_funcs([print], num_iters=0)
    with pytest.raises(InputError, match="2 names for the times of 1 functions"):
        print_time_statistics([[1.0]], ["a", "b"])
