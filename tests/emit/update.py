"""`python -m tests.emit.update`: write the snapshots of exported source anew."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.emit.models import MODELS
from tests.emit.readable_models import READABLE

import intaglio

SNAPSHOTS = Path(__file__).parent / "snapshots"


def main() -> None:
    for language, file in (("python", "model.py"), ("torch", "model.py"), ("zig", "graph.zig")):
        for name, make in (MODELS | (READABLE if language == "torch" else {})).items():
            with tempfile.TemporaryDirectory() as folder:
                intaglio.export(make(), language, folder)
                (SNAPSHOTS / f"{name}.{language}.txt").write_text((Path(folder) / file).read_text())
    for name, make in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            intaglio.export(make(), "c", folder, measure=False)
            text = "".join((Path(folder) / file).read_text() for file in ("model.h", "model.c"))
            (SNAPSHOTS / f"{name}.c.txt").write_text(text)


if __name__ == "__main__":
    main()
