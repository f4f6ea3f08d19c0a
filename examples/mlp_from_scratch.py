"""An MLP that is written by hand and trained from random weights: which arm of a spiral is a point on?"""

import numpy as np

import intaglio
from intaglio import ops, train

generator = np.random.default_rng(0)


def layer(g, x, wide, narrow, name):
    """A matrix and a bias, as PyTorch's Linear begins."""
    weight = g.constant(train.kaiming_uniform((wide, narrow), generator), f"{name}.weight")
    bias = g.constant(train.kaiming_uniform((narrow,), generator, fan_in=wide), f"{name}.bias")
    return ops.MatMul(x, weight) + bias


with intaglio.build("spirals", inputs={"point": "float32[N, 2]"}) as g:
    h = ops.Tanh(layer(g, g["point"], 2, 48, "first"))
    h = ops.Tanh(layer(g, h, 48, 48, "second"))
    g.output(scores=layer(g, h, 48, 3, "third"))

arm = generator.integers(0, 3, 1200)
distance = generator.random(1200)
angle = 4 * distance + arm * 2 * np.pi / 3 + 0.1 * generator.standard_normal(1200)
points = (distance * np.stack([np.cos(angle), np.sin(angle)])).T.astype(np.float32)
training, held_out = (points[:900], arm[:900]), (points[900:], arm[900:])

schedule = train.schedules.one_cycle(40 * 15)
trainer = train.Trainer(g.graph, "cross_entropy", "adamw", lr=0.02, schedule=schedule)
history = trainer.fit(training, epochs=40, batch_size=64, validation=held_out, metrics=["accuracy"])
last = history.epochs[-1]
print(
    f"loss {history.losses[0]:.3f} -> {last['loss']:.3f}; {last['val_accuracy']:.1%} of points it never saw are right"
)
assert last["val_accuracy"] > 0.9
