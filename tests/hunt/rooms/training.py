"""Training runs of twenty steps against PyTorch's optimizers, losses and schedules with the same weights and data.

A difference is judged by what rounding does to the run: PyTorch computes it in double precision, and again with all
that its layers give moved by a rounding of the run's type.
"""

from __future__ import annotations

import tempfile
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import intaglio
from intaglio import ops, train

from ..judging import Finding, Verdict
from . import Seen, Tell
from .training_judge import Judge
from .training_plans import Array, Layer, Plan, plans

RUNS = 4
"""How many runs a seed of the tests has."""
FEW, MANY = 3, 40
"""How many shaken runs say what rounding does; and how many before something is called wrong."""
ROOM = 32.0
LARGEST = 1e12
"""Losses beyond this belong to a run that diverges; single precision ends soon after, double does not."""
ROUNDING = {"float32": 2.0**-24, "float64": 2.0**-53, "bfloat16": 2.0**-9}


def look(seed: int, times: int, tell: Tell) -> Seen:
    """Train all runs of a seed with our trainer, and judge what came of it."""
    torch.set_num_threads(1)
    made = plans(seed, RUNS * times)
    verdict = Verdict()
    for number, plan in enumerate(made):
        tell(f"training {number} on the {plan.settings['engine']} engine")
        verdict.findings += [Finding("training", name, number, text, describe(plan)) for name, text in judged(plan)]
        verdict.judges["PyTorch"] += 1
    return Seen(len(made), verdict)


def judged(plan: Plan) -> list[tuple[str, str]]:
    """What differs, by name: losses, tensors of the state, a prediction, or how the run broke off."""
    plan = before_explosion(plan)
    try:
        found = trained(plan)
    except Exception:
        return [("run", traceback.format_exc(limit=-4))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        truth = Judge(plan, torch.float64).run()
        samples = [Judge(plan, torch.float64, noise_of(plan), number).run() for number in range(FEW)]
        if plan.dtype == "float32":
            samples.append(Judge(plan, torch.float32).run())
        if any(text for _, text in differences(plan, found, truth, samples)):
            samples += [Judge(plan, torch.float64, noise_of(plan), number).run() for number in range(FEW, MANY)]
    return differences(plan, found, truth, samples)


def before_explosion(plan: Plan) -> Plan:
    """The steps of a run before its losses leave the range in which rounding is all that types differ by."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        losses = Judge(plan, torch.float64).run()["losses"]
    large = np.flatnonzero(np.isfinite(losses) & (np.abs(losses) > LARGEST))
    return replace(plan, batches=plan.batches[: max(1, int(large[0]))]) if large.size else plan


def noise_of(plan: Plan) -> float:
    """How much one rounding is, relatively."""
    return ROUNDING[plan.settings.get("precision", plan.dtype)]


def differences(
    plan: Plan, found: dict[str, Array], truth: dict[str, Array], samples: Sequence[dict[str, Array]]
) -> list[tuple[str, str]]:
    """What is farther from the truth than rounding explains."""
    told = []
    stay = [n for layer in plan.layers for n in layer.statistics if not set(layer.weights) & set(plan.trained)]
    for name, right in truth.items():
        if name in stay:
            continue  # of layers whose scale and bias are frozen
        text = difference(found[name], right, [sample[name] for sample in samples], ROUNDING[plan.dtype])
        if text:
            told.append((name, text))
    return told


def difference(found: Array, right: Array, samples: Sequence[Array], rounding: float) -> str:
    """The farthest element beyond the limit; nothing where all are within."""
    wide, expected = np.asarray(found, np.float64), np.asarray(right, np.float64)
    if wide.shape != expected.shape:
        return f"has the shape {wide.shape}, expected {expected.shape}"
    with np.errstate(invalid="ignore", over="ignore"):
        spread = np.max([np.abs(np.asarray(sample, np.float64) - expected) for sample in samples], axis=0)
        usual = np.nanmedian(spread) if np.isfinite(spread).any() else 0.0
        limit = ROOM * spread + ROOM / 4 * usual + 8 * rounding * (np.abs(expected) + 1e-30 / rounding)
        is_same = (wide == expected) | (np.isnan(wide) & np.isnan(expected))
        is_open = np.isnan(spread) & np.isfinite(expected)
        wrong = ~(is_same | is_open | (np.abs(wide - expected) <= limit))
    if not wrong.any():
        return ""
    with np.errstate(invalid="ignore"):
        excess = np.where(wrong, np.nan_to_num(np.abs(wide - expected), nan=np.inf) / np.maximum(limit, 1e-300), 0)
    place = np.unravel_index(int(np.argmax(excess)), wide.shape)
    where = f"{int(wrong.sum())} of {wide.size} differ, at {[int(axis) for axis in place]}"
    return f"{where} {wide[place]:.9g} for {expected[place]:.9g}, limit {limit[place]:.2g}"


def trained(plan: Plan) -> dict[str, Array]:
    """What our trainer makes of a plan."""
    trainer = make_trainer(plan)
    losses: list[float] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*left out")
        for step, (x, target) in enumerate(plan.batches):
            if step == plan.checkpoint:
                trainer = resumed(plan, trainer)
            losses.append(trainer.step(x, target))
    x = next(x for x, _ in plan.batches if np.isfinite(x).all())
    return {"losses": np.array(losses), **trainer.state.state_dict(), "prediction": trainer.predict(x)}


def resumed(plan: Plan, trainer: train.Trainer) -> train.Trainer:
    """Another trainer that goes on from a checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint"
        trainer.save_checkpoint(path)
        other = make_trainer(plan)
        other.load_checkpoint(path)
    return other


def make_trainer(plan: Plan) -> train.Trainer:
    settings = plan.settings | {"schedule": plan.schedule_function(), "frozen": plan.frozen or None}
    return train.Trainer(make_graph(plan), plan.loss, plan.optimizer, **settings)


def make_graph(plan: Plan) -> Any:
    """The model of a plan; the batch is open."""
    shape = plan.input_shape[1:] if plan.is_embedded else plan.input_shape
    sizes = ", ".join(map(str, ("N", *shape)))
    with intaglio.build("hunted", inputs={"x": f"{'int64' if plan.is_embedded else plan.dtype}[{sizes}]"}) as g:
        value: Any = g["x"]
        for layer in plan.layers:
            arrays = {**layer.weights, **layer.statistics}
            value = apply(layer, value, {n.partition(".")[2]: g.constant(a, n) for n, a in arrays.items()}, plan.dtype)
        g.output(y=value)
    return g.graph


def apply(layer: Layer, x: Any, w: dict[str, Any], dtype: str) -> Any:
    """A layer in our operators."""
    match layer.kind:
        case "embedding":
            return ops.Gather(w["table"], x)
        case "dense":
            return dense(layer, x, w)
        case "residual":
            return x + ops.Tanh(ops.MatMul(x, w["weight"]))
        case "tied":
            return ops.MatMul(ops.Tanh(ops.MatMul(x, w["weight"])), ops.Transpose(w["weight"], perm=[1, 0]))
        case "activation":
            return getattr(ops, layer.word)(x)
        case "root":
            return ops.Sqrt(ops.Abs(x))
        case "normalization":
            return ops.BatchNormalization(x, w["scale"], w["bias"], w["mean"], w["var"])
        case "layer normalization":
            return ops.LayerNormalization(x, w["scale"], w["bias"], axis=-1)
        case "convolution":
            margin, stride = layer.numbers
            return ops.Conv(x, w["weight"], w.get("bias"), pads=[margin] * 4, strides=[stride] * 2)
        case "pool":
            return getattr(ops, layer.word)(x, kernel_shape=[2, 2], strides=[2, 2])
        case "attention":
            q, k, v = (ops.MatMul(x, w[name]) for name in "qkv")
            scores = ops.MatMul(q, ops.Transpose(k, perm=[0, 2, 1])) / np.array(2, dtype)
            return ops.MatMul(ops.Softmax(scores, axis=-1), v)
        case "mean":
            return ops.ReduceMean(x, list(layer.numbers), keepdims=0)
        case _:
            return ops.LogSoftmax(x, axis=1)


def dense(layer: Layer, x: Any, w: dict[str, Any]) -> Any:
    """A dense layer as a Gemm of two axes, or as a product and a sum."""
    if layer.word and x.rank == 2:
        return ops.Gemm(x, w["weight"], w.get("bias"), transB=1)
    product = ops.MatMul(x, ops.Transpose(w["weight"], perm=[1, 0]) if layer.word else w["weight"])
    return product + w["bias"] if "bias" in w else product


def describe(plan: Plan) -> str:
    """A run in a line."""
    layers = ", ".join(f"{layer.kind} {layer.word}".strip() for layer in plan.layers)
    settings = {name: value for name, value in plan.settings.items() if value not in ([], None)}
    return f"[{plan.dtype}: {layers}; {plan.loss}; {plan.optimizer}; {plan.schedule}; frozen {plan.frozen}; {settings}]"
