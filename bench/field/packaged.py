"""Models that come inside wheels, and the other models of the benchmark."""

import numpy as np

from bench import check, models
from bench.field.generation import judge
from bench.field.specimen import Made, NotExported


def benchmark(name: str) -> Made:
    """A model of `python -m bench`, at its usual size and, where its batch is open, two others."""
    (model,) = models.select([name])
    try:
        path = model.path()
    except models.Unavailable as error:
        raise NotExported(str(error)) from error
    shapes = {item.name: item.shape for item in judge(path).get_inputs()}
    axes = check.open_axes(model, shapes)
    cases = [model.feeds(1)]
    if model.largest_batch is None and check.BATCH in axes:
        cases += [check.resized(model, axes, {**_usual(model.feeds(1), axes), check.BATCH: batch}) for batch in (2, 3)]
    return Made(path, cases)


def _usual(feeds: dict[str, np.ndarray], axes: dict[str, list[tuple[str, int]]]) -> dict[str, int]:
    return {name: feeds[where[0][0]].shape[where[0][1]] for name, where in axes.items()}
