"""Files and paths that a hostile model names: nothing outside its folder may be touched."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

SECRET = b"canary!!" * 2
VALUES = np.arange(4, dtype=np.float32)


def external(location: str | None, name: str = "w", dims: tuple[int, ...] = (4,), **entries: Any) -> TensorProto:
    proto = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    if location is not None:
        proto.external_data.add(key="location", value=location)
    for key, value in entries.items():
        proto.external_data.add(key=key, value=value)
    return proto


def model_of(initializers: list[TensorProto], nodes: list[onnx.NodeProto] | None = None, **parts) -> onnx.ModelProto:
    nodes = nodes or [helper.make_node("Add", ["x", "w"], ["y"])]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", 1, [4])], [value("y", 1, [4])], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("f", 1)], **parts)


def save(folder: Path, model: onnx.ModelProto) -> Path:
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "model.onnx"


def located(location: str, **entries: Any) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / "w.bin").write_bytes(VALUES.tobytes())
        return save(folder, model_of([external(location, **entries)]))

    return make


def linked(target: str, name: str = "w.bin") -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).symlink_to(target)
        return save(folder, model_of([external("w.bin" if name == "w.bin" else f"{name}/secret")]))

    return make


def fifo(folder: Path) -> Path:
    os.mkfifo(folder / "w.bin")
    return save(folder, model_of([external("w.bin")]))


def directory(folder: Path) -> Path:
    (folder / "w.bin").mkdir()
    return save(folder, model_of([external("w.bin")]))


def link_chain(folder: Path) -> Path:
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    return save(folder, model_of([external("a")]))


def in_constant(folder: Path) -> Path:
    node = helper.make_node("Constant", [], ["w"])
    node.attribute.append(helper.make_attribute("value", external("../canary/secret", "")))
    return save(folder, model_of([], [node, helper.make_node("Add", ["x", "w"], ["y"])]))


def in_subgraph(folder: Path) -> Path:
    value = helper.make_tensor_value_info
    branch = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["z"])], "b", [], [value("z", 1, [4])], [external("../canary/secret")]
    )
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Cast", ["m"], ["c"], to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
    ]
    return save(folder, model_of([], nodes))


def in_function(folder: Path) -> Path:
    node = helper.make_node("Constant", [], ["w"])
    node.attribute.append(helper.make_attribute("value", external("../canary/secret", "")))
    body = [node, helper.make_node("Add", ["a", "w"], ["b"])]
    function = helper.make_function("f", "F", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    return save(folder, model_of([], [helper.make_node("F", ["x"], ["y"], domain="f")], functions=[function]))


def in_sparse(part: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        model = model_of([])
        sparse = model.graph.sparse_initializer.add(dims=[4])
        sparse.values.CopyFrom(numpy_helper.from_array(np.ones(2, np.float32), "w"))
        sparse.indices.CopyFrom(numpy_helper.from_array(np.arange(2, dtype=np.int64), "i"))
        bad = external("../canary/secret", getattr(sparse, part).name, (2,))
        bad.data_type = getattr(sparse, part).data_type
        getattr(sparse, part).CopyFrom(bad)
        return save(folder, model)

    return make


def duplicate_keys(folder: Path) -> Path:
    tensor = external("w.bin")
    tensor.external_data.add(key="location", value="../canary/secret")
    (folder / "w.bin").write_bytes(VALUES.tobytes())
    return save(folder, model_of([tensor]))


def fake_cache(target: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        place = folder / "snapshots" / "rev"
        place.mkdir(parents=True)
        (folder / "blobs").mkdir()
        (folder / "blobs" / ("a" * 64)).symlink_to("../../canary/secret")
        (place / "w.bin").symlink_to(target)
        return save(place, model_of([external("w.bin")]))

    return make


def no_location(folder: Path) -> Path:
    return save(folder, model_of([external(None)]))


REFUSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "parent": (located("../canary/secret"), "leads out of the model's folder"),
    "parent inside": (located("a/../../canary/secret"), "leads out"),
    "parent with backslash": (located("..\\canary\\secret"), "relative path"),
    "trailing dots": (located("w.bin.."), "end in a dot"),
    "nul": (located("w.bin\0.txt"), "not a file name"),
    "empty": (located(""), "not a file name"),
    "dot": (located("."), "a folder"),
    "slash at the end": (located("w.bin/"), "a folder"),
    "absolute": (located("/etc/passwd"), "relative path"),
    "drive": (located("C:\\x"), "relative path"),
    "drive without slash": (located("C:x"), "relative path"),
    "unc": (located("\\\\server\\share"), "relative path"),
    "device": (located("/dev/zero"), "relative path"),
    "proc": (located("/proc/self/environ"), "relative path"),
    "missing": (located("absent.bin"), "no such file"),
    "no location": (no_location, "no location"),
    "fifo": (fifo, "not a regular file"),
    "directory": (directory, "not a regular file"),
    "link out": (linked("../canary/secret"), "link out of the model's folder"),
    "absolute link": (linked("/etc/hostname"), "link out of the model's folder"),
    "link to device": (linked("/dev/zero"), "link out of the model's folder"),
    "linked parent": (linked("../canary", name="sub"), "link out of the model's folder"),
    "circle of links": (link_chain, "more than 8 links"),
    "cache link out": (fake_cache("../../../canary/secret"), "link out"),
    "cache blob is a link": (fake_cache("../../blobs/" + "a" * 64), "link out"),
    "cache blob with a name": (fake_cache("../../blobs/../../canary/secret"), "link out"),
    "in a constant": (in_constant, "leads out"),
    "in a subgraph": (in_subgraph, "leads out"),
    "in a function": (in_function, "leads out"),
    "in sparse values": (in_sparse("values"), "leads out"),
    "in sparse indices": (in_sparse("indices"), "leads out"),
    "negative offset": (located("w.bin", offset="-4"), "at least 0"),
    "offset past the end": (located("w.bin", offset="4096", length="16"), "bytes 4096 to 4112"),
    "offset overflow": (located("w.bin", offset=str(2**64)), "at least 0"),
    "length overflow": (located("w.bin", length=str(2**63 - 1)), "needs bytes"),
    "short length": (located("w.bin", length="8"), "expected 16"),
    "truncated file": (located("w.bin", offset="4", length="16"), "needs bytes"),
    "wrong size": (located("w.bin", offset="8"), "expected 16"),
    "length in words": (located("w.bin", length="sixteen"), "at least 0"),
    "length in other digits": (located("w.bin", length="١٦"), "at least 0"),
    "duplicate keys": (duplicate_keys, "twice"),
    "injected key": (located("w.bin", __class__="x"), "unknown key"),
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory, read_hostile):
    cases = {}
    for name, (make, _) in REFUSED.items():
        base = tmp_path_factory.mktemp("case")
        (base / "canary").mkdir()
        (base / "canary" / "secret").write_bytes(SECRET)
        (base / "model").mkdir()
        cases[name] = make(base / "model")
    return read_hostile(cases)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, outcomes):
    found = outcomes[name]
    assert found.outcome == "ExternalDataError", found
    assert REFUSED[name][1] in found.text
    assert SECRET.hex() not in found.text
