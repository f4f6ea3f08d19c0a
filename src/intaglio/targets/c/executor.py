"""Plans as compiled C: the executor of the C target."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intaglio.errors import CompileError
from intaglio.memory.arena import Layout
from intaglio.targets.arrays import exportable
from intaglio.targets.c import cache, native
from intaglio.targets.c.cache import default_cache
from intaglio.targets.c.library import has_adopted_runtime, runtime, runtime_function
from intaglio.targets.c.step import CStep
from intaglio.targets.c.target import TARGETS, Target, host_target, missing_features
from intaglio.targets.c.toolchain import RefusedError, compiler_identity, is_sanitized
from intaglio.targets.c.units import CFunction, function_key
from intaglio.targets.errors import RefusedPlanError

if TYPE_CHECKING:
    from intaglio.kernels.kernel import Kernel
    from intaglio.kernels.plan_form import PlanForm
    from intaglio.targets.c.target_rules import CRules
    from intaglio.targets.executor import Progress
    from intaglio.targets.step import PlanSource


class CExecutor:
    """Plans as C, compiled for one target; see `intaglio.targets.executor.Host`."""

    def __init__(self, target: Target | None = None, *, is_quick: bool = False) -> None:
        self.target = target or host_target()
        if is_quick:
            self.target = replace(self.target, is_quick=True)

    @property
    def description(self) -> str:
        """The name of the target, and what else users choose."""
        return self.target.description

    @property
    def rules(self) -> CRules:
        """What lowering asks of C."""
        from intaglio.targets.c.target_rules import CRules

        return CRules(self.target)

    @property
    def is_quick(self) -> bool:
        """Whether the compiler leaves out what takes it long."""
        return self.target.is_quick

    @property
    def can_compile(self) -> bool:
        """Whether there is a C compiler."""
        from intaglio.targets.c.compiler import find_compiler

        return find_compiler() is not None

    @property
    def keeps_plans(self) -> bool:
        """Whether code is as it is for users, without checks of its own."""
        return not is_sanitized()

    @property
    def identity(self) -> str:
        """The target and the compiler."""
        target = self.target
        described = sorted(asdict(replace(target, features=frozenset())).items())
        return "\0".join((compiler_identity(), repr(described), repr(sorted(target.features))))

    def description_data(self) -> dict[str, Any]:
        """The target as JSON holds it."""
        target = self.target
        return asdict(target) | {"flags": list(target.flags), "features": sorted(target.features)}

    def compile(self, forms: Sequence[PlanForm], progress: Progress) -> list[int]:
        """The addresses of the functions of the first plan, in the order of `functions`."""
        from intaglio.targets.c.compiler import find_compiler

        own = self.functions(forms[0])
        functions = own + [function for form in forms[1:] for function in self.functions(form)]
        try:
            loaded = cache.ensure(functions, find_compiler(), self.target, progress)
        except RefusedError as error:
            raise RefusedPlanError(error, self._refused(forms[0], own, set(error.functions))) from error
        return [item.address for item in loaded[: len(own)]]

    def compile_together(self, forms: Sequence[PlanForm], progress: Progress | None) -> int:
        """Put the functions of all plans into the cache; returns how many different ones there are."""
        from intaglio.targets.c.compiler import find_compiler

        functions = list(dict.fromkeys(function for form in forms for function in self.functions(form)))
        with contextlib.suppress(RefusedError):  # engines that load deal with what the compiler refuses
            cache.ensure(functions, find_compiler(), self.target, progress)
        return len(functions)

    def _refused(
        self, form: PlanForm, functions: Sequence[CFunction], refused: set[CFunction]
    ) -> list[tuple[str, ...]] | None:
        """The ids of the nodes that refused functions of a plan serve."""
        from intaglio.targets.c.functions import nodes_of_refused

        return None if refused.isdisjoint(functions) else nodes_of_refused(form, functions, refused, self.target)

    def load(self, plan: PlanSource, code: Sequence[int], constants: Sequence[Any], threads: int) -> list[CStep]:
        """The segments of a plan, with the addresses of its kernels and then of its drivers."""
        count = len(code) - len(plan.frames)
        kernels, drivers = code[:count], code[count:]
        addresses = [exportable(array).ctypes.data for array in constants]
        weights = sum(array.nbytes for array in constants)
        return [
            CStep(frame, driver, kernels, addresses, threads, weights, partial(_segment, plan, place))
            for place, (frame, driver) in enumerate(zip(plan.frames, drivers, strict=True))
        ]

    def functions(self, form: PlanForm) -> list[CFunction]:
        """The kernels of a plan, then the driver of each segment."""
        from intaglio.targets.c.functions import functions_of

        return functions_of(form)

    def keys(self, form: PlanForm) -> list[str]:
        """The hashes of the functions' sources and of what they depend on besides the compiler."""
        return [function_key(function, None, self.target).source for function in self.functions(form)]

    def machine_code(self, forms: Sequence[PlanForm]) -> list[tuple[bytes, dict[str, str]]]:
        """Libraries with the functions of plans and the runtime."""
        from intaglio.targets.c.compiler import find_compiler

        functions, compiler = [function for form in forms for function in self.functions(form)], find_compiler()
        found = default_cache().machine_code(functions, self.target, compiler)
        return found + default_cache().machine_code([runtime_function()], TARGETS["c"], compiler)

    def cached_code(self, forms: Sequence[PlanForm]) -> dict[str, dict[str, str]]:
        """Units of the cache with the functions of plans and the runtime."""
        from intaglio.targets.c.compiler import find_compiler

        functions = [(function, self.target) for form in forms for function in self.functions(form)]
        return default_cache().units([*functions, (runtime_function(), TARGETS["c"])], find_compiler())

    def lacks(self) -> list[str]:
        """The features of the target that the processor has not."""
        return missing_features(self.target)

    def adopt(self, libraries: Sequence[tuple[Any, dict[str, str]]]) -> None:
        """Load libraries, or units of the cache, into this process."""
        missing = self.lacks()
        if missing:
            raise CompileError(
                f"it was compiled for {self.target.name} and this processor lacks {', '.join(missing)}; "
                "compile the model on a machine like this one, or install a C compiler here"
            )
        for library, functions in libraries:
            try:
                if isinstance(library, str):
                    default_cache().adopt_unit(library, functions)
                else:
                    default_cache().adopt(library.tobytes(), functions)
            except OSError as error:
                raise CompileError(f"its code cannot be loaded: {error}") from error

    def stored_code(self, keys: Sequence[str]) -> list[int] | None:
        """The addresses of adopted functions."""
        if not has_adopted_runtime():
            return None
        found = [default_cache().adopted(key) for key in keys]
        return [each for each in found if each is not None] if None not in found else None

    def find_plan(self, name: str) -> Path | None:
        """A file in the cache."""
        return default_cache().find_program(name)

    def keep_plan(self, name: str, write: Callable[[Path], int | None]) -> None:
        """Keep a file in the cache, if its folder can take it."""
        default_cache().keep_program(name, write)

    def source_file(self, title: str, forms: Sequence[PlanForm]) -> str:
        """All C of some plans as one file that compiles alone."""
        from intaglio.targets.c.source_file import source_file

        return source_file(title, forms, self.target)

    def function_lines(self, source: str, kernels: Sequence[Kernel]) -> Mapping[Kernel, tuple[str, int, int]]:
        """The places of kernels in that file."""
        from intaglio.targets.c.source_file import function_lines, function_names

        lines = dict(function_lines(source))
        names = zip(kernels, function_names(kernels), strict=True)
        return {kernel: (name, *lines[name]) for kernel, name in names if name in lines}

    def arena_size(self, layout: Layout, sizes: Sequence[int]) -> int:
        """What the runtime's planner needs."""
        return native.planned(layout, sizes)[1]

    def read_clocks(self) -> tuple[int, int]:
        """The clocks of the runtime."""
        return native.read_clocks()

    def direct_call(self) -> Callable[..., int]:
        """The builtin `invoke_at`."""
        return native.invoke_at_function()

    def using_threads(self, threads: int) -> AbstractContextManager[None]:
        """See `intaglio.targets.c.native.using_threads`."""
        return native.using_threads(threads)

    def watching(self, flag: int) -> AbstractContextManager[None]:
        """See `intaglio.targets.c.native.watching`."""
        return native.watching(flag)

    def keeping_no_memory(self) -> AbstractContextManager[None]:
        """See `intaglio.targets.c.native.keeping_no_memory`."""
        return native.keeping_no_memory()

    def file_guard(self) -> _FileGuard:
        """The runtime's list of mapped files."""
        return _FileGuard()


class _FileGuard:
    """The C runtime's list of mapped files."""

    def __init__(self) -> None:
        functions = runtime()
        self._add, self._is_lost, self._remove = functions.guard_file, functions.is_file_lost, functions.release_file

    def add(self, address: int, size: int) -> int:
        return self._add(address, size)

    def is_lost(self, entry: int) -> bool:
        return bool(self._is_lost(entry))

    def remove(self, entry: int) -> None:
        self._remove(entry)


def _segment(plan: PlanSource, place: int) -> Any:
    form = plan.read()
    return form, form.segments[place]


def target_from_data(data: dict[str, Any]) -> Target:
    """The inverse of `CExecutor.description_data`. Raises ValueError for a target that there is none of."""
    if data["name"] not in TARGETS:
        raise ValueError(f"there is no target {data['name']!r}")
    own: dict[str, Any] = {"flags": tuple(data["flags"]), "features": frozenset(data["features"])}
    return Target(**(data | own))
