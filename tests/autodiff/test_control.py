"""Gradients through branches, loops and maps, against differences, on both engines and in ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.autodiff.judge import judge

import intaglio
from intaglio import ops
from intaglio.errors import UnsupportedError

Y, K = np.array([0.3, 1.0, -0.4]), np.array(0.7)


def ode(is_open: bool) -> intaglio.ModelBuilder:
    """Euler's steps of y' = -k sin(y) in a Loop, with a weight from outside; the number of rounds may be open."""
    with intaglio.build("ode", inputs={"y0": "float64[3]", "k": "float64[]", "n": "int64[]"}) as g:
        body = g.body("step", inputs={"i": "int64[]", "goes_on": "bool[]", "y": "float64[3]"})
        with body:
            time = ops.Cast(body["i"], to=11)
            y = body["y"] - ops.Sin(body["y"]) * g["k"] * (time + 1.0) * 0.05
            goes_on = ops.Less(body["i"], np.int64(3)) if is_open else ops.Identity(body["goes_on"])
            body.output(goes_on, y, ops.Mul(y, y))
        final, squares = ops.Loop(g["n"], None, g["y0"], body=body.graph, outputs=2)
        g.output(loss=ops.Concat(ops.Unsqueeze(final, [0]), ops.Exp(squares), axis=0))
    return g


@pytest.mark.parametrize("is_open", [False, True])
def test_loop(is_open: bool) -> None:
    judge(ode(is_open).graph, {"y0": Y, "k": K, "n": np.array(5)}, ["k", "y0"])


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_a_loop_without_rounds(engine: str) -> None:
    model = intaglio.grad(ode(False).graph, wrt=["y0", "k"], engine=engine)
    by_y, by_k = model(Y, K, np.array(0))
    assert by_y.tolist() == [1, 1, 1]
    assert by_k == 0


def scan(input_axis: int, output_axis: int, input_direction: int, output_direction: int) -> intaglio.ModelBuilder:
    with intaglio.build("scan", inputs={"s": "float64[3]", "x": "float64[4, 3]", "w": "float64[3]"}) as g:
        body = g.body("step", inputs={"state": "float64[3]", "row": "float64[3]"})
        with body:
            state = ops.Tanh(body["state"] * g["w"] + body["row"])
            body.output(state, ops.Mul(state, body["row"]))
        x = g["x"] if input_axis == 0 else ops.Transpose(g["x"], perm=[1, 0])
        final, rows = ops.Scan(
            g["s"],
            x,
            body=body.graph,
            num_scan_inputs=1,
            scan_input_axes=[input_axis],
            scan_output_axes=[output_axis],
            scan_input_directions=[input_direction],
            scan_output_directions=[output_direction],
            outputs=2,
        )
        weights = np.arange(12.0).reshape((4, 3) if output_axis == 0 else (3, 4))
        g.output(y=ops.Add(final, ops.ReduceSum(ops.Mul(rows, weights), keepdims=0)))
    return g


@pytest.mark.parametrize("axes", [(0, 0), (1, 1)])
@pytest.mark.parametrize("directions", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_scan(axes: tuple[int, int], directions: tuple[int, int]) -> None:
    generator = np.random.default_rng(5)
    feeds = {"s": Y, "x": generator.standard_normal((4, 3)), "w": generator.standard_normal(3)}
    judge(scan(*axes, *directions).graph, feeds, ["x", "s", "w"], order=1 + (directions == (0, 1)))


def branches() -> intaglio.ModelBuilder:
    with intaglio.build("branches", inputs={"c": "bool[]", "x": "float64[3]", "w": "float64[3]"}) as g:
        first, second = g.body("first"), g.body("second")
        with first:
            first.output(ops.Mul(ops.Sin(g["x"]), g["w"]), ops.Identity(g["x"]))
        with second:
            second.output(ops.Exp(g["x"]), ops.Identity(g["w"]))
        a, c = ops.If(g["c"], then_branch=first.graph, else_branch=second.graph, outputs=2)
        g.output(y=ops.Mul(a, c))
    return g


@pytest.mark.parametrize("condition", [True, False])
def test_if(condition: bool) -> None:
    judge(branches().graph, {"c": np.array(condition), "x": Y, "w": Y * 2 + 1}, ["x", "w"])


def test_branches_of_other_shapes() -> None:
    with intaglio.build("shapes", inputs={"c": "bool[]", "x": "float64[3]"}) as g:
        first, second = g.body("first"), g.body("second")
        with first:
            first.output(ops.Concat(g["x"], ops.Exp(g["x"]), axis=0))
        with second:
            second.output(ops.Sin(g["x"]))
        g.output(y=ops.If(g["c"], then_branch=first.graph, else_branch=second.graph))
    for condition in (True, False):
        judge(g.graph, {"c": np.array(condition), "x": Y}, ["x"])


def test_a_branch_in_a_loop_in_which_one_state_counts_for_another() -> None:
    """The gradient of one state reaches another only through further rounds, and a state that nobody needs is left."""
    with intaglio.build("nested", inputs={"x": "float64[3]", "w": "float64[3]"}) as g:
        inputs = {"i": "int64[]", "go": "bool[]", "a": "float64[3]", "b": "float64[3]", "unused": "float64[3]"}
        body = g.body("body", inputs=inputs)
        with body:
            first, second = body.body("first"), body.body("second")
            with first:
                first.output(ops.Mul(body["b"], g["w"]))
            with second:
                second.output(ops.Sin(body["b"]))
            even = ops.Equal(ops.Mod(body["i"], np.int64(2)), np.int64(0))
            chosen = ops.If(even, then_branch=first.graph, else_branch=second.graph)
            body.output(ops.Identity(body["go"]), body["b"], chosen, ops.Floor(body["unused"]))
        a, _, _ = ops.Loop(np.int64(4), None, g["x"], ops.Exp(g["x"]), g["x"], body=body.graph, outputs=3)
        g.output(y=ops.Mul(a, a))
    judge(g.graph, {"x": Y, "w": Y + 2}, ["w", "x"])


@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_recurrent_layers(operator: str, direction: str) -> None:
    generator, gates = np.random.default_rng(11), {"RNN": 1, "GRU": 3, "LSTM": 4}[operator]
    ways, hidden, inputs = 1 + (direction == "bidirectional"), 2, 3
    shapes = {
        "x": (3, 2, inputs),
        "w": (ways, gates * hidden, inputs),
        "r": (ways, gates * hidden, hidden),
        "b": (ways, 2 * gates * hidden),
    }
    arrays = {name: generator.uniform(-0.7, 0.7, shape) for name, shape in shapes.items()}
    types = {name: f"float64[{', '.join(map(str, shape))}]" for name, shape in shapes.items()}
    with intaglio.build("layer", inputs=types) as g:
        operands = [g[name] for name in ("x", "w", "r", "b")]
        lengths = np.array([3, 2], np.int32)
        y, last = getattr(ops, operator)(*operands, lengths, hidden_size=hidden, direction=direction, outputs=2)
        g.output(z=ops.Mul(ops.ReduceSum(y, [0], keepdims=0), ops.Exp(last)))
    judge(g.graph, arrays, ["w", "x", "r", "b"], order=1 if direction != "forward" else 2, in_onnx_runtime=True)


def test_bodies_that_draw_random_numbers_are_refused() -> None:
    with intaglio.build("drawing", inputs={"x": "float64[3]"}) as g:
        body = g.body("body", inputs={"i": "int64[]", "go": "bool[]", "a": "float64[N]"})
        with body:
            body.output(ops.Identity(body["go"]), ops.Dropout(body["a"], np.array(0.5), np.array(True)))
        g.output(y=ops.Loop(np.int64(3), None, g["x"], body=body.graph))
    with pytest.raises(UnsupportedError, match="random numbers in Dropout"):
        intaglio.grad(g.graph)


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_states_that_grow_are_computed_once_more(rounds: int) -> None:
    with intaglio.build("growing", inputs={"x": "float64[2]", "w": "float64[]", "n": "int64[]"}) as g:
        body = g.body("body", inputs={"i": "int64[]", "go": "bool[]", "a": "float64[N]", "total": "float64[]"})
        with body:
            grown = ops.Concat(body["a"], ops.Sin(body["a"] * g["w"]), axis=0)
            total = body["total"] + ops.ReduceSum(grown * grown, keepdims=0)
            stacked = ops.ReduceMean(grown, keepdims=0) * ops.Cast(body["i"], to=11)
            body.output(ops.Identity(body["go"]), grown, total, stacked)
        start = g.constant(np.array(0.5), "start")
        grown, total, stacked = ops.Loop(g["n"], None, g["x"], start, body=body.graph, outputs=3)
        weighted = ops.ReduceSum(stacked, keepdims=0) * ops.ReduceSum(ops.Exp(grown), keepdims=0)
        g.output(y=weighted + total)
    feeds = {"x": np.array([0.3, -0.8]), "w": np.array(0.7), "n": np.array(rounds)}
    judge(g.graph, feeds, ["x", "w"], order=2, in_onnx_runtime=False)


def test_states_of_scans_do_not_grow() -> None:
    with intaglio.build("growing", inputs={"x": "float64[2]", "rows": "float64[3, 2]"}) as g:
        body = g.body("body", inputs={"a": "float64[N]", "row": "float64[2]"})
        with body:
            body.output(ops.Concat(ops.Exp(body["a"]), body["row"], axis=0))
        g.output(y=ops.Scan(g["x"], g["rows"], body=body.graph, num_scan_inputs=1))
    with pytest.raises(UnsupportedError, match=r"Scan: at .*size changes from round to round.*Loop"):
        intaglio.grad(g.graph)


def sequences() -> intaglio.ModelBuilder:
    with intaglio.build("sequences", inputs={"x": "float64[5]", "w": "float64[]", "p": "int64[]"}) as g:
        parts = ops.SplitToSequence(g["x"], np.array([2, 2, 1]), axis=0)
        body = g.body("body", inputs={"part": "float64[M]", "factor": "float64[]"})
        with body:
            body.output(ops.Sin(ops.Mul(body["part"], body["factor"])))
        mapped = ops.SequenceMap(parts, g["w"], body=body.graph)
        longer = ops.SequenceInsert(mapped, ops.Exp(ops.SequenceAt(parts, g["p"])), g["p"])
        kept = ops.OptionalGetElement(ops.Optional(ops.SequenceErase(longer, np.int64(-2))))
        g.output(y=ops.ConcatFromSequence(kept, axis=0))
    return g


@pytest.mark.parametrize("position", [0, 1, -1, -2])
def test_sequences_and_optionals(position: int) -> None:
    x: Any = np.random.default_rng(2).standard_normal(5)
    judge(sequences().graph, {"x": x, "w": K, "p": np.array(position)}, ["x", "w"], in_onnx_runtime=False)


def layer(direction: int, is_stacked_only: bool) -> intaglio.ModelBuilder:
    """A recurrent layer by hand: weights from outside that each round multiplies with, and a bias."""
    inputs = {"s": "float64[2, 3]", "x": "float64[4, 2, 3]", "w": "float64[3, 3]", "b": "float64[3]"}
    with intaglio.build("layer", inputs=inputs) as g:
        body = g.body("step", inputs={"state": "float64[2, 3]", "row": "float64[2, 3]"})
        with body:
            given = body["row"] if is_stacked_only else body["state"] + body["row"]
            state = ops.Tanh(ops.MatMul(given, g["w"]) + g["b"])
            body.output(ops.Identity(body["state"]) if is_stacked_only else state, ops.Mul(state, state))
        flags = {"scan_input_directions": [direction], "scan_output_directions": [direction]}
        _, rows = ops.Scan(g["s"], g["x"], body=body.graph, num_scan_inputs=1, outputs=2, **flags)
        g.output(loss=ops.Exp(rows))
    return g


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("is_stacked_only", [False, True])
def test_gradients_of_weights_are_one_product_behind_the_loop(direction: int, is_stacked_only: bool) -> None:
    graph, rng = layer(direction, is_stacked_only).graph, np.random.default_rng(4)
    shapes = {"s": (2, 3), "x": (4, 2, 3), "w": (3, 3), "b": (3,)}
    feeds = {name: rng.uniform(-0.9, 0.9, shape) for name, shape in shapes.items()}
    judge(graph, feeds, ["w", "b"])
    judge(graph, feeds, ["x", "w"], order=1)
    made = intaglio.grad(graph, of="loss", wrt=["w"], engine="reference").graph
    bodies = [body for node in made.nodes for _, body in node.op.subgraphs()]
    products = [node.outputs[0].shape for body in bodies for node in body.nodes if node.op.name == "MatMul"]
    assert (3, 3) not in products, "no round makes a product as large as the weights"
    assert any(node.op.name == "MatMul" and node.output.shape == (3, 3) for node in made.nodes)


@pytest.mark.parametrize("axis", [0, -1])
def test_a_loop_may_make_a_sequence(axis: int) -> None:
    """Of elements whose rank nothing says before the run, as SequenceEmpty does not; an axis from behind needs it."""
    from onnx import TensorProto, helper

    numbers = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name, size in (("x", 3), ("y", "k"))]
    count, goes_on = (
        helper.make_tensor_value_info(name, type, [])
        for name, type in (("round", TensorProto.INT64), ("goes_on", TensorProto.BOOL))
    )
    before, behind = (helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, [3]) for name in ("s", "s_out"))
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["x", "x"], ["square"]),
            helper.make_node("SequenceInsert", ["s", "square"], ["s_out"]),
            helper.make_node("Identity", ["goes_on"], ["still"]),
        ],
        "body",
        [count, goes_on, before],
        [helper.make_tensor_value_info("still", TensorProto.BOOL, []), behind],
    )
    nodes = [
        helper.make_node("Constant", [], ["n"], value_int=3),
        helper.make_node("SequenceEmpty", [], ["empty"]),
        helper.make_node("Loop", ["n", "", "empty"], ["all"], body=body),
        helper.make_node("ConcatFromSequence", ["all"], ["y"], axis=axis),
    ]
    graph = helper.make_graph(nodes, "grows", numbers[:1], numbers[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if axis < 0:
        with pytest.raises(UnsupportedError, match=r"Concat.*at #.*the rank"):
            intaglio.grad(model)
        return
    x = np.array([1.0, -2.0, 3.0], np.float32)
    np.testing.assert_allclose(intaglio.grad(model, engine="reference")(x), 6 * x)


@pytest.mark.parametrize(("operator", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("has_lengths", [False, True])
def test_first_states_may_name_the_batch_otherwise(operator: str, gates: int, has_lengths: bool) -> None:
    generator: Any = np.random.default_rng(3)
    states = ("h", "c") if operator == "LSTM" else ("h",)
    types = {"x": "float64[T, N, 3]", "w": f"float64[1, {2 * gates}, 3]", "r": f"float64[1, {2 * gates}, 2]"}
    types |= {name: f"float64[1, {name}_batch, {name}_size]" for name in states}
    shapes = {"x": (3, 2, 3), "w": (1, 2 * gates, 3), "r": (1, 2 * gates, 2), "h": (1, 2, 2), "c": (1, 2, 2)}
    arrays = {name: generator.uniform(-0.7, 0.7, shapes[name]) for name in types}
    lengths = np.array([3, 2], np.int32) if has_lengths else None
    with intaglio.build("layer", inputs=types) as g:
        operands = [g["x"], g["w"], g["r"], None, lengths, *(g[name] for name in states)]
        y, last = getattr(ops, operator)(*operands, hidden_size=2, outputs=2)
        g.output(z=ops.Mul(ops.ReduceSum(y, [0], keepdims=0), ops.Exp(last)))
    judge(g.graph, arrays, ["x", *states, "w"], order=1, in_onnx_runtime=False)
    wrong = {**arrays, "h": np.zeros((1, 3, 2))}
    with pytest.raises(intaglio.IntaglioError):
        intaglio.grad(g.graph, wrt=["x"], engine="reference").run(wrong)


@pytest.mark.parametrize("x", [[0.5, 1.5, 1.0], [0.5, -1.5, 1.0], [-1.0, -0.5, -2.0]])
def test_states_whose_size_the_run_says(x: list[float]) -> None:
    with intaglio.build("picking", inputs={"x": "float64[N]", "n": "int64[]"}) as g:
        body = g.body("body", inputs={"i": "int64[]", "go": "bool[]", "a": "float64[k]"})
        with body:
            picked = ops.Compress(body["a"], ops.Greater(body["a"], np.array(0.0)), axis=0)
            body.output(ops.Identity(body["go"]), ops.Sin(picked))
        g.output(y=ops.Loop(g["n"], None, g["x"], body=body.graph))
    judge(g.graph, {"x": np.array(x), "n": np.array(3)}, ["x"], order=2, engines=("reference",), in_onnx_runtime=False)


@pytest.mark.parametrize("is_stretched", [False, True])
@pytest.mark.parametrize("first", ["M", "1"])
def test_states_that_start_with_another_size(first: str, is_stretched: bool) -> None:
    """Where they may only have another name they are kept, and a run in which they have another size is refused."""
    with intaglio.build("stretched", inputs={"s": f"float64[{first}]", "x": "float64[N]"}) as g:
        body = g.body("body", inputs={"i": "int64[]", "go": "bool[]", "a": "float64[k]"})
        with body:
            a = body["a"]
            factor = ops.Expand(a, ops.Shape(g["x"])) if is_stretched else ops.ReduceSum(a * a, keepdims=0)
            body.output(ops.Identity(body["go"]), ops.Sin(factor * g["x"]))
        g.output(y=ops.Loop(np.int64(3), None, g["s"], body=body.graph))
    x = np.array([0.5, -0.7, 1.1])
    judge(g.graph, {"s": x[:1] if first == "1" else x, "x": x}, ["s", "x"], in_onnx_runtime=False)
    if first == "M" and not is_stretched:
        with pytest.raises(intaglio.IntaglioError, match=r"Loop.*(size|shape)"):
            intaglio.grad(g.graph, wrt=["x"], engine="reference").run({"s": x[:1], "x": x})


def test_states_of_scans_may_have_the_size_of_rows_under_another_name() -> None:
    with intaglio.build("sums", inputs={"s": "float64[M, 2]", "rows": "float64[T, N, 2]"}) as g:
        body = g.body("body", inputs={"a": "float64[k, 2]", "row": "float64[N, 2]"})
        with body:
            body.output(ops.Sin(body["a"] + body["row"]))
        g.output(y=ops.Scan(g["s"], g["rows"], body=body.graph, num_scan_inputs=1))
    generator = np.random.default_rng(6)
    feeds = {"s": generator.standard_normal((3, 2)), "rows": generator.standard_normal((4, 3, 2))}
    judge(g.graph, feeds, ["s", "rows"], in_onnx_runtime=False)
    with pytest.raises(intaglio.IntaglioError, match=r"Scan.*shape"):
        intaglio.grad(g.graph, wrt=["s"], engine="reference").run({**feeds, "s": feeds["s"][:1]})


def sequence_loop(axis: int, is_typed: bool) -> Any:
    """A loop that carries a sequence, to which each round adds a function of the last element."""
    with intaglio.build("listing", inputs={"x": "float64[2, 3]", "w": "float64[3]", "n": "int64[]"}) as g:
        first = ops.SequenceConstruct(g["x"]) if is_typed else ops.SequenceInsert(ops.SequenceEmpty(dtype=11), g["x"])
        body = g.body("body", inputs={"i": "int64[]", "go": "bool[]", "s": "seq(float64[2, 3])"})
        with body:
            last = ops.SequenceAt(body["s"], np.int64(-1))
            new = ops.Sin(last * g["w"]) + ops.SequenceAt(body["s"], np.int64(0))
            body.output(ops.Identity(body["go"]), ops.SequenceInsert(body["s"], new, body["i"]), ops.Exp(new))
        listed, stacked = ops.Loop(g["n"], None, first, body=body.graph, outputs=2)
        joined = ops.ConcatFromSequence(listed, axis=axis)
        g.output(y=ops.ReduceSum(joined * joined, keepdims=0) + ops.ReduceSum(stacked, keepdims=0))
    return g.graph


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_loops_may_carry_sequences(rounds: int) -> None:
    generator = np.random.default_rng(5)
    feeds = {"x": generator.uniform(-1, 1, (2, 3)), "w": generator.uniform(-1, 1, 3), "n": np.array(rounds)}
    judge(sequence_loop(1, is_typed=True), feeds, ["x", "w"], in_onnx_runtime=False)


def test_a_state_that_is_only_read_may_change_its_size_too() -> None:
    """Nothing is differentiated by the numbers that it carries, but each round multiplies with them."""
    with intaglio.build("reading", inputs={"x": "float64[]", "n": "int64[]"}) as g:
        body = g.body("body", inputs={"i": "int64[]", "go": "bool[]", "list": "int64[k]", "a": "float64[]"})
        with body:
            longer = ops.Concat(body["list"], ops.Reshape(body["i"] + 2, [1]), axis=0)
            factor = ops.Cast(ops.ReduceSum(body["list"], keepdims=0), to=11)
            body.output(ops.Identity(body["go"]), longer, ops.Sin(body["a"] * factor))
        start = g.constant(np.array([1]), "start")
        _, a = ops.Loop(g["n"], None, start, g["x"], body=body.graph, outputs=2)
        g.output(y=a)
    judge(g.graph, {"x": np.array(0.4), "n": np.array(3)}, ["x"], in_onnx_runtime=False)
