"""Graphs back to ONNX: valid, equal in ONNX Runtime, written at once or not at all."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper, parser

from intaglio.errors import InputError, LimitError, UnsupportedError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import FLOAT32
from intaglio.ir.graph import Graph
from intaglio.ir.types import TensorType
from intaglio.onnx import writer
from intaglio.onnx.opsets import minimal_opsets
from intaglio.onnx.reader import Imported, read_model
from intaglio.onnx.schema import NEWEST
from intaglio.onnx.writer import save_model, write_model

X = np.asarray([[1.0, -2.0, 3.0], [0.5, 0.0, -1.0]], np.float32)


def read(body: str, opset: int = 17) -> Imported:
    return read_model(parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {body}'))


def run(model: onnx.ModelProto | Path, **inputs: np.ndarray) -> list[np.ndarray]:
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    return [np.asarray(array) for array in session.run(None, inputs)]


def weighted(size: int = 600) -> Graph:
    """x @ w with a weight of 4 * size bytes and a small bias."""
    graph = Graph("g")
    x = graph.add_input("x", TensorType(FLOAT32, (2, 3)))
    b = Builder(graph)
    weight = graph.constant(np.arange(size, dtype=np.float32).reshape(3, -1), "weight")
    (y,) = b.add(type_of("MatMul"), [x, weight], names=["m"])
    (y,) = b.add(type_of("Add"), [y, graph.constant(np.ones(1, np.float32), "bias")], names=["y"])
    graph.set_outputs([y])
    return graph


def type_of(name: str):
    from intaglio.ir.op import OPERATORS

    return OPERATORS[("", name)]()


SAME: dict[str, str] = {
    "plain": "g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }",
    "constants": "g (float[2, 3] x) => (float[2, 3] y) <float[3] w = {1, 2, 3}> { y = Mul(x, w) }",
    "attributes": """g (float[2, 3] x) => (float[3, 2] y) {
        a = LeakyRelu <alpha = 0.25> (x) y = Transpose <perm = [1, 0]> (a) }""",
    "absent input": "g (float[2, 3] x) => (float[2, 3] y) <float h = {1}> { y = Clip(x, , h) }",
    "several outputs": """g (float[2, 3] x) => (float[2, 1] a, float[2, 2] b) <int64[2] s = {1, 2}> {
        a, b = Split <axis = 1> (x, s) }""",
    "output that is an input": "g (float[2, 3] x) => (float[2, 3] x, float[2, 3] y) { y = Relu(x) }",
    "outer values": """g (float[2, 3] x) => (float[2, 3] y) <float k = {2}> {
        m = ReduceMax <keepdims = 0> (x)
        c = Greater(m, k)
        d = Mul(x, k)
        y = If (c) <then_branch = t () => (float[2, 3] p) { p = Add(d, k) },
                    else_branch = e () => (float[2, 3] q) { q = Identity(d) }> }""",
    "branch returns a constant": """g (float[2, 3] x) => (float[2] y) {
        m = ReduceMax <keepdims = 0> (x)
        c = Cast <to = 9> (m)
        y = If (c) <then_branch = t () => (float[2] p) { p = Constant <value_floats = [1.0, 2.0]> () },
                    else_branch = e () => (float[2] q) { q = Constant <value_floats = [3.0, 4.0]> () }> }""",
    "strings": """g (float[2, 3] x) => (string[2] y) { y = Constant <value_strings = ["a", "é"]> () }""",
}


@pytest.mark.parametrize("name", SAME)
def test_same_results_in_onnx_runtime(name: str) -> None:
    imported = read(SAME[name])
    written = write_model(imported.graph, imported.info)
    onnx.checker.check_model(written, full_check=True)
    original = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {SAME[name]}')
    assert [output.name for output in written.graph.output] == [output.name for output in original.graph.output]
    for ours, theirs in zip(run(written, x=X), run(original, x=X), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", SAME)
def test_writing_is_stable(name: str) -> None:
    first = write_model(read(SAME[name]).graph)
    once = write_model(read_model(first).graph)  # a branch that returns a constant has gained an Identity
    again = write_model(read_model(once).graph)
    assert once.SerializeToString(deterministic=True) == again.SerializeToString(deterministic=True)


def test_defaults_metadata_and_doc_survive() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, float[2] w) => (float[2] y) { [n] y = Add(x, w) }'
    )
    model.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    model.doc_string, model.graph.doc_string, model.model_version = "model", "graph", 3
    model.metadata_props.add(key="a", value="b")
    model.graph.metadata_props.add(key="c", value="d")
    imported = read_model(model)
    written = write_model(imported.graph, imported.info)
    assert [value.name for value in written.graph.input] == ["x", "w"]
    assert [tensor.name for tensor in written.graph.initializer] == ["w"]
    assert (written.doc_string, written.graph.doc_string, written.model_version) == ("model", "graph", 3)
    assert [(p.key, p.value) for p in written.metadata_props] == [("a", "b")]
    assert [(p.key, p.value) for p in written.graph.metadata_props] == [("c", "d")]
    assert [node.name for node in written.graph.node] == ["n"]


def test_dimensions_keep_their_names_or_stay_without() -> None:
    graph = read("g (float[N, ?, 3] x) => (float[N, ?, 3] y) { y = Relu(x) }").graph
    for value in (write_model(graph).graph.input[0], write_model(graph).graph.output[0]):
        first, second, third = value.type.tensor_type.shape.dim
        assert (first.dim_param, second.WhichOneof("value"), third.dim_value) == ("N", None, 3)


def test_the_same_output_twice() -> None:
    graph = weighted()
    graph.set_outputs([graph.outputs[0], graph.outputs[0]])
    written = write_model(graph)
    onnx.checker.check_model(written, full_check=True)
    assert write_model(graph) == written
    first, second = run(written, x=X)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Relu(x)", 6),
        ("a = Shape(x) y = Reshape(x, a)", 5),
        ("y = Softmax(x)", 13),
        ("y = Gelu(x)", 20),
    ],
)
def test_minimal_opset(body: str, expected: int) -> None:
    graph = read(f"g (float[2, 3] x) => (float[2, 3] y) {{ {body} }}", opset=22).graph
    assert minimal_opsets(graph).get("", 1) == expected


def test_opset_that_is_asked_for() -> None:
    graph = read("g (float[2, 3] x) => (float[2, 3] y) { a = Gelu(x) y = Softmax(a) }", opset=22).graph
    assert write_model(graph).opset_import[0].version == 20
    assert write_model(graph, opset=NEWEST[""]).opset_import[0].version == NEWEST[""]
    with pytest.raises(UnsupportedError, match=r"opset 13 is too old for Gelu \(20\)"):
        write_model(graph, opset=13)
    with pytest.raises(UnsupportedError, match="opset 99 is not known"):
        write_model(graph, opset=99)


def test_external_data(tmp_path: Path) -> None:
    graph = weighted()
    path = tmp_path / "m.onnx"
    save_model(graph, path, external_data=True)
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "m.onnx.data"]
    message = onnx.load(path, load_external_data=False)
    places = {tensor.name: {e.key: e.value for e in tensor.external_data} for tensor in message.graph.initializer}
    assert places == {"bias": {}, "weight": {"location": "m.onnx.data", "offset": "0", "length": "2400"}}
    onnx.checker.check_model(str(path), full_check=True)
    np.testing.assert_array_equal(run(path, x=X)[0], run(write_model(graph), x=X)[0])
    weights = {value.name: value.constant for value in read_model(path).graph.constants()}
    np.testing.assert_array_equal(weights["weight"], np.arange(600, dtype=np.float32).reshape(3, 200))


def test_external_data_by_threshold(tmp_path: Path) -> None:
    save_model(weighted(), tmp_path / "m.onnx", external_data=10_000)
    assert os.listdir(tmp_path) == ["m.onnx"]
    save_model(weighted(), tmp_path / "m.onnx", external_data=1)
    message = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    offsets = [int(t.external_data[1].value) for t in message.graph.initializer]
    assert len(offsets) == 2
    assert all(offset % 64 == 0 for offset in offsets)


def test_a_model_too_large_for_a_message_goes_external(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MESSAGE_LIMIT", 2000)
    with pytest.raises(LimitError, match="use external data"):
        write_model(weighted())
    save_model(weighted(), tmp_path / "m.onnx")
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "m.onnx.data"]


def test_a_model_can_be_saved_over_the_files_it_is_mapped_from(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    save_model(weighted(), path, external_data=True)
    imported = read_model(path)
    save_model(imported.graph, path, imported.info, external_data=True)
    np.testing.assert_array_equal(run(path, x=X)[0], run(write_model(weighted()), x=X)[0])


def test_nothing_is_left_when_writing_fails(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"old")
    with pytest.raises(UnsupportedError):
        save_model(weighted(), tmp_path / "m.onnx", opset=99)
    with pytest.raises(UnsupportedError):
        save_model(weighted(), tmp_path / "m.onnx", opset=99, external_data=True)
    assert os.listdir(tmp_path) == ["m.onnx"]
    assert (tmp_path / "m.onnx").read_bytes() == b"old"


@pytest.mark.parametrize("name", ["m.onnx", "m.onnx.data"])
def test_a_symbolic_link_in_the_way_is_refused(tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to(victim)
    with pytest.raises(InputError, match="symbolic link"):
        save_model(weighted(), tmp_path / "out" / "m.onnx", external_data=True)
    assert victim.read_bytes() == b"precious"
    assert os.listdir(tmp_path / "out") == [name]


def test_a_hostile_graph_name_is_no_file_name(tmp_path: Path) -> None:
    graph = weighted()
    graph.name = "../../evil"
    for value in graph.constants():
        value.name = f"../{value.name}"
    (tmp_path / "out").mkdir()
    save_model(graph, tmp_path / "out" / "m.onnx", external_data=1)
    assert sorted(os.listdir(tmp_path)) == ["out"]
    assert sorted(os.listdir(tmp_path / "out")) == ["m.onnx", "m.onnx.data"]


def test_missing_folder_and_folder_as_target(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no folder"):
        save_model(weighted(), tmp_path / "absent" / "m.onnx")
    with pytest.raises(InputError, match="not a regular file"):
        save_model(weighted(), tmp_path)


def test_readers_never_see_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    save_model(weighted(), path)
    failures: list[Exception] = []
    is_done = threading.Event()

    def keep_reading() -> None:
        while not is_done.is_set():
            try:
                read_model(path)
            except Exception as error:
                failures.append(error)

    thread = threading.Thread(target=keep_reading)
    thread.start()
    for _ in range(20):
        save_model(weighted(), path)
    is_done.set()
    thread.join()
    assert failures == []


def test_every_kind_of_attribute() -> None:
    seven = numpy_helper.from_array(np.asarray([7], np.int8))
    words = {"ngram_counts": [0], "ngram_indexes": [0, 1], "pool_strings": ["a", "b"], "weights": [0.5, 2.0]}
    lengths = {"min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "mode": "TFIDF"}
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("ConstantOfShape", ["s"], ["y"], value=seven),
            helper.make_node("TfIdfVectorizer", ["t"], ["u"], **words, **lengths),
        ],
        "g",
        [value("s", 7, [1]), value("t", 8, [3])],
        [value("y", 3, None), value("u", 1, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    written = write_model(read_model(model).graph)
    onnx.checker.check_model(written, full_check=True)
    feed = {"s": np.asarray([2]), "t": np.asarray(["b", "a", "b"], object)}
    for ours, theirs in zip(run(written, **feed), run(model, **feed), strict=True):
        np.testing.assert_array_equal(ours, theirs)
