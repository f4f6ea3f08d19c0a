"""What the tests of passes share: a text is rewritten, verified, compared and run before and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

import intaglio.ops  # noqa: F401  (registers the operators that the texts name)
from intaglio.ir import substitution
from intaglio.ir.graph import Graph
from intaglio.ir.text import parse_graph
from intaglio.ir.types import TensorType
from intaglio.ir.verify import verify
from intaglio.ops.evaluate import evaluate
from intaglio.passes import PIPELINE, Report, simplify

SIZES = {"N": 2, "M": 3, "S": 4}
"""What symbols in the tests' texts stand for when a graph is run."""


def _random_inputs(graph: Graph, seed: int = 0, sizes: Mapping[str, int] = SIZES) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    arrays: list[np.ndarray] = []
    for value in graph.inputs:
        assert isinstance(value.type, TensorType)
        shape = [substitution.evaluate(dim, sizes) for dim in value.shape]
        if value.dtype.kind == "bool":
            arrays.append(generator.random(shape) < 0.5)
        elif value.dtype.is_integer:
            arrays.append(generator.integers(-3, 4, shape).astype(value.dtype.numpy))
        else:
            arrays.append((3 * generator.standard_normal(shape)).astype(value.dtype.numpy))
    return arrays


def _run_pass(text: str, *names: str, exact: bool = False) -> tuple[Graph, Report]:
    """Run the named passes on a graph, check it after each, and compare its results before and after."""
    chosen = [each for each in PIPELINE if each.name in names]
    assert len(chosen) == len(names), f"unknown pass among {names}"
    graph, original = parse_graph(text), parse_graph(text)
    verify(original)
    report = Report()
    for each in chosen:
        part = simplify(graph, pipeline=[each], exact=exact)
        verify(graph)
        assert not part.incomplete
        report.applied.update(part.applied)
        report.refused.update(part.refused)
    _assert_same_results(original, graph, changes_rounding=report.changes_rounding)
    return graph, report


def _assert_same_results(before: Graph, after: Graph, changes_rounding: bool) -> None:
    assert [value.name for value in before.outputs] == [value.name for value in after.outputs]
    inputs = _random_inputs(before)
    for old, new in zip(evaluate(before, inputs), evaluate(after, inputs), strict=True):
        assert old.dtype == new.dtype
        assert old.shape == new.shape
        if changes_rounding:
            np.testing.assert_allclose(new.astype(np.float64), old.astype(np.float64), rtol=2e-5, atol=2e-5)
        else:
            np.testing.assert_array_equal(new, old)


def _body(graph: Graph) -> str:
    """The lines inside the graph's braces, without indentation."""
    return "\n".join(line.strip() for line in str(graph).splitlines()[1:-1])


@pytest.fixture
def run_pass() -> Callable[..., tuple[Graph, Report]]:
    return _run_pass


@pytest.fixture
def random_inputs() -> Callable[..., list[np.ndarray]]:
    return _random_inputs


@pytest.fixture
def assert_same_results() -> Callable[..., None]:
    return _assert_same_results


@pytest.fixture
def check() -> Callable[[str, str, str], Report]:
    """Run passes on a graph and compare its body with the expected one; indentation does not matter."""

    def compare(names: str, before: str, after: str) -> Report:
        graph, report = _run_pass(before, *names.split())
        assert _body(graph) == "\n".join(line.strip() for line in after.strip().splitlines())
        return report

    return compare
