import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from intaglio.targets.c.target import Target

Array = NDArray[np.number[Any]]
Elementwise = Callable[[str, str, str, Target], Callable[..., Array]]
Several = Callable[[list[tuple[str, str]], str, Target], Callable[..., list[Array]]]

SPECIAL = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 3e38, -3e38, 0.5, -0.5], np.float32)


def dense(low: float, high: float) -> NDArray[np.float32]:
    """Even steps, and steps even in the logarithm near zero; a length that leaves a tail."""
    steps = np.linspace(low, high, 200_003)
    small = np.geomspace(1e-30, max(abs(low), abs(high)), 50_000)
    both = np.concatenate([steps, small, -small])
    return both[(both >= low) & (both <= high)].astype(np.float32)


def ulps(got: Array, expected: NDArray[np.float64]) -> float:
    """The largest error in units of a float32's last place; what is below the least normal number counts as zero."""
    got64 = got.astype(np.float64)
    tiny = np.finfo(np.float32).tiny
    expected = np.where(np.abs(expected) < tiny, 0, expected)
    got64 = np.where(np.abs(got64) < tiny, 0, got64)
    unit = np.spacing(np.maximum(np.abs(expected), tiny).astype(np.float32)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.abs(got64 - expected) / unit
    same = (got64 == expected) | (np.isnan(got64) & np.isnan(expected))
    return float(np.max(np.where(same, 0, error)))


erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-x))


FUNCTIONS: dict[str, tuple[Callable[..., NDArray[np.float64]], float, float, float]] = {
    "exp": (np.exp, -87, 88.7, 2),
    "expm1": (np.expm1, -30, 88.7, 2),
    "log": (np.log, 1e-37, 3e38, 2),
    "log1p": (np.log1p, -0.999999, 3e38, 3),
    "tanh": (np.tanh, -12, 12, 4),
    "sigmoid": (sigmoid, -87, 87, 4),
    "erf": (erf, -6, 6, 4),
    "sin": (np.sin, -8192, 8192, 2),
    "cos": (np.cos, -8192, 8192, 2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_is_accurate(name: str, target: Target, elementwise: Elementwise) -> None:
    reference, low, high, limit = FUNCTIONS[name]
    x = np.concatenate([dense(low, high), dense(max(low, -4), min(high, 4))])
    got = elementwise(f"ig_{name}_f32(x)", "f32", "f32", target)(x)
    assert ulps(got, reference(x.astype(np.float64))) <= limit


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_at_special_values(name: str, target: Target, elementwise: Elementwise) -> None:
    got = elementwise(f"ig_{name}_f32(x)", "f32", "f32", target)(SPECIAL)
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name][0](SPECIAL.astype(np.float64)).astype(np.float32).astype(np.float64)
    assert ulps(got, expected) <= 4
    assert np.array_equal(np.isinf(got), np.isinf(expected))
    assert np.array_equal(np.signbit(got[:2]), np.signbit(expected[:2]))


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_huge_angles(name: str, target: Target, elementwise: Elementwise) -> None:
    x = np.concatenate([np.geomspace(8000, 3e38, 2000), [1.0, 2.0]]).astype(np.float32)
    got = elementwise(f"ig_{name}_f32(x)", "f32", "f32", target)(x)
    assert ulps(got, getattr(np, name)(x.astype(np.float64))) <= 2


@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "sin", "log"])
def test_tail_has_the_same_bits(name: str, target: Target, elementwise: Elementwise) -> None:
    function = elementwise(f"ig_{name}_f32(x)", "f32", "f32", target)
    x = np.linspace(0.01, 5, 64, dtype=np.float32)
    whole = function(x)
    for length in range(1, 33):
        assert np.array_equal(function(x[:length]), whole[:length])


LIBRARY = ["tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "arcsinh", "arctanh", "exp", "log", "sin", "tanh"]


@pytest.mark.parametrize("name", LIBRARY)
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_library_functions(name: str, kind: str, target: Target, elementwise: Elementwise) -> None:
    x = np.linspace(0.05, 0.95, 101).astype(np.float32 if kind == "f32" else np.float64)
    got = elementwise(f"ig_{name.replace('arc', 'a')}_{kind}(x)", kind, kind, target)(x)
    np.testing.assert_allclose(got, getattr(np, name)(x), rtol=4e-7 if kind == "f32" else 4e-15)


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round"])
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_rounding(name: str, kind: str, target: Target, elementwise: Elementwise) -> None:
    dtype = np.float32 if kind == "f32" else np.float64
    grid = np.concatenate([np.arange(-20, 20, 0.125), SPECIAL, [8388607.5, 8388609, 4503599627370495.5, -0.3]])
    x = grid.astype(dtype)
    got = elementwise(f"ig_{name}_{kind}(x)", kind, kind, target)(x)
    expected = getattr(np, "rint" if name == "round" else name)(x)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))


KINDS = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64"]
DTYPES = {kind: {"f": "float", "i": "int", "u": "uint"}[kind[0]] + kind[1:] for kind in KINDS}
COMPARISONS = {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}


@pytest.mark.parametrize("kind", KINDS)
def test_comparisons(kind: str, target: Target, several: Several) -> None:
    values = SPECIAL if kind[0] == "f" else np.array([0, 1, 2, 100, 127, -1, -2, -100, 63])
    x, y = (grid.ravel().astype(DTYPES[kind]) for grid in np.meshgrid(values, values))
    select = "ig_select_{0}(ig_{1}_{0}(x, y), ig_set_{0}(1), ig_set_{0}(0))"
    expressions = [(select.format(kind, name), kind) for name in COMPARISONS]
    expressions += [(f"ig_{name}_{kind}(x, y)", kind) for name in ("min", "max")]
    results = several(expressions, f"{kind} {kind}", target)(x, y)
    for name, got in zip([*COMPARISONS.values(), "minimum", "maximum"], results, strict=True):
        np.testing.assert_array_equal(got, getattr(np, name)(x, y).astype(DTYPES[kind]), err_msg=name)


def cast_samples(source: str, result: str) -> Array:
    if source[0] != "f":
        info = np.iinfo(DTYPES[source])
        edges = [info.min, info.max, 0, 1, 5, info.max // 2, info.max // 3, info.max - 1]
        return np.concatenate([np.array(edges, DTYPES[source]), np.arange(100).astype(DTYPES[source])])
    info = np.iinfo(DTYPES[result]) if result[0] != "f" else None
    low, high = (float(info.min), float(info.max) * 0.99) if info else (-1e30, 1e30)
    return np.concatenate([np.linspace(low, high, 333), [0.5, 1.5, 2.99, 0, 100.7]]).astype(DTYPES[source])


@pytest.mark.parametrize("source", KINDS)
def test_casts_like_numpy(source: str, target: Target, several: Several) -> None:
    kinds = [kind for kind in KINDS if kind != source]
    function = several([(f"ig_cast_{source}_{kind}(x)", kind) for kind in kinds], source, target)
    for index, kind in enumerate(kinds):
        x = cast_samples(source, kind)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(function(x)[index], x.astype(DTYPES[kind]), err_msg=kind)


@pytest.mark.parametrize(("result", "bits"), [("i32", 32), ("i64", 64)])
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_casts_out_of_range_are_defined(
    source: str, result: str, bits: int, target: Target, elementwise: Elementwise
) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30] * 7, np.float32 if source == "f32" else np.float64)
    got = elementwise(f"ig_cast_{source}_{result}(x)", source, result, target)(x)
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    assert got.tolist() == [0, high, low, high, low] * 7


def test_float16_to_float32_of_every_value(target: Target, elementwise: Elementwise) -> None:
    bits = np.arange(65536, dtype=np.uint16)
    got = elementwise("ig_f32_from_f16(x)", "u16", "f32", target)(bits)
    np.testing.assert_array_equal(got, bits.view(np.float16).astype(np.float32))


def narrowing_samples() -> NDArray[np.float32]:
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**32, 300_000, dtype=np.uint32)
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        middle = halves * np.float32(1 + 2**-11)
        samples = np.concatenate([bits.view(np.float32), halves, middle, halves * np.float32(1.0005), SPECIAL])
        return samples[(np.abs(samples) > 1.2e-38) | (samples == 0) | np.isnan(samples)]


def test_float32_to_float16(target: Target, elementwise: Elementwise) -> None:
    x = narrowing_samples()
    got = elementwise("ig_f16_from_f32(x)", "f32", "u16", target)(x).view(np.float16)
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(got, x.astype(np.float16))


def test_bfloat16_both_ways(target: Target, elementwise: Elementwise) -> None:
    x = narrowing_samples()
    bits = elementwise("ig_bf16_from_f32(x)", "f32", "u16", target)(x)
    with np.errstate(all="ignore"):
        expected = x.astype(ml_dtypes.bfloat16)
    got = elementwise("ig_f32_from_bf16(x)", "u16", "f32", target)(bits)
    np.testing.assert_array_equal(got, expected.astype(np.float32))


def test_activations(target: Target, elementwise: Elementwise) -> None:
    x = np.concatenate([dense(-30, 30), [np.inf]]).astype(np.float32)
    wide = x.astype(np.float64)
    softplus = np.logaddexp(0, wide)
    with np.errstate(invalid="ignore"):
        cubic = np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)
        expected = {
            "silu": wide * sigmoid(wide),
            "gelu": wide / 2 * (1 + erf(wide / np.sqrt(2))),
            "gelu_tanh": wide / 2 * (1 + np.tanh(cubic)),
            "softplus": softplus,
            "mish": wide * np.tanh(softplus),
        }
    for name, values in expected.items():
        got = elementwise(f"ig_{name}_f32(x)", "f32", "f32", target)(x)
        np.testing.assert_allclose(got, values, rtol=1e-6, atol=3e-7, err_msg=name)


@pytest.mark.parametrize(("name", "reference"), [("add", np.sum), ("max", np.max), ("min", np.min)])
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_reductions(
    name: str, reference: Callable[..., float], kind: str, target: Target, elementwise: Elementwise
) -> None:
    x = np.arange(target.lanes).astype(np.float32 if kind == "f32" else np.float64) * 3 - 7
    function = elementwise(f"ig_set_{kind}(ig_reduce_{name}_{kind}(x))", kind, kind, target)
    assert function(x).tolist() == [reference(x)] * target.lanes
    x[2] = np.nan
    assert np.isnan(function(x)).all()
