"""Plans that are broken in one place are refused, with what is wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from intaglio.errors import GraphError
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import INT32
from intaglio.kernels.lower import lower
from intaglio.kernels.plan import Allocate, Assign, Call, FindSizes, Operand
from intaglio.kernels.plan_check import check_plan
from intaglio.kernels.plan_data import plan_data, plan_from_data
from intaglio.kernels.plan_form import ConstantForm, PlanForm, SegmentForm, form_of
from intaglio.onnx.reader import read_model
from intaglio.targets.plain.target_rules import PlainRules

TEXT = """
<ir_version: 10, opset_import: ["" : 21]>
found (float[3, 4] x, int64[2] wanted) => (float[a, b] y)
{
    relu = Relu(x)
    total = ReduceSum<keepdims = 1>(relu)
    line = Reshape(total, one)
    y = Expand(line, wanted)
}
"""


@pytest.fixture(scope="module")
def data() -> str:
    import numpy as np
    from onnx import numpy_helper, parser

    model = parser.parse_model(TEXT)
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 1], np.int64), "one"))
    form = form_of(lower(read_model(model.SerializeToString()).graph, PlainRules()))
    check_plan(form)
    return json.dumps(plan_data(form))


def segment_of(form: PlanForm) -> SegmentForm:
    (segment,) = form.parts
    assert isinstance(segment, SegmentForm)
    return segment


def action(form: PlanForm, kind: type) -> int:
    return next(place for place, each in enumerate(segment_of(form).actions) if isinstance(each, kind))


def call_of(form: PlanForm) -> Call:
    found = segment_of(form).actions[action(form, Call)]
    assert isinstance(found, Call)
    return found


def finding(form: PlanForm) -> FindSizes:
    found = segment_of(form).actions[action(form, FindSizes)]
    assert isinstance(found, FindSizes)
    return found


def unknown_value(form: PlanForm) -> None:
    segment_of(form).inputs[0] = "nobody"


def value_twice(form: PlanForm) -> None:
    form.values.append(form.values[0])


def result_not_made(form: PlanForm) -> None:
    form.outputs.append("nobody")


def input_is_gone(form: PlanForm) -> None:
    segment_of(form).input_buffers.pop()


def arena_is_gone(form: PlanForm) -> None:
    segment_of(form).arena.pop(0)


def output_of_another_place(form: PlanForm) -> None:
    segment_of(form).output_buffers[0].index = 3


def too_many_told(form: PlanForm) -> None:
    segment_of(form).told = 9


def size_is_not_late(form: PlanForm) -> None:
    segment_of(form).late.clear()


def size_without_value(form: PlanForm) -> None:
    segment_of(form).late.append("never")


def size_of_nobody(form: PlanForm) -> None:
    call = call_of(form)
    call.sizes[0] = call.sizes[0][0], symbol("nobody")


def room_of_unknown_size(form: PlanForm) -> None:
    segment_of(form).arena[0].size = symbol("nobody")


def size_before_its_value(form: PlanForm) -> None:
    actions = segment_of(form).actions
    actions.append(actions.pop(action(form, FindSizes)))


def no_memory(form: PlanForm) -> None:
    segment_of(form).actions.pop(action(form, Allocate))


def written_input(form: PlanForm) -> None:
    call = call_of(form)
    call.operands[-1] = Operand(segment_of(form).input_buffers[0], 0, True)


def offset_behind_the_end(form: PlanForm) -> None:
    found = finding(form)
    found.numbers = replace(found.numbers, offset=5)


def offset_before_the_begin(form: PlanForm) -> None:
    call = call_of(form)
    call.operands[0] = replace(call.operands[0], offset=-1)


def sizes_of_another_type(form: PlanForm) -> None:
    finding(form).numbers.buffer.dtype = INT32


def too_many_sizes(form: PlanForm) -> None:
    found = finding(form)
    found.names = (*found.names, None, None)


def operand_is_missing(form: PlanForm) -> None:
    call_of(form).operands.pop()


def operand_is_written_twice(form: PlanForm) -> None:
    call = call_of(form)
    call.operands[0] = replace(call.operands[0], is_written=True)


def operand_too_small(form: PlanForm) -> None:
    call_of(form).operands[0].buffer.size = 1


def another_symbol_is_given(form: PlanForm) -> None:
    segment_of(form).actions.append(Assign([("other", 1)]))


BROKEN: dict[Callable[[PlanForm], None], str] = {
    unknown_value: "there is no value 'nobody'",
    value_twice: "declared twice",
    result_not_made: "result 'nobody' is not made",
    input_is_gone: "values and 1 buffers are its inputs",
    arena_is_gone: "not declared as arena",
    output_of_another_place: "is output 3, expected output 0",
    too_many_told: "sizes are given",
    size_is_not_late: "is given a value and is not late",
    size_without_value: "'never' is never given a value",
    size_of_nobody: "nobody knows the size 'nobody'",
    room_of_unknown_size: "needs 'nobody', which is not known",
    size_before_its_value: "before it has a value",
    no_memory: "before it has memory",
    written_input: "writes to 'x', which is an input",
    offset_behind_the_end: "begins at 5 of 'wanted', which has 2 elements",
    offset_before_the_begin: "begins at -1",
    sizes_of_another_type: "expected int64",
    too_many_sizes: "touches 4 numbers at 0 of 2",
    operand_is_missing: "has 1 operands",
    operand_is_written_twice: "writes x0 other than",
    operand_too_small: "which has 1",
    another_symbol_is_given: "'other' is given a value and is not late",
}


@pytest.mark.parametrize("change", BROKEN, ids=lambda each: each.__name__)
def test_a_plan_broken_in_one_place_is_refused(change: Callable[[PlanForm], None], data: str) -> None:
    form = plan_from_data(json.loads(data))
    check_plan(form)
    change(form)
    with pytest.raises(GraphError, match="the plan is broken") as caught:
        check_plan(form)
    assert BROKEN[change] in str(caught.value)


def test_a_constant_that_is_missing_or_too_small_is_refused(data: str) -> None:
    form = plan_from_data(json.loads(data))
    call = call_of(form)
    home = copy.copy(call.operands[0].buffer)
    home.kind, home.index = "constant", len(form.constants)
    call.operands[0] = replace(call.operands[0], buffer=home)
    with pytest.raises(GraphError, match=f"constant {home.index} of"):
        check_plan(form)
    form.constants.append(ConstantForm("float32", (1,)))
    with pytest.raises(GraphError, match="a constant of 1 elements, expected"):
        check_plan(form)
