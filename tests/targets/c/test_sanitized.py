"""Sanitized code: a kernel that leaves its buffer is stopped, one that stays inside runs."""

import os
import shutil
import subprocess
import sys

import pytest

DRIVER = """
int32_t IG_FUNCTION(const ig_call *call)
{
    volatile uint8_t *const buffer = (uint8_t *)(call->arena + call->offset[0]);
    buffer[call->dim[0]] = 1;
    return 0;
}
"""

CODE = f"""
import sys
from intaglio.targets.c import cache
from intaglio.targets.c.compiler import find_compiler
from intaglio.targets.c.native import SegmentCode, invoke, plan_apart
from intaglio.targets.c.target import TARGETS
from intaglio.targets.c.units import CFunction

function = CFunction("driver", {DRIVER!r}, "-O1", ("ig.h",))
(loaded,) = cache.ensure([function], find_compiler(), TARGETS["c"])
segment = SegmentCode(loaded.address, [], [], 0, 0, 1)
place, *sizes = map(int, sys.argv[1:])
for size in sizes:
    offsets, total, gaps = plan_apart([size, 64])
    print(invoke(segment.prepare([place], offsets, total, 1, gaps=gaps), 0))
"""

HUGE_PAGE = 2 << 20


def run(folder, place, *sizes):
    library = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    if not os.path.isabs(library):
        pytest.skip("gcc has no libasan here")
    environment = {
        **os.environ, "LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0", "INTAGLIO_SANITIZE": "1",
        "INTAGLIO_CACHE": str(folder / "cache"), "CC": "gcc",
    }  # fmt: skip
    command = [sys.executable, "-c", CODE, str(place), *map(str, sizes)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="the test looks for gcc's sanitizer")
def test_an_access_beside_a_buffer_is_found(tmp_path):
    inside = run(tmp_path, 63, 64)
    assert inside.stdout.strip() == "0", inside.stderr
    for place in (64, -1, 64 + 100):
        outside = run(tmp_path, place, 64)
        assert outside.returncode != 0
        assert "use-after-poison" in outside.stderr


@pytest.mark.skipif(shutil.which("gcc") is None, reason="the test looks for gcc's sanitizer")
def test_memory_of_every_size_can_be_had(tmp_path):
    sizes = [HUGE_PAGE * pages + more for pages in (1, 2, 5) for more in (-8192, -1, 0, 1, 4096, 1_000_000)]
    done = run(tmp_path, 63, *sizes)
    assert done.stdout.split() == ["0"] * len(sizes), done.stderr
