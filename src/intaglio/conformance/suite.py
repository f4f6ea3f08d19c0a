"""The tests: all that ONNX has for the CPU, what they are run on, and what came of each.

No test opts out. The suite lets a backend do so in three ways (a device that it does not support, a model that it calls
incompatible, the exception `BackendIsNotSupposedToImplementIt`); the first is ignored here, and the others are told.
"""

from __future__ import annotations

import hashlib
import importlib
import time
import unittest
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from onnx.backend.base import Backend
from onnx.backend.test import BackendTest

from intaglio.backend import IntaglioBackend, IntaglioBackendRep
from intaglio.conformance.result import Outcome, Result, Usage
from intaglio.conformance.ulp import scaled, steps, worst
from intaglio.errors import CompileError, InputError
from intaglio.onnx.reader import read_model
from intaglio.passes import simplify
from intaglio.runtime.engine.engine import Progress
from intaglio.runtime.engine.native import NativeEngine
from intaglio.runtime.model.batch import compile_together

ENGINES = ("native", "reference")

MODELS_AT_ONCE = 250
"""How many models are compiled together: many, and few enough that one that the compiler refuses costs little."""

RANDOM_OPERATORS = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""Operators whose numbers every implementation draws for itself: ONNX stores those that its own happened to draw."""


class Subject:
    """What is tested: one of our engines, or another ONNX backend. It remembers what it has prepared."""

    def __init__(self, title: str, backend: Any) -> None:
        self.title = title
        self._backend = backend
        self.prepared: list[Any] = []

    def prepare(self, model: Any, device: str = "CPU", **options: Any) -> Any:
        """Make a model ready to run."""
        rep = self._backend.prepare(model, device, **options)
        assert rep is not None, "the backend prepared nothing"
        self.prepared.append(rep)
        return _Prepared(rep)

    def is_compatible(self, model: onnx.ModelProto) -> bool:
        """Whether the backend takes the model; ours say what they do not take when they prepare it."""
        asked = None if self.is_ours else getattr(self._backend, "is_compatible", None)
        return asked is None or bool(asked(model))

    @property
    def is_ours(self) -> bool:
        """Whether this is one of our engines."""
        return isinstance(self._backend, type) and issubclass(self._backend, IntaglioBackend)

    @property
    def is_compiled(self) -> bool:
        """Whether what was prepared last is native code and has run no node on the host."""
        models = [rep.model for rep in self.prepared if isinstance(rep, IntaglioBackendRep)]
        return bool(models) and all(m.options.engine == "native" and m.host_runs == 0 for m in models)


class _Prepared:
    """A prepared model that is fed what ONNX's stored form of the tests holds: arrays, where the suite has scalars."""

    def __init__(self, rep: Any) -> None:
        self.rep = rep

    def run(self, inputs: Sequence[Any]) -> Any:
        return self.rep.run([np.asarray(item) if isinstance(item, np.generic) else item for item in inputs])


def engine_subject(engine: str, device: str = "cpu") -> Subject:
    """One of our engines, on a device."""
    return Subject(engine, type("EngineBackend", (IntaglioBackend,), {"engine": engine, "fixed_device": device}))


def backend_subject(name: str) -> Subject:
    """The ONNX backend that a module such as `onnxruntime.backend` is, or a class in a module."""
    try:
        found = _import(name)
    except Exception as error:
        raise InputError(f"the backend {name!r} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(getattr(found, "prepare", None)):
        raise InputError(f"{name!r} is no ONNX backend: it has no `prepare`; see onnx.backend.base")
    return Subject(name, found)


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        module, _, attribute = name.rpartition(".")
        if error.name != name or not module:
            raise
        return getattr(importlib.import_module(module), attribute)


@dataclass(frozen=True)
class Case:
    """One test of the suite."""

    name: str
    suite: Suite = field(repr=False)
    function: Callable[[Any, str], None] = field(repr=False)
    source: Any = field(repr=False)

    def run(self, subject: Subject) -> tuple[Result, Exception | None]:
        """What came of the test, and the exception, where there was one, for whoever wants to see where it came from.

        A test that was skipped is a test that failed, whatever the suite allows.
        """
        subject.prepared.clear()
        self.suite.backend, self.suite.compared = cast("Any", subject), []
        error: Exception | None = None
        start = time.perf_counter()
        try:
            self.function(None, "CPU")
        except Exception as caught:
            error = caught
        result = self._result(subject, error, time.perf_counter() - start)
        return result, AssertionError(result.reason) if isinstance(error, unittest.SkipTest) else error

    def _result(self, subject: Subject, error: Exception | None, seconds: float) -> Result:
        nodes = list(_nodes(self.model()))
        return Result(
            self.name,
            self._outcome(error),
            "" if error is None else reason_of(error),
            usage(nodes),
            self._worst(steps),
            self._worst(scaled),
            error is None and subject.is_compiled,
            seconds,
        )

    def _worst(self, measure: Any) -> float | None:
        found = [worst(*outputs, measure) for outputs in self.suite.compared]
        return max((each for each in found if each is not None), default=None)

    def _outcome(self, error: Exception | None) -> Outcome:
        """A random test may give other numbers, and no more than that: shapes and types must be right."""
        if isinstance(error, unittest.SkipTest):
            return "declined"
        if self.is_random and (error is None or (isinstance(error, AssertionError) and self.suite.has_right_types)):
            return "random"
        return "passed" if error is None else "failed"

    @property
    def is_random(self) -> bool:
        """Whether the numbers that are expected were drawn at random."""
        return any(node.domain == "" and node.op_type in RANDOM_OPERATORS for node in _nodes(self.model()))

    def model(self) -> onnx.ModelProto:
        """The model of the test."""
        return self.source.model or onnx.load(self._path())

    def _path(self) -> Path:
        if self.source.model_dir:
            return Path(self.source.model_dir) / "model.onnx"
        return Path(onnx.__file__).parent.parent / self.source.url


class Suite(BackendTest):
    """ONNX's suite, with its tests collected as they are, for the CPU alone, and nothing wrapped around them.

    Its comparison goes into sequences: the original takes the rows of their arrays for the items, and cannot take an
    array without rows.
    """

    def __init__(self) -> None:
        self.cases: dict[str, Case] = {}
        self.compared: list[tuple[Sequence[Any], Sequence[Any]]] = []
        self._source: Any = None
        super().__init__(Backend)

    def _add_model_test(self, model_test: Any, kind: str) -> None:
        self._source = model_test
        super()._add_model_test(model_test, kind)

    def _add_test(self, category: str, test_name: str, test_func: Any, *arguments: Any, **options: Any) -> None:
        name = f"{test_name}_cpu"
        assert name not in self.cases, f"{name} is in the suite twice"
        self.cases[name] = Case(name, self, test_func, self._source)

    @classmethod
    def download_model(cls, model_test: Any, models_dir: str) -> None:
        """Every model comes with the installed package."""
        raise AssertionError(f"{model_test.name} would have to be downloaded from {model_test.url}")

    def assert_similar_outputs(
        self, ref_outputs: Sequence[Any], outputs: Sequence[Any], rtol: float, atol: float, model_dir: str | None = None
    ) -> None:
        """Compare the outputs of a run with what is expected, and keep both."""
        self.compared.append((ref_outputs, outputs))
        self._assert_similar(ref_outputs, outputs, rtol, atol, model_dir)

    def _assert_similar(
        self, ref_outputs: Sequence[Any], outputs: Sequence[Any], rtol: float, atol: float, model_dir: str | None
    ) -> None:
        assert len(outputs) == len(ref_outputs), f"{len(outputs)} values, expected {len(ref_outputs)}"
        for expected, found in zip(ref_outputs, outputs, strict=True):
            if isinstance(expected, (list, tuple)):
                assert isinstance(found, list), f"{type(found).__name__}, expected a list"
                items = cast("Sequence[Any]", expected), cast("Sequence[Any]", found)
                self._assert_similar(*items, rtol, atol, model_dir)
            elif expected is None:
                assert found is None, f"{type(found).__name__}, expected nothing"
            else:
                super().assert_similar_outputs([expected], [found], rtol, atol, model_dir)

    @property
    def has_right_types(self) -> bool:
        """Whether everything that the last test compared had the right number of outputs, shapes and types."""
        return bool(self.compared) and all(
            [_type_of(item) for item in expected] == [_type_of(item) for item in found]
            for expected, found in self.compared
        )


def _type_of(item: Any) -> Any:
    return (item.dtype, item.shape) if isinstance(item, np.ndarray) else type(item)


@cache
def cases() -> dict[str, Case]:
    """Every test for the CPU by name, in their order."""
    with warnings.catch_warnings(action="ignore"):  # the suite makes its data while it is imported
        found = Suite().cases
    return dict(sorted(found.items()))


def usage(nodes: Iterable[onnx.NodeProto]) -> Usage:
    """The operators of nodes with their attributes; values are told apart by a hash."""
    return [
        (node.domain, node.op_type, [(a.name, hashlib.sha1(a.SerializeToString()).hexdigest()) for a in node.attribute])
        for node in nodes
    ]


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """All nodes of a model, those of its functions and of subgraphs included."""
    waiting = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    while waiting:
        node = waiting.pop(0)
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                waiting += graph.node


def compile_all(names: Iterable[str], progress: Progress | None = None) -> None:
    """Compile the models of these tests together; what cannot be compiled is left to its own test to report.

    `progress(done, total)` is told of models.
    """
    chosen = [cases()[name] for name in names]
    for start in range(0, len(chosen), MODELS_AT_ONCE):
        try:
            compile_together(_engines(case.model() for case in chosen[start : start + MODELS_AT_ONCE]))
        except CompileError:
            continue
        finally:
            if progress is not None:
                progress(min(start + MODELS_AT_ONCE, len(chosen)), len(chosen))


def _engines(models: Iterable[onnx.ModelProto]) -> Iterator[NativeEngine]:
    for model in models:
        try:
            graph = read_model(model).graph
            simplify(graph)
            engine = NativeEngine(graph, 1)
            engine.functions()
        except Exception:
            continue
        yield engine


def reason_of(error: BaseException) -> str:
    """One line that tells why a test failed."""
    text = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    if isinstance(error, unittest.SkipTest):
        return f"declined: {text[0]}"[:180]
    if isinstance(error, AssertionError):
        differing = [line for line in text if line.startswith(("Mismatched", "Max abs", "Output"))]
        return "wrong result: " + "; ".join(differing or text[:2])[:160]
    first = " ".join(text[:2]) if text[0].endswith(":") else text[0]  # the first of what follows
    return f"{type(error).__name__}: {first}"[:180]
