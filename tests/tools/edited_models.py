"""Models that verbs are tried on, and their judge."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.parser
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper

WITH_BODIES = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 4] x, bool c) => (float[N, 4] y, float[N, 4] z) <float[4, 4] w = {1,2,3,4,0,1,0,0,0,0,1,0,5,0,0,1}> {
    [product] m = MatMul (x, w)
    [relu] r = Relu (m)
    [choice] b = If (c) <then_branch = t () => (p) { p = Neg (r) }, else_branch = e () => (q) { o = Abs (m)
                                                                                            q = Add (o, w2) }>
    [shift] k = Constant <value = float[4] {0.5, -0.5, 1, 2}> ()
    w2 = Identity (k)
    [dead] unused = Exp (x)
    [sum] y = Add (b, k)
    [twice] r2 = Relu (m)
    [last] z = Mul (r2, r)
}
"""

WITH_FUNCTIONS = """
<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
g (float[N, 3] x) => (float[N, 3] y) <float[3] half = {0.5, 0.5, 0.5}> {
    [one] a = own.scaled <factor = 3.0> (x, half)
    [two] b = own.scaled (a, half)
    [three] y = own.outer (b)
}
<domain: "own", opset_import: ["" : 17], overload: "">
scaled <factor: float = 2.0> (p, q) => (r) {
    f = Constant <value_float: float = @factor> ()
    p2 = Mul (p, f)
    r = Add (p2, q)
}
<domain: "own", opset_import: ["" : 17, "own" : 1]>
outer (p) => (r) {
    k = Constant <value = float[3] {1, 2, 3}> ()
    s = own.scaled <factor = 0.25> (p, k)
    z = Constant <value = float {0}> ()
    t = ReduceSum <keepdims = 0> (s)
    c = Greater (t, z)
    r = If (c) <then_branch = tt () => (u) { u = Neg (s) }, else_branch = ee () => (v) { v = Add (s, p) }>
}
"""

ODD_NAMES = """
<ir_version: 7, opset_import: ["" : 11]>
g (float[2, 6] x) => (float[2, 6] y) {
    a = Softmax <axis = 1> (x)
    b = Squeeze <axes = [0]> (u)
    u = Unsqueeze <axes = [0]> (a)
    s1, s2 = Split <axis = 1> (b)
    t = Concat <axis = 1> (s2, s1)
    m = ReduceSum <axes = [1], keepdims = 1> (t)
    d = Div (t, m)
    y = Clip (d, low, high)
}
"""


def parsed(text: str) -> ModelProto:
    model = onnx.parser.parse_model(text)
    _sort(model)
    return model


def _sort(model: ModelProto) -> None:
    """Nodes in an order in which each is behind what it reads."""
    done = {info.name for info in model.graph.input} | {tensor.name for tensor in model.graph.initializer}
    waiting, ordered = list(model.graph.node), []
    while waiting:
        for node in waiting:
            inner = {name for a in node.attribute if a.HasField("g") for n in a.g.node for name in n.input}
            own = {name for a in node.attribute if a.HasField("g") for n in a.g.node for name in n.output}
            if {*node.input, *(inner - own)} - {""} <= done:
                break
        else:
            raise AssertionError([n.name for n in waiting])
        waiting.remove(node)
        ordered.append(node)
        done |= set(node.output)
    del model.graph.node[:]
    model.graph.node.extend(ordered)


def odd_names() -> ModelProto:
    """Opset 11, with names that no text form can spell."""
    text = ODD_NAMES.replace("low, high", "")
    model = onnx.parser.parse_model(text.replace("(d, )", "(d)"))
    _sort(model)
    changed = {"x": "input:0", "t": "model/a b\tc", "m": 'quo"te', "u": "naïve 名", "y": "out,put;1"}
    for node in model.graph.node:
        node.input[:] = [changed.get(name, name) for name in node.input]
        node.output[:] = [changed.get(name, name) for name in node.output]
        node.name = f"node/{node.op_type}:{node.output[0]}"
    for info in (*model.graph.input, *model.graph.output):
        info.name = changed.get(info.name, info.name)
    return model


def convolution() -> ModelProto:
    """A picture in and out, with weights large enough to stay in the file."""
    rng = np.random.default_rng(0)
    weights = {
        "w1": rng.standard_normal((64, 3, 3, 3)) / 5,
        "w2": rng.standard_normal((64, 64, 3, 3)) / 24,
        "w3": rng.standard_normal((5, 64, 1, 1)) / 8,
        "b1": rng.standard_normal(64),
        "b1_again": None,
    }
    weights["b1_again"] = weights["b1"]
    nodes = [
        helper.make_node("Conv", ["image", "w1", "b1"], ["c1"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("Conv", ["r1", "w2", "b1_again"], ["c2"], "conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c2", "r1"], ["s"], "add"),
        helper.make_node("Conv", ["s", "w3"], ["mask"], "conv3"),
        helper.make_node("GlobalAveragePool", ["s"], ["pool"], "pool"),
        helper.make_node("Flatten", ["pool"], ["scores"], "flat"),
    ]
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "pictures",
        [tensor("image", TensorProto.FLOAT, ["N", 3, 8, 8])],
        [tensor("mask", TensorProto.FLOAT, ["N", 5, 8, 8]), tensor("scores", TensorProto.FLOAT, ["N", 64])],
        [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in weights.items()],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)], producer_name="me")


MODELS = {
    "bodies": lambda: parsed(WITH_BODIES),
    "functions": lambda: parsed(WITH_FUNCTIONS),
    "odd names": odd_names,
    "convolution": convolution,
}


def made_up(model: ModelProto, seed: int = 0) -> dict[str, Any]:
    """Inputs for a model; sizes with names are 2."""
    rng = np.random.default_rng(seed)
    constants = {tensor.name for tensor in model.graph.initializer}
    found: dict[str, Any] = {}
    for info in model.graph.input:
        tensor = info.type.tensor_type
        shape = [d.dim_value if d.HasField("dim_value") else 2 for d in tensor.shape.dim]
        if info.name in constants:
            continue
        if tensor.elem_type == TensorProto.BOOL:
            found[info.name] = np.asarray(rng.integers(0, 2, shape).astype(bool))
        elif tensor.elem_type == TensorProto.INT64:
            found[info.name] = rng.integers(0, 5, shape)
        else:
            found[info.name] = rng.standard_normal(shape).astype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return found


def judged(
    model: ModelProto, feed: dict[str, Any], names: list[str] | None = None, *, check: bool = True
) -> dict[str, Any]:
    """What ONNX Runtime makes of a model; ONNX's checker sees it first."""
    if check:
        onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    wanted = [each.name for each in session.get_outputs()] if names is None else names
    return dict(zip(wanted, session.run(wanted, feed), strict=True))


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Equal results under equal names, bit by bit."""
    assert list(one) == list(other)
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)
