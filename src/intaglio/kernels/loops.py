"""Loop kernels: fused elementwise nodes and reductions as one function over rows and columns.

The iteration space is split into row loops, which a task index enumerates, and column loops, of which the innermost
runs over vectors. Without reductions a row is cut into chunks and a task is one chunk. With reductions the columns are
the reduced axes: the kernel makes one pass over the row for each level of dependence between reductions, so softmax
takes three passes over a row that stays in cache, and values that are dear to compute are kept in scratch memory
between them.
"""

from __future__ import annotations

from intaglio.ir.dim import product
from intaglio.ir.graph import Node, Value
from intaglio.kernels.columns import columns_call
from intaglio.kernels.expression import CHEAP, cost_of, round_once, scalar_constant
from intaglio.kernels.plan import Call, Kernel, Operand, Size, SizeTerm
from intaglio.kernels.program import REDUCTIONS, Program, Variables, accumulator_kind, identity_of, reads
from intaglio.kernels.register import MEMORY, combine, register_kind, with_headers
from intaglio.kernels.view import Loops, View, collapse_strides

CHUNK = 16384
"""Elements of a row that one task computes where nothing is reduced."""

PARTS = 4
"""Accumulators of a reduction that does little else, a power of two."""


def loop_call(program: Program) -> Call:
    """The kernel of a program and the driver's call of it."""
    is_wide = any(accumulator_kind(node) != register_kind(node.output.dtype) for node in program.nodes)
    return (None if is_wide or program.checks else columns_call(program)) or _Emission(program).call()


class _Emission:
    """The state of printing one kernel."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.sizes: list[tuple[str, Size]] = []
        self.variables = Variables(program.loads)
        self.operands: list[tuple[Value, View]] = [*program.loads.items(), *program.stores.items()]
        self.load_index = {value: index for index, value in enumerate(program.loads)}
        self.store_index = {value: len(program.loads) + index for index, value in enumerate(program.stores)}
        self._make_loops()
        self.levels = self._find_levels()
        self.spilled = self._find_spilled()

    def _make_loops(self) -> None:
        program, order = self.program, self.program.order
        border = len(order) - len(program.reduced) if program.reduced else len(order)
        extents = [program.shape[axis] for axis in order]
        strides = [[view.strides[axis] for axis in order] for _, view in self.operands]
        rows = collapse_strides(extents[:border], [row[:border] for row in strides])
        columns = collapse_strides(extents[border:], [row[border:] for row in strides])
        if not program.reduced and rows.extents:
            columns = Loops(rows.extents[-1:], tuple(row[-1:] for row in rows.strides))
            rows = Loops(rows.extents[:-1], tuple(row[:-1] for row in rows.strides))
        if not columns.extents:
            columns = Loops((1,), ((0 if program.reduced else 1,),) * len(strides))
        self.rows, self.columns = rows, columns

    def _is_row(self, value: Value) -> bool:
        """Whether the value has one element for each row: a result of a reduction, or of arithmetic on such."""
        if not self.program.reduced:
            return False
        if value in self.load_index:
            return all(stride == 0 for stride in self.columns.strides[self.load_index[value]])
        shape = value.shape
        missing = len(self.program.shape) - len(shape)
        return all(axis < missing or shape[axis - missing] == 1 for axis in self.program.reduced)

    def _is_hoisted(self, value: Value) -> bool:
        """Whether a load can stand before the innermost loop."""
        return self.columns.strides[self.load_index[value]][-1] == 0 and len(self.columns.extents) == 1

    def _find_levels(self) -> dict[Value, int]:
        levels: dict[Value, int] = {}
        for node in self.program.nodes:
            below = max((levels.get(value, 0) for value in reads(node)), default=0)
            levels[node.output] = below + 1 if node.op.name in REDUCTIONS else below
        return levels

    def _find_spilled(self) -> list[Value]:
        """Values too dear to compute again in a later pass."""
        if not self.program.reduced:
            return []
        last_use: dict[Value, int] = {}
        for node in reversed(self.program.nodes):
            is_reduction = node.op.name in REDUCTIONS
            at = self.levels[node.output] - 1 if is_reduction else self.levels[node.output]
            if not is_reduction and not self._is_row(node.output):
                at = max(at, last_use.get(node.output, at) if node.op.name in CHEAP else at)
            for value in reads(node):
                last_use[value] = max(last_use.get(value, 0), at)
        return [
            node.output
            for node in self.program.nodes
            if node.op.name not in CHEAP
            and node.op.name not in REDUCTIONS
            and not self._is_row(node.output)
            and node.output.dtype.kind != "bool"
            and last_use.get(node.output, 0) > self.levels[node.output]
        ]

    def call(self) -> Call:
        """Print the kernel and describe its call."""
        self._declare_sizes()
        body = self._reduced_task() if self.program.reduced else self._chunk_task()
        source = with_headers("\n".join([*self._header(), "{", *self._prologue(), *body, "}", ""]))
        columns = product(self.columns.extents)
        rows = product(self.rows.extents)
        elements = 0.02 + sum(cost_of(node) for node in self.program.nodes) + 0.05 * len(self.operands)
        picoseconds = max(20, int(1000 * elements))
        if self.program.reduced:
            tasks, cost = rows, SizeTerm(f"1 + {{0}} * {picoseconds} / 1000", (columns,))
            if self.program.checks:
                tasks = SizeTerm("({0}) > 0 ? ({0}) : 1", (rows,))
        else:
            chunks = SizeTerm(f"({{0}}) * ((({{1}}) + {CHUNK - 1}) / {CHUNK})", (rows, columns))
            tasks = chunks
            cost = SizeTerm(f"1 + (({{0}}) < {CHUNK} ? ({{0}}) : {CHUNK}) * {picoseconds} / 1000", (columns,))
        spill: Size = (
            SizeTerm(f"{len(self.spilled)} * ((({{0}}) * 8 + 63) / 64 * 64)", (columns,)) if self.spilled else 0
        )
        return Call(
            Kernel(self._hint(), source),
            [
                Operand(view.buffer, view.offset, index >= len(self.program.loads))
                for index, (_, view) in enumerate(self.operands)
            ],
            self.sizes,
            tasks,
            cost,
            spill,
            nodes=tuple(self.program.nodes),
            title=self.program.title,
            checks=self.program.checks,
            flops=product(self.program.shape) * max(1, len(self.program.nodes)),
        )

    def _hint(self) -> str:
        names = [node.op.name.lower() for node in self.program.nodes] or ["copy"]
        text = "_".join(names[:4]) + (f"_and_{len(names) - 4}_more" if len(names) > 4 else "")
        return "".join(c if c.isalnum() else "_" for c in text)

    def _size(self, name: str, value: Size) -> str:
        self.sizes.append((name, value))
        return name

    def _declare_sizes(self) -> None:
        for index, extent in enumerate(self.columns.extents):
            self._size(f"columns{index}" if index + 1 < len(self.columns.extents) else "columns", extent)
        for index, extent in enumerate(self.rows.extents):
            self._size(f"rows{index}", extent)
        for index in range(len(self.operands)):
            for loop, stride in enumerate(self.rows.strides[index]):
                if stride != 0:
                    self._size(f"row_stride{index}_{loop}", stride)
            for loop, stride in enumerate(self.columns.strides[index]):
                is_inner = loop + 1 == len(self.columns.extents)
                if stride != 0 and not (is_inner and stride == 1):
                    self._size(f"column_stride{index}_{loop}", stride)

    def _header(self) -> list[str]:
        nodes = ", ".join(node.op.name for node in self.program.nodes) or "copy"
        buffers = ", ".join(
            f"{value.dtype} {'out' if i >= len(self.program.loads) else 'in'}"
            for i, (value, _) in enumerate(self.operands)
        )
        return [
            f"/* {nodes}",
            f"   buffers: {buffers}; sizes: {', '.join(name for name, _ in self.sizes)} */",
            "void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)",
        ]

    def _prologue(self) -> list[str]:
        lines: list[str] = []
        for index, (value, _) in enumerate(self.operands):
            constant = "const " if index < len(self.program.loads) else ""
            lines.append(f"    {constant}{_element(value)} *const x{index} = buffer[{index}];")
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
        for index, (value, _) in enumerate(self.operands):
            terms = [
                f"i{loop} * row_stride{index}_{loop}"
                for loop, stride in enumerate(self.rows.strides[index])
                if stride != 0
            ]
            constant = "const " if index < len(self.program.loads) else ""
            lines.append(
                f"        {constant}{_element(value)} *p{index} = x{index}{''.join(' + ' + t for t in terms)};"
            )
        return lines

    def _chunk_task(self) -> list[str]:
        lines = [
            f"    const int64_t chunks = (columns + {CHUNK - 1}) / {CHUNK};",
            "    for (int64_t task = begin; task < end; task++) {",
            f"        const int64_t from = task % chunks * {CHUNK};",
            f"        const int64_t count = columns - from < {CHUNK} ? columns - from : {CHUNK};",
            *self._row_pointers("task / chunks"),
        ]
        for index in range(len(self.operands)):
            step = self._inner_step(index)
            if step != "0":
                lines.append(f"        p{index} += from * {step};")
        hoisted = [value for value in self.program.loads if self._is_hoisted(value) and scalar_constant(value) is None]
        lines += ["        " + self._load(value, "0", None) for value in hoisted]
        targets = list(self.program.stores)
        lines += self._vector_loop("count", targets, [], 0, set(hoisted), "        ")
        lines.append("    }")
        return lines

    def _inner_step(self, index: int) -> str:
        stride = self.columns.strides[index][-1]
        if stride == 0:
            return "0"
        return "1" if stride == 1 else f"column_stride{index}_{len(self.columns.extents) - 1}"

    def _vector_loop(
        self, count: str, targets: list[Value], reductions: list[Node], at: int, known: set[Value], indent: str
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
        self, count: str, targets: list[Value], reductions: list[Node], at: int, known: set[Value], indent: str
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

    def _parts(self, targets: list[Value], reductions: list[Node], at: int, known: set[Value]) -> int:
        """How many accumulators a reduction has: several where waiting for one of them would be most of the work."""
        needed = self._cone([*targets, *(node.input for node in reductions)], at, known)
        producers = {node.output: node for node in self.program.nodes}
        nodes = [producers[value] for value in needed if value in producers]
        is_light = len(nodes) <= 4 and all(cost_of(node) <= 0.1 for node in nodes)
        return PARTS if reductions and is_light and not targets else 1

    def _body(
        self,
        targets: list[Value],
        reductions: list[Node],
        at: int,
        known: set[Value],
        indent: str,
        left: str | None,
        part: int = 0,
    ) -> list[str]:
        needed = self._cone([*targets, *(node.input for node in reductions)], at, known)
        lines: list[str] = []
        for value in needed:
            lines.append(indent + self._compute(value, at, left))
        for node in reductions:
            lines.append(indent + self._accumulate(node, left, part))
        for value in targets:
            if value in self.spilled and self.levels[value] == at:
                lines.append(indent + self._spill(value, left))
            if value in self.program.stores:
                lines.append(indent + self._store(value, left))
        return lines

    def _cone(self, targets: list[Value], at: int, known: set[Value]) -> list[Value]:
        """What must be computed or loaded in this pass for the targets, in order."""
        found: dict[Value, None] = {}
        stack: list[tuple[Value, bool]] = [(value, False) for value in reversed(targets)]
        producers = {node.output: node for node in self.program.nodes}
        while stack:
            value, is_done = stack.pop()
            if value in found or value in known or self.variables.is_literal(value):
                continue
            node = producers.get(value)
            is_read = node is None or self._is_spilled_before(value, at)
            if is_done or is_read:
                found[value] = None
                continue
            stack.append((value, True))
            assert node is not None
            stack += [(source, False) for source in reversed(reads(node)) if source not in found]
        return list(found)

    def _is_spilled_before(self, value: Value, at: int) -> bool:
        return value in self.spilled and self.levels[value] < at

    def _compute(self, value: Value, at: int, left: str | None) -> str:
        if value in self.load_index:
            return self._load(value, "j", left)
        if self._is_spilled_before(value, at):
            kind = register_kind(value.dtype)
            return self.variables.declare(value, kind, _load_text(kind, self._spill_pointer(value), left))
        node = next(node for node in self.program.nodes if node.output is value)
        return self.variables.assign(node)

    def _load(self, value: Value, position: str, left: str | None) -> str:
        index = self.load_index[value]
        step = self._inner_step(index)
        suffix, kind = self._access(value)
        pointer = self._pointer(index)
        if step == "0":
            text = f"ig_broadcast_{suffix}({pointer})"
        elif step == "1":
            text = _load_text(suffix, f"{pointer} + {position}", left)
        else:
            text = f"ig_gather_{suffix}({pointer} + {position} * {step}, {step}, {left or 'IG_LANES'})"
        return self.variables.declare(value, kind, text)

    def _access(self, value: Value) -> tuple[str, str]:
        """The suffix of the functions that load and store a value, and the kind of its register; a copy moves bits."""
        element, suffix = MEMORY[value.dtype.name]
        if element == "uint16_t" and not self.program.nodes and scalar_constant(value) is None:
            return "u16", "u16"
        return suffix, register_kind(value.dtype)

    def _pointer(self, index: int) -> str:
        return f"q{index}" if len(self.columns.extents) > 1 else f"p{index}"

    def _store(self, value: Value, left: str | None) -> str:
        index = self.store_index[value]
        step, suffix = self._inner_step(index), self._access(value)[0]
        pointer, name = self._pointer(index), self.variables.register(value).text
        if step == "1":
            tail = f"_n_{suffix}({pointer} + j, {name}, {left})" if left else f"_{suffix}({pointer} + j, {name})"
            return f"ig_store{tail};"
        return f"ig_scatter_{suffix}({pointer} + j * {step}, {step}, {name}, {left or 'IG_LANES'});"

    def _spill_pointer(self, value: Value) -> str:
        kind = register_kind(value.dtype)
        slot = self.spilled.index(value)
        return f"(ig_{kind}_element *)((char *)scratch + {slot} * span) + base + j"

    def _spill(self, value: Value, left: str | None) -> str:
        kind = register_kind(value.dtype)
        tail = f"_n_{kind}({self._spill_pointer(value)}, {self.variables.name(value)}, {left})"
        full = f"_{kind}({self._spill_pointer(value)}, {self.variables.name(value)})"
        return f"ig_store{tail if left else full};"

    def _accumulate(self, node: Node, left: str | None, part: int) -> str:
        """Add to an accumulator, which comes second: then only a fast instruction has to wait for it."""
        function, _ = REDUCTIONS[node.op.name]
        source, kind = self.variables.register(node.input), accumulator_kind(node)
        text = source.text if source.kind == kind else f"ig_cast_{source.kind}_{kind}({source.text})"
        if left:
            text = f"ig_keep_{kind}({text}, {identity_of(node, kind)}, {left})"
        name = self._accumulator(node, part)
        return f"{name} = {combine(function, kind, text, name)};"

    def _accumulator(self, node: Node, part: int) -> str:
        return f"sum_{self.variables.name(node.output)}" + (f"_{part}" if part else "")

    def _reduced_task(self) -> list[str]:
        lines = [*self._check(), "    for (int64_t task = begin; task < end; task++) {", *self._row_pointers("task")]
        if self.spilled:
            total = " * ".join(name for name, _ in self.sizes[: len(self.columns.extents)])
            lines.append(f"        const int64_t span = ({total} * 8 + 63) / 64 * 64;")
        row_loads = [value for value in self.program.loads if self._is_row(value) and scalar_constant(value) is None]
        lines += ["        " + self._row_load(value) for value in row_loads]
        known = set(row_loads)
        for at in range(max(self.levels.values(), default=0) + 1):
            lines += self._row_values(at, known)
            lines += self._pass(at, known)
        lines += self._row_stores()
        lines.append("    }")
        return lines

    def _check(self) -> list[str]:
        """Report a mean of nothing; the one task that there is without any rows is there for that alone."""
        if not self.program.checks:
            return []
        count = " * ".join(name for name, _ in self.sizes[: len(self.columns.extents)])
        rows = " * ".join(["1", *(f"rows{loop}" for loop in range(len(self.rows.extents)))])
        return [
            f"    if ({count} < 1) {{",
            f"        *(int64_t *)buffer[{len(self.operands)}] = 1;",
            "        return;",
            "    }",
            f"    end = {rows} < end ? {rows} : end;",
        ]

    def _row_load(self, value: Value) -> str:
        index = self.load_index[value]
        suffix, kind = MEMORY[value.dtype.name][1], register_kind(value.dtype)
        return self.variables.declare(value, kind, f"ig_broadcast_{suffix}(p{index})")

    def _row_values(self, at: int, known: set[Value]) -> list[str]:
        """Finish the reductions of the pass before and compute what follows from them alone."""
        lines: list[str] = []
        for node in self.program.nodes:
            if self.levels[node.output] != at:
                continue
            if node.op.name in REDUCTIONS:
                lines.append("        " + self._finish(node))
                known.add(node.output)
            elif self._is_row(node.output) and all(v in known or self.variables.is_literal(v) for v in reads(node)):
                lines.append("        " + self.variables.assign(node))
                known.add(node.output)
        return lines

    def _finish(self, node: Node) -> str:
        function, _ = REDUCTIONS[node.op.name]
        kind, wide = register_kind(node.output.dtype), accumulator_kind(node)
        total = f"ig_reduce_{function}_{wide}(sum_{self.variables.name(node.output)})"
        if node.op.name == "ReduceMean":
            count = " * ".join(name for name, _ in self.sizes[: len(self.columns.extents)])
            total = f"ig_mean_{wide}({total}, {count})"
        if wide != kind:
            total = f"(ig_{kind}_element){total}"
        text = round_once(f"ig_set_{kind}({total})", node)
        return self.variables.declare(node.output, kind, text)

    def _pass(self, at: int, known: set[Value]) -> list[str]:
        reductions = [n for n in self.program.nodes if n.op.name in REDUCTIONS and self.levels[n.output] == at + 1]
        targets = [
            value
            for value in dict.fromkeys([*self.spilled, *self.program.stores])
            if not self._is_row(value) and self.levels.get(value, 0) == at
        ]
        if not reductions and not targets:
            return []
        lines: list[str] = []
        parts = self._parts(targets, reductions, at, known)
        for node in reductions:
            kind = accumulator_kind(node)
            identity = identity_of(node, kind)
            lines += [f"        ig_{kind} {self._accumulator(node, part)} = {identity};" for part in range(parts)]
        lines += self._column_loops(targets, reductions, at, known)
        while parts > 1:
            parts //= 2
            lines += [self._join_parts(node, part, part + parts) for node in reductions for part in range(parts)]
        return lines

    def _join_parts(self, node: Node, left: int, right: int) -> str:
        names = self._accumulator(node, left), self._accumulator(node, right)
        return f"        {names[0]} = {combine(REDUCTIONS[node.op.name][0], accumulator_kind(node), *names)};"

    def _column_loops(self, targets: list[Value], reductions: list[Node], at: int, known: set[Value]) -> list[str]:
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
        for index, (value, _) in enumerate(self.operands):
            strides = self.columns.strides[index]
            terms = [f" + c{loop} * column_stride{index}_{loop}" for loop in range(outer) if strides[loop] != 0]
            constant = "const " if index < len(self.program.loads) else ""
            lines.append(f"            {constant}{_element(value)} *q{index} = p{index}{''.join(terms)};")
            lines.append(f"            (void)q{index};")
        return lines

    def _row_stores(self) -> list[str]:
        lines: list[str] = []
        for value in self.program.stores:
            if self._is_row(value):
                suffix, name = MEMORY[value.dtype.name][1], self.variables.name(value)
                lines.append(f"        ig_store_n_{suffix}(p{self.store_index[value]}, {name}, 1);")
        return lines


def _element(value: Value) -> str:
    return MEMORY[value.dtype.name][0]


def _load_text(suffix: str, pointer: str, left: str | None) -> str:
    return f"ig_load_n_{suffix}({pointer}, {left})" if left else f"ig_load_{suffix}({pointer})"
