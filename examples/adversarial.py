"""An adversarial example: the gradient by the image shows how to fool a classifier."""

import numpy as np

import intaglio
from intaglio import ops

generator = np.random.default_rng(0)


def weights(*shape):
    """Numbers of a size that keeps what a layer gives as large as what it gets."""
    return (generator.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


# Any classifier will do, such as one from a file; this one has random weights.
with intaglio.build("classifier", inputs={"image": "float32[1, 3, 32, 32]", "label": "int64[1]"}) as g:
    h = ops.Relu(ops.Conv(g["image"], weights(16, 3, 3, 3), strides=[2, 2]))
    h = ops.Relu(ops.Conv(h, weights(32, 16, 3, 3), strides=[2, 2]))
    scores = ops.Gemm(ops.Flatten(h), weights(10, 32 * 7 * 7), transB=1)
    g.output(scores=scores, loss=ops.SoftmaxCrossEntropyLoss(scores, g["label"]))

model = g.model()
gradient = intaglio.grad(model, of="loss", wrt="image")

image = generator.random((1, 3, 32, 32), np.float32)
label = model.run({"image": image, "label": [0]}, ["scores"])["scores"].argmax(axis=1)
attacked, step, steps = image, 0.002, 0
while steps < 100:
    found = model.run({"image": attacked, "label": label}, ["scores"])["scores"].argmax(axis=1)
    if found != label:
        break
    attacked = np.clip(attacked + step * np.sign(gradient(attacked, label)), 0, 1)
    steps += 1
change = np.abs(attacked - image).max()
print(f"class {label[0]} became {found[0]} after {steps} steps; no pixel changed by more than {change:.3f}")
assert found != label
