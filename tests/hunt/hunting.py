"""One seed after the other, in parallel, with a record of what was done and what was found."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import intaglio
from intaglio.targets.c.compiler import find_compiler

from . import covered_c, generators
from .children import Outcome, run_many
from .compiling import compile_plainly, is_optimised
from .dice import Dice
from .judging import Finding, Variant, Verdict, examine
from .problem import Problem

FOLDER = Path("build/hunt")
IMPORTED = tuple(f"intaglio.{name}" for name in ("ir", "ops", "onnx", "passes", "kernels", "targets", "runtime"))
SECONDS = 900.0
"""How long one seed may take on a machine that has other work too."""
SHARE = 0.25
"""How many models are also run without simplification, exactly, or both, and by the quick compiler or not; in the tests
it is half of them."""
ENGINE = " engine"
"""How a room that chooses engines counts the cases of each among the judges: `native engine`."""
TIMES = 4
"""How many times as many parts as in the tests a model has: one compile serves more of them."""


@dataclass
class Tally:
    """What was done so far."""

    seeds: int = 0
    cases: int = 0
    findings: int = 0
    judges: Counter[str] = field(default_factory=Counter[str])
    kinds: Counter[str] = field(default_factory=Counter[str])
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Processor time by phase."""


def variants_of(kind: str, seed: int, share: float = 0.5) -> list[Variant]:
    """The ways in which a seed's model is run: simplified by the reference, as users do, a share in another way too."""
    dice = Dice(99, seed)
    usual = Variant(threads=dice.of((1, 2)))
    others = [
        Variant("native", threads, simplify, exact)
        for threads in (1, 2)
        for simplify, exact in ((False, False), (True, True), (False, True))
    ]
    reference = Variant("reference", 1, True, dice.chance(0.5))
    if not dice.chance(share):
        return [reference, usual]
    return [reference, usual, replace(dice.of(others), quick=dice.chance(0.5))]


def look(kind: str, seed: int, times: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """Make a seed's problem and examine it, in a process of its own."""
    watch = Watch(tell)
    watch.tell("generating")
    if not is_optimised(seed):
        compile_plainly()
    if kind in generators.ROOMS:
        seen = generators.room(kind).look(seed, times, watch.tell)
        watch.tell("")
        return {"cases": seen.cases, "verdict": seen.verdict, "seconds": watch.seconds}
    problem = problem_of(kind, seed, times)
    verdict = examine(problem, variants_of(kind, seed, SHARE), watch.tell)
    verdict.findings += [Finding("reference", "", 0, f"refused {text}") for text in problem.refused]
    watch.tell("")
    if covered_c.folder() is not None:
        covered_c.dump()
    return {"cases": problem.cases, "verdict": verdict, "seconds": watch.seconds}


def problem_of(kind: str, seed: int, times: int) -> Problem:
    """A seed's problem, with so many times as many parts as in the tests; not where the compiler optimises it."""
    return generators.KINDS[kind](seed, 1 if is_optimised(seed) else times)


class Watch:
    """The processor time that each phase takes, with that of the compilers that it starts."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.send = tell
        self.phase, self.began = "", sum(os.times()[:4])
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def tell(self, phase: str) -> None:
        """A phase begins."""
        now = sum(os.times()[:4])
        self.seconds[self.phase.partition(" ")[0]] += now - self.began
        self.phase, self.began = phase, now
        self.send(phase)


class Record:
    """The seeds that are done and what was found, in files of the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def done(self, kind: str) -> set[int]:
        """The seeds of a kind that need no second look."""
        path = self.folder / f"{kind}.done"
        lines = path.read_text().splitlines() if path.exists() else []
        return {int(line.split()[0]) for line in lines}

    def keep(self, kind: str, seed: int, cases: int, seconds: float, verdict: Verdict) -> None:
        """Write down what came of a seed; of a room that chooses engines, how many cases each of them ran."""
        judges = sorted(verdict.judges.items())
        engines = [f" {name.removesuffix(ENGINE)}={count}" for name, count in judges if name.endswith(ENGINE)]
        with (self.folder / f"{kind}.done").open("a") as file:
            file.write(f"{seed} {cases} {seconds:.1f} {len(verdict.findings)}{''.join(engines)}\n")
        for finding in verdict.findings:
            with (self.folder / "findings.jsonl").open("a") as file:
                file.write(json.dumps({"kind": kind, "seed": seed, **asdict(finding)}) + "\n")
        for doubt in verdict.doubts:
            with (self.folder / "doubts.txt").open("a") as file:
                file.write(f"{kind} {seed}: {doubt}\n")


def jobs_of(plan: Iterable[tuple[str, int]], times: int, end: float) -> Iterator[tuple[tuple[str, int], Any]]:
    """The work of each seed, until the time is over."""
    for kind, seed in plan:
        if time.monotonic() > end:
            return
        yield (kind, seed), lambda tell, kind=kind, seed=seed: look(kind, seed, times, tell)


def be_strict() -> None:
    """Poison memory before runs, and let faults of our own be errors, which users are only told of."""
    os.environ.setdefault("INTAGLIO_POISON", "1")
    os.environ.setdefault("INTAGLIO_FAULTS", "raise")


def import_all() -> None:
    """Import here what every child would import for itself, and ask the compiler for its version."""
    for module in pkgutil.walk_packages(intaglio.__path__, "intaglio."):
        if module.name.startswith(IMPORTED):
            importlib.import_module(module.name)
    find_compiler()


def hunt(plan: Iterable[tuple[str, int]], jobs: int, end: float, record: Record, times: int = 1) -> Tally:
    """Hunt until the plan is done or the time is over; an interrupt ends it too, and what was done is kept."""
    be_strict()
    import_all()
    tally = Tally()
    try:
        for (kind, seed), outcome in run_many(jobs_of(plan, times, end), jobs, SECONDS):
            _count(tally, kind, seed, outcome, record)
            if sys.stdout.isatty():
                print(
                    f"\r{tally.seeds} models, {tally.cases} cases, {tally.findings} findings; {kind} {seed}", end="  "
                )
                sys.stdout.flush()
            elif tally.seeds % 50 == 0:
                print(f"{tally.seeds} models, {tally.cases} cases, {tally.findings} findings", flush=True)
    except KeyboardInterrupt:
        print("\nstopped; a second call goes on from here")
    return tally


def _count(tally: Tally, kind: str, seed: int, outcome: Outcome, record: Record) -> None:
    result = outcome.result or {"cases": 1, "verdict": Verdict(), "seconds": {}}
    verdict: Verdict = result["verdict"]
    if outcome.fault:
        verdict.findings.append(Finding(outcome.phase, "", 0, outcome.fault))
    tally.seeds += 1
    tally.cases += result["cases"]
    tally.kinds[kind] += result["cases"]
    tally.findings += len(verdict.findings)
    tally.judges.update(verdict.judges)
    for phase, seconds in result["seconds"].items():
        tally.seconds[phase] += seconds
    record.keep(kind, seed, result["cases"], sum(result["seconds"].values()), verdict)
    for finding in verdict.findings[:3]:
        print(f"\n{kind} {seed}: {_short(str(finding))}", flush=True)


def _short(text: str) -> str:
    return text.rstrip() if len(text) < 800 else f"{text[:400]} ... {text[-400:].rstrip()}"
