"""Make a small model, run it, look inside: `python examples/first_run.py`."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import intaglio

weight = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
graph = helper.make_graph(
    [
        helper.make_node("MatMul", ["x", "weight"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["probabilities"]),
    ],
    "classifier",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
    [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 3])],
    [numpy_helper.from_array(weight, "weight")],
)
proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

model = intaglio.load(proto)
x = np.ones((2, 4), np.float32)
print(model(x))  # the output
print(model.run({"x": x}, outputs=["scores"]))  # any tensor inside
print(model.explain())  # what was compiled
