"""Scans: loop kernels with running sums and products.

A loop inside of the scanned one runs over vectors, each of which walks along the scanned loop; a task is a strip of
them. Where there is none, a task is one walk, element by element.
"""

from __future__ import annotations

from collections.abc import Mapping

from intaglio.ir.dim import Dim, floordiv, minimum, pieces, product
from intaglio.kernels.elements import FLOATS, scalar_type
from intaglio.kernels.kernel import Kernel
from intaglio.kernels.language import Let, Load, LoopKernel, Reduce, Scan, Stride
from intaglio.kernels.plan import Call, Size
from intaglio.kernels.schedule import Schedule, Step
from intaglio.targets.c.printing.register import MEMORY, combine, kind_of, literal, with_headers
from intaglio.targets.c.printing.variables import COMBINE, Variables

_SIGNS = {"sum": "+", "product": "*"}
_IDENTITIES = {"sum": 0, "product": 1}


class Scans:
    """Prints kernels with running sums or products."""

    def __init__(self, kernel: LoopKernel, given: Mapping[str, Dim], plan: Schedule) -> None:
        self.kernel, self.given, self.plan = kernel, given, plan
        self.sizes: list[tuple[str, Size]] = []
        self.variables = Variables({name: f"v{place}" for place, name in enumerate(kernel.definitions)})
        self.place = {parameter.name: place for place, parameter in enumerate(kernel.parameters)}
        names = [loop.name for loop in kernel.loops]
        self.walked = names.index(plan.walk[0])
        self.lanes = None if plan.lanes is None else names.index(plan.lanes)
        self.rows = [names.index(name) for name in plan.tasks]
        (self.walk,) = plan.passes

    def call(self) -> Call:
        """Describe the call; the caller adds operands and nodes."""
        self._declare_sizes()
        rows, steps = product(self._extent(place) for place in self.rows), self._extent(self.walked)
        columns, strip = 1 if self.lanes is None else self._extent(self.lanes), self.plan.strip or 1
        cost = 8 + steps * (1 + floordiv(minimum(columns, strip), 8))
        tasks = rows if self.lanes is None else rows * pieces(columns, strip)
        return Call(Kernel(self.kernel.name, self.kernel), [], self.sizes, tasks, cost)

    def source(self) -> str:
        """The C of the kernel."""
        self._declare_sizes()
        return with_headers("\n".join([*self._header(), "{", *self._prologue(), *self._task(), "}", ""]))

    def _extent(self, loop: int) -> Dim:
        return self.given[self.kernel.loops[loop].name]

    def _declare_sizes(self) -> None:
        self.sizes.append(("steps", self._extent(self.walked)))
        if self.lanes is not None:
            self.sizes.append(("columns", self._extent(self.lanes)))
        self.sizes += [(f"rows{place}", self._extent(loop)) for place, loop in enumerate(self.rows)]
        for index, parameter in enumerate(self.kernel.parameters):
            for name, loop in self._strides(index):
                if parameter.steps[loop] not in (0, 1):
                    self.sizes.append((name, self._stride(parameter.steps[loop])))

    def _strides(self, index: int) -> list[tuple[str, int]]:
        """The strides of a parameter by name, with their loops."""
        found = [(f"walk_stride{index}", self.walked)]
        found += [] if self.lanes is None else [(f"column_stride{index}", self.lanes)]
        return found + [(f"row_stride{index}_{place}", loop) for place, loop in enumerate(self.rows)]

    def _stride(self, step: Stride) -> Dim:
        return self.given[step] if isinstance(step, str) else step

    def _step_text(self, index: int, name: str, loop: int) -> str:
        step = self.kernel.parameters[index].steps[loop]
        return str(step) if step in (0, 1) else name

    def _header(self) -> list[str]:
        buffers = ", ".join(f"{each.dtype} {'out' if each.is_written else 'in'}" for each in self.kernel.parameters)
        return [
            f"/* {self.kernel.about}",
            f"   buffers: {buffers}; sizes: {', '.join(name for name, _ in self.sizes)} */",
            "void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)",
        ]

    def _prologue(self) -> list[str]:
        lines = [f"    {self._element(index)} *const x{index} = buffer[{index}];" for index in self.place.values()]
        lines += [f"    const int64_t {name} = size[{index}];" for index, (name, _) in enumerate(self.sizes)]
        return [*lines, *(f"    (void){name};" for name, _ in self.sizes), "    (void)scratch;"]

    def _element(self, index: int) -> str:
        parameter = self.kernel.parameters[index]
        return ("" if parameter.is_written else "const ") + MEMORY[parameter.dtype.name][0]

    def _task(self) -> list[str]:
        lines = ["    for (int64_t task = begin; task < end; task++) {"]
        if self.lanes is None:
            return [*lines, *self._row_pointers("task"), *self._walk("        "), "    }"]
        strip, parts = self.plan.strip or 1, self.walk.parts
        return [
            f"    const int64_t strips = (columns + {strip - 1}) / {strip};",
            *lines,
            f"        const int64_t from = task % strips * {strip};",
            f"        const int64_t to = columns - from < {strip} ? columns : from + {strip};",
            *self._row_pointers("task / strips"),
            "        int64_t j = from;",
            f"        for (; j + {parts} * IG_LANES <= to; j += {parts} * IG_LANES) {{",
            *self._walk("            ", parts),
            "        }",
            "        for (; j + IG_LANES <= to; j += IG_LANES) {",
            *self._walk("            "),
            "        }",
            "        if (j < to) {",
            "            const int64_t left = to - j;",
            *self._walk("            ", left="left"),
            "        }",
            "    }",
        ]

    def _row_pointers(self, task: str) -> list[str]:
        """Decode the row number and point each operand at its row."""
        many = len(self.rows) > 1
        lines = [f"        int64_t rest = {task};"] if many else []
        for place in reversed(range(len(self.rows))):
            number = f"rest % rows{place}" if place else "rest" if many else task
            lines.append(f"        const int64_t i{place} = {number};")
            lines += [f"        rest /= rows{place};"] if place else []
        for index in self.place.values():
            steps = [self._step_text(index, f"row_stride{index}_{place}", loop) for place, loop in enumerate(self.rows)]
            terms = "".join(_term(f"i{place}", step) for place, step in enumerate(steps))
            lines.append(f"        {self._element(index)} *const p{index} = x{index}{terms};")
        return lines

    def _walk(self, indent: str, parts: int = 1, left: str | None = None) -> list[str]:
        """The running totals of some vectors, and the loop along which they run."""
        scans, inner = self.kernel.scans, indent + "    "
        upwards, downwards = "k = 0; k < steps; k++", "k = steps - 1; k >= 0; k--"
        lines = [indent + self._total(each, part) for each in scans for part in range(parts)]
        lines.append(f"{indent}for (int64_t {downwards if self.plan.is_reversed else upwards}) {{")
        for part in range(parts):
            body = self._step(part, left)
            lines += [inner + line for line in (body if parts == 1 else ["{", *(f"    {line}" for line in body), "}"])]
        return [*lines, f"{indent}}}"]

    def _step(self, part: int, left: str | None) -> list[str]:
        """One step of the walk of one vector."""
        offset = f" + {part} * IG_LANES" if part else ""
        lines = [] if self.lanes is None else [f"const int64_t c = j{offset};"]
        for each in self.walk.steps:
            lines += self._statement(each, part, left)
        for each in self.kernel.scans:
            lines.append(f"{self._total_name(each, part)} = next_{self.variables.name(each.name)};")
        return lines

    def _statement(self, step: Step, part: int, left: str | None) -> list[str]:
        if step.action == "store":
            return [self._store(step.name, left)]
        match self.kernel.definitions[step.name]:
            case Load() as load:
                return [self._load(load, left)]
            case Let() as let:
                return [self.variables.assign(let)]
            case Scan() as scan:
                return self._scan(scan, part)
            case Reduce():
                raise AssertionError("a kernel has scans or reductions")

    def _total_name(self, scan: Scan, part: int) -> str:
        return f"total_{self.variables.name(scan.name)}" + (f"_{part}" if part else "")

    def _total(self, scan: Scan, part: int) -> str:
        kind, name = kind_of(scan.type), self._total_name(scan, part)
        if self.lanes is None:
            return f"ig_{kind}_element {name} = {_IDENTITIES[scan.function]};"
        return f"ig_{kind} {name} = {literal(_IDENTITIES[scan.function], kind)};"

    def _scan(self, scan: Scan, part: int) -> list[str]:
        kind, following = kind_of(scan.type), f"next_{self.variables.name(scan.name)}"
        value, total = self.variables.register(scan.value).text, self._total_name(scan, part)
        kept = total if scan.is_exclusive else following
        if self.lanes is not None:
            text = combine(COMBINE[scan.function], kind, total, value)
            return [f"const ig_{kind} {following} = {text};", self.variables.declare(scan.name, kind, kept)]
        wrap = "" if scan.type in FLOATS else "(uint64_t)"
        text = f"(ig_{kind}_element)({wrap}{total} {_SIGNS[scan.function]} {wrap}{value}[0])"
        return [
            f"const ig_{kind}_element {following} = {text};",
            self.variables.declare(scan.name, kind, f"ig_set_{kind}({kept})"),
        ]

    def _access(self, parameter: str, type: str) -> tuple[int, str]:
        """The place of a parameter, and the suffix of the functions that load and store its elements as such values."""
        dtype = self.kernel.parameters[self.place[parameter]].dtype
        return self.place[parameter], MEMORY[dtype.name][1] if type == scalar_type(dtype) else type

    def _pointer(self, index: int) -> str:
        """Where the walk stands; in a vector the first lane."""
        terms = [("k", self._step_text(index, f"walk_stride{index}", self.walked))]
        terms += [] if self.lanes is None else [("c", self._step_text(index, f"column_stride{index}", self.lanes))]
        return f"p{index}" + "".join(_term(place, step) for place, step in terms)

    def _load(self, load: Load, left: str | None) -> str:
        index, suffix = self._access(load.parameter, load.type)
        pointer = self._pointer(index)
        step = "0" if self.lanes is None else self._step_text(index, f"column_stride{index}", self.lanes)
        if step == "0":
            text = f"ig_broadcast_{suffix}({pointer})"
        elif step == "1":
            text = f"ig_load_n_{suffix}({pointer}, {left})" if left else f"ig_load_{suffix}({pointer})"
        else:
            text = f"ig_gather_{suffix}({pointer}, {step}, {left or 'IG_LANES'})"
        return self.variables.declare(load.name, kind_of(load.type), text)

    def _store(self, parameter: str, left: str | None) -> str:
        stored = self.kernel.stores[parameter]
        index, suffix = self._access(parameter, stored.type)
        pointer, value = self._pointer(index), self.variables.register(stored).text
        if self.lanes is None:
            return f"ig_scatter_{suffix}({pointer}, 0, {value}, 1);"
        step = self._step_text(index, f"column_stride{index}", self.lanes)
        if step == "1":
            tail = f"_n_{suffix}({pointer}, {value}, {left})" if left else f"_{suffix}({pointer}, {value})"
            return f"ig_store{tail};"
        return f"ig_scatter_{suffix}({pointer}, {step}, {value}, {left or 'IG_LANES'});"


def _term(place: str, step: str) -> str:
    """What a place along a loop adds to a pointer."""
    return "" if step == "0" else f" + {place}" if step == "1" else f" + {place} * {step}"
