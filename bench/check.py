"""`python -m bench check`: every model on our engine at many sizes, judged by ONNX Runtime without optimisations.

Each engine runs in a process of its own, one after the other. The sizes that a model's inputs leave open are varied one
at a time and then at random; all of them go through one loaded model, as requests go through a service.
"""

import argparse
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench import models, report
from bench.answers import Loaded, Outputs, Reference, Shapes
from bench.models import BenchModel, Unavailable
from bench.peers import Engine, Feeds, Intaglio, Judge
from bench.production import markdown_table
from bench.race import Say, Worker, WorkerDied, relative_error
from bench.worker import Failed, Job

ENGINES: dict[str, type[Engine]] = {"native": Intaglio, "reference": Reference}
BATCH = "batch"
BATCHES = (1, 2, 3, 5, 8)
RANDOM, RANDOM_SMALL = 5, 100  # random cases of a model, and of a small one
LARGEST, LARGEST_SMALL = 8, 60  # how many times the usual inputs a random case may be as large
SMALL = 2**20  # bytes of the file of a small model
MOST_NOTES = 5  # on wrong answers of one model
LONGEST = 120  # characters of a reason

BEFORE = """# Whole models at any size

The models of the benchmark, each loaded once and then run at many sizes, judged by ONNX Runtime without optimisations.
"""

AFTER = """
## What the columns mean

- **open dims** are the sizes that the model's inputs leave open. Those that grow with the batch are `batch`; one that
  the model gives no name is called by its input and place. The height of a line of text is none of them: the models
  that read lines are made for 48 pixels, whatever their files say.
- **sizes tried** is how many inputs of different sizes went through the one loaded model, and from where to where: the
  usual sizes at several batches, each other size alone, then all at random.
- **host nodes** is how many nodes the reference engine ran in all these runs together.
- **compiles after the first** is how many plans the runs after the first one had to be compiled for, or would have been
  if the cache did not hold them.
- **worst error** is the largest difference in any output of any run, relative to the largest value of that output.
- **verdict** is `right` when every answer is within the model's tolerance. Sizes that do not fit a model are refused by
  both engines, which is agreement and is counted; `only by us` counts answers where ONNX Runtime fails.
"""

Sizes = dict[str, int]
Axis = tuple[str, int]  # an input and the place of one of its dimensions


@dataclass
class Found:
    """What the check found of one model; `sizes` are all that were tried, in order."""

    model: BenchModel
    dims: tuple[str, ...] = ()
    sizes: list[Sizes] = field(default_factory=list)
    error: float = math.nan
    host_runs: int = 0
    plans: int = 0
    refused: int = 0
    unjudged: int = 0
    failure: str = ""
    notes: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def judge(self, sizes: Sizes, ours: Outputs | Failed, theirs: list[np.ndarray] | Failed) -> None:
        """Compare the answers for one case."""
        where = told(sizes)
        if isinstance(theirs, Failed):
            self._judge_refusal(where, ours, theirs)
        elif isinstance(ours, Failed):
            self.wrong.append(f"{where}: {ours.reason}")
        else:
            error = relative_error(ours.arrays, theirs)
            self.error = max(error, 0.0 if math.isnan(self.error) else self.error)
            if error > self.model.tolerance:
                self.wrong.append(f"{where}: error {error:.1e}, tolerance {self.model.tolerance:.0e}")

    def _judge_refusal(self, where: str, ours: Outputs | Failed, theirs: Failed) -> None:
        is_first = self.refused + self.unjudged == 0
        if isinstance(ours, Failed):
            self.refused += 1
            text = f"refused by both at {where}: {_short(ours.reason)}; {Judge.title}: {_short(theirs.reason)}"
        else:
            self.unjudged += 1
            text = f"answered at {where}, where {Judge.title} fails: {_short(theirs.reason)}"
        if is_first:
            self.notes.append(text)

    @property
    def verdict(self) -> str:
        """One word, and how many sizes were no case of it."""
        if self.failure:
            return report.NOTHING
        parts = [f"wrong at {len(self.wrong)}" if self.wrong else "right"]
        parts += [f"{self.refused} refused by both"] if self.refused else []
        parts += [f"{self.unjudged} only by us"] if self.unjudged else []
        return ", ".join(parts)


def told(sizes: Sizes) -> str:
    """Sizes in words.

    >>> told({"batch": 2, "sequence": 32})
    'batch 2, sequence 32'
    """
    return ", ".join(f"{name} {size}" for name, size in sizes.items()) or "the only size"


def _short(reason: str) -> str:
    """The beginning of a reason, as a piece of one line."""
    line = " ".join(reason.replace("|", "/").split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}..."


def open_axes(model: BenchModel, shapes: Shapes) -> dict[str, list[Axis]]:
    """The axes of a model's inputs that take any size, by the name of that size.

    Axes that grow with the batch of the benchmark's inputs are `batch`. Others go together where the model gives them
    one name, and an axis that has none is called by its place.
    """
    one, two = model.feeds(1), model.feeds(2)
    found: dict[str, list[Axis]] = {}
    for name, array in one.items():
        for place, size in enumerate(shapes.get(name, ())):
            if (isinstance(size, int) and size >= 0) or (name, place) in model.fixed:
                continue
            grows = array.shape[place] != two[name].shape[place]
            found.setdefault(BATCH if grows else _size_name(size, (name, place)), []).append((name, place))
    return found


def _size_name(size: object, axis: Axis) -> str:
    return size if isinstance(size, str) and size.isidentifier() else f"{axis[0]}[{axis[1]}]"


def cases(usual: Mapping[str, int], random: int, largest: int = LARGEST) -> Iterator[Sizes]:
    """The sizes to try: the usual ones at several batches, each other dimension alone, then all at random.

    >>> list(cases({"batch": 1, "sequence": 64}, random=0))[-2:]
    [{'batch': 2, 'sequence': 32}, {'batch': 2, 'sequence': 96}]
    """
    usual = dict(usual)
    for batch in BATCHES if BATCH in usual else (1,):
        yield {**usual, BATCH: batch} if BATCH in usual else usual
    for name in (name for name in usual if name != BATCH):
        for size in (max(1, usual[name] // 2), usual[name] + 32):
            yield {**usual, **({BATCH: 2} if BATCH in usual else {}), name: size}
    rng = np.random.default_rng(7)
    for number in range(random if usual else 0):
        yield _random_case(usual, rng, 32 if number % 2 else 1, largest)


def _random_case(usual: Sizes, rng: np.random.Generator, multiple: int, largest: int) -> Sizes:
    """Any sizes up to twice the usual, large ones a multiple of a number; a batch that is not too large with them."""
    sizes = {name: int(rng.integers(1, 2 * size + 1)) for name, size in usual.items() if name != BATCH}
    sizes = {name: -(-size // multiple) * multiple if usual[name] > multiple else size for name, size in sizes.items()}
    if BATCH not in usual:
        return sizes
    share = math.prod(sizes.values()) / math.prod(usual[name] for name in sizes)
    return {BATCH: int(rng.integers(1, max(1, int(largest / share)) + 1)), **sizes}


def resized(model: BenchModel, axes: Mapping[str, list[Axis]], sizes: Sizes) -> Feeds:
    """The benchmark's inputs, repeated or cut to the sizes; no two samples of a batch are the same."""
    feeds = model.feeds(sizes.get(BATCH, 1))
    for name, size in sizes.items():
        for input_name, place in axes[name]:
            array = feeds[input_name]
            feeds[input_name] = np.take(array, np.arange(size) % array.shape[place], place)
    for input_name, place in axes.get(BATCH, ()):
        feeds[input_name] = _apart(feeds[input_name], place)
    return feeds


def _apart(array: np.ndarray, place: int) -> np.ndarray:
    """Each sample moved along the last axis by another distance."""
    if place == array.ndim - 1:
        return array
    samples = np.moveaxis(array, place, 0)
    moved = [np.roll(sample, 7 * number, -1) for number, sample in enumerate(samples)]
    return np.ascontiguousarray(np.moveaxis(np.stack(moved), 0, place))


def check_model(model: BenchModel, kind: type[Engine], threads: int, random: int | None, say: Say) -> Found:
    """Try one model at all its sizes."""
    found = Found(model)
    say(f"{model.name}: preparing")
    try:
        path = model.path()
        axes, theirs = _ask_judge(found, path, threads, random, say)
    except (Unavailable, WorkerDied) as error:
        found.failure = str(error)
        return found
    try:
        _ask_ours(found, Job(kind, path, threads, {}), axes, theirs, say)
    except WorkerDied as error:
        found.wrong.append(str(error))
    return found


def _ask_judge(
    found: Found, path: Path, threads: int, random: int | None, say: Say
) -> tuple[dict[str, list[Axis]], list[list[np.ndarray] | Failed]]:
    """What is open, and the judge's answers; the found gets the sizes."""
    model = found.model
    with Worker(Job(Judge, path, threads, {}), module="bench.answers") as worker:
        loaded: Loaded = worker.ready()
        axes = open_axes(model, loaded.shapes)
        found.dims = tuple(axes)
        feeds = model.feeds(1)
        usual = {name: feeds[where[0][0]].shape[where[0][1]] for name, where in axes.items()}
        count, largest = (RANDOM_SMALL, LARGEST_SMALL) if path.stat().st_size < SMALL else (RANDOM, LARGEST)
        found.sizes = list(cases(usual, count if random is None else random, largest))
        answers: list[list[np.ndarray] | Failed] = []
        for number, sizes in enumerate(found.sizes):
            say(f"{model.name}: {Judge.title}, {number + 1} of {len(found.sizes)}")
            answer = _ask(worker, resized(model, axes, sizes), sizes)
            answers.append(answer if isinstance(answer, Failed) else answer.arrays)
        return axes, answers


def _ask_ours(
    found: Found, job: Job, axes: Mapping[str, list[Axis]], theirs: list[list[np.ndarray] | Failed], say: Say
) -> None:
    """Our answers to the same inputs, judged one by one."""
    say(f"{found.model.name}: loading into {job.kind.title}")
    with Worker(job, module="bench.answers") as worker:
        worker.ready()
        for number, (sizes, expected) in enumerate(zip(found.sizes, theirs, strict=True)):
            say(f"{found.model.name}: {job.kind.title}, {number + 1} of {len(theirs)}")
            ours = _ask(worker, resized(found.model, axes, sizes), sizes)
            found.judge(sizes, ours, expected)
            if number > 0 and isinstance(ours, Outputs):
                found.plans += ours.plans
        found.host_runs = worker.ask(None).host_runs


def _ask(worker: Worker, feeds: Feeds, sizes: Sizes) -> Any:
    """An answer; the death of the process tells at which sizes it was."""
    try:
        return worker.ask(feeds)
    except WorkerDied as error:
        raise WorkerDied(f"{told(sizes)}: {error}") from None


def table(rows: list[Found]) -> list[list[str]]:
    """The header and one line for each model, as text."""
    header = ["model", "open dims", "sizes tried", "host nodes", "compiles after the first", "worst error", "verdict"]
    return [header, *(_line(found) for found in rows)]


def _line(found: Found) -> list[str]:
    name, dims = found.model.name, ", ".join(found.dims) or "none"
    if found.failure:
        return [name, *[report.NOTHING] * 5, found.verdict]
    error = report.NOTHING if math.isnan(found.error) else f"{found.error:.1e}"
    return [name, dims, _tried(found), str(found.host_runs), str(found.plans), error, found.verdict]


def _tried(found: Found) -> str:
    """How many sizes, and from where to where."""
    ranges = [
        f"{name} {min(case[name] for case in found.sizes)} to {max(case[name] for case in found.sizes)}"
        for name in found.dims
    ]
    return f"{len(found.sizes)}: {', '.join(ranges)}" if ranges else str(len(found.sizes))


def text(rows: list[Found], engine: str, threads: int) -> str:
    """The table with its conditions and notes, as Markdown."""
    versions = f"{ENGINES[engine].title} {Intaglio.version()}, engine `{engine}`; {Judge.title} {Judge.version()}"
    notes = [f"- {found.model.name}: {note}" for found in rows for note in _notes(found)]
    parts = [f"{versions}; {threads} threads.", markdown_table(table(rows))]
    return "\n\n".join([*parts, *(["\n".join(notes)] if notes else [])]) + "\n"


def page(rows: list[Found], engine: str, threads: int, command: str) -> str:
    """The page docs/models.md."""
    return f"{BEFORE}\n{text(rows, engine, threads)}\nMade by `{command}`.\n{AFTER}"


def _notes(found: Found) -> list[str]:
    wrong = [f"wrong at {place}" for place in found.wrong[:MOST_NOTES]]
    if len(found.wrong) > MOST_NOTES:
        wrong.append(f"and wrong at {len(found.wrong) - MOST_NOTES} more sizes")
    return [*([found.failure] if found.failure else []), *wrong, *found.notes]


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    command = argparse.ArgumentParser(prog="python -m bench check", description=__doc__)
    command.add_argument("--models", nargs="+", default=[], metavar="NAME", help="names, patterns, groups, or all")
    command.add_argument("--engine", choices=ENGINES, default="native")
    command.add_argument("--threads", type=int, default=2)
    counts = f"{RANDOM} unless told, {RANDOM_SMALL} of a small one"
    command.add_argument("--random", type=int, metavar="N", default=None, help=f"random sizes of each model; {counts}")
    command.add_argument("--write", type=Path, metavar="FILE", help="write a page there, and no table to the output")
    return command


def main(arguments: list[str]) -> int:
    """Check. 0: done; 1: an answer was wrong; 2: wrong usage."""
    command = parser()
    options = command.parse_args(arguments)
    chosen = models.chosen(command, options.models)
    called = " ".join(["python -m bench check", *arguments])
    rows: list[Found] = []
    for model in chosen:
        rows.append(check_model(model, ENGINES[options.engine], options.threads, options.random, _say))
        if options.write is not None:  # each time, so that a run which is stopped leaves what it has
            report.write(options.write, page(rows, options.engine, options.threads, called))
    if options.write is None:
        print(text(rows, options.engine, options.threads), end="")
    return 1 if any(found.wrong for found in rows) else 0


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
