"""Names in the documentation are there: modules, functions, files, commands, options, variables and make's targets."""

from __future__ import annotations

import builtins
import functools
import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from intaglio.cli.app import COMMANDS
from intaglio.cli.options import Function, Group, Option, declared_parameters, option_names

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NAMES = [path.relative_to(ROOT).as_posix() for path in PAGES]
BASES = (
    ROOT,
    ROOT / "src" / "intaglio",
    ROOT / "src" / "intaglio" / "targets" / "c",
    ROOT / "src/intaglio/emit/zig/library",
)
FOLDERS = ("src", "tests", "docs", "bench", "examples")


def prose(name: str) -> str:
    """A page without its fenced code, which other tests run."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def code_spans(name: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", prose(name))


def resolve(dotted: str) -> Any:
    """What a dotted name leads to, through modules and attributes; raises where there is nothing."""
    parts = dotted.split(".")
    found: Any = importlib.import_module(parts[0])
    for place, part in enumerate(parts[1:], 2):
        if hasattr(found, part):
            found = getattr(found, part)
        else:
            found = importlib.import_module(".".join(parts[:place]))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_dotted_names_lead_somewhere(name: str) -> None:
    for span in code_spans(name):
        for dotted in re.findall(r"(?<![\w./-])intaglio(?:\.[A-Za-z_]\w*)+(?![\w/-])", span):
            if not dotted.endswith((".onnx", ".so", ".py")):
                resolve(dotted)


@pytest.mark.parametrize("name", NAMES)
def test_files_are_there(name: str) -> None:
    for span in code_spans(name):
        for path in re.findall(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w./*-]+", span):
            assert list(ROOT.glob(path.rstrip("/."))), f"{name} names {path}"
        if re.fullmatch(r"[\w-]+(?:/[\w-]+)+\.(?:py|c|h|md|zig)", span):
            assert any((base / span).exists() for base in BASES), f"{name} names {span}"


@functools.cache
def commands() -> dict[str, list[Function]]:
    """The functions of each command; a group of commands has several."""
    found: dict[str, list[Function]] = {}
    for each in COMMANDS:
        name, functions = (
            (each.name, [f for _, f in each.commands]) if isinstance(each, Group) else (each[0], [each[1]])
        )
        found[name] = functions
    return found


def options_of(function: Function) -> Iterator[str]:
    yield "--help"
    for parameter, _, declared in declared_parameters(function):
        if isinstance(declared, Option):
            yield from option_names(declared)
            yield f"--no-{parameter.name.replace('_', '-')}"


def command_lines(name: str) -> Iterator[str]:
    """What stands behind `intaglio` in code spans and in fenced shell code."""
    text = (ROOT / name).read_text(encoding="utf-8")
    fenced = re.findall(r"^```(?:sh|console)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [line.removeprefix("$ ") for block in fenced for line in block.replace("\\\n", " ").splitlines()]
    for line in (*code_spans(name), *lines):
        if re.match(r"intaglio [a-z]", line):
            yield re.split(r"[|;#]|&&", line.removeprefix("intaglio "))[0]


@pytest.mark.parametrize("name", NAMES)
def test_commands_and_options_are_there(name: str) -> None:
    for line in command_lines(name):
        command, *words = line.split()
        assert command in commands(), f"{name} names `intaglio {line}`"
        known = {option for function in commands()[command] for option in options_of(function)}
        for word in words:
            if word.startswith("--"):
                assert re.split(r"[=,\[]", word)[0].rstrip(".") in known, f"{name} names `intaglio {line}`"


def makefile_targets() -> set[str]:
    return set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", NAMES)
def test_targets_of_make_are_there(name: str) -> None:
    for span in code_spans(name):
        found = re.match(r"make ([a-z][\w-]*)", span)
        if found is not None and found[1] != "test":  # which is also a target of what is exported
            assert found[1] in makefile_targets(), f"{name} names `{span}`"


@pytest.mark.parametrize("name", NAMES)
def test_modules_that_are_run_are_there(name: str) -> None:
    for span in code_spans(name):
        for module in re.findall(r"python -m ((?:intaglio|bench|tests)[\w.]*)", span):
            path = ROOT / ("src" if module.startswith("intaglio") else "") / module.replace(".", "/")
            assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), f"{name} names `{span}`"


@functools.cache
def sources() -> str:
    """All code of the project but this file, as text."""
    paths = [ROOT / "Makefile", ROOT / "pyproject.toml"]
    for folder in ("src", "tests", "bench"):
        paths += [path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".c", ".h", ".zig", ".js")]
    return "\n".join(path.read_text(encoding="utf-8") for path in paths if path != Path(__file__))


@functools.cache
def called_names() -> frozenset[str]:
    """Every name that the code defines or calls."""
    return frozenset(re.findall(r"(?:\bdef |\bclass |\.)(\w+)", sources())) | frozenset(dir(builtins))


@pytest.mark.parametrize("name", NAMES)
def test_names_in_capitals_are_there(name: str) -> None:
    """Environment variables, macros and constants."""
    for span in code_spans(name):
        for word in re.findall(r"(?<![\w-])(?:INTAGLIO|IG)_[A-Z_]+\b", span):
            assert re.search(rf"\b{word}\b", sources()), f"{name} names `{span}`"


def layout_rows() -> Iterator[tuple[str, str]]:
    """The files that the tables of the layout list, each with its folder in the package."""
    text = (ROOT / "docs" / "layout.md").read_text(encoding="utf-8")
    for section in text.split("\n## ")[1:]:
        title, _, rest = section.partition("\n")
        room = ""
        for row in re.findall(r"^\| (.*?) \|$", rest, re.MULTILINE):
            cells = row.split(" | ")
            if title == "runtime":
                room, cells = re.sub(r"[`\s]", "", cells[0]) or room, cells[1:]
            for file in re.findall(r"`([\w/]+)`", cells[0]):
                yield f"{title}/{room}".rstrip("/"), file


def test_files_of_the_layout_are_there() -> None:
    package = ROOT / "src" / "intaglio"
    gone = [
        f"{folder}/{file}"
        for folder, file in layout_rows()
        if not any((base / file).is_dir() or list(base.glob(f"{file}.*")) for base in (package / folder, package))
    ]
    assert not gone


@pytest.mark.parametrize("name", [each for each in NAMES if each not in ("docs/aten.md", "docs/support.md")])
def test_functions_are_there(name: str) -> None:
    """Names that are written as calls, `load(...)` or `model.explain()`, are defined or used somewhere in the code."""
    for span in code_spans(name):
        found = re.fullmatch(r"(?:[\w]+\.)*([a-z_]\w+)\([^`]*\)", span)
        if found is not None:
            assert found[1] in called_names(), f"{name} names `{span}`"


def test_the_metadata_names_no_site_of_its_own() -> None:
    """The documentation comes with the package: there is no site that a link could lead to."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project.get("urls", {}) == {}
