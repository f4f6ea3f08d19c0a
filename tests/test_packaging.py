"""What a user gets from the wheel."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import intaglio

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src" / "intaglio"
PAGE_SOURCE = SOURCES / "web" / "ui"
"""What the page is built of, which no user of a wheel needs."""
MEGABYTE = 1_000_000
MOST_INSTALLED = 95 * MEGABYTE
MOST_WHEEL = 2.4 * MEGABYTE
"""Of which the page of `intaglio view` may take 0.3."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built in this environment: no isolation, so no downloads."""
    folder = tmp_path_factory.mktemp("wheel")
    code = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(folder)], cwd=ROOT, check=True, capture_output=True, timeout=300)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_is_pure_and_small(wheel: Path) -> None:
    assert wheel.name == f"intaglio-{intaglio.__version__}-py3-none-any.whl"
    assert wheel.stat().st_size < MOST_WHEEL


def test_the_wheel_holds_the_whole_package(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    wanted = [
        path
        for path in SOURCES.rglob("*")
        if path.suffix in (".py", ".pyi", ".c", ".h", ".js", ".mjs", ".html", ".typed") or path.name == "py.typed"
        if PAGE_SOURCE not in path.parents
    ]
    assert {path.relative_to(ROOT / "src").as_posix() for path in wanted} <= held
    assert "intaglio/web/assets/index.html" in held
    assert not [name for name in held if name.startswith("intaglio/web/ui/")]
    for name in ("py.typed", *(f"targets/c/runtime/{name}" for name in ("ig.h", "ig_math.h", "pool.c", "call.c"))):
        assert f"intaglio/{name}" in held
    assert any(name.endswith("licenses/LICENSE") for name in held)


def test_the_wheel_holds_nothing_else(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert tops == {"intaglio", f"intaglio-{intaglio.__version__}.dist-info"}


def test_version_on_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "intaglio", "--version"], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == f"intaglio {intaglio.__version__}"


def test_the_changelog_knows_the_version() -> None:
    assert f"## [{intaglio.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_core_needs_few_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert len(project["dependencies"]) == 4
    assert project["scripts"] == {"intaglio": "intaglio.cli:main"}


def test_printed_advice_is_true_without_a_package_index() -> None:
    """A checkout that is not published cannot be installed by its name, so no message says so."""
    for path in [*SOURCES.rglob("*.py"), ROOT / "README.md"]:
        assert "pip install intaglio" not in path.read_text(encoding="utf-8"), path


def test_nothing_but_the_core_is_imported_by_the_command_line() -> None:
    code = "import sys, intaglio.cli; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    for name in ("typer", "click", "rich", "pydantic", "pygments"):
        assert name not in done.stdout.split()


def test_the_source_archive_holds_the_examples(tmp_path: Path) -> None:
    code = "import sys; from hatchling.build import build_sdist; build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=True, capture_output=True, timeout=300)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as held:
        names = {name.partition("/")[2] for name in held.getnames()}
    for folder in ("examples", "docs", "tests", "src/intaglio"):
        wanted = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).glob("*.*") if path.is_file()}
        assert wanted <= names, folder


@pytest.mark.slow
def test_the_wheel_installs_into_an_empty_environment_and_is_light(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile", str(wheel)]
    subprocess.run(install, check=True, timeout=900)
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    installed = sum(path.lstat().st_size for path in packages.rglob("*") if path.is_file())
    assert installed < MOST_INSTALLED, f"{installed / MEGABYTE:.0f} MB"

    environment = {**os.environ, "INTAGLIO_CACHE": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONPATH", None)
    for arguments in (["-m", "intaglio", "--version"], ["-m", "intaglio", "demo"]):
        done = subprocess.run(
            [python, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
