"""Segments as compiled C, bound to sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from intaglio.ir.limits import most_bytes
from intaglio.ir.substitution import evaluate
from intaglio.kernels.frame import Frame
from intaglio.targets.arrays import LateArray, exportable
from intaglio.targets.c.native import Counters, Prepared, SegmentCode, invoke_function, plan_apart, planned
from intaglio.targets.c.toolchain import is_sanitized
from intaglio.targets.step import Direct, Into, Ready, SizeOverflowError, Step, places

if TYPE_CHECKING:
    from intaglio.kernels.plan_form import PlanForm, SegmentForm

ReadForm = Callable[[], "tuple[PlanForm, SegmentForm]"]
"""The plan that a segment is of, and the segment in it."""


class CStep(Step):
    """A segment whose functions are in memory; its plan is read where a message or large sizes need it."""

    def __init__(
        self,
        frame: Frame,
        driver: int,
        kernels: Sequence[int],
        constants: Sequence[int],
        threads: int,
        weights: int,
        form: ReadForm,
    ) -> None:
        super().__init__(frame, weights)
        rounds, memory = self.limits.loop_iterations, max(1, most_bytes() - weights)
        inputs, outputs = len(frame.inputs), len(frame.late)
        self.code = SegmentCode(driver, kernels, constants, inputs, outputs, threads, frame.late, rounds, memory)
        self._form = form
        self._invoke = invoke_function()
        self._is_plain = not (frame.is_narrow or any(frame.late) or len(frame.late) > len(frame.results))

    def call(
        self, ready: Ready, inputs: Sequence[Any], time: int, told: Sequence[Any] = (), into: Into | None = None
    ) -> tuple[int, list[Any]]:
        """The driver's status and the outputs."""
        if self.frame.aliases:
            into = self.with_aliases(inputs, into)
        if self._is_plain:
            made = [np.empty(shape, dtype) for shape, dtype in ready.outputs] if into is None else places(ready, into)  # pyright: ignore
            if self.frame.aliases:
                self.check_aliases(inputs, made)
            return self._invoke(ready.prepared.handle, time, *inputs, *made), made
        found = places(ready, into)
        self.check_aliases(inputs, found)
        outputs: list[Any] = [
            LateArray(ready.outputs[place][1], partial(self._maker, place)) if array is None else array
            for place, array in enumerate(found)
        ]
        given = [exportable(array) for array in inputs]
        taken = [item if isinstance(item, LateArray) else exportable(item) for item in outputs]
        status = self._invoke(ready.prepared.handle, time, *given, *taken, *told)
        if status == 0:
            outputs = [item.array if isinstance(item, LateArray) else item for item in outputs]
        return status, outputs

    def direct(self, ready: Ready, time: int) -> Direct | None:
        """What runs the segment on addresses; None where a run tells the shape of an output or more than outputs."""
        is_open = any(self.frame.late) or len(self.frame.late) > len(self.frame.results)
        if is_open or self.frame.aliases:
            return None
        return Direct(ready.prepared.handle, time)

    def count(self, actions: int, most_events: int = 0) -> Counters:
        """The driver's own counters."""
        return self.code.count(actions, most_events)

    def stop_counting(self) -> None:
        """Take no times of runs that begin from now on."""
        self.code.stop_counting()

    def prepare(self, bindings: dict[str, int], rooms: Sequence[int]) -> Prepared:
        """A call of the driver without its buffers."""
        frame = self.frame
        offsets, total = planned(frame.layout, rooms)
        frame.check_memory(bindings, rooms, total, self.weights, self.limits)
        dims = [bindings[name] for name in frame.symbols]
        if max(map(abs, dims), default=-1) > frame.safe and not self._fits(bindings):
            raise SizeOverflowError
        work = sum(evaluate(flops, bindings) for flops in frame.work)
        gaps: list[int] = []
        if is_sanitized():
            offsets, total, gaps = plan_apart(rooms)
        return self.code.prepare(dims, offsets, total, min(max(1, work // 32), 2**60), gaps=gaps)

    def _maker(self, place: int) -> str:
        form, _ = self._form()
        made_by = form.value(self.frame.outputs[place]).made_by
        return f"output {self.frame.results[place].name!r}" + ("" if made_by is None else f" of {made_by}")

    def _fits(self, bindings: dict[str, int]) -> bool:
        """Whether all that the driver computes from sizes over `safe` fits."""
        from intaglio.kernels.overflow import fits
        from intaglio.kernels.segment_sizes import given_dims

        _, segment = self._form()
        return fits(given_dims(segment), bindings)
