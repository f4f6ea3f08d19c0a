"""Integer products, convolutions and pools on every target of this machine, judged by NumPy and the reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from intaglio.errors import CompileError
from intaglio.runtime.model.loading import load
from intaglio.runtime.model.model import Model
from intaglio.targets.c.target import host_target, named_target

Array = np.ndarray[Any, Any]
BYTES = (np.uint8, np.int8)
PAIRS = [pytest.param(a, b, id=f"{np.dtype(a)}-{np.dtype(b)}") for a in BYTES for b in BYTES]


@pytest.fixture(params=["host", "avx512", "avx2", "sse2", "c"])
def target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The target that models are compiled for; `host` has the extensions of this machine, the others have none."""
    if request.param != "host":
        try:
            named_target(request.param)
        except CompileError as error:
            pytest.skip(str(error))
        monkeypatch.setenv("INTAGLIO_TARGET", request.param)
    host_target.cache_clear()
    yield request.param
    host_target.cache_clear()


def random(seed: int, shape: tuple[int, ...], dtype: Any) -> Array:
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(dtype)


def extremes(dtype: Any, shape: tuple[int, ...] = ()) -> list[Array]:
    limits = np.iinfo(dtype)
    return [np.full(shape, limits.min, dtype), np.full(shape, limits.max, dtype)]


def model(
    op: str,
    inputs: dict[str, tuple[Any, tuple[Any, ...]]],
    names: list[str],
    constants: dict[str, Array],
    dtype: Any,
    **attributes: Any,
) -> onnx.ModelProto:
    """One node; an output of that element type; inputs that are absent have the name ''."""
    node = helper.make_node(op, names, ["y"], **attributes)
    graph = helper.make_graph(
        [node],
        op,
        [helper.make_tensor_value_info(name, _number(kind), shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info("y", _number(dtype), None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _number(dtype: Any) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def native(proto: onnx.ModelProto, kernel: str) -> Model:
    """The model compiled without host nodes; `kernel` must be among its kernels."""
    found = load(proto, engine="native", strict=True, threads=2)
    assert has_kernel(found, kernel)
    return found


def has_kernel(found: Model, kernel: str) -> bool:
    """Whether a compiled call has the name in its kernel or its title."""
    return any(kernel in f"{call.kernel} {call.title}" for call in found.explain().calls)


def exact_product(a: Array, b: Array, a_zero: Any = 0, b_zero: Any = 0) -> Array:
    """The product in int64, wrapped to int32."""
    rows = np.asarray(a_zero, np.int64)
    left = a.astype(np.int64) - (rows[:, None] if rows.ndim else rows)
    return np.matmul(left, b.astype(np.int64) - np.asarray(b_zero, np.int64)).astype(np.int32)


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_products_of_any_shape(left: Any, right: Any, target: str) -> None:
    shapes = {"a": (left, ("M", "K")), "b": (right, ("K", "N")), "u": (left, ()), "v": (right, ())}
    found = native(model("MatMulInteger", shapes, ["a", "b", "u", "v"], {}, np.int32), "integer_gemm")
    for seed, (m, n, k) in enumerate(
        [
            (1, 1, 1),
            (1, 70, 33),
            (3, 31, 5),
            (7, 33, 64),
            (16, 16, 130),
            (29, 67, 3),
            (45, 5, 0),
            (0, 4, 4),
            (40, 97, 70),
        ]
    ):
        a, b = random(seed, (m, k), left), random(seed + 50, (k, n), right)
        for u, v in zip(
            [*extremes(left), random(seed, (), left)], [*extremes(right), random(9, (), right)], strict=True
        ):
            got = found.run({"a": a, "b": b, "u": u, "v": v})["y"]
            np.testing.assert_array_equal(got, exact_product(a, b, u, v))


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_packed_weights_and_zero_points_by_row_and_column(left: Any, right: Any, target: str) -> None:
    for seed, (m, n, k) in enumerate([(1, 33, 70), (20, 65, 129)]):
        a, b = random(seed, (m, k), left), random(seed + 50, (k, n), right)
        zeros: list[tuple[Any, Any]] = [(None, None), (random(1, (m,), left), random(2, (n,), right))]
        zeros += list(zip(extremes(left), extremes(right), strict=True))
        for u, v in zeros:
            constants = {"b": b} | ({} if u is None else {"u": u, "v": v})
            proto = model("MatMulInteger", {"a": (left, (m, k))}, ["a", *constants], constants, np.int32)
            got = native(proto, "integer_gemm").run({"a": a})["y"]
            np.testing.assert_array_equal(got, exact_product(a, b, 0 if u is None else u, 0 if v is None else v))


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_no_partial_sum_saturates(left: Any, right: Any, target: str) -> None:
    """Neighbouring products of the largest numbers, in the same direction, and sums that wrap around int32."""
    for k in (64, 5000, 40000):
        found = native(
            model("MatMulInteger", {"a": (left, ("M", k)), "b": (right, (k, 40))}, ["a", "b"], {}, np.int32), ""
        )
        for a in extremes(left, (3, k)):
            for b in extremes(right, (k, 40)):
                np.testing.assert_array_equal(found.run({"a": a, "b": b})["y"], exact_product(a, b))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2, 3, 5, 9), (9, 7)),
        ((2, 3, 5, 9), (2, 3, 9, 7)),
        ((2, 1, 5, 9), (2, 3, 9, 7)),
        ((9,), (9, 7)),
        ((5, 9), (9,)),
        ((5, 9), (4, 9, 7)),
        ((2, 2, 2, 5, 9), (2, 2, 2, 9, 7)),
    ],
)
def test_batches_and_vectors(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = random(1, left, np.uint8), random(2, right, np.int8)
    found = native(model("MatMulInteger", {"a": (np.uint8, left), "b": (np.int8, right)}, ["a", "b"], {}, np.int32), "")
    np.testing.assert_array_equal(found.run({"a": a, "b": b})["y"], exact_product(a, b))


CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any], str]] = [
    ((2, 5, 9, 11), (7, 5, 3, 3), {}, "integer_conv"),
    ((2, 8, 9, 11), (40, 8, 1, 1), {}, "integer_gemm"),
    ((1, 8, 9, 11), (40, 8, 1, 1), {"strides": [2, 2]}, "integer_conv"),
    ((2, 40, 9, 11), (40, 1, 3, 3), {"group": 40, "pads": [1, 1, 1, 1]}, "integer_depthwise"),
    ((1, 19, 9, 11), (19, 1, 3, 3), {"group": 19, "pads": [1, 2, 0, 1], "dilations": [2, 1]}, "integer_depthwise"),
    ((1, 18, 15, 15), (18, 1, 5, 5), {"group": 18, "pads": [2, 2, 2, 2], "strides": [2, 2]}, "integer_depthwise"),
    ((1, 8, 9, 11), (12, 4, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}, "integer_conv"),
    ((1, 4, 9, 9), (8, 1, 3, 3), {"group": 4}, "integer_conv"),
    ((1, 3, 20, 20), (33, 3, 7, 7), {"pads": [3, 3, 3, 3], "strides": [2, 2]}, "integer_conv"),
    ((2, 3, 14), (5, 3, 3), {"pads": [1, 1]}, "integer_conv"),
    ((1, 2, 5, 6, 7), (3, 2, 2, 3, 3), {"pads": [1] * 6, "dilations": [1, 2, 1]}, "integer_conv"),
    ((1, 4, 8, 8), (6, 4, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, "integer_conv"),
    ((1, 4, 5, 5), (6, 4, 5, 5), {"pads": [4, 4, 4, 4]}, "integer_conv"),
]


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_convolutions(left: Any, right: Any, target: str) -> None:
    for index, (x_shape, w_shape, attributes, kernel) in enumerate(CONVOLUTIONS):
        x, w = random(index, x_shape, left), random(index + 50, w_shape, right)
        zeros = [(random(3, (), left), random(4, (w_shape[0],), right)), (extremes(left)[1], extremes(right)[0])]
        for u, v in zeros[index % 2 :]:
            constants = {"w": w, "u": u, "v": v}
            proto = model(
                "ConvInteger", {"x": (left, x_shape)}, ["x", "w", "u", "v"], constants, np.int32, **attributes
            )
            expected = load(proto, engine="reference").run({"x": x})["y"]
            np.testing.assert_array_equal(native(proto, kernel).run({"x": x})["y"], expected)


@pytest.mark.parametrize("dtype", BYTES)
def test_maximum_pools(dtype: Any, target: str, judge: Any) -> None:
    for index, attributes in enumerate(
        [
            {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
            {"kernel_shape": [2, 3], "dilations": [2, 1]},
        ]
    ):
        x = random(index, (2, 21, 9, 11), dtype)
        proto = model("MaxPool", {"x": (dtype, x.shape)}, ["x"], {}, dtype, **attributes)
        assert has_kernel(judge(proto, [{"x": x}]), "integer_max_pool")


@pytest.mark.parametrize("output", BYTES)
@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_requantized_products(left: Any, right: Any, output: Any, judge: Any) -> None:
    """Saturated at both ends and rounded to even; ONNX Runtime has no kernel for some types, the reference has all."""
    k, n = 64, 37
    b = random(1, (k, n), right)
    for scale in (np.float32(0.004), np.float32(50.0)):
        constants = {
            "a_scale": np.float32(0.02), "a_zero": random(2, (), left), "b": b,
            "b_scale": np.random.default_rng(3).uniform(0.01, 0.05, n).astype(np.float32),
            "b_zero": random(4, (n,), right), "y_scale": scale, "y_zero": random(5, (), output),
        }  # fmt: skip
        names = ["a", "a_scale", "a_zero", "b", "b_scale", "b_zero", "y_scale", "y_zero"]
        arrays = {key: np.asarray(value) for key, value in constants.items()}
        proto = model("QLinearMatMul", {"a": (left, ("M", k))}, names, arrays, output)
        feeds = [{"a": random(m, (m, k), left)} for m in (1, 5, 30)]
        found = judge(proto, feeds, ort=left == output and (left, right) != (np.int8, np.uint8))
        assert has_kernel(found, "integer_gemm")
        assert len(found.explain().calls) == 1


@pytest.mark.parametrize(("left", "right"), [(np.uint8, np.int8), (np.uint8, np.uint8), (np.int8, np.int8)])
def test_requantized_convolutions(left: Any, right: Any, judge: Any) -> None:
    for index, (x_shape, w_shape, attributes, _) in enumerate(CONVOLUTIONS[:9]):
        channels = w_shape[0]
        is_signed = right == np.int8
        constants = {
            "x_scale": np.float32(0.02), "x_zero": random(2, (), left), "w": random(index, w_shape, right),
            "w_scale": np.random.default_rng(3).uniform(0.001, 0.02, channels).astype(np.float32),
            "w_zero": np.zeros(channels, right) if is_signed else np.full(channels, 131, right),
            "y_scale": np.float32(0.7), "y_zero": random(5, (), left),
            "bias": np.random.default_rng(6).integers(-9000, 9000, channels).astype(np.int32),
        }  # fmt: skip
        names = ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "bias"]
        arrays = {key: np.asarray(value) for key, value in constants.items()}
        proto = model("QLinearConv", {"x": (left, x_shape)}, names, arrays, left, **attributes)
        found = judge(proto, [{"x": random(index, x_shape, left)}])
        assert has_kernel(found, "ConvInteger")


@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (0, 4), (300, 70), (1, 16385)])
@pytest.mark.parametrize(("scale", "shift"), [(1, 0), (1e-3, 3), (1e4, -2), (0, 0)])
def test_dynamic_quantization(shape: tuple[int, int], scale: float, shift: float) -> None:
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])
    outputs = [("y", np.uint8), ("scale", np.float32), ("zero", np.uint8)]
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", _number(np.float32), ("N", "M"))],
        [helper.make_tensor_value_info(name, _number(dtype), None) for name, dtype in outputs],
    )  # fmt: skip
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = (np.random.default_rng(0).standard_normal(shape) * scale + shift).astype(np.float32)
    got, expected = native(proto, "quantize").run({"x": x}), load(proto, engine="reference").run({"x": x})
    for name, _ in outputs:
        np.testing.assert_array_equal(got[name], expected[name])


SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.5, 1.5, -0.5, 2.5, 1e30, -1e30, 127.5, -128.5, 255.5, 0.0, -0.0], np.float32
)


@pytest.mark.parametrize("output", BYTES)
def test_quantization_of_special_numbers(output: Any, target: str) -> None:
    for zero in (*extremes(output), np.asarray(3, output)):
        constants = {"s": np.asarray(1, np.float32), "z": zero}
        proto = model("QuantizeLinear", {"x": (np.float32, ("N",))}, ["x", "s", "z"], constants, output)
        found, reference = native(proto, "QuantizeLinear"), load(proto, engine="reference")
        for x in (SPECIAL, np.tile(SPECIAL, 7), np.random.default_rng(1).standard_normal(100).astype(np.float32) * 200):
            np.testing.assert_array_equal(found.run({"x": x})["y"], reference.run({"x": x})["y"])


@pytest.mark.parametrize("has_zero", [False, True])
@pytest.mark.parametrize(("k", "n", "block"), [(64, 32, 32), (100, 70, 16), (300, 33, 128), (32, 7, 32)])
def test_weights_of_four_bits(k: int, n: int, block: int, has_zero: bool, target: str) -> None:
    generator, blocks = np.random.default_rng(k), -(-k // block)
    constants: dict[str, Array] = {
        "b": generator.integers(0, 256, (n, blocks, block // 2)).astype(np.uint8),
        "s": generator.uniform(0.001, 0.02, n * blocks).astype(np.float32),
        "c": generator.standard_normal(n).astype(np.float32),
    }
    if has_zero:
        constants["z"] = generator.integers(0, 256, n * ((blocks + 1) // 2)).astype(np.uint8)
    names = ["a", "b", "s", "z" if has_zero else "", "", "c"]
    proto = model("MatMulNBits", {"a": (np.float32, ("M", k))}, names, constants, np.float32, domain="com.microsoft",
                  K=k, N=n, bits=4, block_size=block)  # fmt: skip
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    found, reference = native(proto, "4 bits"), load(proto, engine="reference")
    for m in (1, 2, 3, 9, 20):
        a = generator.standard_normal((m, k)).astype(np.float32)
        np.testing.assert_allclose(found.run({"a": a})["y"], reference.run({"a": a})["y"], rtol=1e-5, atol=1e-5)


def in_bytes(a: Array, block: int) -> Array:
    """What level 4 leaves of a row: whole multiples of a 127th of the greatest magnitude of each block."""
    rows, depth = a.shape
    padded = np.zeros((rows, -(-depth // block) * block), np.float32)
    padded[:, :depth] = a
    blocks = padded.reshape(rows, -1, block)
    scale = np.abs(blocks).max(-1, keepdims=True) / np.float32(127)
    with np.errstate(divide="ignore"):
        inverse = np.where(scale > 0, np.float32(1) / scale, np.float32(0))
    numbers = np.rint(blocks * inverse).astype(np.int8)
    return (numbers * scale.astype(np.float64)).reshape(rows, -1)[:, :depth]


def weights_of(constants: dict[str, Array], bits: int, k: int) -> Array:
    """The weights [N, K] in double precision, from their bytes."""
    packed, n = constants["b"], constants["b"].shape[0]
    parts = packed[..., None] if bits == 8 else np.stack([packed & 15, packed >> 4], -1)
    numbers = parts.reshape(n, packed.shape[1], -1).astype(np.float64)
    zero: Any = 1 << (bits - 1)
    if "z" in constants:
        z = constants["z"].reshape(n, -1)
        z = np.stack([z & 15, z >> 4], -1).reshape(n, -1) if z.dtype == np.uint8 and bits == 4 else z
        zero = z[:, : packed.shape[1], None].astype(np.float64)
    scaled = (numbers - zero) * constants["s"].reshape(n, -1, 1).astype(np.float64)
    return scaled.reshape(n, -1)[:, :k]


def block_product(k: int, n: int, block: int, bits: int, zeros: str) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """MatMulNBits at accuracy level 4, with zero points that are absent, packed or floats."""
    generator, blocks = np.random.default_rng(k), -(-k // block)
    constants: dict[str, Array] = {
        "b": generator.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8),
        "s": generator.uniform(0.001, 0.02, n * blocks).astype(np.float32),
    }
    if zeros == "packed":
        constants["z"] = generator.integers(0, 256, n * -(-blocks * bits // 8)).astype(np.uint8)
    elif zeros == "floats":
        constants["z"] = generator.uniform(0, 1 << bits, (n, blocks)).astype(np.float32)
    names = ["a", "b", "s", *(["z"] if zeros else [])]
    proto = model("MatMulNBits", {"a": (np.float32, ("M", k))}, names, constants, np.float32, domain="com.microsoft",
                  K=k, N=n, bits=bits, block_size=block, accuracy_level=4)  # fmt: skip
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return proto, constants


PRODUCTS = [
    (64, 32, 32, 4, ""), (100, 70, 16, 4, "packed"), (301, 33, 128, 4, "floats"), (513, 7, 256, 4, "packed"),
    (64, 40, 64, 8, ""), (100, 70, 16, 8, "packed"), (301, 33, 256, 8, "floats"), (1, 1, 16, 4, ""),
]  # fmt: skip


@pytest.mark.parametrize(("k", "n", "block", "bits", "zeros"), PRODUCTS)
def test_products_of_bytes_at_accuracy_level_4(k: int, n: int, block: int, bits: int, zeros: str, target: str) -> None:
    """The result is that of rounded rows, to a few roundings of the sum of magnitudes."""
    proto, constants = block_product(k, n, block, bits, zeros)
    found, weights = native(proto, "block_byte_gemm"), weights_of(constants, bits, k)
    for m in (1, 2, 5, 13):
        a = np.random.default_rng(m).standard_normal((m, k)).astype(np.float32)
        got, kept = found.run({"a": a})["y"], in_bytes(a, block)
        sizes = np.abs(kept) @ np.abs(weights.T)
        zero_sizes = sizes.max() if zeros == "floats" else 0  # a sum and what a zero point takes off may cancel
        assert np.all(np.abs(got - kept @ weights.T) <= 4e-6 * (sizes + zero_sizes) + 1e-30)
        # each number is off by at most half a step of its block, and a rounding of the number itself
        scales = np.repeat(np.abs(_whole_blocks(a, block)).max(-1), block, axis=-1)[:, :k] / 127
        limit = (scales * (0.5 + 1e-4)) @ np.abs(weights.T) + 4e-6 * (sizes + zero_sizes)
        assert np.all(np.abs(got - a.astype(np.float64) @ weights.T) <= limit + 1e-30)


def _whole_blocks(a: Array, block: int) -> Array:
    padded = np.zeros((len(a), -(-a.shape[1] // block) * block), a.dtype)
    padded[:, : a.shape[1]] = a
    return padded.reshape(len(a), -1, block)


@pytest.mark.parametrize("bits", [4, 8])
def test_accuracy_level_4_rounds_as_onnx_runtime_does(bits: int) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    for zeros in ("", "packed"):
        proto, constants = block_product(320, 48, 32, bits, zeros)
        session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        found, weights = native(proto, "block_byte_gemm"), weights_of(constants, bits, 320)
        for m in (1, 7):
            a = np.random.default_rng(m).standard_normal((m, 320)).astype(np.float32)
            got, theirs = found.run({"a": a})["y"], session.run(None, {"a": a})[0]
            steps = np.abs(_whole_blocks(a, 32)).max(-1).repeat(32, axis=-1) / 127
            # both round to the nearest step; ONNX Runtime may keep floats on processors for which it has no such kernel
            assert np.all(np.abs(got - theirs) <= (steps * 0.51) @ np.abs(weights.T))


@pytest.mark.parametrize("bits", [4, 8])
def test_exact_keeps_floats_at_accuracy_level_4(bits: int, target: str) -> None:
    proto, constants = block_product(100, 40, 16, bits, "packed")
    found = load(proto, engine="native", strict=True, exact=True)
    assert has_kernel(found, "nibble_gemm")
    assert not has_kernel(found, "block_byte_gemm")
    weights = weights_of(constants, bits, 100)
    a = np.random.default_rng(0).standard_normal((3, 100)).astype(np.float32)
    limit = 4e-6 * np.abs(a) @ np.abs(weights.T)
    assert np.all(np.abs(found.run({"a": a})["y"] - a.astype(np.float64) @ weights.T) <= limit)


def test_accuracy_level_4_of_numbers_that_are_no_bytes(target: str) -> None:
    """Blocks of zeros and of the least numbers are zero; what is not finite makes its row NaN and no other."""
    proto, constants = block_product(64, 20, 32, 4, "packed")
    found = native(proto, "block_byte_gemm")
    a = np.zeros((6, 64), np.float32)
    a[1, :32], a[2], a[3, 40], a[4, 3], a[5] = 1.5, 1e-36, np.nan, -np.inf, 3e38
    got = found.run({"a": a})["y"]
    assert np.all(got[0] == 0)
    assert np.all(np.abs(got[2]) < 1e-30)
    assert np.all(np.isnan(got[3:5]))
    weights = weights_of(constants, 4, 64)
    np.testing.assert_allclose(got[1], a[1] @ weights.T, rtol=1e-4, atol=1e-5)
