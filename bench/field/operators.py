"""Models around single operators that no exporter writes with these sizes: mixtures of experts, thin products."""

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from bench.field.specimen import Feeds, Made

EXPERTS, WIDTH, HIDDEN, BLOCK = 8, 256, 512, 32
FLOAT = onnx.TensorProto.FLOAT


class _Draft:
    """Nodes and constants of a model in the making."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(5)

    def constant(self, array: np.ndarray) -> str:
        name = f"w{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def weights(self, *shape: int) -> str:
        values = self.random.standard_normal(shape, dtype=np.float32)
        return self.constant(values / np.float32(np.sqrt(shape[-1])))

    def packed(self, bits: int, *shape: int) -> list[str]:
        """Weights of few bits along the last axis, and the scales of their blocks."""
        numbers = self.random.integers(0, 256, (*shape[:-1], shape[-1] * bits // 8)).astype(np.uint8)
        scales = self.random.uniform(1, 3, (*shape[:-1], shape[-1] // BLOCK)) / 2**bits / np.sqrt(shape[-1])
        return [self.constant(numbers), self.constant(scales.astype(np.float32))]

    def add(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], domain=domain, **attributes))
        return name

    def model(self, shapes: dict[str, list[Any]], output: str) -> onnx.ModelProto:
        inputs = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in shapes.items()]
        result = helper.make_tensor_value_info(output, FLOAT, None)
        graph = helper.make_graph(self.nodes, "operators", inputs, [result], self.constants)
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8)


def _feeds(**shapes: tuple[int, ...]) -> Feeds:
    random = np.random.default_rng(7)
    return {name: random.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


def mixture(bits: str) -> Made:
    """Two mixtures of experts of ONNX Runtime with what they are added to; plain weights where bits is 32."""
    draft, width, x = _Draft(), int(bits), "x"
    for _ in range(2):
        router = draft.add("MatMul", x, draft.weights(WIDTH, EXPERTS))
        if width == 32:
            layers = [draft.weights(EXPERTS, HIDDEN, WIDTH), draft.weights(EXPERTS, HIDDEN),
                      draft.weights(EXPERTS, WIDTH, HIDDEN), draft.weights(EXPERTS, WIDTH)]  # fmt: skip
            mixed = draft.add("MoE", x, router, *layers, domain="com.microsoft", k=2, activation_type="silu")
        else:
            first, second = draft.packed(width, EXPERTS, HIDDEN, WIDTH), draft.packed(width, EXPERTS, WIDTH, HIDDEN)
            mixed = draft.add("QMoE", x, router, *first, "", *second, domain="com.microsoft", k=2, block_size=BLOCK,
                              activation_type="silu", expert_weight_bits=width)  # fmt: skip
        x = draft.add("Add", mixed, x)
    return Made(draft.model({"x": ["words", WIDTH]}, x), [_feeds(x=(words, WIDTH)) for words in (16, 1, 100)])


def columns(count: str) -> Made:
    """Batches of matrices by so few columns that are computed in the run, such as queries that pool."""
    draft = _Draft()
    made = draft.add("MatMul", "x", draft.add("Tanh", "queries"))
    shapes: dict[str, list[Any]] = {"x": ["batch", "length", 128], "queries": ["batch", 128, int(count)]}
    sizes = ((32, 100), (1, 40), (7, 333))
    cases = [_feeds(x=(batch, length, 128), queries=(batch, 128, int(count))) for batch, length in sizes]
    return Made(draft.model(shapes, draft.add("Softmax", made, axis=1)), cases)


def bytes_level() -> Made:
    """Weights of four bits whose products may be computed with bytes: MatMulNBits with accuracy level 4."""
    draft, x = _Draft(), "x"
    for depth, width in ((512, 1024), (1024, 512)):
        weights = draft.packed(4, width, depth)
        weights[0] = _blocked(draft, weights[0], width, depth)
        x = draft.add("MatMulNBits", x, *weights, domain="com.microsoft", K=depth, N=width, bits=4, block_size=BLOCK,
                      accuracy_level=4)  # fmt: skip
        x = draft.add("Relu", x)
    return Made(draft.model({"x": ["words", 512]}, x), [_feeds(x=(words, 512)) for words in (1, 16, 100)])


def _blocked(draft: _Draft, name: str, width: int, depth: int) -> str:
    """The same constant as [N, blocks, bytes of a block]."""
    (found,) = (each for each in draft.constants if each.name == name)
    array = numpy_helper.to_array(found).reshape(width, depth // BLOCK, BLOCK // 2)
    found.CopyFrom(numpy_helper.from_array(array, name))
    return name
