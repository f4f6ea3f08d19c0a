"""Data that an operator cannot take as index, axis, size or count: both engines say so and name it.

Nothing wraps around, nothing is read or written out of range, and nothing ends the process. What is defined for every
number, such as the bounds of `Slice`, is computed alike by both engines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from intaglio.errors import IntaglioError, LimitError, OperatorError, ShapeError
from intaglio.onnx.reader import read_model
from intaglio.passes import simplify
from intaglio.runtime.engine.native import NativeEngine
from intaglio.runtime.engine.reference import ReferenceEngine
from intaglio.runtime.model.arrays import order_feeds
from intaglio.runtime.model.batch import compile_together

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
FAR = (MOST, LEAST)
"""Numbers that overflow wherever something is added to them or they are negated."""
REFUSALS = (OperatorError, ShapeError)
BIG = (OperatorError, ShapeError, LimitError)


@dataclass(frozen=True)
class Row:
    """An operator with good inputs, and numbers that one element of one of them must not be."""

    operator: str
    inputs: list[Any]
    at: int
    """Which input has the bad element."""
    bad: tuple[float, ...]
    element: int = 0
    """Which of its elements that is."""
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    errors: tuple[type[IntaglioError], ...] = REFUSALS
    domain: str = ""
    opset: int = 28

    def feeds(self, bad: float) -> dict[str, Any]:
        """The inputs with one bad element."""
        arrays = {f"x{i}": array for i, array in enumerate(self.inputs) if array is not None}
        wrong = np.array(arrays[f"x{self.at}"])
        wrong.reshape(-1)[self.element] = bad
        return {**arrays, f"x{self.at}": wrong}

    def model(self) -> onnx.ModelProto:
        """The node with all inputs fed."""
        given = {f"x{i}": array for i, array in enumerate(self.inputs) if array is not None}
        names = [f"x{i}" if array is not None else "" for i, array in enumerate(self.inputs)]
        results = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.operator, names, results, "node", domain=self.domain, **self.attributes)
        infos = [helper.make_value_info(name, type_of(array)) for name, array in given.items()]
        graph = helper.make_graph([node], self.operator, infos, [onnx.ValueInfoProto(name=name) for name in results])
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid("ai.onnx.ml", 5)]
        return helper.make_model(graph, opset_imports=imports, ir_version=13)


def type_of(value: Any) -> onnx.TypeProto:
    """The type of an array, or of a list of arrays."""
    if isinstance(value, list):
        return helper.make_sequence_type_proto(type_of(value[0]))
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


def ints(*values: Any, dtype: Any = np.int64) -> Any:
    return np.array(values, dtype)


def floats(*shape: int) -> Any:
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) / 8).astype(np.float32)


def index_rows() -> Iterator[Row]:
    """Indices into an axis of 3, from -3 to 2."""
    data, bad = floats(3, 2), (3, -4, *FAR)
    for dtype, chosen in ((np.int64, bad), (np.int32, (3, -4, 2**31 - 1, -(2**31)))):
        yield Row("Gather", [data, ints(0, 1, dtype=dtype)], 1, chosen)
        yield Row("GatherElements", [data, ints([0, 1], dtype=dtype)], 1, chosen)
        yield Row("ScatterElements", [data, ints([0, 1], dtype=dtype), floats(1, 2)], 1, chosen)
        yield Row(
            "ScatterElements", [data, ints([0, 1], dtype=dtype), floats(1, 2)], 1, chosen, 1, {"reduction": "add"}
        )
    yield Row("Gather", [floats(2, 3), ints([2])], 1, bad, attributes={"axis": 1})
    yield Row("GatherND", [data, ints([0, 1], [2, 0])], 1, bad, 2)
    yield Row("GatherND", [data, ints([0, 1], [2, 0])], 1, (2, -3, *FAR), 3)
    yield Row("GatherND", [floats(2, 3), ints([1], [2])], 1, bad, attributes={"batch_dims": 1})
    yield Row("ScatterND", [data, ints([0], [2]), floats(2, 2)], 1, bad, 1)
    yield Row("ScatterND", [data, ints([0], [2]), floats(2, 2)], 1, bad, 1, {"reduction": "max"})
    yield Row("Scatter", [data, ints([0, 1]), floats(1, 2)], 1, bad, opset=10)
    yield Row("ArrayFeatureExtractor", [floats(2, 3), ints(1, 2)], 1, (3, -1, *FAR), domain="ai.onnx.ml")
    yield Row("TensorScatter", [floats(2, 3), floats(2, 1), ints(1, 2)], 2, (3, -1, *FAR), attributes={"axis": 1})
    yield Row("NegativeLogLikelihoodLoss", [floats(2, 3), ints(0, 2)], 1, (3, -1, *FAR))
    yield Row("SoftmaxCrossEntropyLoss", [floats(2, 3), ints(0, 2)], 1, (3, -1, *FAR))
    yield Row("SoftmaxCrossEntropyLoss", [floats(2, 3), ints(0, 2), floats(3)], 1, (3, -1, *FAR), outputs=2)
    unpooled = {"kernel_shape": [2, 2], "strides": [2, 2]}
    yield Row("MaxUnpool", [floats(1, 1, 1, 1), ints([[[[3]]]])], 1, (4, -1, *FAR), attributes=unpooled)
    sizes = {"output_height": 1, "output_width": 1}
    yield Row("RoiAlign", [floats(2, 1, 4, 4), floats(1, 4), ints(1)], 2, (2, -3, *FAR), attributes=sizes)
    pooled = {"pooled_shape": [1, 1]}
    yield Row("MaxRoiPool", [floats(2, 1, 4, 4), floats(1, 5)], 1, (2, -3, 1e30, np.nan), attributes=pooled)
    rotary = [floats(1, 2, 3, 4), floats(4, 2), floats(4, 2), ints([0, 1, 3])]
    yield Row("RotaryEmbedding", rotary, 3, (4, -5, *FAR))


def axis_rows() -> Iterator[Row]:
    """Axes of a matrix, from -2 to 1."""
    data, bad = floats(2, 3), (2, -3, *FAR)
    for name in ("CumSum", "CumProd"):
        yield Row(name, [data, ints(1).reshape(())], 1, bad)
        yield Row(name, [data, ints(1, dtype=np.int32).reshape(())], 1, (2, -3, 2**31 - 1, -(2**31)))
    for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"):
        yield Row(f"Reduce{name}", [data, ints(1)], 1, bad)
    yield Row("ReduceSum", [data, ints(0, 1)], 1, (1,))
    yield Row("Squeeze", [floats(1, 3), ints(0)], 1, (1, *bad))
    yield Row("Unsqueeze", [data, ints(0)], 1, (3, -4, *FAR))
    yield Row("Unsqueeze", [data, ints(0, 1)], 1, (1,))
    yield Row("Slice", [data, ints(0), ints(2), ints(1)], 3, bad)
    yield Row("Slice", [data, ints(0), ints(2), ints(1), ints(1)], 4, (0,))
    yield Row("Pad", [data, ints(1, 1), None, ints(1)], 3, bad)
    yield Row("DFT", [floats(1, 4, 1), None, ints(1).reshape(())], 2, (3, -4, *FAR))


def size_rows() -> Iterator[Row]:
    """Sizes, counts and lengths."""
    data = floats(2, 3)
    yield Row("Reshape", [data, ints(3, 2)], 1, (4, -2, *FAR))
    yield Row("Reshape", [data, ints(-1, 2)], 1, (-1,), 1)
    yield Row("Reshape", [data, ints(-1, 2)], 1, (4, 0, *FAR), 1, {"allowzero": 1})
    yield Row("Expand", [data, ints(2, 3)], 1, (3, 0, -1, *FAR), errors=BIG)
    yield Row("Expand", [data, ints(2, 2, 3)], 1, (-1, *FAR), errors=BIG)
    yield Row("Tile", [data, ints(1, 2)], 1, (-1, *FAR, 2**62), errors=BIG)
    yield Row("ConstantOfShape", [ints(2, 3)], 0, (-1, *FAR, 2**62), errors=BIG)
    yield Row("CenterCropPad", [data, ints(2, 3)], 1, (-1, *FAR), errors=BIG)
    yield Row("Pad", [data, ints(0, 0, 1, 1)], 1, (-4, *FAR), errors=BIG)
    for mode in ("edge", "reflect", "wrap"):
        yield Row("Pad", [data, ints(0, 0, 1, 1)], 1, FAR, attributes={"mode": mode}, errors=BIG)
    yield Row("Col2Im", [floats(1, 4, 4), ints(3, 3), ints(2, 2)], 1, (2, -1, 0, *FAR), errors=BIG)
    yield Row("Col2Im", [floats(1, 4, 4), ints(3, 3), ints(2, 2)], 2, (3, -1, 0, *FAR), errors=BIG)
    unpooled = {"kernel_shape": [2, 2], "strides": [2, 2]}
    shaped = [floats(1, 1, 1, 1), ints([[[[3]]]]), ints(1, 1, 2, 2)]
    yield Row("MaxUnpool", shaped, 2, (1, -1, *FAR), 3, unpooled, errors=BIG)
    yield Row("AffineGrid", [floats(1, 2, 3), ints(1, 1, 2, 3)], 1, (-1, *FAR), 2, errors=BIG)
    image = floats(1, 1, 2, 3)
    yield Row("Resize", [image, None, None, ints(1, 1, 2, 3)], 3, (-1, *FAR), 2, errors=BIG)
    ones = np.ones(4, np.float32)
    yield Row("Resize", [image, None, ones], 2, (-1.0, 0.0, np.inf, np.nan, 1e30), 2, errors=BIG)
    yield Row("Upsample", [image, ones], 1, (-1.0, 0.0, np.inf, np.nan, 1e30), 2, errors=BIG, opset=9)
    yield Row("Split", [data, ints(1, 2)], 1, (2, 0, -1, *FAR), 0, {"axis": 1}, 2)
    yield Row("SplitToSequence", [data, ints(1, 2)], 1, (2, -1, *FAR), 0, {"axis": 1})
    yield Row("SplitToSequence", [data, ints(2).reshape(())], 1, (0, -1, LEAST), 0, {"axis": 1})
    yield Row("TopK", [data, ints(2)], 1, (4, -1, *FAR), outputs=2)
    yield Row("OneHot", [ints(0, 1), ints(3).reshape(()), floats(2)], 1, (-1, *FAR), errors=BIG)
    yield Row("Range", [ints(n).reshape(()) for n in (0, 5, 1)], 2, (0,))
    yield Row("Range", [ints(n).reshape(()) for n in (0, 5, 1)], 1, (MOST,), errors=BIG)
    yield Row("Range", [np.float32(n).reshape(()) for n in (0, 5, 1)], 2, (0.0, np.nan, 1e-30), errors=BIG)
    yield Row("ReverseSequence", [data, ints(1, 2, 1)], 1, (3, -1, *FAR), attributes={"time_axis": 0, "batch_axis": 1})
    for name in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        yield Row(name, [ints(8).reshape(())], 0, (MOST,), errors=BIG)
    mel = [ints(n).reshape(()) for n in (4, 16, 8000)] + [np.float32(n).reshape(()) for n in (0, 4000)]
    yield Row("MelWeightMatrix", mel, 0, (-1, *FAR), errors=BIG)
    yield Row("MelWeightMatrix", mel, 1, (-1, *FAR), errors=BIG)
    yield Row("DFT", [floats(1, 4, 1), ints(4).reshape(()), ints(1).reshape(())], 1, (-1, 0, *FAR), errors=BIG)
    signal = [floats(1, 8, 1), ints(2).reshape(()), None, ints(4).reshape(())]
    yield Row("STFT", signal, 1, (0, -1, LEAST))
    yield Row("STFT", signal, 3, (9, 0, -1, *FAR))
    lengths = ints(2, dtype=np.int32)
    for name, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        weights = [floats(3, 1, 2), floats(1, 2 * gates, 2), floats(1, 2 * gates, 2), None, lengths]
        yield Row(name, weights, 4, (4, -1, 2**31 - 1, -(2**31)), attributes={"hidden_size": 2})


def sequence_rows() -> Iterator[Row]:
    """Places in a sequence of two; one more to insert at."""
    items, place = [floats(2), floats(2)], ints(1).reshape(())
    yield Row("SequenceAt", [items, place], 1, (2, -3, *FAR))
    yield Row("SequenceErase", [items, place], 1, (2, -3, *FAR))
    yield Row("SequenceInsert", [items, floats(2), place], 2, (3, -4, *FAR))


def attention_rows() -> Iterator[Row]:
    """Lengths of up to 5 keys."""
    given = [floats(1, 2, 3, 4), floats(1, 2, 5, 4), floats(1, 2, 5, 4), None, None, None, ints(5)]
    bad = (6, -1, *FAR)
    yield Row("Attention", given, 6, bad)


def boundless_rows() -> Iterator[Row]:
    """Numbers that may be anything."""
    data = floats(3, 4)
    yield Row("Trilu", [data, ints(1).reshape(())], 1, (4, -4, *FAR))
    yield Row("Trilu", [data, ints(1).reshape(())], 1, (4, -4, *FAR), attributes={"upper": 0})
    for place, step in ((1, 1), (1, -1), (2, 1), (2, -1)):
        yield Row("Slice", [data, ints(1), ints(2), ints(0), ints(step)], place, (5, -5, *FAR))
    yield Row("Slice", [data, ints(0), ints(3), ints(0), ints(1)], 4, FAR)
    yield Row("OneHot", [ints(0, 1), ints(3).reshape(()), floats(2)], 0, (3, -4, *FAR))
    yield Row("BitShift", [ints(1, 2, dtype=np.uint64), ints(1, 2, dtype=np.uint64)], 1, (64, 2**64 - 1),
              attributes={"direction": "LEFT"})  # fmt: skip
    far = (np.inf, -np.inf, np.nan, 1e30, -1e30)
    yield Row("GridSample", [floats(1, 1, 3, 4), floats(1, 2, 2, 2)], 1, far)
    for mode in ("border", "reflection"):
        yield Row("GridSample", [floats(1, 1, 3, 4), floats(1, 2, 2, 2)], 1, far[3:], attributes={"padding_mode": mode})
    boxes, scores = floats(1, 3, 4), floats(1, 1, 3)
    yield Row("NonMaxSuppression", [boxes, scores, ints(2)], 2, (0, MOST))


ROWS = [*index_rows(), *axis_rows(), *size_rows(), *sequence_rows(), *attention_rows()]
BOUNDLESS = list(boundless_rows())


def label(row: Row, bad: float) -> str:
    return f"{row.operator}-x{row.at}[{row.element}]-{row.inputs[row.at].dtype}-{bad}"


def cases(rows: list[Row]) -> list[Any]:
    return [pytest.param(row, bad, id=label(row, bad)) for row in rows for bad in row.bad]


@pytest.fixture(scope="module")
def engines() -> dict[int, tuple[ReferenceEngine, NativeEngine]]:
    """Both engines of each row, compiled together."""
    found: dict[int, tuple[ReferenceEngine, NativeEngine]] = {}
    for row in (*ROWS, *BOUNDLESS):
        graph = read_model(row.model()).graph
        simplify(graph)
        found[id(row)] = ReferenceEngine(graph), NativeEngine(graph, 1)
    compile_together(native for _, native in found.values())
    for _, native in found.values():
        native.load()
    return found


def check_refused(engine: Any, row: Row, bad: float) -> None:
    with pytest.raises(row.errors) as caught:
        engine.run(order_feeds(engine.graph.inputs, row.feeds(bad)))
    text = str(caught.value)
    assert row.operator in text
    assert f"{bad:g}" in text or str(bad) in text or isinstance(caught.value, LimitError)


@pytest.mark.parametrize(("row", "bad"), cases(ROWS))
def test_the_reference_refuses(row: Row, bad: float, engines: Any) -> None:
    check_refused(engines[id(row)][0], row, bad)


@pytest.mark.parametrize(("row", "bad"), cases(ROWS))
def test_the_native_engine_refuses(row: Row, bad: float, engines: Any) -> None:
    check_refused(engines[id(row)][1], row, bad)


@pytest.mark.parametrize(("row", "bad"), cases(BOUNDLESS))
def test_engines_agree_on_any_number(row: Row, bad: float, engines: Any) -> None:
    expected, got = (engine.run(order_feeds(engine.graph.inputs, row.feeds(bad))) for engine in engines[id(row)])
    for left, right in zip(got, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)
