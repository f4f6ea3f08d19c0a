"""The page on moving from ONNX Runtime lists every public name of the real module, with its true state."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
from tests.compat.test_options import EFFECTS

import intaglio
from intaglio import compat
from intaglio.compat import options

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "onnxruntime.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([^`]+)` \| ([^|]*) \| ([^|]*) \|$", re.MULTILINE)
KINDS = ["", "InferenceSession", "SessionOptions", "RunOptions", "IOBinding", "OrtValue"]
STATES = {"works", "differs", "refused"}


def table(kind: str, title: str = "names", before: str = "onnxruntime") -> dict[str, tuple[str, str]]:
    """The rows of one table: name, state or values, note."""
    name = f"{before}.{kind}".strip(".")
    _, _, rest = PAGE.partition(f"<!-- {title}: {name} -->\n")
    assert rest, name
    return {row[0]: (row[1], row[2]) for row in ROW.findall(rest.partition(f"<!-- /{title} -->")[0])}


def public(holder: Any) -> set[str]:
    return {name for name in dir(holder) if not name.startswith("_")}


@pytest.mark.parametrize("kind", KINDS)
def test_every_name_of_the_real_module_is_listed(kind: str) -> None:
    real = getattr(onnxruntime, kind) if kind else onnxruntime
    rows = table(kind)
    assert set(rows) == public(real) - _submodules(kind)
    for name, (state, note) in rows.items():
        assert state in STATES, name
        assert note.strip() or state == "works", f"{name} is {state} and no note says how"


def _submodules(kind: str) -> set[str]:
    """What other tests have imported of the package."""
    return set() if kind else {"quantization", "tools", "transformers", "backend", "datasets"}


@pytest.fixture(scope="module")
def standin() -> set[str]:
    """The names of the package that `install` puts in place."""
    code = "import json, intaglio.compat; print(json.dumps(dir(intaglio.compat.install())))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("kind", KINDS)
def test_names_that_work_are_there(kind: str, standin: set[str]) -> None:
    ours = public(getattr(compat, kind)) if kind else standin
    assert set(table(kind)) <= ours


@pytest.mark.parametrize("kind", ["InferenceSession", "IOBinding", "OrtValue"])
def test_parameters_are_those_of_the_real_methods(kind: str) -> None:
    for name, (state, _) in table(kind).items():
        if state == "refused":
            continue
        ours = inspect.signature(getattr(getattr(compat, kind), name)).parameters
        theirs = inspect.signature(getattr(getattr(onnxruntime, kind), name)).parameters
        assert list(ours)[: len(theirs)] == list(theirs), name


def refused() -> list[tuple[str, str]]:
    return [(kind, name) for kind in KINDS for name, (state, _) in table(kind).items() if state == "refused"]


@pytest.mark.parametrize(("kind", "name"), refused())
def test_refused_names_raise(kind: str, name: str) -> None:
    if f"{kind}.{name}" in EFFECTS:
        return  # tried there
    holder = compat.OrtValue([]) if kind == "OrtValue" else compat
    target = getattr(holder, name)
    parameters = inspect.signature(target).parameters.values()
    needed = [each for each in parameters if each.default is each.empty and "VAR" not in each.kind.name]
    with pytest.raises(intaglio.UnsupportedError):
        target(*[None for _ in needed])


@pytest.mark.parametrize("name", ["SESSION_ENTRIES", "RUN_ENTRIES"])
def test_entries_are_all_listed(name: str) -> None:
    known = getattr(options, name)
    listed = table("", "entries", name)
    assert list(listed) == list(known)
    for entry, values in known.items():
        expected = "any" if values is None else ", ".join(f"`{value}`" for value in values)
        assert listed[entry][0] == expected


ENUMERATIONS = [name for name in public(compat) & public(onnxruntime) if hasattr(getattr(compat, name), "__members__")]


@pytest.mark.parametrize("kind", sorted(ENUMERATIONS))
def test_enumerations_have_the_same_members(kind: str) -> None:
    ours, theirs = (getattr(package, kind).__members__ for package in (compat, onnxruntime))
    assert {name: int(each) for name, each in ours.items()} == {name: int(each) for name, each in theirs.items()}
