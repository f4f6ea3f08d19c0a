"""`python -m tests.hunt`: see `--help`."""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from . import counted
from .compiling import compile_plainly, is_optimised
from .generators import KINDS, ROOMS, every_kind, room
from .hunting import FOLDER, SHARE, TIMES, Record, be_strict, hunt, problem_of, variants_of
from .judging import Variant
from .minimise import Minimiser, faults, sort_of, test_of


def plan_of(kinds: list[str], seeds: tuple[int, int], record: Record, again: bool) -> Iterator[tuple[str, int]]:
    """The kinds in turn, seed by seed, without what is done."""
    done = {kind: set() if again else record.done(kind) for kind in kinds}
    counters = itertools.count(seeds[0]) if seeds[1] < 0 else range(*seeds)
    return ((kind, seed) for seed in counters for kind in kinds if seed not in done[kind])


def seeds_of(text: str) -> tuple[int, int]:
    """`3`, `3:9` or `3:` (without end)."""
    first, colon, last = text.partition(":")
    return int(first or 0), int(last) if last else (-1 if colon else int(first) + 1)


def can_minimise(kind: str) -> bool:
    """Whether findings of a kind can be reduced: all models, and rooms that have a function for it."""
    return kind in KINDS or hasattr(room(kind), "minimise")


def minimise(kind: str, seed: int, times: int) -> int:
    """Print a test for each way to run a seed's model that shows a fault, or a script for each of its programs."""
    be_strict()
    if kind in ROOMS:
        if not is_optimised(seed):
            compile_plainly()
        return 1 if room(kind).minimise(seed, times) else 0
    problem = problem_of(kind, seed, times)
    ways: list[Variant | None] = [*variants_of(kind, seed, SHARE), None]
    shown = 0
    for variant in ways:
        found = faults(problem, variant)
        for sort in dict.fromkeys(map(sort_of, found)):
            finding = next(item for item in found if sort_of(item) == sort)
            small = Minimiser(problem, variant, finding).run()
            print(f"# {finding}\n{test_of(small, variant, f'{kind} {seed}')}", flush=True)
            shown += 1
        if shown:
            break
    return 1 if shown else 0


def main() -> int:
    """Hunt; the exit code tells whether something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.hunt", description="Look for wrong answers.")
    parser.add_argument("--kind", choices=every_kind(), action="append", help="what is made; all by default")
    parser.add_argument("--seeds", type=seeds_of, default=(0, -1), metavar="A:B", help="one seed or a range")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes")
    parser.add_argument("--minutes", type=float, default=1e9, help="when to stop")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the record of what was done is")
    parser.add_argument("--minimise", action="store_true", help="reduce what one seed shows to a few nodes, as a test")
    parser.add_argument("--times", type=int, default=TIMES, help="how many times as many parts as in the tests")
    parser.add_argument(
        "--compiled", type=int, metavar="N", help="every Nth program of PyTorch is compiled; every fifth by default"
    )
    parser.add_argument("--again", action="store_true", help="do seeds again that are done")
    parser.add_argument("--count", action="store_true", help="add the record to tests/hunt/counted.json, and stop")
    chosen = parser.parse_args()
    if chosen.count:
        for kind, counts in counted.add(chosen.folder).items():
            engines = "".join(f", {count} by the {name} engine" for name, count in counts.get("engines", {}).items())
            print(f"{kind}: {counts['cases']} cases{engines}, {counts['findings']} findings")
        return 0
    if chosen.compiled is not None:
        os.environ["HUNT_COMPILED"] = str(chosen.compiled)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if chosen.minimise:
        if not chosen.kind or not can_minimise(chosen.kind[0]):
            parser.error(f"--minimise takes one of these kinds: {', '.join(filter(can_minimise, every_kind()))}")
        return minimise(chosen.kind[0], chosen.seeds[0], chosen.times)
    for kind in set(chosen.kind or ()) & set(ROOMS):
        room(kind)  # imported once, and not by every child
    record = Record(chosen.folder)
    plan = plan_of(chosen.kind or every_kind(), chosen.seeds, record, chosen.again)
    began = time.monotonic()
    tally = hunt(plan, chosen.jobs, began + 60 * chosen.minutes, record, chosen.times)
    print(
        f"\n{tally.seeds} models with {tally.cases} cases, {time.monotonic() - began:.0f} s: {tally.findings} findings"
    )
    for name, count in (*tally.kinds.items(), *sorted(tally.judges.items())):
        print(f"  {name}: {count}")
    print("processor time:", ", ".join(f"{name} {seconds:.1f} s" for name, seconds in tally.seconds.items() if name))
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())
