"""Kernels of the neutral language as CUDA C++.

A kernel without reductions has a thread for each element, or for a pack of elements that lie side by side. One with
reductions has a group of threads for each row, and goes over the row as often as its reductions depend on each other.
One with running sums has a thread for each line. Which of a kernel's functions runs, and on how many threads, follows
from sizes: `launch` decides that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

from intaglio.errors import UnsupportedError
from intaglio.ir.dtype import DType
from intaglio.kernels.elements import HALVES, scalar_type
from intaglio.kernels.language import (
    Expr,
    Let,
    Load,
    LoopKernel,
    Parameter,
    Reduce,
    Scan,
    Statement,
    Store,
    names_in,
    reads_of,
)
from intaglio.targets.cuda.expression import DeviceHelpers
from intaglio.targets.plain.expression import TYPES, expression
from intaglio.targets.plain.printing import nothing

INDENT = "    "
WIDE_BYTES = 16
"""How many bytes one instruction loads or stores at most."""
GROUPS = (1, 32, 512)
"""How many threads may share a row."""
CACHED = (32, 256)
"""How many threads share a row that they hold in registers."""
HELD, SINGLES = 32, 8
"""How many elements of such a row a thread holds in packs, or by themselves."""
THREADS = 256
"""The threads of a block that shares no row."""
_SMALL = 2**31 - 1
_EACH = "for (Index at = blockIdx.x * (Index)blockDim.x + threadIdx.x; at < count; at += gridDim.x * (Index)blockDim.x)"
"""A loop over all steps that a thread has."""
_COMBINE = {"sum": "+", "mean": "+", "product": "*"}


@dataclass(frozen=True)
class Launch:
    """Which function of a kernel runs, and on how many blocks of how many threads."""

    variant: str
    blocks: int
    threads: int


@dataclass(frozen=True)
class Printed:
    """A kernel as CUDA C++, but for the functions that a host starts, and how many elements a pack has.

    `row_pack` is that of rows which threads hold in registers, 0 where they cannot.
    """

    text: str
    pack: int
    row_pack: int = 0


def memory_type(dtype: DType) -> str:
    """The type of an element in memory; raises UnsupportedError where no scalar type holds it."""
    scalar = scalar_type(dtype)
    if scalar not in TYPES:
        raise UnsupportedError(f"CUDA kernels have no {dtype}")
    return "uint16_t" if dtype.name in HALVES else TYPES[scalar]


@lru_cache(maxsize=1024)
def printed(kernel: LoopKernel) -> Printed:
    """The functions of a kernel, `kernel_VARIANT`; raises UnsupportedError where it computes what no device does."""
    return _Printer(kernel).printed()


def launch(kernel: LoopKernel, sizes: Mapping[str, int], offsets: Sequence[int], most_blocks: int) -> Launch | None:
    """How a kernel runs for sizes; None where it has nothing to do. `offsets` are those of its operands in bytes."""
    kept = [sizes[loop.name] for loop in kernel.kept]
    rows, length = prod(kept), prod(sizes[loop.name] for loop in kernel.reduced)
    if rows == 0 or (length == 0 and kernel.reduced and not kernel.has_reduction):
        return None
    index = "small" if _is_small(kernel, sizes, rows * max(1, length)) else "large"
    if kernel.scans:
        lines = rows // sizes[kernel.scans[0].loop]
        return Launch(f"line_{index}", _blocks(lines, 64, most_blocks), 64)
    if kernel.has_reduction:
        form, held = _held(kernel, sizes, offsets, length) if index == "small" else ("", 0)
        if form:
            threads = max(held, 128)
            return Launch(f"{form}{held}_small", _blocks(rows, threads // held, most_blocks), threads)
        group = _group(kernel, rows, length)
        threads = group if group > 32 else THREADS if group == 1 else 128
        return Launch(f"row{group}_{index}", _blocks(rows, threads // group, most_blocks), threads)
    pack = printed(kernel).pack
    if index == "small" and pack > 1 and _is_even(kernel, sizes, offsets, pack):
        return Launch("wide", _blocks(rows // pack, THREADS, most_blocks), THREADS)
    return Launch(f"each_{index}", _blocks(rows, THREADS, most_blocks), THREADS)


def _blocks(items: int, share: int, most: int) -> int:
    return max(1, min(-(-items // share), most))


def _is_small(kernel: LoopKernel, sizes: Mapping[str, int], count: int) -> bool:
    """Whether 32 bits count all steps and reach all elements."""
    extents = [sizes[loop.name] for loop in kernel.loops]
    reach = [
        sum(abs(_step(step, sizes)) * max(0, extent - 1) for step, extent in zip(each.steps, extents, strict=True))
        for each in kernel.parameters
    ]
    return count <= _SMALL // 2 and max(reach, default=0) <= _SMALL // 2


def _step(step: int | str, sizes: Mapping[str, int]) -> int:
    return sizes[step] if isinstance(step, str) else step


def _is_even(kernel: LoopKernel, sizes: Mapping[str, int], offsets: Sequence[int], pack: int) -> bool:
    """Whether packs of elements begin where one instruction can load or store them."""
    if sizes[kernel.loops[-1].name] % pack:
        return False
    for each, offset in zip(kernel.parameters, offsets, strict=False):
        if each.steps[-1] == 1:
            outer = [_step(step, sizes) for step in each.steps[:-1]]
            if offset % (pack * each.dtype.itemsize) or any(step % pack for step in outer):
                return False
    return True


def _group(kernel: LoopKernel, rows: int, length: int) -> int:
    """How many threads share a row: one where rows are short, or where neighbouring rows lie side by side."""
    inner = kernel.reduced[-1].name if kernel.reduced else ""
    reads = [each for each in kernel.parameters if not each.is_written]
    is_along = any(_along(each, kernel, inner) == 1 for each in reads)
    is_across = any(bool(kernel.kept) and each.steps[len(kernel.kept) - 1] == 1 for each in reads) and not is_along
    if length <= 8 or (is_across and rows >= 4096) or (is_across and length <= 64):
        return GROUPS[0]
    return GROUPS[1] if length <= 1024 and rows >= 64 else GROUPS[2]


def _held(kernel: LoopKernel, sizes: Mapping[str, int], offsets: Sequence[int], length: int) -> tuple[str, int]:
    """How threads hold a row in their registers, and how many; nothing where a row is too long or uneven for that."""
    pack = printed(kernel).row_pack
    if not pack or length < 16:
        return "", 0
    if length % pack == 0 and _is_even(kernel, sizes, offsets, pack):
        group = next((group for group in CACHED if length <= group * HELD), 0)
        return ("cached", group) if group else ("", 0)
    group = next((group for group in CACHED if length <= group * SINGLES), 0)
    return ("single", group) if group else ("", 0)


def _along(parameter: Parameter, kernel: LoopKernel, loop: str) -> int | str:
    names = [each.name for each in kernel.loops]
    return parameter.steps[names.index(loop)] if loop in names else 0


@dataclass
class _Printer:
    kernel: LoopKernel
    helpers: DeviceHelpers = field(default_factory=DeviceHelpers)
    lines: list[str] = field(default_factory=list[str])
    depth: int = 1
    is_packed: bool = False
    form: str = "row"
    """What functions over rows are called."""
    row_pack: int = 0
    """How many elements a pack of a row has that threads hold in registers; 0 where they load what they need again."""
    parts: int = 0
    """How many packs a thread holds."""

    def printed(self) -> Printed:
        arguments = [f"    {memory_type(each.dtype)} *{each.name};" for each in self.kernel.parameters]
        arguments += ["    int64_t *fault;"] if self.kernel.checks else []
        arguments += [f"    int64_t {_size(name)};" for name in self.kernel.sizes]
        pack = self._pack()
        if self.kernel.scans:
            bodies = self._line_body()
        elif self.kernel.has_reduction:
            bodies = self._row_body()
        else:
            bodies = self._each_body()
        if pack > 1:
            bodies += self._packed_body(pack)
        row_pack = self._row_pack()
        for form, count, parts in (
            (("cached", row_pack, HELD // max(1, row_pack)), ("single", 1, SINGLES)) if row_pack else ()
        ):
            self.form, self.row_pack, self.parts = form, count, parts
            bodies += self._row_body()
        head = [f"/* {_comment(self.kernel.about)} */", "struct Arguments {", *arguments, "};", self.helpers.text]
        return Printed("\n".join([*head, *bodies, ""]), pack, row_pack)

    def _row_pack(self) -> int:
        """How many neighbouring elements of a row a thread loads at once; 0 where its elements are no neighbours."""
        kernel, names = self.kernel, [each.name for each in self.kernel.loops]
        if not kernel.has_reduction or kernel.scans or len(kernel.reduced) != 1:
            return 0
        place = names.index(kernel.reduced[0].name)
        steps = {each.name: each.steps[place] for each in kernel.parameters}
        once = kernel.row_stores()
        is_even = all(step in (0, 1) for step in steps.values())
        if not is_even or any(
            each.is_written and steps[each.name] == 0 and each.name not in once for each in kernel.parameters
        ):
            return 0
        largest = max((each.dtype.itemsize for each in kernel.parameters if steps[each.name] == 1), default=WIDE_BYTES)
        return max(0, min(8, WIDE_BYTES // largest)) if largest < WIDE_BYTES else 0

    def _pack(self) -> int:
        """How many neighbouring elements a thread may have at once; 1 where some operand has no neighbours."""
        if self.kernel.scans or self.kernel.has_reduction or not self.kernel.kept or self.kernel.reduced:
            return 1
        if any(
            each.steps[-1] not in (0, 1) or (each.is_written and each.steps[-1] == 0) for each in self.kernel.parameters
        ):
            return 1
        largest = max((each.dtype.itemsize for each in self.kernel.parameters), default=WIDE_BYTES)
        return max(1, min(8, WIDE_BYTES // max(1, largest)))

    def _line(self, text: str) -> None:
        self.lines.append(INDENT * self.depth + text)

    def _taken(self) -> list[str]:
        lines, self.lines, self.depth = self.lines, [], 1
        return lines

    def _open(self, head: str) -> None:
        self._line(f"{head} {{")
        self.depth += 1

    def _close(self) -> None:
        self.depth -= 1
        self._line("}")

    def _body(self, name: str, template: str, parameters: str) -> list[str]:
        return [template, f"static inline void {name}({parameters})", "{", *self._taken(), "}"]

    def _each_body(self) -> list[str]:
        kept = [loop.name for loop in self.kernel.kept]
        self._line(f"const Index count = {_product(kept)};")
        self._open(_EACH)
        self._places("at", kept)
        self._statements(self.kernel.body)
        self._close()
        return self._body("each", "template <typename Index>", "const Arguments &a")

    def _packed_body(self, pack: int) -> list[str]:
        kept = [loop.name for loop in self.kernel.kept]
        self._line(f"const int count = {_product(kept, 'int')} / {pack};")
        self._open("for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x)")
        self._line("int rest = at;")
        self._line(f"const int last = (int)a.{_size(kept[-1])} / {pack};")
        self._line(
            f"const int {_index(kept[-1])} = rest % last * {pack};"
            if len(kept) > 1
            else f"const int {_index(kept[-1])} = rest * {pack};"
        )
        if len(kept) > 1:
            self._line("rest /= last;")
            self._places("rest", kept[:-1], is_int=True)
        for each in self.kernel.parameters:
            if each.steps[-1] == 1:
                type = f"Pack<{memory_type(each.dtype)}, {pack}>"
                place = self._place(each, "int")
                if each.is_written:
                    self._line(f"{type} {each.name}_pack;")
                else:
                    self._line(f"const {type} {each.name}_pack = *(const {type} *)(a.{each.name} + {place});")
        self._line("#pragma unroll")
        self._open(f"for (int lane = 0; lane < {pack}; lane++)")
        self.is_packed = True
        self._statements(self.kernel.body)
        self.is_packed = False
        self._close()
        for each in self.kernel.parameters:
            if each.is_written:
                type = f"Pack<{memory_type(each.dtype)}, {pack}>"
                self._line(f"*({type} *)(a.{each.name} + {self._place(each, 'int')}) = {each.name}_pack;")
        self._close()
        return self._body("wide", "", "const Arguments &a")

    def _line_body(self) -> list[str]:
        scans = self.kernel.scans
        walked = scans[0].loop
        others = [loop.name for loop in self.kernel.kept if loop.name != walked]
        self._line(f"const Index count = {_product(others)};")
        self._open(_EACH)
        self._places("at", others)
        for each in scans:
            self._line(f"{TYPES[each.type]} {each.name}_total = {1 if each.function == 'product' else 0};")
        index, extent = _index(walked), f"(Index)a.{_size(walked)}"
        if scans[0].is_reversed:
            self._open(f"for (Index {index} = {extent} - 1; {index} >= 0; {index}--)")
        else:
            self._open(f"for (Index {index} = 0; {index} < {extent}; {index}++)")
        self._statements(self.kernel.body)
        for each in scans:
            self._line(f"{each.name}_total = {each.name}_next;")
        self._close()
        self._close()
        return self._body("line", "template <typename Index>", "const Arguments &a")

    def _row_body(self) -> list[str]:
        """A group of G threads goes over each row: values of the row alone once, then each level of reductions."""
        kept, rows, levels = [loop.name for loop in self.kernel.kept], self.kernel.row_values(), self.kernel.levels()
        self._line(
            f"const Index rows = {_product(kept)}, length = {_product([each.name for each in self.kernel.reduced])};"
        )
        self._line("const Index lane = G == 1 ? 0 : threadIdx.x % G, groups = blockDim.x / G;")
        self._open("for (Index row = blockIdx.x * groups + threadIdx.x / G; row < rows; row += gridDim.x * groups)")
        self._places("row", kept)
        self._load_rows()
        if self.kernel.checks:
            self._line("if (length == 0)")
            self._line("    *a.fault = 1;")
        done: set[str] = set()
        first = [each for each in self.kernel.body if isinstance(each, Load) and each.name in rows]
        self._statements(first)
        done |= {each.name for each in first}
        for level in range(max(levels.values(), default=0) + 1):
            for each in self.kernel.body:
                if isinstance(each, Let) and each.name in rows and levels[each.name] == level:
                    self._statements([each])
                    done.add(each.name)
            found = [each for each in self.kernel.body if isinstance(each, Reduce) and levels[each.name] == level + 1]
            if found:
                self._reductions(found, done)
        self._row_stores(done)
        self._close()
        return self._body(self.form, "template <int G, typename Index>", "const Arguments &a")

    def _row_operands(self) -> list[Parameter]:
        """The buffers whose elements lie along the row."""
        return [each for each in self.kernel.parameters if each.steps[-1] == 1] if self.row_pack else []

    def _held(self) -> set[str]:
        """The buffers along the row that reductions read: threads hold these; others are read once, behind them."""
        values: list[Expr] = [each.value for each in self.kernel.body if isinstance(each, Reduce)]
        needed = set(self._needed(values, set()))
        return {each.parameter for each in self.kernel.body if isinstance(each, Load) and each.name in needed}

    def _load_rows(self) -> None:
        """Load the thread's share of the row, if threads hold it in registers."""
        held = self._held()
        reads = [each for each in self._row_operands() if each.name in held]
        for each in reads:
            self._line(f"Pack<{memory_type(each.dtype)}, {self.row_pack}> {each.name}_row[{self.parts}];")
        if reads:
            self._open_parts()
            for each in reads:
                type = f"Pack<{memory_type(each.dtype)}, {self.row_pack}>"
                self._line(f"{each.name}_row[part] = *(const {type} *)(a.{each.name} + {self._row_place(each)});")
            self._close()
            self._close()

    def _load_parts(self, needed: set[str]) -> None:
        """Load the thread's part of buffers that no reduction reads."""
        read = {each.parameter for each in self.kernel.body if isinstance(each, Load) and each.name in needed}
        held = self._held()
        for each in self._row_operands():
            if each.name in read and each.name not in held:
                type = f"Pack<{memory_type(each.dtype)}, {self.row_pack}>"
                self._line(
                    f"const {type} {each.name}_here = *(const {type} *)(a.{each.name} + {self._row_place(each)});"
                )

    def _open_parts(self) -> None:
        self._line("#pragma unroll")
        self._open(f"for (int part = 0; part < {self.parts}; part++)")
        self._line(f"const int at = (part * G + lane) * {self.row_pack};")
        self._open("if (at < length)")

    def _row_place(self, parameter: Parameter) -> str:
        """Where the thread's part of a row begins."""
        steps = zip(self.kernel.kept, parameter.steps, strict=False)
        terms = [
            _index(loop.name) + ("" if step == 1 else f" * (Index)a.{_size(str(step))}")
            for loop, step in steps
            if step != 0
        ]
        return " + ".join([*terms, "at"])

    def _row_stores(self, done: set[str]) -> None:
        stores = [each for each in self.kernel.body if isinstance(each, Store)]
        once = self.kernel.row_stores()
        if any(each.parameter in once for each in stores):
            self._open("if (lane == 0)")
            self._statements([each for each in stores if each.parameter in once])
            self._close()
        inner = [each for each in stores if each.parameter not in once]
        if inner:
            self._elements(inner, [each.value for each in inner], done)

    def _reductions(self, reductions: list[Reduce], done: set[str]) -> None:
        for each in reductions:
            self._line(f"{TYPES[each.total]} {each.name}_total = {nothing(each)};")
        self._elements(reductions, [each.value for each in reductions], done)
        for each in reductions:
            type = TYPES[each.total]
            combine = self._combined(each, "one", "other")
            both = f"[&]({type} one, {type} other) {{ return ({type})({combine}); }}"
            self._line(f"{each.name}_total = combined<G>({each.name}_total, {both});")
            self._line(f"const {TYPES[each.type]} {each.name} = {self._finished(each)};")
            done.add(each.name)

    def _elements(self, last: Sequence[Reduce | Store], values: list[Expr], done: set[str]) -> None:
        """A loop over the elements of the row in which some statements come last, behind all that they need."""
        loops = [loop.name for loop in self.kernel.reduced]
        needed = set(self._needed(values, done))
        stored = [self._parameter(each.parameter) for each in last if isinstance(each, Store)] if self.row_pack else []
        if self.row_pack:
            self._open_parts()
            for each in stored:
                self._line(f"Pack<{memory_type(each.dtype)}, {self.row_pack}> {each.name}_part;")
            self._load_parts(needed)
            self._line("#pragma unroll")
            self._open(f"for (int place = 0; place < {self.row_pack}; place++)")
        else:
            self._open("for (Index at = lane; at < length; at += G)")
            self._places("at", loops)
        self._statements([each for each in self.kernel.body if not isinstance(each, Store) and each.name in needed])
        for each in last:
            if isinstance(each, Reduce):
                self._line(f"{each.name}_total = {self._combined(each, f'{each.name}_total', self._text(each.value))};")
            else:
                self._statements([each])
        self._close()
        if self.row_pack:
            for each in stored:
                type = f"Pack<{memory_type(each.dtype)}, {self.row_pack}>"
                self._line(f"*({type} *)(a.{each.name} + {self._row_place(each)}) = {each.name}_part;")
            self._close()
            self._close()

    def _needed(self, values: list[Expr], done: set[str]) -> Iterator[str]:
        waiting = [name for value in values for name in names_in(value)]
        definitions, seen = self.kernel.definitions, set(done)
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                yield name
                waiting += reads_of(definitions[name])

    def _places(self, number: str, loops: Sequence[str], *, is_int: bool = False) -> None:
        """The index of each loop, from the number of a step: the last loop advances first."""
        type = "int" if is_int else "Index"
        if len(loops) == 1:
            self._line(f"const {type} {_index(loops[0])} = {number};")
        elif loops:
            rest = number
            for name in reversed(loops[1:]):
                self._line(f"const {type} {_index(name)} = {rest} % ({type})a.{_size(name)};")
                following = f"rest_{_index(name)}"
                self._line(f"const {type} {following} = {rest} / ({type})a.{_size(name)};")
                rest = following
            self._line(f"const {type} {_index(loops[0])} = {rest};")

    def _statements(self, statements: Sequence[Statement]) -> None:
        for each in statements:
            if isinstance(each, Load):
                self._line(f"const {TYPES[each.type]} {each.name} = {self._load(each)};")
            elif isinstance(each, Let):
                self._line(f"const {TYPES[each.type]} {each.name} = {self._text(each.value)};")
            elif isinstance(each, Store):
                self._line(self._store(each))
            elif isinstance(each, Scan):
                kept = f"{each.name}_{'total' if each.is_exclusive else 'next'}"
                total = self._sum(each.type, _COMBINE[each.function], f"{each.name}_total", self._text(each.value))
                self._line(f"const {TYPES[each.type]} {each.name}_next = {total};")
                self._line(f"const {TYPES[each.type]} {each.name} = {kept};")

    def _text(self, value: Expr) -> str:
        return expression(value, lambda name: name, self.helpers)

    def _place(self, parameter: Parameter, type: str) -> str:
        terms: list[str] = []
        for loop, step in zip(self.kernel.loops, parameter.steps, strict=True):
            if step != 0:
                terms.append(_index(loop.name) + ("" if step == 1 else f" * ({type})a.{_size(str(step))}"))
        return " + ".join(terms) or "0"

    def _element(self, name: str) -> str:
        parameter = self._parameter(name)
        if self.row_pack and parameter.steps[-1] == 1:
            if parameter.is_written:
                return f"{name}_part.at[place]"
            return f"{name}_row[part].at[place]" if name in self._held() else f"{name}_here.at[place]"
        if self.is_packed and parameter.steps[-1] == 1:
            return f"{name}_pack.at[lane]"
        return f"a.{name}[{self._place(parameter, 'int' if self.is_packed else 'Index')}]"

    def _parameter(self, name: str) -> Parameter:
        return next(each for each in self.kernel.parameters if each.name == name)

    def _format(self, name: str, type: str) -> str:
        dtype = self._parameter(name).dtype
        return HALVES[dtype.name] if dtype.name in HALVES and type == "f32" else ""

    def _load(self, load: Load) -> str:
        element, format = self._element(load.parameter), self._format(load.parameter, load.type)
        return f"f32_from_{format}({element})" if format else element

    def _store(self, store: Store) -> str:
        text, format = self._text(store.value), self._format(store.parameter, store.value.type)
        return f"{self._element(store.parameter)} = " + (f"{format}_from_f32({text});" if format else f"{text};")

    def _sum(self, type: str, sign: str, left: str, right: str) -> str:
        if type in ("f32", "f64"):
            return f"{left} {sign} {right}"
        return f"({TYPES[type]})((uint64_t){left} {sign} (uint64_t){right})"

    def _combined(self, reduction: Reduce, left: str, right: str) -> str:
        type = reduction.total
        if type == "bool":
            return f"{left} {'||' if reduction.function == 'max' else '&&'} {right}"
        if reduction.function in ("max", "min"):
            return f"{self.helpers.function(reduction.function, type)}({left}, {right})"
        return self._sum(type, _COMBINE[reduction.function], left, right)

    def _finished(self, reduction: Reduce) -> str:
        total = f"{reduction.name}_total"
        if reduction.function == "mean":
            type = TYPES[reduction.total]
            if reduction.total in ("f32", "f64"):
                total = f"{total} / ({type})length"
            else:
                total = f"{self.helpers.function('div', reduction.total)}({total}, ({type})length)"
        if reduction.type != reduction.total:
            total = f"({TYPES[reduction.type]})({total})"
        if not reduction.round:
            return total
        return f"f32_from_{reduction.round}({reduction.round}_from_f32({total}))"


def entry(variant: str, name: str) -> str:
    """The function by which a host starts a variant of a kernel."""
    form, _, index = variant.partition("_")
    group = form.removeprefix("row").removeprefix("cached").removeprefix("single")
    type = "int" if index == "small" else "int64_t"
    call = (
        "wide"
        if form == "wide"
        else f"{form.removesuffix(group)}<{group}, {type}>"
        if group != form
        else f"{form}<{type}>"
    )
    bounds = f"__launch_bounds__({group}) " if group.isdigit() and int(group) > 32 else ""
    head = f'extern "C" __global__ void {bounds}{name}(const __grid_constant__ Arguments arguments)'
    return f"{head}\n{{\n    {call}(arguments);\n}}\n"


def _product(loops: Sequence[str], type: str = "Index") -> str:
    return " * ".join(f"({type})a.{_size(name)}" for name in loops) or "1"


def _size(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name)


def _index(loop: str) -> str:
    return f"i{loop.removeprefix('n')}" if loop.startswith("n") else f"j{loop.removeprefix('m')}"


def _comment(text: str) -> str:
    return text.replace("*/", "* /")
