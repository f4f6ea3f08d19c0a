"""A small writer of ONNX graphs, in the shape that exporters leave them: named weights, Constant nodes for the rest."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dim = int | str


class GraphWriter:
    """Collects nodes and weights of one graph. Every method returns the name of the value that it made."""

    def __init__(self, name: str, *, opset: int = 17, seed: int = 0) -> None:
        self.name = name
        self.opset = opset
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, onnx.TensorProto] = {}
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: list[Dim], dtype: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def output(self, value: str, name: str, shape: list[Dim], dtype: int = TensorProto.FLOAT) -> None:
        """Declare an output: the node that made `value` is renamed to make `name`."""
        for node in self.nodes:
            for names in (node.input, node.output):
                for index, known in enumerate(names):
                    if known == value:
                        names[index] = name
        self.outputs.append(helper.make_tensor_value_info(name, dtype, shape))

    def weight(self, name: str, array: np.ndarray) -> str:
        if name in self.weights:
            raise ValueError(f"two weights are called {name}")
        self.weights[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def normal(self, name: str, shape: list[int], std: float, mean: float = 0.0) -> str:
        """A weight drawn from a normal distribution."""
        values = self.rng.standard_normal(shape, dtype=np.float32)
        values *= np.float32(std)
        values += np.float32(mean)
        return self.weight(name, values)

    def uniform(self, name: str, shape: list[int], low: float, high: float) -> str:
        """A weight drawn evenly from [low, high)."""
        return self.weight(name, self.rng.uniform(low, high, shape).astype(np.float32))

    def constant(self, value: object, dtype: type = np.float32) -> str:
        """A Constant node, as exporters write small values."""
        tensor = numpy_helper.from_array(np.asarray(value, dtype))
        return self.op("Constant", value=tensor)

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output."""
        return self.split_op(op_type, *inputs, count=1, **attributes)[0]

    def split_op(self, op_type: str, *inputs: str, count: int, **attributes: Any) -> list[str]:
        """A node with `count` outputs."""
        name = f"{op_type}_{len(self.nodes)}"
        outputs = [f"{name}_output_{index}" for index in range(count)]
        self.nodes.append(helper.make_node(op_type, list(inputs), outputs, name=name, **attributes))
        return outputs

    def reshape(self, x: str, *dims: int | tuple[str, int]) -> str:
        """Reshape `x`; a dim `(value, axis)` is read from the shape of `value` at run time."""
        if all(isinstance(dim, int) for dim in dims):
            return self.op("Reshape", x, self.constant(dims, np.int64))
        return self.op("Reshape", x, self.shape_of(*dims))

    def shape_of(self, *dims: int | tuple[str, int]) -> str:
        """The Shape -> Gather -> Unsqueeze -> Concat chain that exporters write for a shape with dynamic dims."""
        parts = [self.constant([dim], np.int64) if isinstance(dim, int) else self.extent(*dim) for dim in dims]
        return self.op("Concat", *parts, axis=0)

    def extent(self, x: str, axis: int) -> str:
        """The size of `x` along `axis`, as a tensor of one element."""
        size = self.op("Gather", self.op("Shape", x), self.constant(axis, np.int64), axis=0)
        return self.op("Unsqueeze", size, self.constant([0], np.int64))

    def linear(self, name: str, x: str, inner: int, outer: int, std: float, bias_std: float = 0.02) -> str:
        """MatMul and Add, as exporters write a linear layer on more than two axes."""
        product = self.op("MatMul", x, self.normal(f"{name}.weight", [inner, outer], std))
        return self.op("Add", self.normal(f"{name}.bias", [outer], bias_std), product)

    def model(self) -> onnx.ModelProto:
        """The finished model, accepted by the checker."""
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, list(self.weights.values()))
        model = helper.make_model(
            graph,
            producer_name="intaglio.bench",
            opset_imports=[helper.make_opsetid("", self.opset)],
            ir_version=8,
        )
        onnx.checker.check_model(model)
        return model
