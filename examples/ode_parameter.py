"""Fit a parameter through an ODE solver: the gradient goes through a Loop. `python examples/ode_parameter.py`."""

import numpy as np

import intaglio
from intaglio import ops

# y' = -k sin(y), in steps of 0.05; the trajectory is what the Loop stacks.
with intaglio.build("pendulum", inputs={"y": "float64[N]", "k": "float64[]", "measured": "float64[T, N]"}) as g:
    steps = ops.Squeeze(ops.Shape(g["measured"], start=0, end=1), [0])
    with g.body("step", inputs={"i": "int64[]", "goes_on": "bool[]", "state": "float64[N]"}) as step:
        state = step["state"] - 0.05 * g["k"] * ops.Sin(step["state"])
        step.output(ops.Identity(step["goes_on"]), state, ops.Identity(state))
    _, trajectory = ops.Loop(steps, None, g["y"], body=step.graph, outputs=2)
    difference = trajectory - g["measured"]
    g.output(trajectory=trajectory, loss=ops.ReduceMean(difference * difference, keepdims=0))

model = g.model()
slope = intaglio.value_and_grad(model, of="loss", wrt="k")
curvature = intaglio.grad(slope, of="k.gradient", wrt="k")

y = np.array([0.5, 1.0, 2.0])
measured = model.run({"y": y, "k": 1.7, "measured": np.zeros((60, 3))}, ["trajectory"])["trajectory"]
k = np.array(0.4)
for round in range(8):
    loss, gradient = slope(y, k, measured)
    print(f"round {round}: k = {k:.6f}, loss = {loss:.3e}")
    k = k - gradient / np.abs(curvature(y, k, measured))  # Newton's method
assert abs(k - 1.7) < 1e-6
