"""Plans as data: JSON gives back a plan whose kernels are equal and whose drivers have the same text."""

from __future__ import annotations

import json

import pytest

from intaglio.conformance.suite import cases
from intaglio.errors import GraphError, IntaglioError
from intaglio.ir.graph import Node, Value
from intaglio.kernels.lower import lower
from intaglio.kernels.plan import Plan, Segment, walk
from intaglio.kernels.plan_check import check_plan
from intaglio.kernels.plan_data import plan_data, plan_from_data
from intaglio.kernels.plan_form import PlanForm, SegmentForm, form_of
from intaglio.onnx.reader import read_model
from intaglio.passes import simplify
from intaglio.targets.c.driver import driver_source
from intaglio.targets.c.target import TARGETS
from intaglio.targets.c.target_rules import CRules

SAMPLE = 16


def lowered(name: str) -> Plan | None:
    """The plan of a test of the official suite; None where its model cannot be read or lowered by itself."""
    try:
        graph = read_model(cases()[name].model().SerializeToString()).graph
    except IntaglioError:
        return None
    simplify(graph)
    return lower(graph, CRules(TARGETS["avx2"]))


def check_round_trip(plan: Plan) -> None:
    text = json.dumps(plan_data(form_of(plan)))
    again = plan_from_data(json.loads(text))
    check_plan(again)
    assert json.dumps(plan_data(again)) == text
    assert again.kernels == plan.kernels
    places = {kernel: place for place, kernel in enumerate(plan.kernels)}
    assert len(again.parts) == len(plan.parts)
    for part, form in zip(plan.parts, again.parts, strict=True):
        assert isinstance(part, Segment) == isinstance(form, SegmentForm)
        if isinstance(part, Segment) and isinstance(form, SegmentForm):
            assert driver_source(part, places) == driver_source(form, places)
            check_without_graph(form)


def check_without_graph(form: SegmentForm) -> None:
    for action in walk(form.actions):
        assert not action.nodes
        assert not any(isinstance(value, (Node, Value)) for value in vars(action).values())


@pytest.mark.parametrize("name", list(cases())[::SAMPLE])
def test_plans_of_the_official_suite_come_back_from_json(name: str) -> None:
    plan = lowered(name)
    if plan is None:
        pytest.skip("the model of this test is refused when it is read")
    check_round_trip(plan)


@pytest.mark.slow
def test_all_plans_of_the_official_suite_come_back_from_json() -> None:
    plans = [plan for name in cases() if (plan := lowered(name)) is not None]
    assert len(plans) > 1500
    for plan in plans:
        check_round_trip(plan)


def test_what_is_assumed_of_sizes_is_not_checked_before_a_host_node_finds_them() -> None:
    plan = lowered("test_affine_grid_3d_align_corners_expanded_cpu")
    assert plan is not None
    assert plan.assumptions
    check_round_trip(plan)


def test_data_that_is_no_plan_is_refused() -> None:
    empty = PlanForm([], [], [], [], [], [], [], [])
    data = plan_data(empty)
    assert plan_from_data(data) == empty
    with pytest.raises(GraphError, match="format 0, expected 2: make it anew"):
        plan_from_data(data | {"format": 0})
    with pytest.raises(GraphError, match="this is no plan"):
        plan_from_data({"format": data["format"]})
