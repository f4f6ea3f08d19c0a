"""Gradients judged by central differences in double precision, on both engines, in ONNX Runtime, to second order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime

import intaglio
from intaglio.ir.graph import Graph
from intaglio.runtime.model.model import Model

STEP = 1e-6


def differences(model: Model, of: str, feeds: Mapping[str, Any], name: str, weights: Any) -> Any:
    """The derivative of sum(weights * of) by one input."""
    result = np.zeros_like(feeds[name])
    for index in np.ndindex(result.shape):
        ends: list[Any] = []
        for sign in (1, -1):
            moved = dict(feeds) | {name: np.array(feeds[name])}
            moved[name][index] += sign * STEP
            ends.append(np.sum(model.run(moved, [of])[of] * weights))
        result[index] = (ends[0] - ends[1]) / (2 * STEP)
    return result


def judge(
    graph: Graph,
    feeds: Mapping[str, Any],
    wrt: Sequence[str],
    of: str | None = None,
    order: int = 2,
    engines: Sequence[str] = ("reference", "native"),
    in_onnx_runtime: bool = True,
    tolerance: float = 1e-5,
) -> None:
    """Assert that the gradients of a graph are right; the second order is that of the first gradient's product."""
    target = of or graph.outputs[0].name
    for _ in range(order):
        forward = intaglio.load(graph, engine="reference")
        value = forward.run(feeds, [target])[target]
        weights = np.random.default_rng(3).uniform(0.5, 1.5, value.shape)
        backward = intaglio.vjp(graph, of=target, wrt=wrt, engine="reference")
        bar = f"{target}.bar"
        given = {**feeds, bar: weights}
        found = backward.run(given)
        for name, array in zip(wrt, found.values(), strict=True):
            expected = differences(forward, target, feeds, name, weights)
            np.testing.assert_allclose(array, expected, rtol=tolerance, atol=tolerance, err_msg=f"{target} by {name}")
        _same_elsewhere(backward, given, found, engines, in_onnx_runtime)
        graph, feeds, target = backward.graph, given, next(iter(found))


def _same_elsewhere(
    model: Model, feeds: Mapping[str, Any], expected: Mapping[str, Any], engines: Sequence[str], in_onnx_runtime: bool
) -> None:
    if "native" in engines:
        found = intaglio.load(model.graph, engine="native").run(feeds)
        for name, array in found.items():
            np.testing.assert_allclose(array, expected[name], rtol=1e-9, atol=1e-11, err_msg=f"{name} natively")
    if in_onnx_runtime:
        session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
        for array, (name, other) in zip(session.run(None, dict(feeds)), expected.items(), strict=True):
            found = np.asarray(array)
            np.testing.assert_allclose(found, other, rtol=1e-7, atol=1e-9, err_msg=f"{name} in ONNX Runtime")
