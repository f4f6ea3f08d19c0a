"""The documentation tells the truth: its examples run, its links lead somewhere, its tables list what there is."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import intaglio
from intaglio import errors
from intaglio.cli import doctor
from intaglio.cli.app import COMMANDS, main
from intaglio.cli.demo_model import demo_model
from intaglio.cli.options import Group
from intaglio.passes import PIPELINE

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NAMES = [path.relative_to(ROOT).as_posix() for path in PAGES]
SOURCES = ROOT / "src" / "intaglio"


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    """The fenced code of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", read(name), re.MULTILINE | re.DOTALL)


def with_blocks(language: str) -> list[str]:
    return [name for name in NAMES if blocks(name, language)]


@pytest.fixture
def model_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the model that the examples use."""
    (tmp_path / "model.onnx").write_bytes(demo_model().SerializeToString())
    monkeypatch.chdir(tmp_path)
    return tmp_path


REGISTERING = "docs/new-kernels-and-targets.md"
"""The page whose examples add operators and kernels: it runs in a process of its own."""


def runnable() -> list[str]:
    return [name for name in with_blocks("python") if "<!-- source:" not in read(name) and name != REGISTERING]


def test_new_kernels_and_targets(tmp_path: Path) -> None:
    examples = list(blocks(REGISTERING, "python"))
    assert all(len(code.splitlines()) < 60 for code in examples)
    script = tmp_path / "examples.py"
    script.write_text("\n".join(examples))
    subprocess.run([sys.executable, str(script)], check=True)


@pytest.mark.parametrize("name", runnable())
def test_python_examples_run(name: str, model_folder: Path) -> None:
    namespace: dict[str, Any] = {}
    for index, code in enumerate(blocks(name, "python")):
        if "import torch" in code:
            pytest.importorskip("torch", reason="PyTorch is not installed")
        exec(compile(code, f"{name}, block {index}", "exec"), namespace)


def commands() -> list[str]:
    """The commands that end by themselves; tests/serve and tests/web start servers."""
    lines = [line for name in NAMES for block in blocks(name, "sh") for line in block.splitlines()]
    lines = [line for line in lines if not line.startswith(("intaglio serve ", "intaglio view "))]
    return sorted({shlex.join(shlex.split(line, comments=True)) for line in lines if line.startswith("intaglio ")})


@pytest.mark.parametrize("line", commands())
def test_commands_run(line: str, model_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(shlex.split(line)[1:])
    assert left.value.code == 0
    assert capsys.readouterr().out


def sessions(name: str) -> Iterator[tuple[str, str]]:
    """The commands of a page's console sessions, each with the output that is shown."""
    for block in blocks(name, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield command, shown


@pytest.fixture
def shell(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which `intaglio` and `python` are ours."""
    (model_folder / "model.onnx").unlink()
    programs = model_folder / "bin"
    programs.mkdir()
    for title, arguments in (("intaglio", "-m intaglio"), ("python", "")):
        (programs / title).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        (programs / title).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "160")
    return model_folder


@pytest.mark.parametrize("name", with_blocks("console"))
def test_console_sessions_show_what_is_printed(name: str, shell: Path) -> None:
    """Standard error comes before standard output, `[N]` is the exit status N, and `...` is anything."""
    for command, shown in sessions(name):
        done = subprocess.run(["bash", "-c", command], cwd=shell, capture_output=True, text=True, check=False)
        status = f"[{done.returncode}]\n" if done.returncode else ""
        errors = done.stderr if done.returncode else ""
        pattern = re.escape(shown).replace(re.escape("..."), ".*")
        assert re.fullmatch(pattern, errors + done.stdout + status, re.DOTALL), (command, done.stderr, done.stdout)


def check(test: doctest.DocTest) -> None:
    report: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert not report, "".join(report)


def documented_modules() -> list[str]:
    found = [info.name for info in pkgutil.walk_packages([str(SOURCES)], "intaglio.")]
    return [name for name in found if ">>> " in module_path(name).read_text(encoding="utf-8")]


def module_path(name: str) -> Path:
    path = ROOT / "src" / name.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@pytest.mark.parametrize("name", documented_modules())
def test_docstrings(name: str) -> None:
    tests = [test for test in doctest.DocTestFinder().find(importlib.import_module(name)) if test.examples]
    assert tests
    for test in tests:
        check(test)


def excerpts() -> Iterator[Any]:
    for name in NAMES:
        pattern = r"<!-- source: (\S+) -->\n```python\n(.*?)^```$"
        for source, code in re.findall(pattern, read(name), re.MULTILINE | re.DOTALL):
            yield pytest.param(source, code, id=f"{name}: {source}")


@pytest.mark.parametrize(("source", "code"), list(excerpts()))
def test_excerpts_are_what_the_code_says(source: str, code: str) -> None:
    assert code in read(source)


def anchors(name: str) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", read(name), re.MULTILINE)
    named = re.findall(r'<a id="([^"]+)"', read(name))
    return {*named, *(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles)}


@pytest.mark.parametrize("name", [*NAMES, "CHANGELOG.md"])
def test_links_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", read(name)):
        path, _, anchor = target.partition("#")
        if ":" in path:
            continue
        file = (ROOT / name).parent / path if path else ROOT / name
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file.resolve().relative_to(ROOT).as_posix()), target


def test_every_page_is_reached_from_the_index_and_the_readme() -> None:
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    for name, prefix in (("docs/index.md", ""), ("README.md", "docs/")):
        linked = set(re.findall(rf"\]\({prefix}([\w-]+\.md)\)", read(name)))
        assert pages <= linked, name


def first_column(name: str, heading: str) -> list[str]:
    """The code in the first column of the first table below a heading."""
    text = read(name).split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return [
        match for row in re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE) for match in re.findall(r"`([^`]+)`", row)
    ]


def test_options_of_load_are_all_listed() -> None:
    listed = first_column("docs/reference.md", "`intaglio.load(source, **options) -> Model`")
    assert listed == list(inspect.signature(intaglio.load).parameters)


def test_exceptions_are_all_listed() -> None:
    tree = ast.parse(inspect.getsource(errors))
    assert first_column("docs/reference.md", "Exceptions") == [n.name for n in tree.body if isinstance(n, ast.ClassDef)]


def test_passes_are_all_listed() -> None:
    assert first_column("docs/reference.md", "Passes") == [each.name for each in PIPELINE]


def test_commands_are_all_listed() -> None:
    listed = {line.split()[1] for line in first_column("docs/reference.md", "Command line")}
    assert listed == {each.name if isinstance(each, Group) else each[0] for each in COMMANDS}


def test_environment_variables_are_all_listed() -> None:
    listed = first_column("docs/environment.md", "Variables")
    assert set(doctor.VARIABLES) <= set(listed)
    used = {name for path in SOURCES.rglob("*.py") for name in re.findall(r"INTAGLIO_[A-Z]+", path.read_text())}
    assert used <= set(listed)
