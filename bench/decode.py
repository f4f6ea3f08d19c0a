"""A step of a language model with a cache that is given away: what it writes there, and what a longer past costs.

The model has the sizes of GPT-2 (12 layers of 768, 12 heads, 2,048 places in the cache). The bytes that kernels write
to caches are counted from the operands of the plan's calls: of a call that scatters, the rows of its update.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import intaglio
from intaglio import build, ops
from intaglio.ir.graph import Graph, Value
from intaglio.runtime.model.model import Model

LAYERS, WIDTH, HEADS, PLACES = 12, 768, 12, 2048
PASTS = (64, 256, 512, 1024, 2000)
"""The lengths of the past that are measured."""


class Weights:
    """Random matrices, added to a graph as constants."""

    def __init__(self, g: Any) -> None:
        self.g, self.dice, self.count = g, np.random.default_rng(0), 0

    def __call__(self, *shape: int) -> Value:
        self.count += 1
        array = (self.dice.standard_normal(shape, dtype=np.float32) * 0.02).astype(np.float32)
        return self.g.constant(array, f"w{self.count}")


def decoder(layers: int = LAYERS, width: int = WIDTH, heads: int = HEADS, places: int = PLACES) -> Graph:
    """One step, of a token's vector, its place, and an attention mask as long as the tokens up to it."""
    size = width // heads
    with build("decoder") as g:
        weights = Weights(g)
        x = g.input("x", f"float32[1,1,{width}]")
        place, seen = g.input("place", "int64[1]"), g.input("seen", "int64[1,T]")
        made: dict[str, Value] = {}
        total = ops.Shape(seen, start=1, end=2)
        for layer in range(layers):
            h = _normalized(x, width, weights)
            q, k, v = (_heads(ops.MatMul(h, weights(width, width)), heads, size) for _ in range(3))
            caches = [g.input(f"{kind}{layer}", f"float32[1,{heads},{places},{size}]") for kind in ("key", "value")]
            new = [ops.TensorScatter(cache, part, place, axis=2) for cache, part in zip(caches, (k, v), strict=True)]
            made |= {f"new_key{layer}": new[0], f"new_value{layer}": new[1]}
            keys, values = (ops.Slice(each, np.array([0]), total, np.array([2])) for each in new)
            y = ops.Attention(q, keys, values)
            y = ops.Reshape(ops.Transpose(y, perm=(0, 2, 1, 3)), np.array([1, 1, width]))
            x = x + ops.MatMul(y, weights(width, width))
            h = _normalized(x, width, weights)
            x = x + ops.MatMul(ops.Gelu(ops.MatMul(h, weights(width, 4 * width))), weights(4 * width, width))
        g.output(y=_normalized(x, width, weights), **made)
    return g.graph


def _heads(x: Value, heads: int, size: int) -> Value:
    return ops.Transpose(ops.Reshape(x, np.array([1, 1, heads, size])), perm=(0, 2, 1, 3))


def _normalized(x: Value, width: int, weights: Weights) -> Value:
    return ops.LayerNormalization(x, weights(width))


def donated(layers: int = LAYERS) -> dict[str, str]:
    """Which output takes the memory of which cache."""
    return {f"{kind}{layer}": f"new_{kind}{layer}" for layer in range(layers) for kind in ("key", "value")}


def feeds(model: Model, past: int) -> dict[str, Any]:
    """A token behind so many others."""
    dice = np.random.default_rng(past)
    found: dict[str, Any] = {}
    for item in model.inputs:
        shape = [past + 1 if str(dim) == "T" else int(str(dim)) for dim in item.type.shape or ()]  # pyright: ignore
        is_float = item.name not in ("place", "seen")
        found[item.name] = dice.standard_normal(shape, dtype=np.float32) if is_float else np.full(shape, past)
    return found


def bytes_written(model: Model, caches: dict[str, str]) -> int:
    """The bytes that kernels of a step write to the memory of caches."""
    from intaglio.kernels.plan import Call, walk
    from intaglio.kernels.plan_form import SegmentForm
    from intaglio.runtime.engine.native import NativeEngine

    engine = model.whole_engine()
    assert isinstance(engine, NativeEngine)
    (segment,) = engine.form.parts
    assert isinstance(segment, SegmentForm)
    names = dict(zip(engine.form.outputs, (item.name for item in model.outputs), strict=True))
    outputs = {b: names[each] for b, each in zip(segment.output_buffers, segment.outputs, strict=True)}
    found = 0
    for call in (action for action in walk(segment.actions) if isinstance(action, Call)):
        for operand in (each for each in call.operands if each.is_written):
            if outputs.get(operand.buffer.home) in caches.values():
                update = call.operands[0].buffer if call.kernel.hint == "tensor_scatter" else operand.buffer
                found += int(str(update.bytes))
    return found


def milliseconds(models: dict[str, Model], past: int, steps: int) -> dict[str, float]:
    """The median of a step's time, models in turn."""
    given = {name: feeds(model, past) for name, model in models.items()}
    times: dict[str, list[float]] = {name: [] for name in models}
    for number in range(steps + 1):
        for name, model in models.items():
            start = time.perf_counter()
            model.run(given[name])
            if number:
                times[name].append((time.perf_counter() - start) * 1000)
    return {name: float(np.median(found)) for name, found in times.items()}


def attention(heads: int = HEADS, size: int = WIDTH // HEADS, layers: int = LAYERS) -> Graph:
    """The attention of all layers by itself, of keys and values that each layer has for itself."""
    with build("attention") as g:
        y: Value = g.input("q", f"float32[1,{heads},1,{size}]")
        for layer in range(layers):
            k, v = (g.input(f"{kind}{layer}", f"float32[1,{heads},T,{size}]") for kind in ("key", "value"))
            y = ops.Attention(y, k, v)
        g.output(y=y)
    return g.graph


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=15, help="steps of which the median is taken")
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    graph = decoder()
    models = {
        "donated": intaglio.load(graph, threads=chosen.threads, donate=donated()),
        "copied": intaglio.load(graph, threads=chosen.threads),
        "attention": intaglio.load(attention(), threads=chosen.threads),
    }
    token = 2 * LAYERS * WIDTH * 4
    for name in ("donated", "copied"):
        written = bytes_written(models[name], donated())
        print(f"{name}: {written:,} bytes written to caches a token, {written / token:g} times those of one token")
    print("   past  donated  copied  attention alone  (ms)")
    for past in PASTS:
        found = milliseconds(models, past, chosen.steps)
        print(f"{past:7} {found['donated']:8.2f} {found['copied']:7.2f} {found['attention']:16.2f}")


if __name__ == "__main__":
    main()
