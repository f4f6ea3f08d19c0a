"""`intaglio demo`: a first look without a model at hand."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from intaglio.cli import results
from intaglio.cli.demo_model import SIDE, demo_model
from intaglio.cli.options import Option
from intaglio.cli.terminal import JsonOption, print_json, print_table, print_text, seconds, tell
from intaglio.errors import InputError
from intaglio.runtime.model.loading import load
from intaglio.runtime.model.model import Model

BATCH = 4


def demo(
    save: Annotated[
        str | None, Option("--save", metavar="FILE", help="Also write the model to this .onnx file.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compile and run a small residual network on both engines."""
    proto = demo_model()
    if save is not None:
        _save(save, proto.SerializeToString(deterministic=True))
    start = time.perf_counter()
    native = load(proto, engine="native")
    load_seconds = time.perf_counter() - start
    reference = load(proto, engine="reference")
    images = np.random.default_rng(0).standard_normal((BATCH, 3, SIDE, SIDE)).astype(np.float32)
    expected, reference_seconds = _run(reference, images, 3)
    found, native_seconds = _run(native, images, 20)
    report = {
        "outputs": results.summaries({"probabilities": found}),
        "load_seconds": load_seconds,
        "native_seconds": native_seconds,
        "reference_seconds": reference_seconds,
        "largest_difference": float(np.abs(found - expected).max()),
        "explanation": native.explain().to_dict(),
    }
    print_json(report) if as_json else _show(report, native)


def _save(path: str, data: bytes) -> None:
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise InputError(f"{path!r} cannot be written: {error.strerror or error}") from None
    tell(f"model written to {path}")


def _run(model: Model, images: Any, count: int) -> tuple[Any, float]:
    """The output, and the median time after a first run."""
    found = model(images)
    times: list[float] = []
    for _ in range(count):
        start = time.perf_counter()
        found = model(images)
        times.append(time.perf_counter() - start)
    return found, statistics.median(times)


def _show(report: dict[str, Any], native: Model) -> None:
    print_text(f"A residual network on {BATCH} random images of {SIDE}x{SIDE} pixels.\n")
    print_table("Outputs", results.COLUMNS, [results.row(entry) for entry in report["outputs"]])
    ratio = report["reference_seconds"] / report["native_seconds"]
    rows = [
        ("native (compiled C)", seconds(report["native_seconds"]), f"{ratio:.0f} times faster"),
        ("reference (NumPy)", seconds(report["reference_seconds"]), ""),
    ]
    print_table("Time of a run", ("engine", "#time", ""), rows)
    print_text(f"largest difference between the two: {report['largest_difference']:.2g}")
    print_text(f"compiled and loaded in {seconds(report['load_seconds'])}\n")
    print_text(str(native.explain()).partition("\nsimplified:")[0])
