"""Fine-tuning: an ONNX classifier gets a new head for classes of your own, and the rest of it stays as it is."""

import numpy as np

import intaglio
from intaglio import ops, train
from intaglio.cli.demo_model import demo_model

generator = np.random.default_rng(0)
classifier = intaglio.load(demo_model())  # any classifier will do: intaglio.load("classifier.onnx")

# A copy of it, whose features go to a new head of two classes.
with intaglio.extend(classifier) as g:
    weight = g.constant(train.kaiming_uniform((64, 2), generator), "new.weight")
    bias = g.constant(np.zeros(2, np.float32), "new.bias")
    g.output(scores=ops.MatMul(g["features"], weight) + bias)

# Pictures with stripes across or stripes down.
stripes = np.sin(np.arange(32) * generator.uniform(0.5, 1.5, (400, 1)) + generator.uniform(0, 6, (400, 1)))
label = generator.integers(0, 2, 400)
across, down = stripes[:, None, None, :], stripes[:, None, :, None]
image = np.where(label[:, None, None, None] == 0, across, down) + generator.standard_normal((400, 3, 32, 32)) * 0.5
image = image.astype(np.float32)
training, held_out = (image[:320], label[:320]), (image[320:], label[320:])

trainer = train.Trainer(g.graph, "cross_entropy", "adam", lr=0.01, trainable="new.*")
trainer.fit(training, epochs=20, validation=held_out, early_stopping=5)
found = trainer.evaluate(held_out, metrics=["accuracy"])
print(f"{', '.join(trainer.trained)}: {found['accuracy']:.0%} of {len(held_out[1])} pictures are right")
assert found["accuracy"] > 0.9
assert trainer.trained_model()(image[:1]).shape == (1, 2)  # trainer.save("stripes.onnx") writes it
