"""Large tensors are cut out of a model's bytes, and nothing else changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tests.present import constant

from intaglio.errors import LoadError
from intaglio.onnx.mapped import files_of, model_file
from intaglio.onnx.reader import read_model
from intaglio.onnx.wire import LARGE, split_model
from intaglio.runtime.engine.guard import guard_files

BIG = np.arange(LARGE // 4 + 5, dtype=np.float32)


@pytest.fixture(autouse=True)
def guarded() -> None:
    """Files are mapped only under the guard of the C runtime."""
    assert guard_files()


def model(*tensors: TensorProto) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Size", [tensor.name], [f"y{i}"]) for i, tensor in enumerate(tensors)]
    outputs = [value(f"y{i}", 7, []) for i in range(len(tensors))]
    graph = helper.make_graph(nodes, "g", [], outputs, list(tensors))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def named(array: np.ndarray, name: str) -> TensorProto:
    return numpy_helper.from_array(array, name)


def test_only_large_raw_data_is_cut() -> None:
    original = model(named(BIG[:5], "small"), named(BIG, "large"), named(BIG[:3], "last"))
    message, cut = split_model(memoryview(original.SerializeToString()))
    assert {position: bytes(data) for position, data in cut.items()} == {1: BIG.tobytes()}
    assert len(message) < 1000
    rest = onnx.ModelProto.FromString(message)
    rest.graph.initializer[1].raw_data = BIG.tobytes()
    assert rest == original


def test_the_array_is_a_view_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    for pad in range(4):
        path.write_bytes(model(named(BIG, "w" * (pad + 1))).SerializeToString())
        (value,) = read_model(path).graph.constants()
        array = constant(value)
        file = model_file(array)
        assert file is not None
        assert not array.flags.writeable
        np.testing.assert_array_equal(array, BIG)
        file.check()
        (tmp_path / "new.onnx").write_bytes(b"")
        (tmp_path / "new.onnx").replace(path)  # another file of that name does not touch the one that is mapped
        file.check()
        np.testing.assert_array_equal(value.constant, BIG)


def test_a_file_that_was_rewritten_in_place_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(model(named(BIG, "w")).SerializeToString())
    (file,) = files_of(read_model(path).graph)
    path.write_bytes(b"")
    with pytest.raises(LoadError, match="was rewritten while its weights were in use"):
        file.check()


@pytest.mark.parametrize("cut", [1, 100, LARGE // 2])
def test_a_truncated_model_is_refused(cut: int) -> None:
    data = model(named(BIG, "w")).SerializeToString()
    with pytest.raises(LoadError, match="cut short"):
        read_model(data[:-cut])


def test_lies_about_large_tensors_are_found() -> None:
    short = named(BIG, "w")
    short.dims[0] += 1
    with pytest.raises(LoadError, match="bytes of data, expected"):
        read_model(model(short).SerializeToString())
    both = named(BIG, "w")
    both.float_data.append(1.0)
    with pytest.raises(LoadError, match="both raw data and float_data"):
        read_model(model(both).SerializeToString())
    outside = named(BIG, "w")
    outside.data_location = TensorProto.EXTERNAL
    with pytest.raises(LoadError, match="both external data and raw data"):
        read_model(model(outside).SerializeToString())


def test_a_graph_in_two_parts_is_merged_as_protobuf_merges_it() -> None:
    first, second = model(named(BIG, "a")), model(named(BIG + 1, "b"))
    data = first.SerializeToString() + second.SerializeToString()
    message, cut = split_model(memoryview(data))
    merged = onnx.ModelProto.FromString(message)
    whole = onnx.ModelProto.FromString(data)
    for position, raw in cut.items():
        merged.graph.initializer[position].raw_data = bytes(raw)
    assert merged == whole


@given(st.binary(max_size=200))
@settings(deadline=None, max_examples=200)
def test_any_bytes_are_left_alone_or_reproduced(data: bytes) -> None:
    message, cut = split_model(memoryview(data))
    assert (message, cut) == (data, {}) or len(message) <= len(data) + 20


MEASURE = """
import resource, sys
from intaglio.runtime.engine.guard import guard_files
from intaglio.onnx.reader import read_model
import numpy as np
guard_files()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
graph = read_model(sys.argv[1]).graph
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def measure(path: Path) -> int:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, check=True, env=environment)
    return int(done.stdout)


def test_memory_stays_near_the_size_of_the_model(tmp_path: Path) -> None:
    """The mapped file and one copy of the weights; protobuf alone would take three times the size."""
    path = tmp_path / "m.onnx"
    weights = [named(np.ones(2**22, np.float32), f"w{i}") for i in range(6)]
    path.write_bytes(model(*weights).SerializeToString())
    assert measure(path) < 2.4 * path.stat().st_size


def test_external_data_over_2_gb_is_mapped(tmp_path: Path) -> None:
    size = 5 * 2**30
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(size)
    tensor = TensorProto(name="w", data_type=TensorProto.INT8, dims=[size], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="w.bin")
    (tmp_path / "m.onnx").write_bytes(model(tensor).SerializeToString())
    (value,) = read_model(tmp_path / "m.onnx").graph.constants()
    assert constant(value).shape == (size,)
    assert measure(tmp_path / "m.onnx") < 2**28
