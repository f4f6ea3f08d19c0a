"""`model.count()`: how often each action ran and how long, with loops, data that tells sizes, and host nodes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from intaglio.errors import UnsupportedError
from intaglio.runtime.model.loading import load

CHAIN = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[n, 64] x, float[64, 64] w) => (float[n, 64] z) {
    y = MatMul (x, w)
    t = Softmax <axis = 1> (y)
    u = MatMul (t, w)
    z = Relu (u)
}
"""
LOOP = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (int64 rounds, float[8] x) => (float[8] y) {
    y = Loop (rounds, , x) <body = g (int64 i, bool c, float[8] a) => (bool d, float[8] b) {
        d = Identity (c)
        t = CumSum (a, axis)
        b = Sigmoid (t)
    }>
}
"""
SIZES = """
<ir_version: 8, opset_import: ["" : 17]>
agraph (float[n] x) => (int64[1, m] y, int64[1] s) {
    y = NonZero (x)
    s = Shape (x)
}
"""
TEXTS = """
<ir_version: 8, opset_import: ["" : 20]>
agraph (string[n] x, float[4] a) => (int64[n] y, float[4] b) {
    t = StringConcat (x, x)
    y = Cast <to = 7> (t)
    b = Exp (a)
}
"""


def parsed(text: str, **constants: Any) -> onnx.ModelProto:
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items())
    return model


def feeds_of(rows: int) -> dict[str, Any]:
    random = np.random.default_rng(0)
    shapes = {"x": (rows, 64), "w": (64, 64)}
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("threads", [1, 2])
def test_each_kernel_is_counted_and_times_add_up(threads: int) -> None:
    model, feeds = load(parsed(CHAIN), threads=threads), feeds_of(2000)
    for _ in range(3):
        model.run(feeds)
    begin = time.perf_counter()
    with model.count(feeds, most_spans=1000) as counts:
        for _ in range(5):
            model.run(feeds)
    wall = time.perf_counter() - begin
    kernels = [row for row in counts.rows if row.kind == "kernel"]
    assert len(kernels) == len([call for call in model.explain().calls if call.kind == "kernel"])
    assert all(row.calls == 5 and row.seconds > 0 and row.seconds >= row.waited >= 0 for row in kernels)
    assert 0 < counts.seconds <= wall
    product = next(row for row in kernels if "MatMul" in row.operators)
    assert product.flops == 2 * 2000 * 64 * 64
    assert product.bytes is not None
    assert product.bytes >= 4 * (2 * 2000 * 64 + 64 * 64)
    assert max(row.live or 0 for row in kernels) >= 4 * 2000 * 64
    assert len(counts.spans) == 5 * len(kernels)
    assert all(a.begin <= a.end <= b.begin + 1 for a, b in zip(counts.spans, counts.spans[1:], strict=False))
    total = sum(span.end - span.begin for span in counts.spans) / 1e9
    assert total == pytest.approx(sum(row.seconds for row in kernels), rel=0.01)


def test_nothing_is_counted_outside_of_the_block_and_results_stay() -> None:
    model, feeds = load(parsed(CHAIN)), feeds_of(10)
    before = model.run(feeds)["z"]
    with model.count() as counts:
        inside = model.run(feeds)["z"]
    after = model.run(feeds)["z"]
    assert inside.tobytes() == before.tobytes() == after.tobytes()
    assert {row.calls for row in counts.rows} == {1}
    with model.count() as empty:
        pass
    assert not empty.rows


def test_rounds_of_a_loop_are_counted() -> None:
    model = load(parsed(LOOP, axis=np.array(0)))
    feeds = {"rounds": np.array(7), "x": np.ones(8, np.float32)}
    model.run(feeds)
    with model.count(feeds) as counts:
        model.run(feeds)
    assert sum(row.calls for row in counts.rows if "Sigmoid" in row.operators) == 7


def test_sizes_found_in_data_and_shapes_have_rows() -> None:
    model, feeds = load(parsed(SIZES)), {"x": np.array([0, 1, 0, 2, 3], np.float32)}
    model.run(feeds)
    with model.count(feeds) as counts:
        results = model.run(feeds)
    assert results["y"].tolist() == [[1, 3, 4]]
    assert {"driver", "kernel", "shape", "size"} <= {row.kind for row in counts.rows}


def test_host_nodes_have_rows() -> None:
    model = load(parsed(TEXTS))
    feeds = {"x": np.array(["1", "2"], object), "a": np.zeros(4, np.float32)}
    for _ in range(2):
        model.run(feeds)
    with model.count(feeds, most_spans=100) as counts:
        results = [model.run(feeds) for _ in range(3)]
    assert results[-1]["y"].tolist() == [11, 22]
    hosts = [row for row in counts.rows if row.kind == "host"]
    assert hosts
    assert all(row.calls == 3 and row.seconds > 0 and row.nodes for row in hosts)
    assert len([span for span in counts.spans if counts.rows[span.row].kind == "host"]) == 3 * len(hosts)
    assert model.run(feeds)["y"].tolist() == [11, 22]


def test_a_compiled_file_is_counted(tmp_path: Path) -> None:
    path, feeds = tmp_path / "m.intaglio", feeds_of(10)
    load(parsed(CHAIN)).save_compiled(path)
    model = load(path)
    expected = model.run(feeds)["z"]
    with model.count(feeds) as counts:
        inside = model.run(feeds)["z"]
    assert sum(row.calls for row in counts.rows if row.kind == "kernel") >= 3
    assert inside.tobytes() == expected.tobytes()


def test_the_reference_engine_is_not_counted() -> None:
    model = load(parsed(CHAIN), engine="reference")
    with pytest.raises(UnsupportedError, match="native engine"), model.count():
        pass
