"""ONNX's own backend tests as this project runs them: one `Suite` an engine, and the lists of known failures."""

from __future__ import annotations

import unittest
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import onnx
from onnx.backend.test import BackendTest

from intaglio.backend import IntaglioBackend, IntaglioBackendRep
from intaglio.errors import CompileError, UnsupportedError
from intaglio.onnx.reader import read_model
from intaglio.passes import simplify
from intaglio.runtime.batch import compile_together
from intaglio.runtime.native import NativeEngine

ENGINES = ("native", "reference")
LISTS = Path(__file__).parent / "known_failures"
RANDOM = "random numbers"
"""The reason of tests whose numbers every implementation draws for itself: by chance such a test may pass."""

MODELS_AT_ONCE = 250
"""How many models are compiled together: many, and few enough that one that the compiler refuses costs little."""


@dataclass(frozen=True)
class Case:
    """One test: its function, and where its model is found before and after it ran."""

    name: str
    engine: str
    function: Callable[[Any], None]
    holder: list[onnx.ModelProto | None]
    prepared: list[IntaglioBackendRep]

    def run(self) -> None:
        """Raise what is wrong. No test may be skipped, whatever the suite allows."""
        self.prepared.clear()
        try:
            self.function(None)
        except unittest.SkipTest as error:
            read_model(self.holder[0]) if self.holder[0] else None
            raise AssertionError(f"skipped: {error}") from None

    @property
    def has_host_nodes(self) -> bool:
        """Whether the last run needed the reference engine inside a native plan."""
        return any(rep.model.explain().host_nodes for rep in self.prepared)


def _backend(engine: str) -> type[IntaglioBackend]:
    class Recording(IntaglioBackend):
        prepared: list[IntaglioBackendRep] = []  # noqa: RUF012  one list that the cases of the engine share

        @classmethod
        def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> IntaglioBackendRep:
            rep = super().prepare(model, device, **kwargs)
            cls.prepared.append(rep)
            return rep

    Recording.engine = engine
    return Recording


class _Suite(BackendTest):
    """The suite with a comparison that goes into sequences: its own takes the rows of their arrays for the items, and
    cannot take an array without rows.
    """

    @classmethod
    def assert_similar_outputs(
        cls, ref_outputs: Sequence[Any], outputs: Sequence[Any], rtol: float, atol: float, model_dir: str | None = None
    ) -> None:
        assert len(outputs) == len(ref_outputs), f"{len(outputs)} values, expected {len(ref_outputs)}"
        for expected, found in zip(ref_outputs, outputs, strict=True):
            if isinstance(expected, (list, tuple)):
                assert isinstance(found, list), f"{type(found).__name__}, expected a list"
                cls.assert_similar_outputs(expected, found, rtol, atol, model_dir)
            elif expected is None:
                assert found is None, f"{type(found).__name__}, expected nothing"
            else:
                super().assert_similar_outputs([expected], [found], rtol, atol, model_dir)


@cache
def cases(engine: str) -> dict[str, Case]:
    """Every test for the CPU by name."""
    backend = _backend(engine)
    found: dict[str, Case] = {}
    with warnings.catch_warnings(action="ignore"):  # the suite makes its data while it is imported
        tests = _Suite(backend, __name__).enable_report().test_cases
    for test_case in tests.values():
        for name, function in vars(test_case).items():
            if name.startswith("test_") and name.endswith("_cpu"):
                (mark,) = (mark for mark in function.pytestmark if mark.name == "onnx_coverage")
                found[name] = Case(name, engine, function, mark.args[0], backend.prepared)
    return found


def models() -> Iterator[tuple[str, onnx.ModelProto]]:
    """The models of the tests, found in the test functions' own closures, before any test ran."""
    for name, case in cases("native").items():
        test = _closure(_closure(case.function, "test_func"), "model_test")
        yield name, test.model or onnx.load(_model_path(test))


def _closure(function: Any, name: str) -> Any:
    while True:
        names = function.__code__.co_freevars
        if name in names:
            return function.__closure__[names.index(name)].cell_contents
        function = function.__wrapped__


def _model_path(test: Any) -> Path:
    if test.model_dir:
        return Path(test.model_dir) / "model.onnx"
    return Path(onnx.__file__).parent.parent / test.url


def compile_all(names: Iterable[str]) -> None:
    """Compile the models of these tests together; what cannot be compiled is left to its own test to report."""
    wanted = set(names)
    chosen = [model for name, model in models() if name in wanted]
    for start in range(0, len(chosen), MODELS_AT_ONCE):
        try:
            compile_together(_engines(chosen[start : start + MODELS_AT_ONCE]))
        except CompileError:
            continue


def _engines(chosen: Iterable[onnx.ModelProto]) -> Iterator[NativeEngine]:
    for model in chosen:
        try:
            graph = read_model(model).graph
            simplify(graph)
            engine = NativeEngine(graph, 1)
            engine.functions()
        except Exception:
            continue
        yield engine


def known_failures(engine: str) -> dict[str, str]:
    """The tests that are known to fail on an engine, each with its reason."""
    lines = (LISTS / f"{engine}.txt").read_text(encoding="utf-8").splitlines()
    entries = [line.partition(": ") for line in lines if line.strip() and not line.startswith("#")]
    return {name: reason.strip() for name, _, reason in entries}


def reason_of(error: BaseException) -> str:
    """One line that tells why a test failed."""
    text = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    if isinstance(error, UnsupportedError) and "cannot be read" in text[0]:
        return "operator missing: " + ", ".join(line.partition(": ")[0] for line in text[1:])
    if isinstance(error, AssertionError):
        differing = [line for line in text if line.startswith(("Mismatched", "Max abs", "Output", "skipped"))]
        return "wrong result: " + "; ".join(differing or text[:2])[:160]
    return f"{type(error).__name__}: {text[0]}"[:180]
