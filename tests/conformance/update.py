"""Write the lists of known failures anew: `python -m tests.conformance.update [--add] [ENGINE ...]`.

Tests that pass now are taken off the lists. A failure that is not on its list is only added with `--add`. Reasons that
were written by hand stay.
"""

from __future__ import annotations

import sys
from functools import partial

from intaglio.conformance.suite import ENGINES, cases, compile_all, engine_subject
from intaglio.conformance.workers import run_cases

from .known import LISTS, RANDOM, known_failures


def failures(engine: str) -> dict[str, str]:
    """The tests that fail on an engine, each with its reason; those that compare random numbers are not among them."""
    if engine == "native":
        compile_all(cases())
    results = run_cases(cases(), partial(engine_subject, engine))
    return {each.name: each.reason for each in results if each.outcome in ("failed", "declined")}


def update(engine: str, can_add: bool) -> bool:
    """Write one list; returns whether it holds every failure."""
    known, found = known_failures(engine), failures(engine)
    by_chance = {name: reason for name, reason in known.items() if reason.startswith(RANDOM)}
    new = {name: reason for name, reason in found.items() if name not in known}
    listed = {name: known[name] for name in known if name in found} | by_chance | (new if can_add else {})
    lines = [f"# Tests that fail on the {engine} engine, with the reason. The list only shrinks."]
    lines += [f"{name}: {reason}" for name, reason in sorted(listed.items())]
    (LISTS / f"{engine}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{engine}: {len(cases()) - len(found)} of {len(cases())} do not fail, {len(listed)} are listed")
    for name, reason in new.items():
        print(f"  {'added' if can_add else 'NEW FAILURE'} {name}: {reason}")
    return can_add or not new


def main(arguments: list[str]) -> int:
    """Update the lists of the named engines, or of all."""
    engines = [argument for argument in arguments if argument != "--add"] or list(ENGINES)
    complete = [update(engine, "--add" in arguments) for engine in engines]
    return 0 if all(complete) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
