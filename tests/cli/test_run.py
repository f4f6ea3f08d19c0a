"""`intaglio run`: inputs from everywhere, outputs to everywhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

from intaglio.cli.demo_model import demo_model

Save = Callable[[str], Path]

ADD = "g (float[n, 2] a, float[2] b) => (float[n, 2] c) { c = Add(a, b) }"


def test_random_inputs_and_a_readable_table(cli, demo_path: Path) -> None:
    result = cli("run", demo_path, "--dim", "batch=2")
    assert result.status == 0
    for word in ("image", "2x3x32x32", "random", "probabilities", "2x10", "float32", "native engine"):
        assert word in result.out
    assert result.err == ""


def test_json_is_data(cli, demo_path: Path) -> None:
    report = json.loads(cli("run", demo_path, "--json", "--repeat", 3, "--engine", "native", "--threads", 1).out)
    assert report["outputs"][0]["shape"] == [1, 10]
    assert report["outputs"][0]["mean"] == pytest.approx(0.1)
    assert len(report["run_seconds"]) == 3
    assert (report["engine"], report["threads"]) == ("native", 1)


def test_engines_and_seeds(cli, demo_path: Path) -> None:
    def first(*options: object) -> list[float]:
        return json.loads(cli("run", demo_path, "--json", *options).out)["outputs"][0]["first"]

    assert first("--engine", "native") == pytest.approx(first("--engine", "reference"), rel=1e-4)
    assert first("--seed", 1) != first("--seed", 2)
    assert first("--seed", 1) == first("--seed", 1)


def test_arrays_in_and_out(cli, save: Save, tmp_path: Path) -> None:
    a, b = np.array([[1, 2], [3, 4]], np.float32), np.array([10, 20], np.float32)
    np.save(tmp_path / "a.npy", a)
    np.savez(tmp_path / "both.npz", a=a, b=b)
    np.savez(tmp_path / "b.npz", b=b)
    model, out = save(ADD), tmp_path / "out.npz"
    ways = [
        ["-i", f"a={tmp_path / 'a.npy'}", "-i", f"b={tmp_path / 'b.npz'}"],
        ["-i", tmp_path / "both.npz"],
        ["-i", tmp_path / "a.npy", "-i", f"b={tmp_path / 'both.npz'}"],
    ]
    for way in ways:
        assert cli("run", model, *way, "-o", out).status == 0
        with np.load(out) as found:
            np.testing.assert_array_equal(found["c"], a + b)
        out.unlink()


def test_sizes_of_given_inputs_hold_for_random_ones(cli, save: Save, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((5, 2), np.float32))
    model = save("g (float[n, 2] a, float[n, 2] b) => (float[n, 2] c) { c = Add(a, b) }")
    report = json.loads(cli("run", model, "-i", f"a={tmp_path / 'a.npy'}", "--json").out)
    assert [entry["shape"] for entry in report["inputs"]] == [[5, 2], [5, 2]]
    assert [entry["is_random"] for entry in report["inputs"]] == [False, True]


def test_an_image(cli, demo_path: Path, tmp_path: Path) -> None:
    Image.new("RGB", (50, 40), (255, 0, 0)).save(tmp_path / "red.png")
    result = cli("run", demo_path, "-i", tmp_path / "red.png", "--json")
    assert result.status == 0
    entry = json.loads(result.out)["inputs"][0]
    assert (entry["shape"], entry["min"], entry["max"]) == ([1, 3, 32, 32], 0, 1)
    assert "channels first, scaled to 0..1" in result.err


def test_indices_are_in_range(cli, save: Save) -> None:
    model = save(
        "g (int64[n] ids, int64[n] mask) => (float[n, 1] y, int64[n] m) "
        "<float[3, 1] table = {1.0, 2.0, 3.0}> { y = Gather(table, ids) m = Neg(mask) }"
    )
    result = cli("run", model, "--dim", "n=100", "--json")
    assert result.status == 0, result.err
    ids, mask = json.loads(result.out)["inputs"]
    assert (ids["min"], ids["max"]) == (0, 2)
    assert (mask["min"], mask["max"]) == (0, 1)


def test_a_tensor_inside(cli, demo_path: Path) -> None:
    report = json.loads(cli("run", demo_path, "--tensor", "logits", "--json").out)
    assert [entry["name"] for entry in report["outputs"]] == ["logits"]


def test_strings_sequences_and_odd_numbers(cli, save: Save, tmp_path: Path) -> None:
    model = save(
        "g (string[2] s, float[2] x) => (string[2] t, seq(float[2]) q, float[2] r, bfloat16[2] h) "
        "{ t = StringConcat(s, s) q = SequenceConstruct(x, x) z = Sub(x, x) r = Div(x, z) h = Cast<to = 16>(x) }"
    )
    result = cli("run", model, "-o", tmp_path / "out.npz")
    assert result.status == 0, result.err
    for word in ("texttext", "q[0]", "q[1]", "2 not finite", "bfloat16"):
        assert word in result.out
    assert "written as float32, exactly" in result.err
    with np.load(tmp_path / "out.npz") as found:
        assert sorted(found.files) == ["h", "q[0]", "q[1]", "r", "t"]
    assert json.loads(cli("run", model, "--json").out)["outputs"]


@pytest.mark.parametrize("name", ["file", "../../evil", "/abs", "a\\b"])
def test_names_cannot_lead_out_of_the_archive(cli, save: Save, tmp_path: Path, name: str) -> None:
    model = demo_model()
    model.graph.node[-1].output[0] = model.graph.output[0].name = name
    path = tmp_path / "odd.onnx"
    path.write_bytes(model.SerializeToString())
    assert cli("run", path, "-o", tmp_path / "out.npz").status == 0
    with np.load(tmp_path / "out.npz") as found:
        (stored,) = found.files
        assert ".." not in stored
        assert not stored.startswith("/")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-i", "a=none.npy"], "there is no file 'none.npy'"),
        (["-i", "zz=none.npy"], "there is no input 'zz'"),
        (["--dim", "m=3"], "no dimension 'm'"),
        (["--tensor", "zz"], "no tensor 'zz'"),
        (["-o", "out.txt"], "does not end in .npz"),
        (["-o", "no/such/folder/out.npz"], "cannot be written"),
    ],
)
def test_wrong_options_are_one_message(cli, save: Save, options: list[str], words: str) -> None:
    result = cli("run", save(ADD), *options)
    assert result.status == 1
    assert words in result.err
    assert "Traceback" not in result.err
    assert result.out == ""


@pytest.mark.parametrize(
    "options", [["--dim", "n"], ["--dim", "n=x"], ["--engine", "cuda"], ["--repeat", "0"], ["--nonsense"]]
)
def test_usage_errors_exit_with_two(cli, save: Save, options: list[str]) -> None:
    assert cli("run", save(ADD), *options).status == 2


def test_pickled_arrays_are_refused(cli, save: Save, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{"x": 1}], dtype=object), allow_pickle=True)
    result = cli("run", save(ADD), "-i", f"a={tmp_path / 'a.npy'}")
    assert result.status == 1
    assert "cannot be read as .npy or .npz" in result.err


def test_a_timeout(cli, demo_path: Path) -> None:
    result = cli("run", demo_path, "--dim", "batch=64", "--timeout", "0.0001")
    assert result.status == 1
    assert "longer than its timeout" in result.err


def test_limits_are_told_in_one_line(cli, demo_path: Path) -> None:
    refused = cli("run", demo_path, "--memory-limit", "1K")
    assert refused.status == 1
    assert "the limit on memory is 1024" in refused.err
    assert cli("run", demo_path, "--memory-limit", "1.5GiB", "--loop-limit", 5, "--time-limit", 100).status == 0
    assert cli("run", demo_path, "--node-limit", 1).status == 1
    assert cli("run", demo_path, "--memory-limit", "many").status == 2


MIXED = (
    "g (float[2] x, int64 n, string s, bool b) => (float[2] y, int64 m, string t, bool c) "
    "{ y = Neg(x) m = Neg(n) t = StringConcat(s, s) c = Not(b) }"
)


def test_values_on_the_command_line(cli, save: Save) -> None:
    values = ["-i", "x=[3.5, -1]", "-i", "n=7", "-i", 's="a=b"', "-i", "b=true"]
    report = json.loads(cli("run", save(MIXED), *values, "--json").out)
    assert [entry["data"] for entry in report["outputs"]] == [[-3.5, 1.0], -7, "a=ba=b", False]
    assert not any(entry["is_random"] for entry in report["inputs"])


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("x=3.0", "input 'x' has rank 0 (shape []), expected 1"),
        ("x=[1, 2, 3]", "input 'x' has 3 in dimension 0, expected 2"),
        ("n=1.5", "input 'n' holds float64 values, expected int64"),
        ("s=hello", "there is no file 'hello', and it is no value; text is written in quotes: s='\"hello\"'"),
        ("x=hello", "there is no file 'hello', and it is no value"),
        ("x=[[1], [2, 3]]", "different lengths"),
        ("zz=1", "there is no input 'zz'; the inputs are 'x', 'n', 's', 'b'"),
    ],
)
def test_values_that_do_not_fit(cli, save: Save, value: str, word: str) -> None:
    result = cli("run", save(MIXED), "-i", value)
    assert result.status == 1
    assert word in result.err
    assert "Traceback" not in result.err


def test_a_file_that_is_called_like_a_number_is_a_file(
    cli, save: Save, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with open("7", "wb") as file:
        np.save(file, np.array(3))
    report = json.loads(cli("run", save(MIXED), "-i", "n=7", "--json").out)
    assert report["outputs"][1]["data"] == -3


KINDS = (
    "g (float[2] x, int64[2] k, complex64[2] v) => (seq(float[2]) q, seq(map(int64, float)) p, "
    "seq(map(string, float)) w, optional(float[2]) o, complex64[2] z, bfloat16[2] h, float[2] r, string[2] t, "
    "bool[2] b, int4[2] i, float[0] e) "
    """{ q = SequenceConstruct(x, x) xx = Unsqueeze(x, zero)
      p = ai.onnx.ml.ZipMap<classlabels_int64s = [5, 6]>(xx) w = ai.onnx.ml.ZipMap<classlabels_strings = ["a", "b"]>(xx)
      o = Optional(x) z = Identity(v) h = Cast<to = 16>(x) none = Sub(x, x) r = Div(x, none) t = Cast<to = 8>(k)
      b = Cast<to = 9>(x) i = Cast<to = 22>(x) zero = Constant<value_ints = [0]>() e = Slice(x, zero, zero) }"""
)
EXPECTED = {
    "q": [[1.0, -2.0], [1.0, -2.0]],
    "p": [{"5": 1.0, "6": -2.0}],
    "w": [{"a": 1.0, "b": -2.0}],
    "o": [1.0, -2.0],
    "z": [[1.0, 2.0], [0.0, "nan"]],
    "h": [1.0, -2.0],
    "r": ["inf", "-inf"],
    "t": ["3", "4"],
    "b": [True, True],
    "i": [1, -2],
    "e": [],
}


@pytest.fixture
def values(tmp_path: Path) -> list[str]:
    """The inputs of that model."""
    np.save(tmp_path / "v.npy", np.array([1 + 2j, complex(0, np.nan)], np.complex64))
    return ["-i", "x=[1, -2]", "-i", "k=[3, 4]", "-i", f"v={tmp_path / 'v.npy'}"]


def test_every_kind_of_output_is_data(cli, save: Save, tmp_path: Path, values: list[str]) -> None:
    model = save(KINDS)
    result = cli("run", model, *values, "--json", "-o", tmp_path / "out.json")
    assert result.status == 0, result.err
    assert {entry["name"]: entry["data"] for entry in json.loads(result.out)["outputs"]} == EXPECTED
    assert json.loads((tmp_path / "out.json").read_text()) == EXPECTED
    assert cli("run", model, *values).status == 0


def test_every_kind_of_output_is_written(cli, save: Save, tmp_path: Path, values: list[str]) -> None:
    result = cli("run", save(KINDS), *values, "-o", tmp_path / "out.npz")
    assert result.status == 0, result.err
    assert "output 'p[0]' is a map: written as its keys and its values" in result.err
    with np.load(tmp_path / "out.npz") as found:
        data = {name: found[name] for name in found.files}
    assert data["p[0].keys"].tolist() == [5, 6]
    assert data["p[0].values"].tolist() == [1, -2]
    assert data["w[0].keys"].tolist() == ["a", "b"]
    np.testing.assert_array_equal(data["z"], [1 + 2j, complex(0, np.nan)])
    assert data["i"].dtype == np.int8
    assert data["r"].tolist() == [np.inf, -np.inf]
    assert data["t"].tolist() == ["3", "4"]


def test_what_is_absent(cli, tmp_path: Path) -> None:
    inside = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    nodes = [helper.make_node("Optional", [], ["o"], type=inside), helper.make_node("Not", ["c"], ["d"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in "cd"]
    absent = helper.make_value_info("o", helper.make_optional_type_proto(inside))
    graph = helper.make_graph(nodes, "g", ends[:1], [absent, ends[1]])
    model = tmp_path / "absent.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), model)
    result = cli("run", model, "-i", "c=true", "--json", "-o", tmp_path / "out.npz")
    assert result.status == 0, result.err
    assert [entry["data"] for entry in json.loads(result.out)["outputs"]] == [None, False]
    assert "output 'o' is absent, and left out" in result.err


def test_one_array_as_npy(cli, save: Save, tmp_path: Path) -> None:
    assert cli("run", save(ADD), "-i", "a=[[1, 2]]", "-i", "b=[10, 20]", "-o", tmp_path / "c.npy").status == 0
    assert np.load(tmp_path / "c.npy").tolist() == [[11, 22]]
    refused = cli("run", save(MIXED), "-i", "x=[1, 2]", "-o", tmp_path / "c.npy")
    assert refused.status == 1
    assert "can hold one array, and there are 4" in refused.err


def test_an_image_is_resized_with_a_word_about_it(cli, demo_path: Path, tmp_path: Path) -> None:
    Image.new("RGB", (50, 40), (255, 0, 51)).save(tmp_path / "large.png")
    Image.new("RGB", (32, 32), (255, 0, 51)).save(tmp_path / "right.png")
    assert "resized from 50x40 to 32x32 pixels, bicubic" in cli("run", demo_path, "-i", tmp_path / "large.png").err
    assert "resized" not in cli("run", demo_path, "-i", tmp_path / "right.png").err


def test_an_image_is_normalised(cli, save: Save, tmp_path: Path) -> None:
    Image.new("RGB", (4, 2), (255, 0, 51)).save(tmp_path / "image.png")
    model = save("g (float[1, 3, 2, 4] x) => (float[1, 3, 2, 4] y) { y = Identity(x) }")
    result = cli("run", model, "-i", tmp_path / "image.png", "--mean", "0.5,0.5,0.1", "--std", "0.5", "--json")
    assert "less 0.5, 0.5, 0.1, divided by 0.5" in result.err
    found = np.array(json.loads(result.out)["outputs"][0]["data"])
    np.testing.assert_allclose(found[0, :, 0, 0], [1, -1, 0.2], atol=1e-6)
    for options, word in (
        (["--mean", "1,2"], "--mean has 2 numbers, the image has 3 channels"),
        (["--std", "0"], "--std is 0"),
    ):
        refused = cli("run", model, "-i", tmp_path / "image.png", *options)
        assert refused.status == 1
        assert word in refused.err
    whole = save("g (uint8[1, 3, 2, 4] x) => (uint8[1, 3, 2, 4] y) { y = Identity(x) }")
    assert "--mean and --std are for floats" in cli("run", whole, "-i", tmp_path / "image.png", "--mean", "1").err
