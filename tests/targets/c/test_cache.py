import importlib.util
import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests import present

from intaglio.errors import CompileError
from intaglio.targets.c.cache import Cache, CFunction, Loaded
from intaglio.targets.c.compiler import Compiler, find_compiler
from intaglio.targets.c.store import Store
from intaglio.targets.c.target import TARGETS, host_target, named_target
from intaglio.targets.c.units import Key, function_key, partition

SOURCE_ROOT = str(Path(__file__).parents[3] / "src")
PLAIN = TARGETS["c"]

COMPILE_SCRIPT = """
import sys
from pathlib import Path
from intaglio.targets.c.cache import Cache, CFunction
from intaglio.targets.c.compiler import find_compiler
from intaglio.targets.c.target import TARGETS
functions = [CFunction("race", f"int IG_FUNCTION(void) {{ return {i}; }}", headers=()) for i in range(6)]
loaded = Cache(Path(sys.argv[1])).ensure(functions, find_compiler(), TARGETS["c"])
print(len({entry.address for entry in loaded}))
"""


def constant(value: int) -> CFunction:
    return CFunction("constant", f"int IG_FUNCTION(void) {{ return {value}; }}", headers=())


def call(loaded: Loaded) -> int:
    import ctypes

    return ctypes.CFUNCTYPE(ctypes.c_int)(loaded.address)()


def python(script: str, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": SOURCE_ROOT, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_functions_come_back_in_order_and_stay(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    functions = [constant(i) for i in (3, 1, 4, 1)]
    assert [call(entry) for entry in cache.ensure(functions, find_compiler(), PLAIN)] == [3, 1, 4, 1]
    units = cache.info().units
    again = Cache(tmp_path / "cache")
    broken = replace(present.compiler(), command=("/nonexistent",))
    assert [call(entry) for entry in again.ensure(functions, broken, PLAIN)] == [3, 1, 4, 1]
    assert again.info().units == units
    assert again.info().functions == 3


def test_progress_counts_compiled_functions(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    functions = [constant(i) for i in range(50)]
    Cache(tmp_path).ensure(functions, find_compiler(), PLAIN, lambda done, total: seen.append((done, total)))
    assert seen[-1] == (50, 50)
    assert len(seen) >= 3


def test_key_depends_on_everything() -> None:
    compiler, function = present.compiler(), constant(1)
    keys = {
        function_key(function, compiler, PLAIN),
        function_key(constant(2), compiler, PLAIN),
        function_key(replace(function, optimize="-O1"), compiler, PLAIN),
        function_key(replace(function, headers=("ig.h",)), compiler, PLAIN),
        function_key(function, replace(compiler, version="other"), PLAIN),
        function_key(function, compiler, TARGETS["sse2"]),
        function_key(function, compiler, replace(PLAIN, flags=("-DX",))),
        function_key(function, compiler, replace(PLAIN, is_quick=True)),
    }
    assert len(keys) == 8
    assert len({key.source for key in keys}) == 7  # all but the other compiler
    assert len({key.compiler for key in keys}) >= 2


def test_folders_are_private(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir(mode=0o777)
    (tmp_path / "cache").chmod(0o777)
    cache = Cache(tmp_path / "cache")
    cache.ensure([constant(1)], find_compiler(), PLAIN)
    for folder in [cache.root, *(path for path in cache.root.rglob("*") if path.is_dir())]:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
    assert list((cache.root / "work").iterdir()) == []


def test_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.getuid() == 0:
        os.chown(tmp_path, 12345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(CompileError, match="belongs to another user"):
        Cache(tmp_path)


@pytest.mark.parametrize("damage", [b"", b"\x7fELF garbage", None])
def test_damaged_unit_is_compiled_again(damage: bytes | None, tmp_path: Path) -> None:
    Cache(tmp_path).ensure([constant(7)], find_compiler(), PLAIN)
    for unit in (tmp_path / "units").iterdir():
        content = bytearray(unit.read_bytes())
        content[len(content) // 2] ^= 1
        unit.unlink()  # it is mapped into this process
        unit.write_bytes(content if damage is None else damage)
    (loaded,) = Cache(tmp_path).ensure([constant(7)], find_compiler(), PLAIN)
    assert call(loaded) == 7


@pytest.mark.parametrize("text", ["", "../../evil symbol", "\xff", "0" * 64 + " constant_000000000000"])
def test_damaged_index_is_compiled_again(text: str, tmp_path: Path) -> None:
    Cache(tmp_path).ensure([constant(8)], find_compiler(), PLAIN)
    for entry in (tmp_path / "index").rglob("*"):
        if entry.is_file():
            entry.write_text(text, encoding="latin-1")
    (loaded,) = Cache(tmp_path).ensure([constant(8)], find_compiler(), PLAIN)
    assert call(loaded) == 8


def test_two_processes_race(tmp_path: Path) -> None:
    processes = [python(COMPILE_SCRIPT, str(tmp_path)) for _ in range(3)]
    for process in processes:
        output, errors = process.communicate(timeout=60)
        assert (output.strip(), errors) == ("6", "")


def test_oldest_units_are_removed(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.ensure([constant(1)], find_compiler(), PLAIN)
    cache.size_limit = cache.info().size_bytes
    for unit in (tmp_path / "units").iterdir():
        os.utime(unit, (1, 1))
    cache.ensure([constant(2)], find_compiler(), PLAIN)
    assert (cache.info().units, cache.info().functions) == (1, 1)
    assert call(Cache(tmp_path).ensure([constant(1)], find_compiler(), PLAIN)[0]) == 1


def test_clear(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    (loaded,) = cache.ensure([constant(1)], find_compiler(), PLAIN)
    cache.clear()
    assert (cache.info().units, cache.info().functions, call(loaded)) == (0, 0, 1)


def test_compile_error_names_command_and_message(tmp_path: Path) -> None:
    bad = CFunction("bad", "int IG_FUNCTION(void) { return missing_name; }", headers=())
    with pytest.raises(CompileError, match="missing_name") as caught:
        Cache(tmp_path).ensure([bad, constant(1)], find_compiler(), PLAIN)
    assert "command:" in str(caught.value)
    assert list((tmp_path / "work").iterdir()) == []
    assert call(Cache(tmp_path).ensure([constant(1)], find_compiler(), PLAIN)[0]) == 1


def test_warnings_are_errors(tmp_path: Path) -> None:
    source = "int IG_FUNCTION(int x) { if (x = 1) return 2; return 3; }"
    with pytest.raises(CompileError, match="parentheses"):
        Cache(tmp_path).ensure([CFunction("warned", source, headers=())], find_compiler(), PLAIN)


@pytest.mark.parametrize("hint", ["", "A", "a-b", "a b", "1a", "é", "a;b"])
def test_symbol_hints_are_identifiers(hint: str) -> None:
    with pytest.raises(CompileError, match="symbol hint"):
        CFunction(hint, "")


def test_partition_is_balanced_and_splits_levels() -> None:
    functions = {Key(str(i), ""): CFunction("f", "x" * (i % 7 + 1)) for i in range(60)}
    functions[Key("driver", "")] = CFunction("driver", "x", "-O1")
    units = partition(functions, 2)
    assert sorted(key.source for unit in units for key in unit) == sorted(key.source for key in functions)
    assert all(len({function.optimize for function in unit.values()}) == 1 for unit in units)
    lengths = [sum(len(f.source) for f in unit.values()) for unit in units if Key("driver", "") not in unit]
    assert len(lengths) == 3
    assert max(lengths) - min(lengths) <= 7


def test_functions_are_looked_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    functions = [constant(i) for i in range(60)]
    Cache(tmp_path).ensure(functions, find_compiler(), PLAIN)
    looked: list[object] = []
    opened: list[str] = []
    find, load = Store.find, Store.load
    monkeypatch.setattr(Store, "find", lambda self, key: (looked.append(key), find(self, key))[1])
    monkeypatch.setattr(Store, "load", lambda self, unit: (opened.append(unit), load(self, unit))[1])
    cache = Cache(tmp_path)
    cache.ensure(functions, find_compiler(), PLAIN)
    assert len(looked) == len(set(looked)) == 60
    assert len(opened) == len(set(opened)) < 60
    cache.ensure(functions, find_compiler(), PLAIN)
    assert len(looked) == 60


@pytest.mark.skipif(importlib.util.find_spec("ziglang") is not None, reason="the ziglang package is a compiler")
def test_no_compiler_explains_the_remedy(tmp_path: Path) -> None:
    script = "from intaglio.targets.c.library import runtime\nruntime()"
    environment = {"PATH": str(tmp_path), "INTAGLIO_CACHE": str(tmp_path / "cache"), "CC": ""}
    _, errors = python(script, **environment).communicate(timeout=60)
    assert "pip install ziglang" in errors


@pytest.mark.parametrize("command", ["/nonexistent/cc", "'unclosed", "   "])
def test_wrong_cc_is_an_error(command: str, tmp_path: Path) -> None:
    script = "from intaglio.targets.c.compiler import find_compiler\nfind_compiler()"
    _, errors = python(script, CC=command).communicate(timeout=60)
    assert "CC=" in errors
    assert "CompileError" in errors


def test_read_only_home_uses_a_private_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where a folder should be")
    script = """
import os, stat
from intaglio.targets.c.cache import default_cache
print(oct(stat.S_IMODE(os.stat(default_cache().root).st_mode)))
"""
    environment = {"XDG_CACHE_HOME": str(tmp_path / "file"), "INTAGLIO_CACHE": "", "TMPDIR": str(tmp_path)}
    output, errors = python(script, **environment).communicate(timeout=60)
    assert "no cache folder" in errors
    assert "INTAGLIO_CACHE" in errors
    assert output.strip() == "0o700"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_chosen_folder_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where a folder should be")
    script = "from intaglio.targets.c.cache import default_cache\ndefault_cache()"
    _, errors = python(script, INTAGLIO_CACHE=str(tmp_path / "file" / "cache")).communicate(timeout=60)
    assert "CompileError: INTAGLIO_CACHE=" in errors


INTERRUPTED = """
import sys
from pathlib import Path
from intaglio.targets.c.cache import Cache, CFunction
from intaglio.targets.c.compiler import Compiler
from intaglio.targets.c.target import TARGETS
slow = Compiler((sys.argv[2],), "slow", "gcc")
functions = [CFunction("f", f"int IG_FUNCTION(void) {{ return {i}; }}", headers=()) for i in range(4)]
print("start", flush=True)
Cache(Path(sys.argv[1])).ensure(functions, slow, TARGETS["c"])
"""


def test_interrupt_kills_the_compiler(tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/pids\nexec sleep 3600\n")
    slow.chmod(0o700)
    process = python(INTERRUPTED, str(tmp_path / "cache"), str(slow))
    assert process.stdout is not None
    process.stdout.readline()
    while not (tmp_path / "pids").exists() or not (tmp_path / "pids").read_text():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert "KeyboardInterrupt" in errors
    for pid in (tmp_path / "pids").read_text().split():
        assert not Path(f"/proc/{pid}").exists()
    assert list((tmp_path / "cache" / "work").iterdir()) == []
    assert list((tmp_path / "cache" / "units").iterdir()) == []


def test_slow_compiler_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nsleep 30\n")
    slow.chmod(0o700)
    monkeypatch.setattr("intaglio.targets.c.compiler.TIME_LIMIT_SECONDS", 0.2)
    with pytest.raises(CompileError, match="longer than"):
        Cache(tmp_path / "cache").ensure([constant(1)], Compiler((str(slow),), "slow", "gcc"), PLAIN)


def test_target_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    host_target.cache_clear()
    monkeypatch.setenv("INTAGLIO_TARGET", "c")
    assert host_target().name == "c"
    host_target.cache_clear()
    monkeypatch.setenv("INTAGLIO_TARGET", "z80")
    with pytest.raises(CompileError, match="unknown target 'z80'"):
        host_target()
    monkeypatch.delenv("INTAGLIO_TARGET")
    host_target.cache_clear()


def test_target_that_the_processor_lacks() -> None:
    lacking = "neon" if named_target("c") and os.uname().machine == "x86_64" else "avx2"
    with pytest.raises(CompileError, match="lacks"):
        named_target(lacking)


def test_targets_describe_lanes() -> None:
    assert {name: target.lanes for name, target in TARGETS.items()} == {
        "c": 4,
        "sse2": 4,
        "avx2": 8,
        "avx512": 16,
        "neon": 4,
        "wasm": 4,
    }


def test_saved_code_is_that_of_the_compiler_that_made_what_runs(tmp_path: Path) -> None:
    """Two compilers have left code of one function in the cache; a saved model takes that of its own."""
    own = find_compiler()
    assert own is not None
    function = CFunction("constant", "int IG_FUNCTION(void) { return VALUE; }", headers=())
    compilers = [replace(own, command=(*own.command, f"-DVALUE={number}")) for number in range(4)]
    cache = Cache(tmp_path / "cache")
    for compiler in compilers:
        Cache(tmp_path / "cache").ensure([function], compiler, PLAIN)
    libraries: list[bytes] = []
    for compiler in compilers:
        ((unit, _),) = Store(tmp_path / "cache").find(function_key(function, compiler, PLAIN))
        ((library, _),) = cache.machine_code([function], PLAIN, compiler)
        assert library == Store(tmp_path / "cache").read_unit(unit)
        libraries.append(library)
    assert len(set(libraries)) == len(compilers)
