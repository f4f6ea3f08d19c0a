"""What a target supplies so that the engine can run plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from intaglio.kernels.kernel import Kernel
    from intaglio.kernels.plan_form import PlanForm
    from intaglio.kernels.target_rules import TargetRules
    from intaglio.memory.arena import Layout
    from intaglio.onnx.mapped import Guard
    from intaglio.targets.counters import Count
    from intaglio.targets.step import PlanSource, Step

Progress = Callable[[int, int], None]


class Counters(Protocol):
    """The times of a segment's runs, added up."""

    def whole(self) -> Count:
        """All runs, from beginning to end."""
        ...

    def action(self, place: int) -> Count:
        """One action of the segment, in the order of `walk`."""
        ...

    def events(self) -> list[tuple[int, int, int]]:
        """The number of an action, -1 for a whole run, and the ticks at which it began and ended, one by one."""
        ...


class Executor(Protocol):
    """Plans as code of one target, ready to run.

    The engine specialises graphs by sizes, binds sizes, checks them, runs host nodes and keeps what it prepared; it
    asks its executor for everything that depends on the target.
    """

    @property
    def description(self) -> str:
        """The target, for people."""
        ...

    @property
    def rules(self) -> TargetRules:
        """What lowering asks of the target."""
        ...

    def compile(self, forms: Sequence[PlanForm], progress: Progress) -> Any:
        """Make the code of these plans where it is not there yet; returns that of the first, in the target's own terms.

        Raises RefusedPlanError for code that cannot be made.
        """
        ...

    def load(self, plan: PlanSource, code: Any, constants: Sequence[Any], threads: int) -> Sequence[Step]:
        """The segments of a plan, ready to run; `code` is what `compile` or `stored_code` gave for it.

        The caller keeps the constants, and what it hands to steps, alive.
        """
        ...


class Host(Executor, Protocol):
    """The executor for this machine's own processor, whose code can be stored, printed and counted."""

    @property
    def target(self) -> Any:
        """The kind of processor, as `executor_for` takes it."""
        ...

    @property
    def is_quick(self) -> bool:
        """Whether the compiler leaves out what takes it long."""
        ...

    @property
    def can_compile(self) -> bool:
        """Whether there is something that compiles code which was not compiled before."""
        ...

    @property
    def keeps_plans(self) -> bool:
        """Whether plans may be kept for later processes."""
        ...

    @property
    def identity(self) -> str:
        """All that code depends on besides plans; other text means that stored plans do not fit."""
        ...

    def description_data(self) -> dict[str, Any]:
        """The target as JSON holds it, for `executor_from_data`."""
        ...

    def compile_together(self, forms: Sequence[PlanForm], progress: Progress | None) -> int:
        """Make the code of all these plans at once, but for what is refused; returns the number of functions."""
        ...

    def functions(self, form: PlanForm) -> Sequence[Any]:
        """The functions of a plan in the target's own terms: its kernels, then the driver of each segment."""
        ...

    def keys(self, form: PlanForm) -> list[str]:
        """What addresses each function's code, in the order of `functions`."""
        ...

    def machine_code(self, forms: Sequence[PlanForm]) -> list[tuple[bytes, dict[str, str]]]:
        """Libraries that hold all functions of plans, each with the symbols of its functions by their keys."""
        ...

    def cached_code(self, forms: Sequence[PlanForm]) -> dict[str, dict[str, str]]:
        """The same by the names that the libraries have in the cache. Raises CompileError where it lacks one."""
        ...

    def lacks(self) -> list[str]:
        """What this machine's processor lacks to run the code."""
        ...

    def adopt(self, libraries: Sequence[tuple[Any, dict[str, str]]]) -> None:
        """Use code that was stored: libraries as bytes, or by their names in the cache.

        Raises CompileError where this processor cannot run it.
        """
        ...

    def stored_code(self, keys: Sequence[str]) -> Any:
        """The code under these keys, as `load` takes it; None where not all of it was adopted, or it does not fit."""
        ...

    def find_plan(self, name: str) -> Path | None:
        """The file of a plan that was kept under a name."""
        ...

    def keep_plan(self, name: str, write: Callable[[Path], int | None]) -> None:
        """Keep what `write` leaves in a file, and returns the size of, under a name, if that can be done."""
        ...

    def source_file(self, title: str, forms: Sequence[PlanForm]) -> str:
        """All code of some plans as one file of source that compiles alone."""
        ...

    def function_lines(self, source: str, kernels: Sequence[Kernel]) -> Mapping[Kernel, tuple[str, int, int]]:
        """The name, first and last line of the function of each kernel in what `source_file` gave."""
        ...

    def arena_size(self, layout: Layout, sizes: Sequence[int]) -> int:
        """The bytes of an arena whose buffers have these sizes."""
        ...

    def read_clocks(self) -> tuple[int, int]:
        """The ticks that counters count in, and nanoseconds of the monotonic clock, at the same moment."""
        ...

    def direct_call(self) -> Callable[..., int]:
        """What calls a `Direct`: `call(handle, time, *addresses)`."""
        ...

    def using_threads(self, threads: int) -> AbstractContextManager[None]:
        """Run on so many threads from this one, itself included, whatever code was loaded for."""
        ...

    def watching(self, flag: int) -> AbstractContextManager[None]:
        """Stop runs of this thread once the int32 at an address is not 0; the caller keeps it alive."""
        ...

    def keeping_no_memory(self) -> AbstractContextManager[None]:
        """Give memory back after each run of this thread, where some is kept for the next."""
        ...

    def file_guard(self) -> Guard:
        """What watches mapped files. Raises CompileError where it cannot be had."""
        ...
