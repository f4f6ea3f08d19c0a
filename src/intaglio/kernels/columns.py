"""Column reductions: loop kernels whose reduced axes are not the contiguous one.

The kept axis along which the operands are contiguous runs over vectors. A task is a strip of columns: several vectors
of accumulators stay in registers while the reduced axes are walked, then what follows from the sums alone is computed
and stored. Sums are taken in runs and the runs added up, so that many rows lose little precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from intaglio.ir.dim import Dim, product
from intaglio.ir.graph import Node, Value
from intaglio.kernels.expression import cost_of, scalar_constant
from intaglio.kernels.plan import Call, Kernel, Operand, Size, SizeTerm
from intaglio.kernels.program import REDUCTIONS, Program, Variables, identity_of, reads
from intaglio.kernels.register import BITS, MEMORY, combine, register_kind, with_headers
from intaglio.kernels.view import Loops, View, collapse

STRIP = 128
"""Columns of one task."""

RUN = 256
"""Steps along the innermost reduced axis that are summed before the sum is added to the total."""


def columns_call(program: Program) -> Call | None:
    """The kernel of a program with reductions and its call, or None where walking along rows serves it better."""
    plan = _Columns(program)
    return plan.call() if program.reduced and plan.is_fitting else None


@dataclass(frozen=True)
class _Columns:
    program: Program

    @cached_property
    def operands(self) -> list[tuple[Value, View]]:
        return [*self.program.loads.items(), *self.program.stores.items()]

    @cached_property
    def kept(self) -> Loops:
        """The kept loops; the last runs over vectors."""
        return self._loops([axis for axis in range(len(self.program.shape)) if axis not in self.program.reduced])

    @cached_property
    def walked(self) -> Loops:
        """The reduced loops."""
        return self._loops(self.program.reduced)

    def _loops(self, axes: Sequence[int]) -> Loops:
        extents = tuple(self.program.shape[axis] for axis in axes)
        views = [View(view.buffer, 0, extents, tuple(view.strides[axis] for axis in axes)) for _, view in self.operands]
        return collapse(extents, views)

    @cached_property
    def reductions(self) -> list[Node]:
        return [node for node in self.program.nodes if node.op.name in REDUCTIONS]

    @cached_property
    def producers(self) -> dict[Value, Node]:
        return {node.output: node for node in self.program.nodes}

    def cone(self, targets: Sequence[Value], known: Sequence[Value] = ()) -> list[Value]:
        """The targets and all that they are computed from, operands first; `known` values end the search."""
        found: dict[Value, None] = {}

        def visit(value: Value) -> None:
            if value in found or value in known:
                return
            node = self.producers.get(value)
            for source in reads(node) if node is not None else ():
                visit(source)
            found[value] = None

        for value in targets:
            visit(value)
        return list(found)

    @cached_property
    def before(self) -> list[Value]:
        """What is computed at each step of the walk."""
        return self.cone([reads(node)[0] for node in self.reductions])

    @cached_property
    def after(self) -> list[Value]:
        """What is computed once the sums are known."""
        return self.cone(list(self.program.stores), [node.output for node in self.reductions])

    @property
    def is_fitting(self) -> bool:
        """Whether the columns are contiguous in all operands, the walk is not, and the sums depend on no sums."""
        if not self.kept.extents or not self.walked.extents:
            return False
        if any(self.producers[value] in self.reductions for value in self.before if value in self.producers):
            return False
        steps = [rows[-1] for rows in self.kept.strides]
        loads = len(self.program.loads)
        is_even = all(step in (0, 1) for step in steps[:loads]) and all(step == 1 for step in steps[loads:])
        is_walked_evenly = all(rows[-1] in (0, 1) for rows in self.walked.strides[:loads])
        return is_even and not is_walked_evenly and all(self._is_sum(value) for value in self.after)

    def _is_sum(self, value: Value) -> bool:
        """Whether the value is the same along the whole walk."""
        if value in self.program.loads:
            return all(stride == 0 for stride in self.walked.strides[list(self.program.loads).index(value)])
        missing = len(self.program.shape) - value.rank
        return all(axis < missing or value.shape[axis - missing] == 1 for axis in self.program.reduced)

    @cached_property
    def sizes(self) -> list[tuple[str, Size]]:
        columns = self.kept.extents[-1]
        sizes: list[tuple[str, Size]] = [
            ("columns", columns),
            ("strips", SizeTerm(f"(columns + {STRIP - 1}) / {STRIP}")),
        ]
        sizes += [(f"rows{loop}", extent) for loop, extent in enumerate(self.kept.extents[:-1])]
        sizes += [(f"walk{loop}", extent) for loop, extent in enumerate(self.walked.extents)]
        for index in range(len(self.operands)):
            row, walk = self.kept.strides[index][:-1], self.walked.strides[index]
            sizes += [(f"row_stride{index}_{loop}", stride) for loop, stride in enumerate(row) if stride != 0]
            sizes += [(f"walk_stride{index}_{loop}", stride) for loop, stride in enumerate(walk) if stride != 0]
        return sizes

    def call(self) -> Call:
        """Print the kernel and describe its call."""
        rows: Dim = product(self.kept.extents[:-1])
        walk = product(self.walked.extents)
        work = 0.02 + sum(cost_of(node) for node in self.program.nodes) + 0.05 * len(self.program.loads)
        return Call(
            Kernel(_hint(self.program.nodes), _Printer(self).source()),
            [Operand(view.buffer, view.offset, value not in self.program.loads) for value, view in self.operands],
            self.sizes,
            SizeTerm("({0}) * strips", (rows,)),
            SizeTerm(
                f"1 + (columns < {STRIP} ? columns : {STRIP}) * ({{0}}) * {max(20, int(1000 * work))} / 1000", (walk,)
            ),
            nodes=tuple(self.program.nodes),
            title=self.program.title,
            flops=product(self.program.shape) * max(1, len(self.program.nodes)),
        )


class _Printer:
    """The text of one kernel."""

    def __init__(self, plan: _Columns) -> None:
        self.plan, self.program = plan, plan.program
        self.variables = Variables(self.program.loads)
        self.index = {value: index for index, value in enumerate(self.program.loads)}
        self.stores = {value: len(self.index) + index for index, value in enumerate(self.program.stores)}

    def source(self) -> str:
        """A function for a few vectors of columns, and the kernel that calls it."""
        return with_headers("\n".join([*self._block(), *self._kernel(), ""]))

    @property
    def vectors(self) -> int:
        """How many vectors of columns are summed at once: as many as leave registers free."""
        width = sum(max(1, BITS[register_kind(node.output.dtype)] // 32) for node in self.plan.reductions)
        return 8 if width == 1 else 4 if width == 2 else 2

    def _parameters(self) -> list[str]:
        return [f"{self._element(index)} *p{index}" for index in range(len(self.plan.operands))]

    def _element(self, index: int) -> str:
        value, _ = self.plan.operands[index]
        return ("const " if index < len(self.index) else "") + MEMORY[value.dtype.name][0]

    def _declarations(self) -> list[str]:
        lines = [f"    const int64_t {name} = size[{index}];" for index, (name, _) in enumerate(self.plan.sizes)]
        return lines + [f"    (void){name};" for name, _ in self.plan.sizes]

    def _kernel(self) -> list[str]:
        names = ", ".join(node.op.name for node in self.program.nodes)
        lines = [
            f"/* {names}, column by column",
            f"   sizes: {', '.join(name for name, _ in self.plan.sizes)} */",
            "void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)",
            "{",
            *self._declarations(),
            "    for (int64_t task = begin; task < end; task++) {",
            f"        int64_t rest = task / strips, c = task % strips * {STRIP};",
            f"        const int64_t last = c + {STRIP} < columns ? c + {STRIP} : columns;",
        ]
        for index in range(len(self.plan.operands)):
            lines.append(f"        {self._element(index)} *p{index} = buffer[{index}];")
        lines += self._row_offsets()
        for vectors in dict.fromkeys((self.vectors, 2, 1)):
            lines += self._block_call(vectors)
        return [*lines, "    }", "}"]

    def _row_offsets(self) -> list[str]:
        lines: list[str] = []
        for loop in reversed(range(len(self.plan.kept.extents) - 1)):
            for index in range(len(self.plan.operands)):
                if self.plan.kept.strides[index][loop] != 0:
                    lines.append(f"        p{index} += rest % rows{loop} * row_stride{index}_{loop};")
            lines.append(f"        rest /= rows{loop};")
        return lines

    def _block_call(self, vectors: int) -> list[str]:
        pointers = "".join(
            f", p{index}" + (" + c" if self.plan.kept.strides[index][-1] != 0 else "")
            for index in range(len(self.plan.operands))
        )
        width = "IG_LANES" if vectors == 1 else f"{vectors} * IG_LANES"
        condition = "c < last" if vectors == 1 else f"c + {width} <= last"
        left = "last - c < IG_LANES ? last - c : IG_LANES" if vectors == 1 else "IG_LANES"
        return [
            f"        for (; {condition}; c += {width})",
            f"            IG_FUNCTION_block(size, {vectors}, {left}{pointers});",
        ]

    def _block(self) -> list[str]:
        arguments = ", ".join(self._parameters())
        totals = [(node, register_kind(node.output.dtype), f"total{i}") for i, node in enumerate(self.plan.reductions)]
        lines = [
            f"IG_INLINE void IG_FUNCTION_block(const int64_t *size, int vectors, int64_t left, {arguments})",
            "{",
            *self._declarations(),
        ]
        for node, kind, total in totals:
            lines.append(f"    ig_{kind} {total}[{self.vectors}];")
            lines += _for_vectors("    ", [f"{total}[v] = {identity_of(node, kind)};"])
        lines += self._walk(totals)
        return [*lines, *self._finish(totals), "}"]

    def _walk(self, totals: list[tuple[Node, str, str]]) -> list[str]:
        last = len(self.plan.walked.extents) - 1
        lines = [f"    for (int64_t w{loop} = 0; w{loop} < walk{loop}; w{loop}++)" for loop in range(last)]
        lines += [
            f"    for (int64_t first = 0; first < walk{last}; first += {RUN}) {{",
            f"        const int64_t stop = first + {RUN} < walk{last} ? first + {RUN} : walk{last};",
        ]
        for node, kind, total in totals:
            lines.append(f"        ig_{kind} part_{total}[{self.vectors}];")
            lines += _for_vectors("        ", [f"part_{total}[v] = {identity_of(node, kind)};"])
        body = self._values(self.plan.before, lambda index: self._walk_offset(index, last))
        for node, kind, total in totals:
            part = f"part_{total}[v]"
            source = self.variables.register(reads(node)[0]).text
            body.append(f"{part} = {combine(REDUCTIONS[node.op.name][0], kind, part, source)};")
        lines += [
            f"        for (int64_t w{last} = first; w{last} < stop; w{last}++) {{",
            *_for_vectors("            ", body),
        ]
        lines.append("        }")
        for node, kind, total in totals:
            whole = combine(REDUCTIONS[node.op.name][0], kind, f"{total}[v]", f"part_{total}[v]")
            lines += _for_vectors("        ", [f"{total}[v] = {whole};"])
        return [*lines, "    }"]

    def _walk_offset(self, index: int, last: int) -> str:
        strides = self.plan.walked.strides[index]
        return "".join(f" + w{loop} * walk_stride{index}_{loop}" for loop in range(last + 1) if strides[loop] != 0)

    def _finish(self, totals: list[tuple[Node, str, str]]) -> list[str]:
        self.variables = Variables(self.program.loads)
        body = [
            self.variables.declare(node.output, kind, self._result(node, kind, total)) for node, kind, total in totals
        ]
        body += self._values(self.plan.after, lambda index: "")
        for value, index in self.stores.items():
            suffix, name = MEMORY[value.dtype.name][1], self.variables.register(value).text
            body.append(f"if (vectors == 1) ig_store_n_{suffix}(p{index}, {name}, left);")
            body.append(f"else ig_store_{suffix}(p{index} + v * IG_LANES, {name});")
        return _for_vectors("    ", body)

    def _result(self, node: Node, kind: str, total: str) -> str:
        if node.op.name != "ReduceMean":
            return f"{total}[v]"
        count = " * ".join(f"walk{loop}" for loop in range(len(self.plan.walked.extents)))
        divisor = f"ig_set_{kind}((ig_{kind}_element)({count}))"
        return f"{total}[v] / {divisor}" if kind in ("f32", "f64") else f"ig_div_{kind}({total}[v], {divisor})"

    def _values(self, values: Sequence[Value], offset: Callable[[int], str]) -> list[str]:
        lines: list[str] = []
        for value in values:
            node = self.plan.producers.get(value)
            if node is not None:
                lines.append(self.variables.assign(node))
            elif scalar_constant(value) is None:
                lines.append(self._load(value, offset(self.index[value])))
        return lines

    def _load(self, value: Value, offset: str) -> str:
        index, kind, suffix = self.index[value], register_kind(value.dtype), MEMORY[value.dtype.name][1]
        pointer = f"p{index}{offset}"
        text = f"vectors == 1 ? ig_load_n_{suffix}({pointer}, left) : ig_load_{suffix}({pointer} + v * IG_LANES)"
        if self.plan.kept.strides[index][-1] == 0:
            text = f"ig_broadcast_{suffix}({pointer})"
        return self.variables.declare(value, kind, text)


def _hint(nodes: Sequence[Node]) -> str:
    return "_".join(node.op.name.lower() for node in nodes[:3]) + "_columns"


def _for_vectors(indent: str, body: list[str]) -> list[str]:
    head = [f"{indent}IG_UNROLL", f"{indent}for (int v = 0; v < vectors; v++) {{"]
    return [*head, *(f"{indent}    {line}" for line in body), f"{indent}}}"]
