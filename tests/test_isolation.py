"""What the package does to the machine: no socket is ever opened, and only the cache folder is written to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from intaglio.cli.demo_model import demo_model

WATCHED = """
import os, sys
from pathlib import Path

allowed = [Path(os.environ["INTAGLIO_CACHE"]).resolve(), Path("/dev/null")]
writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
changing = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.chmod"}

def is_allowed(path, folder=-1):
    if isinstance(path, int):
        return True
    start = Path(f"/proc/self/fd/{folder}") if folder >= 0 else Path()
    real = (start / os.fsdecode(path)).resolve()
    return any(real == root or root in real.parents for root in allowed)

def watch(event, arguments):
    if event.startswith(("socket.", "urllib.", "http.", "ftplib.", "smtplib.")):
        os.write(2, f"NETWORK {event} {arguments}\\n".encode())
        os._exit(97)
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & writes and not is_allowed(arguments[0]):
        os.write(2, f"WRITE {arguments}\\n".encode())
        os._exit(98)
    if event in changing and not is_allowed(arguments[0], arguments[-1]):
        os.write(2, f"CHANGE {event} {arguments}\\n".encode())
        os._exit(99)

sys.dont_write_bytecode = True
sys.addaudithook(watch)
"""

WORK = """
import numpy, intaglio, intaglio.backend, intaglio.compat
path = sys.argv[1]
for engine in ("native", "reference"):
    model = intaglio.load(path, engine=engine)
    assert model(numpy.zeros((2, 3, 32, 32), numpy.float32)).shape == (2, 10)
    model.explain()
session = intaglio.InferenceSession(path, providers=["CUDAExecutionProvider"])
session.run(None, {"image": numpy.zeros((1, 3, 32, 32), numpy.float32)})
from intaglio.cli.doctor import examine
from intaglio.cli.info import describe
describe(path)
assert not examine()["problems"], examine()["problems"]
assert "<iframe sandbox" in intaglio.view(path, weights=True, profiled=True, dims={"batch": 1})._repr_html_()
print("done")
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    for name in ("home", "work", "temporary"):
        (tmp_path / name).mkdir()
    folders = {"HOME": "home", "TMPDIR": "temporary", "INTAGLIO_CACHE": "cache", "XDG_CACHE_HOME": "home"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("INTAGLIO", "XDG", "PYTEST"))}
    return kept | {name: str(tmp_path / folder) for name, folder in folders.items()}


def run_watched(code: str, environment: dict[str, str], tmp_path: Path) -> subprocess.CompletedProcess[str]:
    model = tmp_path / "model.onnx"
    model.write_bytes(demo_model().SerializeToString())
    command = [sys.executable, "-c", WATCHED + code, str(model)]
    return subprocess.run(
        command, env=environment, cwd=tmp_path / "work", capture_output=True, text=True, timeout=300, check=False
    )


def test_no_socket_and_no_file_outside_the_cache(environment: dict[str, str], tmp_path: Path) -> None:
    result = run_watched(WORK, environment, tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "done\n"
    for name in ("home", "work", "temporary"):
        assert list((tmp_path / name).iterdir()) == [], f"something was left in the {name} folder"
    assert list((tmp_path / "cache" / "units").iterdir()), "nothing was compiled, so nothing was tested"
    for folder in (tmp_path / "cache", *(path for path in (tmp_path / "cache").rglob("*") if path.is_dir())):
        assert folder.stat().st_mode & 0o077 == 0, f"{folder} is not private"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("import socket; socket.socket()", 97),
        ("open(os.environ['HOME'] + '/file', 'w')", 98),
        ("os.mkdir(os.environ['HOME'] + '/folder')", 99),
    ],
)
def test_the_watch_itself_works(environment: dict[str, str], tmp_path: Path, code: str, status: int) -> None:
    assert run_watched(code, environment, tmp_path).returncode == status
