"""Small models, where the cost of a call shows: a multilayer perceptron and a bidirectional LSTM."""

import itertools
import math

import numpy as np
import onnx

from bench.generate.graph import GraphWriter

LSTM_STEPS = 50
LSTM_INPUT = 64
LSTM_HIDDEN = 128


def mlp() -> onnx.ModelProto:
    """16-32-32-4 with Relu, 1,732 parameters."""
    g = GraphWriter("mlp", seed=4)
    x = g.input("x", ["batch", 16])
    sizes = [16, 32, 32, 4]
    for layer, (inner, outer) in enumerate(itertools.pairwise(sizes)):
        weight = g.normal(f"layer{layer}.weight", [outer, inner], math.sqrt(2 / inner))
        x = g.op("Gemm", x, weight, g.normal(f"layer{layer}.bias", [outer], 0.1), alpha=1.0, beta=1.0, transB=1)
        if outer != sizes[-1]:
            x = g.op("Relu", x)
    g.output(x, "y", ["batch", 4])
    return g.model()


def lstm() -> onnx.ModelProto:
    """A bidirectional LSTM over 50 steps with a linear layer on each step, batch first."""
    g = GraphWriter("lstm", seed=128)
    x = g.input("x", ["batch", LSTM_STEPS, LSTM_INPUT])
    gates, limit = 4 * LSTM_HIDDEN, 1 / math.sqrt(LSTM_HIDDEN)
    weights = [
        g.uniform("lstm.W", [2, gates, LSTM_INPUT], -limit, limit),
        g.uniform("lstm.R", [2, gates, LSTM_HIDDEN], -limit, limit),
        g.uniform("lstm.B", [2, 2 * gates], -limit, limit),
    ]
    x = g.op("Transpose", x, perm=[1, 0, 2])
    y, *_ = g.split_op("LSTM", x, *weights, count=3, direction="bidirectional", hidden_size=LSTM_HIDDEN)
    y = g.op("Transpose", y, perm=[2, 0, 1, 3])
    y = g.op("Reshape", y, g.constant([0, 0, -1], np.int64))
    y = g.linear("classifier", y, 2 * LSTM_HIDDEN, 10, 1.0)
    g.output(y, "logits", ["batch", LSTM_STEPS, 10])
    return g.model()
