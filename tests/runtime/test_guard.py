"""A mapped file that is cut short does not end the process that reads it; every other bus error does what it did."""

import mmap
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from intaglio.errors import LoadError
from intaglio.onnx import mapped
from intaglio.runtime.engine.guard import guard_files

PAGES = 64
SIZE = PAGES * mmap.PAGESIZE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    assert guard_files()
    found = tmp_path / "file"
    found.write_bytes(b"\1" * SIZE)
    return found


def opened(path: Path) -> memoryview:
    with path.open("rb") as file:
        return mapped.file_bytes(file.fileno(), path)


def test_what_is_gone_reads_as_zero_and_is_known_to_be_lost(path: Path) -> None:
    data = opened(path)
    array = np.frombuffer(data, np.uint8)
    assert array.sum() == SIZE
    os.truncate(path, SIZE // 2)
    os.utime(path, ns=(0, 0))
    assert array[: SIZE // 2].sum() == SIZE // 2
    assert array[SIZE // 2 :].sum() == 0
    path.unlink()  # so that only the guard can know
    with pytest.raises(LoadError, match="was rewritten while its weights were in use"):
        mapped.check_bytes(data)


def test_a_file_that_was_only_removed_is_whole(path: Path) -> None:
    data = opened(path)
    path.unlink()
    assert np.frombuffer(data, np.uint8).sum() == SIZE
    mapped.check_bytes(data)


def test_a_loss_is_of_one_file(tmp_path: Path, path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"\2" * (SIZE - 100))  # its last page is not full
    first, second = opened(path), opened(other)
    os.truncate(path, 0)
    assert sum(first) == 0
    assert sum(second) == 2 * (SIZE - 100)
    mapped.check_bytes(second)
    with pytest.raises(LoadError):
        mapped.check_bytes(first)


def test_entries_are_used_again(path: Path) -> None:
    for _ in range(3):
        path.write_bytes(b"\1" * SIZE)
        data = opened(path)
        mapped.check_bytes(data)
        os.truncate(path, 0)
        assert data[SIZE - 1] == 0
        with pytest.raises(LoadError):
            mapped.check_bytes(data)
        del data


def test_without_a_guard_files_are_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "_guards", [])
    data = opened(path)
    os.truncate(path, 0)
    assert sum(data) == SIZE
    mapped.check_bytes(data)


CODE = """
import faulthandler, mmap, os, signal, sys
from pathlib import Path
from intaglio.runtime.engine.guard import guard_files
from intaglio.onnx import mapped

way, path = sys.argv[1], Path(sys.argv[2])
if "before" in way:
    faulthandler.enable()
assert guard_files()
with path.open("rb") as file:
    data = mapped.file_bytes(file.fileno(), path)
if "after" in way:
    faulthandler.enable()
    with path.open("rb") as file:
        more = mapped.file_bytes(file.fileno(), path)  # a file that is mapped brings the guard back
with path.open("rb") as file:
    foreign = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
os.truncate(path, 0)
assert sum(data) == 0
print("alive", flush=True)
os.kill(os.getpid(), signal.SIGBUS) if "sent" in way else foreign[0]
print("still alive", flush=True)
"""


@pytest.mark.skipif(os.environ.get("INTAGLIO_SANITIZE") == "1", reason="the sanitizer ends the process in its own way")
@pytest.mark.parametrize("way", ["read", "sent", "read before", "sent before", "read after", "sent after"])
def test_other_bus_errors_end_the_process_as_ever(path: Path, way: str) -> None:
    done = subprocess.run([sys.executable, "-c", CODE, way, str(path)], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("alive\n", -signal.SIGBUS), done.stderr
    assert ("Fatal Python error: Bus error" in done.stderr) == (way.count(" ") > 0)
