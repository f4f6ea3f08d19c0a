"""Plans on one CUDA device: the executor of CUDA."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from intaglio.errors import CompileError, UnsupportedError
from intaglio.ir.types import TensorType
from intaglio.kernels.kernel import Kernel, LibraryCall
from intaglio.kernels.plan import Call, walk
from intaglio.memory.arena import Layout
from intaglio.targets.c.executor import CExecutor
from intaglio.targets.cuda.arena import places
from intaglio.targets.cuda.compiler import prelude
from intaglio.targets.cuda.device import Device, device
from intaglio.targets.cuda.functions import ATTENTION, function_of
from intaglio.targets.cuda.libraries import library
from intaglio.targets.cuda.segment import DeviceStep, Port
from intaglio.targets.cuda.target_rules import CudaRules
from intaglio.targets.cuda.units import units_of
from intaglio.targets.cuda.weights import Weights
from intaglio.targets.errors import RefusedPlanError
from intaglio.targets.executor import Progress
from intaglio.targets.step import PlanSource

if TYPE_CHECKING:
    from intaglio.kernels.plan_form import PlanForm

_NOT_STORED = "models for a CUDA device are not stored compiled; load the model itself with device='cuda'"


class CudaExecutor(CExecutor):
    """Plans on a device; what the machine's own processor does (clocks, threads, files) is as for C."""

    def __init__(self, number: int = 0, *, tf32: bool = False) -> None:
        self._rules = CudaRules(tf32=tf32)
        super().__init__(self._rules.target)
        self._number = number

    @property
    def description(self) -> str:
        """The device, for people."""
        return f"cuda:{self._number}"

    @property
    def rules(self) -> CudaRules:  # pyright: ignore[reportIncompatibleMethodOverride]
        """What lowering asks of the device."""
        return self._rules

    @property
    def device(self) -> Device:
        """The device; raises DeviceError where there is none."""
        return device(self._number)

    @property
    def can_compile(self) -> bool:
        """NVRTC compiles, or an error names the wheel that brings it."""
        return True

    @property
    def keeps_plans(self) -> bool:
        """No plan for a device is stored."""
        return False

    def compile(self, forms: Sequence[PlanForm], progress: Progress) -> list[int]:
        """Nothing yet: which variants of kernels run, sizes decide. Raises DeviceError where there is no device."""
        _ = self.device, library("libnvrtc")
        refused = _refused(forms[0])
        if refused:
            reason, names = next(iter(refused.items()))
            raise RefusedPlanError(CompileError(reason), names)
        return []

    def compile_together(self, forms: Sequence[PlanForm], progress: Progress | None) -> int:
        """Nothing is compiled ahead of the sizes of a run."""
        return 0

    def load(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, plan: PlanSource, code: Sequence[int], constants: Sequence[Any], threads: int
    ) -> list[DeviceStep]:
        """The segments of a plan, whose constants are copied to the device."""
        form, weights = plan.read(), Weights(self.device, constants)
        units = units_of(self.device)
        return [
            DeviceStep(frame, segment, _ports(form, segment.inputs), weights, self.device, units)
            for frame, segment in zip(plan.frames, form.segments, strict=True)
        ]

    def functions(self, form: PlanForm) -> list[Any]:
        """None that a cache could hold."""
        return []

    def keys(self, form: PlanForm) -> list[str]:
        """Raises UnsupportedError."""
        raise UnsupportedError(_NOT_STORED)

    def machine_code(self, forms: Sequence[PlanForm]) -> list[tuple[bytes, dict[str, str]]]:
        """Raises UnsupportedError."""
        raise UnsupportedError(_NOT_STORED)

    def source_file(self, title: str, forms: Sequence[PlanForm]) -> str:
        """The CUDA C++ of all kernels, each in a namespace of its own."""
        kernels = dict.fromkeys(kernel for form in forms for kernel in form.kernels if _has_text(kernel))
        texts = [f"namespace kernel{place} {{\n{function_of(kernel).text}}}\n" for place, kernel in enumerate(kernels)]
        return "\n".join([f"/* {title} */", prelude(), *texts])

    def function_lines(self, source: str, kernels: Sequence[Kernel]) -> Mapping[Kernel, tuple[str, int, int]]:
        """The places of kernels in that file."""
        found: dict[Kernel, tuple[str, int, int]] = {}
        for place, kernel in enumerate(each for each in kernels if _has_text(each)):
            name = f"kernel{place}"
            start = source.count("\n", 0, source.find(f"namespace {name} {{")) + 1
            found[kernel] = name, start, start + function_of(kernel).text.count("\n") + 1
        return found

    def arena_size(self, layout: Layout, sizes: Sequence[int]) -> int:
        """What the planner of device memory needs."""
        return places(layout, sizes)[1]

    def read_clocks(self) -> tuple[int, int]:
        """The monotonic clock, twice."""
        now = time.monotonic_ns()
        return now, now


def _has_text(kernel: Kernel) -> bool:
    return not isinstance(kernel.body, LibraryCall) or kernel.body.name == ATTENTION


def _ports(form: PlanForm, names: Sequence[str]) -> list[Port]:
    types = {value.id: value.type for value in form.values}
    return [Port(type.dtype, tuple(type.dims)) for name in names if isinstance(type := types[name], TensorType)]


def _refused(form: PlanForm) -> dict[str, list[tuple[str, ...]]]:
    """Why kernels of a plan have no code for devices, and the ids of the nodes that they serve."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for segment in form.segments:
        for action in walk(segment.actions):
            if isinstance(action, Call) and _has_text(action.kernel):
                try:
                    function_of(action.kernel)
                except UnsupportedError as error:
                    found.setdefault(str(error), []).append(tuple(node.id for node in action.served))
    return found
