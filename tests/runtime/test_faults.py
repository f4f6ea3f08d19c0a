"""Faults of our own: rules that fail and C that does not compile make a model slower, never wrong, and are told."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import intaglio
from intaglio.errors import GraphError, LimitError, UnsupportedError
from intaglio.ir.build import Builder
from intaglio.ir.dim import symbol
from intaglio.ir.dtype import BOOL, FLOAT32, INT64
from intaglio.ir.graph import Graph, Node
from intaglio.ir.types import TensorType
from intaglio.kernels import elementwise, lower, repair
from intaglio.kernels.context import Context
from intaglio.kernels.epilogue import Epilogue
from intaglio.kernels.faults import FaultWarning
from intaglio.kernels.kernel import SourceKernel
from intaglio.kernels.plan import Call, Segment
from intaglio.kernels.views import VIEWS
from intaglio.ops.control import Loop
from intaglio.ops.evaluate import evaluate
from intaglio.runtime.engine import native
from intaglio.runtime.model.implementations import IMPLEMENTATIONS
from intaglio.runtime.model.model import Model
from intaglio.targets.c import target_rules
from intaglio.targets.c.rules import ANCHORS
from intaglio.targets.step import Step

Break = Callable[[pytest.MonkeyPatch], None]

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(autouse=True)
def _faults_are_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INTAGLIO_FAULTS")


def mixed_graph() -> Graph:
    """A product with an epilogue, a view, a reduction, a gather and a shape."""
    graph = Graph("mixed")
    x = graph.add_input("x", TensorType(FLOAT32, (symbol("n"), 4)))
    b = Builder(graph, origin="/layer/node")
    weights = b.constant(np.arange(12).reshape(4, 3) / 40, FLOAT32)
    h = b.Relu(b.Add(b.MatMul(x, weights), b.constant([0.5, -0.5, 0.25], FLOAT32)))
    s = b.Softmax(b.Exp(h), axis=-1)
    t = b.Transpose(s, perm=(1, 0))
    g = b.Gather(t, b.constant([2, 0], INT64), axis=0)
    graph.set_outputs([g, b.Shape(g), b.ReduceSum(t, b.constant([0], INT64))])
    return graph


def loop_graph() -> Graph:
    """A loop whose body has a product."""
    body = Graph("body")
    count = body.add_input("i", TensorType(INT64, ()))
    condition = body.add_input("c", TensorType(BOOL, ()))
    state = body.add_input("v", TensorType(FLOAT32, (3, 3)))
    inner = Builder(body)
    weights = inner.constant(np.eye(3) / 2 + 0.1, FLOAT32)
    following = inner.Tanh(inner.Add(inner.MatMul(state, weights), inner.Cast(count, to=FLOAT32.number)))
    body.set_outputs([inner.Identity(condition), following])
    graph = Graph("loop")
    x = graph.add_input("x", TensorType(FLOAT32, (3, 4)))
    b = Builder(graph)
    start = b.MatMul(x, b.constant(np.ones((4, 3)), FLOAT32))
    (last,) = b.add(Loop(body=body), [b.constant(3, INT64), b.constant(True, BOOL), start])
    graph.set_outputs([b.Exp(last)])
    return graph


def raises(*_: Any, **__: Any) -> Any:
    raise AssertionError("broken on purpose")


def breaks_rule(name: str, is_broken: Callable[[Epilogue], bool], how: Callable[[Context, int], None]) -> Break:
    """A rule that goes wrong: `how(context, place)` spoils what was emitted from the place on."""

    def apply(monkeypatch: pytest.MonkeyPatch) -> None:
        anchor = ANCHORS[name]

        def broken(context: Context, node: Node, epilogue: Epilogue) -> None:
            place = context.place
            anchor.lower(context, node, epilogue)
            if is_broken(epilogue):
                how(context, place)

        monkeypatch.setitem(ANCHORS, name, replace(anchor, lower=broken))

    return apply


WRONG = SourceKernel("wrong", (), (), "    return False + missing;")
"""A kernel that no compiler takes."""


def broken_kernel(context: Context, place: int) -> None:
    for action in context.actions[place:]:
        if isinstance(action, Call):
            action.kernel = replace(action.kernel, body=WRONG)


def broken_driver(context: Context, place: int) -> None:
    for action in context.actions[place:]:
        if isinstance(action, Call):
            action.sizes.append(("False + nothing", 0))


def breaks_loops(is_broken: Callable[[Any], bool]) -> Break:
    """Loop kernels whose C is wrong where their program says so."""

    def apply(monkeypatch: pytest.MonkeyPatch) -> None:
        loop_call = target_rules.loop_call

        def broken(program: Any) -> Call:
            call = loop_call(program)
            if is_broken(program):
                call.kernel = replace(call.kernel, body=WRONG)
            return call

        monkeypatch.setattr(target_rules, "loop_call", broken)

    return apply


def breaks_attribute(owner: Any, name: str) -> Break:
    return lambda monkeypatch: monkeypatch.setattr(owner, name, raises)


def breaks_item(owner: dict[str, Any], name: str) -> Break:
    return lambda monkeypatch: monkeypatch.setitem(owner, name, raises)


def is_fused(epilogue: Epilogue) -> bool:
    return bool(epilogue.nodes)


def always(_: object) -> bool:
    return True


def broken_rule(*_: object) -> None:
    raise KeyError("view_9.0")


CASES: dict[str, tuple[Break, int]] = {
    "epilogue raises": (breaks_rule("MatMul", is_fused, broken_rule), 0),
    "epilogue is wrong C": (breaks_rule("MatMul", is_fused, broken_kernel), 0),
    "epilogue is wrong in the driver": (breaks_rule("MatMul", is_fused, broken_driver), 0),
    "rule raises": (breaks_rule("MatMul", always, broken_rule), 1),
    "rule is wrong C": (breaks_rule("MatMul", always, broken_kernel), 1),
    "rule is wrong in the driver": (breaks_rule("MatMul", always, broken_driver), 1),
    "two rules": (
        lambda m: (breaks_rule("MatMul", always, broken_kernel)(m), breaks_rule("Gather", always, broken_rule)(m))[0],
        2,
    ),
    "refusal raises": (
        lambda m: m.setitem(ANCHORS, "Gather", replace(ANCHORS["Gather"], refuse=raises)),
        1,
    ),
    "expression raises": (breaks_item(elementwise.TRANSLATIONS, "Exp"), 2),
    "fused loops are wrong C": (breaks_loops(lambda program: len(program.nodes) > 1), 0),
    "loops of Exp are wrong C": (
        breaks_loops(lambda program: any(node.op.name == "Exp" for node in program.nodes)),
        1,
    ),
    "view raises": (breaks_item(VIEWS, "Transpose"), 1),
    "layouts raise": (breaks_attribute(lower, "choose_layouts"), 0),
    "assumptions raise": (breaks_attribute(lower.Assumptions, "settle"), 0),
    "groups raise": (breaks_attribute(lower, "form_groups"), -1),
    "cleanup raises": (breaks_attribute(lower, "simplify"), -1),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fault_makes_a_model_slower_and_not_wrong(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    apply, hosted = CASES[name]
    apply(monkeypatch)
    with pytest.warns(FaultWarning, match="bug in Intaglio") as told:
        model = intaglio.load(mixed_graph())
    for rows in (3, 1, 0):
        for got, expected in zip(model(X[:rows]), evaluate(mixed_graph(), [X[:rows]]), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5)
    explanation = model.explain()
    assert len(explanation.host_nodes) == (len(list(mixed_graph().nodes)) if hosted < 0 else hosted)
    assert all("bug in Intaglio" in call.reason for call in explanation.host_nodes)
    assert [note for note in explanation.notes if "bug in Intaglio" in note] == [str(item.message) for item in told]


def test_a_report_names_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    CASES["rule is wrong C"][0](monkeypatch)
    with pytest.warns(FaultWarning) as told:
        intaglio.load(mixed_graph())
    text = str(told[-1].message)
    for part in ("MatMul()(float32[n, 4], float32[4, 3]) -> float32[n, 3] at /layer/node", "report", "False"):
        assert part in text


@pytest.mark.parametrize("name", ["rule raises", "rule is wrong C", "rule is wrong in the driver"])
def test_a_fault_in_the_body_of_a_loop(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    CASES[name][0](monkeypatch)
    with pytest.warns(FaultWarning):
        model = intaglio.load(loop_graph())
    np.testing.assert_allclose(model(X), evaluate(loop_graph(), [X])[0], rtol=1e-5)
    assert [call.title.split()[0] for call in model.explain().host_nodes] == ["MatMul", "Loop"]


def test_many_faults_of_one_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph("many")
    x = graph.add_input("x", TensorType(FLOAT32, (3, 4)))
    b = Builder(graph)
    for _ in range(30):
        x = b.MatMul(x, b.constant(np.eye(4), FLOAT32))
    graph.set_outputs([x])
    CASES["rule raises"][0](monkeypatch)
    with pytest.warns(FaultWarning) as told:
        model = intaglio.load(graph)
    assert len(told) < 12
    assert len(model.explain().host_nodes) == 30
    np.testing.assert_allclose(model(X), X)


def test_strict_refuses_what_a_fault_leaves_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    warnings.simplefilter("ignore", FaultWarning)
    for name in ("rule raises", "rule is wrong C"):
        with monkeypatch.context() as patch:
            CASES[name][0](patch)
            with pytest.raises(UnsupportedError, match="bug in Intaglio"):
                intaglio.load(mixed_graph(), strict=True)


@pytest.mark.parametrize("name", ["epilogue raises", "rule is wrong C", "rule is wrong in the driver", "groups raise"])
def test_faults_are_errors_where_the_variable_says_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTAGLIO_FAULTS", "raise")
    CASES[name][0](monkeypatch)
    with pytest.raises((KeyError, AssertionError, intaglio.errors.CompileError)):
        intaglio.load(mixed_graph())


def test_limits_and_errors_of_users_are_no_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    def limited(*_: object) -> None:
        raise LimitError("too much")

    breaks_rule("MatMul", always, limited)(monkeypatch)
    with pytest.raises(LimitError, match="too much"):
        intaglio.load(mixed_graph())


def test_an_error_of_a_users_operator_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(IMPLEMENTATIONS, ("", "Relu"), {})
    calls: list[int] = []

    @intaglio.implementation("Relu", "fails_late", expand=True)
    def fails_late(b: Any, x: Any) -> Any:
        calls.append(0)
        if len(calls) > 1:
            raise ZeroDivisionError("the user's own")
        return b.Max(x, b.constant(0, FLOAT32))

    with pytest.raises(ZeroDivisionError):
        intaglio.load(mixed_graph(), implementations={"Relu": "fails_late"})
    assert calls


def test_a_size_that_nobody_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a plan for just these sizes, then by the reference engine."""
    model = intaglio.load(mixed_graph())
    prepare, failures = Step._prepare, list[int]()

    def failing(self: Step, bindings: dict[str, int]) -> Any:
        if len(failures) < most:
            failures.append(0)
            raise GraphError("the dimension 8*n needs a value for n")
        return prepare(self, bindings)

    monkeypatch.setattr(Step, "_prepare", failing)
    for most, is_hosted in ((1, False), (3, True)):
        data = X[:most]
        with pytest.warns(FaultWarning, match="needs a value for n"):
            results = model(data)
        for got, wanted in zip(results, evaluate(mixed_graph(), [data]), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5)
        assert (model.host_runs > 0) == is_hosted


def test_a_plan_that_reads_what_nobody_computes_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    real = lower.form_groups

    def forgets(nodes: Any, kinds: Any, faults: Any, rules: Any) -> Any:
        groups = real(nodes, kinds, faults, rules)
        return [group for group in groups if faults.is_plain or len(group.nodes) == 1]

    monkeypatch.setattr(lower, "form_groups", forgets)
    with pytest.warns(FaultWarning, match="before it is computed"):
        model = intaglio.load(mixed_graph())
    for got, expected in zip(model(X), evaluate(mixed_graph(), [X]), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_a_size_that_a_driver_uses_too_early_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph("late")
    x = graph.add_input("x", TensorType(FLOAT32, (3, 4)))
    b = Builder(graph)
    graph.set_outputs([b.Cast(b.NonZero(x), to=FLOAT32.number)])

    def moved(*arguments: Any, **options: Any) -> Any:
        plan = real(*arguments, **options)
        for step in plan.parts:
            if isinstance(step, Segment) and len(options["faults"].met) == 0:
                step.actions.reverse()
        return plan

    real = repair.lower
    monkeypatch.setattr(repair, "lower", moved)
    with pytest.warns(FaultWarning, match="before it is known"):
        model = intaglio.load(graph)
    np.testing.assert_array_equal(model(X), np.array(np.nonzero(X), np.float32))


def kept_programs(model: Model) -> Iterator[bool]:
    for variant in model._variants.values():
        assert isinstance(variant.engine, native.NativeEngine)
        yield variant.engine.is_plain


def test_a_model_with_faults_has_no_kept_program(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(kept_programs(intaglio.load(mixed_graph())))
    CASES["epilogue raises"][0](monkeypatch)
    with pytest.warns(FaultWarning):
        model = intaglio.load(mixed_graph())
    assert not any(kept_programs(model))
