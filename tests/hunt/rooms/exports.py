"""Exports: models of the other makers are written in every language, and that source runs against the reference."""

from __future__ import annotations

import importlib.util
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from intaglio.conformance.exported import ExportBackend, ExportedModel, import_exported
from intaglio.conformance.zig_programs import ZigBackend, compile_together
from intaglio.emit import export
from intaglio.errors import UnsupportedError
from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate

from .. import generators
from ..bytes_level import in_bytes
from ..dice import Dice
from ..expectation import traits_of
from ..judging import Expected, Finding, RuntimeJudge, Verdict, _brief, described, differences
from ..problem import Problem, part, parts
from . import Seen, Tell

ALONE = ("python", "torch", "onnx", "zig")
"""Languages in which each part of a model is written by itself."""
TOGETHER = ("c:readable", "c:fast", "wasm")
"""Languages whose compiler takes long to start: all parts of a model that can be said are written as one model."""
NEEDS: dict[str, Callable[[], bool]] = {
    "torch": lambda: importlib.util.find_spec("torch") is not None,
    "zig": lambda: importlib.util.find_spec("ziglang") is not None,
    "wasm": lambda: importlib.util.find_spec("ziglang") is not None and shutil.which("node") is not None,
}
"""Whether the tools of a language are there."""
OLDER = (None, None, None, 13, 17, 20)
"""The operator sets in which ONNX files are written; None is the newest."""

Runner = Callable[[Sequence[Any]], list[Any]]


class Piece:
    """A part of a model that has nothing to do with the others, and what it must give for each set of feeds."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        graph, in_rows = read_model(problem.model).graph, in_bytes(problem.model)
        rounded = None if in_rows is None else read_model(in_rows).graph
        self.inputs = [value.name for value in graph.inputs]
        self.expected = [Expected(graph, feeds, rounded) for feeds in problem.feeds]
        self.outputs = [value.name for value in graph.outputs]

    def judged(self) -> Iterator[tuple[int, Expected]]:
        """The sets of feeds that the reference takes."""
        return ((number, item) for number, item in enumerate(self.expected) if item.error is None)


REFUSALS = (
    ("torch", "Kernel size can't be greater than actual input size", "no convolution has an empty result"),
    ("torch", "Expected reduction dim", "nothing has no greatest element"),
    ("torch", "Only zero batch or zero channel inputs are supported", "an empty image has no transposed convolution"),
    ("torch", "with optional 0 dim batch size for input", "an empty image has no pool"),
)
"""What a language refuses at a run although the reference takes it: the language, what the error says, and why."""
EMPTY_ROWS = re.compile(r"shape \(([\d, ]*)\) instead of \(([\d, ]*)\)")


ONE_BY_ONE = ("python", "c:readable", "zig")
"""Languages that add the elements of long sums one after the other, where the shaken reference adds halves."""


IN_BYTES = ("c:fast", "wasm")
"""Languages with our kernels, which may round rows to bytes where a model allows it."""
LONG = 1000


def is_refusal(finding: Finding) -> bool:
    """Whether a finding is what a language says that it cannot do."""
    return any(finding.who == who and text in finding.text for who, text, _ in REFUSALS) or _is_unstacked(finding)


def _is_unstacked(finding: Finding) -> bool:
    """Whether both results are empty, and differ in sizes that Zig does not know of rows that no round gave."""
    found = EMPTY_ROWS.search(finding.text) if finding.who == "zig" else None
    return found is not None and all("0" in re.split(r",\s*", sizes) for sizes in found.groups())


def look(seed: int, times: int, tell: Tell, languages: Sequence[str] = (*ALONE, *TOGETHER)) -> Seen:
    """Write a seed's model in each language; a case is a part of the model in one language."""
    verdict = Verdict()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        problem = problem_of(seed, times)
        tell("reference")
        pieces = [Piece(each) for each in parts(problem)]
        for language in languages:
            tell(language)
            if not NEEDS.get(language, lambda: True)():
                verdict.judges[f"{language} without its tools"] += len(pieces)
            elif language in ALONE:
                _look_at_each(seed, language, pieces, verdict)
            else:
                _look_at_all(problem, language, pieces, verdict)
    refused = [finding for finding in verdict.findings if is_refusal(finding)]
    verdict.judges["refused runs"] += len(refused)
    verdict.findings = [finding for finding in verdict.findings if finding not in refused]
    for finding in verdict.findings:
        finding.node = finding.node or described(problem.model, finding.output)
    cases = sum(verdict.judges[language] for language in languages)
    return Seen(cases, verdict)


def problem_of(seed: int, times: int) -> Problem:
    """The model of a seed: the other makers in turn."""
    kinds = sorted(generators.KINDS)
    return generators.KINDS[kinds[seed % len(kinds)]](seed // len(kinds), times)


def closed(problem: Problem) -> Problem:
    """A problem whose sizes that are 1 for all feeds are numbers: C takes no symbol for a size that is broadcast."""
    model = onnx.ModelProto()
    model.CopyFrom(problem.model)
    for info in model.graph.input:
        for axis, size in enumerate(info.type.tensor_type.shape.dim):
            if size.dim_param and all(feeds[info.name].shape[axis] == 1 for feeds in problem.feeds):
                size.dim_value = 1
    return replace(problem, model=model)


def _look_at_each(seed: int, language: str, pieces: Sequence[Piece], verdict: Verdict) -> None:
    if language == "zig":
        compile_together(piece.problem.model for piece in pieces)
    for number, piece in enumerate(pieces):
        run = _exported(language, piece.problem.model, Dice(11, seed, number), piece, verdict)
        if run is not None:
            verdict.judges[language] += 1
            verdict.findings += _findings(language, run, piece.inputs, [piece])


def _look_at_all(problem: Problem, language: str, pieces: Sequence[Piece], verdict: Verdict) -> None:
    """Write all parts that can be said as one model; each by itself where that fails."""
    sayable = [piece for piece in pieces if _can_say(language, piece, verdict)]
    if not sayable:
        return
    nodes = [node for piece in sayable for node in piece.problem.model.graph.node]
    whole = closed(part(problem, nodes, [name for piece in sayable for name in piece.outputs]))
    verdict.judges[language] += len(sayable)
    inputs = [info.name for info in whole.model.graph.input]
    try:
        found = _findings(language, _runner(language, whole.model), inputs, sayable, whole)
    except Exception as error:  # whatever comes out is a finding
        found = [Finding(language, "", 0, f"exporting raised {_brief(error)}")]
    verdict.findings += found if all(finding.output for finding in found) else _one_by_one(language, sayable, found)


def _one_by_one(language: str, pieces: Sequence[Piece], found: list[Finding]) -> list[Finding]:
    """What is found in single parts, where the whole did not run; what was found in the whole, where they all run."""
    alone: list[Finding] = []
    for piece in pieces:
        try:
            alone += _findings(language, _runner(language, closed(piece.problem).model), piece.inputs, [piece])
        except Exception as error:
            text = f"exporting raised {_brief(error)}"
            alone.append(Finding(language, piece.outputs[0], 0, text))
    return alone or found


def _can_say(language: str, piece: Piece, verdict: Verdict) -> bool:
    style: dict[str, Any] = {"style": "fast", "target": "wasm"}
    if language.startswith("c:"):
        style = {"style": language.partition(":")[2]}
    with tempfile.TemporaryDirectory(prefix="hunt-") as folder:
        try:
            export(closed(piece.problem).model, "c", folder, measure=False, **style)
        except UnsupportedError:
            verdict.judges[f"{language} unsaid"] += 1
            return False
        except Exception:  # found again when it is compiled
            return True
    return True


def _runner(language: str, model: onnx.ModelProto) -> Runner:
    return ExportBackend(language).prepare(model).run


def _exported(language: str, model: onnx.ModelProto, dice: Dice, piece: Piece, verdict: Verdict) -> Runner | None:
    try:
        if language == "zig":
            return ZigBackend().prepare(model).run
        return _written(language, model, dice, piece, verdict)
    except UnsupportedError:
        verdict.judges[f"{language} unsaid"] += 1
    except Exception as error:  # whatever comes out is a finding
        text = f"exporting raised {_brief(error)}"
        verdict.findings.append(Finding(language, piece.outputs[0], 0, text))
    return None


def _written(language: str, model: onnx.ModelProto, dice: Dice, piece: Piece, verdict: Verdict) -> Runner:
    simplify = dice.chance(0.7)
    with tempfile.TemporaryDirectory(prefix="hunt-") as folder:
        if language != "onnx":
            export(model, language, folder, simplify=simplify)
            return ExportedModel(language, import_exported(Path(folder)).load()).run
        opset = dice.of(OLDER)
        export(model, language, folder, simplify=simplify, opset=opset)
        path = Path(folder) / "model.onnx"
        written = onnx.load(path)
        verdict.findings += _judged_by_others(piece, written)
        graph = read_model(written).graph
        return lambda arrays: list(evaluate(graph, list(arrays)))


class Rereader(RuntimeJudge):
    """ONNX Runtime on a file that was written, with the reason why it does not take it."""

    refusal = ""

    def ask(self, feeds: dict[str, Any], traits: set[str]) -> list[Any] | None:
        """What it computes; None where it fails."""
        try:
            self.runner = self.runner or self.read()
            return list(self.runner.run(None, feeds))
        except Exception as error:
            self.refusal = _brief(error)
            return None


def _judged_by_others(piece: Piece, written: onnx.ModelProto) -> list[Finding]:
    """What ONNX Runtime says of a written file where it agrees with the reference on the model that was given."""
    given, again = RuntimeJudge(piece.problem.model), Rereader(written)
    found: list[Finding] = []
    for number, expected in piece.judged():
        feeds = piece.problem.feeds[number]
        traits = traits_of([*feeds.values(), *expected.plain.values()])
        first = given.ask(feeds, traits)
        if first is None or differences(
            "", 0, dict(zip(piece.outputs, first, strict=True)), expected.judged_difference
        ):
            continue
        second = again.ask(feeds, traits)
        if second is None:
            text = f"ONNX Runtime takes the model, but not what was written: {again.refusal}"
            return [*found, Finding("onnx by runtime", piece.outputs[0], number, text)]
        results = dict(zip(piece.outputs, second, strict=True))
        found += differences("onnx by runtime", number, results, expected.judged_difference)
    return found


def _findings(
    language: str, run: Runner, inputs: Sequence[str], pieces: Sequence[Piece], whole: Problem | None = None
) -> list[Finding]:
    """What is wrong with the results of all sets of feeds that the reference takes."""
    problem = pieces[0].problem if whole is None else whole
    outputs = [info.name for info in problem.model.graph.output]
    owners = {name: piece for piece in pieces for name in piece.outputs}
    found: list[Finding] = []
    for number, feeds in enumerate(problem.feeds):
        if any(piece.expected[number].error is not None for piece in pieces):
            continue
        try:
            results = run([feeds[name] for name in inputs])
        except Exception as error:  # whatever comes out is a finding
            name = outputs[0] if whole is None else ""
            found.append(Finding(language, name, number, f"running raised {_brief(error)}"))
            continue
        named = dict(zip(outputs, results, strict=True))
        found += differences(
            language, number, named, lambda name, ours, n=number: _difference(language, owners[name], n, name, ours)
        )
    return found


def _difference(language: str, piece: Piece, number: int, name: str, ours: Any) -> str:
    """What is wrong with an output beyond the roundings of sums that are taken one by one."""
    expected = piece.expected[number]
    text = expected.difference(name, ours, is_exact=language not in IN_BYTES)
    if text and language == "torch" and _is_sampled_nan(piece, expected, name, ours):
        return ""
    if text and language in ONE_BY_ONE and _is_long_sum(ours, expected.plain[name], piece.problem.feeds[number]):
        return ""
    return text


def _is_sampled_nan(piece: Piece, expected: Expected, name: str, ours: Any) -> bool:
    """Whether an image is sampled and results differ only where one of them is NaN.

    PyTorch multiplies infinities by weights of 0, and takes a place that is NaN for the border.
    """
    plain = expected.plain[name]
    if not any(node.op_type == "GridSample" for node in piece.problem.model.graph.node):
        return False
    if not isinstance(plain, np.ndarray) or plain.dtype.kind != "f" or plain.shape != ours.shape:
        return False
    return not expected.difference(name, np.where(np.isnan(plain) | np.isnan(ours), plain, ours))


def _is_long_sum(ours: Any, plain: Any, feeds: dict[str, Any]) -> bool:
    """Whether results differ by as much as the roundings of a sum over the largest input make of each other."""
    if not isinstance(plain, np.ndarray) or plain.dtype.kind != "f" or ours.shape != plain.shape or not plain.size:
        return False
    count = max((array.size for array in feeds.values() if isinstance(array, np.ndarray)), default=1)
    room = np.sqrt(count) * np.finfo(plain.dtype).eps * np.max(np.abs(plain))
    return count >= LONG and bool(np.isfinite(plain).all() and np.max(np.abs(ours - plain)) <= room)
