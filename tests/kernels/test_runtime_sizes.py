"""Sizes that come as data: the driver binds them, allocates, and gives outputs whose shape nobody knew before."""

import numpy as np
import pytest
from onnx import parser
from tests.kernels.test_control import HEADER, F, check

import intaglio
from intaglio.errors import IntaglioError, LimitError

RNG = np.random.default_rng(5)


def ints(*items):
    return np.array(items, np.int64)


def block(*shape):
    return RNG.random(shape).astype(F)


CASES = {
    "Slice-backwards-by-any-step": (
        "(float[a] x, int64[1] s, int64[1] e, int64[1] i, int64[1] k) => (float[p] y) { y = Slice(x, s, e, i, k) }",
        [
            (block(n), ints(-1), ints(end), ints(0), ints(step))
            for n in (0, 1, 5) for end in (-(2**63), 0) for step in (-(2**63), -6, -5, -4, -2, -1)
        ],
    ),
    "Slice-by-short-integers": (
        "(float[a,b] x, int32[1] s, int32[1] e, int32[1] i) => (float[p,q] y) { y = Slice(x, s, e, i) }",
        [(block(3, 4), *(np.array([n], np.int32) for n in each)) for each in [(1, 3, 0), (-2, 9, -1)]],
    ),
    "Reshape": (
        "(float[a,b,c] x, int64[2] s) => (float[p,q] y) { y = Reshape(x, s) }",
        [(block(2, 3, 4), ints(*s)) for s in [(0, -1), (6, 4), (-1, 2), (24, 1)]],
    ),
    "Reshape-allowzero": (
        "(float[a,b] x, int64[2] s) => (float[p,q] y) { y = Reshape<allowzero=1>(x, s) }",
        [(block(0, 3), ints(0, 5)), (block(2, 3), ints(3, 2))],
    ),
    "Expand": (
        "(float[a,b] x, int64[3] s) => (float[p,q,r] y) { e = Expand(x, s) y = Add(e, e) }",
        [
            (block(3, 4), ints(2, 1, 1)), (block(3, 4), ints(2, 3, 4)), (block(1, 4), ints(2, 3, 4)),
            (block(3, 1), ints(1, 1, 7)), (block(1, 1), ints(0, 3, 2)),
        ],
    ),
    "Expand-to-lower-rank": (
        "(float[a,b,c] x, int64[1] s) => (float[p,q,r] y) { y = Expand(x, s) }",
        [(block(2, 3, 1), ints(5)), (block(2, 3, 4), ints(1))],
    ),
    "Tile": (
        "(float[a,b] x, int64[2] s) => (float[p,q] y) { y = Tile(x, s) }",
        [(block(3, 4), ints(*s)) for s in [(2, 1), (0, 1), (2, 3)]],
    ),
    "Split": (
        "(float[a,b] x, int64[2] s) => (float[p,b] y, float[q,b] z) { y, z = Split<axis=0>(x, s) }",
        [(block(3, 4), ints(*s)) for s in [(2, 1), (0, 3)]],
    ),
    "TopK": (
        "(float[a,b] x, int64[1] k) => (float[a,q] y, int64[a,q] z) { y, z = TopK(x, k) }",
        [(block(3, 4), ints(k)) for k in (2, 0, 4)],
    ),
    "OneHot": (
        "(int64[n] x, int64 k, float[2] v) => (float[n,q] y) { y = OneHot(x, k, v) }",
        [(ints(1, 2, 0), np.array(k), np.array([0, 5], F)) for k in (3, 5, 1)],
    ),
    "ConstantOfShape": (
        "(int64[3] x) => (float[p,q,r] y) { y = ConstantOfShape<value = float {3.0}>(x) }",
        [(ints(1, 2, 0),), (ints(3, 2, 2),)],
    ),
    "Slice": (
        "(float[a,b] x, int64[1] s, int64[1] e) => (float[p,b] y) { y = Slice(x, s, e) }",
        [(block(3, 4), ints(s), ints(e)) for s, e in [(1, 2), (-1, 2**63 - 1), (5, 7), (-10, -1), (2, 1)]],
    ),
    "Slice-by-steps": (
        "(float[a,b] x, int64[2] s, int64[2] e, int64[2] i, int64[2] t) => (float[p,q] y) {"
        " z = Slice(x, s, e, i, t) y = Exp(z) }",
        [
            (block(3, 4), ints(1, 0), ints(2, 3), ints(0, 1), ints(1, 1)),
            (block(3, 4), ints(-1, 3), ints(-9, -1), ints(-1, 0), ints(-1, 2)),
            (block(3, 4), ints(-1, 3), ints(-(2**63), -9), ints(-1, 0), ints(-2, -1)),
            (block(0, 4), ints(-1, 3), ints(-9, -9), ints(-1, 0), ints(-2, -1)),
            (block(3, 4), ints(0, 3), ints(3, -9), ints(0, 1), ints(2**62, -(2**63))),
        ],
    ),
    "Pad": (
        "(float[a,b] x, int64[4] s, float v) => (float[p,q] y) { z = Pad(x, s, v) y = Exp(z) }",
        [(block(3, 4), ints(*s), np.array(3, F)) for s in [(1, 0, 2, 1), (0, 0, 0, 0), (-1, 2, 0, -2)]],
    ),
    "Pad-reflected-along-an-axis": (
        '(float[a,b] x, int64[2] s, float v, int64[1] i) => (float[p,q] y) { y = Pad<mode="reflect">(x, s, v, i) }',
        [(block(3, 4), ints(1, 2), np.array(3, F), ints(i)) for i in (-1, 0)],
    ),
    "OneHot-with-a-half-depth": (
        "(float16[n] x, float16 k, float[2] v) => (float[n,q] y) { y = OneHot(x, k, v) }",
        [(np.array([1, -1, 9], np.float16), np.array(k, np.float16), np.array([0, 5], F)) for k in (3, 5, 1)],
    ),
    "CenterCropPad": (
        "(float[a,b,c] x, int32[2] s) => (float[p,b,q] y) { z = CenterCropPad<axes=[-1,0]>(x, s) y = Neg(z) }",
        [(block(3, 4, 5), np.array(s, np.int32)) for s in [(2, 3), (7, 8), (5, 1), (0, 4)]],
    ),
    "CumSum-along-any-axis": (
        "(float[a,b,c] x, int64 k) => (float[a,b,c] y) { y = CumSum<reverse=1>(x, k) }",
        [(block(3, 4, 5), np.array(k)) for k in range(-3, 3)],
    ),
    "Col2Im": (
        "(float[n,c,l] x, int64[2] s, int64[2] k) => (float[p,q,h,w] y) {"
        " y = Col2Im<strides=[2,1], dilations=[1,2], pads=[1,0,1,2]>(x, s, k) }",
        [
            (block(2, 12, 24), ints(6, 6), ints(2, 2)), (block(1, 16, 30), ints(8, 10), ints(2, 4)),
            (block(2, 12, 0), ints(6, 0), ints(2, 2)),
        ],
    ),
    "NonZero": (
        "(float[a,b,c] x) => (int64[p,q] y) { y = NonZero(x) }",
        [(RNG.integers(-1, 2, shape).astype(F),) for shape in [(40, 30, 20), (0, 3, 2), (4, 1, 1)]],
    ),
    "Tile-by-a-list-of-unknown-length": (
        "(float[a,b] x, int64[k] s) => (float[p,q] y) { y = Tile(x, s) }",
        [(block(3, 4), ints(*s)) for s in [(2, 1), (0, 1), (2, 3)]],
    ),
    "Split-by-a-list-of-unknown-length": (
        "(float[a,b] x, int64[k] s) => (float[p,b] y, float[q,b] z) { y, z = Split<axis=0>(x, s) }",
        [(block(3, 4), ints(*s)) for s in [(2, 1), (0, 3)]],
    ),
    "Slice-by-lists-of-unknown-length": (
        "(float[a,b] x, int64[k] s, int64[k] e) => (float[p,q] y) { z = Slice(x, s, e) y = Exp(z) }",
        [
            (block(3, 4), ints(1, 0), ints(2, 3)), (block(3, 4), ints(1), ints(-1)), (block(3, 4), ints(), ints()),
            (block(0, 4), ints(1, 1), ints(9, 9)),
        ],
    ),
    "Slice-along-axes-of-unknown-number": (
        "(float[a,b] x, int64[k] s, int64[k] e, int64[k] i, int64[k] t) => (float[p,q] y) { y = Slice(x, s, e, i, t) }",
        [
            (block(3, 4), ints(-1, 0), ints(-9, 3), ints(-1, 0), ints(-2, 1)),
            (block(3, 4), ints(3), ints(0), ints(-1), ints(-1)), (block(3, 4), ints(), ints(), ints(), ints()),
        ],
    ),
    "Pad-by-a-list-of-unknown-length": (
        "(float[a,b] x, int64[k] s) => (float[p,q] y) { y = Pad(x, s) }",
        [(block(3, 4), ints(*s)) for s in [(1, 0, 2, 1), (0, 0, 0, 0), (-1, 2, 0, -2)]],
    ),
    "Pad-along-axes-of-unknown-number": (
        '(float[a,b] x, int64[k] s, float v, int64[l] i) => (float[p,q] y) { y = Pad<mode="edge">(x, s, v, i) }',
        [
            (block(3, 4), ints(*s), np.array(3, F), ints(*i))
            for s, i in [((1, 2), (-1,)), ((1, 0, 2, 1), (1, 0)), ((), ())]
        ],
    ),
    "Resize-by-a-list-of-unknown-length": (
        '(float[a,b] x, float[k] s) => (float[p,q] y) { y = Resize<mode="linear">(x, , s) }',
        [(block(3, 4), np.array(s, F)) for s in [(2, 1), (0.5, 3), (1, 1)]],
    ),
    "AffineGrid-by-a-list-of-unknown-length": (
        "(float[n,2,3] x, int64[k] s) => (float[n,p,q,2] y) { y = AffineGrid(x, s) }",
        [(block(2, 2, 3), ints(2, 1, *s)) for s in [(2, 3), (4, 1)]],
    ),
    "NonZero-of-a-scalar": (
        "(float x) => (int64[p,q] y) { y = NonZero(x) }",
        [(np.array(1, F),), (np.array(0, F),)],
    ),
    "Compress": (
        "(float[a,b,c] x, bool[n] k) => (float[a,q,c] y) { y = Compress<axis=1>(x, k) }",
        [(block(4, 5, 3), RNG.random(n) < 0.5) for n in (5, 2, 0)],
    ),
    "Compress-flat": (
        "(float[a,b] x, bool[n] k) => (float[p] y) { y = Compress(x, k) }",
        [(block(4, 5), RNG.random(n) < 0.5) for n in (20, 2, 0)],
    ),
    "NonMaxSuppression": (
        "(float[a,n,4] b, float[a,c,n] s, int64[1] m, float[1] t, float[1] u) => (int64[p,3] y) {"
        " y = NonMaxSuppression(b, s, m, t, u) }",
        [
            (block(2, n, 4), block(2, 3, n), ints(most), np.array([t], F), np.array([u], F))
            for n, most, t, u in [(50, 10, 0.3, 0.2), (50, 0, 0.3, 0.2), (9, 3, 0.9, 0.9), (0, 3, 0.5, 0.5)]
        ],
    ),
    "sizes-that-other-operators-use": (
        "(float[a,b] x) => (float[p] y, int64[1] n) {"
        " k = Greater(x, m) m = Constant<value_float=0.5>() i = NonZero(k) t = Transpose(i) g = GatherND(x, t)"
        " y = Relu(g) n = Shape(g) }".replace("k = Greater(x, m) m = Constant<value_float=0.5>()",
                                                "m = Constant<value_float=0.5>() k = Greater(x, m)"),
        [(block(6, 7),), (block(0, 3),)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_sizes_from_data(name):
    text, runs = CASES[name]
    check("agraph " + text, *runs)


@pytest.mark.parametrize("dtype", ["float", "double", "int16", "int32", "int64", "float16", "bfloat16"])
def test_ranges(dtype):
    number = {"float": F, "double": np.float64, "float16": np.float16}.get(dtype, dtype)
    if dtype == "bfloat16":
        import ml_dtypes

        number = ml_dtypes.bfloat16
    text = f"agraph ({dtype} a, {dtype} b, {dtype} c) => ({dtype}[n] y) {{ y = Range(a, b, c) }}"
    proto = parser.parse_model(HEADER.replace("21", "27") + text)
    native, reference = intaglio.load(proto, engine="native"), intaglio.load(proto, engine="reference")
    for ends in [(0, 10, 3), (5, 5, 1), (5, 0, -2), (0, 10, 5), (3, 100, 7), (5, 9, -1)]:
        arrays = [np.array(item, number) for item in ends]
        np.testing.assert_array_equal(native(*arrays), reference(*arrays))
    assert native.host_runs == 0
    with pytest.raises(IntaglioError, match="Range"):
        native(*(np.array(item, number) for item in (0, 3, 0)))


LENGTHS = {
    "DFT-of-real": ("(float[a,b,c,1] x, int64 n) => (float[p,q,r,t] y) { y = DFT(x, n) }", 1),
    "DFT-of-complex": ("(float[a,b,c,2] x, int64 n) => (float[p,q,r,t] y) { y = DFT<inverse=1>(x, n) }", 2),
    "DFT-one-sided": ("(float[a,b,c,1] x, int64 n) => (float[p,q,r,t] y) { y = DFT<onesided=1>(x, n) }", 1),
    "DFT-back": ("(float[a,b,c,2] x, int64 n) => (float[p,q,r,t] y) { y = DFT<inverse=1, onesided=1>(x, n) }", 2),
}


def agree(text, *runs):
    """Both engines give the same up to rounding, and no host node runs."""
    proto = parser.parse_model(HEADER + "agraph " + text)
    native, reference = intaglio.load(proto, engine="native"), intaglio.load(proto, engine="reference")
    for arrays in runs:
        np.testing.assert_allclose(native(*arrays), reference(*arrays), rtol=1e-5, atol=2e-5)
    assert native.host_runs == 0
    return native


@pytest.mark.parametrize("name", LENGTHS)
def test_transforms_of_a_length_that_the_run_tells(name):
    text, parts = LENGTHS[name]
    native = agree(text, *((block(2, 3, 9, parts), np.array(n)) for n in (1, 2, 5, 9, 16, 61)))
    with pytest.raises(IntaglioError, match="dft_length is 0"):
        native(block(2, 3, 9, parts), np.array(0))


AXES = {
    name: (text.replace("int64 n)", "int64 n, int64 i)").replace("(x, n)", "(x, n, i)"), parts)
    for name, (text, parts) in LENGTHS.items()
}


@pytest.mark.parametrize("name", AXES)
def test_transforms_along_an_axis_that_the_run_tells(name):
    text, parts = AXES[name]
    data = block(2, 3, 9, parts)
    native = agree(text, *((data, np.array(n), np.array(axis)) for n in (1, 5, 61) for axis in (-4, -3, -2, 0, 1, 2)))
    for axis, message in [
        (-1, "axis is -1, the last axis holds"),
        (4, "axis 4 is out of range"),
        (-5, "axis -5 is out"),
    ]:
        with pytest.raises(IntaglioError, match=f"DFT.*{message}"):
            native(data, np.array(5), np.array(axis))
    with pytest.raises(IntaglioError, match="dft_length is 0"):
        native(data, np.array(0), np.array(1))
    text = text.replace("int64 n, ", "").replace("(x, n, i)", "(x, , i)")
    native = agree(
        text, *((block(*shape, parts), np.array(axis)) for shape in [(2, 3, 9), (5, 64, 2)] for axis in (0, 1, 2))
    )
    with pytest.raises(IntaglioError, match="dft_length is 0"):
        native(block(2, 0, 3, parts), np.array(1))
    text = text.replace("{ y", "{ n = Constant<value_int=6>() y").replace("(x, , i)", "(x, n, i)")
    agree(text, *((data, np.array(axis)) for axis in (0, 1, 2)))


def test_frames_that_the_run_tells():
    signal, window = block(2, 40, 1), block(8)
    text = "(float[a,b,1] x, int64 s, int64 n) => (float[p,q,r,t] y) { y = STFT<onesided=0>(x, s, , n) }"
    native = agree(text, *((signal, np.array(step), np.array(n)) for step, n in [(1, 8), (3, 40), (50, 7)]))
    with pytest.raises(IntaglioError, match="frame_length 41"):
        native(signal, np.array(1), np.array(41))
    text = "(float[a,b,1] x, int64 s, float[w] v) => (float[p,q,r,t] y) { y = STFT(x, s, v) }"
    agree(text, *((signal, np.array(step), window) for step in (1, 4, 7)))
    text = """(float[a,b,1] x, float[w] v, int64 n) => (float[p,q,r,t] y) {
      s = Constant<value_int=3>() y = STFT(x, s, v, n) }"""
    native = agree(text, (signal, window, np.array(8)))
    with pytest.raises(IntaglioError, match="the window has 8 samples"):
        native(signal, window, np.array(9))


@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1, 2])
def test_unique(axis, is_sorted):
    options = f"sorted={is_sorted}" + ("" if axis is None else f", axis={axis}")
    found = "float[p]" if axis is None else "float[p,r,s]"
    text = f"""agraph (float[a,b,c] x) => ({found} y, int64[i] f, int64[j] g, int64[k] n) {{
      y, f, g, n = Unique<{options}>(x) }}"""
    special = np.array([[[np.nan, 1, np.nan, -0.0, 0.0, 3, 1]]], F)
    shapes = [(9, 3, 2), (40, 1, 1), (4, 2, 3)]
    check(text, *((RNG.integers(0, 2, shape).astype(F),) for shape in shapes), (special,), (np.ones((4, 3, 2), F),))


BAD = {
    "Reshape-with-two-open-sizes": (
        "(float[a] x, int64[2] s) => (float[p,q] y) { y = Reshape(x, s) }",
        (block(6), ints(-1, -1)),
    ),
    "Reshape-beyond-64-bits": (
        "(float[a] x, int64[2] s) => (float[p,q] y) { y = Reshape(x, s) }",
        (block(6), ints(2**62, 2**62)),
    ),
    "Tile-beyond-64-bits": ("(float[a] x, int64[1] s) => (float[p] y) { y = Tile(x, s) }", (block(6), ints(2**62))),
    "Unsqueeze-twice": (
        "(float[a] x, int64[2] s) => (float[p,q,r] y) { y = Unsqueeze(x, s) }",
        (block(6), ints(1, -2)),
    ),
    "OneHot-of-no-number": (
        "(int64[n] x, double k, float[2] v) => (float[n,q] y) { y = OneHot(x, k, v) }",
        (ints(0), np.array(np.nan), np.array([0, 1], F)),
    ),
    "Reshape": ("(float[a] x, int64[2] s) => (float[p,q] y) { y = Reshape(x, s) }", (block(6), ints(4, -1))),
    "Expand": ("(float[a] x, int64[1] s) => (float[p] y) { y = Expand(x, s) }", (block(6), ints(4))),
    "Expand-of-a-known-size": ("(float[3] x, int64[1] s) => (float[3] y) { y = Expand(x, s) }", (block(3), ints(2))),
    "Tile": ("(float[a] x, int64[1] s) => (float[p] y) { y = Tile(x, s) }", (block(6), ints(-1))),
    "Split": ("(float[a] x, int64[2] s) => (float[p] y, float[q] z) { y, z = Split(x, s) }", (block(6), ints(4, 4))),
    "TopK": ("(float[a] x, int64[1] k) => (float[p] y, int64[p] z) { y, z = TopK(x, k) }", (block(6), ints(7))),
    "Slice": (
        "(float[a] x, int64[1] s, int64[1] i) => (float[p] y) { y = Slice(x, s, s, i, s) }",
        (block(6), ints(0), ints(0)),
    ),
    "Pad": ("(float[a] x, int64[2] s) => (float[p] y) { y = Pad(x, s) }", (block(6), ints(-4, -4))),
    "Pad-by-too-many": ("(float[a] x, int64[k] s) => (float[p] y) { y = Pad(x, s) }", (block(6), ints(1, 1, 1))),
    "Tile-by-too-many": ("(float[a] x, int64[k] s) => (float[p] y) { y = Tile(x, s) }", (block(6), ints(1, 1))),
    "Slice-of-too-many": (
        "(float[a] x, int64[k] s, int64[k] e) => (float[p] y) { y = Slice(x, s, e) }",
        (block(6), ints(1, 1), ints(2, 2)),
    ),
    "Slice-by-lists-that-differ": (
        "(float[a] x, int64[k] s, int64[l] e) => (float[p] y) { y = Slice(x, s, e) }",
        (block(6), ints(1), ints()),
    ),
    "Split-into-too-many": (
        "(float[a] x, int64[k] s) => (float[p] y, float[q] z) { y, z = Split(x, s) }",
        (block(6), ints(2, 2, 2)),
    ),
    "AffineGrid-of-too-many": (
        "(float[n,2,3] x, int64[k] s) => (float[n,p,q,2] y) { y = AffineGrid(x, s) }",
        (block(2, 2, 3), ints(2, 1, 2, 3, 4)),
    ),
    "DFT": ("(float[a,b,1] x, int64 i) => (float[p,q,r] y) { y = DFT(x, , i) }", (block(2, 3, 1), np.array(5))),
    "CenterCropPad": ("(float[a] x, int64[1] s) => (float[p] y) { y = CenterCropPad(x, s) }", (block(6), ints(-1))),
    "CumSum": ("(float[a,b] x, int64 k) => (float[a,b] y) { y = CumSum(x, k) }", (block(2, 3), np.array(2))),
    "Col2Im": (
        "(float[n,c,l] x, int64[2] s, int64[2] k) => (float[p,q,r,t] y) { y = Col2Im(x, s, k) }",
        (block(1, 4, 4), ints(3, 3), ints(2, 3)),
    ),
    "Resize": (
        "(float[a] x, float[1] s) => (float[p] y) { y = Resize(x, , s) }",
        (block(6), np.array([-1], F)),
    ),
    "ConstantOfShape": ("(int64[1] s) => (float[p] y) { y = ConstantOfShape(s) }", (ints(-3),)),
    "Compress": (
        "(float[a] x, bool[n] k) => (float[p] y) { y = Compress<axis=0>(x, k) }",
        (block(2), np.ones(3, bool)),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_values_that_an_operator_forbids(name):
    text, arrays = BAD[name]
    model = intaglio.load(parser.parse_model(HEADER + "agraph " + text), engine="native")
    with pytest.raises(IntaglioError, match=name.split("-")[0]):
        model(*arrays)


@pytest.mark.parametrize(
    "text",
    [
        "(int64[2] s) => (float[p,q] y) { y = ConstantOfShape(s) }",
        "(int64[2] s) => (float[p,q] y) { z = ConstantOfShape(s) y = Exp(z) }",
    ],
)
def test_sizes_that_no_memory_holds(text):
    model = intaglio.load(parser.parse_model(HEADER + "agraph " + text), engine="native")
    for sizes in [(2**40, 2**40), (2**62, 4), (2**31, 2**31)]:
        with pytest.raises(LimitError, match=r"ConstantOfShape|Exp"):
            model(ints(*sizes))
    assert model(ints(2, 3)).shape == (2, 3)


def test_a_size_that_breaks_an_assumption():
    text = """agraph (float[a,b] x, int64[1] k, float[m] w) => (float[a,q] y) { v, z = TopK(x, k) y = Add(v, w) }"""
    proto = parser.parse_model(HEADER + text)
    native, reference = intaglio.load(proto, engine="native"), intaglio.load(proto, engine="reference")
    data = block(3, 4)
    for count, width in [(2, 2), (4, 4), (1, 4), (3, 1)]:
        arrays = data, ints(count), data[0, :width].copy()
        np.testing.assert_array_equal(native(*arrays), reference(*arrays))


EMPTY = {
    "Attention": "z = Compress<axis=1>(x, k) y = Attention<q_num_heads=1, kv_num_heads=1>(z, z, z)",
    "Conv": "z = Compress<axis=1>(x, k) t = Transpose<perm=[0, 2, 1]>(z) "
    "w = Constant<value = float[1,2,2] {1,2,3,4}>() y = Conv(t, w)",
    "If": """z = Compress<axis=1>(x, k) y = If (c) <then_branch = a () => (float[p,q,r] t) { t = Neg(z) },
      else_branch = b () => (float[u,v,w] e) { e = Concat<axis=1>(z, z) }>""",
    "Loop": """z = Compress<axis=1>(x, k) n = Constant<value = int64 {0}>()
      o = Constant<value = bool {1}>() y = Loop (n, o) <body = l (int64 i, bool d) => (bool f, float[p,q,r] g) {
        f = Identity(d) g = Neg(z) }>""",
    "Loop of a branch": """z = If (c) <then_branch = a () => (float[p,q] t) { t = Neg(h) },
      else_branch = b () => (float[u,v] e) { e = Concat<axis=1>(h, h) }> n = Constant<value = int64 {0}>()
      o = Constant<value = bool {1}>() y = Loop (n, o) <body = l (int64 i, bool d) => (bool f, float[s,t] g) {
        f = Identity(d) g = Concat<axis=0>(z, z) }>""",
    "Scan": """z = If (c) <then_branch = a () => (float[p,q] t) { t = Neg(h) },
      else_branch = b () => (float[u,v] e) { e = Concat<axis=1>(h, h) }> x0 = Constant<value = float[0] {}>()
      y = Scan <num_scan_inputs = 1, body = l (float r) => (float[s,t] g) { g = Add(z, r) }> (x0)""",
}


@pytest.mark.parametrize("name", EMPTY)
def test_results_without_elements_whose_other_sizes_the_run_tells(name):
    """Their memory needs no size of the run, and their shapes do."""
    text = f"agraph (float[0,5,2] x, bool[5] k, bool c, float[3,4] h) => (y) {{ {EMPTY[name]} }}"
    model = parser.parse_model(HEADER.replace("21", "23") + text)
    native, reference = (intaglio.load(model, engine=engine) for engine in ("native", "reference"))
    for flag, kept in ((True, 2), (False, 4)):
        arrays = block(0, 5, 2), np.arange(5) < kept, np.array(flag), block(3, 4)
        assert native(*arrays).shape == reference(*arrays).shape
