"""What more than one process costs: a row in one process by the rows of its batch, in processor time, and the memory of
several processes with one model."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import intaglio
from intaglio.cli.demo_model import demo_model

ROUNDS = 5
BATCHES = (1, 16, 64, 256)

HOLDER = """
import sys, numpy, intaglio
model = intaglio.load(sys.argv[1], threads=1, shared_weights=sys.argv[2] == "shared")
model(numpy.ones((1, 2048), numpy.float32))
print("ready", flush=True)
sys.stdin.readline()
"""


def one_process(model: intaglio.Model, images: Any) -> dict[int, float]:
    """Microseconds of processor time for a row, by the rows of a batch; the sizes take turns."""
    found: dict[int, list[float]] = {size: [] for size in BATCHES}
    for _ in range(ROUNDS):
        for size, times in found.items():
            start = time.process_time()
            for first in range(0, 256, size):
                model(images[first : first + size])
            times.append((time.process_time() - start) / 256 * 1e6)
    return {size: statistics.median(times) for size, times in found.items()}


def held(pid: int) -> float:
    """Megabytes that a process adds to the memory of the machine."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = re.search(r"^Pss: +(\d+) kB", text, re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def memory(how: str, count: int) -> float:
    """Megabytes of so many processes with one model of 32 MB of weights, together."""
    from tests.runtime.test_shared_weights import network

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.onnx"
        path.write_bytes(network().SerializeToString())
        environment = os.environ | {"INTAGLIO_CACHE": f"{folder}/cache"}
        subprocess.run([sys.executable, "-m", "intaglio", "compile", str(path)], env=environment, check=True, stdout=2)
        command = [sys.executable, "-c", HOLDER, str(path), how]
        running = [
            subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(count)
        ]
        try:
            for process in running:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
            return sum(held(process.pid) for process in running)
        finally:
            for process in running:
                process.communicate("\n", timeout=60)


def main() -> None:
    model = intaglio.load(demo_model(), threads=1)
    images = np.random.default_rng(0).standard_normal((256, 3, 32, 32)).astype(np.float32)
    print(json.dumps({"one process, us a row": one_process(model, images)}), flush=True)
    for how in ("own", "shared"):
        print(json.dumps({f"MB, weights {how}": {count: memory(how, count) for count in (1, 4)}}), flush=True)


if __name__ == "__main__":
    main()
