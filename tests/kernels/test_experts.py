"""Mixtures of experts whose weights are known: the native engine multiplies each word by its own experts alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from intaglio.runtime.model.loading import load
from intaglio.targets.c.compiler import Compiler

ort = pytest.importorskip("onnxruntime")

F = np.float32
EXPERTS, WIDTH, HIDDEN = 5, 32, 48


def layer(rng: Any, rows: int, columns: int, bits: int, block: int, has_zeros: bool) -> tuple[Any, ...]:
    """Weights of all experts with scales and zero points, which plain weights do not have."""
    if not bits:
        return ((rng.normal(size=(EXPERTS, rows, columns)) / 6).astype(F),)
    weights = rng.integers(0, 256, (EXPERTS, rows, columns * bits // 8)).astype(np.uint8)
    shape = (EXPERTS, rows, columns // block) if block else (EXPERTS, rows)
    scales = (rng.uniform(0.5, 1, shape) / 2**bits / 2).astype(F)
    packed = (*shape[:-1], -(-shape[-1] * bits // 8))
    return weights, scales, rng.integers(0, 256, packed).astype(np.uint8) if has_zeros else None


def mixture(k: int, bits: int = 0, block: int = 0, has_zeros: bool = False, fed: bool = False) -> onnx.ModelProto:
    rng = np.random.default_rng([k, bits, block, has_zeros])
    first, second = layer(rng, HIDDEN, WIDTH, bits, block, has_zeros), layer(rng, WIDTH, HIDDEN, bits, block, has_zeros)
    biases = [rng.normal(size=(EXPERTS, size)).astype(F) for size in (HIDDEN, WIDTH)]
    attributes: dict[str, Any] = {"k": k, "activation_type": "silu"}
    if bits:
        order = [*first[:2], biases[0], *second[:2], biases[1], None, None, None, first[2], second[2]]
        attributes |= {"expert_weight_bits": bits} | ({"block_size": block} if block else {})
    else:
        order = [*first, biases[0], *second, biases[1]]
    names = ["" if array is None else f"w{place}" for place, array in enumerate(order)]
    pairs: list[tuple[Any, str]] = [(array, name) for array, name in zip(order, names, strict=True) if name]
    constants = [numpy_helper.from_array(array, name) for array, name in pairs]
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", WIDTH]),
              helper.make_tensor_value_info("r", onnx.TensorProto.FLOAT, ["n", EXPERTS])]  # fmt: skip
    if fed:  # as defaults of inputs, which may be fed
        inputs += [helper.make_tensor_value_info(each.name, each.data_type, each.dims) for each in constants]
    node = helper.make_node("QMoE" if bits else "MoE", ["x", "r", *names], ["y"], domain="com.microsoft", **attributes)
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", WIDTH])
    graph = helper.make_graph([node], "experts", inputs, [result], constants)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def words(count: int) -> dict[str, Any]:
    rng = np.random.default_rng(count)
    return {"x": rng.normal(size=(count, WIDTH)).astype(F), "r": rng.normal(size=(count, EXPERTS)).astype(F)}


FORMS = [
    (0, 0, False),
    (4, 0, False),
    (4, 0, True),
    (4, 16, False),
    (4, 16, True),
    (8, 0, True),
    (8, 16, True),
    (2, 0, True),
]


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(("bits", "block", "has_zeros"), FORMS)
def test_words_meet_their_own_experts_alone(
    k: int, bits: int, block: int, has_zeros: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    proto = mixture(k, bits, block, has_zeros)
    ours, theirs = load(proto, engine="native", strict=True), ort.InferenceSession(proto.SerializeToString())
    reference = load(proto, engine="reference", simplify=False)
    assert str(ours.explain()).count("MatMul by experts") == 2
    monkeypatch.setattr(Compiler, "compile_unit", None)  # whatever is compiled from here on fails
    for count in (1, 2, 40, 3):
        found = ours.run(words(count))["y"]
        np.testing.assert_allclose(found, reference.run(words(count))["y"], rtol=1e-5, atol=1e-5)
        if (bits, block) != (8, 16):  # there ONNX Runtime rounds words to bytes
            np.testing.assert_allclose(found, theirs.run(None, words(count))[0], rtol=1e-4, atol=1e-4)


def test_weights_that_may_be_fed() -> None:
    proto = mixture(2, fed=True)
    ours = load(proto, engine="native", strict=True)
    (expected,) = ort.InferenceSession(proto.SerializeToString()).run(None, words(7))
    np.testing.assert_allclose(ours.run(words(7))["y"], expected, rtol=1e-4, atol=1e-4)


def test_an_expert_that_no_word_has_makes_nothing() -> None:
    """Its weights are no numbers, which reach no word."""
    proto = mixture(1)
    for constant in proto.graph.initializer:
        array = numpy_helper.to_array(constant).copy()
        array[-1] = np.nan
        constant.CopyFrom(numpy_helper.from_array(array, constant.name))
    feeds = words(9)
    feeds["r"][:, -1] = -100
    for engine in ("native", "reference"):
        assert np.isfinite(load(proto, engine=engine).run(feeds)["y"]).all()
