"""The seam between engine and targets: plans of the official suite, run by NumPy in a process without the C target."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.targets.numpy_executor import NumPyExecutor

from intaglio.conformance.suite import cases
from intaglio.ir.graph import Graph
from intaglio.kernels.lower import lower
from intaglio.kernels.plan import Branch, FindSizes, walk
from intaglio.kernels.plan_data import plan_data
from intaglio.kernels.plan_form import PlanForm, form_of
from intaglio.kernels.target_rules import Anchor
from intaglio.onnx.reader import read_model
from intaglio.passes import simplify
from intaglio.targets.errors import RefusedPlanError
from intaglio.targets.plain.target_rules import PlainRules

ROOT = Path(__file__).parents[2]

ELEMENTWISE = (
    "add", "add_bcast", "sub", "mul", "div", "abs", "exp", "log", "sqrt", "tanh", "sigmoid", "relu", "leakyrelu", "elu",
    "clip", "where_example", "greater", "less_equal", "not_2d", "and2d", "max_example", "min_example", "neg", "floor",
    "ceil", "softsign", "softplus", "selu", "hardsigmoid", "xor2d", "equal", "transpose_default", "concat_2d_axis_0",
)  # fmt: skip
ROWS = (
    "softmax_axis_2", "logsoftmax_axis_2", "layer_normalization_2d_axis1", "mvn",
    "reduce_l2_default_axes_keepdims_random", "reduce_log_sum_exp_default_axes_keepdims_random",
    "reduce_max_default_axes_keepdims_random", "reduce_mean_default_axes_keepdims_random",
    "reduce_prod_default_axes_keepdims_random", "reduce_sum_default_axes_keepdims_random",
)  # fmt: skip
SIZES = ("constantofshape_float_ones", "constantofshape_int_zeros")
CONTROL = ("if",)
TESTS = (*ELEMENTWISE, *ROWS, *SIZES, *CONTROL)


OF_LOOPS = ("Concat", "ConstantOfShape")
"""Operators whose rules emit nothing but loops."""


class LoopRules(PlainRules):
    """Loops alone: everything else that is structured is expanded to them."""

    @property
    def anchors(self) -> Mapping[str, Anchor]:
        """No operator has a kernel of its own."""
        return {name: super(LoopRules, self).anchors[name] for name in OF_LOOPS}


Results = tuple[dict[str, tuple[list[np.ndarray], list[np.ndarray]]], dict[str, PlanForm], list[str]]
"""By test what NumPy gave and what the reference gives, and the plan; the modules of C that the process imported."""


def lowered(graph: Graph) -> tuple[PlanForm, list[np.ndarray]]:
    simplify(graph)
    plan = lower(graph, LoopRules())
    return form_of(plan), plan.constants


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What NumPy gave in the other process, and the plans."""
    folder = tmp_path_factory.mktemp("plans")
    wanted, forms = {}, {}
    for name in TESTS:
        case = cases()[f"test_{name}_cpu"]
        model = case.model().SerializeToString()
        (inputs, wanted[name]), *_ = case.source.data_sets
        form, constants = lowered(read_model(model).graph)
        forms[name] = form
        (folder / f"{name}.json").write_text(json.dumps(plan_data(form)))
        for kind, arrays in (("constants", constants), ("inputs", inputs)):
            named: dict[str, Any] = {str(place): array for place, array in enumerate(arrays)}
            np.savez(folder / f"{name}.{kind}.npz", **named)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, str(Path(__file__).with_name("numpy_process.py")), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = {}
    for name, arrays in wanted.items():
        with np.load(folder / f"{name}.outputs.npz") as file:
            found[name] = [file[str(place)] for place in range(len(arrays))], arrays
    return found, forms, json.loads(done.stdout)


@pytest.mark.parametrize("name", TESTS)
def test_numpy_runs_plans_of_the_official_suite(name: str, results: Results) -> None:
    got, wanted = results[0][name]
    for left, right in zip(got, wanted, strict=True):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        np.testing.assert_allclose(left, right, rtol=2e-6, atol=2e-6)


def test_the_other_process_never_imported_the_c_target(results: Results) -> None:
    assert results[2] == []


def test_sizes_and_branches_are_among_them(results: Results) -> None:
    forms = results[1]
    for name, kind in [(name, FindSizes) for name in SIZES] + [(name, Branch) for name in CONTROL]:
        actions = [action for segment in forms[name].segments for action in walk(segment.actions)]
        assert any(isinstance(action, kind) for action in actions), name


def test_what_numpy_has_no_words_for_is_refused_by_ids() -> None:
    graph = read_model(cases()["test_cumsum_1d_cpu"].model().SerializeToString()).graph
    simplify(graph)
    form = form_of(lower(graph, PlainRules()))
    with pytest.raises(RefusedPlanError) as refused:
        NumPyExecutor().compile([form], lambda done, total: None)
    assert refused.value.nodes
    assert {name for names in refused.value.nodes for name in names} <= {value.id for value in form.values}
