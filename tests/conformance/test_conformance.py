"""The official ONNX backend tests on both engines, with strict lists of what is known to fail."""

from __future__ import annotations

import fcntl
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from intaglio.conformance.suite import ENGINES, Case, cases, compile_all, engine_subject
from intaglio.targets.c import cache

from .known import RANDOM, TESTS, failure_lists, known_failures

SUBJECTS = {engine: engine_subject(engine) for engine in ENGINES}


def _parameters(engine: str) -> list[object]:
    known = known_failures(engine)
    return [pytest.param(case, id=name, marks=_marks(known.get(name))) for name, case in cases().items()]


def _marks(reason: str | None) -> list[pytest.MarkDecorator]:
    """A known failure must fail; the verdict on a test that draws random numbers is not about the numbers."""
    if reason is None or reason.startswith(RANDOM):
        return []
    return [pytest.mark.xfail(reason=reason, strict=True)]


@pytest.fixture(scope="session")
def compiled(request: pytest.FixtureRequest) -> None:
    """All models of this run in the cache. The first process to come compiles, the others wait for it."""
    items: list[Any] = [item for item in request.session.items if item.name.startswith("test_native[")]
    names = [item.callspec.params["case"].name for item in items]
    with (cache.default_cache().root / "conformance.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        compile_all(names)


@pytest.fixture
def models_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the suite puts the data of the models that it carries."""
    monkeypatch.setenv("ONNX_HOME", str(tmp_path))


def _run(case: Case, engine: str, request: pytest.FixtureRequest) -> None:
    result, error = case.run(SUBJECTS[engine])
    request.node.user_properties += [("engine", engine), ("result", asdict(result))]
    if error is not None and result.outcome != "random":
        raise error


@pytest.mark.usefixtures("compiled", "models_folder")
@pytest.mark.parametrize("case", _parameters("native"))
def test_native(case: Case, request: pytest.FixtureRequest) -> None:
    _run(case, "native", request)


@pytest.mark.usefixtures("models_folder")
@pytest.mark.parametrize("case", _parameters("reference"))
def test_reference(case: Case, request: pytest.FixtureRequest) -> None:
    _run(case, "reference", request)


@pytest.mark.parametrize("engine", ENGINES)
def test_known_failures_are_tests_with_a_reason(engine: str) -> None:
    known = known_failures(engine)
    assert set(known) <= set(cases()), "the list names tests that the suite does not have"
    assert all(known.values()), "each known failure needs its reason"
    for entries in failure_lists(engine):
        assert entries == sorted(entries)


@pytest.mark.parametrize("engine", ENGINES)
def test_random_tests_are_those_that_are_listed_as_random(engine: str) -> None:
    listed = {name for name, reason in known_failures(engine).items() if reason.startswith(RANDOM)}
    assert listed == {name for name, case in cases().items() if case.is_random}


def test_the_suite_is_whole() -> None:
    assert len(cases()) >= TESTS
