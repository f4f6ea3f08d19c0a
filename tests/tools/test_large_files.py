"""Files that are larger than a message may be, and models as they come from exporters."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

import intaglio.tools
from intaglio.errors import LimitError

GIB = 2**30
COUNT = 5
MOST = 1.2
"""A command may take so many times the memory of what it touches."""
FEW = 96 * 2**20
"""Besides, it takes this for the interpreter's own growth, buffers and messages."""


def large_model(folder: Path) -> Path:
    """Five weights of 1 GiB in a sparse file beside the model; each has one number that is not 0."""
    nodes, tensors = [], []
    for i in range(COUNT):
        tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[2**18, 2**10])
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "large.bin"), ("offset", str(i * GIB)), ("length", str(GIB))):
            tensor.external_data.add(key=key, value=value)
        tensors.append(tensor)
        nodes.append(helper.make_node("Gather", [f"w{i}", "x"], [f"y{i}"], f"gather{i}"))
    with (folder / "large.bin").open("wb") as file:
        for i in range(COUNT):
            file.seek(i * GIB + 4 * i)
            file.write(np.float32(i + 1).tobytes())
        file.truncate(COUNT * GIB)
    outputs = [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, ["N", 2**10]) for i in range(COUNT)]
    graph = helper.make_graph(
        nodes, "large", [helper.make_tensor_value_info("x", TensorProto.INT64, ["N"])], outputs, tensors
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    (folder / "large.onnx").write_bytes(model.SerializeToString())
    return folder / "large.onnx"


PROGRAM = """
def peak():
    with open("/proc/self/status") as file:  # what getrusage says begins with the peak of the process before
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))

import onnx.shape_inference, numpy
import intaglio.tools as tools
from intaglio.tools.verbs import converting
tools.edit("small.onnx").faults()
before = peak()
{commands}
print(peak() - before)
"""

SMALL = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Neg (x) }'

WORK = {
    "edit": ('e = tools.edit("large.onnx"); e.rename_values({"x": "i"}); e.save("renamed.onnx")', 0),
    "faults": ('assert not tools.edit("large.onnx").faults()', 0),
    "copy": ('tools.prune("large.onnx").save("other/large.onnx")', COUNT),
    "extract": ('tools.externalize(tools.extract("large.onnx", [], ["y3"]).document, "part.onnx")', 1),
    "strip": ('tools.strip("large.onnx").save("stripped.onnx")', COUNT),
    "restore": ('tools.externalize(tools.restore("stripped.onnx", "large.onnx").document, "restored.onnx")', COUNT),
    "dedupe": ('assert tools.dedupe("large.onnx").report["removed"]["constants"] == 0', COUNT),
    "safetensors": ('tools.convert("large.onnx", "large.safetensors")', COUNT),
    "json": ('tools.convert("large.onnx", "large.json")', COUNT),
    "merge": ('tools.merge("large.onnx", "small.onnx", {}, prefix="p_").save("merged.onnx")', 0),
}
"""Commands, and how many of the weights they read or write."""


@pytest.mark.slow
def test_files_over_two_gigabytes_take_little_memory(tmp_path: Path) -> None:
    large_model(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "small.onnx").write_bytes(onnx.parser.parse_model(SMALL).SerializeToString())
    for name, (commands, touched) in WORK.items():
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(commands=commands)], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, (name, done.stderr)
        grown = int(done.stdout.split()[-1]) * 1024
        print(f"{name:12} touches {touched} GiB, memory grows by {grown / 2**20:7.1f} MiB")
        assert grown <= MOST * touched * GIB + FEW, name
    part = intaglio.tools.read_document(tmp_path / "part.onnx")
    weights = intaglio.tools.document.Weights(part)
    assert (tmp_path / "part.onnx.data").stat().st_size == GIB
    assert np.asarray(weights.array(part.graph.initializers[0])).reshape(-1)[3] == 4
    for name in ("restored.onnx", "other/large.onnx"):
        document = intaglio.tools.read_document(tmp_path / name)
        weights = intaglio.tools.document.Weights(document)
        found = [float(weights.array(each).reshape(-1)[i]) for i, each in enumerate(document.graph.initializers)]
        assert found == [1, 2, 3, 4, 5]
    with pytest.raises(LimitError, match="more than one file can hold"):
        intaglio.tools.internalize(tmp_path / "large.onnx").save(tmp_path / "inside.onnx")


def generated() -> Iterator[tuple[str, ModelProto]]:
    """The models of the bench and the field that are made here."""
    from bench.field.catalogue import SPECIMENS
    from bench.generate import cnn, small, transformer

    makers = [small.mlp, small.lstm, cnn.mobilenet_v2, cnn.resnet50, transformer.vit_b16, transformer.bert_base]
    yield from ((maker.__name__, maker()) for maker in makers)
    kinds = {"network": 6, "sklearn": 4, "boosted": 2, "llm": 1, "encoder": 2, "quantised": 1}
    for specimen in SPECIMENS:
        if kinds.get(specimen.kind, 0) <= 0 or specimen.is_large:
            continue
        try:
            model = specimen.make().model
        except Exception as error:  # the packages that make it may be missing, and say so in their own ways
            print(f"{specimen.name} is left out: {type(error).__name__}")
            continue
        kinds[specimen.kind] -= 1
        yield specimen.name, model if isinstance(model, ModelProto) else onnx.load_model(model)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_generated_models_are_written_as_they_were(tmp_path: Path) -> None:
    count = 0
    for name, message in generated():
        path = tmp_path / "model.onnx"
        path.write_bytes(message.SerializeToString())
        editor = intaglio.tools.edit(path)
        editor.save(tmp_path / "copy.onnx")
        assert onnx.load_model(tmp_path / "copy.onnx") == message, name
        editor.rename_values({info.name: f"new {info.name}" for info in editor.document.graph.inputs})
        editor.dedupe()
        editor.prune()
        for _ in range(3):
            editor.undo()
        assert editor.document.message() == message, name
        count += 1
    print(f"{count} models")
    assert count >= 14
