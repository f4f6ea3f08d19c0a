"""Operators and implementations of your own, in Python and compiled."""

import numpy as np

import intaglio
from intaglio import ops


# An operator is a NumPy function: positional parameters are inputs, keyword-only ones attributes.
@intaglio.op(domain="example")
def Clamp(x, *, limit: float = 1.0):
    """The elements cut off at -limit and limit."""
    return np.clip(x, -limit, limit)


# An operator that is made of others is a class with `expand`; it is compiled like any other.
@intaglio.op(domain="example")
class SquaredRelu:
    """scale * relu(x)²"""

    scale: float = 1.0

    def expand(self, b, x):
        """In terms of Relu and Mul."""
        positive = b.Relu(x)
        return positive * positive * self.scale


# A second implementation of an operator that exists, for float32 only.
@intaglio.implementation("Softplus", "log1p", applies=lambda node: node.output.dtype.name == "float32")
def softplus(X):
    """One rounding less for large negative numbers."""
    return np.maximum(X, 0) + np.log1p(np.exp(-np.abs(X)))


# The same as an expansion, which is compiled.
@intaglio.implementation("Softplus", "plain", expand=True)
def plain_softplus(b, X):
    """The textbook formula: fewer steps, but it overflows early."""
    return b.Log(b.Exp(X) + 1)


x = np.linspace(-2, 2, 8, dtype=np.float32)
np.testing.assert_array_equal(Clamp(x, limit=0.5), np.clip(x, -0.5, 0.5))

with intaglio.build("example", inputs={"x": "float32[N]"}) as g:
    h = ops.domain("example").SquaredRelu(ops.Softplus(g["x"]), scale=0.5)
    g.output(y=Clamp(h, limit=1.5))

model = g.model()
expected = np.clip(0.5 * np.log1p(np.exp(x)) ** 2, -1.5, 1.5)
np.testing.assert_allclose(model(x), expected, rtol=1e-5)

# Clamp is the one node that is not compiled, and the plan says why.
(host,) = model.explain().host_nodes
assert host.reason == "Clamp is computed by a Python function"

chosen = g.model(implementations={"Softplus": "plain"})
np.testing.assert_allclose(chosen(x), expected, rtol=1e-5)
print(chosen.explain())
