"""What was hunted so far, over all runs and machines: a file of the tree, to which `--count` adds a record."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

COUNTED = Path(__file__).parent / "counted.json"
Counts = dict[str, dict[str, Any]]


def add(record: Path, counted: Path = COUNTED) -> Counts:
    """Add the seeds of a hunt's record that were not counted before; returns the counts of all kinds."""
    counts: Counts = json.loads(counted.read_text()) if counted.exists() else {}
    for path in sorted(record.glob("*.done")):
        counts[path.stem] = _sum(counts.get(path.stem, {}), path.read_text().splitlines())
    counted.write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n")
    return counts


def _sum(before: dict[str, Any], lines: Iterable[str]) -> dict[str, Any]:
    seeds = {seed for first, last in before.get("seeds", []) for seed in range(first, last + 1)}
    cases, findings = before.get("cases", 0), before.get("findings", 0)
    engines = Counter[str](before.get("engines", {}))
    for line in lines:
        seed, its_cases, _, its_findings, *its_engines = line.split()
        if int(seed) not in seeds:
            seeds.add(int(seed))
            cases, findings = cases + int(its_cases), findings + int(its_findings)
            engines.update({name: int(count) for name, _, count in (each.partition("=") for each in its_engines)})
    counts = {"cases": cases, "findings": findings, "seeds": ranges(seeds)}
    return counts | ({"engines": dict(engines)} if engines else {})


def ranges(seeds: Iterable[int]) -> list[list[int]]:
    """Seeds as pairs of the first and the last of each row without gaps."""
    rows = itertools.groupby(enumerate(sorted(seeds)), lambda pair: pair[1] - pair[0])
    members = [[seed for _, seed in row] for _, row in rows]
    return [[row[0], row[-1]] for row in members]
