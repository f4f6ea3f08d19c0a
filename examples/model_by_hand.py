"""A model written by hand: a two-layer classifier of ten lines, saved as ONNX and run."""

import tempfile
from pathlib import Path

import numpy as np

import intaglio
from intaglio import ops

rng = np.random.default_rng(0)
w1, b1 = rng.normal(size=(16, 32)).astype(np.float32), np.zeros(32, np.float32)
w2, b2 = rng.normal(size=(32, 4)).astype(np.float32), np.zeros(4, np.float32)

with intaglio.build("classifier", inputs={"x": "float32[N, 16]"}) as g:
    hidden = ops.Relu(ops.Gemm(g["x"], w1, b1))
    scores = hidden @ w2 + b2
    g.output(probabilities=ops.Softmax(scores), label=ops.ArgMax(scores, axis=1, keepdims=0))

model = g.model()
x = rng.normal(size=(5, 16)).astype(np.float32)
probabilities, label = model(x)
assert probabilities.shape == (5, 4)
assert (label == probabilities.argmax(axis=1)).all()

# The functions that built the model also compute, so that every step can be looked at.
np.testing.assert_allclose(probabilities, ops.Softmax(ops.Relu(ops.Gemm(x, w1, b1)) @ w2 + b2), rtol=1e-4, atol=1e-6)

with tempfile.TemporaryDirectory() as folder:
    g.save(Path(folder) / "classifier.onnx")
    loaded = intaglio.load(Path(folder) / "classifier.onnx")
    np.testing.assert_array_equal(loaded(x)[0], probabilities)

print(model)
