"""External data that must load; what must not is in tests/hostile."""

import mmap
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.present import constant

from intaglio.errors import ExternalDataError
from intaglio.onnx.external import ExternalData
from intaglio.onnx.reader import read_model
from intaglio.runtime.engine.guard import guard_files

VALUES = np.arange(6, dtype=np.float32)


def model(*locations: str, offset: int | None = None) -> onnx.ModelProto:
    tensors = []
    for index, location in enumerate(locations):
        proto = TensorProto(name=f"w{index}", data_type=1, dims=[6], data_location=TensorProto.EXTERNAL)
        proto.external_data.add(key="location", value=location)
        if offset is not None:
            proto.external_data.add(key="offset", value=str(offset))
            proto.external_data.add(key="length", value="24")
        tensors.append(proto)
    nodes = [helper.make_node("Sum", ["x", *(tensor.name for tensor in tensors)], ["y"])]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", 1, [6])], [value("y", 1, [6])], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def save(folder: Path, proto: onnx.ModelProto) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    return folder / "model.onnx"


def constants(path: Path | bytes, **options) -> list[np.ndarray]:
    return [constant(value) for value in read_model(path, **options).graph.constants()]


def buffer_of(array: np.ndarray) -> Any:
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    return base.base


@pytest.mark.parametrize("location", ["w.bin", "./w.bin", "sub/w.bin", "sub//w.bin", "a b.bin", "ü.bin"])
def test_plain_locations_load(tmp_path: Path, location: str) -> None:
    path = save(tmp_path, model(location))
    (tmp_path / location).parent.mkdir(exist_ok=True)
    (tmp_path / location).write_bytes(VALUES.tobytes())
    np.testing.assert_array_equal(constants(path)[0], VALUES)


def test_offset_and_length(tmp_path: Path) -> None:
    path = save(tmp_path, model("w.bin", offset=3))
    (tmp_path / "w.bin").write_bytes(b"abc" + VALUES.tobytes() + b"more")
    np.testing.assert_array_equal(constants(path)[0], VALUES)


def test_a_file_is_mapped_once_and_never_copied(tmp_path: Path) -> None:
    assert guard_files()
    path = save(tmp_path, model("w.bin", "w.bin", "other.bin"))
    (tmp_path / "w.bin").write_bytes(VALUES.tobytes())
    os.link(tmp_path / "w.bin", tmp_path / "other.bin")
    buffers = [buffer_of(array) for array in constants(path)]
    assert all(isinstance(buffer.obj, mmap.mmap) for buffer in buffers)
    assert len({id(buffer.obj) for buffer in buffers}) == 1


def test_a_hard_link_is_the_file_itself(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(VALUES.tobytes())
    path = save(tmp_path / "model", model("w.bin"))
    os.link(tmp_path / "elsewhere", tmp_path / "model" / "w.bin")
    np.testing.assert_array_equal(constants(path)[0], VALUES)


def test_a_link_inside_the_folder_is_followed(tmp_path: Path) -> None:
    path = save(tmp_path, model("links/w.bin", "through/w.bin"))
    (tmp_path / "data").mkdir()
    (tmp_path / "links").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(VALUES.tobytes())
    (tmp_path / "links" / "w.bin").symlink_to("../data/w.bin")
    (tmp_path / "through").symlink_to("data")
    assert len(constants(path)) == 2


@pytest.mark.parametrize("place", ["", "onnx", "onnx/fp16"])
@pytest.mark.parametrize("location", ["w.bin", "sub/w.bin"])
def test_hugging_face_cache_layout(tmp_path: Path, place: str, location: str) -> None:
    repository = tmp_path / "models--org--name"
    snapshot = repository / "snapshots" / ("0" * 40) / place
    (repository / "blobs").mkdir(parents=True)
    (repository / "blobs" / ("b" * 64)).write_bytes(VALUES.tobytes())
    (repository / "blobs" / ("c" * 40)).write_bytes(model(location).SerializeToString())
    (snapshot / location).parent.mkdir(parents=True)
    blobs = repository / "blobs"
    (snapshot / location).symlink_to(os.path.relpath(blobs / ("b" * 64), (snapshot / location).parent))
    (snapshot / "model.onnx").symlink_to(os.path.relpath(blobs / ("c" * 40), snapshot))
    np.testing.assert_array_equal(constants(snapshot / "model.onnx")[0], VALUES)


def test_a_model_from_bytes_needs_a_folder(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(VALUES.tobytes())
    data = model("w.bin").SerializeToString()
    with pytest.raises(ExternalDataError, match="base_folder"):
        read_model(data)
    np.testing.assert_array_equal(constants(data, base_folder=tmp_path)[0], VALUES)


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    path = save(tmp_path, model("missing/w.bin"))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(ExternalDataError):
            read_model(path)
    (tmp_path / "w.bin").write_bytes(VALUES.tobytes())
    folder = ExternalData(tmp_path)
    folder.read([("location", "w.bin")], 24, "w")
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # the map keeps one of its own


def test_empty_tensors_need_their_file_too(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert len(ExternalData(tmp_path).read([("location", "empty")], 0, "w")) == 0
    with pytest.raises(ExternalDataError, match="no such file"):
        ExternalData(tmp_path).read([("location", "absent")], 0, "w")


def test_a_race_between_check_and_open_gains_nothing(tmp_path: Path) -> None:
    """A second thread swaps the file for a link out of the folder, again and again, while it is being read."""
    (tmp_path / "secret").write_bytes(b"\xff" * 24)
    folder = tmp_path / "model"
    folder.mkdir()
    place, spare = folder / "w.bin", folder / "spare"
    place.write_bytes(VALUES.tobytes())
    is_done = threading.Event()

    def swap() -> None:
        while not is_done.is_set():
            spare.symlink_to("../secret")
            os.replace(spare, place)
            spare.write_bytes(VALUES.tobytes())
            os.replace(spare, place)

    thread = threading.Thread(target=swap)
    thread.start()
    outcomes = set()
    for _ in range(300):
        try:
            outcomes.add(bytes(ExternalData(folder).read([("location", "w.bin")], 24, "w")))
        except ExternalDataError:
            outcomes.add(b"refused")
    is_done.set()
    thread.join()
    assert outcomes <= {VALUES.tobytes(), b"refused"}
