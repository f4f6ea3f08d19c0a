"""`python -m bench production`: what a service sees of an engine besides its speed.

Every figure is the median over several fresh processes, in which the engines take turns.
"""

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import models, report
from bench.footprint import GAP, RUNS, read_arrays, save_arrays
from bench.models import BenchModel, Unavailable
from bench.peers import ENGINES
from bench.race import OURS, PATIENCE, PAUSE, ROOT, Say, geometric_mean, relative_error, write_bytecode

THEIRS = "onnxruntime"
FILE = "file"  # ours, from a compiled file
PLAN = "plan"
PARTS = ("import", "load", "first", "cpu")  # of a start; `cpu` is that of the process up to its first answer
LEAST_PLANNED = 8 * 2**20  # bytes from which on a plan is compared in the mean; below, modules and code outweigh it
NOTHING = report.NOTHING

COLUMNS = {
    "cold s": "cold",
    "warm s": "warm",
    "ORT warm s": "theirs_warm",
    "from file s": "file",
    "resident MiB": "resident",
    "ORT resident MiB": "theirs_resident",
    "peak MiB": "peak",
    "ORT peak MiB": "theirs_peak",
    "idle ms": "idle",
    "ORT idle ms": "theirs_idle",
    "planned MiB": "planned",
    "measured MiB": "grown",
}

BEFORE = """# In production

What a service sees of Intaglio besides its speed: how soon a process answers, how much memory it holds, and what it
costs while it waits. ONNX Runtime stands beside it. How fast single runs are is what `python -m bench` shows.
"""

AFTER = f"""
## What the columns mean

- **cold** is the time from the model's path to the first answer with an empty cache of compiled code: reading,
  simplifying, compiling and the first run. It is paid once on a machine. ONNX Runtime compiles nothing and has no such
  column.
- **warm** is the time of a new process with a filled cache: import, load and first run. For ONNX Runtime: import,
  session and first run. The start of Python is in neither.
- **from file** is the same as warm from a file that `Model.save_compiled` wrote, with an empty cache and no compiler.
- **resident** is the memory of the process (interpreter, NumPy, inputs and mapped pages of files included) after
  loading, before the first run; **peak** the most that it held until {RUNS} runs were over.
- **idle** is the CPU time, of all threads together, that a pause of {GAP * 1e3:.0f} ms before a request costs: CPU time
  of requests with pauses less that of the same requests back to back, for each request. Threads that spin while they
  wait show here, and so does a processor that comes back to cold caches. Below zero is noise.
- **planned** is the total of `Model.memory_plan` for the sizes of the inputs; **measured** what a process that has
  everything else loaded grows by when it loads and runs the model.

Every figure is a median over processes of their own. The engines take turns, so that a slow minute of the machine hits
both. Both have the same threads and batch 1; the files were read before, so the disk is not measured. A model whose
answer is not that of ONNX Runtime without optimisations, within the tolerance of the race, is marked `wrong`.
`{NOTHING}` is what could not be measured; the notes tell why.
"""


@dataclass(frozen=True)
class Settings:
    """How often and with how many threads."""

    threads: int = 2
    rounds: int = 5
    cold_rounds: int = 3
    requests: int = 20


@dataclass
class Row:
    """Figures of one model, each once for each process; `notes` tell what is missing or wrong."""

    name: str
    figures: dict[str, list[float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    is_wrong: bool = False

    def add(self, **figures: float | None) -> None:
        """Keep one more value of each figure."""
        for name, value in figures.items():
            if value is not None:
                self.figures.setdefault(name, []).append(value)

    def median(self, name: str) -> float:
        """The median of a figure, or NaN."""
        values = self.figures.get(name)
        return statistics.median(values) if values else math.nan

    def note(self, text: str) -> None:
        """Say something once."""
        if text not in self.notes:
            self.notes.append(text)


class Processes:
    """Starts `bench.footprint` on one model and keeps what it says."""

    def __init__(self, model: BenchModel, settings: Settings, folder: Path, row: Row) -> None:
        self.row, self.folder, self.model, self.settings = row, folder, model, settings
        self.path = model.path()
        self.cache = folder / "cache"
        self.compiled = folder / f"{model.name}.intaglio"
        save_arrays(folder / "feeds.npz", model.feeds(1))
        self.expected = self.outputs() if self.run("judge", self.path, self.cache) else None

    def run(self, engine: str, path: Path, cache: Path, **more: object) -> dict[str, Any]:
        """One process; an empty dictionary, and a note, if it failed."""
        time.sleep(PAUSE)
        job = {"engine": engine, "path": str(path), "threads": self.settings.threads, **more}
        (self.folder / "job.json").write_text(json.dumps(job))
        answer = self.folder / "result.json"
        answer.unlink(missing_ok=True)
        environment = {**os.environ, "INTAGLIO_CACHE": str(cache), "ORT_DISABLE_TELEMETRY": "1"}
        command = [sys.executable, "-m", "bench.footprint", str(self.folder)]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=PATIENCE, check=False)
        result = json.loads(answer.read_text()) if answer.exists() else {"failure": "the process ended or fell silent"}
        if "failure" in result:
            self.row.note(f"{engine}: {result['failure']}")
            return {}
        return result

    def outputs(self) -> list[Any]:
        """What the last process answered."""
        return list(read_arrays(self.folder / "outputs.npz").values())

    def judge(self) -> None:
        """Compare what our last process answered."""
        if self.expected is None:
            return
        error = relative_error(self.outputs(), self.expected)
        if error > self.model.tolerance:
            self.row.is_wrong = True
            self.row.note(f"wrong: error {error:.1e}, tolerance {self.model.tolerance:.0e}")

    def cold(self, number: int) -> None:
        """A start with an empty cache. The first one leaves the cache and the compiled file for the others."""
        save = {"save": str(self.compiled)} if number == 0 else {}
        with tempfile.TemporaryDirectory(dir=self.folder) as empty:
            found = self.run(OURS, self.path, self.cache if number == 0 else Path(empty), **save)
        if found:
            self.row.add(cold=found["load"] + found["first"], compiled_size=found.get("compiled_size"))
            self.judge()

    def warm(self) -> None:
        """A start with what the cold one left, its memory, and the price of waiting."""
        found = self.run(OURS, self.path, self.cache, requests=self.settings.requests)
        if found:
            self.row.add(warm=total(found), resident=found["resident"], peak=found["peak"], idle=found["idle"])
            self.row.add(**{f"warm_{part}": found[part] for part in PARTS})
            self.judge()

    def theirs(self) -> None:
        """The same of ONNX Runtime."""
        found = self.run(THEIRS, self.path, self.cache, requests=self.settings.requests)
        if found:
            self.row.add(theirs_warm=total(found), theirs_resident=found["resident"], theirs_peak=found["peak"],
                         theirs_idle=found["idle"])  # fmt: skip
            self.row.add(**{f"theirs_{part}": found[part] for part in PARTS})

    def file(self) -> None:
        """A start from the compiled file, with a cache that is empty."""
        with tempfile.TemporaryDirectory(dir=self.folder) as empty:
            found = self.run(OURS, self.compiled, Path(empty)) if self.compiled.exists() else {}
        if found:
            self.row.add(file=total(found), **{f"file_{part}": found[part] for part in PARTS})
            self.judge()

    def plan(self) -> None:
        """Planned memory against what the process grows by."""
        found = self.run(PLAN, self.path, self.cache)
        if found:
            self.row.add(planned=found["planned"], grown=found["grown"])
            for text in found["notes"]:
                self.row.note(f"plan: {text}")


def total(found: dict[str, float]) -> float:
    """Import, load and first run."""
    return found["import"] + found["load"] + found["first"]


def measure_model(model: BenchModel, settings: Settings, say: Say) -> Row:
    """All figures of one model."""
    row = Row(model.name)
    say(f"{model.name}: preparing")
    with tempfile.TemporaryDirectory(prefix="intaglio-production-") as folder:
        try:
            processes = Processes(model, settings, Path(folder), row)
        except Unavailable as error:
            row.note(str(error))
            return row
        for number in range(max(settings.rounds, settings.cold_rounds)):
            say(f"{model.name}: round {number + 1}")
            _round(processes, settings, number)
    return row


def _round(processes: Processes, settings: Settings, number: int) -> None:
    """One process of each kind."""
    if number < settings.cold_rounds:
        processes.cold(number)
    if number < settings.rounds:
        steps: Sequence[Callable[[], None]] = (processes.warm, processes.theirs, processes.file, processes.plan)
        for step in steps:
            step()


def table(rows: Iterable[Row]) -> list[list[str]]:
    """The header and one line for each model, as text."""
    lines = [["model", *COLUMNS]]
    for row in rows:
        name = f"{row.name} wrong" if row.is_wrong else row.name
        lines.append([name, *(_text(row.median(figure), figure) for figure in COLUMNS.values())])
    return lines


def _text(value: float, figure: str) -> str:
    if math.isnan(value):
        return NOTHING
    if figure.endswith("idle"):
        return f"{value * 1e3:.1f}"
    if figure.removeprefix("theirs_") in ("resident", "peak", "planned", "grown"):
        return f"{value / 2**20:.0f}" if value >= 10 * 2**20 else f"{value / 2**20:.1f}"
    return f"{value:.2f}"


def summary(rows: Iterable[Row]) -> list[str]:
    """Geometric means over the models of what ONNX Runtime needs, over what we need; and the mean idle cost."""
    rows = list(rows)
    names = {"warm": "warm start", "resident": "resident memory", "peak": "peak memory"}
    lines = [f"{title}: ONNX Runtime / ours {_mean(rows, f'theirs_{name}', name)}" for name, title in names.items()]
    lines.insert(
        1, f"start from a compiled file: ONNX Runtime's warm start / ours {_mean(rows, 'theirs_warm', 'file')}"
    )
    large = [row for row in rows if row.median("planned") >= LEAST_PLANNED]
    held = f"measured / planned {_mean(large, 'grown', 'planned')}"
    lines.append(f"memory that a run holds, where that is {LEAST_PLANNED >> 20} MiB or more: {held}")
    idle = [[row.median(name) for row in rows if name in row.figures] for name in ("idle", "theirs_idle")]
    ours, theirs = (f"{statistics.fmean(i) * 1e3:.2f} ms" if i else NOTHING for i in idle)
    return [*lines, f"idle CPU for each request, mean: ours {ours}, ONNX Runtime {theirs}"]


def _mean(rows: list[Row], above: str, below: str) -> str:
    value = geometric_mean(row.median(above) / row.median(below) for row in rows)
    return NOTHING if math.isnan(value) else f"{value:.2f}"


def markdown_table(lines: Sequence[Sequence[str]]) -> str:
    """Text cells as Markdown, the first column to the left."""
    ruled = [lines[0], ["---", *["---:"] * (len(lines[0]) - 1)], *lines[1:]]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in ruled)


def page(rows: list[Row], settings: Settings, machine: dict[str, object], command: str) -> str:
    """The page docs/production.md."""
    versions = ", ".join(f"{ENGINES[name].title} {ENGINES[name].version()}" for name in (OURS, THEIRS))
    rounds = f"{settings.rounds} processes for each figure, {settings.cold_rounds} for cold starts"
    conditions = [versions, f"{settings.threads} threads, batch 1, {rounds}",
                  ", ".join(f"{name}: {value}" for name, value in machine.items()), f"made by `{command}`"]  # fmt: skip
    notes = [f"{row.name}: {text}" for row in rows for text in row.notes]
    if unmeasured := [row.name for row in rows if not row.figures and not row.notes]:
        notes.append(f"not measured, for the run was stopped before: {', '.join(unmeasured)}")
    parts = [BEFORE.strip(), _list(conditions), markdown_table(table(rows)), "In the mean over all models:",
             _list(summary(rows))]  # fmt: skip
    parts += ["Notes:", _list(notes)] if notes else []
    return "\n\n".join([*parts, AFTER.strip()]) + "\n"


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def as_json(rows: list[Row], settings: Settings, machine: dict[str, object], command: str) -> dict[str, Any]:
    """The figures as plain data, in seconds and bytes: the median and every value."""
    return {
        "command": command,
        "machine": machine,
        "versions": {name: ENGINES[name].version() for name in (OURS, THEIRS)},
        "threads": settings.threads,
        "models": [
            {
                "name": row.name,
                "wrong": row.is_wrong,
                "notes": row.notes,
                "medians": {name: row.median(name) for name in row.figures},
                "values": row.figures,
            }
            for row in rows
        ],
    }


def machine_facts() -> dict[str, object]:
    """The processor, the cores that we may use, and how busy they were."""
    return {"processor": report.cpu_name(), "cores": len(os.sched_getaffinity(0)),
            "load average before": f"{os.getloadavg()[0]:.1f}"}  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    defaults = Settings()
    command = argparse.ArgumentParser(prog="python -m bench production", description=__doc__)
    command.add_argument("--models", nargs="+", default=[], metavar="NAME", help="names, patterns, groups, or all")
    command.add_argument("--threads", type=int, default=defaults.threads)
    command.add_argument("--rounds", type=int, default=defaults.rounds, help="processes for each figure")
    command.add_argument("--cold-rounds", type=int, default=defaults.cold_rounds, help="processes for cold starts")
    command.add_argument("--requests", type=int, default=defaults.requests, help="of the idle loop, at most")
    command.add_argument("--json", type=Path, metavar="FILE", help="also write all values as JSON")
    command.add_argument("--write", type=Path, metavar="FILE", help="write the page there instead of to the output")
    return command


def main(arguments: list[str]) -> int:
    """Measure. 0: done; 1: an answer of Intaglio was wrong; 2: wrong usage."""
    command = parser()
    options = command.parse_args(arguments)
    chosen = models.chosen(command, options.models)
    settings = Settings(options.threads, options.rounds, max(1, options.cold_rounds), options.requests)
    called = " ".join(["python -m bench production", *arguments])
    machine = machine_facts()
    write_bytecode()
    rows = [Row(model.name) for model in chosen]
    for place, model in enumerate(chosen):
        rows[place] = measure_model(model, settings, _say)
        _write(
            options.write, page(rows, settings, machine, called)
        )  # each time, so that a run which is stopped leaves what it has
        _write(options.json, json.dumps(as_json(rows, settings, machine, called), indent=1) + "\n")
    if options.write is None:
        print(page(rows, settings, machine, called), end="")
    return 1 if any(row.is_wrong for row in rows) else 0


def _write(path: Path | None, text: str) -> None:
    if path is not None:
        report.write(path, text)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
