"""Column reductions: loop kernels whose reduced axes are not the contiguous one.

The kept axis along which the operands are contiguous runs over vectors. A task is a strip of columns: several vectors
of accumulators stay in registers while the reduced axes are walked, then what follows from the sums alone is computed
and stored. Sums are taken in runs and the runs added up, so that many rows lose little precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from intaglio.ir.dim import Dim, floordiv, minimum, pieces, product
from intaglio.kernels.kernel import Kernel
from intaglio.kernels.language import (
    Let,
    Load,
    LoopKernel,
    Reduce,
    Stride,
    nanoseconds,
)
from intaglio.kernels.plan import Call, Size
from intaglio.kernels.schedule import Schedule, Step
from intaglio.targets.c.printing.register import MASKS, MEMORY, combine, kind_of, with_headers
from intaglio.targets.c.printing.variables import COMBINE, Variables, nothing


class Columns:
    """Prints kernels that reduce along another axis than the contiguous one."""

    def __init__(self, kernel: LoopKernel, given: Mapping[str, Dim], plan: Schedule) -> None:
        self.kernel, self.given, self.plan = kernel, given, plan
        self.strip, self.run = plan.strip or 1, plan.run or 1
        self.kept = tuple(given[loop.name] for loop in kernel.kept)
        self.walked = tuple(given[name] for name in plan.walk)
        self.place = {parameter.name: place for place, parameter in enumerate(kernel.parameters)}
        self.definitions = kernel.definitions
        (self.walk,) = plan.passes
        self.once = [each for each in plan.body if isinstance(each, Step)]
        names = self.walk.names("add")
        self.reductions = [each for name in names if isinstance(each := self.definitions[name], Reduce)]
        self.variables = Variables()

    def kept_steps(self, index: int) -> tuple[Stride, ...]:
        """The steps of a parameter along the kept loops."""
        return self.kernel.parameters[index].steps[: len(self.kept)]

    def walk_steps(self, index: int) -> tuple[Stride, ...]:
        """The steps of a parameter along the reduced loops."""
        return self.kernel.parameters[index].steps[len(self.kept) :]

    @cached_property
    def sizes(self) -> list[tuple[str, Size]]:
        """The sizes of a call by name."""
        sizes: list[tuple[str, Size]] = [
            ("columns", self.kept[-1]),
            ("strips", pieces(self.kept[-1], self.strip)),
        ]
        sizes += [(f"rows{loop}", extent) for loop, extent in enumerate(self.kept[:-1])]
        sizes += [(f"walk{loop}", extent) for loop, extent in enumerate(self.walked)]
        for index in range(len(self.kernel.parameters)):
            row, walk = self.kept_steps(index)[:-1], self.walk_steps(index)
            sizes += [(f"row_stride{index}_{loop}", self._stride(step)) for loop, step in enumerate(row) if step != 0]
            sizes += [(f"walk_stride{index}_{loop}", self._stride(step)) for loop, step in enumerate(walk) if step != 0]
        return sizes

    def _stride(self, step: Stride) -> Dim:
        return self.given[step] if isinstance(step, str) else step

    def call(self) -> Call:
        """Describe the call; the caller adds operands and nodes."""
        loads = sum(not each.is_written for each in self.kernel.parameters)
        work = 0.02 + sum(map(nanoseconds, self.kernel.body)) + 0.05 * loads
        *rows, columns = self.kept
        cost = 1 + floordiv(minimum(columns, self.strip) * product(self.walked) * max(20, int(1000 * work)), 1000)
        names = self.kernel.about.lower().split(", ")
        return Call(
            Kernel("_".join(names[:3]) + "_columns", self.kernel),
            [],
            self.sizes,
            product(rows) * pieces(columns, self.strip),
            cost,
        )

    def source(self) -> str:
        """A function for a few vectors of columns, and the kernel that calls it."""
        return with_headers("\n".join([*self._block(), *self._kernel(), ""]))

    @property
    def vectors(self) -> int:
        """How many vectors of columns are summed at once: as many as leave registers free."""
        width = sum(max(1, MASKS[kind_of(each.type)] // 32) for each in self.reductions)
        return 8 if width == 1 else 4 if width == 2 else 2

    @property
    def chains(self) -> int:
        """How many results of one vector of columns are made side by side: each waits for itself alone."""
        return min(self.walk.parts, self.vectors)

    def _parameters(self) -> list[str]:
        return [f"{self._element(index)} *p{index}" for index in range(len(self.kernel.parameters))]

    def _element(self, index: int) -> str:
        parameter = self.kernel.parameters[index]
        return ("" if parameter.is_written else "const ") + MEMORY[parameter.dtype.name][0]

    def _declarations(self) -> list[str]:
        lines = [f"    const int64_t {name} = size[{index}];" for index, (name, _) in enumerate(self.sizes)]
        return lines + [f"    (void){name};" for name, _ in self.sizes]

    def _kernel(self) -> list[str]:
        lines = [
            f"/* {self.kernel.about}, column by column",
            f"   sizes: {', '.join(name for name, _ in self.sizes)} */",
            "void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)",
            "{",
            *self._declarations(),
            "    for (int64_t task = begin; task < end; task++) {",
            f"        int64_t rest = task / strips, c = task % strips * {self.strip};",
            f"        const int64_t last = c + {self.strip} < columns ? c + {self.strip} : columns;",
        ]
        for index in range(len(self.kernel.parameters)):
            lines.append(f"        {self._element(index)} *p{index} = buffer[{index}];")
        lines += self._row_offsets()
        for vectors in dict.fromkeys((self.vectors, 2, 1)):
            lines += self._block_call(vectors)
        return [*lines, "    }", "}"]

    def _row_offsets(self) -> list[str]:
        lines: list[str] = []
        for loop in reversed(range(len(self.kept) - 1)):
            for index in range(len(self.kernel.parameters)):
                if self.kept_steps(index)[loop] != 0:
                    lines.append(f"        p{index} += rest % rows{loop} * row_stride{index}_{loop};")
            lines.append(f"        rest /= rows{loop};")
        return lines

    def _block_call(self, vectors: int) -> list[str]:
        pointers = "".join(
            f", p{index}" + (" + c" if self.kept_steps(index)[-1] != 0 else "")
            for index in range(len(self.kernel.parameters))
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
        totals = [(each, kind_of(each.type), f"total{i}") for i, each in enumerate(self.reductions)]
        lines = [
            f"IG_INLINE void IG_FUNCTION_block(const int64_t *size, int vectors, int64_t left, {arguments})",
            "{",
            *self._declarations(),
        ]
        for each, kind, total in totals:
            lines.append(f"    ig_{kind} {total}[{self.vectors}];")
            lines += _for_vectors("    ", [f"{total}[v] = {nothing(each)};"])
        lines += self._walk(totals)
        return [*lines, *self._finish(totals), "}"]

    def _walk(self, totals: list[tuple[Reduce, str, str]]) -> list[str]:
        last = len(self.walked) - 1
        lines = [f"    for (int64_t w{loop} = 0; w{loop} < walk{loop}; w{loop}++)" for loop in range(last)]
        lines += [
            f"    for (int64_t first = 0; first < walk{last}; first += {self.run}) {{",
            f"        const int64_t stop = first + {self.run} < walk{last} ? first + {self.run} : walk{last};",
        ]
        for each, kind, total in totals:
            lines.append(f"        ig_{kind} part_{total}[{self.vectors}];")
            count = self.vectors if self.chains > 1 else "vectors"
            lines += _unrolled("        ", count, [f"part_{total}[v] = {nothing(each)};"])
        body = self._values(self.walk.names("load", "compute"), lambda index: self._walk_offset(index, last))
        for each, kind, total in totals:
            part = f"part_{total}[v]"
            source = self.variables.register(each.value).text
            body.append(f"{part} = {combine(COMBINE[each.function], kind, part, source)};")
        lines += self._chained(last, body)
        lines += [
            f"        for (int64_t w{last} = {'next' if self.chains > 1 else 'first'}; w{last} < stop; w{last}++) {{",
            *_for_vectors("            ", body),
            "        }",
        ]
        for each, kind, total in totals:
            joined = combine(COMBINE[each.function], kind, f"part_{total}[0]", f"part_{total}[v]")
            if self.chains > 1:
                lines += _unrolled("        ", self.chains, [f"if (vectors == 1 && v > 0) part_{total}[0] = {joined};"])
            whole = combine(COMBINE[each.function], kind, f"{total}[v]", f"part_{total}[v]")
            lines += _for_vectors("        ", [f"{total}[v] = {whole};"])
        return [*lines, "    }"]

    def _chained(self, last: int, body: list[str]) -> list[str]:
        """The loop that goes through one vector of columns in several chains; nothing where there is one."""
        if self.chains == 1:
            return []
        return [
            "        int64_t next = first;",
            f"        for (; vectors == 1 && next + {self.chains} <= stop; next += {self.chains}) {{",
            *_unrolled("            ", self.chains, [f"const int64_t w{last} = next + v;", *body]),
            "        }",
        ]

    def _walk_offset(self, index: int, last: int) -> str:
        steps = self.walk_steps(index)
        return "".join(f" + w{loop} * walk_stride{index}_{loop}" for loop in range(last + 1) if steps[loop] != 0)

    def _finish(self, totals: list[tuple[Reduce, str, str]]) -> list[str]:
        self.variables = Variables()
        body = [
            self.variables.declare(each.name, kind, self._result(each, kind, total)) for each, kind, total in totals
        ]
        body += self._values([each.name for each in self.once if each.action in ("load", "compute")], lambda index: "")
        for name in (each.name for each in self.once if each.action == "store"):
            index, value = self.place[name], self.kernel.stores[name]
            suffix, name = self._suffix(index), self.variables.register(value).text
            body.append(f"if (vectors == 1) ig_store_n_{suffix}(p{index}, {name}, left);")
            body.append(f"else ig_store_{suffix}(p{index} + v * IG_LANES, {name});")
        return _for_vectors("    ", body)

    def _suffix(self, index: int) -> str:
        return MEMORY[self.kernel.parameters[index].dtype.name][1]

    def _result(self, reduction: Reduce, kind: str, total: str) -> str:
        if reduction.function != "mean":
            return f"{total}[v]"
        count = " * ".join(f"walk{loop}" for loop in range(len(self.walked)))
        divisor = f"ig_set_{kind}((ig_{kind}_element)({count}))"
        return f"{total}[v] / {divisor}" if kind in ("f32", "f64") else f"ig_div_{kind}({total}[v], {divisor})"

    def _values(self, names: Sequence[str], offset: Callable[[int], str]) -> list[str]:
        lines: list[str] = []
        for name in names:
            definition = self.definitions[name]
            if isinstance(definition, Let):
                lines.append(self.variables.assign(definition))
            elif isinstance(definition, Load):
                lines.append(self._load(definition, offset(self.place[definition.parameter])))
        return lines

    def _load(self, load: Load, offset: str) -> str:
        index, kind = self.place[load.parameter], kind_of(load.type)
        suffix = self._suffix(index)
        pointer = f"p{index}{offset}"
        text = f"vectors == 1 ? ig_load_n_{suffix}({pointer}, left) : ig_load_{suffix}({pointer} + v * IG_LANES)"
        if self.kept_steps(index)[-1] == 0:
            text = f"ig_broadcast_{suffix}({pointer})"
        return self.variables.declare(load.name, kind, text)


def _for_vectors(indent: str, body: list[str]) -> list[str]:
    return _unrolled(indent, "vectors", body)


def _unrolled(indent: str, count: int | str, body: list[str]) -> list[str]:
    head = [f"{indent}IG_UNROLL", f"{indent}for (int v = 0; v < {count}; v++) {{"]
    return [*head, *(f"{indent}    {line}" for line in body), f"{indent}}}"]
