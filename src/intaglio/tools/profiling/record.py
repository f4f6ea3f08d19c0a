"""What a profile is: rows of times, as data and as text."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

COLUMNS = ("#share", "#time", "#best call", "#calls", "#GFLOP/s", "#GB/s", "#of limit", "#live", "kind", "what")
"""The columns of the table; those that begin with `#` are numbers."""
AGAINST = ("#before", "#now", "#ratio", "kind", "what")
"""The columns of the table of two profiles."""
FORMAT = 1
"""The number of the form of the data."""


@dataclass(frozen=True)
class ProfileRow:
    """One kernel, shape, size or host node; or all that drivers do between their actions.

    `calls`, `seconds` and `waited` are means over the runs; `best` is the shortest call, `flops` and `bytes` are those
    of one call. `least_seconds` is what the machine needs for a call at least: for its operations, and for its bytes
    if these come from memory. Speeds are those of the shortest call, which others on the machine disturb least.
    """

    kind: str
    title: str
    calls: float
    seconds: float
    waited: float = 0.0
    best: float = 0.0
    kernel: str = ""
    nodes: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    flops: int | None = None
    bytes: int | None = None
    live: int | None = None
    least_seconds: float | None = None

    @property
    def flops_per_second(self) -> float | None:
        """The operations of a second."""
        return None if not self.flops or not self.best else self.flops / self.best

    @property
    def bytes_per_second(self) -> float | None:
        """The bytes of a second that the kernel reads and writes, wherever they are."""
        return None if not self.bytes or not self.best else self.bytes / self.best

    @property
    def efficiency(self) -> float | None:
        """The share of the machine's limit; more than 1 where what is read is in a cache."""
        return None if self.least_seconds is None or not self.best else self.least_seconds / self.best


@dataclass(frozen=True)
class Profile:
    """The times of a model's runs; `print(profile)` shows a table."""

    name: str
    target: str
    threads: int
    run_seconds: tuple[float, ...]
    """The time of each run, from the call to the outputs."""
    rows: tuple[ProfileRow, ...]
    """In the order of the plan."""
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    peak_flops: float | None = None
    """Operations on float32 that the machine does in a second at most, on as many threads."""
    peak_bandwidth: float | None = None
    """Bytes that come from memory in a second at most."""
    events: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    """Single times, as Chrome's tracing takes them."""

    @property
    def seconds(self) -> float:
        """The mean time of a run."""
        return statistics.fmean(self.run_seconds)

    @property
    def counted(self) -> float:
        """The share of the run that the rows add up to; the rest is Python's way in and out."""
        return sum(row.seconds for row in self.rows) / self.seconds if self.seconds else 0.0

    @property
    def slowest(self) -> list[ProfileRow]:
        """The rows, those that take the most time first."""
        return sorted(self.rows, key=lambda row: -row.seconds)

    def cells(self, most: int | None = None) -> list[tuple[str, ...]]:
        """The rows of the table, the slowest first, at most so many and one for the rest."""
        rows = self.slowest
        shown = rows if most is None or len(rows) <= most else rows[:most]
        found = [self._cells(row) for row in shown]
        left = rows[len(shown) :]
        if left:
            time = sum(row.seconds for row in left)
            found.append((_percent(time / self.seconds), seconds_text(time), "", "", "", "", "", "", "",
                          f"{len(left)} more rows"))  # fmt: skip
        return found

    def _cells(self, row: ProfileRow) -> tuple[str, ...]:
        return (
            _percent(row.seconds / self.seconds),
            seconds_text(row.seconds),
            seconds_text(row.best) if row.best else "",
            f"{row.calls:.4g}",
            _giga(row.flops_per_second),
            _giga(row.bytes_per_second),
            "" if row.efficiency is None else _percent(row.efficiency),
            "" if row.live is None else bytes_text(row.live),
            row.kind,
            row.title,
        )

    def summary(self) -> str:
        """The times of whole runs, and what the rows add up to, in a few lines."""
        lines = [
            f"{self.name or 'model'}: {len(self.run_seconds)} runs, mean {seconds_text(self.seconds)}, median "
            f"{seconds_text(statistics.median(self.run_seconds))}, best {seconds_text(min(self.run_seconds))}; "
            f"target {self.target}, {self.threads} thread{'s' if self.threads > 1 else ''}",
            f"the rows add up to {_percent(self.counted)} of the run",
        ]
        if self.peak_flops is not None and self.peak_bandwidth is not None:
            flops, moved = _giga(self.peak_flops), _giga(self.peak_bandwidth)
            lines.append(f"limits of the machine: {flops} GFLOP/s, {moved} GB/s from memory")
        live = [row.live for row in self.rows if row.live is not None]
        if live:
            lines.append(f"the arena holds {bytes_text(max(live))} at the fullest moment")
        return "\n".join(lines)

    def __str__(self) -> str:
        table = [[title.lstrip("#") for title in COLUMNS], *self.cells(40)]
        widths = [max(len(row[place]) for row in table) for place in range(len(COLUMNS))]
        lines = [
            "  ".join(
                cell.rjust(width) if title.startswith("#") else cell.ljust(width)
                for cell, width, title in zip(row, widths, COLUMNS, strict=True)
            ).rstrip()
            for row in table
        ]
        return "\n".join([*lines, self.summary()])

    def against(self, before: Profile) -> list[tuple[str, ...]]:
        """The rows of both profiles, those that differ most first: the time before, the time now, and their ratio.

        Times are those of the shortest run and, where they are known, of the shortest calls.
        """
        pairs = _paired(before.rows, self.rows)
        times = min(before.run_seconds), min(self.run_seconds)
        whole = (*map(seconds_text, times), _ratio(*times), "run", "all together")
        pairs.sort(key=lambda pair: -abs(_time(pair[1]) - _time(pair[0])))
        return [whole, *(_compared(*pair) for pair in pairs)]

    def to_dict(self) -> dict[str, Any]:
        """The profile as plain data, without single times."""
        data = asdict(self)
        del data["events"]
        more = {"format": FORMAT, "seconds": self.seconds, "counted": self.counted}
        return {**more, **data}

    def to_json(self) -> str:
        """The profile as JSON."""
        return json.dumps(self.to_dict(), indent=1)

    def trace(self) -> str:
        """All single times that were kept, for Chrome's about:tracing and Perfetto."""
        return json.dumps({"traceEvents": list(self.events), "displayTimeUnit": "ms"})

    def html(self, before: Profile | None = None) -> str:
        """The profile as a page that needs nothing else; with another profile, compared with it."""
        from intaglio.tools.profiling.page import page

        return page(self, before)

    def _repr_html_(self) -> str:
        from intaglio.tools.profiling.page import table_html

        return table_html(self, 40)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Profile:
        """A profile from its data; raises KeyError, TypeError or ValueError where that is none."""
        if data.get("format") != FORMAT:
            raise ValueError(f"its format is {data.get('format')}, and this version reads {FORMAT}")
        given: dict[str, Any] = {each.name: data[each.name] for each in fields(Profile) if each.name != "events"}
        rows = tuple(_row_from(row) for row in given.pop("rows"))
        times: tuple[float, ...] = tuple(given.pop("run_seconds"))
        return Profile(**given, run_seconds=times, rows=rows)


def _row_from(data: Mapping[str, Any]) -> ProfileRow:
    given: dict[str, Any] = dict(data)
    for name in ("nodes", "operators"):
        given[name] = tuple(given[name])
    return ProfileRow(**given)


def _paired(
    before: Sequence[ProfileRow], now: Sequence[ProfileRow]
) -> list[tuple[ProfileRow | None, ProfileRow | None]]:
    """Rows that serve the same nodes in the same place among those that do."""
    waiting: dict[tuple[Any, ...], list[ProfileRow]] = {}
    for row in before:
        waiting.setdefault(_key(row), []).append(row)
    pairs: list[tuple[ProfileRow | None, ProfileRow | None]] = []
    for row in now:
        others = waiting.get(_key(row))
        pairs.append((others.pop(0) if others else None, row))
    return pairs + [(row, None) for rows in waiting.values() for row in rows]


def _key(row: ProfileRow) -> tuple[Any, ...]:
    return (row.kind, row.nodes or row.title)


def _time(row: ProfileRow | None) -> float:
    return 0.0 if row is None else row.best * row.calls or row.seconds


def _compared(before: ProfileRow | None, now: ProfileRow | None) -> tuple[str, ...]:
    row = now or before
    assert row is not None
    times = ["" if each is None else seconds_text(_time(each)) for each in (before, now)]
    ratio = "" if before is None or now is None else _ratio(_time(before), _time(now))
    return (*times, ratio, row.kind, row.title)


def _ratio(before: float, now: float) -> str:
    return f"{now / before:.2f}" if before else ""


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _giga(number: float | None) -> str:
    return "" if number is None else f"{number / 1e9:.4g}"


def seconds_text(value: float) -> str:
    """A time as people read it.

    >>> seconds_text(0.00123)
    '1.23 ms'
    """
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if value * factor >= 1 or unit == "us":
            return f"{value * factor:.3g} {unit}"
    return ""


def bytes_text(count: int) -> str:
    """Bytes as people read them.

    >>> bytes_text(1536)
    '1.5 KiB'
    """
    value, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.4g} {units[0]}"
