"""Which lines of lowering and of the printers of C the sampled models reach, and which few seeds reach the most.

`python -m tests.hunt.covering --kind chains --seeds 0:50` lowers and runs models under a tracer and adds what they
reach to a file; `--report` lists what nobody reached; `--choose SECONDS` names the seeds that reach the most
in that time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import intaglio
from intaglio.errors import IntaglioError
from intaglio.onnx.reader import read_model
from intaglio.passes import simplify
from intaglio.runtime.engine.native import NativeEngine

from .__main__ import seeds_of
from .generators import KINDS
from .hunting import FOLDER
from .problem import Problem

ROOT = Path(intaglio.__file__).parent
PARTS = ("kernels/", "targets/c/")
"""Where lowering and the printers of C are."""
Line = tuple[str, int]


def reached(work: Callable[[], None]) -> set[Line]:
    """The lines of the parts that some work runs through."""
    found: set[Line] = set()
    names: dict[CodeType, str] = {}

    def within(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            found.add((names[frame.f_code], frame.f_lineno))
        return within

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code not in names:
            path = Path(code.co_filename)
            name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
            names[code] = name if name.startswith(PARTS) else ""
        return within if names[code] else None

    sys.settrace(enter)
    try:
        work()
    finally:
        sys.settrace(None)
    return found


def walk(problem: Problem, has_runs: bool) -> None:
    """Lower and run a problem's model, without a kept program; or only lower and print it, which needs no compiler."""
    graph = read_model(problem.model).graph
    simplify(graph)
    engine = NativeEngine(graph, 1)
    engine.functions()
    for feeds in problem.feeds if has_runs else ():
        engine.run([feeds[value.name] for value in graph.inputs])


def lines() -> dict[str, set[int]]:
    """The lines of functions in the parts, by file."""
    found = {}
    for path in sorted(path for part in PARTS for path in (ROOT / part).rglob("*.py")):
        module = compile(path.read_text(encoding="utf-8"), str(path), "exec")
        found[path.relative_to(ROOT).as_posix()] = set(_function_lines(module, is_module=True))
    return found


def _function_lines(code: CodeType, is_module: bool) -> Iterator[int]:
    is_function = not is_module and code.co_flags & 0x2  # CO_NEWLOCALS: no class body
    if is_function:
        yield from (line for _, _, line in code.co_lines() if line is not None and line != code.co_firstlineno)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _function_lines(constant, is_module=False)


def measure(kind: str, seeds: range, file: Path, has_runs: bool) -> None:
    """Add what some seeds reach to a file of one line for each seed."""
    for seed in seeds:
        began = time.monotonic()
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            problem = KINDS[kind](seed)
            found = reached(lambda problem=problem: _quietly(problem, has_runs))
        row = {"kind": kind, "seed": seed, "seconds": time.monotonic() - began, "lines": sorted(found)}
        with file.open("a") as out:
            out.write(json.dumps(row) + "\n")
        print(kind, seed, len(found), flush=True)


def _quietly(problem: Problem, has_runs: bool) -> None:
    try:
        walk(problem, has_runs)
    except IntaglioError as error:
        print(f"{type(error).__name__}: {str(error)[:200]}")


def rows(file: Path) -> list[dict[str, Any]]:
    """What was measured."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def report(file: Path) -> None:
    """Print the lines that no seed reached, file by file."""
    seen = {(name, number) for row in rows(file) for name, number in row["lines"]}
    total = missed = 0
    for name, numbers in lines().items():
        rest = sorted(number for number in numbers if (name, number) not in seen)
        total, missed = total + len(numbers), missed + len(rest)
        if rest:
            print(f"{name}: {len(rest)} of {len(numbers)}: {', '.join(_ranges(rest))}")
    print(f"{total - missed} of {total} lines are reached by {len(rows(file))} models")


def _ranges(numbers: list[int]) -> Iterator[str]:
    start = last = numbers[0]
    for number in (*numbers[1:], 1 << 30):
        if number > last + 1:
            yield str(start) if start == last else f"{start}-{last}"
            start = number
        last = number


COSTS = {"operators": 6.0, "chains": 5.0, "graphs": 6.0, "control": 1.4, "quantised": 1.0}
"""Seconds of processor time that a seed of a kind takes in the tests, mostly of the compiler; as measured once."""


def choose(file: Path, seconds: float) -> dict[str, list[int]]:
    """The seeds that reach the most lines in so many seconds: each time the one with the most new lines a second.

    Where no seed reaches more, the rest of the time goes to the kinds in turn.
    """
    found: dict[str, list[int]] = {}
    left = [(row["kind"], row["seed"], {tuple(line) for line in row["lines"]}) for row in rows(file)]
    seen: set[Any] = set()
    while left and seconds >= min(COSTS.values()):
        kind, seed, reached_lines = best = max(
            left, key=lambda item: (len(item[2] - seen) / COSTS[item[0]], -len(found.get(item[0], ())), -item[1])
        )
        left.remove(best)
        if seconds >= COSTS[kind]:
            seconds -= COSTS[kind]
            seen |= reached_lines
            found.setdefault(kind, []).append(seed)
    return {kind: sorted(seeds) for kind, seeds in sorted(found.items())}


def main() -> None:
    """Measure, report or choose."""
    parser = argparse.ArgumentParser(prog="python -m tests.hunt.covering", description=__doc__)
    parser.add_argument("--kind", choices=sorted(KINDS))
    parser.add_argument("--seeds", type=seeds_of, default=(0, 10), metavar="A:B")
    parser.add_argument("--file", type=Path, default=FOLDER / "covering.jsonl")
    parser.add_argument("--lower", action="store_true", help="only lower the models, which is quick")
    parser.add_argument("--report", action="store_true", help="list the lines that were not reached")
    parser.add_argument("--choose", type=float, default=0, metavar="SECONDS", help="name the seeds that reach the most")
    chosen = parser.parse_args()
    chosen.file.parent.mkdir(parents=True, exist_ok=True)
    if chosen.kind:
        measure(chosen.kind, range(*chosen.seeds), chosen.file, not chosen.lower)
    if chosen.report:
        report(chosen.file)
    if chosen.choose:
        print(json.dumps(choose(chosen.file, chosen.choose)))


if __name__ == "__main__":
    main()
