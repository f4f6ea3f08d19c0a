"""Who computes a problem, who judges it, and what they find."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnx
import onnx.printer
import onnxruntime
from onnx.reference import ReferenceEvaluator

from intaglio.errors import IntaglioError
from intaglio.ir.graph import Graph
from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate
from intaglio.runtime.model.loading import load

from .bytes_level import in_bytes
from .expectation import difference, traits_of
from .known import distrusted
from .problem import Feeds, Problem, parts
from .shaking import shaken

SAMPLES = 5
"""How many shaken runs tell what rounding does."""
MANY = 40
"""How many are asked before something is called wrong: of a few, all may happen to leave an element as it is."""
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Variant:
    """One way to run a model with an engine of ours."""

    engine: str = "native"
    threads: int = 1
    simplify: bool = True
    exact: bool = False
    quick: bool = False

    def __str__(self) -> str:
        words = [self.engine, "simplified" if self.simplify else "plain"]
        words += [name for name, is_so in (("exact", self.exact), ("quick", self.quick)) if is_so]
        return " ".join([*words, f"{self.threads} threads"])

    def arguments(self) -> dict[str, Any]:
        """What `load` is told."""
        return asdict(self)


@dataclass
class Finding:
    """Something that does not agree: who was looked at, which output of which feeds, and how it differs."""

    who: str
    output: str
    feeds: int
    text: str
    node: str = ""

    def __str__(self) -> str:
        return f"{self.who}: {self.output} of feeds {self.feeds}: {self.text} {self.node}"


@dataclass
class Verdict:
    """What came of one problem."""

    findings: list[Finding] = field(default_factory=list)
    judges: Counter[str] = field(default_factory=Counter[str])
    doubts: list[Finding] = field(default_factory=list[Finding])
    """Where a judge stands alone against the reference and another judge, or is known to be wrong."""


class Shaker:
    """Shaken results of a graph, each of which is computed when it is asked for."""

    def __init__(self, graph: Graph, arrays: list[Any], is_loose: bool = False) -> None:
        self.graph, self.arrays, self.is_loose = graph, arrays, is_loose
        self.tried = 0
        self.found: list[list[Any]] = []

    def samples(self, count: int) -> list[list[Any]]:
        """The results of `count` runs, without those whose sizes hang on rounding."""
        while self.tried < count:
            random = np.random.default_rng([0, self.tried])
            self.tried += 1
            try:
                self.found.append(shaken(self.graph, self.arrays, random, self.is_loose))
            except (IntaglioError, ValueError, IndexError):
                continue
        return self.found

    @property
    def is_open(self) -> bool:
        """Whether it was seen that even the sizes of the model hang on rounding, so that nobody can judge."""
        return len(self.found) < self.tried


class Expected:
    """What a set of feeds must give: the reference's results without simplification, or the error that it raises."""

    def __init__(self, graph: Graph, feeds: Feeds, rounded: Graph | None = None) -> None:
        arrays = [feeds[value.name] for value in graph.inputs]
        self.error: IntaglioError | None = None
        self.plain: dict[str, Any] = {}
        self.places = {value.name: place for place, value in enumerate(graph.outputs)}
        self.shaker, self.loose = Shaker(graph, arrays), Shaker(graph, arrays, is_loose=True)
        self.rounded = None if rounded is None else Expected(rounded, feeds)
        """What it is with the rows of some products in bytes, where the model allows that."""
        try:
            self.plain = dict(zip(self.places, evaluate(graph, arrays), strict=True))
        except IntaglioError as error:
            self.error = error

    def difference(self, name: str, ours: Any, is_exact: bool = False) -> str:
        """What is wrong with one output. Most are right by one shaken run already, and then by all of them."""
        text = self._difference(name, ours, self.shaker)
        return text and (text if is_exact or self.rounded is None else self.rounded.difference(name, ours))

    def judged_difference(self, name: str, theirs: Any) -> str:
        """What a judge says that is more than its own roundings."""
        text = self._difference(name, theirs, self.shaker) and self._difference(name, theirs, self.loose)
        return text and (text if self.rounded is None else self.rounded.judged_difference(name, theirs))

    def _difference(self, name: str, ours: Any, shaker: Shaker) -> str:
        text = ""
        for count in (1, SAMPLES, MANY):
            samples = shaker.samples(count)
            if not shaker.is_open:
                values = [sample[self.places[name]] for sample in samples]
                text = difference(ours, self.plain[name], values, max(count, SAMPLES))
                if not text:
                    break
        return "" if shaker.is_open else text


class Whole:
    """What a set of feeds must give of all parts of a model."""

    def __init__(self, parts: Sequence[Expected]) -> None:
        self.error = next((part.error for part in parts if part.error is not None), None)
        self.parts = {name: part for part in parts for name in part.places}

    def difference(self, name: str, ours: Any, is_exact: bool = False) -> str:
        """What is wrong with one output."""
        return self.parts[name].difference(name, ours, is_exact)


def examine(
    problem: Problem, variants: Sequence[Variant], tell: Tell = lambda phase: None, judged: bool = True
) -> Verdict:
    """Run a problem in each way and compare with the reference, and the reference with other judges."""
    verdict = Verdict()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        tell("reference")
        pieces = parts(problem)
        graphs = [read_model(piece.model).graph for piece in pieces]
        rounded = [_rounded(piece) for piece in pieces]
        wanted = [
            [Expected(graph, feeds, other) for feeds in piece.feeds]
            for piece, graph, other in zip(pieces, graphs, rounded, strict=True)
        ]
        whole = [Whole(items) for items in zip(*wanted, strict=True)]
        for variant in variants:
            tell(str(variant))
            verdict.findings += _run(problem, variant, whole)
            verdict.judges[str(variant)] += problem.cases
        if judged:
            for piece, items in zip(pieces, wanted, strict=True):
                _judge(piece, items, verdict, tell)
        verdict.judges["open"] += sum(item.shaker.is_open for items in wanted for item in items)
    for finding in (*verdict.findings, *verdict.doubts):
        finding.node = described(problem.model, finding.output)
    return verdict


def _rounded(piece: Problem) -> Graph | None:
    model = in_bytes(piece.model)
    return None if model is None else read_model(model).graph


def described(model: onnx.ModelProto, output: str) -> str:
    """The node that makes an output, in ONNX's text form."""
    node = next((node for node in model.graph.node if output and output in node.output), None)
    return "" if node is None else onnx.printer.to_text(node)[:400]


def _run(problem: Problem, variant: Variant, wanted: list[Whole]) -> list[Finding]:
    try:
        model = load(problem.model, **variant.arguments())
    except Exception as error:  # whatever comes out is a finding
        return [Finding(str(variant), "", 0, f"loading raised {_brief(error)}")]
    found = []
    for number in problem.order if variant.engine == "native" else range(len(problem.feeds)):
        found += _run_once(model, variant, problem.feeds[number], number, wanted[number])
        if len(found) > 20:
            break
    return found


def _run_once(model: Any, variant: Variant, feeds: Feeds, number: int, wanted: Whole) -> list[Finding]:
    try:
        results = model.run(feeds)
    except Exception as error:  # whatever comes out is a finding, but for what the reference refuses too
        is_alike = wanted.error is not None and isinstance(error, IntaglioError)
        return [] if is_alike else [Finding(str(variant), "", number, f"running raised {_brief(error)}")]
    if wanted.error is not None:
        return [Finding(str(variant), "", number, f"ran, and the reference raised {_brief(wanted.error)}")]
    is_exact = variant.exact or variant.engine == "reference"
    return differences(str(variant), number, results, lambda name, ours: wanted.difference(name, ours, is_exact))


def differences(
    who: str, number: int, results: Mapping[str, Any], difference: Callable[[str, Any], str]
) -> list[Finding]:
    """What is wrong with all outputs of a run."""
    texts = [(name, difference(name, result)) for name, result in results.items()]
    return [Finding(who, name, number, text) for name, text in texts if text]


def _brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:600]}"


def _judge(problem: Problem, wanted: list[Expected], verdict: Verdict, tell: Tell) -> None:
    """Let ONNX Runtime judge the reference, and ONNX's evaluator where that is silent or disagrees."""
    judges = {name: judge(problem.model) for name, judge in JUDGES.items()}
    for number, (feeds, expectation) in enumerate(zip(problem.feeds, wanted, strict=True)):
        if expectation.error is not None:
            continue
        tell("runtime")
        found = _opinion(judges["runtime"], feeds, number, expectation)
        if found == []:
            verdict.judges["runtime"] += 1
            continue
        tell("evaluator")
        second = _opinion(judges["evaluator"], feeds, number, expectation)
        if second is not None:
            verdict.judges["evaluator"] += 1
        verdict.judges["nobody"] += found is None and second is None
        _weigh(found, second, verdict)


def _opinion(judge: Judge, feeds: Feeds, number: int, wanted: Expected) -> list[Finding] | None:
    """Where a judge differs from the reference; None where it does not take the model."""
    results = judge.ask(feeds, traits_of([*feeds.values(), *wanted.plain.values()]))
    if results is None:
        return None
    return differences(judge.name, number, dict(zip(wanted.plain, results, strict=True)), wanted.judged_difference)


def _weigh(first: list[Finding] | None, second: list[Finding] | None, verdict: Verdict) -> None:
    """A difference counts unless another judge sides with the reference."""
    apart = {finding.output: finding for finding in second or []}
    for finding in first or []:
        if second is None or finding.output in apart:
            verdict.findings.append(finding)
        else:
            verdict.doubts.append(finding)
    if first is None:
        verdict.findings += second or []


class Judge:
    """Somebody else who computes a model, which is read when it is first asked about."""

    name = ""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.runner: Any = None
        self.is_refused = False

    def ask(self, feeds: Feeds, traits: set[str]) -> list[Any] | None:
        """What the judge computes; None where it fails, which they do in many ways, or is known to be wrong."""
        if self.is_refused or distrusted(self.name, self.model, traits):
            return None
        try:
            self.runner = self.runner or self.read()
        except Exception:
            self.is_refused = True
            return None
        try:
            return list(self.runner.run(None, feeds))
        except Exception:
            return None

    def read(self) -> Any:
        """Something that can `run` the model."""
        raise NotImplementedError


class RuntimeJudge(Judge):
    """ONNX Runtime without its own rewrites."""

    name = "runtime"

    def read(self) -> Any:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        return onnxruntime.InferenceSession(self.model.SerializeToString(), options, ["CPUExecutionProvider"])


class EvaluatorJudge(Judge):
    """ONNX's reference evaluator."""

    name = "evaluator"

    def read(self) -> Any:
        return ReferenceEvaluator(self.model)


JUDGES = {judge.name: judge for judge in (RuntimeJudge, EvaluatorJudge)}
