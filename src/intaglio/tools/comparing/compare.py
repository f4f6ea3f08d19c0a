"""`compare`: outputs first; where they differ, tensor by tensor to the first node that differs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from intaglio.onnx.reader import Source
from intaglio.runtime.engine.engine import EngineName
from intaglio.tools.comparing.bisect import bisect
from intaglio.tools.comparing.loading import Loading
from intaglio.tools.comparing.results import Comparison
from intaglio.tools.comparing.tolerances import Tolerances, make_tolerances
from intaglio.tools.comparing.work import Progress, Work
from intaglio.tools.cutting.chunks import CHUNK_BYTES
from intaglio.tools.document import Document


def compare(
    model: Source | Document,
    against: Any = "reference",
    *,
    feeds: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    samples: int = 1,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    rtol: float | Mapping[str, float] | None = None,
    atol: float | Mapping[str, float] | None = None,
    tolerances: Tolerances | None = None,
    tensors: bool | None = None,
    bisection: bool = False,
    engine: EngineName | None = None,
    threads: int | None = None,
    simplify: bool = True,
    disable: Collection[str] = (),
    exact: bool = False,
    memory: int = CHUNK_BYTES,
    progress: Progress | None = None,
) -> Comparison:
    """Run a model here and elsewhere, and compare.

    `against` is "ort", "reference", "openvino", another model, an .npz file or a dict of results, "module:function" or
    a function of a dict of inputs. Inputs are `feeds`, one or several sets of them, and made up where none are given:
    `samples` sets, from `seed` on. `rtol` and `atol` are numbers, or numbers by element type and by name of a tensor.
    Outputs are compared first. Tensors in between are, some at a time so that they take about `memory` bytes, where
    outputs differ; with `tensors=True` always and with False never. `bisection` finds the pass, the kernel or the
    fusion to blame. Raises PeerError where the other side is not installed or does not take the model.
    """
    work = Work(model, Loading(engine, threads, simplify, tuple(disable), exact), progress)
    work.tolerances = tolerances or make_tolerances(rtol, atol)
    work.open(against)
    work.samples = work.make_samples(feeds, samples, seed, dims or {})
    found = work.compare_outputs()
    differs = any(not each.is_equal for each in found.outputs)
    if tensors or (differs and tensors is not False):
        work.compare_tensors(found, memory, stops=not tensors)
        found.are_tensors_judged = bool(tensors)
    if differs:
        found.weights = work.compare_weights(against)
    if bisection and differs:
        first = None if found.first is None else found.first.tensor
        found.bisection = bisect(work, first, [each.name for each in found.weights])
    return found
