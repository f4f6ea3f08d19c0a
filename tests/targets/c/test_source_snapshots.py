"""The C of ten small models, as it was: what people read changes only where somebody looks at it.

`python -m tests.targets.c.test_source_snapshots` writes the files anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.targets.c.test_source_file import MODELS, graph_of

from intaglio.runtime.engine.native import NativeEngine
from intaglio.targets import executor_for
from intaglio.targets.c.target import named_target
from intaglio.targets.c.toolchain import RUNTIME_FOLDER

SNAPSHOTS = Path(__file__).parent / "snapshots"
TARGET = "avx2"
_OF_A_FILE = re.compile(r"/\* A size or a buffer by its name in .*?\n((#undef \w+\n){5,})", re.DOTALL)
"""The text of a kernel that is a file: people read it there."""


def shown(name: str) -> str:
    """The file without the text of headers and of kernels that are files."""
    text = NativeEngine(graph_of(name), threads=1, executor=executor_for(target=named_target(TARGET))).source_file(name)
    for header in RUNTIME_FOLDER.glob("*.h"):
        lines = [line for line in header.read_text().splitlines() if not line.startswith('#include "')]
        text = text.replace("\n".join(lines).strip("\n"), f"/* {header.name} */")
    return _OF_A_FILE.sub("/* the text of a file of kernels/ */\n", text)


@pytest.mark.parametrize("name", MODELS)
def test_the_source_is_as_it_was(name: str) -> None:
    path = SNAPSHOTS / f"{name.replace(' ', '_')}.c"
    assert shown(name) == path.read_text(), f"look at it, then: python -m {__spec__.name}"


@pytest.mark.parametrize("name", MODELS)
def test_lines_keep_to_120_columns(name: str) -> None:
    path = SNAPSHOTS / f"{name.replace(' ', '_')}.c"
    assert [line for line in path.read_text().split("\n") if len(line) > 120] == []


if __name__ == "__main__":
    SNAPSHOTS.mkdir(exist_ok=True)
    for each in MODELS:
        (SNAPSHOTS / f"{each.replace(' ', '_')}.c").write_text(shown(each))
