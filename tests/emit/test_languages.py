"""Small models in every language against the reference: each is the least one of a fault that some language had."""

from __future__ import annotations

import functools
import importlib.util
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest
from tests.emit.models import drawn

import intaglio
from intaglio.conformance.exported import ExportBackend
from intaglio.conformance.zig_programs import ZigBackend, compile_together, zig_command
from intaglio.errors import UnsupportedError

LANGUAGES = ("python", "torch", "onnx", "c:readable", "c:fast")


@dataclass
class Case:
    """A model in ONNX's text form, what is fed to it, and the languages that give something else, with the reason."""

    text: str
    feeds: list[Any]
    differs: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def model(self) -> onnx.ModelProto:
        return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 24]> {self.text}')


def double(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape)


def pads(mode: str) -> str:
    return f"""g (float[5, 4] x) => (y) {{
        p = Constant <value = int64[4] {{3, 1, -2, -1}}> ()
        y = Pad <mode = "{mode}"> (x, p) }}"""


def attribute(node: str, operands: str = "x") -> str:
    """A node of double precision whose attribute is a float that has no short text there."""
    return f"g (double[2, 3, 4] x) => (y) {{ y = {node} ({operands}) }}"


def layer(node: str, *weights: str) -> str:
    """A layer of double precision with constant weights."""
    made = " ".join(f"w{i} = Constant <value = double{text}> ()" for i, text in enumerate(weights))
    names = ", ".join(f"w{i}" for i in range(len(weights)))
    return f"g (double[2, 2, 3] x) => (y) {{ {made} y = {node} (x, {names}) }}"


IMAGE = double(2, 2, 3)
CASES = {
    **{f"{mode} after cutting": Case(pads(mode), [drawn(5, 4)]) for mode in ("wrap", "reflect", "edge")},
    "sums over dots": Case('g (float[2, 3, 4] x) => (y) { y = Einsum <equation = "...i->i"> (x) }', [drawn(2, 3, 4)]),
    "sums over dots of two": Case(
        'g (int32[2, 3, 4] x, int32[3, 4] z) => (y) { y = Einsum <equation = "...i, ...i -> i"> (x, z) }',
        [np.arange(24, dtype=np.int32).reshape(2, 3, 4), np.arange(12, dtype=np.int32).reshape(3, 4)],
    ),
    "a kernel longer than its axis": Case(
        "g (float[2, 3, 2] x, float[4, 3, 3] w) => (y) { y = Conv (x, w) }", [drawn(2, 3, 2), drawn(4, 3, 3)]
    ),
    "no output channels": Case(
        "g (float[2, 3, 5] x, float[0, 3, 3] w) => (y) { y = Conv (x, w) }", [drawn(2, 3, 5), drawn(0, 3, 3)]
    ),
    "inverse transform of a real signal": Case(
        "g (float[2, 6, 1] x) => (y) { a = Constant <value = int64 {1}> () y = DFT <inverse = 1> (x, , a) }",
        [drawn(2, 6, 1)],
    ),
    "running products along nothing": Case(
        "g (float[2, 0] x) => (y) { a = Constant <value = int64 {1}> () y = CumSum <exclusive = 1> (x, a) }",
        [drawn(2, 0)],
    ),
    "indices without rows": Case(
        "g (float[4, 5] x) => (y) <int64[0, 2] i = {}> { y = GatherND (x, i) }", [drawn(4, 5)]
    ),
    "axes that come with the run": Case(
        "g (int32[2, 3] x, int64[1] a) => (y) { y = ReduceProd (x, a) }",
        [np.arange(1, 7, dtype=np.int32).reshape(2, 3), np.array([1])],
    ),
    "small steps below zero": Case(
        "g (float[3] x) => (a, b, c) { a = Elu <alpha = 0.4> (x) b = Selu (x) c = Celu <alpha = 0.3> (x) }",
        [np.array([-3e-6, -1e-9, 2e-5], np.float32)],
    ),
    "a size that no kernel uses": Case(
        "g (float[n, m] x) => (a, b) { s = Constant <value = int64[2] {0, 3}> () a, b = Split <axis = 0> (x, s) }",
        [drawn(3, 5)],
    ),
    "a part of nothing": Case("g (float16[1, 0, 9] x) => (y) { y = Softmax <axis = 0> (x) }",
        [np.zeros((1, 0, 9), np.float16)]),
    "bytes with and without sign": Case(
        """g (uint8[1, 1, 3] x, int8[1, 1, 3] z, int8[1, 1, 2] w) => (a, b) {
        a = ConvInteger (x, w) b = ConvInteger (z, w) }""",
        [np.array([[[200, 7, 255]]], np.uint8), np.array([[[-56, 7, -1]]], np.int8), np.array([[[3, -2]]], np.int8)],
    ),
    "sizes that only another form of the call uses": Case(
        """g (float[n, m, k] x, float[2, m, 7] u) => (y) <int64[2, 1] i = {3, 0}> {
        a = Mul (x, x) y = ScatterND (a, i, u) }""",
        [drawn(5, 3, 7), drawn(2, 3, 7)],
    ),
    "a size that the plan assumes to be another": Case(
        """g (float[a, s, 3] x, bool[2, 2, 3] f) => (u) <int64 n = {1}, bool go = {1}> {
        e = Erf (x)
        y = Loop (n, go, e) <body = b (int64 i, bool k, float[p, q, r] v) => (bool j, float[o, m, l] w)
            <float[1, 2, 3] c = {1, 2, 3, 4, 5, 6}> { j = Identity (k) h = Max (e, v) w = Add (h, c) }>
        u = Where (f, y, x) }""",
        [drawn(2, 2, 3), drawn(2, 2, 3) > 0],
    ),
    "a region turned inside out": Case(
        """g (float[1, 2, 4, 4] x) => (y) <float[1, 4] r = {3, 3, 1, 1}, int64[1] b = {0}> {
        y = RoiAlign <mode = "max", output_height = 2, output_width = 2> (x, r, b) }""",
        [drawn(1, 2, 4, 4)],
    ),
    "an empty constant behind another": Case(
        f"""g (float[4, 5] x, float[17] z) => (u, y)
        <float[17] w = {{{", ".join(map(str, range(17)))}}}, int64[0, 2] i = {{}}> {{
        u = Add (z, w)
        y = GatherND (x, i) }}""",
        [drawn(4, 5), drawn(17)],
    ),
    **{
        f"{node.split()[0]} of double precision": Case(attribute(node), [double(2, 3, 4)])
        for node in (
            "LeakyRelu <alpha = 0.2>", "LeakyRelu", "HardSigmoid", "HardSigmoid <alpha = 0.3, beta = 0.7>",
            "Elu <alpha = 0.7>", "Celu <alpha = 0.7>", "Selu",
        )
    },
    "GridSample of double precision": Case(
        "g (double[1, 1, 4, 4] x, double[1, 2, 3, 2] p) => (y) { y = GridSample (x, p) }",
        [double(1, 1, 4, 4), double(1, 2, 3, 2) / 3],
    ),
    "Softplus of double precision": Case(
        "g (double[4] x) => (y) { y = Softplus (x) }", [np.array([-30.5, 3.25, 21.5, 45.25])]
    ),
    "Swish of double precision": Case(
        'g (double[2, 3] x) => (y) { y = Swish <alpha = 0.3> (x) }', [double(2, 3)]
    ),
    "Gemm of double precision": Case(
        "g (double[2, 3] x, double[3, 4] z, double[4] b) => (y) { y = Gemm <alpha = 0.3, beta = 0.7> (x, z, b) }",
        [double(2, 3), double(3, 4), double(4)],
    ),
    **{
        f"{node.split()[0]} layer of double precision": Case(layer(node, *weights), [IMAGE])
        for node, *weights in (
            ("Conv", "[2, 2, 2] {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}", "[2] {0.1, 0.2}"),
            ("ConvTranspose", "[2, 2, 2] {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}"),
            ("MatMul", "[3, 2] {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}"),
            ("PRelu", "[2, 1] {0.1, 0.2}"),
            ("BatchNormalization", *["[2] {0.1, 0.2}"] * 4),
            ("LayerNormalization <epsilon = 0.01>", *["[3] {0.1, 0.2, 0.3}"] * 2),
            ("InstanceNormalization <epsilon = 0.01>", *["[2] {0.1, 0.2}"] * 2),
            ("GroupNormalization <num_groups = 2>", *["[2] {0.1, 0.2}"] * 2),
            ("RMSNormalization <epsilon = 0.01>", "[3] {0.1, 0.2, 0.3}"),
        )
    },
    "special values": Case(
        """g (float[8] x) => (s, i, l, b) { s = Sign (x) i = Cast <to = 6> (x) l = Cast <to = 7> (x)
        b = Cast <to = 3> (x) }""",
        [np.array([np.nan, np.inf, -np.inf, 1e20, -1e20, -2.5, 300.7, 0], np.float32)],
    ),
    "numbers that are none, between bounds": Case(
        """g (float[6] x) => (a, b, c, d) {
        a = HardSigmoid (x) b = HardSwish (x) c = Celu <alpha = 0.7> (x) d = Softplus (x) }""",
        [np.array([np.nan, -np.nan, np.inf, -3.25, 0.5, 4], np.float32)],
    ),
    "states that are no numbers": Case(
        """g (float[3, 2, 2] x) => (y, z) <float[1, 2, 2] w = {1, 0.5, 1, 0.25}, float[1, 2, 2] r = {0.5, 1, 1, 0},
        float[1, 4, 2] v = {1, 0.5, 1, 0.25, 1, 1, 1, 1}, float[1, 4, 1] q = {1, 0.5, 1, 0.25}> {
        y, = RNN <hidden_size = 2, clip = 0.5> (x, w, r)
        z, = LSTM <hidden_size = 1, activations = ["HardSigmoid", "Tanh", "Tanh"], activation_alpha = [0.3],
            activation_beta = [0.5]> (x, v, q) }""",
        [np.array([[[1, 2], [3, np.nan]], [[0.5, 1], [1, 1]], [[2, 1], [0, 0]]], np.float32)],
        {"c:readable": "loops have no HardSigmoid"},
    ),
    **{
        f"places that are no numbers, {padding}": Case(
            f"""g (float[1, 1, 3, 3] x, float[1, 1, 4, 2] p) => (y, z) {{
            y = GridSample <mode = "linear", padding_mode = "{padding}"> (x, p)
            z = GridSample <mode = "nearest", padding_mode = "{padding}"> (x, p) }}""",
            [drawn(1, 1, 3, 3), np.array([[[[0.1, np.nan], [np.nan, np.nan], [0.25, -0.75], [0.9, 2.5]]]], np.float32)],
            {} if padding == "zeros" else {"torch": "grid_sample takes a place that is no number for the border"},
        )
        for padding in ("zeros", "border", "reflection")
    },
    "a region with pixels that are no numbers": Case(
        """g (float[1, 1, 4, 4] x) => (y) <float[1, 4] r = {0, 0, 3, 3}, int64[1] b = {0}> {
        y = RoiAlign <mode = "max", output_height = 2, output_width = 2> (x, r, b) }""",
        [np.where(np.arange(16).reshape(1, 1, 4, 4) == 5, np.nan, drawn(1, 1, 4, 4)).astype(np.float32)],
    ),
    "sizes that are only checked": Case(
        "g (int32[n, 1, m] x) => (y) <int64[3] s = {8, 1, 2}> { y = Expand (x, s) }",
        [np.arange(16, dtype=np.int32).reshape(8, 1, 2)],
    ),
    "a mask of one axis": Case(
        """g (float[2, 1, 3, 4] q, float[2, 1, 4, 5] k, float[2, 1, 5, 4] v, float[5] m) => (y) {
        s = MatMul (q, k) a = Add (s, m) p = Softmax (a) y = MatMul (p, v) }""",
        [drawn(2, 1, 3, 4), drawn(2, 1, 4, 5), drawn(2, 1, 5, 4), drawn(5)],
    ),
    "rows of no round, whose sizes change from round to round": Case(
        """g (float[a, b] x, int64 n) => (y, r) {
        y, r = Loop (n, , x) <body = b (int64 i, bool k, float[p, q] v) => (bool j, float[s, t] w, float[u, z] e) {
            j = Identity (k) w = Concat <axis = 0> (v, v) e = Concat <axis = 1> (v, v) }> }""",
        [drawn(2, 3), np.array(0)],
        {"zig": "rows that no round gave have sizes of 0"},
    ),
    "rows of no round, whose rank a branch decides": Case(
        """g (float[a, b] x, bool f, int64 n) => (y, r) <int64[1] o = {0}, float h = {0.5}> {
        c = If (f) <then_branch = t () => (d) { d = Unsqueeze (x, o) }, else_branch = e () => (d) { d = Neg (x) }>
        y, r = Loop (n, , c) <body = b (int64 i, bool k, float[] v) => (bool j, w, e) {
            j = Identity (k) w = Neg (v) m = Cast <to = 1> (i) a = Add (v, m) e = Mul (a, h) }> }""",
        [drawn(2, 3), np.array(True), np.array(0)],
        {
            **dict.fromkeys(("c:readable", "c:fast", "wasm"), "ranks must be known"),
            "zig": "rows that no round gave have no axes where their rank is open",
        },
    ),
    "parts of an empty axis": Case(
        """g (float[2, n] x) => (a, b, c) <int64 three = {3}, int64[1] none = {0}> {
        s = SplitToSequence <axis = 1> (x, three) a = SequenceLength (s)
        t = SplitToSequence <axis = 1> (x) b = SequenceLength (t)
        u = SplitToSequence <axis = 1> (x, none) c = SequenceLength (u) }""",
        [drawn(2, 0)],
        dict.fromkeys(("c:readable", "c:fast", "wasm"), "sequences have no words in C"),
    ),
    "slices of nothing": Case(
        """g (float[a, b] x, float[a] s) => (y, r) {
        y, r = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
            body = b (float[p] v, float[q] c) => (float[p] w, float[o] e) {
            w = Add (v, c) e = Concat <axis = 0> (c, c) }> (s, x) }""",
        [drawn(3, 0), drawn(3)],
        {"zig": "rows that no round gave have sizes of 0"},
    ),
    "large matrices of open sizes": Case(
        "g (int8[a, b] x, int8[b, c] w, int8 z) => (y) { y = MatMulInteger (x, w, , z) }",
        [np.full((5, 1023), -7, np.int8), np.full((1023, 129), 3, np.int8), np.array(2, np.int8)],
    ),
    "a pool without channels": Case(
        """g (float[1, c, 4, 5] x) => (a, b, d) {
        a = MaxPool <kernel_shape = [2, 2], pads = [0, 1, 1, 0]> (x)
        b = AveragePool <kernel_shape = [2, 2]> (x)
        d = MaxPool <kernel_shape = [3, 3], auto_pad = "SAME_UPPER"> (x) }""",
        [drawn(1, 0, 4, 5)],
    ),
    "rows replaced in a matrix without columns": Case(
        "g (float[3, n] x, float[1, n] u) => (y) <int64[1, 1] i = {1}> { y = ScatterND (x, i, u) }",
        [drawn(3, 0), drawn(1, 0)],
    ),
    "a margin around a small volume": Case(
        """g (float[1, 2, 4, 4, 4] x) => (y) {
        y = AveragePool <kernel_shape = [5, 5, 2], pads = [2, 2, 0, 2, 2, 0]> (x) }""",
        [drawn(1, 2, 4, 4, 4)],
    ),
    "a margin that open sizes decide": Case(
        """g (float[1, 2, a, b, c] x) => (y) {
        y = AveragePool <kernel_shape = [2, 2, 2], strides = [2, 2, 2], auto_pad = "SAME_UPPER"> (x) }""",
        [drawn(1, 2, 3, 4, 5)],
    ),
    "shares of few columns": Case(
        "g (float[n, 4] x) => (y, z) { y = Softmax <axis = 0> (x) z = LogSoftmax <axis = 0> (x) }", [drawn(9, 4)]
    ),
    "statistics of one element": Case(
        """g (float[n, 2, h] x) => (y, z) <float[2] w = {0.3, 0.7}, float[2] b = {0.1, 0.2}> {
        y = InstanceNormalization (x, w, b) z = GroupNormalization <num_groups = 2> (x, w, b) }""",
        [drawn(1, 2, 1)],
    ),
    **{
        f"a threshold that {name} has not": Case(
            f"""g ({name}[4] x) => (y, z) {{
            y = ThresholdedRelu <alpha = 0.3> (x) z = Shrink <lambd = 0.3, bias = 0.1> (x) }}""",
            [np.array([0.3, -0.3, 0.2, 0.8], dtype)],
        )
        for name, dtype in (("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16))
    },
    **{
        f"resized by {mode}, {coordinates}": Case(
            f"""g (double[1, 1, 4, 7] x) => (y, z) <float[4] f = {{1, 1, 1.7, 2.3}}, int64[4] s = {{1, 1, 3, 11}}> {{
            y = Resize <mode = "{mode}", coordinate_transformation_mode = "{coordinates}"> (x, , f)
            z = Resize <mode = "{mode}", coordinate_transformation_mode = "{coordinates}", antialias = {antialias}>
            (x, , , s) }}""",
            [double(1, 1, 4, 7)],
        )
        for mode, coordinates, antialias in (
            ("linear", "half_pixel", 1), ("linear", "align_corners", 0), ("cubic", "half_pixel_symmetric", 0),
            ("linear", "pytorch_half_pixel", 0), ("cubic", "asymmetric", 1),
        )
    },
    "an infinity beside resized elements": Case(
        """g (float[1, 1, 4] x) => (y) <float[3] f = {1, 1, 2}> {
        y = Resize <mode = "linear", coordinate_transformation_mode = "asymmetric"> (x, , f) }""",
        [np.array([[[1, np.inf, 2, 3]]], np.float32)],
    ),
}  # fmt: skip


def results(language: str, case: Case) -> list[Any]:
    backend = ZigBackend() if language == "zig" else ExportBackend(language)
    return backend.prepare(case.model).run(case.feeds)


def check(language: str, case: Case) -> None:
    if language in case.differs:
        pytest.skip(case.differs[language])
    expected = intaglio.load(case.model, engine="reference")(*case.feeds)
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for found, right in zip(results(language, case), wanted, strict=True):
        assert (found.dtype, found.shape) == (right.dtype, right.shape)
        unit = 16 * float(ml_dtypes.finfo(right.dtype).eps) if right.dtype.kind in "fV" else 0
        largest = np.max(np.abs(right), initial=0, where=np.isfinite(right))
        np.testing.assert_allclose(found, right, rtol=unit, atol=unit * largest / 8)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", CASES)
def test_languages(name: str, language: str) -> None:
    if language == "torch":
        pytest.importorskip("torch", reason="exported PyTorch code needs PyTorch")
    check(language, CASES[name])


@functools.cache
def compiled_in_zig() -> bool:
    compile_together(case.model for case in CASES.values())
    return True


@pytest.mark.targets
@pytest.mark.skipif(zig_command() is None, reason="the package ziglang is missing: `pip install ziglang`")
@pytest.mark.parametrize("name", CASES)
def test_zig(name: str) -> None:
    assert compiled_in_zig()
    check("zig", CASES[name])


@pytest.mark.targets
@pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None or shutil.which("node") is None, reason="ziglang or node is missing"
)
@pytest.mark.parametrize("name", CASES)
def test_webassembly(name: str) -> None:
    check("wasm", CASES[name])


@pytest.mark.parametrize("language", ["python", "torch"])
def test_a_first_round_that_fails_leaves_no_rows(language: str) -> None:
    if language == "torch":
        pytest.importorskip("torch", reason="exported PyTorch code needs PyTorch")
    text = """g (float[a, b] x, bool f, int64 n) => (r) <int64[1] o = {0}> {
        c = If (f) <then_branch = t () => (d) { d = Unsqueeze (x, o) }, else_branch = e () => (d) { d = Neg (x) }>
        r = Loop (n, ) <body = b (int64 i, bool k) => (bool j, e) {
            j = Identity (k) e = Gather <axis = 1> (c, i) }> }"""
    rows = results(language, Case(text, [drawn(0, 3), np.array(True), np.array(0)]))[0]
    assert (rows.dtype, rows.size) == (np.float32, 0)
    rows = results(language, Case(text, [drawn(2, 3), np.array(True), np.array(2)]))[0]
    np.testing.assert_array_equal(rows, drawn(2, 3)[:, None])


@pytest.mark.parametrize(("language", "options"), [("torch", {}), ("onnx", {"opset": 17})])
def test_expansions_that_need_sizes_are_refused_with_their_node(
    language: str, options: dict[str, Any], tmp_path: Path
) -> None:
    text = "g (float[n, a, b] t, int64[k] s) => (y) { y = AffineGrid (t, s) }"
    with pytest.raises(UnsupportedError, match="AffineGrid"):
        intaglio.export(Case(text, []).model, language, tmp_path, **options)
