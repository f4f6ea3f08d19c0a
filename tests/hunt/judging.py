"""Who computes a problem, who judges it, and what they find."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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

from .expectation import difference, is_special
from .known import distrusted
from .problem import Feeds, Problem, parts
from .shaking import shaken

SAMPLES = 5
"""How many shaken runs tell what rounding does."""
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Variant:
    """One way to run a model with an engine of ours."""

    engine: str = "native"
    threads: int = 1
    simplify: bool = True
    exact: bool = False

    def __str__(self) -> str:
        words = [self.engine, "simplified" if self.simplify else "plain", *(["exact"] if self.exact else [])]
        return " ".join([*words, f"{self.threads} threads"])

    def arguments(self) -> dict[str, Any]:
        """What `load` is told."""
        return {"engine": self.engine, "threads": self.threads, "simplify": self.simplify, "exact": self.exact}


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


@dataclass
class Expected:
    """What a set of feeds must give: plain and shaken results, or the error that the reference raises."""

    plain: list[Any] = field(default_factory=list)
    samples: list[list[Any]] = field(default_factory=list)
    error: IntaglioError | None = None

    @property
    def is_open(self) -> bool:
        """Whether even the sizes of the model hang on rounding, so that nobody can judge."""
        return self.error is None and len(self.samples) < SAMPLES

    def only(self, places: list[int]) -> Expected:
        """The same for some outputs."""
        if self.error is not None:
            return self
        return Expected([self.plain[i] for i in places], [[sample[i] for i in places] for sample in self.samples])

    def difference(self, position: int, ours: Any) -> str:
        """What is wrong with one output."""
        if self.is_open:
            return ""
        return difference(ours, self.plain[position], [sample[position] for sample in self.samples])


def expected(graph: Graph, feeds: Feeds, seed: int = 0) -> Expected:
    """The reference's results without simplification, and how far rounding may move them."""
    arrays = [feeds[value.name] for value in graph.inputs]
    try:
        plain = evaluate(graph, arrays)
    except IntaglioError as error:
        return Expected(error=error)
    samples = []
    for number in range(SAMPLES):
        try:
            samples.append(shaken(graph, arrays, np.random.default_rng([seed, number])))
        except (IntaglioError, ValueError, IndexError):
            continue  # a size that hangs on rounding
    return Expected(plain, samples)


def examine(
    problem: Problem, variants: Sequence[Variant], tell: Tell = lambda phase: None, judged: bool = True
) -> Verdict:
    """Run a problem in each way and compare with the reference, and the reference with other judges."""
    verdict = Verdict()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        tell("reference")
        graph = read_model(problem.model).graph
        names = [value.name for value in graph.outputs]
        wanted = [expected(graph, feeds) for feeds in problem.feeds]
        verdict.judges["open"] += sum(item.is_open for item in wanted)
        for variant in variants:
            tell(str(variant))
            verdict.findings += _run(problem, variant, names, wanted)
            verdict.judges[str(variant)] += problem.cases
        if judged:
            for piece in parts(problem):
                own = [value.name for value in piece.model.graph.output]
                places = [names.index(name) for name in own]
                _judge(piece, own, [item.only(places) for item in wanted], verdict, tell)
    for finding in (*verdict.findings, *verdict.doubts):
        finding.node = described(problem.model, finding.output)
    return verdict


def described(model: onnx.ModelProto, output: str) -> str:
    """The node that makes an output, in ONNX's text form."""
    node = next((node for node in model.graph.node if output and output in node.output), None)
    return "" if node is None else onnx.printer.to_text(node)[:400]


def _run(problem: Problem, variant: Variant, names: list[str], wanted: list[Expected]) -> list[Finding]:
    try:
        model = load(problem.model, **variant.arguments())
    except Exception as error:  # whatever comes out is a finding
        return [Finding(str(variant), "", 0, f"loading raised {_brief(error)}")]
    found = []
    for number in problem.order:
        found += _run_once(model, variant, problem.feeds[number], number, names, wanted[number])
        if len(found) > 20:
            break
    return found


def _run_once(
    model: Any, variant: Variant, feeds: Feeds, number: int, names: list[str], wanted: Expected
) -> list[Finding]:
    try:
        results = list(model.run(feeds).values())
    except Exception as error:  # whatever comes out is a finding, but for what the reference refuses too
        is_alike = wanted.error is not None and isinstance(error, IntaglioError)
        return [] if is_alike else [Finding(str(variant), "", number, f"running raised {_brief(error)}")]
    if wanted.error is not None:
        return [Finding(str(variant), "", number, f"ran, and the reference raised {_brief(wanted.error)}")]
    return differences(str(variant), number, names, results, wanted)


def differences(who: str, number: int, names: Sequence[str], results: Sequence[Any], wanted: Expected) -> list[Finding]:
    """What is wrong with all outputs of a run."""
    texts = [(name, wanted.difference(i, results[i])) for i, name in enumerate(names)]
    return [Finding(who, name, number, text) for name, text in texts if text]


def _brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:600]}"


def _judge(problem: Problem, names: list[str], wanted: list[Expected], verdict: Verdict, tell: Tell) -> None:
    """Let ONNX Runtime judge the reference, and ONNX's evaluator where that is silent or disagrees."""
    for number, (feeds, expectation) in enumerate(zip(problem.feeds, wanted, strict=True)):
        if expectation.error is not None:
            continue
        tell("runtime")
        found = _opinion("runtime", problem.model, feeds, number, names, expectation)
        if found == []:
            verdict.judges["runtime"] += 1
            continue
        tell("evaluator")
        second = _opinion("evaluator", problem.model, feeds, number, names, expectation)
        if second is not None:
            verdict.judges["evaluator"] += 1
        verdict.judges["nobody"] += found is None and second is None
        _weigh(found, second, verdict)


def _opinion(
    judge: str, model: onnx.ModelProto, feeds: Feeds, number: int, names: list[str], wanted: Expected
) -> list[Finding] | None:
    """Where a judge differs from the reference; None where it does not take the model."""
    results = ASK[judge](model, feeds, is_special([*feeds.values(), *wanted.plain]))
    return None if results is None else differences(judge, number, names, results, wanted)


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


def ask_runtime(model: onnx.ModelProto, feeds: Feeds, is_special: bool) -> list[Any] | None:
    """What ONNX Runtime computes without its own rewrites; None where it refuses or is known to be wrong."""
    if distrusted("runtime", model, is_special):
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        return list(session.run(None, feeds))
    except Exception:  # it says no in many ways
        return None


def ask_evaluator(model: onnx.ModelProto, feeds: Feeds, is_special: bool) -> list[Any] | None:
    """What ONNX's reference evaluator computes; None where it fails or is known to be wrong."""
    if distrusted("evaluator", model, is_special):
        return None
    try:
        return list(ReferenceEvaluator(model).run(None, feeds))
    except Exception:  # it fails in many ways on inputs that are valid
        return None


ASK = {"runtime": ask_runtime, "evaluator": ask_evaluator}
