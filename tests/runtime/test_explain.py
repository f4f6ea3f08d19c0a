"""What `explain` tells of kernels, buffers, fusion, branches and loops."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import intaglio

HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'


def explained(text):
    return intaglio.load(parser.parse_model(HEADER + text), engine="native").explain()


def test_a_product_tells_its_tile_bytes_and_buffers():
    weight = numpy_helper.from_array(np.ones((64, 32), np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 32])], [weight],
    )  # fmt: skip
    model = intaglio.load(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]))
    (call,) = model.explain().calls
    rows, columns = (int(part) for part in call.tile.split("x"))
    assert rows > 1
    assert columns > 1
    assert call.flops == "4096*n"
    assert call.shape == "float32[n, 32]"
    assert call.writes == ("y: output, 128*n bytes",)
    assert "x: input, 256*n bytes" in call.reads
    assert f"tile {call.tile}" in str(model.explain())


def test_a_convolution_tells_its_layout():
    weight = np.ones((8, 8, 3, 3), np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 9, 9])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(weight, "w")],
    )  # fmt: skip
    model = intaglio.load(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]))
    layouts = {call.layout for call in model.explain().calls if "Conv" in call.title}
    assert layouts == {"channels last"}


def test_why_a_fusion_did_not_happen():
    text = "agraph (float[a,b] x, float[c,a,b] z) => (float[c,a,b] y) { e = Exp(x) y = Add(e, z) }"
    reasons = [call.reason for call in explained(text).calls if call.reason]
    assert reasons == ["Exp -> e is computed over [a, b] and this over [c, a, b]"]


def test_blocks_of_branches_and_loops():
    text = """agraph (float[N] x, bool c, int64 m) => (float[N] y) {
      y = If (c) <then_branch = a () => (float[N] t) {
          t = Loop (m, , x) <body = o (int64 i, bool g, float[N] v) => (bool g2, float[N] w) {
            g2 = Identity(g) w = Mul(v, x) }> },
        else_branch = b () => (float[N] e) { e = Neg(x) }> }"""
    explanation = explained(text)
    assert {call.kind for call in explanation.calls} >= {"branch", "loop", "kernel"}
    (product,) = (call for call in explanation.calls if call.title.startswith("Mul"))
    assert product.depth == 2
    assert "If -> y: then" in str(explanation)
    assert not explanation.host_nodes


def test_memory_that_is_allocated_in_the_run():
    explanation = explained("agraph (float[N] x) => (float[P,K] y) { i = NonZero(x) g = Gather(x, i) y = Exp(g) }")
    kinds = [call.kind for call in explanation.calls]
    assert "size" in kinds
    assert "memory" in kinds
    assert any("allocated in the run" in buffer for call in explanation.calls for buffer in call.writes)


POOLS = 6
CHAIN = (
    "agraph (float[batch, 1, h, w] x0) => (float[batch, 1, a, b] y) <float[4] thrice = {1.0, 1.0, 3.0, 3.0}> {"
    + " ".join(f"p{i} = MaxPool<kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>(x{i})"
               f" x{i + 1} = Resize(p{i}, , thrice)" for i in range(POOLS))
    + f" y = Relu(x{POOLS}) }}"
)  # fmt: skip


def test_sizes_that_come_again_have_names():
    explanation = explained(CHAIN)
    assert len(explanation.sizes) >= 2 * (POOLS - 1)
    assert max(map(len, str(explanation).splitlines())) < 250
    for line in str(explanation).splitlines():
        assert line.count("floordiv") <= 1 or line.startswith("memory"), line
    assert explanation.to_dict()["sizes"] == explanation.sizes
    first = next(iter(explanation.sizes))
    assert f"where {first} = {explanation.sizes[first]}" in str(explanation)


def test_names_stand_for_what_was_there():
    """Names put back, in the order in which they were given, are the sizes of the graph."""
    from intaglio.ir.dim_parse import parse
    from intaglio.ir.substitution import evaluate

    model = intaglio.load(parser.parse_model(HEADER + CHAIN), engine="native")
    explanation = model.explain()
    bindings = {"batch": 3, "h": 117, "w": 64}
    for name, text in explanation.sizes.items():
        bindings[name] = evaluate(parse(text), bindings)
    numbers = model.explain(dims={"batch": 3, "h": 117, "w": 64})
    assert numbers.sizes == {}
    for named, plain in zip(explanation.calls, numbers.calls, strict=True):
        for text, number in ((named.flops, plain.flops), (named.bytes, plain.bytes)):
            assert evaluate(
                parse(text.replace(",", "") if text[0].isdigit() and "*" not in text else text), bindings
            ) == (int(number.replace(",", "")))


LADDER = (
    "agraph (float[batch, 1, h, w] x0) => (float[batch, 1, a, b] y) <float[4] twice = {1.0, 1.0, 2.0, 2.0}> {"
    + " ".join(f"p{i} = MaxPool<kernel_shape = [3, 3], strides = [2, 2]>(x{i}) x{i + 1} = Resize(p{i}, , twice)"
               for i in range(POOLS))
    + f" y = Relu(x{POOLS}) }}"
)  # fmt: skip


def test_parts_of_sizes_that_come_again_have_names_too():
    """Halved and doubled, as decoders do: no size is a division and nothing else."""
    from intaglio.ir.dim_parse import parse
    from intaglio.ir.substitution import evaluate

    model = intaglio.load(parser.parse_model(HEADER + LADDER), engine="native")
    explanation = model.explain()
    lines = str(explanation).splitlines()
    assert max(map(len, lines)) < 300
    for line in lines:
        assert "floordiv(floordiv" not in line, line
    given = {"batch": 2, "h": 301, "w": 400}
    bindings = dict(given)
    for name, text in explanation.sizes.items():
        bindings[name] = evaluate(parse(text), bindings)
    numbers = model.explain(dims=given)
    for named, plain in zip(explanation.calls, numbers.calls, strict=True):
        if named.bytes:
            assert evaluate(parse(named.bytes), bindings) == int(plain.bytes.replace(",", "")), named.bytes


def test_dims_are_put_into_everything():
    model = intaglio.load(parser.parse_model(HEADER + CHAIN), engine="native")
    explanation = model.explain(dims={"batch": 2, "h": 64, "w": 32})
    text = str(explanation)
    assert "for batch = 2, h = 64, w = 32" in text
    assert "float32[2, 32, 16, 1]" in text or "float32[2, 1, 32, 16]" in text
    for name in ("batch", "h", "w", "floordiv"):
        for call in explanation.calls:
            for part in (call.title, call.flops, call.bytes, call.shape, *call.reads, *call.writes):
                assert name not in part.replace("flop", "").replace(" with ", "").split("[")[-1].split(" "), part
    assert explanation.dims == {"batch": 2, "h": 64, "w": 32}
    plan = model.memory_plan({"batch": 2, "h": 64, "w": 32})
    assert explanation.memory == plan.to_dict()


def test_some_dims_stay_open():
    text = "agraph (float[n, 64] x, float[64, m] w) => (float[n, m] y) { y = MatMul(x, w) }"
    model = intaglio.load(parser.parse_model(HEADER + text), engine="native")
    for engine in ("native", "reference"):
        model = intaglio.load(parser.parse_model(HEADER + text), engine=engine)
        shown = str(model.explain(dims={"n": 5}))
        assert ("5 x m x 64" in shown) == (engine == "native")
        assert ("float32[5, m]" in shown) == (engine == "reference")


def test_tensors_that_are_called_like_a_dimension_keep_their_names():
    text = "agraph (float[n, 64] x) => (float[n, 64] n) { n = Relu(x) }"
    for engine in ("native", "reference"):
        (call,) = intaglio.load(parser.parse_model(HEADER + text), engine=engine).explain(dims={"n": 5}).calls
        assert "n: float32[5, 64]" in call.title


def test_dims_that_the_model_lacks():
    model = intaglio.load(parser.parse_model(HEADER + CHAIN), engine="native")
    with pytest.raises(intaglio.InputError, match="there is no dimension 'batsch'; did you mean 'batch'"):
        model.explain(dims={"batsch": 2})
