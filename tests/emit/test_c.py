"""Models as C: both styles, compiled and run."""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.emit.models import FEEDS, MODELS, drawn, parse
from tests.emit.test_names import HOSTILE, hostile_model

import intaglio
from intaglio.conformance.exported import C_FLAGS, export_row, export_subject, import_exported
from intaglio.conformance.suite import cases
from intaglio.emit.c.build import build
from intaglio.emit.c.memory import _Block, place_blocks
from intaglio.emit.c.names import CNames
from intaglio.errors import CompileError, InputError, UnsupportedError

SNAPSHOTS = Path(__file__).parent / "snapshots"
STYLES = ("readable", "fast")
SAMPLE = 509
"""Every so many of ONNX's tests is in the quick part."""

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is missing")


def reference(model: onnx.ModelProto, feeds: Sequence[Any]) -> tuple[Any, ...]:
    found = intaglio.load(model, engine="reference")(*feeds)
    return found if isinstance(found, tuple) else (found,)


def outputs(folder: Path, feeds: Sequence[Any]) -> tuple[Any, ...]:
    found = import_exported(folder).load()(*feeds)
    return found if isinstance(found, tuple) else (found,)


def check(model: onnx.ModelProto, feeds: Sequence[Any], folder: Path, style: str, **options: Any) -> None:
    build(model, folder, style=style, compiler_flags=C_FLAGS[style], **options)
    for found, expected in zip(outputs(folder, feeds), reference(model, feeds), strict=True):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def make(folder: Path, *targets: str) -> str:
    done = subprocess.run(["make", *targets], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", sorted(MODELS))
def test_models_with_open_sizes_loops_and_branches(name: str, style: str, tmp_path: Path) -> None:
    check(MODELS[name](), FEEDS[name], tmp_path, style)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_source_is_as_it_was(name: str, tmp_path: Path) -> None:
    intaglio.export(MODELS[name](), "c", tmp_path, measure=False)
    found = (tmp_path / "model.h").read_text() + (tmp_path / "model.c").read_text()
    path = SNAPSHOTS / f"{name}.c.txt"
    assert found == path.read_text(), f"{path.name} differs; python -m tests.emit.update writes it anew"


ARRAYS_OF_SIZES = [
    "test_gather_elements_0_cpu",
    "test_wrap_pad_cpu",
    "test_expand_dim_changed_cpu",
    "test_tril_zero_cpu",
]
"""Tests whose kernels have arrays among their sizes, or nothing to do."""


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", [*list(cases())[::SAMPLE], *ARRAYS_OF_SIZES])
def test_onnx_tests_in_c(name: str, style: str) -> None:
    result, error = cases()[name].run(export_subject(f"c:{style}"))
    if error is not None and not isinstance(error, UnsupportedError) and result.outcome != "random":
        raise error


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
def test_all_of_onnx_tests(style: str) -> None:
    subject = export_subject(f"c:{style}")
    _, passed, sayable, _ = export_row(style, [case.run(subject)[0] for case in cases().values()])
    assert passed >= 1700
    assert passed == sayable


def classifier() -> onnx.ModelProto:
    return parse(
        """net (float[2, 3] x) => (float[2, 4] scores, float[2, 4] same) {
            m = MatMul(x, w)
            a = Add(m, b)
            scores = Softmax(a)
            same = Identity(scores)
        }""",
        w=drawn(3, 4),
        b=drawn(4),
    )


SETTINGS = [
    {"weights": weights, "globals": are_global, "style": style}
    for weights, are_global, style in itertools.product(("c", "object", "bin", "extern"), (True, False), STYLES)
]


@pytest.mark.parametrize("settings", SETTINGS[1::5], ids=lambda each: "-".join(map(str, each.values())))
def test_a_folder_tests_itself(settings: dict[str, Any], tmp_path: Path) -> None:
    intaglio.export(classifier(), "c", tmp_path, measure=False, **settings)
    assert "as stored" in make(tmp_path, "test")


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is missing")
def test_cmake_builds_a_folder(tmp_path: Path) -> None:
    intaglio.export(classifier(), "c", tmp_path, weights="object", measure=False)
    for command in (["cmake", "-S", ".", "-B", "build"], ["cmake", "--build", "build"]):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    subprocess.run([str(tmp_path / "build" / "test_model")], cwd=tmp_path, check=True, capture_output=True)


def test_a_wrong_answer_is_told(tmp_path: Path) -> None:
    intaglio.export(classifier(), "c", tmp_path, measure=False)
    data = (tmp_path / "weights.c").read_text()
    number = data.split("{")[1].split(",")[0].strip()
    (tmp_path / "weights.c").write_text(data.replace(number, "100.0f", 1))
    done = subprocess.run(["make", "test"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "expected" in done.stdout


def test_nothing_is_global_and_nothing_is_called(tmp_path: Path) -> None:
    intaglio.export(classifier(), "c", tmp_path, globals=False, prefix="net", measure=False)
    subprocess.run(["cc", "-std=c11", "-O1", "-c", "net.c"], cwd=tmp_path, check=True)
    symbols = subprocess.run(["nm", "net.o"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    kinds = {line.split()[-1]: line.split()[-2] for line in symbols.splitlines()}
    assert not [name for name, kind in kinds.items() if kind in "bBdDcC"], symbols
    assert {name for name, kind in kinds.items() if kind == "T"} == {"net_run", "net_error", "net_arena_bytes"}
    assert {name for name, kind in kinds.items() if kind == "U"} <= {"expf", "memcpy", "_GLOBAL_OFFSET_TABLE_"}


def test_sizes_are_fixed_or_given(tmp_path: Path) -> None:
    model = MODELS["convolution"]()
    intaglio.export(model, "c", tmp_path / "fixed", dims={"N": 3}, measure=False)
    header = (tmp_path / "fixed" / "model.h").read_text()
    assert "int model_run(const float image[576], float scores[12]);" in header
    assert "MODEL_ARENA_BYTES" in header
    intaglio.export(model, "c", tmp_path / "given", measure=False)
    header = (tmp_path / "given" / "model.h").read_text()
    assert "int model_run(int64_t N, const float *image, float *scores, void *arena);" in header
    assert "int64_t model_arena_bytes(int64_t N);" in header
    with pytest.raises(InputError, match="no dimension 'M'"):
        intaglio.export(model, "c", tmp_path / "wrong", dims={"M": 3})


def test_sizes_that_cannot_be_are_refused(tmp_path: Path) -> None:
    build(MODELS["convolution"](), tmp_path, style="readable", compiler_flags=C_FLAGS["readable"])
    library = ctypes.CDLL(str(tmp_path / "libmodel.so"))
    library.model_arena_bytes.restype = ctypes.c_int64
    for size in (-1, 2**62):
        assert library.model_arena_bytes(ctypes.c_int64(size)) == -1
        assert library.model_run(ctypes.c_int64(size), None, None, None) == 5


FIVE = "net (float[a, b, c, d, e] x, float[d0] z) => (y, w) { y = Transpose <perm=[4, 3, 2, 1, 0]> (x) w = Neg (z) }"


@pytest.mark.parametrize("style", STYLES)
def test_sizes_are_refused_for_their_product_alone(style: str, tmp_path: Path) -> None:
    build(parse(FIVE), tmp_path, style=style, compiler_flags=C_FLAGS[style])
    x, z = drawn(1, 1, 2, 1, 200_000), drawn(300_000)
    found = import_exported(tmp_path).load()(x, z)
    np.testing.assert_array_equal(found[0], x.transpose())
    np.testing.assert_array_equal(found[1], -z)
    library = ctypes.CDLL(str(tmp_path / "libmodel.so"))
    for sizes in ((2**16, 2**16, 2**16, 2**16, 1, 1), (0, 2**40, 2**40, 2**40, 2**40, 1), (1, 1, 1, 1, 1, -1)):
        assert library.model_run(*map(ctypes.c_int64, sizes), None, None, None, None, None) == 5


@pytest.mark.parametrize("style", STYLES)
def test_faults_and_rooms_are_told(style: str, tmp_path: Path) -> None:
    model = parse("net (float[3] x, int64[2] i) => (float[2] y, int64[1, n] z) { y = Gather(x, i) z = NonZero(x) }")
    build(model, tmp_path, style=style, compiler_flags=C_FLAGS[style])
    loaded = import_exported(tmp_path).load()
    x = np.array([1, 0, 2], np.float32)
    y, z = loaded(x, np.array([2, -3]))
    np.testing.assert_array_equal(y, [2, 1])
    np.testing.assert_array_equal(z, [[0, 2]])
    with pytest.raises(RuntimeError, match=r"Gather .* met a value that it forbids"):
        loaded(x, np.array([3, 0]))


@pytest.mark.parametrize(("heap", "style"), [(128, "readable"), (None, "fast")])
def test_a_full_heap_is_told(heap: int | None, style: str, tmp_path: Path) -> None:
    model = parse("net (float[64] x) => (float[n] y) { z = NonZero(x) s = Squeeze(z, a) g = Gather(x, s) y = Exp(g) }")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0]), "a"))
    build(model, tmp_path, style=style, compiler_flags=C_FLAGS[style], heap=heap)
    loaded = import_exported(tmp_path).load()
    x = np.arange(64, dtype=np.float32)
    if heap is None:
        np.testing.assert_allclose(loaded(x / 64), np.exp(x[1:] / 64), rtol=1e-5)
    else:
        with pytest.raises(RuntimeError, match="heap"):
            loaded(x / 64)


def test_the_room_of_complex_outputs_counts_numbers(tmp_path: Path) -> None:
    model = parse("net (complex64[6] x, bool[6] c) => (complex64[n] y) { y = Compress <axis=0> (x, c) }")
    build(model, tmp_path, style="readable", compiler_flags=C_FLAGS["readable"])
    run = ctypes.CDLL(str(tmp_path / "libmodel.so")).model_run
    x, c = np.arange(6).astype(np.complex64), np.ones(6, bool)
    y, shape = np.full(6, -1, np.complex64), np.zeros(1, np.int64)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (x, c, y, shape)]
    assert run(*pointers[:3], ctypes.c_int64(11), pointers[3]) == 6
    np.testing.assert_array_equal(y, -1)
    assert run(*pointers[:3], ctypes.c_int64(12), pointers[3]) == 0
    np.testing.assert_array_equal(y, x)


def test_names_of_what_the_code_calls_are_free(tmp_path: Path) -> None:
    model = parse(
        """net (float[n] heap_allocate, float[3] size_product) => (float[m] memcpy, float[3] output_memory) {
            z = NonZero(heap_allocate) s = Squeeze(z, a) g = Gather(heap_allocate, s) memcpy = Exp(g)
            output_memory = Neg(size_product) }""",
        a=np.array([0]),
    )
    check(model, [drawn(5), drawn(3)], tmp_path, "readable")


def test_defaults_of_inputs(tmp_path: Path) -> None:
    model = parse("net (float[2] x, float[2] w) => (float[2] y) { y = Mul(x, w) }", w=np.array([2, 3], np.float32))
    intaglio.export(model, "c", tmp_path, measure=False)
    assert "NULL: as the model says" in (tmp_path / "model.h").read_text()
    main = (tmp_path / "main.c").read_text()
    (tmp_path / "main.c").write_text(main.replace("model_run(test_x, test_w, y)", "model_run(test_x, 0, y)"))
    assert "as stored" in make(tmp_path, "test")


def test_the_program_of_a_model_without_elements(tmp_path: Path) -> None:
    model = parse("net (float[0, 2, 4, 4] x) => (float[0, 3, 3, 3] y) { y = Conv(x, w) }", w=drawn(3, 2, 2, 2))
    intaglio.export(model, "c", tmp_path, measure=False)
    assert "as stored" in make(tmp_path, "test")


def test_sizes_of_an_input_that_takes_its_default(tmp_path: Path) -> None:
    model = parse(
        "net (float[n, 2] x, float[m, 2] w) => (float[k, 2] y) { y = Concat<axis=0>(x, w) }",
        w=np.ones((3, 2), np.float32),
    )
    intaglio.export(model, "c", tmp_path, measure=False)
    main = (tmp_path / "main.c").read_text()
    assert "model_run(2, 3, test_x, test_w, y)" in main
    (tmp_path / "main.c").write_text(
        main.replace("model_run(2, 3, test_x, test_w, y)", "model_run(2, 3, test_x, 0, y)")
    )
    assert "as stored" in make(tmp_path, "test")
    (tmp_path / "main.c").write_text(
        main.replace("model_run(2, 3, test_x, test_w, y)", "model_run(2, 2, test_x, 0, y)")
    )
    done = subprocess.run(["make", "test"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "sizes do not fit each other" in done.stdout


def quantised() -> onnx.ModelProto:
    return parse(
        """net (uint8[1, 2, 5, 5] x) => (uint8[1, 3, 4, 4] y) {
            y = QLinearConv(x, s, z, w, s, v, s, z) }""",
        s=np.array(0.05, np.float32),
        z=np.array(7, np.uint8),
        v=np.array(1, np.int8),
        w=np.arange(24).reshape(3, 2, 2, 2).astype(np.int8),
    )


@pytest.mark.parametrize("style", STYLES)
def test_bytes_stay_bytes(style: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 256, (1, 2, 5, 5)).astype(np.uint8)
    check(quantised(), [x], tmp_path / style, style)
    intaglio.export(quantised(), "c", tmp_path / "source", style=style, measure=False)
    weights = (tmp_path / "source" / "weights.h").read_text()
    assert set(re.findall(r"extern const float \w+\[(\d+)\]", weights)) <= {"1"}, "only scales are floats"
    assert "int8_t" in weights


@pytest.mark.parametrize("style", STYLES)
def test_an_input_that_is_an_output_is_copied(style: str, tmp_path: Path) -> None:
    model = parse("net (float[3] x) => (float[3] y, float[3] z) { y = Identity(x) z = Identity(x) }")
    check(model, [drawn(3)], tmp_path, style)


def test_threads(tmp_path: Path) -> None:
    model = parse("net (float[64, 32] x) => (float[64, 48] y) { m = MatMul(x, w) y = Tanh(m) }", w=drawn(32, 48))
    x = drawn(64, 32)
    flags = (*C_FLAGS["fast"], "-fopenmp")
    build(model, tmp_path, threads=3, compiler_flags=flags)
    np.testing.assert_allclose(outputs(tmp_path, [x])[0], reference(model, [x])[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("style", STYLES)
def test_hostile_names_are_harmless(style: str, tmp_path: Path) -> None:
    names = [name for name in HOSTILE if "\x00" not in name]
    more = ["*/ int evil; /*", "int", "float", "main", "model_run", "model", "NAN", "INT64_MAX", "n0", "linux", "exp",
            "buffer", "size", "arena", "??/", "a\\", "#define x", "MODEL_OK", "b0", "memcpy"]  # fmt: skip
    plain = tmp_path / "plain"
    intaglio.export(hostile_model("a"), "c", plain, style=style, measure=False)
    for place, name in enumerate(names + more):
        folder = tmp_path / str(place)
        intaglio.export(hostile_model(name), "c", folder, style=style, measure=False)
        assert {path.name for path in folder.iterdir()} == {path.name for path in plain.iterdir()}
        for file in ("model.h", "model.c", "main.c", "weights.c", "weights.h"):
            assert shape_of((folder / file).read_text()) == shape_of((plain / file).read_text()), (name, file)
    for place in (1, len(names)):
        assert "as stored" in make(tmp_path / str(place), "test", "CFLAGS=-std=gnu11 -w -O0")


def shape_of(text: str) -> list[str]:
    """What source is made of, without names, numbers and comments."""
    assert text.isascii()
    plain = re.sub(r'/\*.*?\*/|"[^"\n]*"', "", text, flags=re.DOTALL)
    return re.findall(r"[^\s\w]", re.sub(r"[-+]?[\w.]+(?:e[-+]\d+f?)?", "a", plain))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"style": "slow"}, "there is no style"),
        ({"threads": 2}, "for the style 'fast'"),
        ({"style": "fast", "threads": 0}, "threads is 0"),
        ({"style": "fast", "target": "z80"}, "there is no target"),
        ({"prefix": "a b"}, "cannot begin"),
        ({"heap": 63}, "heap is 63 bytes"),
        ({"prefix": "main"}, "cannot begin"),
        ({"weights": "npz"}, "there is no weights 'npz'"),
        ({"opset": 13}, "opset is for onnx, not for c"),
        ({"colour": 1}, "there is no option 'colour'"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        intaglio.export(classifier(), "c", tmp_path, **options)


def test_what_c_cannot_say_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="string"):
        intaglio.export(parse("net (string[2] x) => (string[2] y) { y = StringConcat(x, x) }"), "c", tmp_path)


def test_the_readme_tells_sizes(tmp_path: Path) -> None:
    intaglio.export(classifier(), "c", tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert "| constants | 64 (text" in text
    assert "| memory of a run |" in text
    assert "bytes, optimised for size" in text or shutil.which("size") is None


def test_blocks_do_not_meet() -> None:
    generator = np.random.default_rng(1)
    for _ in range(50):
        spans = np.sort(generator.integers(0, 12, (20, 2)), axis=1)
        blocks = [_Block(8 * int(generator.integers(0, 9)), *map(int, span)) for span in spans]
        total = place_blocks(blocks)
        for left, right in itertools.combinations(blocks, 2):
            is_apart = left.offset + left.size <= right.offset or right.offset + right.size <= left.offset
            together = left.first <= right.last and right.first <= left.last
            assert is_apart or not together or not left.size or not right.size
        assert total <= sum(block.size for block in blocks)


def test_names_of_c() -> None:
    names = CNames("model", {"taken"})
    given = [names.give(text) for text in ("x", "x", "int", "taken", "model_run", "NAN", "INT8_MAX", "n0", "sizes_t")]
    assert given == [
        "x", "x_2", "int_2", "taken_2", "value_model_run", "NAN_2", "value_INT8_MAX", "value_n0", "value_sizes_t",
    ]  # fmt: skip


def test_a_compiled_library_is_written_with_its_loader(tmp_path: Path) -> None:
    found = build(classifier(), tmp_path, kind="shared")
    assert found.files == ["libmodel.so", "model.h", "model.py"]
    x = drawn(2, 3)
    for one, other in zip(outputs(tmp_path, [x]), reference(classifier(), [x]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="has the shape"):
        import_exported(tmp_path).load()(x[:1])
    with pytest.raises(TypeError, match="expected float32"):
        import_exported(tmp_path).load()(x.astype(np.float64))
    with pytest.raises(InputError, match="there is no kind"):
        build(classifier(), tmp_path, kind="jar")  # type: ignore[arg-type]
    assert os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")


def test_a_library_asks_the_reference_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> None:
        raise AssertionError("nobody needs an example")

    monkeypatch.setattr("intaglio.emit.c.module.example_of", refuse)
    build(classifier(), tmp_path, kind="static")
    with pytest.raises(AssertionError, match="nobody needs"):
        build(classifier(), tmp_path, kind="exe")


@pytest.mark.parametrize("style", STYLES)
def test_pads_that_follow_from_sizes_leave_nothing_unused(style: str, tmp_path: Path) -> None:
    """The sizes of the result are known without the pads, which only the run tells."""
    model = parse(
        """net (int64[1, seq] ids) => (float[1, seq] y) {
            s = Shape <start=1> (ids) p = Slice(table, zero, s, one) t = Shape <start=1> (p) d = Sub(s, t)
            pads = Concat <axis=0> (zero, zero, zero, d) y = Pad(p, pads) }""",
        table=drawn(1, 16), zero=np.array([0]), one=np.array([1]),
    )  # fmt: skip
    for place, length in enumerate((5, 16, 20)):
        check(model, [np.zeros((1, length), np.int64)], tmp_path / str(place), style)


ASSUMED = {
    "a part of a table": (
        """net (int64[batch, seq] ids) => (float[batch, seq, 4] y) {
            s = Shape <start=1> (ids) p = Slice(table, zero, s, zero) e = Gather(words, ids) y = Add(e, p) }""",
        {"table": drawn(16, 4), "words": drawn(9, 4), "zero": np.array([0])},
        [np.arange(10).reshape(2, 5) % 9],
        [np.arange(40).reshape(2, 20) % 9],
    ),
    "two sizes that must be one": (
        "net (float[n] x, float[m] w) => (float[k] y) { y = Add(x, w) }",
        {},
        [drawn(5), drawn(5)],
        [drawn(5), drawn(4)],
    ),
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", ASSUMED)
def test_sizes_that_a_plan_assumes_to_be_others_are_told_by_inputs(name: str, style: str, tmp_path: Path) -> None:
    text, weights, right, wrong = ASSUMED[name]
    check(parse(text, **weights), right, tmp_path, style)
    with pytest.raises((RuntimeError, ValueError), match=r"made for other relations|expected"):
        outputs(tmp_path, wrong)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("operator", "gates"), [("LSTM", 4), ("GRU", 3)])
def test_recurrent_layers_of_textbooks(operator: str, gates: int, direction: str, tmp_path: Path) -> None:
    """Both kinds of reset, with and without biases and first states."""
    count = 2 if direction == "bidirectional" else 1
    with_state = direction != "reverse"
    more = "linear_before_reset=1, " if operator == "GRU" and direction == "forward" else ""
    given = ", b, , h" + (", c" if operator == "LSTM" else "") if with_state else ""
    model = parse(
        f"""net (float[5, 2, 3] x) => (float[5, {count}, 2, 4] y, float[{count}, 2, 4] last) {{
            y, last = {operator} <hidden_size=4, {more}direction="{direction}"> (x, w, r{given}) }}""",
        w=drawn(count, gates * 4, 3),
        r=drawn(count, gates * 4, 4),
        **({"b": drawn(count, 2 * gates * 4), "h": drawn(count, 2, 4)} if with_state else {}),
        **({"c": drawn(count, 2, 4)} if with_state and operator == "LSTM" else {}),
    )
    check(model, [drawn(5, 2, 3)], tmp_path, "readable")


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax <axis=0>"])
def test_rows_that_repeat_one_value_are_written_whole(operator: str, style: str, tmp_path: Path) -> None:
    text = f"net (float[2, 1] x) => (float[2, 3] y) {{ e = Expand(x, sizes) y = {operator} (e) }}"
    intaglio.export(parse(text, sizes=np.array([2, 3])), "c", tmp_path / "net", style=style)
    run = subprocess.run(["make", "test"], cwd=tmp_path / "net", capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_inputs_that_nobody_reads_may_be_called_like_nodes(tmp_path: Path) -> None:
    model = parse("g (float[3] x, float[3] spare) => (float[3] y) { a = Exp (x) y = Neg (a) }")
    for node in model.graph.node:
        node.name = "spare"
    check(model, [drawn(3), drawn(3)], tmp_path, "readable")


def test_a_build_that_fails_leaves_nothing_and_takes_nothing_away(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="failed"):
        build(classifier(), tmp_path / "new", compiler_flags=["-std=c11", "-fno-such-option"])
    assert not (tmp_path / "new").exists()
    build(classifier(), tmp_path, compiler_flags=C_FLAGS["fast"])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(CompileError, match="failed"):
        build(classifier(), tmp_path, compiler_flags=["-std=gnu11", "-Wl,--no-such-option"])
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


MACRO = """
#include <string.h>
#undef memcpy
#define memcpy(to, ...) __builtin___memcpy_chk(to, __VA_ARGS__, __builtin_object_size(to, 0))
#undef memset
#define memset(to, ...) __builtin___memset_chk(to, __VA_ARGS__, __builtin_object_size(to, 0))
"""


@pytest.mark.parametrize("style", STYLES)
def test_functions_of_c_may_be_macros(style: str, tmp_path: Path) -> None:
    """As memcpy is on macOS; those that C has as macros are there for every kernel."""
    model = parse("""g (float[1, 1, 4, 4] x, float[1, 3, 3, 2] p, float[1, 1, 2, 2] r) => (y, z, m, k) {
        y = GridSample (x, p)
        m = MaxRoiPool <pooled_shape = [1, 1]> (x, q)
        k = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x)
        q = Constant <value = float[1, 5] {0, 0, 0, 2, 2}> ()
        s = Constant <value = float[1, 4] {0, 0, 2, 2}> ()
        b = Constant <value = int64[1] {0}> ()
        z = RoiAlign (x, s, b) }""")
    (tmp_path / "macro.h").write_text(MACRO)
    feeds = [drawn(1, 1, 4, 4), drawn(1, 3, 3, 2), drawn(1, 1, 2, 2)]
    flags = [*C_FLAGS[style], "-include", str(tmp_path / "macro.h")]
    build(model, tmp_path, style=style, compiler_flags=flags)
    for found, expected in zip(outputs(tmp_path, feeds), reference(model, feeds), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
