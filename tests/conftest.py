"""Judges that every test may ask: one node read from a model and evaluated, against ONNX Runtime."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import HealthCheck, settings
from onnx import TensorProto, helper, numpy_helper

from intaglio.ir import dim, substitution
from intaglio.ir.types import TensorType
from intaglio.onnx.reader import read_model
from intaglio.ops.evaluate import evaluate

from . import judged_by_torch
from .conformance.known import summary
from .interrupts import restore_interrupts

settings.register_profile("tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")  # a busy machine is slow, and no fault of what is tested

Agree = Callable[..., list[Any]]


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """What tests draw without a seed of their own is the same in each run, whichever tests ran before."""
    random.seed(0)
    np.random.seed(0)
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "manual_seed"):
        torch.manual_seed(0)


def pytest_configure(config: pytest.Config) -> None:
    """Compiled code goes to a cache of the tests' own, which makes a second run quick; faults of our own are errors."""
    os.environ.setdefault("INTAGLIO_CACHE", str(config.rootpath / "build" / "test-cache"))
    os.environ.setdefault("INTAGLIO_FAULTS", "raise")
    config.addinivalue_line("markers", "onnx_coverage: set by ONNX's own suite on its tests")
    restore_interrupts()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The number of tests that PyTorch must have judged."""
    help_text = "fail unless so many tests that use PyTorch passed, and none of them was skipped"
    parser.addoption("--torch-tests", type=int, default=0, metavar="N", help=help_text)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run without the tests of PyTorch fails where they were asked for."""
    least = session.config.getoption("--torch-tests")
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not least or not isinstance(reporter, TerminalReporter) or hasattr(session.config, "workerinput"):
        return
    for line in judged_by_torch.faults(reporter.stats, session.config.rootpath, least):
        reporter.write_line(f"ERROR: {line}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


LONG_SECONDS = 3600
"""The time limit of tests that are marked as long ones; that of others is in pyproject.toml."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests have a longer time limit, unless they have one of their own."""
    for item in items:
        is_long = item.get_closest_marker("slow") or item.get_closest_marker("targets")
        if is_long and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LONG_SECONDS))


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """The coverage of the conformance suite, where that was run.

    It stands here because the first process of pytest-xdist reads no other conftest.
    """
    with_table = terminalreporter.config.get_verbosity() >= 0
    for line in summary(terminalreporter.stats, with_table):
        terminalreporter.write_line(line)


def node_model(
    operator: str,
    inputs: Sequence[Any],
    outputs: int,
    opsets: dict[str, int],
    domain: str,
    is_static: bool,
    **attributes: Any,
) -> onnx.ModelProto:
    """One node; with `is_static` all inputs but the first are constants, else all have symbolic sizes."""
    names = ["" if array is None else f"x{i}" for i, array in enumerate(inputs)]
    results = [f"y{i}" for i in range(outputs)]
    given = names[: 1 + max((i for i, name in enumerate(names) if name), default=-1)]
    node = helper.make_node(operator, given, results, "node", domain=domain, **attributes)
    infos, constants = [], []
    for i, (name, array) in enumerate(zip(names, inputs, strict=True)):
        if array is None:
            continue
        if is_static and i > 0:
            constants.append(numpy_helper.from_array(array, name))
            continue
        kind = TensorProto.STRING if array.dtype == object else helper.np_dtype_to_tensor_dtype(array.dtype)
        is_plain = is_static or (i > 0 and array.ndim == 1)  # lists such as axes have a known length
        shape = array.shape if is_plain else [f"{name}_{axis}" for axis in range(array.ndim)]
        infos.append(helper.make_tensor_value_info(name, kind, shape))
    graph = helper.make_graph([node], "single", infos, [onnx.ValueInfoProto(name=name) for name in results], constants)
    imports = [helper.make_opsetid(name, version) for name, version in opsets.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def run_runtime(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    """What ONNX Runtime computes, without its own rewrites."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def check_type(value: Any, result: Any, bindings: dict[str, int]) -> None:
    """The inferred type must fit what was computed, wherever the symbols of the inputs decide it."""
    if not isinstance(value.type, TensorType):
        return
    assert value.type.dtype.numpy == result.dtype
    if value.type.shape is None:
        return
    assert len(value.type.shape) == result.ndim
    for expected, size in zip(value.type.shape, result.shape, strict=True):
        if dim.symbols(expected) <= set(bindings):
            assert substitution.evaluate(expected, bindings) == size, f"{value.type} is inferred for {result.shape}"


def compare(result: Any, expected: Any, rtol: float, atol: float) -> None:
    if isinstance(expected, list):
        assert len(result) == len(expected)
        for ours, theirs in zip(result, expected, strict=True):
            compare(ours, theirs, rtol, atol)
    elif isinstance(expected, dict):
        assert {key: float(item) for key, item in result.items()} == pytest.approx(expected)
    elif expected.dtype == object:
        assert result.tolist() == expected.tolist()
    else:
        assert result.dtype == expected.dtype
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, expected, rtol=rtol, atol=atol)


@pytest.fixture
def agree() -> Agree:
    """agree("Slice", data, starts, opset=13, outputs=1, ...): our outputs, found equal to those of ONNX Runtime.

    The node runs twice: with symbolic sizes and everything fed, and with plain sizes and all but the first input
    constant. Inferred types are checked against what was computed.
    """

    def check(
        operator: str,
        *inputs: Any,
        opset: int = 21,
        ml: int = 5,
        domain: str = "",
        outputs: int = 1,
        rtol: float = 1e-5,
        atol: float = 1e-6,
        expected: list[Any] | None = None,
        **attributes: Any,
    ) -> list[Any]:
        results: list[Any] = []
        for is_static in (False, True):
            opsets = {"": opset, "ai.onnx.ml": ml}
            model = node_model(operator, inputs, outputs, opsets, domain, is_static, **attributes)
            graph = read_model(model).graph
            fed = {f"x{i}": a for i, a in enumerate(inputs) if a is not None and (i == 0 or not is_static)}
            results = evaluate(graph, list(fed.values()))
            judged = run_runtime(model, fed) if expected is None else expected
            sizes = [(f"{name}_{axis}", size) for name, a in fed.items() for axis, size in enumerate(a.shape)]
            for value, result, theirs in zip(graph.outputs, results, judged, strict=True):
                compare(result, theirs, rtol, atol)
                check_type(value, result, dict(sizes))
        return results

    return check
