"""Both engines compute the same, simplified or not, whatever the number of threads."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import intaglio
from intaglio.cli.demo_model import demo_model
from intaglio.onnx.reader import read_model
from intaglio.runtime.engine.native import NativeEngine

Make = Callable[..., onnx.ModelProto]

TEXTS = {
    "softmax": "g (float[a, b] x) => (float[a, b] y) { y = Softmax<axis = 1>(x) }",
    "norm": "g (float[a, b] x) => (float[a, c] y) { m = ReduceMean<keepdims = 1>(x) d = Sub(x, m) y = Div(d, m) }",
    "product": "g (float[a, b] x) => (float[a, a] y) { t = Transpose(x) y = MatMul(x, t) }",
    "shapes": "g (float[a, b] x) => (float[c] y) { s = Shape(x) p = ReduceProd<keepdims = 1>(s) y = Reshape(x, p) }",
    "choice": "g (float[a, b] x) => (float[a, b] y) { n = Neg(x) c = Less(x, n) y = Where(c, x, n) }",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("shape", [(2, 3), (1, 17), (33, 5)])
def test_engines_agree(make: Make, text: str, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    results = [
        intaglio.load(make(text), engine=engine, simplify=flag)(x)
        for engine in ("native", "reference")
        for flag in (True, False)
    ]
    for other in results[1:]:
        assert other.shape == results[0].shape
        np.testing.assert_allclose(other, results[0], rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def images() -> Any:
    return np.random.default_rng(0).standard_normal((3, 3, 32, 32)).astype(np.float32)


def test_a_network_on_both_engines(images: Any) -> None:
    model = demo_model()
    native = intaglio.load(model, engine="native", strict=True)
    np.testing.assert_allclose(native(images), intaglio.load(model, engine="reference")(images), rtol=1e-4, atol=1e-6)


def test_any_number_of_threads_gives_the_same_bits(images: Any) -> None:
    one, many = (intaglio.load(demo_model(), engine="native", threads=threads)(images) for threads in (1, 4))
    np.testing.assert_array_equal(one, many)


def test_a_batch_gives_what_its_images_give(images: Any) -> None:
    model = intaglio.load(demo_model(), engine="native")
    single = np.concatenate([model(images[i : i + 1]) for i in range(len(images))])
    np.testing.assert_allclose(model(images), single, rtol=1e-5, atol=1e-7)


def test_runs_like_ones_before_take_the_short_way(make: Make) -> None:
    engine = NativeEngine(read_model(make(TEXTS["softmax"])).graph, 1)
    engine.load()
    x = np.random.default_rng(1).standard_normal((4, 5)).astype(np.float32)
    assert engine.run_again([x]) is None
    (expected,) = engine.run([x])
    from_elsewhere = pickle.loads(pickle.dumps(x))
    assert from_elsewhere.dtype is not x.dtype
    for again in (x, from_elsewhere):
        found = engine.run_again([again])
        assert found is not None
        np.testing.assert_array_equal(found[0], expected)
    for other in (x.astype(np.float64), x[::-1], x[:1], np.asfortranarray(x)):
        assert engine.run_again([other]) is None
