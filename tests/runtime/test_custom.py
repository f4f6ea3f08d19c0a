"""Operators and implementations of users: registered, read, typed, run on both engines, chosen and refused."""

from __future__ import annotations

import copy
import pickle
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import intaglio
from intaglio import GraphError, InputError, OperatorError, ShapeError, UnsupportedError, ops
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Value
from intaglio.ir.op import OPERATORS
from intaglio.ir.text import format_graph, parse_graph
from intaglio.ir.types import TensorType
from intaglio.runtime.model import custom
from intaglio.runtime.model.implementations import IMPLEMENTATIONS

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)

pytestmark = pytest.mark.usefixtures("clean_tables")


@pytest.fixture
def clean_tables() -> Iterator[None]:
    """What a test registers is gone after it, and what others registered is not there."""
    tables: list[Any] = [OPERATORS, IMPLEMENTATIONS, custom._own]
    saved = [copy.copy(table) for table in tables]
    IMPLEMENTATIONS.clear()
    yield
    for table, before in zip(tables, saved, strict=True):
        table.clear()
        table.update(before)


def model_of(
    operator: str, domain: str = "my", inputs: int = 1, outputs: int = 1, shape: Any = ("N", 3), **attributes: Any
) -> onnx.ModelProto:
    """Relu, then one node of the operator, then Neg of its outputs."""
    names = [f"x{index}" for index in range(inputs)]
    nodes = [helper.make_node("Relu", ["x0"], ["r"])]
    made = [f"made{index}" for index in range(outputs)]
    nodes.append(helper.make_node(operator, ["r", *names[1:]], made, "the/node", domain=domain, **attributes))
    nodes += [helper.make_node("Neg", [name], [f"y{index}"]) for index, name in enumerate(made)]
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in names],
        [onnx.ValueInfoProto(name=f"y{index}") for index in range(outputs)],
    )
    opsets = [helper.make_opsetid("", 21)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def on_both(model: onnx.ModelProto, *arrays: Any, **options: Any) -> Any:
    """The result on the native engine, found equal to that of the reference."""
    native = intaglio.load(model, **options)(*arrays)
    reference = intaglio.load(model, engine="reference", **options)(*arrays)
    np.testing.assert_allclose(native, reference, rtol=1e-6)
    return native


def test_a_function() -> None:
    @intaglio.op(domain="my")
    def Clamp(x, *, limit: float = 1.0):
        """Cut off."""
        return np.clip(x, -limit, limit)

    np.testing.assert_array_equal(on_both(model_of("Clamp", limit=0.5), X), -np.clip(X, 0, 0.5))
    np.testing.assert_array_equal(on_both(model_of("Clamp"), X), -np.clip(X, 0, 1))
    np.testing.assert_array_equal(Clamp(X, limit=0.5), np.clip(X, -0.5, 0.5))
    assert intaglio.has_operator("Clamp", "my")
    assert str(intaglio.schema("Clamp", "my")) == "my::Clamp-1(x; limit: FLOAT = 1.0) -> (output)"
    assert intaglio.schema("Clamp", "my").doc == "Cut off."
    model = intaglio.load(model_of("Clamp"))
    (host,) = model.explain().host_nodes
    assert host.reason == "Clamp is computed by a Python function"
    assert str(model.outputs[0].type) == "float32[N, 3]"
    with pytest.raises(UnsupportedError, match="Clamp at the/node"):
        intaglio.load(model_of("Clamp"), strict=True)


def test_a_class_with_expand_is_compiled() -> None:
    @intaglio.op(domain="my")
    class SquaredRelu:
        scale: float = 1.0

        def expand(self, b: Any, x: Value) -> Value:
            positive = b.Relu(x)
            return positive * positive * self.scale

    model = model_of("SquaredRelu", scale=0.5)
    np.testing.assert_allclose(on_both(model, X, simplify=True), -0.5 * np.maximum(X, 0) ** 2, rtol=1e-6)
    assert intaglio.load(model, strict=True).explain().host_nodes == ()
    assert ops.domain("my").SquaredRelu([3.0]).tolist() == [9]
    assert SquaredRelu(scale=0.5) == SquaredRelu(scale=0.5)


def test_a_class_with_reference() -> None:
    class Base:
        power: int = 2

        def label(self) -> str:
            return "base"

    @intaglio.op
    class Rows(Base):
        axes: list[int] = [0]  # noqa: RUF012

        def infer(self, x: Value, mask: Value | None = None) -> Any:
            return TensorType(x.dtype, x.shape[:1]), x.type

        def reference(self, x: Any, mask: Any = None) -> Any:
            return (x**self.power).sum(axis=1), x

        def label(self) -> str:
            return "derived of " + super().label()

    assert Rows(power=3, axes=(1,)).label() == "derived of base"
    model = intaglio.load(model_of("Rows", "user", outputs=2, power=3))
    sums, same = model(X)
    np.testing.assert_allclose(sums, -(np.maximum(X, 0) ** 3).sum(axis=1), rtol=1e-6)
    np.testing.assert_array_equal(same, -np.maximum(X, 0))
    schema = intaglio.schema("Rows", "user")
    assert [(each.name, each.kind) for each in schema.inputs] == [("x", "single"), ("mask", "optional")]
    assert [(each.name, each.type, each.default) for each in schema.attributes] == [
        ("axes", "INTS", (0,)),
        ("power", "INT", 2),
    ]


def test_kinds_of_inputs_and_attributes() -> None:
    @intaglio.op(domain="my", outputs=("total", "count"), name="Gathered")
    def gathered(first, *rest, mode: str, sizes: tuple[int, ...] = (), flag=True, weights=[1.0]):  # noqa: B006
        assert (mode, flag, weights) == ("all", True, (1.0,))
        return sum(rest, first) * len(sizes), np.float32(len(rest))

    model = model_of("Gathered", inputs=3, outputs=2, mode="all", sizes=[4, 5])
    total, count = intaglio.load(model)(X, X, X)
    np.testing.assert_allclose(total, -2 * (np.maximum(X, 0) + 2 * X), rtol=1e-6)
    assert count == -2
    assert [each.name for each in intaglio.schema("Gathered", "my").outputs] == ["total", "count"]
    with pytest.raises(intaglio.LoadError, match="needs the attribute mode"):
        intaglio.load(model_of("Gathered"))
    with pytest.raises(intaglio.LoadError, match="color"):
        intaglio.load(model_of("Gathered", mode="all", color=1))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x * 2, "float32[N, M]"),
        (lambda x: x.T, "float32[M, N]"),
        (lambda x: x.sum(axis=0), "float32[M]"),
        (lambda x: x.reshape(-1), "float32[M*N]"),
        (lambda x: np.concatenate([x, x[:2]]), "float32[N + 2, M]"),
        (lambda x: np.concatenate([x, x, x[:1]]), "float32[2*N + 1, M]"),
        (lambda x: x[:, :2], "float32[N, 2]"),
        (lambda x: x > 0, "bool[N, M]"),
        (lambda x: np.array(x.shape), "int64[2]"),
        (lambda x: x.astype(np.float64).mean(), "float64[]"),
        (lambda x: x[: x.shape[0] // 2], "float32['y.0', M]"),
    ],
)
def test_types_by_example(function: Any, expected: str) -> None:
    intaglio.op(function, name="Trial", domain="my")
    with intaglio.build("trial", {"x": "float32[N, M]"}) as g:
        y = ops.domain("my").Trial(g["x"])
        assert str(y.type).replace(f"{y.name}.", "y.") == expected
        g.output(y=y)
    given = np.ones((6, 5), np.float32)
    np.testing.assert_array_equal(g.model()(given), function(given))


def test_types_by_example_take_constants_and_known_contents() -> None:
    @intaglio.op(domain="my")
    def Resized(x, shape):
        return np.resize(x, tuple(shape))

    with intaglio.build("trial", {"x": "float32[N]"}) as g:
        assert str(Resized(g["x"], [2, 3]).type) == "float32[2, 3]"
        y = Resized(g["x"], ops.Concat(ops.Shape(g["x"]), [2], axis=0))
        assert str(y.type) == "float32[N, 2]"
        g.output(y=y * 2)
    assert g.model()(np.array([1, 2, 3], np.float32)).tolist() == [[2, 4], [6, 2], [4, 6]]


def test_types_by_example_say_why_they_fail() -> None:
    @intaglio.op(domain="my")
    def Picky(x):
        raise RuntimeError("needs eight")

    with pytest.raises(ShapeError, match=r"Picky was tried on .*failed: RuntimeError: needs eight; give the operator"):
        Picky(X)

    @intaglio.op(domain="my")
    def Ranked(x):
        return np.ones((1,) * x.shape[0], x.dtype)

    with pytest.raises(ShapeError, match="Ranked gives other element types or ranks for other sizes"):
        intaglio.load(model_of("Ranked"))
    with intaglio.build("m", {"x": "float32[...]"}) as g, pytest.raises(ShapeError, match="is not known before"):
        Ranked(g["x"])


def test_a_given_type_rule_is_used_and_checked() -> None:
    @intaglio.op(domain="my", infer=lambda x, *, n: TensorType(FLOAT32, (x.shape[0], n)))
    def Wide(x, *, n: int):
        return np.ones((x.shape[0], 4), np.float64 if n == 5 else np.float32)

    assert intaglio.load(model_of("Wide", n=4))(X).shape == (2, 4)
    for engine in ("native", "reference"):
        with pytest.raises(OperatorError, match=r"Wide at the/node.* gave float32\[2, 4\] for %made0: float32\[N, 3\]"):
            intaglio.load(model_of("Wide", n=3), engine=engine)(X)
        with pytest.raises(OperatorError, match=r"Wide at .* gave float64\[2, 4\]"):
            intaglio.load(model_of("Wide", n=5), engine=engine)(X)


def test_what_a_function_gives_may_be_wrong() -> None:
    @intaglio.op(domain="my", outputs=2, infer=lambda x: (x.type, x.type))
    def Lazy(x):
        return x

    with pytest.raises(OperatorError, match=r"Lazy at the/node .*gave 1 results, expected 2"):
        intaglio.load(model_of("Lazy", outputs=2))(X)

    @intaglio.op(domain="my", infer=lambda x: x.type)
    def InPlace(x):
        x += 1
        return x

    with pytest.raises(OperatorError, match=r"InPlace at the/node .*read-only"):
        intaglio.load(model_of("InPlace"))(X)

    @intaglio.op(domain="my", infer=lambda x: x.type)
    def Shrinking(x):
        return x[1:]

    with pytest.raises((OperatorError, ShapeError), match="made0"):
        intaglio.load(model_of("Shrinking"))(X)


def test_strings() -> None:
    @intaglio.op(domain="my")
    def Upper(x):
        return np.char.upper(x.astype(str))

    with intaglio.build("text", {"x": "string[N]"}) as g:
        g.output(y=Upper(g["x"]))
    assert g.model()(["a", "b"]).tolist() == ["A", "B"]


def test_names_that_exist_are_refused_and_own_ones_replaced() -> None:
    for domain, name in (("", "Relu"), ("ai.onnx", "Relu"), ("", "Upsample"), ("com.microsoft", "QuickGelu")):
        with pytest.raises(InputError, match=r"is an operator of .* already; register an implementation"):
            intaglio.op(lambda x: x, name=name, domain=domain)
    with pytest.raises(InputError, match="cannot be the name of an operator"):
        intaglio.op(lambda x: x, domain="my")
    first = intaglio.op(lambda x: x, name="Again", domain="my")
    second = intaglio.op(lambda x: x * 2, name="Again", domain="my")
    assert (first([1.0]), second([1.0])) == (1, 2)
    np.testing.assert_array_equal(on_both(model_of("Again"), X), -2 * np.maximum(X, 0))


def test_definitions_that_make_no_sense() -> None:
    with pytest.raises(InputError, match="gives its input 'y' the default 3"):
        intaglio.op(lambda x, y=3: x, name="A", domain="my")
    with pytest.raises(InputError, match=r"takes \*\*options; name every attribute"):
        intaglio.op(lambda x, **options: x, name="A", domain="my")
    with pytest.raises(InputError, match="defines neither `expand` nor `reference`"):
        intaglio.op(type("A", (), {}))
    with pytest.raises(InputError, match="write its type rule as the method"):
        intaglio.op(type("A", (), {"reference": lambda self, x: x}), infer=lambda x: x.type)
    with pytest.raises(InputError, match="a subclass of Op"):
        intaglio.op(OPERATORS["", "Relu"])


def test_models_with_own_operators_are_copied_pickled_printed_and_written(tmp_path: Path) -> None:
    @intaglio.op(domain="my")
    def Clamp(x, *, limit: float = 1.0):
        return np.clip(x, -limit, limit)

    model = intaglio.load(model_of("Clamp", limit=0.5))
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other(X), model(X))
    assert parse_graph(format_graph(model.graph)) == model.graph
    with intaglio.build("written", {"x": "float32[N]"}) as g:
        g.output(y=Clamp(g["x"], limit=0.25))
    g.save(tmp_path / "clamp.onnx")
    assert intaglio.load(tmp_path / "clamp.onnx")(np.array([1], np.float32)) == 0.25
    data = pickle.dumps(model)
    del OPERATORS["my", "Clamp"]
    with pytest.raises(UnsupportedError, match="the operator Clamp of 'my' is not registered in this process"):
        pickle.loads(data)


def softplus_model(dtype: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """Two nodes of Softplus in the main graph and one in a branch."""
    branch = helper.make_graph(
        [helper.make_node("Softplus", ["b"], ["inner"], "deep")], "branch", [], [onnx.ValueInfoProto(name="inner")]
    )
    graph = helper.make_graph(
        [
            helper.make_node("Softplus", ["x"], ["a"], "/encoder/first"),
            helper.make_node("Softplus", ["a"], ["b"], "/encoder/second"),
            helper.make_node("If", ["c"], ["y"], "if", then_branch=branch, else_branch=branch),
        ],
        "model",
        [
            helper.make_tensor_value_info("x", dtype, ["N", 3]),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        ],
        [onnx.ValueInfoProto(name="y")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def register_softplus() -> list[int]:
    """The implementations "numpy" and "plain"; a list that counts the calls of the first."""
    calls: list[int] = []

    @intaglio.implementation("Softplus", "numpy")
    def numpy_softplus(X: Any) -> Any:
        calls.append(X.size)
        return np.log1p(np.exp(X))

    @intaglio.implementation("Softplus", "plain", expand=True)
    def plain_softplus(b: Any, X: Value) -> Value:
        return b.Log(b.Exp(X) + 1)

    return calls


def softplus(x: Any, times: int = 1) -> Any:
    for _ in range(times):
        x = np.log1p(np.exp(x))
    return x


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_an_implementation_in_numpy(engine: Any) -> None:
    calls = register_softplus()
    model = intaglio.load(softplus_model(), engine=engine, implementations={"Softplus": "numpy"})
    np.testing.assert_allclose(model(X, True), softplus(X, 3), rtol=1e-5)
    assert calls == [6, 6, 6]
    assert [choice.node for choice in model.choices if not choice.refusal] == [
        "/encoder/first (Softplus)",
        "/encoder/second (Softplus)",
        "if (If)/then_branch/deep (Softplus)",
        "if (If)/else_branch/deep (Softplus)",
    ]
    text = str(model.explain())
    assert "implementation 'numpy' of Softplus is used at /encoder/first (Softplus)" in text
    if engine == "native":
        assert "the implementation 'numpy' of Softplus is a Python function" in text
    calls.clear()
    np.testing.assert_allclose(intaglio.load(softplus_model())(X, True), softplus(X, 3), rtol=1e-5)
    assert calls == []


def test_an_expansion_is_compiled() -> None:
    register_softplus()
    with intaglio.build("m", {"x": "float32[N]"}) as g:
        g.output(y=ops.Softplus(g["x"]))
    model = g.model(strict=True, implementations={"Softplus": "plain"})
    (call,) = model.explain().calls
    assert call.title.startswith("Exp + Add + Log")
    np.testing.assert_allclose(model(X[0]), softplus(X[0]), rtol=1e-5)
    np.testing.assert_allclose(
        g.model(engine="reference", implementations={"Softplus": "plain"})(X[0]), softplus(X[0]), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"node:/encoder/second": "numpy"}, 1),
        ({"node:/encoder/second (Softplus)": "numpy"}, 1),
        ({"Softplus": "numpy", "node:/encoder/second": "builtin"}, 2),
        ({"Softplus": "plain", "node:/encoder/first": "numpy"}, 1),
        ({"ai.onnx::Softplus": "numpy"}, 3),
        ({"*": "numpy"}, 3),
        ({"*": "numpy", "Softplus": "builtin"}, 0),
        ({"node:if (If)/then_branch/deep": "numpy"}, 1),
        ({"Softplus": "builtin"}, 0),
        ({}, 0),
    ],
)
def test_keys_from_the_most_specific_on(wanted: dict[str, str], expected: int) -> None:
    calls = register_softplus()
    model = intaglio.load(softplus_model(), implementations=wanted)
    np.testing.assert_allclose(model(X, True), softplus(X, 3), rtol=1e-5)
    assert len(calls) == expected


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"Softplus": "nunpy"}, "there is no implementation 'nunpy' of Softplus; did you mean 'numpy'"),
        ({"Softplus": "gpu"}, "of Softplus; there is 'builtin', 'numpy', 'plain'"),
        ({"Relu": "numpy"}, "there is no implementation 'numpy' of Relu; there is 'builtin'"),
        ({"Softplush": "numpy"}, "there is no operator 'Softplush' .*did you mean Softplus"),
        ({"my::Softplus": "numpy"}, "there is no operator 'Softplus' in 'my'"),
        ({"node:/encoder/frist": "numpy"}, "no node '/encoder/frist'; did you mean 'node:/encoder/first'"),
        ({"node:if": "numpy"}, "there is no implementation 'numpy' of If at if"),
        ({"*": "nothing"}, "there is no implementation 'nothing' of any operator"),
    ],
)
def test_names_that_do_not_exist(wanted: dict[str, str], message: str) -> None:
    register_softplus()
    with pytest.raises(InputError, match=message):
        intaglio.load(softplus_model(), implementations=wanted)


def refused(wanted: dict[str, str], source: Any) -> intaglio.Model:
    """A model that warns of its first refusal, and that `strict=True` would not load."""
    with pytest.warns(UserWarning, match="is not used at") as caught:
        model = intaglio.load(source, implementations=wanted)
    first = next(choice for choice in model.choices if choice.refusal)
    assert str(caught[0].message).startswith(str(first))
    assert str(first) in str(model.explain())
    assert caught[0].filename == __file__
    with pytest.raises(UnsupportedError, match="strict=True, and these implementations cannot be used"):
        intaglio.load(source, implementations=wanted, strict=True)
    return model


@pytest.mark.parametrize(
    ("applies", "reason"),
    [
        (lambda node: node.inputs[0].dtype.name == "float64", "its check says that it does not apply"),
        (lambda node: f"{node.inputs[0].dtype} is too narrow", "float32 is too narrow"),
        (lambda node: node.inputs[0].shape[0] < 4, "it cannot be decided: "),
    ],
)
def test_where_it_does_not_apply_the_builtin_is_used(applies: Any, reason: str) -> None:
    intaglio.implementation("Softplus", "picky", applies=applies)(lambda X: X * 0)
    model = refused({"Softplus": "picky"}, softplus_model())
    np.testing.assert_allclose(model(X, True), softplus(X, 3), rtol=1e-5)
    assert len(model.choices) == 4
    assert all(reason in choice.refusal for choice in model.choices)


def test_attributes_and_inputs_that_a_function_does_not_take() -> None:
    intaglio.implementation("LeakyRelu", "default")(lambda X: np.where(X < 0, X * np.float32(0.01), X))
    with intaglio.build("m", {"x": "float32[N]"}) as g:
        g.output(y=ops.LeakyRelu(g["x"]), z=ops.LeakyRelu(g["x"], alpha=0.5), c=ops.Clip(g["x"], 0.0, 1.0))
    model = refused({"LeakyRelu": "default"}, g.graph)
    assert [choice.refusal for choice in model.choices] == [
        "",
        "it does not take the attribute 'alpha', which is 0.5 here",
    ]
    assert model(np.array([-2], np.float32))[1] == -1

    intaglio.implementation("Clip", "low")(lambda input, min: np.maximum(input, min))
    model = refused({"Clip": "low"}, g.graph)
    assert model.choices[0].refusal == "it takes 2 inputs, the node has 3"
    intaglio.implementation("Clip", "all")(lambda input, min, max, more: input)
    assert refused({"Clip": "all"}, g.graph).choices[0].refusal == "it needs the input 'more'"


@pytest.mark.parametrize("names", [{"alpha"}, {"any"}])
def test_attributes_that_a_function_takes(names: set[str]) -> None:
    if "any" in names:
        intaglio.implementation("LeakyRelu", "own")(
            lambda X, **given: np.where(X < 0, X * np.float32(given["alpha"]), X)
        )
    else:
        intaglio.implementation("LeakyRelu", "own")(lambda X, *, alpha: np.where(X < 0, X * np.float32(alpha), X))
    with intaglio.build("m", {"x": "float32[N]"}) as g:
        g.output(y=ops.LeakyRelu(g["x"], alpha=0.5))
    model = g.model(implementations={"LeakyRelu": "own"})
    assert model(np.array([-2], np.float32)) == -1
    assert len(model.explain().host_nodes) == 1


def test_an_expansion_of_another_type_is_refused() -> None:
    intaglio.implementation("Softplus", "double", expand=True)(lambda b, X: b.Cast(X, to=11))
    model = refused({"Softplus": "double"}, softplus_model())
    assert "it gives float64[N, 3] for %a: float32[N, 3]" in model.choices[0].refusal


def test_results_that_are_known_before_the_run_and_operators_that_are_absent() -> None:
    intaglio.implementation("Add", "own")(lambda A, B: A + B)
    intaglio.implementation("Softplus", "own")(lambda X: X)
    with intaglio.build("m", {"x": "float32[N]"}) as g:
        g.output(y=ops.Reshape(g["x"], ops.Shape(g["x"]) + 0))
    model = refused({"Add": "own", "Softplus": "own"}, g.graph)
    assert [choice.refusal for choice in model.choices] == [
        "the result is known before the run",
        "the model has no node of this operator",
    ]


def test_a_composite_operator_in_numpy() -> None:
    @intaglio.implementation("HardSwish", "own")
    def hard_swish(X: Any) -> Any:
        return X * np.clip(X / np.float32(6) + np.float32(0.5), 0, 1)

    with intaglio.build("m", {"x": "float32[N]"}) as g:
        g.output(y=ops.HardSwish(g["x"]) + 1)
    model = g.model(implementations={"HardSwish": "own"})
    np.testing.assert_allclose(model(X[0]), hard_swish(X[0]) + 1, rtol=1e-6)
    assert len(model.explain().host_nodes) == 1
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other(X[0]), model(X[0]))
    assert parse_graph(format_graph(model.simplified)) == model.simplified


def test_an_implementation_of_an_own_operator() -> None:
    Clamp = intaglio.op(lambda x: np.clip(x, -1, 1), name="Clamp", domain="my")
    intaglio.implementation("Clamp", "compiled", domain="my", expand=True)(lambda b, x: b.Clip(x, -1.0, 1.0))
    with intaglio.build("m", {"x": "float32[N]"}) as g:
        g.output(y=Clamp(g["x"]))
    assert g.model(strict=True, implementations={"my::Clamp": "compiled"})(np.array([3], np.float32)) == 1
    assert list(intaglio.get_operator("Clamp", "my").implementations) == ["compiled"]


def test_results_of_implementations_are_checked() -> None:
    intaglio.implementation("Softplus", "wrong")(lambda X: X.astype(np.float64))
    with pytest.raises(
        OperatorError, match=r"Softplus at /encoder/first .*gave float64\[2, 3\] for %a: float32\[N, 3\]"
    ):
        intaglio.load(softplus_model(), implementations={"Softplus": "wrong"})(X, True)


def test_registrations_that_make_no_sense() -> None:
    with pytest.raises(InputError, match="there is no operator 'Softplush'"):
        intaglio.implementation("Softplush", "own")
    with pytest.raises(UnsupportedError, match="If runs a subgraph"):
        intaglio.implementation("If", "own")
    with pytest.raises(InputError, match="cannot be the name of an implementation"):
        intaglio.implementation("Softplus", "builtin")
    with pytest.raises(InputError, match="Softplus has no attribute 'beta'"):
        intaglio.implementation("Softplus", "own")(lambda X, *, beta: X)
    intaglio.implementation("Softplus", "own", applies=lambda node: None)(lambda X: X)  # pyright: ignore
    with pytest.raises(InputError, match="must return True, False or a text, got None"):
        intaglio.load(softplus_model(), implementations={"Softplus": "own"})


def test_unknown_operators_tell_of_registration() -> None:
    with pytest.raises(UnsupportedError, match=r"my::Nothing.*register a class"):
        intaglio.load(model_of("Nothing"))
    with pytest.raises(GraphError, match="needs its input 'y'"):
        intaglio.op(lambda x, y: x, name="Two", domain="my")([1.0])


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "custom_operator.py"))
    assert "implementation 'plain' of Softplus is used at softplus (Softplus)" in capsys.readouterr().out
