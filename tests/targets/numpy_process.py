"""A process that runs plans by the NumPy executor, and never sees the C target: `python numpy_process.py FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from tests.targets.numpy_executor import NumPyExecutor

from intaglio.kernels.plan_check import check_plan
from intaglio.kernels.plan_data import plan_from_data
from intaglio.runtime.engine.outline import outline_of
from intaglio.runtime.engine.plan_engine import PlanEngine
from intaglio.runtime.engine.stored import StoredRest
from intaglio.targets.step import PlanSource


def main(folder: Path) -> None:
    """Run each plan of a folder twice, the second time by the short way, and write the outputs."""
    executor = NumPyExecutor()
    for path in sorted(folder.glob("*.json")):
        form = plan_from_data(json.loads(path.read_text()))
        check_plan(form)
        executor.compile([form], lambda done, total: None)
        with np.load(path.with_suffix(".constants.npz")) as file:
            constants = [file[str(place)] for place in range(len(form.constants))]
        with np.load(path.with_suffix(".inputs.npz")) as file:
            inputs = [file[str(place)] for place in range(len(form.inputs))]
        outline = outline_of(form)
        steps = executor.load(PlanSource(outline.frames, lambda form=form: form), None, constants, 1)
        engine = PlanEngine(outline, steps, StoredRest(lambda name: None, None), lambda form=form: form)
        first, again = engine.run(inputs), engine.run_again(inputs)
        assert again is not None, "the second run takes the short way"
        for left, right in zip(first, again, strict=True):
            np.testing.assert_array_equal(left, right)
        np.savez(path.with_suffix(".outputs.npz"), **{str(place): array for place, array in enumerate(again)})
    known = [name for name in sys.modules if name.startswith(("intaglio.targets.c", "intaglio.targets.plain"))]
    print(json.dumps(known))


main(Path(sys.argv[1]))
