"""Nothing hangs on names: nodes that share one, values and sizes that are called like what the compiler makes up."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest

import intaglio
from intaglio.errors import LoadError
from intaglio.ir.clone import clone
from intaglio.ir.graph import Graph
from intaglio.ir.text import format_graph, parse_graph
from intaglio.kernels.elementwise import rounding
from intaglio.onnx.reader import read_model
from intaglio.onnx.types import read_type
from intaglio.runtime.engine.engine import EngineName

HEADER = '<ir_version: 10, opset_import: ["" : 20, "own" : 1]>'


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEADER + text)


def named(text: str, names: Mapping[str, str]) -> onnx.ModelProto:
    """A model whose dimensions, written as words, are renamed to what the text of ONNX cannot spell."""
    result = model(text)
    for value in (*result.graph.input, *result.graph.output):
        for size in value.type.tensor_type.shape.dim:
            size.dim_param = names.get(size.dim_param, size.dim_param)
    return result


def results(proto: onnx.ModelProto, feeds: Mapping[str, Any], engine: EngineName = "native") -> list[Any]:
    return list(intaglio.load(proto, engine=engine).run(feeds).values())


CHAIN = """agraph (float16[64] x) => (float16[64] y) {
  s = Constant<value = float {0.3}>()
  c = Cast<to = 10>(s)
  [%s] t = Mul(x, c)
  [%s] u = Mul(t, t)
  [%s] v = Mul(u, x)
  y = Identity(v)
}"""
HALVES = np.random.default_rng(0).normal(size=64).astype(np.float16)


def rounded_product() -> np.ndarray:
    t = HALVES * np.float16(0.3)
    return t * t * HALVES


@pytest.mark.parametrize("names", [("twin", "twin", "twin"), ("a", "b", "c"), ("a", "b", "a")])
def test_nodes_with_equal_names_round_each(names: tuple[str, str, str]) -> None:
    (result,) = results(model(CHAIN % names), {"x": HALVES})
    np.testing.assert_array_equal(result, rounded_product())


def test_calls_with_equal_names_round_each() -> None:
    proto = model("""agraph (float16[64] x) => (float16[64] y) {
      s = Constant<value = float {0.3}>()
      c = Cast<to = 10>(s)
      [twin] t = own.Times(x, c)
      [twin] u = own.Times(t, t)
      [twin] y = own.Times(u, x)
    }
    <domain: "own", opset_import: ["" : 20]> Times (a, b) => (r) { [inner] r = Mul(a, b) }""")
    (result,) = results(proto, {"x": HALVES})
    np.testing.assert_array_equal(result, rounded_product())


def twins() -> Graph:
    return read_model(model(CHAIN % ("twin", "twin", "other"))).graph


@pytest.mark.parametrize(
    "copied",
    [lambda g: g, clone, lambda g: parse_graph(format_graph(g)), lambda g: pickle.loads(pickle.dumps(g))],
    ids=["read", "clone", "text", "pickle"],
)
def test_copies_keep_nodes_with_equal_names_apart(copied: Any) -> None:
    graph = copied(twins())
    first, second, *_ = (node for node in graph.nodes if node.op.name == "Mul")
    assert first.origin.path == second.origin.path
    assert not first.origin.is_same_node(second.origin)
    assert rounding(first) == rounding(second) == "f16"
    assert graph == twins()


def test_parts_of_one_node_stay_one_in_text() -> None:
    graph = read_model(model("agraph (float16[64] x) => (float16[64] y) { [n] y = Gelu(x) }")).graph
    node = next(iter(graph.nodes))
    text = format_graph(graph).replace("Gelu(%x)", "Neg(%x)").replace("%y: ", "%t: ").replace("(%y)", "(%u)")
    text = text.replace("}", '  %u: float16[64] = Exp(%t) @"n (Gelu)"\n}')
    first, second = parse_graph(text).nodes
    assert first.origin.path == node.origin.path
    assert first.origin.is_same_node(second.origin)


LOOP = """agraph (float[N] x, int64 n, bool c, float[M] e) => (float[Q] y, float[M] z) {
  z = Neg(e)
  y = Loop(n, c, x) <body = b (int64 i, bool k, float[] v) => (bool k2, float[] w) {
    k2 = Identity(k)  w = Concat<axis = 0>(v, v)
  }>
}"""
SLICE = """agraph (int64[1] a, int64[1] b, int64[1] d, float[N] x, float[M] e) => (float[J] r, float[M] z) {
  zero = Constant<value_ints = [0]>()
  q = Slice(x, a, b, zero, d)
  r = Neg(q)
  z = Neg(e)
}"""
AXES = """agraph (float[A, B, C] x, int64[1] a, float[M] e) => (float[P, Q] y, float[M] z) {
  y = ReduceMax<keepdims = 0>(x, a)
  z = Neg(e)
}"""
E = np.arange(7, dtype=np.float32)
LOOP_FEEDS = {"x": E[:5], "n": np.array(3), "c": np.array(True), "e": E}
SLICE_FEEDS = {"a": np.array([1]), "b": np.array([6]), "d": np.array([2]), "x": np.arange(9, dtype=np.float32), "e": E}
AXES_FEEDS = {"x": np.arange(24, dtype=np.float32).reshape(2, 3, 4), "a": np.array([1]), "e": E}


@pytest.mark.parametrize(
    ("text", "feeds", "names"),
    [
        (LOOP, LOOP_FEEDS, ("y.0", "y:rounds", "v:round0")),
        (SLICE, SLICE_FEEDS, ("q.0", "q:first0", "q:step0")),
        (AXES, AXES_FEEDS, ("y.0", "reductionorder.0", "reductionorder:step0", "reductionorder_2:size0")),
    ],
)
def test_declared_sizes_may_be_called_like_those_that_are_made_up(
    text: str, feeds: dict[str, Any], names: tuple[str, ...]
) -> None:
    expected = results(model(text), feeds, "reference")
    for name in names:
        for ours, theirs in zip(results(named(text, {"M": name}), feeds), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=name)


def test_names_that_are_kept_apart_stay_apart_from_each_other() -> None:
    sizes = ["x.0", "x.0~", "x:first0", "x:first0~", "x", "x.0~~"]
    infos = [onnx.helper.make_tensor_value_info("v", onnx.TensorProto.FLOAT, [size]).type for size in sizes]
    assert len({str(read_type(info, "v")) for info in infos}) == len(sizes)


def test_values_may_be_called_like_those_that_are_made_up() -> None:
    text = """agraph (float16[4, 8] x) => (float16[4, 8] y, float16[4, 8] z) {
      a = Softmax(x)  b = Gelu(a)  y = Mul(b, a)  z = Softmax(y)
    }"""
    data = {"x": np.random.default_rng(1).normal(size=(4, 8)).astype(np.float16)}
    expected = results(model(text), data)
    names = {"a": "constant", "b": "cast_1", "y": "reducemax", "z": "exp"}
    proto = model(text)
    for node in proto.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for value in proto.graph.output:
        value.name = names[value.name]
    loaded = intaglio.load(proto)
    assert [item.name for item in loaded.outputs] == ["reducemax", "exp"]
    for ours, theirs in zip(loaded.run(data).values(), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("y = Relu(x)  y = Exp(x)", r"#1 \(Exp\): defines 'y', which is already defined"),
        ("x = Relu(x)  y = Exp(x)", r"#0 \(Relu\) defines 'x', which is already defined"),
        ("t = Relu(x)  t = Exp(t)  y = Neg(t)", r"#1 \(Exp\) defines 't', which is already defined"),
        ("t = Constant<value_float = 1.0>()  t = Neg(t)  y = Neg(t)", r"#1 \(Neg\) defines 't', which"),
        ("y, y = Split<num_outputs = 2>(x)", r"#0 \(Split\): defines 'y', which is already defined"),
    ],
)
def test_a_name_that_is_defined_twice_is_named(body: str, message: str) -> None:
    with pytest.raises(LoadError, match=message) as caught:
        read_model(model(f"agraph (float[N] x) => (float[N] y) {{ {body} }}"))
    assert "nothing defines" not in str(caught.value)
    assert "cycle" not in str(caught.value)
