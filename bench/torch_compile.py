"""torch.compile with Intaglio beside inductor and eager: `python -m bench.torch_compile`.

Each architecture runs in a process of its own for each way, and the processes take turns of a few calls each, so that
what else the machine does meets them alike. Told are the time of the first call (compiling), and the median of a call.
With `--threads 1` the clock is that of the processor, which a busy machine does not disturb; compilers count too.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
WAYS = ("eager", "inductor", "intaglio")


def large() -> dict[str, Any]:
    """Three modules of the size that people have, beside the small architectures of the tests."""
    import torch
    from tests.torch.architectures import Case, ResidualBlock
    from torch import nn

    class Stages(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = (64, 64, 128, 256)
            self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
            pairs = itertools.pairwise(widths)
            self.body = nn.Sequential(*(ResidualBlock(a, b, 1 if a == b else 2) for a, b in pairs))
            self.head = nn.Linear(256, 100)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(self.stem(x)).mean((2, 3)))

    def encoder() -> nn.Module:
        layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, activation="gelu", batch_first=True)
        return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)

    def mlp() -> nn.Module:
        return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))

    return {
        "large-resnet": Case(Stages, lambda n: (torch.randn(n, 3, 128, 128),)),
        "large-encoder": Case(encoder, lambda n: (torch.randn(n, 64, 256),)),
        "large-mlp": Case(mlp, lambda n: (torch.randn(n, 784),)),
    }


def worker(name: str, way: str, mode: str, batch: int) -> None:
    """Compile, then run as many calls as each line on standard input says, and print their times."""
    sys.path.insert(0, str(ROOT))
    import time

    import torch
    from tests.torch.architectures import ARCHITECTURES
    from torch.utils._pytree import tree_leaves

    from intaglio.torch import backend

    torch.manual_seed(0)
    case = {**ARCHITECTURES, **large()}[name]
    net = case.make().train(mode == "training")
    chosen: dict[str, Any] = {"intaglio": {"backend": backend}, "inductor": {}}
    run = net if way == "eager" else torch.compile(net, dynamic=False, **chosen[way])
    given = case.inputs(batch)
    clock = time.perf_counter if torch.get_num_threads() > 1 else processor_seconds

    def step() -> None:
        if mode == "inference":
            with torch.no_grad():
                run(*given)
            return
        net.zero_grad()
        found = tree_leaves(run(*given))
        loss: Any = sum(each.square().sum() for each in found if isinstance(each, torch.Tensor))
        loss.backward()

    begin = clock()
    with torch._dynamo.config.patch(allow_rnn=True):
        step()
        print(json.dumps(clock() - begin), flush=True)
        for _ in range(3):
            step()
        for line in sys.stdin:
            times: list[float] = []
            for _ in range(int(line)):
                begin = clock()
                step()
                times.append(clock() - begin)
            print(json.dumps(times), flush=True)


def processor_seconds() -> float:
    """The processor time of this process and of the children that have ended, to the microsecond for its own part."""
    import time

    children = os.times()
    return time.process_time() + children.children_user + children.children_system


class Runner:
    """A process that runs one architecture one way."""

    def __init__(self, name: str, way: str, mode: str, batch: int, cache: str, threads: int | None) -> None:
        arguments = [sys.executable, "-m", "bench.torch_compile", "--worker", name, way, mode, str(batch)]
        environment = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor",
            "INTAGLIO_CACHE": f"{cache}/intaglio",
        }
        if threads is not None:
            environment["OMP_NUM_THREADS"] = str(threads)
        self._process = subprocess.Popen(
            arguments,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.times: list[float] = []
        self.first: float | None = self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None

    def turn(self, calls: int) -> None:
        """Run a few calls."""
        assert self._process.stdin is not None
        if self.first is not None:
            self._process.stdin.write(f"{calls}\n")
            self._process.stdin.flush()
            self.times += self._read() or []

    def end(self) -> None:
        """Let the process end."""
        self._process.communicate()


def race(
    name: str, mode: str, batch: int, turns: int, calls: int, cache: str, threads: int | None
) -> dict[str, tuple[float, float] | None]:
    """The time of the first call and the median of later ones in milliseconds, by way; None where it fails."""
    runners = {way: Runner(name, way, mode, batch, cache, threads) for way in WAYS}
    for _ in range(turns):
        for runner in runners.values():
            runner.turn(calls)
    found: dict[str, tuple[float, float] | None] = {}
    for way, runner in runners.items():
        runner.end()
        is_done = runner.first is not None and bool(runner.times)
        found[way] = (runner.first or 0.0, statistics.median(runner.times) * 1e3) if is_done else None
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table, and the geometric means."""
    parser = argparse.ArgumentParser(prog="python -m bench.torch_compile", description=__doc__)
    parser.add_argument("names", nargs="*", help="architectures; all by default")
    parser.add_argument("--modes", default="inference,training")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--threads", type=int, help="threads of each process; with 1, processor time is measured")
    parser.add_argument("--warm", help="a folder for caches that are kept; by default they are empty at first")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.worker:
        name, way, mode, batch = given.worker
        worker(name, way, mode, int(batch))
        return 0
    sys.path.insert(0, str(ROOT))
    from tests.torch.architectures import ARCHITECTURES

    names = given.names or [*ARCHITECTURES, *large()]
    for mode in given.modes.split(","):
        _print_mode(mode, names, given)
    return 0


def _print_mode(mode: str, names: Sequence[str], given: Any) -> None:
    print(f"\n{mode}, batch {given.batch}: ms a call (s for the first)")
    print(f"{'':16}" + "".join(f"{way:>20}" for way in WAYS) + f"{'intaglio/inductor':>20}")
    ratios: list[float] = []
    firsts: list[float] = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            found = race(name, mode, given.batch, given.turns, given.calls, given.warm or folder, given.threads)
        cells = [f"{each[1]:.3f} ({each[0]:.1f})" if each else "failed" for each in found.values()]
        mine, theirs = found["intaglio"], found["inductor"]
        ratio = ""
        if mine and theirs:
            ratios.append(mine[1] / theirs[1])
            firsts.append(mine[0] / theirs[0])
            ratio = f"{ratios[-1]:.2f}"
        print(f"{name:16}" + "".join(f"{cell:>20}" for cell in cells) + f"{ratio:>20}", flush=True)
    if ratios:
        means = [math.exp(statistics.fmean(map(math.log, each))) for each in (ratios, firsts)]
        print(f"geometric means of intaglio/inductor: {means[0]:.2f} a call, {means[1]:.2f} the first call")


if __name__ == "__main__":
    raise SystemExit(main())
