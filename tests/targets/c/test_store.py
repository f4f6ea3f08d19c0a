"""The cache where something is missing, full, forbidden, damaged or killed: an error or a way out, never a ruin."""

import contextlib
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests import present

from intaglio.errors import CompileError
from intaglio.targets.c.cache import Cache, CFunction, Loaded
from intaglio.targets.c.compiler import Compiler, find_compiler
from intaglio.targets.c.store import Store
from intaglio.targets.c.target import TARGETS
from intaglio.targets.c.toolchain import StorageError
from intaglio.targets.errors import NoCompilerError

SOURCE_ROOT = str(Path(__file__).parents[3] / "src")
PLAIN = TARGETS["c"]

SCRIPT = """
import ctypes, sys
from pathlib import Path
from intaglio.targets.c.cache import Cache, CFunction
from intaglio.targets.c.compiler import find_compiler
from intaglio.targets.c.target import TARGETS
functions = [CFunction("f", f"int IG_FUNCTION(void) {{ return {i}; }}", headers=()) for i in range(4)]
print("start", flush=True)
loaded = Cache(Path(sys.argv[1])).ensure(functions, find_compiler(), TARGETS["c"])
print([ctypes.CFUNCTYPE(ctypes.c_int)(entry.address)() for entry in loaded])
"""
ANSWER = "start\n[0, 1, 2, 3]\n"


def constant(value: int) -> CFunction:
    return CFunction("constant", f"int IG_FUNCTION(void) {{ return {value}; }}", headers=())


def call(loaded: Loaded) -> int:
    import ctypes

    return ctypes.CFUNCTYPE(ctypes.c_int)(loaded.address)()


def result(cache: Cache, value: int, compiler: Compiler | None) -> int:
    (loaded,) = cache.ensure([constant(value)], compiler, PLAIN)
    return call(loaded)


def start(root: Path, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(root)],
        env={**os.environ, "PYTHONPATH": SOURCE_ROOT, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def leftovers(root: Path) -> list[str]:
    """What is under way, half-written or compiled in a cache."""
    return [str(path.relative_to(root)) for path in root.rglob("*") if path.parent != root and path.is_file()]


def fake_compiler(folder: Path, commands: str) -> Compiler:
    """A program that answers as a compiler does and does otherwise; `$out` is where it should write."""
    path = folder / "fakecc"
    path.write_text(f'#!/bin/sh\nwhile [ $# -gt 0 ]; do [ "$1" = -o ] && out="$2"; shift; done\n{commands}\n')
    path.chmod(0o700)
    return Compiler((str(path),), "fake", "gcc")


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary stores go where pytest cleans up, for a worker of pytest-xdist ends without doing so."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("temporary")))


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A small file system in memory, mounted with options, where this user may mount one."""
    folders: list[Path] = []

    def mount(options: str) -> Path:
        folder = tmp_path / f"mounted{len(folders)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("this user may not mount a file system")
        folders.append(folder)
        return folder

    yield mount
    for folder in folders:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_without_a_compiler_any_compilers_code_is_used(tmp_path: Path) -> None:
    compiler = present.compiler()
    other = replace(compiler, version="another version")
    assert result(Cache(tmp_path), 5, other) == 5
    assert result(Cache(tmp_path), 5, None) == 5
    assert Cache(tmp_path).info().units == 1


def test_with_a_compiler_only_its_own_code_is_used(tmp_path: Path) -> None:
    compiler = present.compiler()
    assert result(Cache(tmp_path), 5, replace(compiler, version="another version")) == 5
    with pytest.raises(CompileError, match="could not be started"):
        result(Cache(tmp_path), 5, replace(compiler, command=("/nonexistent",)))
    assert result(Cache(tmp_path), 5, compiler) == 5
    assert Cache(tmp_path).info().functions == 2


def test_without_a_compiler_what_is_missing_is_named(tmp_path: Path) -> None:
    result(Cache(tmp_path), 5, find_compiler())
    with pytest.raises(NoCompilerError, match=r"pip install ziglang.* lacks 1 of 2 functions: constant"):
        Cache(tmp_path).ensure([constant(5), constant(6)], None, PLAIN)


def test_without_a_compiler_damaged_code_is_not_loaded(tmp_path: Path) -> None:
    result(Cache(tmp_path), 5, find_compiler())
    (unit,) = (tmp_path / "units").iterdir()
    content = unit.read_bytes()
    unit.unlink()
    unit.write_bytes(content[: len(content) // 2])
    with pytest.raises(NoCompilerError):
        result(Cache(tmp_path), 5, None)
    assert not unit.exists()
    assert result(Cache(tmp_path), 5, find_compiler()) == 5


@pytest.mark.parametrize(
    ("commands", "message"),
    [
        ("kill -SEGV $$", "was killed by signal 11"),
        ("echo 'unit.c:1: fatal error: boom'; exit 1", "fatal error: boom"),
        ("echo garbage > $out", "cannot be loaded .*(invalid ELF|file too short)"),
        ("head -c 5000 /dev/urandom > $out", "cannot be loaded .*invalid ELF"),
        ("true", "wrote nothing"),
        ("echo half > $out; exit 1", "failed with status 1"),
    ],
)
def test_broken_compiler_is_an_error_and_leaves_nothing(commands: str, message: str, tmp_path: Path) -> None:
    root = tmp_path / "cache"
    with pytest.raises(CompileError, match=message) as caught:
        result(Cache(root), 1, fake_compiler(tmp_path, commands))
    assert "fakecc" in str(caught.value)
    assert leftovers(root) == []
    assert result(Cache(root), 1, find_compiler()) == 1


def test_read_only_folder_is_used_and_a_temporary_one_takes_the_rest(
    mounted: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    root = mounted("size=8m,mode=700")
    result(Cache(root), 5, find_compiler())
    subprocess.run(["mount", "-o", "remount,ro", str(root)], check=True)
    cache = Cache(root)
    assert result(cache, 5, None) == 5
    assert capfd.readouterr().err == ""
    assert result(cache, 6, find_compiler()) == 6
    assert result(cache, 7, find_compiler()) == 7
    told = capfd.readouterr().err
    assert told.count(f"{root} is read-only") == 1
    assert "INTAGLIO_CACHE" in told
    assert cache.info().functions == 1


@pytest.mark.parametrize("free", [0, 12 << 10, 20 << 10])
def test_full_disk_is_told_and_a_temporary_folder_used(
    free: int, mounted: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    root = mounted("size=512k,mode=700")
    Cache(root)
    os.truncate(root / "filler", fill(root / "filler") - free)
    assert result(Cache(root), 5, find_compiler()) == 5
    told = capfd.readouterr().err
    assert "No space left on device" in told
    assert "lost at exit" in told
    assert leftovers(root) == []
    (root / "filler").unlink()
    assert result(Cache(root), 5, find_compiler()) == 5
    assert capfd.readouterr().err == ""


def fill(path: Path) -> int:
    """Write a file until the disk is full; its size."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return path.stat().st_size


def test_no_room_anywhere_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "cache")],
        env={**os.environ, "PYTHONPATH": SOURCE_ROOT, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        preexec_fn=limit,
        check=False,
    )
    assert process.returncode == 1
    assert f"{StorageError.__module__}.StorageError" in process.stderr
    assert "set INTAGLIO_CACHE to a folder that can hold code" in process.stderr
    assert leftovers(tmp_path / "cache") == []
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
    assert start(tmp_path / "cache").communicate(timeout=60) == (ANSWER, "")


def test_folder_without_permission_to_run_is_read_by_way_of_copies(
    mounted: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    root = mounted("size=8m,mode=700,noexec")
    assert result(Cache(root), 5, find_compiler()) == 5
    told = capfd.readouterr().err
    assert f"{root} is mounted noexec" in told
    assert "INTAGLIO_CACHE" in told
    again = Cache(root)
    assert [result(again, 5, None), again.info().functions] == [5, 1]


def test_folder_of_root_can_be_read_by_everyone_it_lets(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make a folder of root's")
    Path("/tmp/intaglio-test-root").mkdir(exist_ok=True)
    root = Path("/tmp/intaglio-test-root") / tmp_path.name
    try:
        result(Cache(root), 5, find_compiler())
        subprocess.run(["chmod", "-R", "a+rX", str(root.parent)], check=True)
        status, text = as_nobody(lambda: result(Cache(root), 5, None))
        assert (status, text) == (0, "5")
        root.chmod(0o777)
        status, text = as_nobody(lambda: result(Cache(root), 5, None))
        assert status == 1
        assert "others may write" in text
    finally:
        shutil.rmtree(root.parent)


def as_nobody(work: Callable[[], object]) -> tuple[int, str]:
    """The status and answer of something done in a process of a user without rights."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 0
        try:
            os.setgid(65534)
            os.setuid(65534)
            text = str(work())
        except Exception as error:
            status, text = 1, str(error)
        os.write(writing, text.encode())
        os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text


def counting_compiler(folder: Path, delay: float = 0) -> tuple[str, Path]:
    """A compiler that keeps a line for each unit that it compiles."""
    real, log = present.compiler().command[0], folder / "log"
    path = folder / "countingcc"
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec {real} --version\necho $$ >> {log}\nsleep {delay}\nexec {real} "$@"\n'
    )
    path.chmod(0o700)
    return str(path), log


def test_processes_at_once_compile_once(tmp_path: Path) -> None:
    compiler, log = counting_compiler(tmp_path, 0.3)
    assert start(tmp_path / "alone", CC=compiler).communicate(timeout=60) == (ANSWER, "")
    units = len(log.read_text().split())
    processes = [start(tmp_path / "shared", CC=compiler) for _ in range(4)]
    for process in processes:
        assert process.communicate(timeout=60) == (ANSWER, "")
    assert len(log.read_text().split()) == 2 * units
    assert list((tmp_path / "shared" / "work").iterdir()) == []


def test_killed_process_leaves_nothing_that_matters(tmp_path: Path) -> None:
    compiler, log = counting_compiler(tmp_path, 2)
    process = start(tmp_path / "cache", CC=compiler)
    while not log.exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert list((tmp_path / "cache" / "work").iterdir()) != []
    assert start(tmp_path / "cache").communicate(timeout=60) == (ANSWER, "")
    assert list((tmp_path / "cache" / "work").iterdir()) == []
    assert all(stat.S_IMODE(unit.stat().st_mode) == 0o700 for unit in (tmp_path / "cache" / "units").iterdir())


def test_forked_child_leaves_the_temporary_folder_to_its_parent(tmp_path: Path) -> None:
    script = """
import os, sys
from intaglio.targets.c.store import temporary_store
folder = temporary_store().root
if os.fork() == 0:
    sys.exit()
os.wait()
print(folder.exists(), folder)
"""
    process = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": SOURCE_ROOT, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.startswith("True")
    assert list(tmp_path.iterdir()) == []


def test_programs_do_not_push_out_all_code(tmp_path: Path) -> None:
    """Programs hold weights; newer ones that are over half of the limit go before older units do."""
    store = Store(tmp_path / "cache")
    for place in range(4):
        unit, program = store.unit_path(f"{place:064}"), store.program_path(f"program{place}")
        unit.write_bytes(b"u" * 100)
        program.write_bytes(b"p" * 300)
        os.utime(unit, (place, place))
        os.utime(program, (100 + place, 100 + place))
    store.evict(1000)
    assert sorted(entry.name for entry in store.program_files()) == ["program2", "program3"]
    assert len(list(store.unit_files())) == 4
    store.evict(200)
    assert not list(store.program_files())
    assert sorted(entry.stat().st_size for entry in store.unit_files()) == [100, 100]
