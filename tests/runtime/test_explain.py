"""What `explain` tells of kernels, buffers, fusion, branches and loops."""

import numpy as np
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
