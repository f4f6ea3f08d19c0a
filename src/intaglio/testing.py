"""Timing of functions, side by side: `time_funcs` and `print_time_statistics`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from intaglio.errors import InputError

COLUMNS = ("Min", "Mean", "Median", "Stdev", "Max")


def time_funcs(
    funcs: Sequence[Callable[[], Any]],
    func_names: Sequence[str] | None = None,
    warmups: int = 5,
    num_iters: int = 100,
) -> list[list[float]]:
    """The times in milliseconds of each call of each function, one list for each.

    The functions take turns, so that what the machine does meanwhile meets them all alike. Each is called `warmups`
    times before. `func_names` are only checked to be as many as the functions.
    """
    if func_names is not None and len(func_names) != len(funcs):
        raise InputError(f"{len(func_names)} names for {len(funcs)} functions")
    if num_iters < 1 or warmups < 0:
        raise InputError(f"num_iters is {num_iters} and warmups {warmups}, expected at least 1 and 0")
    for func in funcs:
        for _ in range(warmups):
            func()
    times: list[list[float]] = [[] for _ in funcs]
    for _ in range(num_iters):
        for func, found in zip(funcs, times, strict=True):
            found.append(_milliseconds(func))
    return times


def _milliseconds(func: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    func()
    return (time.perf_counter() - begin) * 1e3


def print_time_statistics(times: Sequence[Sequence[float]], func_names: Sequence[str]) -> None:
    """Print the least, mean, median, standard deviation and greatest of the times of each function.

    >>> print_time_statistics([[1.0, 2.0, 6.0]], ["square"])
    Name      Min    Mean  Median   Stdev     Max
    square 1.0000  3.0000  2.0000  2.6458  6.0000
    """
    if len(times) != len(func_names):
        raise InputError(f"{len(func_names)} names for the times of {len(times)} functions")
    rows = [[f"{number:.4f}" for number in _statistics(each)] for each in times]
    widths = [max(map(len, column)) + 1 for column in zip(COLUMNS, *rows, strict=True)]
    first = max(map(len, ("Name", *func_names)))
    for name, cells in zip(("Name", *func_names), (COLUMNS, *rows), strict=True):
        line = " ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        print(f"{name:<{first}}{line.rjust(len(line))}")


def _statistics(times: Sequence[float]) -> tuple[float, ...]:
    deviation = statistics.stdev(times) if len(times) > 1 else 0.0
    return min(times), statistics.mean(times), statistics.median(times), deviation, max(times)
