"""Whether a simplified model answers as the original does."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from intaglio.errors import InputError
from intaglio.ir.graph import Graph
from intaglio.onnx.reader import read_model
from intaglio.runtime.engine.binding import bind
from intaglio.tools.samples import Difference, differences, has_onnxruntime, make_feeds, runner, worst
from intaglio.tools.simplifying.simplify import Simplified

TOLERANCE = 1e-3
"""How far an output may be from the original, by the largest value in it."""


def check(
    model: Any,
    simplified: Simplified,
    count: int,
    *,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    tolerance: float = TOLERANCE,
    progress: Callable[[int, int], None] | None = None,
) -> list[Difference]:
    """Run the original and the simplified model on made-up inputs; returns the largest difference of each output.

    ONNX Runtime runs both where it is installed, else the reference engine. Raises InputError where an output is
    farther away than `tolerance` times its largest value.
    """
    graph = read_model(model).graph
    names = [value.name for value in simplified.written.graph.outputs]
    per_sample = list[list[Difference]]()
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "simplified.onnx"
        simplified.save(target)
        before, after = runner(model), runner(target)
        places = _places(names, [value.name for value in graph.outputs])
        for number in range(count):
            feeds = make_feeds(_fed(graph, simplified), seed + number, dims)
            expected = before(feeds)
            per_sample.append(differences(names, [expected[place] for place in places], after(feeds)))
            if progress is not None:
                progress(number + 1, count)
    found = worst(per_sample)
    wrong = [each for each in found if not each.relative <= tolerance]
    if wrong:
        judge = "ONNX Runtime" if has_onnxruntime() else "the reference engine"
        listed = "; ".join(map(str, wrong))
        raise InputError(f"the simplified model answers otherwise, as {judge} runs it: {listed}. Try exact=True")
    return found


def _places(names: Sequence[str], known: Sequence[str]) -> list[int]:
    missing = [name for name in names if name not in known]
    if missing:
        raise InputError(f"{missing[0]!r} is no output of the original, so that nothing can be compared with it")
    return [known.index(name) for name in names]


def _fed(original: Graph, simplified: Simplified) -> Graph:
    """The graph whose inputs are made up: that with the sizes which were given."""
    given = {value.name for value in simplified.written.graph.inputs}
    wanted = {value.name for value in original.inputs if value.default is None}
    return simplified.written.graph if wanted <= given else original


def sizes_of(graph: Graph, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The numbers that shapes of inputs give to sizes that have names; raises InputError where they do not fit."""
    inputs, known = {value.name: value for value in graph.inputs}, dict[str, int]()
    for name, shape in shapes.items():
        if name not in inputs:
            raise InputError(f"there is no input {name!r}; the inputs are {', '.join(map(repr, inputs))}")
        bind(inputs[name].tensor.shape, tuple(shape), known, f"input {name!r}")
    return known
