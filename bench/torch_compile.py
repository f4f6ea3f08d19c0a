"""torch.compile with Intaglio beside inductor and eager: `python -m bench.torch_compile`.

Each architecture runs in a process of its own for each way, and the processes take turns of a few calls each, so that
what else the machine does meets them alike. Told are the time of the first call (compiling), and the median of a call.
Both start from caches that hold one function of one operator, so that neither counts imports and headers. What the
first call gives, gradients of weights included, is compared with eager in double; a row that differs by more than 1e-4,
and by more than twice of what eager differs, has no ratio.
With `--threads 1` the clock is that of the processor, which a busy machine disturbs less; compilers count too.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.torch_worker import LARGE, ROOT, large, warm_up, work

WAYS = ("eager", "inductor", "intaglio")
TOLERANCE = 1e-4

Row = dict[str, dict[str, Any]]
"""What came of an architecture, by way: `first` (s), `call` (ms), `outputs` and `gradients` apart; or an `error`."""


class Caches:
    """The folders of compiled code, which are put back to their first state before each row."""

    def __init__(self, folder: Path, threads: int | None) -> None:
        self._folder, self._kept = folder / "caches", folder / "kept"
        self.environment = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": str(self._folder / "inductor"),
            "INTAGLIO_CACHE": str(self._folder / "intaglio"),
        }
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else Python would compile modules in each first call
        if threads is not None:
            self.environment["OMP_NUM_THREADS"] = str(threads)
        for way in WAYS[1:]:
            subprocess.run([*COMMAND, "--warm-up", way], cwd=ROOT, env=self.environment, check=True)
        shutil.copytree(self._folder, self._kept)

    def restore(self) -> None:
        """Forget what was compiled for the last row."""
        shutil.rmtree(self._folder)
        shutil.copytree(self._kept, self._folder)


COMMAND = (sys.executable, "-m", "bench.torch_compile")


class Runner:
    """A process that runs one architecture one way."""

    def __init__(self, name: str, way: str, mode: str, batch: int, environment: dict[str, str]) -> None:
        self._told = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 (`end` closes it)
        self._process = subprocess.Popen(
            [*COMMAND, "--worker", name, way, mode, str(batch)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._told,
            text=True,
        )
        self.times: list[float] = []
        self.first: list[float] | None = self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None

    def turn(self, calls: int) -> None:
        """Run a few calls."""
        assert self._process.stdin is not None
        if self.first is not None:
            self._process.stdin.write(f"{calls}\n")
            self._process.stdin.flush()
            self.times += self._read() or []

    def end(self) -> dict[str, Any]:
        """Let the process end; what came of it."""
        self._process.communicate()
        self._told.seek(0)
        lines = [line.strip() for line in self._told if line.strip()]
        self._told.close()
        if self.first is None or not self.times:
            return {"error": lines[-1] if lines else "the process ended early"}
        first, outputs, gradients = self.first
        call = statistics.median(self.times) * 1e3
        return {"first": first, "call": call, "outputs": outputs, "gradients": gradients}


def race(name: str, mode: str, given: Any, environment: dict[str, str]) -> Row:
    """What each way makes of an architecture."""
    runners = {way: Runner(name, way, mode, given.batch, environment) for way in WAYS}
    for _ in range(given.turns):
        for runner in runners.values():
            runner.turn(given.calls)
    return {way: runner.end() for way, runner in runners.items()}


def is_right(way: str, row: Row) -> bool:
    """Whether a way ran, and gave what eager in double gives, or nearly as nearly as eager does."""
    found, eager = row[way], row["eager"]
    if "error" in found:
        return False
    return all(found[each] <= max(TOLERANCE, 2 * eager.get(each, 0.0)) for each in ("outputs", "gradients"))


def ratios(row: Row) -> tuple[float, float] | None:
    """Intaglio's time over inductor's, of a call and of the first; None where one of them failed or differs."""
    mine, theirs = row["intaglio"], row["inductor"]
    if not (is_right("intaglio", row) and is_right("inductor", row)):
        return None
    return mine["call"] / theirs["call"], mine["first"] / theirs["first"]


def cell(way: str, row: Row) -> str:
    """One way in one row."""
    found = row[way]
    if "error" in found:
        return "failed"
    apart = max(found["outputs"], found["gradients"])
    return f"{found['call']:.3f} ({found['first']:.1f})" + ("" if is_right(way, row) else f" differs by {apart:.0e}")


def table(mode: str, rows: dict[str, Row], is_markdown: bool = False) -> str:
    """The rows of a mode with the geometric means."""
    heads = [f"{mode}, ms a call (s the first)", *WAYS, "intaglio/inductor"]
    lines = [[name, *(cell(way, row) for way in WAYS), _told(row)] for name, row in rows.items()]
    if is_markdown:
        text = "\n".join(f"| {' | '.join(line)} |" for line in [heads, ["---"] * len(heads), *lines])
    else:
        text = "\n".join(f"{line[0]:32}" + "".join(f"{each:>22}" for each in line[1:]) for line in [heads, *lines])
    small = {name: row for name, row in rows.items() if not name.startswith(LARGE)}
    told = [means(small, " without the larger modules")] if 0 < len(small) < len(rows) else []
    return "\n".join((text, "", *told, means(rows), ""))


def _told(row: Row) -> str:
    found = ratios(row)
    return "" if found is None else f"{found[0]:.2f} ({found[1]:.2f})"


def means(rows: dict[str, Row], which: str = "") -> str:
    """The geometric means of the ratios."""
    found = [each for row in rows.values() if (each := ratios(row)) is not None]
    if not found:
        return "no row has a ratio"
    calls, firsts = (math.exp(statistics.fmean(map(math.log, each))) for each in zip(*found, strict=True))
    listed = f"{len(found)} of {len(rows)} rows{which}"
    return f"geometric means of intaglio/inductor over {listed}: {calls:.2f} a call, {firsts:.2f} the first call"


class Book:
    """The rows so far, in a file where one is given; a row that is there is not run again."""

    def __init__(self, path: str | None, settings: dict[str, Any]) -> None:
        self._path, self._settings = None if path is None else Path(path), settings
        self.rows: dict[str, Row] = {}
        if self._path is not None and self._path.exists():
            kept = json.loads(self._path.read_text())
            if kept["settings"] != settings:
                raise SystemExit(f"{path} was made with {kept['settings']}, and not with {settings}")
            self.rows = kept["rows"]

    def add(self, key: str, row: Row) -> None:
        """Keep a row."""
        self.rows[key] = row
        if self._path is not None:
            partial = self._path.with_suffix(".partial")
            partial.write_text(json.dumps({"settings": self._settings, "rows": self.rows}, indent=1))
            partial.replace(self._path)

    def of(self, mode: str, names: Sequence[str]) -> dict[str, Row]:
        """The rows of a mode by name."""
        return {name: self.rows[f"{mode}/{name}"] for name in names if f"{mode}/{name}" in self.rows}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.torch_compile", description=__doc__)
    parser.add_argument("names", nargs="*", help="architectures; all by default")
    parser.add_argument("--modes", default="inference,training")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--threads", type=int, help="threads of each process; with 1, processor time is measured")
    parser.add_argument("--json", help="a file for the rows; those that it has already are not run again")
    parser.add_argument("--again", action="store_true", help="run rows again that the file has")
    parser.add_argument("--markdown", action="store_true", help="print tables in Markdown")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--warm-up", choices=WAYS, help=argparse.SUPPRESS)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table for each mode, and the geometric means."""
    given = _parser().parse_args(arguments)
    if given.worker:
        name, way, mode, batch = given.worker
        work(name, way, mode, int(batch))
        return 0
    if given.warm_up:
        warm_up(given.warm_up)
        return 0
    sys.path.insert(0, str(ROOT))
    from tests.torch.architectures import ARCHITECTURES

    names, modes = given.names or [*ARCHITECTURES, *large()], given.modes.split(",")
    book = Book(given.json, {each: getattr(given, each) for each in ("batch", "turns", "calls", "threads")})
    wanted = [(name, mode) for name in names for mode in modes]
    missing = [each for each in wanted if given.again or f"{each[1]}/{each[0]}" not in book.rows]
    if missing:
        _run_all(missing, given, book)
    for mode in modes:
        print(table(mode, book.of(mode, names), given.markdown))
    return 0


def _run_all(wanted: Sequence[tuple[str, str]], given: Any, book: Book) -> None:
    with tempfile.TemporaryDirectory() as folder:
        caches = Caches(Path(folder), given.threads)
        for name, mode in wanted:
            caches.restore()
            row = race(name, mode, given, caches.environment)
            book.add(f"{mode}/{name}", row)
            print(
                f"{mode}/{name}: {', '.join(cell(way, row) for way in WAYS)}; {_told(row)}", file=sys.stderr, flush=True
            )


if __name__ == "__main__":
    raise SystemExit(main())
