"""Large sizes that are known before the run: every size and cost of a driver is arithmetic of 64 bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from intaglio.runtime.model.loading import load

Array = np.ndarray[Any, Any]
DTYPES = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "u": TensorProto.UINT8, "b": TensorProto.BOOL}
LARGE = (46_341, 1_000_003, 2**22, 2**31 - 1, 2**31, 2**32 + 1, 2**40)
"""The least whose square is beyond 32 bits, and others on both sides of the borders."""


@dataclass(frozen=True)
class Case:
    """One node; in its shapes, `n` stands for the sampled size."""

    operator: str
    shapes: Sequence[Sequence[Any]]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])
    kinds: str = "ffff"
    outputs: int = 1
    opset: int = 23

    def model(self, n: int) -> onnx.ModelProto:
        shapes = [[n if size == "n" else size for size in shape] for shape in self.shapes]
        inputs = [
            helper.make_tensor_value_info(f"x{place}", DTYPES[kind], shape)
            for place, (shape, kind) in enumerate(zip(shapes, self.kinds, strict=False))
        ]
        constants = [
            numpy_helper.from_array(np.array([n if item == "n" else item for item in items], np.int64), name)
            for name, items in self.constants.items()
        ]
        results = [f"y{place}" for place in range(self.outputs)]
        names = [info.name for info in inputs] + list(self.constants)
        node = helper.make_node(self.operator, names, results, **self.attributes)
        outputs = [onnx.ValueInfoProto(name=name) for name in results]
        graph = helper.make_graph([node], self.operator, inputs, outputs, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)


CASES = [
    Case("ReduceMean", [[1, 3, "n", 7]], {"keepdims": 0}, {"axes": [2, 3]}),
    Case("ReduceSum", [["n", 5]], {}, {"axes": [0]}),
    Case("ReduceMax", [[3, "n"]], {}, {"axes": [1]}),
    Case("ReduceMean", [["n", 2]], {}, {"axes": [0]}, kinds="i"),
    Case("ReduceLogSumExp", [[2, "n", 3]], {}, {"axes": [1]}),
    Case("LogSoftmax", [[2, "n"]], {"axis": 1}),
    Case("Softmax", [["n", 4]], {"axis": 0}),
    Case("LayerNormalization", [[2, "n"], ["n"]], {"axis": 1}),
    Case("Relu", [["n", 3]]),
    Case("Add", [["n", 1], [1, 3]]),
    Case("Transpose", [[5, "n"]], {"perm": [1, 0]}),
    Case("Concat", [["n", 2], ["n", 3]], {"axis": 1}),
    Case("MatMul", [[3, "n"], ["n", 5]]),
    Case("MatMul", [["n", 3], [3, 5]]),
    Case("MatMulInteger", [[3, "n"], ["n", 5]], kinds="uu"),
    Case("Conv", [[1, 3, "n", 9], [4, 3, 3, 3]], {"pads": [1, 1, 1, 1]}),
    Case("Conv", [[1, 3, "n"], [3, 1, 5]], {"group": 3}),
    Case("MaxPool", [[1, 2, "n", 9]], {"kernel_shape": [3, 3]}),
    Case("AveragePool", [[1, 2, "n"]], {"kernel_shape": [3]}),
    Case("GlobalAveragePool", [[1, 2, "n", 5]]),
    Case("ArgMax", [["n", 3]], {"axis": 0}),
    Case("ArgMax", [[3, "n"]], {"axis": 1}),
    Case("TopK", [[2, "n"]], {}, {"k": [5]}, outputs=2),
    Case("CumSum", [["n", 3]], {}, {"axis": [0]}),
    Case("Gather", [["n", 3], [4]], {"axis": 0}, kinds="fi"),
    Case("GatherElements", [["n", 3], ["n", 2]], {"axis": 0}, kinds="fi"),
    Case("ScatterElements", [["n", 3], [4, 3], [4, 3]], {"axis": 0}, kinds="fif"),
    Case("ScatterND", [["n", 3], [4, 1], [4, 3]], kinds="fif"),
    Case("NonZero", [["n", 3]], kinds="b"),
    Case("Unique", [["n"]], kinds="i"),
    Case("Where", [["n", 3], ["n", 1], [3]], kinds="bff"),
    Case("Tile", [["n", 3]], {}, {"repeats": [2, 3]}),
    Case("Expand", [["n", 1]], {}, {"shape": ["n", 5]}),
    Case("Pad", [["n", 3]], {}, {"pads": [1, 0, 2, 1]}),
    Case("Trilu", [["n", "n"]]),
    Case("DepthToSpace", [[1, 8, "n", 3]], {"blocksize": 2}),
    Case("LSTM", [["n", 2, 3], [1, 16, 3], [1, 16, 4]], {"hidden_size": 4}),
    Case("InstanceNormalization", [[1, 2, "n"], [2], [2]]),
    Case("BatchNormalization", [[1, 2, "n"], [2], [2], [2], [2]], kinds="fffff"),
    Case("Attention", [[1, 2, "n", 8], [1, 2, "n", 8], [1, 2, "n", 8]]),
    Case("Einsum", [["n", 3], ["n", 4]], {"equation": "ki,kj->ij"}),
    Case("GridSample", [[1, 2, "n", 5], [1, 3, 4, 2]]),
    Case("Det", [["n", 3, 3]]),
    Case("OneHot", [["n"]], {}, {"depth": [5], "values": [0, 1]}, kinds="i"),
    Case("DynamicQuantizeLinear", [["n", 3]], outputs=3),
    Case("RandomUniformLike", [["n", 3]]),
    Case("EyeLike", [["n", 3]]),
    Case("Compress", [["n", 3], ["n"]], {"axis": 0}, kinds="fb"),
    Case("ReverseSequence", [[5, "n"], ["n"]], kinds="fi"),
    Case("DFT", [["n", 8, 2]]),
]  # fmt: skip


def sampled() -> list[tuple[Case, int]]:
    generator = np.random.default_rng(11)
    return [(case, int(n)) for case in CASES for n in generator.choice(LARGE, 3, replace=False)]


@pytest.mark.parametrize(("case", "n"), sampled(), ids=lambda item: getattr(item, "operator", str(item)))
def test_large_sizes_compile(case: Case, n: int) -> None:
    assert not load(case.model(n), strict=True, threads=1).explain().host_nodes


@pytest.mark.parametrize(
    ("case", "n"),
    [(CASES[0], 142_858), (CASES[1], 500_009), (CASES[2], 1_000_003), (CASES[5], 1_000_003)],
    ids=lambda item: getattr(item, "operator", str(item)),
)
def test_large_reductions_compute_what_the_reference_computes(case: Case, n: int) -> None:
    shape = [n if size == "n" else size for size in case.shapes[0]]
    generator, is_exact = np.random.default_rng(n), case.operator.startswith("Reduce")
    x = (generator.integers(0, 3, shape) if is_exact else generator.uniform(0.5, 1.5, shape)).astype(np.float32)
    got, expected = (load(case.model(n), engine=engine).run({"x0": x}) for engine in ("native", "reference"))
    np.testing.assert_allclose(got["y0"], expected["y0"], rtol=0 if is_exact else 2e-5)
