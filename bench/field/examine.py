"""One model in a fresh process: `python -m bench.field.examine NAME FILE` loads it, runs every case and judges.

The file is written after each step, so that a process which is killed or ends leaves how far it came.
"""

import json
import math
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.field.specimen import Specimen, flat
from bench.footprint import memory, sizes_of
from bench.peers import OnnxRuntime
from bench.worker import processor_seconds

# The largest difference that counts as agreement, relative to the largest value of the output. A quantised model rounds
# in its middle, where a difference in the last bit moves a value by a step.
TOLERANCES = {"float64": 1e-6, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1, "quantised": 5e-2}
STEPS = ("read", "load", "first run", "cases", "explain", "done")


class Notes:
    """What is known so far, on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, Any] = {"step": STEPS[0]}

    def add(self, **facts: Any) -> None:
        """Keep facts."""
        self.found |= facts
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(self.found))
        partial.replace(self.path)


def examine(specimen: Specimen, threads: int, notes: Notes) -> None:
    """All steps; whatever a step raises is a fact."""
    notes.add(step="read")
    cases, expected = specimen.cases(), specimen.expected()
    tolerance = tolerance_of(specimen.path, cases + [dict(enumerate(e)) for e in expected])
    notes.add(step="load", tolerance=tolerance)
    import intaglio

    start, used = time.perf_counter(), processor_seconds()
    model = intaglio.load(specimen.path, engine="native", threads=threads)
    loaded = time.perf_counter()
    notes.add(step="first run", load=loaded - start)
    model.run(cases[0])
    used = processor_seconds() - used
    notes.add(step="cases", cold=time.perf_counter() - start, cold_cpu=used, peak=memory("VmHWM"))
    found = [_judge(model, cases[place], expected[place], tolerance) for place in _order(len(cases))]
    notes.add(cases=found)
    before = model.host_runs
    model.run(cases[0])
    notes.add(step="explain", host_runs=model.host_runs - before)
    notes.add(
        explain=timed(lambda: str(model.explain())), plan=timed(lambda: model.memory_plan(sizes_of(model, cases[0])))
    )
    notes.add(step="done", host=[[list(call.nodes), call.reason] for call in model.explain().host_nodes])
    _add_spread(specimen, model, found, tolerance)
    notes.add(cases=found)


def _add_spread(specimen: Specimen, model: Any, found: list[dict[str, Any]], tolerance: float) -> None:
    """Where answers differ, tell by how much those of the judge with and without its optimisations do, and by how much
    ours and those with them.

    Rounding in the middle of a quantised model moves answers by far more than the tolerance, on any engine.
    """
    if not any(tolerance < case["error"] < math.inf for case in found):
        return
    feeds, expected = specimen.cases(), specimen.expected()
    session = OnnxRuntime(specimen.path, 1, {}).session
    for case, place in zip(found, _order(len(feeds)), strict=True):
        if case["error"] > tolerance:
            answers = [array for answer in session.run(None, feeds[place]) for array in flat(answer)]
            ours = [array for value in model.run(feeds[place]).values() for array in flat(value)]
            case["spread"], case["optimised"] = (difference(answers, each)[0] for each in (expected[place], ours))


def _order(count: int) -> list[int]:
    """Each case, forth and back."""
    return [*range(count), *range(count - 2, -1, -1)]


def _judge(model: Any, feeds: dict[str, np.ndarray], expected: list[np.ndarray], tolerance: float) -> dict[str, Any]:
    sizes = {name: list(array.shape) for name, array in feeds.items()}
    try:
        answers = [array for value in model.run(feeds).values() for array in flat(value)]
    except Exception:  # a refusal of this size is a result
        return {"sizes": sizes, "error": math.inf, "why": traceback.format_exc()[-3000:]}
    error, why = difference(answers, expected)
    return {"sizes": sizes, "error": error, "why": why if error > tolerance else ""}


def timed(work: Callable[[], object]) -> dict[str, Any]:
    """The seconds that something took, and how it failed."""
    start = time.perf_counter()
    try:
        work()
        failure = ""
    except Exception:
        failure = traceback.format_exc()[-3000:]
    return {"seconds": time.perf_counter() - start, "failure": failure}


def difference(actual: list[np.ndarray], expected: list[np.ndarray]) -> tuple[float, str]:
    """The worst relative difference of any output, and where it is. Text and whole numbers must be the same.

    >>> difference([np.array([1.0, 2.2])], [np.array([1.0, 2.0])])
    (0.1, 'output 0 of shape (2,)')
    """
    if len(actual) != len(expected):
        return math.inf, f"{len(actual)} arrays instead of {len(expected)}"
    worst, where = 0.0, ""
    for place, (a, b) in enumerate(zip(actual, expected, strict=True)):
        error, why = _one_difference(a, b)
        if error > worst:
            worst, where = error, f"output {place} of shape {b.shape}{why}"
    return worst, where


def _one_difference(actual: np.ndarray, expected: np.ndarray) -> tuple[float, str]:
    if actual.shape != expected.shape:
        return math.inf, f": ours has shape {actual.shape}"
    if actual.dtype != expected.dtype and "U" not in (actual.dtype.kind, expected.dtype.kind):
        return math.inf, f": {actual.dtype} instead of {expected.dtype}"
    if expected.dtype.kind not in "fcV":
        wrong = int(np.sum(actual != expected))
        return (math.inf, f": {wrong} of {expected.size} values differ, none may") if wrong else (0.0, "")
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    a, b = actual.astype(wide), expected.astype(wide)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
        return math.inf, ": other values are infinite or no number"
    worst = float(np.abs(a[finite] - b[finite]).max(initial=0.0))
    scale = float(np.abs(b[finite]).max(initial=0.0))
    return (round(worst / scale, 12) if scale > 0 else worst), ""


def tolerance_of(path: Path, arrays: list[dict[Any, np.ndarray]]) -> float:
    """That of the least exact type which the model computes in."""
    import onnx

    proto = onnx.load(path, load_external_data=False)
    text = {node.op_type for node in all_nodes(proto)}
    if any(re.search(r"Quantize|Integer|QLinear|QAttention|QGemm|MatMulNBits|QMoE", name) for name in text):
        return TOLERANCES["quantised"]
    types = {str(array.dtype) for case in arrays for array in case.values()}
    types |= {onnx.TensorProto.DataType.Name(item.data_type).lower() for item in proto.graph.initializer}
    for name in ("bfloat16", "float16"):
        if name in types:
            return TOLERANCES[name]
    is_double = "float64" in types and "float32" not in types and "float" not in types
    return TOLERANCES["float64" if is_double else "float32"]


def all_nodes(proto: Any) -> list[Any]:
    """Those of the graph, of its inner graphs and of the functions."""
    found, waiting = [], [*proto.graph.node, *(node for function in proto.functions for node in function.node)]
    while waiting:
        node = waiting.pop()
        found.append(node)
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                waiting.extend(graph.node)
    return found


def main(name: str, path: Path, threads: int) -> None:
    """Examine, and keep what is raised."""
    from bench.field.catalogue import by_name

    notes = Notes(path)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            examine(by_name(name), threads, notes)
        except Exception as error:
            notes.add(failure=f"{type(error).__name__}: {error}"[:600], traceback=traceback.format_exc()[-6000:])
    # What Intaglio works around although it should not have to is a fault too.
    notes.add(faults=[str(each.message)[:600] for each in told if each.category.__name__ == "FaultWarning"])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
