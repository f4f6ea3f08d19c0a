"""Column reductions: loop kernels whose reduced axes are not the contiguous one.

The kept axis along which the operands are contiguous runs over vectors. A task is a strip of columns: several vectors
of accumulators stay in registers while the reduced axes are walked, then what follows from the sums alone is computed
and stored. Sums are taken in runs and the runs added up, so that many rows lose little precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from intaglio.ir.dim import Dim, floordiv, minimum, pieces, product
from intaglio.kernels.kernel import Kernel
from intaglio.kernels.language import (
    Definition,
    Expr,
    Let,
    Load,
    LoopKernel,
    Reduce,
    Store,
    Stride,
    names_in,
    nanoseconds,
    reads_of,
)
from intaglio.kernels.plan import Call, Size
from intaglio.targets.c.printing.register import MASKS, MEMORY, combine, kind_of, with_headers
from intaglio.targets.c.printing.variables import COMBINE, Variables, nothing

STRIP = 128
"""Columns of one task."""

RUN = 256
"""Steps along the innermost reduced axis that are summed before the sum is added to the total."""


def columns_call(kernel: LoopKernel, sizes: Mapping[str, Dim]) -> Call | None:
    """A kernel with reductions and its call, or None where walking along rows serves it better."""
    plan = _Columns(kernel, sizes)
    return plan.call() if kernel.has_reduction and plan.is_fitting else None


def columns_source(kernel: LoopKernel, sizes: Mapping[str, Dim]) -> str | None:
    """The C of a kernel with reductions, or None where walking along rows serves it better."""
    plan = _Columns(kernel, sizes)
    return _Printer(plan).source() if kernel.has_reduction and plan.is_fitting else None


@dataclass(frozen=True)
class _Columns:
    kernel: LoopKernel
    given: Mapping[str, Dim]

    @cached_property
    def kept(self) -> tuple[Dim, ...]:
        """The extents of the kept loops; the last runs over vectors."""
        return tuple(self.given[loop.name] for loop in self.kernel.kept)

    @cached_property
    def walked(self) -> tuple[Dim, ...]:
        """The extents of the reduced loops."""
        return tuple(self.given[loop.name] for loop in self.kernel.reduced)

    def kept_steps(self, index: int) -> tuple[Stride, ...]:
        """The steps of a parameter along the kept loops."""
        return self.kernel.parameters[index].steps[: len(self.kept)]

    def walk_steps(self, index: int) -> tuple[Stride, ...]:
        """The steps of a parameter along the reduced loops."""
        return self.kernel.parameters[index].steps[len(self.kept) :]

    @cached_property
    def place(self) -> dict[str, int]:
        return {parameter.name: place for place, parameter in enumerate(self.kernel.parameters)}

    @cached_property
    def reductions(self) -> list[Reduce]:
        return [each for each in self.kernel.body if isinstance(each, Reduce)]

    @cached_property
    def stores(self) -> list[Store]:
        return [each for each in self.kernel.body if isinstance(each, Store)]

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        return self.kernel.definitions

    def cone(self, targets: Sequence[Expr], known: Sequence[str] = ()) -> list[str]:
        """The targets and all that they are computed from, operands first; `known` values end the search."""
        found: dict[str, None] = {}

        def visit(name: str) -> None:
            if name in found or name in known:
                return
            for source in reads_of(self.definitions[name]):
                visit(source)
            found[name] = None

        for value in targets:
            for name in names_in(value):
                visit(name)
        return list(found)

    @cached_property
    def before(self) -> list[str]:
        """What is computed at each step of the walk."""
        return self.cone([each.value for each in self.reductions])

    @cached_property
    def after(self) -> list[str]:
        """What is computed once the sums are known."""
        return self.cone([each.value for each in self.stores], [each.name for each in self.reductions])

    @property
    def is_fitting(self) -> bool:
        """Whether the columns are contiguous in all operands, the walk is not, and the sums depend on no sums."""
        if not self.kept or not self.walked:
            return False
        if any(isinstance(self.definitions[name], Reduce) for name in self.before):
            return False
        loads = [place for place, each in enumerate(self.kernel.parameters) if not each.is_written]
        stores = [place for place, each in enumerate(self.kernel.parameters) if each.is_written]
        is_even = all(self.kept_steps(place)[-1] in (0, 1) for place in loads)
        is_even = is_even and all(self.kept_steps(place)[-1] == 1 for place in stores)
        is_walked_evenly = all(self.walk_steps(place)[-1] in (0, 1) for place in loads)
        return is_even and not is_walked_evenly and self._are_sums(self.after)

    def _are_sums(self, names: Sequence[str]) -> bool:
        """Whether values are the same along the whole walk, those included that they are computed from."""
        loads = [each for each in (self.definitions[name] for name in names) if isinstance(each, Load)]
        return all(step == 0 for load in loads for step in self.walk_steps(self.place[load.parameter]))

    @cached_property
    def sizes(self) -> list[tuple[str, Size]]:
        sizes: list[tuple[str, Size]] = [
            ("columns", self.kept[-1]),
            ("strips", pieces(self.kept[-1], STRIP)),
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
        cost = 1 + floordiv(minimum(columns, STRIP) * product(self.walked) * max(20, int(1000 * work)), 1000)
        names = self.kernel.about.lower().split(", ")
        return Call(
            Kernel("_".join(names[:3]) + "_columns", self.kernel),
            [],
            self.sizes,
            product(rows) * pieces(columns, STRIP),
            cost,
        )


class _Printer:
    """The text of one kernel."""

    def __init__(self, plan: _Columns) -> None:
        self.plan, self.kernel = plan, plan.kernel
        self.variables = Variables()

    def source(self) -> str:
        """A function for a few vectors of columns, and the kernel that calls it."""
        return with_headers("\n".join([*self._block(), *self._kernel(), ""]))

    @property
    def vectors(self) -> int:
        """How many vectors of columns are summed at once: as many as leave registers free."""
        width = sum(max(1, MASKS[kind_of(each.type)] // 32) for each in self.plan.reductions)
        return 8 if width == 1 else 4 if width == 2 else 2

    @property
    def chains(self) -> int:
        """How many results of one vector of columns are made side by side: each waits for itself alone.

        Sums have one: in another order they would round otherwise than those of the columns in whole vectors.
        """
        is_exact = all(each.function in ("max", "min") for each in self.plan.reductions)
        return min(4, self.vectors) if is_exact else 1

    def _parameters(self) -> list[str]:
        return [f"{self._element(index)} *p{index}" for index in range(len(self.kernel.parameters))]

    def _element(self, index: int) -> str:
        parameter = self.kernel.parameters[index]
        return ("" if parameter.is_written else "const ") + MEMORY[parameter.dtype.name][0]

    def _declarations(self) -> list[str]:
        lines = [f"    const int64_t {name} = size[{index}];" for index, (name, _) in enumerate(self.plan.sizes)]
        return lines + [f"    (void){name};" for name, _ in self.plan.sizes]

    def _kernel(self) -> list[str]:
        lines = [
            f"/* {self.kernel.about}, column by column",
            f"   sizes: {', '.join(name for name, _ in self.plan.sizes)} */",
            "void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)",
            "{",
            *self._declarations(),
            "    for (int64_t task = begin; task < end; task++) {",
            f"        int64_t rest = task / strips, c = task % strips * {STRIP};",
            f"        const int64_t last = c + {STRIP} < columns ? c + {STRIP} : columns;",
        ]
        for index in range(len(self.kernel.parameters)):
            lines.append(f"        {self._element(index)} *p{index} = buffer[{index}];")
        lines += self._row_offsets()
        for vectors in dict.fromkeys((self.vectors, 2, 1)):
            lines += self._block_call(vectors)
        return [*lines, "    }", "}"]

    def _row_offsets(self) -> list[str]:
        lines: list[str] = []
        for loop in reversed(range(len(self.plan.kept) - 1)):
            for index in range(len(self.kernel.parameters)):
                if self.plan.kept_steps(index)[loop] != 0:
                    lines.append(f"        p{index} += rest % rows{loop} * row_stride{index}_{loop};")
            lines.append(f"        rest /= rows{loop};")
        return lines

    def _block_call(self, vectors: int) -> list[str]:
        pointers = "".join(
            f", p{index}" + (" + c" if self.plan.kept_steps(index)[-1] != 0 else "")
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
        totals = [(each, kind_of(each.type), f"total{i}") for i, each in enumerate(self.plan.reductions)]
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
        last = len(self.plan.walked) - 1
        lines = [f"    for (int64_t w{loop} = 0; w{loop} < walk{loop}; w{loop}++)" for loop in range(last)]
        lines += [
            f"    for (int64_t first = 0; first < walk{last}; first += {RUN}) {{",
            f"        const int64_t stop = first + {RUN} < walk{last} ? first + {RUN} : walk{last};",
        ]
        for each, kind, total in totals:
            lines.append(f"        ig_{kind} part_{total}[{self.vectors}];")
            count = self.vectors if self.chains > 1 else "vectors"
            lines += _unrolled("        ", count, [f"part_{total}[v] = {nothing(each)};"])
        body = self._values(self.plan.before, lambda index: self._walk_offset(index, last))
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
        steps = self.plan.walk_steps(index)
        return "".join(f" + w{loop} * walk_stride{index}_{loop}" for loop in range(last + 1) if steps[loop] != 0)

    def _finish(self, totals: list[tuple[Reduce, str, str]]) -> list[str]:
        self.variables = Variables()
        body = [
            self.variables.declare(each.name, kind, self._result(each, kind, total)) for each, kind, total in totals
        ]
        body += self._values(self.plan.after, lambda index: "")
        for store in self.plan.stores:
            index = self.plan.place[store.parameter]
            suffix, name = self._suffix(index), self.variables.register(store.value).text
            body.append(f"if (vectors == 1) ig_store_n_{suffix}(p{index}, {name}, left);")
            body.append(f"else ig_store_{suffix}(p{index} + v * IG_LANES, {name});")
        return _for_vectors("    ", body)

    def _suffix(self, index: int) -> str:
        return MEMORY[self.kernel.parameters[index].dtype.name][1]

    def _result(self, reduction: Reduce, kind: str, total: str) -> str:
        if reduction.function != "mean":
            return f"{total}[v]"
        count = " * ".join(f"walk{loop}" for loop in range(len(self.plan.walked)))
        divisor = f"ig_set_{kind}((ig_{kind}_element)({count}))"
        return f"{total}[v] / {divisor}" if kind in ("f32", "f64") else f"ig_div_{kind}({total}[v], {divisor})"

    def _values(self, names: Sequence[str], offset: Callable[[int], str]) -> list[str]:
        lines: list[str] = []
        for name in names:
            definition = self.plan.definitions[name]
            if isinstance(definition, Let):
                lines.append(self.variables.assign(definition))
            elif isinstance(definition, Load):
                lines.append(self._load(definition, offset(self.plan.place[definition.parameter])))
        return lines

    def _load(self, load: Load, offset: str) -> str:
        index, kind = self.plan.place[load.parameter], kind_of(load.type)
        suffix = self._suffix(index)
        pointer = f"p{index}{offset}"
        text = f"vectors == 1 ? ig_load_n_{suffix}({pointer}, left) : ig_load_{suffix}({pointer} + v * IG_LANES)"
        if self.plan.kept_steps(index)[-1] == 0:
            text = f"ig_broadcast_{suffix}({pointer})"
        return self.variables.declare(load.name, kind, text)


def _for_vectors(indent: str, body: list[str]) -> list[str]:
    return _unrolled(indent, "vectors", body)


def _unrolled(indent: str, count: int | str, body: list[str]) -> list[str]:
    head = [f"{indent}IG_UNROLL", f"{indent}for (int v = 0; v < {count}; v++) {{"]
    return [*head, *(f"{indent}    {line}" for line in body), f"{indent}}}"]
