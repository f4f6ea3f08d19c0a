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
from intaglio.kernels.language import (
    Expr,
    Let,
    Load,
    LoopKernel,
    Name,
    Parameter,
    Reduce,
    Store,
    Stride,
    is_cheap,
    names_in,
    nanoseconds,
    reads_of,
)
from intaglio.kernels.plan import Call, Operand, Size
from intaglio.targets.c.printing.columns import columns_call, columns_source
from intaglio.targets.c.printing.register import MEMORY, combine, kind_of, with_headers
from intaglio.targets.c.printing.scans import scan_call, scan_source
from intaglio.targets.c.printing.variables import COMBINE, Variables, nothing

CHUNK = 16384
"""Elements of a row that one task computes where nothing is reduced."""

PARTS = 4
"""Accumulators of a reduction that does little else, a power of two."""


def loop_call(fused: FusedNodes) -> Call:
    """The kernel of fused nodes and the driver's call of it."""
    kernel, sizes = fused.kernel()
    call = columns_call(kernel, sizes) if _may_walk_columns(kernel) else None
    call = scan_call(kernel, sizes) if kernel.scans else call or _Emission(kernel, sizes).call()
    call.operands = [
        Operand(view.buffer, view.offset, parameter.is_written)
        for (_, view), parameter in zip(fused.operands, kernel.parameters, strict=True)
    ]
    call.nodes, call.title = tuple(fused.nodes), fused.title
    call.flops = product(fused.shape) * max(1, len(fused.nodes))
    return call


def loop_source(kernel: LoopKernel) -> str:
    """The C of a loop kernel, in the form that `loop_call` calls."""
    sizes = {name: symbol(name) for name in kernel.sizes}
    if kernel.scans:
        return scan_source(kernel, sizes)
    source = columns_source(kernel, sizes) if _may_walk_columns(kernel) else None
    return source or _Emission(kernel, sizes).source()


def _may_walk_columns(kernel: LoopKernel) -> bool:
    reductions = [each for each in kernel.body if isinstance(each, Reduce)]
    return not kernel.checks and all(each.total == each.type for each in reductions)


@dataclass(frozen=True)
class _Nest:
    """Some of a kernel's loops: their extents, and the steps of each parameter along them."""

    extents: tuple[Dim, ...]
    steps: tuple[tuple[Stride, ...], ...]


class _Emission:
    """The state of printing one kernel."""

    def __init__(self, kernel: LoopKernel, given: Mapping[str, Dim]) -> None:
        self.kernel, self.given = kernel, given
        self.sizes: list[tuple[str, Size]] = []
        self.variables = Variables()
        self.place = {parameter.name: place for place, parameter in enumerate(kernel.parameters)}
        self.definitions = kernel.definitions
        self.loads = [each for each in kernel.body if isinstance(each, Load)]
        self.stored = {each.parameter: each.value for each in kernel.body if isinstance(each, Store)}
        self._make_loops()
        self.row_values = kernel.row_values() if kernel.has_reduction else set[str]()
        self.row_stores = kernel.row_stores() if kernel.has_reduction else set[str]()
        self.levels = kernel.levels()
        self.spilled = self._find_spilled()

    def _make_loops(self) -> None:
        """Rows, which tasks enumerate, and columns: the reduced loops, or the last one where nothing is reduced."""
        kernel, kept = self.kernel, len(self.kernel.kept)
        border = kept if kernel.has_reduction else max(0, kept - 1)
        self.rows, self.columns = self._nest(0, border), self._nest(border, len(kernel.loops))
        if not self.columns.extents:
            step = 0 if kernel.has_reduction else 1
            self.columns = _Nest((1,), ((step,),) * len(kernel.parameters))

    def _nest(self, first: int, last: int) -> _Nest:
        extents = tuple(self.given[loop.name] for loop in self.kernel.loops[first:last])
        return _Nest(extents, tuple(each.steps[first:last] for each in self.kernel.parameters))

    def _is_hoisted(self, load: Load) -> bool:
        """Whether a load can stand before the innermost loop."""
        return self.columns.steps[self.place[load.parameter]][-1] == 0 and len(self.columns.extents) == 1

    def _find_spilled(self) -> list[str]:
        """Values too dear to compute again in a later pass."""
        if not self.kernel.has_reduction:
            return []
        last_use: dict[str, int] = {}
        computed = [each for each in self.kernel.body if isinstance(each, (Let, Reduce))]
        for each in reversed(computed):
            is_reduction = isinstance(each, Reduce)
            at = self.levels[each.name] - 1 if is_reduction else self.levels[each.name]
            if not is_reduction and each.name not in self.row_values:
                at = max(at, last_use.get(each.name, at) if is_cheap(each) else at)
            for name in reads_of(each):
                last_use[name] = max(last_use.get(name, 0), at)
        return [
            each.name
            for each in computed
            if isinstance(each, Let)
            and not is_cheap(each)
            and each.name not in self.row_values
            and each.type != "bool"
            and last_use.get(each.name, 0) > self.levels[each.name]
        ]

    def call(self) -> Call:
        """Describe the call; the caller adds operands and nodes."""
        self._declare_sizes()
        columns = product(self.columns.extents)
        rows = product(self.rows.extents)
        elements = 0.02 + sum(map(nanoseconds, self.kernel.body)) + 0.05 * len(self.kernel.parameters)
        picoseconds = max(20, int(1000 * elements))
        if self.kernel.has_reduction:
            tasks = maximum(rows, 1) if self.kernel.checks else rows
            cost = 1 + floordiv(columns * picoseconds, 1000)
        else:
            tasks = rows * pieces(columns, CHUNK)
            cost = 1 + floordiv(minimum(columns, CHUNK) * picoseconds, 1000)
        spill = len(self.spilled) * 64 * pieces(columns * 8, 64)
        kernel = Kernel(self.kernel.name, self.kernel)
        return Call(kernel, [], self.sizes, tasks, cost, spill, checks=self.kernel.checks)

    def source(self) -> str:
        """The C of the kernel."""
        self._declare_sizes()
        body = self._reduced_task() if self.kernel.has_reduction else self._chunk_task()
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

    def _chunk_task(self) -> list[str]:
        lines = [
            f"    const int64_t chunks = (columns + {CHUNK - 1}) / {CHUNK};",
            "    for (int64_t task = begin; task < end; task++) {",
            f"        const int64_t from = task % chunks * {CHUNK};",
            f"        const int64_t count = columns - from < {CHUNK} ? columns - from : {CHUNK};",
            *self._row_pointers("task / chunks"),
        ]
        for index in range(len(self.kernel.parameters)):
            step = self._inner_step(index)
            if step != "0":
                lines.append(f"        p{index} += from * {step};")
        hoisted = [load for load in self.loads if self._is_hoisted(load)]
        lines += ["        " + self._load(load, "0", None) for load in hoisted]
        lines += self._vector_loop("count", self._stored_values(), [], 0, {each.name for each in hoisted}, "        ")
        lines.append("    }")
        return lines

    def _stored_values(self) -> list[Expr]:
        """What is stored to each element of a row."""
        return list(dict.fromkeys(value for name, value in self.stored.items() if name not in self.row_stores))

    def _inner_step(self, index: int) -> str:
        step = self.columns.steps[index][-1]
        if step == 0:
            return "0"
        return "1" if step == 1 else f"column_stride{index}_{len(self.columns.extents) - 1}"

    def _vector_loop(
        self, count: str, targets: list[Expr], reductions: list[Reduce], at: int, known: set[str], indent: str
    ) -> list[str]:
        """The innermost loop over whole vectors, and once more for the elements left over."""
        full = self._body(targets, reductions, at, known, indent + "    ", None)
        tail = self._body(targets, reductions, at, known, indent + "    ", "left")
        many = self._unrolled(count, targets, reductions, at, known, indent)
        return [
            *many,
            f"{indent}int64_t j = {'start' if many else '0'};",
            f"{indent}for (; j + IG_LANES <= {count}; j += IG_LANES) {{",
            *full,
            f"{indent}}}",
            f"{indent}if (j < {count}) {{",
            f"{indent}    const int64_t left = {count} - j;",
            *tail,
            f"{indent}}}",
        ]

    def _unrolled(
        self, count: str, targets: list[Expr], reductions: list[Reduce], at: int, known: set[str], indent: str
    ) -> list[str]:
        """A loop over several vectors at a time, each with accumulators of its own."""
        parts = self._parts(targets, reductions, at, known)
        if parts == 1:
            return []
        step = f"{parts} * IG_LANES"
        lines = [f"{indent}int64_t start = 0;", f"{indent}for (; start + {step} <= {count}; start += {step}) {{"]
        for part in range(parts):
            body = self._body(targets, reductions, at, known, indent + "        ", None, part)
            place = f"{indent}        const int64_t j = start + {part} * IG_LANES;"
            lines += [f"{indent}    {{", place, *body, f"{indent}    }}"]
        return [*lines, f"{indent}}}"]

    def _parts(self, targets: list[Expr], reductions: list[Reduce], at: int, known: set[str]) -> int:
        """How many accumulators a reduction has: several where waiting for one of them would be most of the work."""
        needed = self._cone([*targets, *(each.value for each in reductions)], at, known)
        computed = [self.definitions[name] for name in needed if not isinstance(self.definitions[name], Load)]
        is_light = len(computed) <= 4 and all(nanoseconds(each) <= 0.1 for each in computed)
        return PARTS if reductions and is_light and not targets else 1

    def _body(
        self,
        targets: list[Expr],
        reductions: list[Reduce],
        at: int,
        known: set[str],
        indent: str,
        left: str | None,
        part: int = 0,
    ) -> list[str]:
        needed = self._cone([*targets, *(each.value for each in reductions)], at, known)
        lines: list[str] = []
        for name in needed:
            lines.append(indent + self._compute(name, at, left))
        for each in reductions:
            lines.append(indent + self._accumulate(each, left, part))
        for value in targets:
            if isinstance(value, Name) and value.name in self.spilled and self.levels[value.name] == at:
                lines.append(indent + self._spill(value, left))
            places = [name for name, each in self.stored.items() if each == value and name not in self.row_stores]
            lines += [indent + self._store(name, value, left) for name in places]
        return lines

    def _cone(self, targets: list[Expr], at: int, known: set[str]) -> list[str]:
        """What must be computed or loaded in this pass for the targets, in order."""
        found: dict[str, None] = {}
        stack = [(name, False) for value in reversed(targets) for name in reversed(names_in(value))]
        while stack:
            name, is_done = stack.pop()
            if name in found or name in known:
                continue
            definition = self.definitions[name]
            is_read = isinstance(definition, Load) or self._is_spilled_before(name, at)
            if is_done or is_read:
                found[name] = None
                continue
            stack.append((name, True))
            stack += [(source, False) for source in reversed(reads_of(definition)) if source not in found]
        return list(found)

    def _is_spilled_before(self, name: str, at: int) -> bool:
        return name in self.spilled and self.levels[name] < at

    def _compute(self, name: str, at: int, left: str | None) -> str:
        definition = self.definitions[name]
        if isinstance(definition, Load):
            return self._load(definition, "j", left)
        if self._is_spilled_before(name, at):
            kind = kind_of(definition.type)
            return self.variables.declare(name, kind, _load_text(kind, self._spill_pointer(name), left))
        assert isinstance(definition, Let), "reductions are known before what reads them"
        return self.variables.assign(definition)

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

    def _store(self, parameter: str, value: Expr, left: str | None) -> str:
        index = self.place[parameter]
        step, suffix = self._inner_step(index), self._access(parameter, value.type)
        pointer, name = self._pointer(index), self.variables.register(value).text
        if step == "1":
            tail = f"_n_{suffix}({pointer} + j, {name}, {left})" if left else f"_{suffix}({pointer} + j, {name})"
            return f"ig_store{tail};"
        return f"ig_scatter_{suffix}({pointer} + j * {step}, {step}, {name}, {left or 'IG_LANES'});"

    def _spill_pointer(self, name: str) -> str:
        kind = kind_of(self.definitions[name].type)
        slot = self.spilled.index(name)
        return f"(ig_{kind}_element *)((char *)scratch + {slot} * span) + base + j"

    def _spill(self, value: Name, left: str | None) -> str:
        kind, name = kind_of(value.type), self.variables.name(value.name)
        tail = f"_n_{kind}({self._spill_pointer(value.name)}, {name}, {left})"
        full = f"_{kind}({self._spill_pointer(value.name)}, {name})"
        return f"ig_store{tail if left else full};"

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

    def _reduced_task(self) -> list[str]:
        lines = [*self._check(), "    for (int64_t task = begin; task < end; task++) {", *self._row_pointers("task")]
        if self.spilled:
            total = " * ".join(name for name, _ in self.sizes[: len(self.columns.extents)])
            lines.append(f"        const int64_t span = ({total} * 8 + 63) / 64 * 64;")
        row_loads = [load for load in self.loads if load.name in self.row_values]
        lines += ["        " + self._row_load(load) for load in row_loads]
        known = {load.name for load in row_loads}
        for at in range(max(self.levels.values(), default=0) + 1):
            lines += self._row_values(at, known)
            lines += self._pass(at, known)
        lines += self._row_stores()
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

    def _row_load(self, load: Load) -> str:
        suffix = self._access(load.parameter, load.type)
        text = f"ig_broadcast_{suffix}(p{self.place[load.parameter]})"
        return self.variables.declare(load.name, kind_of(load.type), text)

    def _row_values(self, at: int, known: set[str]) -> list[str]:
        """Finish the reductions of the pass before and compute what follows from them alone."""
        lines: list[str] = []
        for each in self.kernel.body:
            if not isinstance(each, (Let, Reduce)) or self.levels[each.name] != at:
                continue
            if isinstance(each, Reduce):
                lines.append("        " + self._finish(each))
                known.add(each.name)
            elif each.name in self.row_values and all(name in known for name in reads_of(each)):
                lines.append("        " + self.variables.assign(each))
                known.add(each.name)
        return lines

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

    def _pass(self, at: int, known: set[str]) -> list[str]:
        reductions = [
            each for each in self.kernel.body if isinstance(each, Reduce) and self.levels[each.name] == at + 1
        ]
        spilled: list[Expr] = [Name(name, self.definitions[name].type) for name in self.spilled]
        targets = [
            value
            for value in dict.fromkeys([*spilled, *self._stored_values()])
            if max((self.levels.get(name, 0) for name in names_in(value)), default=0) == at
        ]
        if not reductions and not targets:
            return []
        lines: list[str] = []
        parts = self._parts(targets, reductions, at, known)
        for each in reductions:
            kind, first = kind_of(each.total), nothing(each)
            lines += [f"        ig_{kind} {self._accumulator(each, part)} = {first};" for part in range(parts)]
        lines += self._column_loops(targets, reductions, at, known)
        while parts > 1:
            parts //= 2
            lines += [self._join_parts(each, part, part + parts) for each in reductions for part in range(parts)]
        return lines

    def _join_parts(self, reduction: Reduce, left: int, right: int) -> str:
        names = self._accumulator(reduction, left), self._accumulator(reduction, right)
        return f"        {names[0]} = {combine(COMBINE[reduction.function], kind_of(reduction.total), *names)};"

    def _column_loops(self, targets: list[Expr], reductions: list[Reduce], at: int, known: set[str]) -> list[str]:
        outer = len(self.columns.extents) - 1
        base = "0"
        lines = ["        {"]
        for loop in range(outer):
            lines.append(f"        for (int64_t c{loop} = 0; c{loop} < columns{loop}; c{loop}++) {{")
            base = f"({base}) * columns{loop} + c{loop}" if loop else "c0"
        if self.spilled:
            lines.append(f"            const int64_t base = ({base}) * columns;")
        if outer:
            lines += self._column_pointers(outer)
        lines += self._vector_loop("columns", targets, reductions, at, known, "            ")
        return lines + ["        }"] * (outer + 1)

    def _column_pointers(self, outer: int) -> list[str]:
        lines: list[str] = []
        for index, parameter in enumerate(self.kernel.parameters):
            steps = self.columns.steps[index]
            terms = [f" + c{loop} * column_stride{index}_{loop}" for loop in range(outer) if steps[loop] != 0]
            lines.append(f"            {_element(parameter)} *q{index} = p{index}{''.join(terms)};")
            lines.append(f"            (void)q{index};")
        return lines

    def _row_stores(self) -> list[str]:
        lines: list[str] = []
        for parameter, value in self.stored.items():
            if parameter in self.row_stores:
                suffix, text = self._access(parameter, value.type), self.variables.register(value).text
                lines.append(f"        ig_store_n_{suffix}(p{self.place[parameter]}, {text}, 1);")
        return lines


def _element(parameter: Parameter) -> str:
    return ("" if parameter.is_written else "const ") + MEMORY[parameter.dtype.name][0]


def _load_text(suffix: str, pointer: str, left: str | None) -> str:
    return f"ig_load_n_{suffix}({pointer}, {left})" if left else f"ig_load_{suffix}({pointer})"
