"""What the race found, as tables for a terminal, as Markdown and as JSON."""

import importlib
import math
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.peers import Judge
from bench.race import KINDS, OURS, Row, Settings, geometric_mean

NOTHING = "—"


@dataclass(frozen=True)
class Sheet:
    """A table of text."""

    title: str
    header: list[str]
    rows: list[list[str]]


def machine() -> dict[str, object]:
    """The processor, its cores that we may use, and its measured limits where `bench.machine` can tell them."""
    figures: dict[str, object] = {"cpu": cpu_name(), "cores": len(os.sched_getaffinity(0))}
    try:
        figures.update(importlib.import_module("bench.machine").measure())
    except (ImportError, OSError, RuntimeError) as error:
        figures["limits"] = f"not measured ({error})"
    return figures


def cpu_name() -> str:
    """What the processor calls itself."""
    match = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return match.group(1) if match else platform.processor()


def sheets(rows: list[Row], settings: Settings) -> list[Sheet]:
    """The tables of the report."""
    return [_times(rows, settings), _loading(rows, settings)]


def _times(rows: list[Row], settings: Settings) -> Sheet:
    peers = [engine for engine in settings.engines if engine != OURS]
    header = ["model", *(f"{KINDS[engine].title}, ms" for engine in settings.engines)]
    header += [f"{KINDS[peer].title} / ours" for peer in peers] + ["error", "noise"]
    body = [_times_row(row, settings, peers) for row in rows]
    means = [_number(geometric_mean(row.ratio(peer) for row in rows), ".2f") for peer in peers]
    body.append(["geometric mean", *[""] * len(settings.engines), *means, "", ""])
    return Sheet("Median time of one run, and how many times ours each peer takes", header, body)


def _times_row(row: Row, settings: Settings, peers: list[str]) -> list[str]:
    if row.failure:
        return [row.model.name, *[NOTHING] * (len(settings.engines) + len(peers) + 2)]
    texts = [row.model.name]
    for engine in settings.engines:
        wrong = "" if row.is_right(engine) else " wrong"
        texts.append(_number(row.cells[engine].median * 1e3, ".4g") + wrong)
    texts += [_number(row.ratio(peer), ".2f") for peer in peers]
    noises = [cell.noise for cell in row.cells.values() if not math.isnan(cell.noise)]
    error = row.cells[OURS].error if OURS in row.cells else math.nan
    return [*texts, _number(error, ".1e"), _number(max(noises, default=math.nan), ".1%")]


def _loading(rows: list[Row], settings: Settings) -> Sheet:
    titles = [KINDS[engine].title for engine in settings.engines]
    header = ["model", *(f"{title}: cold / warm, s" for title in titles), *(f"{title}, MiB" for title in titles)]
    body = []
    for row in rows:
        cells = [row.cells.get(engine) for engine in settings.engines]
        loads = [f"{_number(c.cold, '.3g')} / {_number(c.warm, '.3g')}" if c else NOTHING for c in cells]
        memory = [f"{c.memory / 2**20:.0f}" if c and c.memory else NOTHING for c in cells]
        body.append([row.model.name, *loads, *memory])
    return Sheet("From the path to the first answer, and peak memory of the process", header, body)


def _number(value: float, form: str) -> str:
    return NOTHING if math.isnan(value) else format(value, form)


def notes(rows: list[Row], settings: Settings) -> list[str]:
    """Why cells are empty, which answers were wrong, and what each engine was given."""
    lines = [KINDS[engine].note for engine in settings.engines if KINDS[engine].note]
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.failure:
            reasons.setdefault(row.failure, []).append(row.model.name)
        for engine, cell in row.cells.items():
            title = KINDS[engine].title
            if cell.failure:
                reasons.setdefault(f"{title}: {cell.failure}", []).append(row.model.name)
            elif not row.is_right(engine):
                reason = f"{title} is wrong: error {cell.error:.1e}, tolerance {row.model.tolerance:.0e}"
                reasons.setdefault(reason, []).append(row.model.name)
    return lines + [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]


def caption(settings: Settings, figures: dict[str, object]) -> list[str]:
    """The conditions of the race."""
    versions = ", ".join(f"{KINDS[engine].title} {KINDS[engine].version()}" for engine in settings.engines)
    conditions = f"{settings.threads} threads, batch {settings.batch}, {settings.rounds} rounds"
    return [versions, conditions, ", ".join(f"{name}: {_figure(value)}" for name, value in figures.items())]


def _figure(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def print_report(rows: list[Row], settings: Settings, figures: dict[str, object], console: Console) -> None:
    """The report on a terminal."""
    for line in caption(settings, figures):
        console.print(line, highlight=False, markup=False)
    for sheet in sheets(rows, settings):
        table = Table(title=sheet.title)
        for index, title in enumerate(sheet.header):
            table.add_column(title, justify="right" if index else "left", no_wrap=not index)
        for texts in sheet.rows:
            table.add_row(*texts)
        console.print(table)
    for line in notes(rows, settings):
        console.print(f"- {line}", highlight=False, markup=False)


def markdown(rows: list[Row], settings: Settings, figures: dict[str, object]) -> str:
    """The report as Markdown."""
    parts = ["\n".join(f"- {line}" for line in caption(settings, figures))]
    for sheet in sheets(rows, settings):
        lines = [sheet.header, ["---", *["---:"] * (len(sheet.header) - 1)], *sheet.rows]
        parts.append(f"## {sheet.title}\n\n" + "\n".join(f"| {' | '.join(texts)} |" for texts in lines))
    parts.append("\n".join(f"- {line}" for line in notes(rows, settings)))
    return "\n\n".join(parts).strip() + "\n"


def as_json(rows: list[Row], settings: Settings, figures: dict[str, object]) -> dict[str, object]:
    """The report as plain data. Seconds and bytes; what is not known is null."""
    peers = [engine for engine in settings.engines if engine != OURS]
    return {
        "machine": figures,
        "versions": {engine: KINDS[engine].version() for engine in settings.engines},
        "threads": settings.threads,
        "batch": settings.batch,
        "rounds": settings.rounds,
        "judge": f"{Judge.title} {Judge.version()}",
        "geometric_mean": {peer: _known(geometric_mean(row.ratio(peer) for row in rows)) for peer in peers},
        "models": [_json_row(row, peers) for row in rows],
    }


def _json_row(row: Row, peers: list[str]) -> dict[str, object]:
    cells = {
        engine: {
            "failure": cell.failure or None,
            "median": _known(cell.median),
            "noise": _known(cell.noise),
            "runs": sum(map(len, cell.rounds)),
            "fastest": min((min(times) for times in cell.rounds), default=None),
            "cold": _known(cell.cold),
            "warm": _known(cell.warm),
            "memory": cell.memory or None,
            "error": _known(cell.error),
            "right": row.is_right(engine),
        }
        for engine, cell in row.cells.items()
    }
    ratios = {peer: _known(row.ratio(peer)) for peer in peers}
    return {
        "name": row.model.name,
        "group": row.model.group,
        "failure": row.failure or None,
        "tolerance": row.model.tolerance,
        "engines": cells,
        "ratios": ratios,
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def write(path: Path, text: str) -> None:
    """Write a report, making its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
