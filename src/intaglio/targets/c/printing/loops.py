"""Loop kernels: fused elementwise nodes and reductions as one function over rows and columns.

The iteration space is split into row loops, which a task index enumerates, and column loops, of which the innermost
runs over vectors. Without reductions a row is cut into chunks and a task is one chunk. With reductions the columns are
the reduced axes: the kernel makes one pass over the row for each level of dependence between reductions, so softmax
takes three passes over a row that stays in cache, and values that are dear to compute are kept in scratch memory
between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from intaglio.ir.dim import Dim, floordiv, maximum, minimum, pieces, product, symbol
from intaglio.kernels.elements import scalar_type
from intaglio.kernels.fused import FusedNodes
from intaglio.kernels.kernel import Kernel
from intaglio.kernels.language import Let, Load, LoopKernel, Parameter, Reduce, Stride, nanoseconds
from intaglio.kernels.plan import Call, Operand, Size
from intaglio.kernels.schedule import Facts, Pass, Schedule, Step, schedule
from intaglio.targets.c.printing.columns import Columns
from intaglio.targets.c.printing.register import MEMORY, combine, kind_of, with_headers
from intaglio.targets.c.printing.scans import Scans
from intaglio.targets.c.printing.variables import COMBINE, Variables, nothing

FACTS = Facts()
"""What decides about the order of loops in C with vectors, whatever the processor."""


def loop_call(fused: FusedNodes) -> Call:
    """The kernel of fused nodes and the driver's call of it."""
    kernel, sizes = fused.kernel()
    call = _printer(kernel, sizes).call()
    call.operands = [
        Operand(view.buffer, view.offset, parameter.is_written)
        for (_, view), parameter in zip(fused.operands, kernel.parameters, strict=True)
    ]
    call.nodes, call.title = tuple(fused.nodes), fused.title
    call.flops = product(fused.shape) * max(1, len(fused.nodes))
    return call


def loop_source(kernel: LoopKernel) -> str:
    """The C of a loop kernel, in the form that `loop_call` calls."""
    return _printer(kernel, {name: symbol(name) for name in kernel.sizes}).source()


def _printer(kernel: LoopKernel, sizes: Mapping[str, Dim]) -> Rows | Columns | Scans:
    """What walks over the schedule of a kernel."""
    plan = schedule(kernel, FACTS)
    printers = {"columns": Columns, "scans": Scans, "rows": Rows, "elements": Rows}
    return printers[plan.form](kernel, sizes, plan)


@dataclass(frozen=True)
class _Nest:
    """Some of a kernel's loops: their extents, and the steps of each parameter along them."""

    extents: tuple[Dim, ...]
    steps: tuple[tuple[Stride, ...], ...]


class Rows:
    """Prints kernels whose tasks are rows, or chunks of rows."""

    def __init__(self, kernel: LoopKernel, given: Mapping[str, Dim], plan: Schedule) -> None:
        self.kernel, self.given, self.plan = kernel, given, plan
        self.sizes: list[tuple[str, Size]] = []
        self.variables = Variables()
        self.place = {parameter.name: place for place, parameter in enumerate(kernel.parameters)}
        self.definitions, self.stored, self.kept = kernel.definitions, kernel.stores, plan.kept
        self.rows, self.columns = self._nest(0, len(plan.tasks)), self._nest(len(plan.tasks), len(kernel.loops))
        if plan.lanes is None:
            self.columns = _Nest((1,), ((1 if plan.strip else 0,),) * len(kernel.parameters))

    def _nest(self, first: int, last: int) -> _Nest:
        extents = tuple(self.given[loop.name] for loop in self.kernel.loops[first:last])
        return _Nest(extents, tuple(each.steps[first:last] for each in self.kernel.parameters))

    def call(self) -> Call:
        """Describe the call; the caller adds operands and nodes."""
        self._declare_sizes()
        columns = product(self.columns.extents)
        rows = product(self.rows.extents)
        elements = 0.02 + sum(map(nanoseconds, self.kernel.body)) + 0.05 * len(self.kernel.parameters)
        picoseconds = max(20, int(1000 * elements))
        if self.plan.strip is None:
            tasks = maximum(rows, 1) if self.kernel.checks else rows
            cost = 1 + floordiv(columns * picoseconds, 1000)
        else:
            tasks = rows * pieces(columns, self.plan.strip)
            cost = 1 + floordiv(minimum(columns, self.plan.strip) * picoseconds, 1000)
        spill = len(self.kept) * 64 * pieces(columns * 8, 64)
        kernel = Kernel(self.kernel.name, self.kernel)
        return Call(kernel, [], self.sizes, tasks, cost, spill, checks=self.kernel.checks)

    def source(self) -> str:
        """The C of the kernel."""
        self._declare_sizes()
        body = self._row_task() if self.plan.strip is None else self._chunk_task(self.plan.strip)
        return with_headers("\n".join([*self._header(), "{", *self._prologue(), *body, "}", ""]))

    def _size(self, name: str, value: Size) -> str:
        self.sizes.append((name, value))
        return name

    def _declare_sizes(self) -> None:
        for index, extent in enumerate(self.columns.extents):
            self._size(f"columns{index}" if index + 1 < len(self.columns.extents) else "columns", extent)
        for index, extent in enumerate(self.rows.extents):
            self._size(f"rows{index}", extent)
        for index in range(len(self.kernel.parameters)):
            for loop, step in enumerate(self.rows.steps[index]):
                if step != 0:
                    self._size(f"row_stride{index}_{loop}", self._stride(step))
            for loop, step in enumerate(self.columns.steps[index]):
                is_inner = loop + 1 == len(self.columns.extents)
                if step != 0 and not (is_inner and step == 1):
                    self._size(f"column_stride{index}_{loop}", self._stride(step))

    def _stride(self, step: Stride) -> Dim:
        return self.given[step] if isinstance(step, str) else step

    def _header(self) -> list[str]:
        buffers = ", ".join(
            f"{parameter.dtype} {'out' if parameter.is_written else 'in'}" for parameter in self.kernel.parameters
        )
        return [
            f"/* {self.kernel.about}",
            f"   buffers: {buffers}; sizes: {', '.join(name for name, _ in self.sizes)} */",
            "void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)",
        ]

    def _prologue(self) -> list[str]:
        lines: list[str] = []
        for index, parameter in enumerate(self.kernel.parameters):
            lines.append(f"    {_element(parameter)} *const x{index} = buffer[{index}];")
        lines += [f"    const int64_t {name} = size[{index}];" for index, (name, _) in enumerate(self.sizes)]
        lines += [f"    (void){name};" for name, _ in self.sizes]
        lines.append("    (void)scratch;")
        return lines

    def _row_pointers(self, task: str) -> list[str]:
        """Decode the row number and point each operand at its row."""
        lines: list[str] = [f"        int64_t rest = {task};", "        (void)rest;"]
        for loop in reversed(range(len(self.rows.extents))):
            if loop == 0:
                lines.append("        const int64_t i0 = rest;")
            else:
                lines.append(f"        const int64_t i{loop} = rest % rows{loop};")
                lines.append(f"        rest /= rows{loop};")
        lines += [f"        (void)i{loop};" for loop in range(len(self.rows.extents))]
        for index, parameter in enumerate(self.kernel.parameters):
            steps = enumerate(self.rows.steps[index])
            terms = "".join(f" + i{loop} * row_stride{index}_{loop}" for loop, step in steps if step != 0)
            lines.append(f"        {_element(parameter)} *p{index} = x{index}{terms};")
        return lines

    def _chunk_task(self, chunk: int) -> list[str]:
        lines = [
            f"    const int64_t chunks = (columns + {chunk - 1}) / {chunk};",
            "    for (int64_t task = begin; task < end; task++) {",
            f"        const int64_t from = task % chunks * {chunk};",
            f"        const int64_t count = columns - from < {chunk} ? columns - from : {chunk};",
            *self._row_pointers("task / chunks"),
        ]
        for index in range(len(self.kernel.parameters)):
            step = self._inner_step(index)
            if step != "0":
                lines.append(f"        p{index} += from * {step};")
        for each in self.plan.body:
            if isinstance(each, Pass):
                lines += self._vector_loop("count", each, "        ")
            else:
                lines.append("        " + self._step(each, "0", None, 0))
        lines.append("    }")
        return lines

    def _inner_step(self, index: int) -> str:
        step = self.columns.steps[index][-1]
        if step == 0:
            return "0"
        return "1" if step == 1 else f"column_stride{index}_{len(self.columns.extents) - 1}"

    def _vector_loop(self, count: str, walk: Pass, indent: str) -> list[str]:
        """The innermost loop over whole vectors, and once more for the elements left over."""
        many = self._unrolled(count, walk, indent)
        return [
            *many,
            f"{indent}int64_t j = {'start' if many else '0'};",
            f"{indent}for (; j + IG_LANES <= {count}; j += IG_LANES) {{",
            *self._steps(walk, indent + "    ", None),
            f"{indent}}}",
            f"{indent}if (j < {count}) {{",
            f"{indent}    const int64_t left = {count} - j;",
            *self._steps(walk, indent + "    ", "left"),
            f"{indent}}}",
        ]

    def _unrolled(self, count: str, walk: Pass, indent: str) -> list[str]:
        """A loop over several vectors at a time, each with accumulators of its own."""
        if walk.parts == 1:
            return []
        step = f"{walk.parts} * IG_LANES"
        lines = [f"{indent}int64_t start = 0;", f"{indent}for (; start + {step} <= {count}; start += {step}) {{"]
        for part in range(walk.parts):
            body = self._steps(walk, indent + "        ", None, part)
            place = f"{indent}        const int64_t j = start + {part} * IG_LANES;"
            lines += [f"{indent}    {{", place, *body, f"{indent}    }}"]
        return [*lines, f"{indent}}}"]

    def _steps(self, walk: Pass, indent: str, left: str | None, part: int = 0) -> list[str]:
        return [indent + self._step(each, "j", left, part) for each in walk.steps]

    def _step(self, step: Step, position: str, left: str | None, part: int) -> str:
        """One statement of a pass, for a whole vector or for the lanes `left` over."""
        if step.action == "store":
            return self._store(step.name, left)
        definition = self.definitions[step.name]
        match step.action, definition:
            case "load", Load():
                return self._load(definition, position, left)
            case "compute", Let():
                return self.variables.assign(definition)
            case "reload", Let():
                kind = kind_of(definition.type)
                return self.variables.declare(step.name, kind, _load_text(kind, self._kept_pointer(step.name), left))
            case "keep", Let():
                return self._keep(definition, left)
            case "add", Reduce():
                return self._accumulate(definition, left, part)
            case _:
                raise AssertionError(f"a pass over a row cannot {step.action}")

    def _load(self, load: Load, position: str, left: str | None) -> str:
        index = self.place[load.parameter]
        step = self._inner_step(index)
        suffix, kind = self._access(load.parameter, load.type), kind_of(load.type)
        pointer = self._pointer(index)
        if step == "0":
            text = f"ig_broadcast_{suffix}({pointer})"
        elif step == "1":
            text = _load_text(suffix, f"{pointer} + {position}", left)
        else:
            text = f"ig_gather_{suffix}({pointer} + {position} * {step}, {step}, {left or 'IG_LANES'})"
        return self.variables.declare(load.name, kind, text)

    def _access(self, parameter: str, type: str) -> str:
        """The suffix of the functions that load and store elements of a parameter as values of a type."""
        dtype = self.kernel.parameters[self.place[parameter]].dtype
        return MEMORY[dtype.name][1] if type == scalar_type(dtype) else type

    def _pointer(self, index: int) -> str:
        return f"q{index}" if len(self.columns.extents) > 1 else f"p{index}"

    def _store(self, parameter: str, left: str | None) -> str:
        index, value = self.place[parameter], self.stored[parameter]
        step, suffix = self._inner_step(index), self._access(parameter, value.type)
        pointer, name = self._pointer(index), self.variables.register(value).text
        if step == "1":
            tail = f"_n_{suffix}({pointer} + j, {name}, {left})" if left else f"_{suffix}({pointer} + j, {name})"
            return f"ig_store{tail};"
        return f"ig_scatter_{suffix}({pointer} + j * {step}, {step}, {name}, {left or 'IG_LANES'});"

    def _kept_pointer(self, name: str) -> str:
        kind = kind_of(self.definitions[name].type)
        return f"(ig_{kind}_element *)((char *)scratch + {self.kept.index(name)} * span) + base + j"

    def _keep(self, value: Let, left: str | None) -> str:
        kind, name, pointer = kind_of(value.type), self.variables.name(value.name), self._kept_pointer(value.name)
        return f"ig_store_n_{kind}({pointer}, {name}, {left});" if left else f"ig_store_{kind}({pointer}, {name});"

    def _accumulate(self, reduction: Reduce, left: str | None, part: int) -> str:
        """Add to an accumulator, which comes second: then only a fast instruction has to wait for it."""
        source, kind = self.variables.register(reduction.value), kind_of(reduction.total)
        text = source.text if source.kind == kind else f"ig_cast_{source.kind}_{kind}({source.text})"
        if left:
            text = f"ig_keep_{kind}({text}, {nothing(reduction)}, {left})"
        name = self._accumulator(reduction, part)
        return f"{name} = {combine(COMBINE[reduction.function], kind, text, name)};"

    def _accumulator(self, reduction: Reduce, part: int) -> str:
        return f"sum_{self.variables.name(reduction.name)}" + (f"_{part}" if part else "")

    def _row_task(self) -> list[str]:
        lines = [*self._check(), "    for (int64_t task = begin; task < end; task++) {", *self._row_pointers("task")]
        if self.kept:
            total = " * ".join(name for name, _ in self.sizes[: len(self.columns.extents)])
            lines.append(f"        const int64_t span = ({total} * 8 + 63) / 64 * 64;")
        for each in self.plan.body:
            lines += self._pass(each) if isinstance(each, Pass) else ["        " + self._once(each)]
        lines.append("    }")
        return lines

    def _check(self) -> list[str]:
        """Report a mean of nothing; the one task that there is without any rows is there for that alone."""
        if not self.kernel.checks:
            return []
        count = " * ".join(name for name, _ in self.sizes[: len(self.columns.extents)])
        rows = " * ".join(["1", *(f"rows{loop}" for loop in range(len(self.rows.extents)))])
        return [
            f"    if ({count} < 1) {{",
            f"        *(int64_t *)buffer[{len(self.kernel.parameters)}] = 1;",
            "        return;",
            "    }",
            f"    end = {rows} < end ? {rows} : end;",
        ]

    def _once(self, step: Step) -> str:
        """One statement for the whole row."""
        if step.action == "store":
            place, value = self.place[step.name], self.stored[step.name]
            suffix = self._access(step.name, value.type)
            return f"ig_store_n_{suffix}(p{place}, {self.variables.register(value).text}, 1);"
        match self.definitions[step.name]:
            case Load() as load:
                text = f"ig_broadcast_{self._access(load.parameter, load.type)}(p{self.place[load.parameter]})"
                return self.variables.declare(load.name, kind_of(load.type), text)
            case Reduce() as reduction:
                return self._finish(reduction)
            case Let() as let:
                return self.variables.assign(let)
            case _:
                raise AssertionError(f"a row cannot {step.action} once")

    def _finish(self, reduction: Reduce) -> str:
        kind, wide = kind_of(reduction.type), kind_of(reduction.total)
        total = f"ig_reduce_{COMBINE[reduction.function]}_{wide}(sum_{self.variables.name(reduction.name)})"
        if reduction.function == "mean":
            count = " * ".join(name for name, _ in self.sizes[: len(self.columns.extents)])
            total = f"ig_mean_{wide}({total}, {count})"
        if wide != kind:
            total = f"(ig_{kind}_element){total}"
        text = f"ig_set_{kind}({total})"
        return self.variables.declare(
            reduction.name, kind, f"ig_round_{reduction.round}({text})" if reduction.round else text
        )

    def _pass(self, walk: Pass) -> list[str]:
        reductions = [each for name in walk.names("add") if isinstance(each := self.definitions[name], Reduce)]
        lines: list[str] = []
        parts = walk.parts
        for each in reductions:
            kind, first = kind_of(each.total), nothing(each)
            lines += [f"        ig_{kind} {self._accumulator(each, part)} = {first};" for part in range(parts)]
        lines += self._column_loops(walk)
        while parts > 1:
            parts //= 2
            lines += [self._join_parts(each, part, part + parts) for each in reductions for part in range(parts)]
        return lines

    def _join_parts(self, reduction: Reduce, left: int, right: int) -> str:
        names = self._accumulator(reduction, left), self._accumulator(reduction, right)
        return f"        {names[0]} = {combine(COMBINE[reduction.function], kind_of(reduction.total), *names)};"

    def _column_loops(self, walk: Pass) -> list[str]:
        outer = len(self.columns.extents) - 1
        base = "0"
        lines = ["        {"]
        for loop in range(outer):
            lines.append(f"        for (int64_t c{loop} = 0; c{loop} < columns{loop}; c{loop}++) {{")
            base = f"({base}) * columns{loop} + c{loop}" if loop else "c0"
        if self.kept:
            lines.append(f"            const int64_t base = ({base}) * columns;")
        if outer:
            lines += self._column_pointers(outer)
        lines += self._vector_loop("columns", walk, "            ")
        return lines + ["        }"] * (outer + 1)

    def _column_pointers(self, outer: int) -> list[str]:
        lines: list[str] = []
        for index, parameter in enumerate(self.kernel.parameters):
            steps = self.columns.steps[index]
            terms = [f" + c{loop} * column_stride{index}_{loop}" for loop in range(outer) if steps[loop] != 0]
            lines.append(f"            {_element(parameter)} *q{index} = p{index}{''.join(terms)};")
            lines.append(f"            (void)q{index};")
        return lines


def _element(parameter: Parameter) -> str:
    return ("" if parameter.is_written else "const ") + MEMORY[parameter.dtype.name][0]


def _load_text(suffix: str, pointer: str, left: str | None) -> str:
    return f"ig_load_n_{suffix}({pointer}, {left})" if left else f"ig_load_{suffix}({pointer})"
