"""Compiled models as files: loaded in processes without a compiler, and refused where they are damaged or not ours."""

import hashlib
import json
import os
import random
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import intaglio
from intaglio.errors import CompileError, InputError, LoadError, ShapeError
from intaglio.ir import dim as dims
from intaglio.ir.dtype import DTYPES
from intaglio.ir.requirements import Requirement
from intaglio.ir.types import MapType, SequenceType, TensorType
from intaglio.kernels.frame import Frame, Result, Room
from intaglio.memory.arena import Layout
from intaglio.runtime.artifact.reading import MAGIC, InFile, read_compiled
from intaglio.runtime.artifact.stored_data import stored_data, stored_from_data
from intaglio.runtime.engine.outline import Outline, Port
from intaglio.runtime.engine.stored import StoredPlan
from intaglio.targets.c import target as targets

RNG = np.random.default_rng(3)


def network() -> onnx.ModelProto:
    """A convolution, a product with a shared weight, and a symbolic batch."""
    weight = RNG.random((8, 3, 3, 3)).astype(np.float32)
    matrix = RNG.random((8, 8)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["g"]),
        helper.make_node("MatMul", ["g", "m"], ["y"]),
    ]
    arrays = {"w": weight, "b": RNG.random(8).astype(np.float32), "m": matrix}
    graph = helper.make_graph(
        nodes, "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 8])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model, and the file that it was saved to."""
    model = intaglio.load(network())
    path = tmp_path_factory.mktemp("artifact") / "net.intaglio"
    assert model.save_compiled(path) == path.stat().st_size
    return model, path


def images(count):
    return RNG.random((count, 3, 8, 8)).astype(np.float32)


def test_a_saved_model_gives_the_same_numbers(saved):
    model, path = saved
    loaded = intaglio.load(path)
    for count in (1, 3, 17):
        x = images(count)
        np.testing.assert_array_equal(loaded(x), model(x))
    assert [item.name for item in loaded.inputs] == ["x"]
    assert loaded.info.opset_imports == {"": 21}


def test_from_bytes_and_by_the_reference_engine(saved):
    model, path = saved
    x = images(2)
    np.testing.assert_array_equal(intaglio.load(path.read_bytes())(x), model(x))
    np.testing.assert_allclose(intaglio.load(path, engine="reference")(x), model(x), rtol=1e-5)


def run_elsewhere(path, code, **environment):
    """A process with no compiler on its path and an empty cache."""
    wanted = {"PATH": "", "HOME": str(path.parent), "INTAGLIO_CACHE": str(path.parent / "empty"), **environment}
    wanted |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    python = [sys.executable, "-c", code, str(path)]
    return subprocess.run(python, env=wanted, capture_output=True, text=True, timeout=120)


LOAD_AND_RUN = """
import sys, numpy as np, intaglio
from intaglio.targets.c.compiler import find_compiler
assert find_compiler() is None
model = intaglio.load(sys.argv[1])
print(model.options.engine, float(model(np.ones((2, 3, 8, 8), np.float32)).sum()))
"""


def test_without_a_compiler(saved):
    model, path = saved
    done = run_elsewhere(path, LOAD_AND_RUN)
    assert done.returncode == 0, done.stderr
    engine, total = done.stdout.split()
    assert engine == "native"
    np.testing.assert_allclose(float(total), model(np.ones((2, 3, 8, 8), np.float32)).sum(), rtol=1e-6)
    assert "reference" not in done.stderr


def test_nothing_of_the_file_is_parsed_as_onnx(saved, monkeypatch):
    _, path = saved
    monkeypatch.setattr("intaglio.onnx.reader.read_model", None)
    assert intaglio.load(path)(images(1)).shape == (1, 8)


def test_control_flow_and_sizes_from_data(tmp_path):
    text = """<ir_version: 10, opset_import: ["" : 21]>
    agraph (float[N] x, int64 m) => (float[K] y, int64[P,Q] z) {
      y = Loop (m, , x) <body = a (int64 i, bool c, float[P] v) => (bool c2, float[Q] w) {
        c2 = Identity(c) w = Concat<axis=0>(v, x) }>
      z = NonZero(y) }"""
    model = intaglio.load(parser.parse_model(text))
    model.save_compiled(tmp_path / "loop.intaglio")
    loaded = intaglio.load(tmp_path / "loop.intaglio")
    arrays = np.array([1, 0, 2], np.float32), np.array(3)
    for mine, right in zip(loaded(*arrays), model(*arrays), strict=True):
        np.testing.assert_array_equal(mine, right)


def test_host_nodes_are_kept(tmp_path):
    text = """<ir_version: 10, opset_import: ["" : 21]>
    agraph (string[N] s, float[N] x) => (string[N] t, float[N] y) {
      t = StringConcat(s, s)  y = Exp(x) }"""
    model = intaglio.load(parser.parse_model(text))
    model.save_compiled(tmp_path / "text.intaglio")
    words, numbers = intaglio.load(tmp_path / "text.intaglio")(np.array(["a", "b"], object), np.zeros(2, np.float32))
    assert list(words) == ["aa", "bb"]
    np.testing.assert_array_equal(numbers, [1, 1])


@pytest.mark.parametrize("place", [3, 40, 200, -10, -5000])
def test_damage_is_found(saved, place):
    _, path = saved
    content = bytearray(path.read_bytes())
    content[place] ^= 0xFF
    if place < len(MAGIC):
        with pytest.raises(LoadError):
            intaglio.load(bytes(content))
    else:
        with pytest.raises(LoadError, match=r"damaged|hash|format"):
            intaglio.load(bytes(content))


@pytest.mark.parametrize("part", [0.1, 0.5, 0.99])
def test_a_file_that_ends_early(saved, tmp_path, part):
    _, path = saved
    content = path.read_bytes()
    short = tmp_path / "short.intaglio"
    short.write_bytes(content[: int(len(content) * part)])
    with pytest.raises(LoadError, match="short"):
        intaglio.load(short)


def with_header(content, change):
    """The file with another header of the same length, rightly hashed."""
    length = int.from_bytes(content[len(MAGIC) : len(MAGIC) + 8], "little")
    start = len(MAGIC) + 40
    header = json.loads(content[start : start + length])
    change(header)
    encoded = json.dumps(header, separators=(",", ":")).encode()
    assert len(encoded) <= length
    encoded += b" " * (length - len(encoded))
    return content[: len(MAGIC) + 8] + hashlib.sha256(encoded).digest() + encoded + content[start + length :]


def test_another_format(saved):
    _, path = saved
    content = with_header(path.read_bytes(), lambda header: header.update(format=9))
    with pytest.raises(LoadError, match="format is 9"):
        intaglio.load(content)


def test_another_processor(saved, monkeypatch, capfd):
    _, path = saved
    content = with_header(path.read_bytes(), lambda header: header["target"].update(name="neon", features=[]))
    assert intaglio.load(content)(images(1)).shape == (1, 8)
    assert "compiled anew" in capfd.readouterr().err
    monkeypatch.setattr("intaglio.targets.c.compiler.find_compiler", lambda: None)
    with pytest.raises(CompileError, match=r"neon.*lacks asimd"):
        intaglio.load(content)


def test_code_of_another_version(saved):
    _, path = saved

    def rename(header):
        for library in header["libraries"]:
            symbols = library["functions"].values()
            library["functions"] = {f"{number:064}": symbol for number, symbol in enumerate(symbols)}

    strange = path.parent / "strange.intaglio"
    strange.write_bytes(with_header(path.read_bytes(), rename))
    done = run_elsewhere(strange, LOAD_AND_RUN)
    assert done.returncode != 0
    assert "compiled by Intaglio" in done.stderr
    assert "install a C compiler" in done.stderr


def test_the_header_tells_without_running(saved):
    _, path = saved
    found = read_compiled(path)
    assert found.executor.target.name == targets.host_target().name
    assert found.version == intaglio.__version__
    assert any(functions for _, functions in found.libraries)


def test_a_place_that_cannot_be_written(saved, tmp_path):
    model, _ = saved
    with pytest.raises(InputError, match="cannot be written"):
        model.save_compiled(tmp_path / "absent" / "net.intaglio")
    assert not list(tmp_path.iterdir())


def test_the_reference_engine_has_nothing_to_save(tmp_path):
    with pytest.raises(CompileError, match="reference"):
        intaglio.load(network(), engine="reference").save_compiled(tmp_path / "net.intaglio")


def test_the_command(tmp_path):
    onnx.save(network(), tmp_path / "net.onnx")
    output = tmp_path / "net.intaglio"
    command = [sys.executable, "-m", "intaglio", "compile", str(tmp_path / "net.onnx"), "-o", str(output), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["bytes"] == output.stat().st_size
    assert intaglio.load(output)(images(1)).shape == (1, 8)


@pytest.mark.parametrize("seed", range(8))
def test_stored_plans_come_back_as_they_were_written(seed):
    """Sizes are sums of products, divisions and choices, which are there once however often they are used."""
    pick = random.Random(seed)
    sizes = [dims.symbol(name) for name in ("N", "a b", "%x.0", "ß")] + [1, 7]
    functions = [dims.floordiv, dims.maximum, dims.minimum, dims.broadcast, dims.less, dims.equal]
    for _ in range(40):
        one, other = pick.choices(sizes[-12:], k=2)
        made = pick.choice([lambda a, b: a + 2 * b, lambda a, b: a * b - 3, *functions])
        try:
            sizes.append(dims.select(dims.less(one, 3), other, one) if pick.random() < 0.1 else made(one, other))
        except ShapeError:  # a division by what is 0
            continue
    shape = tuple(sizes[-4:])
    results = Result("y", DTYPES["float32"], shape, shape[0] * 4), Result("z", DTYPES["int64"], None, None)
    frame = Frame(
        inputs=("x",), outputs=("y", "z"), results=results, late=(False, True, False), symbols=("N",), finds=("M",),
        told=1, arena=(Room("r", sizes[-1]),), layout=Layout([0], [0], [1]), work=shape, is_narrow=False, safe=9,
    )  # fmt: skip
    maps = SequenceType(MapType(DTYPES["string"], TensorType(DTYPES["float32"], ())))
    port = Port("x", TensorType(DTYPES["float32"], shape), True)
    outline = Outline(
        inputs=(port,), outputs=("y", "z"), frames=(frame,), assumptions=((sizes[-1], sizes[-2]),),
        requirements=(Requirement(((sizes[-3], 1),), "told"),), parameters=(0,), is_for_sizes=True,
    )  # fmt: skip
    outputs = Port("y", TensorType(DTYPES["float32"], None)), Port("z", maps)
    stored = StoredPlan("p", (port,), outputs, outline, ("k", "d"), weight_bytes=3)
    text = json.dumps(stored_data(stored))
    assert stored_from_data(json.loads(text)) == stored
    assert str(stored_from_data(json.loads(text)).outline.frames[0].work) == str(shape)


def test_a_file_is_closed_without_python_code_in_which_an_interrupt_would_be_lost(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    file = InFile(tmp_path / "file")
    descriptor = file._descriptor
    calls = []
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None)
    del file
    sys.setprofile(None)
    assert calls == []
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
