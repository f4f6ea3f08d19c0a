"""`intaglio cache`: the compiled functions on disk."""

from __future__ import annotations

from intaglio.cli.options import Group
from intaglio.cli.terminal import JsonOption, print_json, print_pairs, print_text, size
from intaglio.targets.c import cache


def info(as_json: JsonOption = False) -> None:
    """Show where the cache is and what it holds."""
    found = cache.info()
    if as_json:
        print_json(
            {"folder": str(found.root), "units": found.units, "functions": found.functions, "bytes": found.size_bytes}
        )
        return
    print_pairs(
        [
            ("folder", found.root),
            ("functions", found.functions),
            ("libraries", found.units),
            ("size", size(found.size_bytes)),
        ]
    )


def clear(as_json: JsonOption = False) -> None:
    """Remove every compiled function; models compile again when they are next loaded."""
    before = cache.info()
    cache.clear()
    if as_json:
        print_json(
            {"folder": str(before.root), "removed_functions": before.functions, "removed_bytes": before.size_bytes}
        )
        return
    print_text(f"removed {before.functions} functions ({size(before.size_bytes)}) from {before.root}")


CACHE = Group("cache", "Show or clear the compiled functions on disk.", (("info", info), ("clear", clear)))
