"""Training steps against PyTorch, eager and compiled: `python -m bench training`.

Each engine has a process of its own and takes turns with the others on the same batches, from the same weights. The
losses of the first steps are compared with those of PyTorch in double precision; an engine whose losses differ has no
ratio. How far they may differ is TOLERANCE, and besides that three times what they change by when the first weights
change by the rounding of a float32: there is a model whose third loss is not told by its weights in single precision.
"""

import argparse
import io
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.footprint import memory

ENGINES = ("intaglio", "torch", "compile")
CHECKED_STEPS = 3
TOLERANCE = 1e-3
RATE, MOMENTUM = 0.01, 0.9
ROUNDINGS = 2
"""How often the first weights are changed by the rounding of a float32, to see what that does to the losses."""


class Case(NamedTuple):
    """A model in PyTorch, and what a batch of it looks like: shapes, and how many values labels and tokens have."""

    make: Callable[[], Any]
    shape: tuple[int, ...]
    tokens: int | None
    target: tuple[int, ...]
    classes: int


def resnet18() -> Any:
    from bench.generate.torch_export import ResNet18

    return ResNet18()


def mobilenet() -> Any:
    """MobileNetV2 for 1000 classes."""
    from torch import nn

    def layer(inner: int, outer: int, size: int, stride: int = 1, groups: int = 1, is_linear: bool = False) -> Any:
        conv = nn.Conv2d(inner, outer, size, stride, size // 2, groups=groups, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(outer), nn.Identity() if is_linear else nn.ReLU6())

    class Inverted(nn.Module):
        def __init__(self, inner: int, outer: int, stride: int, grow: int) -> None:
            super().__init__()
            wide = inner * grow
            parts = [layer(inner, wide, 1)] if grow > 1 else []
            parts += [layer(wide, wide, 3, stride, wide), layer(wide, outer, 1, is_linear=True)]
            self.parts, self.is_residual = nn.Sequential(*parts), stride == 1 and inner == outer

        def forward(self, x: Any) -> Any:
            return x + self.parts(x) if self.is_residual else self.parts(x)

    stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    blocks, width = [layer(3, 32, 3, 2)], 32
    for grow, outer, count, stride in stages:
        for number in range(count):
            blocks.append(Inverted(width, outer, stride if number == 0 else 1, grow))
            width = outer
    return nn.Sequential(*blocks, layer(320, 1280, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))


def mlp() -> Any:
    from torch import nn

    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def transformer() -> Any:
    """Four layers of width 256 over token embeddings; the classes of each token along axis 1."""
    from torch import nn

    from bench.generate.torch_export import Encoder

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = Encoder()
            for part in self.encoder.modules():
                if isinstance(part, nn.Dropout):
                    part.p = 0.0
                if isinstance(part, nn.MultiheadAttention):
                    part.dropout = 0.0

        def forward(self, tokens: Any) -> Any:
            return self.encoder(tokens).transpose(1, 2)

    return Classifier()


def lstm() -> Any:
    """Two layers of 128 over 50 steps of 64 numbers, and a head on the last."""
    from torch import nn

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(64, 128, 2, batch_first=True), nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0][:, -1])

    return Classifier()


CASES = {
    "resnet18": Case(resnet18, (8, 3, 224, 224), None, (8,), 1000),
    "mobilenetv2": Case(mobilenet, (8, 3, 224, 224), None, (8,), 1000),
    "mlp": Case(mlp, (64, 784), None, (64,), 10),
    "transformer": Case(transformer, (8, 128), 8192, (8, 128), 16),
    "lstm": Case(lstm, (16, 50, 64), None, (16,), 10),
}
MISH = (8, 32, 224, 224)


class Ready(NamedTuple):
    """A worker's first answer: the losses of the first steps, and the seconds until the first."""

    losses: list[float]
    seconds: float


Step = Callable[[], float]


def batch(case: Case) -> tuple[Any, Any]:
    """The inputs and labels of a batch."""
    rng = np.random.default_rng(0)
    if case.tokens:
        x = rng.integers(0, case.tokens, case.shape)
    else:
        x = rng.standard_normal(case.shape).astype(np.float32)
    return x, rng.integers(0, case.classes, case.target)


def export(name: str, path: Path) -> None:
    """Write a model with its first weights, for those who read ONNX and for PyTorch."""
    import torch

    case = CASES[name]
    torch.manual_seed(0)
    module = case.make().train()
    torch.save(module.state_dict(), path.with_suffix(".pt"))
    file = io.BytesIO()
    target = cast("Any", file)  # its type knows paths only
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own deprecation, and shapes that it fixes
        torch.onnx.export(
            module, (torch.tensor(batch(case)[0]),), target, input_names=["x"], output_names=["y"], opset_version=17,
            training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, dynamo=False,
        )  # fmt: skip
    path.write_bytes(file.getvalue())


def double_losses(name: str, path: Path, seed: int | None = None) -> list[float]:
    """The losses of the first steps in double precision; with a seed, of weights within half a unit in the last place
    of single precision."""
    import torch

    case = CASES[name]
    module = case.make().train()
    module.load_state_dict(torch.load(path.with_suffix(".pt")))
    module.double()
    if seed is not None:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weight in module.parameters():
                weight *= 1 + 2.0**-24 * (2 * torch.rand(weight.shape, generator=generator, dtype=torch.double) - 1)
    step = module_step(module, case, is_double=True)
    return [step() for _ in range(CHECKED_STEPS)]


def judge(name: str, path: Path) -> None:
    """Write what the losses are, and what rounding does to each of them."""
    exact = double_losses(name, path)
    moved = [double_losses(name, path, seed) for seed in range(ROUNDINGS)]
    spread = [max(abs(m - e) for m in each) for e, each in zip(exact, zip(*moved, strict=True), strict=True)]
    path.with_suffix(".json").write_text(json.dumps({"losses": exact, "spread": spread}))


def make(name: str, path: Path) -> None:
    """What all engines begin with, and what their losses are judged by."""
    export(name, path)
    judge(name, path)


def intaglio_step(name: str, path: Path, threads: int) -> Step:
    import intaglio
    from intaglio import ops, train

    if name == "mish":
        with intaglio.build("mish", inputs={"x": "float32[N, C, H, W]"}) as g:
            g.output(y=g["x"] * ops.Tanh(ops.Softplus(g["x"])))
        model = intaglio.value_and_grad(g.graph, wrt="x", threads=threads)
        x = np.random.default_rng(0).standard_normal(MISH).astype(np.float32)
        return lambda: float(model(x)[1].ravel()[:1000].sum())
    trainer = train.Trainer(path, "cross_entropy", train.SGD(RATE, momentum=MOMENTUM), threads=threads)
    x, target = batch(CASES[name])
    return lambda: trainer.step(x, target)


def torch_step(name: str, path: Path, threads: int, is_compiled: bool) -> Step:
    import torch

    torch.set_num_threads(threads)
    if name == "mish":
        x = torch.tensor(np.random.default_rng(0).standard_normal(MISH).astype(np.float32), requires_grad=True)

        def mish(x: Any) -> Any:
            return x * torch.tanh(torch.nn.functional.softplus(x))

        def slope(x: Any) -> Any:
            return x.grad

        function = torch.compile(mish) if is_compiled else mish

        def run() -> float:
            x.grad = None
            function(x).sum().backward()
            return float(slope(x).ravel()[:1000].sum())

        return run
    case = CASES[name]
    module = case.make().train()
    module.load_state_dict(torch.load(path.with_suffix(".pt")))
    return module_step(module, case, is_compiled=is_compiled)


def module_step(module: Any, case: Case, *, is_compiled: bool = False, is_double: bool = False) -> Step:
    """A step of a module in PyTorch."""
    import torch

    optimizer = torch.optim.SGD(module.parameters(), RATE, momentum=MOMENTUM)
    inputs, target = (torch.tensor(array) for array in batch(case))
    if is_double and inputs.is_floating_point():
        inputs = inputs.double()
    forward = torch.compile(module) if is_compiled else module

    def step() -> float:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(forward(inputs), target)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def serve(connection: Connection, engine: str, name: str, path: Path, threads: int) -> None:
    """Make the step, answer each turn of so many seconds by times, and report the memory."""
    try:
        start = time.perf_counter()
        if engine == "intaglio":
            step = intaglio_step(name, path, threads)
        else:
            step = torch_step(name, path, threads, engine == "compile")
        first = step()
        seconds = time.perf_counter() - start
        connection.send(Ready([first, *(step() for _ in range(CHECKED_STEPS - 1))], seconds))
    except Exception:  # whatever an engine raises is a result of the race
        connection.send(traceback.format_exc(limit=-2))
        return
    while (length := connection.recv()) is not None:
        connection.send(turn(step, length))
    connection.send(memory("VmHWM"))


def turn(step: Step, length: float) -> list[tuple[float, float]]:
    """Seconds of the clock and of the processor for single steps, after one that does not count."""
    step()
    found: list[tuple[float, float]] = []
    end = time.perf_counter() + length
    while len(found) < 2 or time.perf_counter() < end:
        start, used = time.perf_counter(), time.process_time()
        step()
        found.append((time.perf_counter() - start, time.process_time() - used))
    return found


class Result(NamedTuple):
    """What one engine did with one model."""

    wall: float
    processor: float
    memory: int
    seconds: float
    losses: list[float]
    error: str = ""


class Judge(NamedTuple):
    """The losses in double precision, and what rounding does to each."""

    losses: list[float]
    spread: list[float]


def race(name: str, engines: list[str], folder: Path, threads: int, rounds: int, length: float) -> dict[str, Result]:
    """Let engines take turns on a model."""
    context = multiprocessing.get_context("spawn")
    path = folder / f"{name}.onnx"
    if name != "mish":
        maker = context.Process(target=make, args=(name, path))
        maker.start()
        maker.join()
    results: dict[str, Result] = {}
    workers: dict[str, tuple[Connection, Ready]] = {}
    times: dict[str, list[tuple[float, float]]] = {}
    for engine in engines:
        ours, theirs = context.Pipe()
        context.Process(target=serve, args=(theirs, engine, name, path, threads), daemon=True).start()
        theirs.close()
        answer = _answer(ours)
        if isinstance(answer, Ready):
            workers[engine], times[engine] = (ours, answer), []
        else:
            results[engine] = Result(0, 0, 0, 0, [], str(answer))
    for _ in range(rounds):
        for engine, (connection, _) in workers.items():
            connection.send(length)
            times[engine] += connection.recv()
    for engine, (connection, ready) in workers.items():
        connection.send(None)
        wall, used = (statistics.median(each) for each in zip(*times[engine], strict=True))
        results[engine] = Result(wall, used, connection.recv(), ready.seconds, ready.losses)
    return results


def _answer(connection: Connection) -> Any:
    try:
        return connection.recv()
    except EOFError:
        return "the process ended without an answer"


def is_right(result: Result, judge: Judge | None) -> bool:
    """Whether the losses of the first steps are those that PyTorch has in double precision."""
    if judge is None or result.error:
        return not result.error
    allowed = TOLERANCE * np.abs(judge.losses) + 3 * np.array(judge.spread)
    return bool((np.abs(np.subtract(result.losses, judge.losses)) <= allowed).all())


def read_judge(folder: Path, name: str) -> Judge | None:
    """What was found in double precision; None for a race without such a judge."""
    file = folder / f"{name}.json"
    return Judge(**json.loads(file.read_text())) if file.exists() else None


def show(console: Console, found: dict[str, dict[str, Result]], judges: dict[str, Judge | None]) -> None:
    table = Table(
        "model", "engine", "ms", "processor ms", "peak MiB", "first s", "torch / this", "by processor", "answers"
    )
    for name, results in found.items():
        eager = results.get("torch")
        for engine, result in results.items():
            if result.error:
                table.add_row(name, engine, "—", "—", "—", "—", "—", "—", result.error.strip().splitlines()[-1][:60])
                continue
            right = is_right(result, judges[name])
            is_judged = eager is not None and not eager.error and right
            ratio = f"{eager.wall / result.wall:.2f}" if eager and is_judged else "—"
            used = f"{eager.processor / result.processor:.2f}" if eager and is_judged else "—"
            table.add_row(
                name, engine, f"{result.wall * 1e3:.1f}", f"{result.processor * 1e3:.1f}", f"{result.memory >> 20}",
                f"{result.seconds:.1f}", ratio, used, "right" if right else f"wrong: {result.losses}",
            )  # fmt: skip
    console.print(table)


def main(arguments: list[str]) -> int:
    """Race training steps. 0: done; 1: losses of Intaglio were wrong."""
    command = argparse.ArgumentParser(prog="python -m bench training", description=__doc__)
    names = [*CASES, "mish"]
    command.add_argument("--models", nargs="+", default=names, choices=names, metavar="NAME", help=", ".join(names))
    command.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES, metavar="ENGINE")
    command.add_argument("--threads", type=int, default=2)
    command.add_argument("--rounds", type=int, default=5)
    command.add_argument("--seconds", type=float, default=2.0, help="length of one engine's turn")
    command.add_argument("--json", type=Path, metavar="FILE")
    options = command.parse_args(arguments)
    found: dict[str, dict[str, Result]] = {}
    judges: dict[str, Judge | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models:
            print(f"{name} ...", file=sys.stderr, flush=True)
            turns = options.threads, options.rounds, options.seconds
            found[name] = race(name, options.engines, Path(folder), *turns)
            judges[name] = read_judge(Path(folder), name)
    show(Console(width=130), found, judges)
    if options.json:
        data: dict[str, Any] = {
            name: {engine: each._asdict() for engine, each in r.items()} for name, r in found.items()
        }
        for name, each in judges.items():
            data[name]["double"] = None if each is None else each._asdict()
        options.json.write_text(json.dumps(data, indent=1))
    return int(any(not is_right(r["intaglio"], judges[name]) for name, r in found.items() if "intaglio" in r))
