"""Made-up inputs for two models, and how far apart their answers are."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from intaglio.errors import InputError
from intaglio.ir.graph import Graph
from intaglio.runtime.model import random_inputs
from intaglio.runtime.model.loading import load

Feeds = dict[str, Any]
Runner = Callable[[Feeds], list[Any]]


@dataclass
class Difference:
    """How far an output is from the expected one: the largest distance, and the largest by the scale of the output."""

    name: str
    absolute: float = 0.0
    relative: float = 0.0
    sample: int = 0

    def __str__(self) -> str:
        return f"{self.name}: {self.absolute:.3g} ({self.relative:.3g} of the largest value)"


def make_feeds(graph: Graph, seed: int, sizes: Mapping[str, int] | None = None) -> Feeds:
    """Random values for all inputs that have no default, two rows where nothing says how many.

    Raises InputError for a size that is not there and for an input that nothing can be made up for.
    """
    return random_inputs.make_feeds(graph, {}, sizes or {}, seed, rows=2)


def has_onnxruntime() -> bool:
    """Whether ONNX Runtime is installed."""
    return importlib.util.find_spec("onnxruntime") is not None


def runner(model: str | Path | bytes, engine: str | None = None) -> Runner:
    """What runs a model: ONNX Runtime without optimisations where it is installed, else the reference engine."""
    if engine == "onnxruntime" or (engine is None and has_onnxruntime()):
        return _onnxruntime(model)
    loaded = load(model, engine="reference")
    return lambda feeds: list(loaded.run(feeds).values())


def _onnxruntime(model: str | Path | bytes) -> Runner:
    runtime: Any = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        source = model if isinstance(model, bytes) else str(model)
        session = runtime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise InputError(f"ONNX Runtime does not load the model: {str(error).strip()[:400]}") from None

    def run(feeds: Feeds) -> list[Any]:
        try:
            return session.run(None, feeds)
        except Exception as error:
            raise InputError(f"ONNX Runtime does not run the model: {str(error).strip()[:400]}") from None

    return run


def differences(names: Sequence[str], expected: Sequence[Any], found: Sequence[Any]) -> list[Difference]:
    """How far each output is from the expected one; infinitely where shape, type or text differ."""
    return [Difference(name, *_distance(left, right)) for name, left, right in zip(names, expected, found, strict=True)]


def _distance(expected: Any, found: Any) -> tuple[float, float]:
    if isinstance(expected, list):
        pairs = [_distance(*each) for each in zip(expected, found, strict=True)]
        return max((a for a, _ in pairs), default=0.0), max((r for _, r in pairs), default=0.0)
    left, right = np.asarray(expected), np.asarray(found)
    if left.shape != right.shape:
        return float("inf"), float("inf")
    if left.dtype.kind not in "fiubcV" or right.dtype.kind not in "fiubcV":
        return (0.0, 0.0) if bool((left == right).all()) else (float("inf"), float("inf"))
    kind = np.complex128 if left.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"), warnings.catch_warnings():
        left, right = left.astype(kind), right.astype(kind)
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        gap = np.where(same, 0.0, np.abs(left - right))
    absolute = float(np.max(np.nan_to_num(gap, nan=np.inf, posinf=np.inf), initial=0.0))
    finite = np.abs(left[np.isfinite(left)])
    largest = float(finite.max(initial=0.0))
    return absolute, 0.0 if absolute == 0 else absolute / largest if largest else float("inf")


def worst(per_sample: Sequence[Sequence[Difference]]) -> list[Difference]:
    """For each output its largest difference over all samples."""
    found: list[Difference] = []
    for outputs in zip(*per_sample, strict=True):
        place = max(range(len(outputs)), key=lambda index: outputs[index].relative)
        found.append(Difference(outputs[place].name, outputs[place].absolute, outputs[place].relative, place))
    return found
