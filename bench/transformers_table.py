"""Models of transformers by torch.compile, with Intaglio and inductor: `python -m bench.transformers_table --markdown`.

Each model runs in a process of its own for each engine, on one thread, from empty caches of compiled code. A row has
whether logits, gradients and written tokens are eager's, how often PyTorch broke the graph, the processor time of the
first call (compilers included), and the median of later calls.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ENGINES = ("inductor", "intaglio")
COMMAND = (sys.executable, "-m", "bench.transformers_table")
HEADS = ("model", "forward", "gradients", "generate", "breaks", "first call, s", "a call, ms", "beside inductor")

Found = dict[str, Any]
"""What one engine made of one model: `first` (s), `call` (ms), the checks; or an `error`."""


def work(name: str, engine: str, calls: int) -> Found:
    """Run one model on one engine, in this process."""
    import torch
    from tests.torch import transformers_zoo as zoo

    torch.set_num_threads(1)
    architecture = zoo.ARCHITECTURES[name]
    model = architecture.build(name).eval()
    fast = torch.compile(model, backend=engine)
    inputs = architecture.inputs(*zoo.SHAPES[0])
    with torch.no_grad():
        first = _seconds(lambda: fast(**inputs))
        times = [_seconds(lambda: fast(**inputs)) for _ in range(calls)]
    found: Found = {"first": first, "call": statistics.median(times) * 1e3}
    if engine == "intaglio":
        found |= _checks(architecture, model, fast)
    return found


def _checks(architecture: Any, model: Any, fast: Any) -> Found:
    """Whether what the model gives is eager's, and how often PyTorch broke its graphs."""
    import torch
    from tests.torch import transformers_zoo as zoo

    given = [architecture.inputs(*shape) for shape in zoo.SHAPES]
    found: Found = {"forward": max(zoo.output_differs(model, fast, each) for each in given) < zoo.CLOSE}
    found["gradients"] = zoo.gradients_differ(model, fast, given[0]) < zoo.CLOSE
    if architecture.writes:
        tokens = architecture.inputs(2, 5)
        found["generate"] = [zoo.writes_alike(model, "intaglio", tokens, cache) for cache in ("dynamic", "static")]
    found["breaks"] = sum(torch._dynamo.utils.counters["graph_break"].values())
    return found


def _seconds(run: Callable[[], Any]) -> float:
    """The processor time of a call, with that of the processes which it waits for."""
    begin = _clock()
    run()
    return _clock() - begin


def _clock() -> float:
    spent = os.times()
    return time.process_time() + spent.children_user + spent.children_system


def ask(name: str, engine: str, calls: int) -> Found:
    """Run one model on one engine, in a process of its own with empty caches."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {"INTAGLIO_CACHE": f"{folder}/intaglio", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
        environment = {**os.environ, **caches, "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        command = [*COMMAND, "--worker", name, engine, "--calls", str(calls)]
        ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if ended.returncode:
        lines = [line for line in ended.stderr.splitlines() if line.strip()]
        return {"error": lines[-1] if lines else f"the process ended with {ended.returncode}"}
    return json.loads(ended.stdout.splitlines()[-1])


def line(name: str, row: dict[str, Found]) -> list[str]:
    """A row of the table."""
    mine, theirs = row["intaglio"], row["inductor"]
    if "error" in mine:
        return [name, mine["error"], *[""] * (len(HEADS) - 2)]
    written = ", ".join(map(_verdict, mine["generate"])) if "generate" in mine else ""
    beside = "" if "error" in theirs else f"{mine['first'] / theirs['first']:.2f}, {mine['call'] / theirs['call']:.2f}"
    checks = [_verdict(mine["forward"]), _verdict(mine["gradients"]), written, str(mine["breaks"])]
    return [name, *checks, f"{mine['first']:.1f}", f"{mine['call']:.2f}", beside]


def _verdict(is_right: bool) -> str:
    return "yes" if is_right else "differs"


def table(rows: dict[str, dict[str, Found]], is_markdown: bool) -> str:
    """All rows; the last column has the times of the first and of a later call over inductor's."""
    lines = [list(HEADS), *([["---"] * len(HEADS)] if is_markdown else [])]
    lines += [line(name, row) for name, row in rows.items()]
    if is_markdown:
        return "\n".join(f"| {' | '.join(each)} |" for each in lines)
    return "\n".join("".join(f"{text:16}" for text in each) for each in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.transformers_table", description=__doc__)
    parser.add_argument("names", nargs="*", help="models; all by default")
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.worker:
        name, engine = given.worker
        print(json.dumps(work(name, engine, given.calls)))
        return 0
    from tests.torch.transformers_zoo import ARCHITECTURES

    rows: dict[str, dict[str, Found]] = {}
    for name in given.names or ARCHITECTURES:
        rows[name] = {engine: ask(name, engine, given.calls) for engine in ENGINES}
        print(" ".join(line(name, rows[name])), file=sys.stderr, flush=True)
    print(table(rows, given.markdown))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
