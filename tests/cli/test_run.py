"""`intaglio run`: inputs from everywhere, outputs to everywhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
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
    a, b = np.float32([[1, 2], [3, 4]]), np.float32([10, 20])
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
        (["-i", "zz=none.npy"], "none.npy"),
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
