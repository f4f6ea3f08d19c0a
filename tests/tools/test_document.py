from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

from intaglio.errors import InputError, LoadError
from intaglio.tools.document import read_document, save_document

WITH_FUNCTION = """
<ir_version: 8, opset_import: ["" : 11, "own" : 1, "odd.domain" : 7], producer_name: "maker", doc_string: "about it",
 metadata_props: ["key": "value", "key": "twice"]>
g (float[N, 3] x, bool c) => (float[N, 3] y, z) <float[N, 3] between> {
    between = own.twice (x)
    y = If (c) <then_branch = t () => (a) { a = Neg (between) },
                else_branch = e () => (b) { b = If (c) <then_branch = u () => (d) { d = Abs (x) },
                                                     else_branch = v () => (f) { f = Exp (x) }> }>
    z = odd.domain.Nobody <level = 3> (y, , between)
}
<domain: "own", opset_import: ["" : 11]>
twice (p) => (q) { q = Add (p, p) }
"""


def official_models() -> Iterator[ModelProto]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the makers of the tests overflow on purpose
        cases = [case for kind in ("node", "simple", "pytorch-operator") for case in load_model_tests(kind=kind)]
    for case in cases:
        if case.model is not None:
            yield case.model
        elif case.model_dir is not None:
            yield onnx.load_model(Path(case.model_dir) / "model.onnx", load_external_data=False)


def test_official_models_are_written_as_they_were() -> None:
    count = 0
    for message in official_models():
        assert read_document(message.SerializeToString()).message() == message, message.graph.name
        count += 1
    assert count > 1500


def test_a_file_that_nobody_can_run_is_kept_as_it_is(tmp_path: Path) -> None:
    message = onnx.parser.parse_model(WITH_FUNCTION)
    message.graph.node[0].name = message.graph.node[1].name = "the same \n name"
    message.graph.value_info.append(message.graph.value_info[0])
    path = tmp_path / "odd.onnx"
    path.write_bytes(message.SerializeToString())
    document = read_document(path)
    assert document.message() == message
    operators = {node.operator for node in document.graph.all_nodes()}
    assert operators == {"own.twice", "If", "odd.domain.Nobody", "Neg", "Exp", "Abs"}
    assert len({node.number for node in document.graph.all_nodes()}) == 7
    assert save_document(document, tmp_path / "copy.onnx") == [tmp_path / "copy.onnx"]
    assert onnx.load_model(tmp_path / "copy.onnx") == message


def test_fields_that_this_version_does_not_know_are_kept() -> None:
    data = onnx.parser.parse_model(WITH_FUNCTION).SerializeToString() + b"\xfa\x3f\x03abc"  # field 1023
    assert b"\xfa\x3f\x03abc" in read_document(data).message().SerializeToString()


def large_model(explicit: bool = False) -> ModelProto:
    weight = numpy_helper.from_array(np.arange(40_000, dtype=np.float32).reshape(200, 200), "w")
    if explicit:
        weight.data_location = TensorProto.DEFAULT
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 200]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", infos[:1], infos[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize("explicit", [False, True])
def test_large_weights_stay_in_the_file_until_they_are_written(tmp_path: Path, explicit: bool) -> None:
    message = large_model(explicit)
    path = tmp_path / "large.onnx"
    path.write_bytes(message.SerializeToString())
    document = read_document(path)
    assert bool(document.held) == (not explicit)
    save_document(document, tmp_path / "copy.onnx")
    assert onnx.load_model(tmp_path / "copy.onnx") == message == document.message()
    save_document(document, path)  # over itself, while it is mapped
    assert onnx.load_model(path) == message


def external_model(folder: Path) -> ModelProto:
    onnx.save_model(large_model(), folder / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    return onnx.load_model(folder / "m.onnx", load_external_data=False)


def test_external_data_goes_along(tmp_path: Path) -> None:
    message = external_model(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    written = save_document(read_document(tmp_path / "m.onnx"), other / "n.onnx")
    assert written == [other / "n.onnx", other / "m.bin"]
    assert onnx.load_model(other / "n.onnx", load_external_data=False) == message
    assert (other / "m.bin").read_bytes() == (tmp_path / "m.bin").read_bytes()
    assert save_document(read_document(tmp_path / "m.onnx"), other / "n.onnx") == [other / "n.onnx"]
    (other / "m.bin").write_bytes(b"something else")
    with pytest.raises(InputError, match="is another file than the model's"):
        save_document(read_document(tmp_path / "m.onnx"), other / "n.onnx")
    assert (other / "m.bin").read_bytes() == b"something else"


def test_missing_external_data_is_warned_of(tmp_path: Path) -> None:
    message = external_model(tmp_path)
    (tmp_path / "m.bin").unlink()
    document = read_document(tmp_path / "m.onnx")
    assert document.message() == message
    save_document(document, tmp_path / "n.onnx")
    other = tmp_path / "other"
    other.mkdir()
    with pytest.warns(UserWarning, match="there is no such file"):
        save_document(document, other / "n.onnx")
    assert onnx.load_model(other / "n.onnx", load_external_data=False) == message


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(LoadError, match="is not an ONNX model"):
        read_document(b"no message at all")
    assert read_document(ModelProto(doc_string="no graph")).message() == ModelProto(doc_string="no graph")
