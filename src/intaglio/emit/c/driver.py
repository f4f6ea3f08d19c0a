"""The entry function of a model: calls of kernels in order, branches and loops, with no runtime behind it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import count

from intaglio.emit.c.interface import Interface, Port
from intaglio.emit.c.kernels import KernelTexts
from intaglio.emit.c.lowered import Lowered
from intaglio.emit.c.memory import is_late_scratch
from intaglio.emit.c.options import COptions
from intaglio.emit.c.tasks import RUN_TASKS
from intaglio.emit.c.types import c_type, parts
from intaglio.emit.c.weights import Constant, CWeights
from intaglio.ir.dim import Dim, product, symbols
from intaglio.kernels.overflow import LARGEST, Magnitude, magnitude, safe_limit
from intaglio.kernels.plan import (
    ASSUMPTION,
    FAULT,
    OVERFLOW,
    REQUIREMENT,
    Action,
    Allocate,
    Call,
    Check,
    FindSizes,
    Grow,
    Operand,
    Segment,
    operands_of,
    walk,
)
from intaglio.kernels.segment_sizes import given_dims
from intaglio.kernels.view import Buffer
from intaglio.targets.c.driver import Driver, heading
from intaglio.targets.c.lines import comment, indented
from intaglio.targets.c.size_text import HELPERS, checked, cost_text, dim_text, size_text

NO_ROOM, NO_MEMORY = 6, 7
"""What the entry function returns where an output is larger than the caller's memory for it, or the heap is full."""

ENOUGH = 2**31 - 1
"""Where each size may be as large as this, no matter how large the others are, nobody needs larger ones."""

STATUSES = {
    ASSUMPTION: ("OTHER_SIZES", "the code was made for other relations between sizes: fix them when exporting"),
    REQUIREMENT: ("BAD_SIZES", "sizes do not fit each other"),
    OVERFLOW: ("OVERFLOW", "sizes are negative or too large"),
    NO_ROOM: ("NO_ROOM", "an output is larger than the room for it"),
    NO_MEMORY: ("NO_MEMORY", "the heap is too small for tensors whose sizes data tells"),
}
"""What statuses are called, and mean."""


_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


_SIZE = re.compile(r"^ *const int64_t (calc\d+) = [^;]*;\n", re.MULTILINE)


def _without_unused_sizes(text: str) -> str:
    """The text without sizes that only a call in another form would use; those that others are made of come first."""
    for found in reversed(list(_SIZE.finditer(text))):
        if len(re.findall(rf"\b{found[1]}\b", text)) == 1:
            text = text[: found.start()] + text[found.end() :]
    return text


class ModelDriver(Driver):
    """Prints the entry function. All that the runtime is asked for elsewhere is in the function or beside it."""

    def __init__(
        self,
        lowered: Lowered,
        interface: Interface,
        options: COptions,
        constants: Mapping[int, Constant],
        weights: CWeights,
        kernels: KernelTexts,
    ) -> None:
        self.threads = str(options.threads)
        self.lowered, self.interface, self.options = lowered, interface, options
        super().__init__(lowered.segment, {})
        self.constants, self.weights, self.texts = constants, weights, kernels
        self.memory_plan = lowered.memory
        self.inputs = {port.value: port for port in interface.inputs}
        self.outputs = {port.value: port for port in interface.outputs[::-1]}
        self.names.update(interface.sizes)
        self.given_names = [name for name in self.names if name not in lowered.segment.late]
        self.locals = self._name_locals()

    def given_symbols(self) -> list[str]:
        """All sizes that the caller gives: how they fit each other is checked even where no kernel uses them."""
        return list(dict.fromkeys([*super().given_symbols(), *self.interface.sizes]))

    def _name_locals(self) -> dict[Buffer, str]:
        used = dict.fromkeys(
            operand.buffer.home for action in walk(self.segment.actions) for operand in operands_of(action)
        )
        return {
            buffer: self.interface.names.give(buffer.name, "temporary") for buffer in used if buffer.kind == "arena"
        }

    def text(self) -> str:
        """The function, without what only says that something is not used where it is."""
        text = _without_unused_sizes(super().text())
        code = _COMMENT.sub("", text)  # which may hold any names of the model
        names = [*self.interface.sizes.values(), *self._parameters(), "memory"]
        names += [each.name for each in self.constants.values()]
        for name in names:
            if len(re.findall(rf"\b{name}\b", code)) > 2:
                text = text.replace(f"    (void){name};\n", "", 1)
        for status, (name, _) in STATUSES.items():
            text = text.replace(f"return {status};", f"return {self.interface.macro}_{name};")
        if text.count("overflow") == 2:
            text = text.replace("    int64_t overflow = 0;\n    (void)overflow;\n", "")
        return text

    def _parameters(self) -> list[str]:
        """The names of all parameters that are inputs and outputs."""
        late = [port.name for port in self.interface.outputs if port.is_late]
        return [port.name for port in self.interface.ports] + [
            f"{n}_{each}" for n in late for each in ("room", "shape")
        ]

    def helpers(self) -> list[str]:
        """None: those that are used are written once for the file."""
        return []

    def head(self) -> list[str]:
        """The function's head, the places of everything, and defaults."""
        parameters = ", ".join(text for text, _ in self.interface.parameters()) or "void"
        lines = [f"int {self.interface.prefix}_run({parameters})", "{"]
        lines += indented(list(self._beginning()))
        return lines

    def _beginning(self) -> Iterator[str]:
        interface = self.interface
        yield from (f"(void){name};" for name in self._parameters())
        for port in interface.inputs:
            if port.default is not None:
                yield from (f"if (!{port.name})", f"    {port.name} = {interface.prefix}_default_{port.name};")
        for name in interface.sizes.values():
            yield f"(void){name};"
        if interface.takes_arena:
            yield "unsigned char *const memory = arena;"
            yield "(void)memory;"
        if self.weights in ("bin", "object"):
            source = "weights" if interface.takes_weights else f"{interface.prefix}_weights"
            for each in self.constants.values():
                place = f"((const unsigned char *){source} + {each.offset})"
                yield f"const {each.type} *const {each.name} = (const void *){place}; /* {comment(each.title)} */"
                yield f"(void){each.name};"
        yield "int64_t overflow = 0;"
        yield "(void)overflow;"

    def given_size(self, index: int) -> str:
        """A parameter."""
        return self.names[self.given_names[index]]

    def checks(self) -> list[str]:
        """What sizes must be, and the pointers to everything in memory."""
        return [*self._size_checks(), *self._pointers(), *self._heap()]

    def _size_checks(self) -> Iterator[str]:
        yield from self._limits(str(OVERFLOW))
        known = set(self.interface.sizes)
        for left, right in self.lowered.plan.assumptions:
            if symbols(left) | symbols(right) <= known:
                yield from self._action(Check([(left, right)], ASSUMPTION))
        for each in self.lowered.plan.requirements:
            if each.symbols <= known:
                yield from self._action(Check(each.pairs, REQUIREMENT))

    def _limits(self, status: str) -> Iterator[str]:
        """A return where a size is so large that some other could not be computed."""
        sizes = self.interface.sizes
        plan = self.lowered.plan
        pairs = [*plan.assumptions, *(pair for each in plan.requirements for pair in each.pairs)]
        dims = [*given_dims(self.segment), self.memory_plan.total, *self.memory_plan.offset]
        dims += [dim for pair in pairs for dim in pair]
        most = {name: safe_limit(dim for dim in dims if name in symbols(dim)) for name in sizes}
        if not sizes:
            return
        if min(most.values()) >= ENOUGH:
            either = " || ".join(f"{name} < 0 || {name} > {most[symbol]}" for symbol, name in sizes.items())
            yield from (f"if ({either})", f"    return {status};")
            return
        yield f"if ({' || '.join(f'{name} < 0' for name in sizes.values())})"
        yield f"    return {status};"
        yield from self._products(dims, status)

    def _products(self, dims: Iterable[Dim], status: str) -> Iterator[str]:
        """A return where products of sizes are too large: none of the sizes has a limit of its own."""
        sizes = self.interface.sizes
        free = (name for i in count() if (name := f"d{i}") not in sizes.values())
        factors = {symbol: next(free) for symbol in sizes}
        terms = {names: factor for names, factor in magnitude(dims).items() if set(names) <= sizes.keys()}
        yield "{ /* what sizes are multiplied to, in floating point */"
        for symbol in sorted({symbol for names in terms for symbol in names}):
            yield f"    const double {factors[symbol]} = {sizes[symbol]} > 1 ? (double){sizes[symbol]} : 1.0;"
        yield "    double most = 0.0;"
        for names, factor in _gathered(terms).items():
            yield f"    most += {' * '.join([str(float(factor)), *(factors[name] for name in names)])};"
        yield f"    if (most > {float(LARGEST)})"
        yield f"        return {status};"
        yield "}"

    def _pointers(self) -> Iterator[str]:
        for buffer, name in self.locals.items():
            place = self._place(self.memory_plan.offset[buffer.index])
            about = comment(buffer.name)
            yield f"{c_type(buffer.dtype)} *const {name} = (void *){place}; /* {about} */"

    def _place(self, offset: Dim) -> str:
        return f"({self._arena()} + {dim_text(offset, self.names)})"

    def _arena(self) -> str:
        return "memory" if self.interface.takes_arena else f"{self.interface.prefix}_arena"

    def _heap(self) -> Iterator[str]:
        if self.memory_plan.heap:
            macro = f"{self.interface.macro}_HEAP_BYTES"
            yield f"heap_piece *const heap = heap_begin({self._place(self.memory_plan.total)}, {macro});"

    def tail(self) -> list[str]:
        """Copies of outputs that the model gives twice."""
        lines: list[str] = []
        for source, target in self.interface.copies:
            lines += self._copy(source, target)
        return lines

    def _copy(self, source: Port, target: Port) -> list[str]:
        bytes = dim_text(product(source.shape) * source.value.dtype.itemsize, self.names)
        lines = [f"memcpy({target.name}, {source.name}, (size_t){bytes});"]
        if source.is_late:
            room = f"if ({target.name}_room < {dim_text(source.count, self.names)})"
            lines = [room, f"    return {NO_ROOM};", *lines]
            lines.append(
                f"memcpy({target.name}_shape, {source.name}_shape, sizeof *{source.name}_shape * {len(source.shape)});"
            )
        return lines

    def buffer(self, buffer: Buffer) -> str:
        """Where a buffer lies: a parameter, a constant, or a variable of the function."""
        if buffer.kind == "arena":
            return self.locals[buffer]
        if buffer.kind == "constant":
            return self.constants[buffer.index].name
        if buffer.kind == "input":
            return self.inputs[self.segment.inputs[buffer.index]].name
        if buffer.kind == "output" and not buffer.is_late:
            return self.outputs[self.segment.outputs[buffer.index]].name
        return super().buffer(buffer)

    def call(self, call: Call) -> list[str]:
        """A kernel of the neutral language is called by its own parameters, any other by arrays of them."""
        if self.texts.is_direct(call):
            return [*heading(call), *self._direct(call)]
        return super().call(call)

    def _direct(self, call: Call) -> list[str]:
        kernel, elements = call.kernel.code, self.texts.elements(call.kernel)
        arguments = [self._typed(*pair) for pair in zip(call.operands, elements, strict=True)]
        sizes = dict(call.sizes)
        arguments += [dim_text(sizes[name], self.names) for name in self.texts.open_sizes(call.kernel)]
        lines = self._checked_call(call, arguments, elements)
        if kernel is not None and kernel.checks:
            reduced = dim_text(product(sizes[loop.name] for loop in kernel.reduced), self.names)
            kept = dim_text(product(sizes[loop.name] for loop in kernel.kept), self.names)
            lines = [f"if ({reduced} == 0 && {kept} > 0)", f"    return {self.refused(call)};", *lines]
        return lines

    def _checked_call(self, call: Call, arguments: list[str], elements: list[str]) -> list[str]:
        """A call that is not made where one of its arguments cannot be worked out."""
        name, before = self.texts.name(call), list[str]()
        for place, argument in enumerate(arguments):
            if "&overflow" in argument:
                is_pointer = place < len(elements)
                pointer = f"{self._kind(call.operands[place])}{elements[place]} *const" if is_pointer else ""
                type = pointer or "const int64_t"
                before.append(f"{type} argument{place} = {argument};")
                arguments[place] = f"argument{place}"
        run = f"{name}({', '.join(arguments)});"
        return ["{", *indented([*checked(before), run]), "}"] if before else [run]

    def _typed(self, operand: Operand, element: str) -> str:
        """A pointer to elements of a type."""
        home = operand.buffer.home
        text, offset = self.buffer(home), operand.offset + operand.buffer.home_offset
        own = self._element_of(home)
        if own == "":
            return text if offset == 0 else f"({element} *){text} + {dim_text(offset, self.names)}"
        if own == element:
            return text if offset == 0 else f"{text} + {dim_text(offset, self.names)}"
        cast = f"({self._kind(operand)}{element} *){text}"
        return cast if offset == 0 else f"{cast} + {dim_text(offset, self.names)}"

    def _kind(self, operand: Operand) -> str:
        """What stands before the type of an operand's elements."""
        constant = "" if operand.is_written else "const "
        return f"{constant}{self.texts.space} " if self.texts.is_flash(operand) else constant

    def _element_of(self, home: Buffer) -> str:
        if home.kind == "constant":
            return self.constants[home.index].type
        return "" if home.is_late or home.kind == "place" else c_type(home.dtype)

    def pointer(self, operand: Operand) -> str:
        """A pointer for an array of such: without a promise not to write."""
        text = super().pointer(operand)
        if not text.isidentifier():
            return f"({text})"
        return f"(void *){text}" if operand.buffer.home.kind in ("constant", "input") else text

    def run(self, call: Call) -> list[str]:
        """The kernel itself, or our small function that shares its tasks out."""
        name, lines, place = self.texts.name(call), list[str](), self._scratch_place(call)
        if place is None:
            lines += [f"void *const scratch_memory = heap_allocate(heap, scratch * {self.threads});"]
            lines += ["if (!scratch_memory)", f"    return {NO_MEMORY};"]
            place = "scratch_memory"
        is_known = isinstance(call.tasks, int)
        tasks = size_text(call.tasks, self.names) if is_known else "tasks"
        if self.options.threads > 1:
            runs = f"{RUN_TASKS}({name}, buffer, (const int64_t *)&size, {tasks}, cost, {place}, scratch);"
        else:
            runs = f"{name}(buffer, (const int64_t *)&size, 0, {tasks}, {place});"
        lines += [runs] if is_known else ["if (tasks > 0)", f"    {runs}"]
        return [*lines, "heap_release(scratch_memory);"] if place == "scratch_memory" else lines

    def numbers(self, operand: Operand) -> str:
        """A pointer to int64 numbers, of the type that the memory has."""
        return self._typed(operand, "int64_t")

    def amounts(self, call: Call) -> list[str]:
        """Only those that are no numbers, or that threads are told."""
        is_shared = self.options.threads > 1
        values = [("tasks", size_text(call.tasks, self.names), not isinstance(call.tasks, int))]
        values.append(("cost", cost_text(call.cost, self.names), is_shared))
        values.append(
            ("scratch", size_text(call.scratch, self.names), is_shared or is_late_scratch(self.segment, call))
        )
        return [f"const int64_t {name} = {text};" for name, text, is_used in values if is_used]

    def _scratch_place(self, call: Call) -> str | None:
        if is_late_scratch(self.segment, call):
            return None
        offset = self.memory_plan.scratch.get(id(call))
        return "0" if offset is None else self._place(offset)

    def mark(self, action: Action) -> list[str]:
        """Nothing: nobody takes times in a program of its own."""
        return []

    def release(self, text: str) -> str:
        """Give a piece of the heap back."""
        return f"heap_release({text});"

    def memory(self, size: str) -> str:
        """A piece of the heap."""
        return f"heap_allocate(heap, {size})"

    def more_memory(self, text: str, needed: str) -> str:
        """A larger piece of the heap."""
        return f"heap_grow(heap, {text}, used, {needed})"

    def result_memory(self, buffer: Buffer, rank: int) -> str:
        """The caller's memory."""
        port = self.outputs[self.segment.outputs[buffer.index]]
        numbers = parts(port.value.dtype)
        room = f"{port.name}_room" if numbers == 1 else f"{port.name}_room / {numbers}"
        return f"output_memory({port.name}, {room}, {port.name}_shape, {rank}, shape)"

    def begin_round(self, counter: str) -> list[str]:
        """Nothing: nobody stops a run."""
        return []

    def refused(self, action: Action) -> str:
        """Statuses of their own for memory, and one for each action that checks what it is given."""
        if isinstance(action, (Allocate, Grow)):
            return str(NO_ROOM if action.buffer.kind == "output" else NO_MEMORY)
        return super().refused(action)

    def faults(self) -> list[tuple[int, str]]:
        """The statuses above FAULT, and what they mean."""
        found: list[tuple[int, str]] = []
        for place, action in enumerate(walk(self.segment.actions)):
            if not _can_fault(action):
                continue
            node = action.nodes[0]
            path = f" at {node.origin}" if node.origin else ""
            found.append((FAULT + place, f"{node.op.name}{path} met a value that it forbids"))
        return found

    def size_lines(self, size: Dim, name: str) -> list[str]:
        """Statements that compute a size of sizes that the caller gives; below 0 where they are refused."""
        alone = Driver(Segment(), {})
        alone.names.update(self.interface.sizes)
        text = dim_text(size, alone.names)
        refused = list(self._limits("-1"))
        return [*refused, *alone.names.declarations(), f"const int64_t {name} = {text};"]


def _gathered(terms: Magnitude) -> Magnitude:
    """A larger sum of fewer products: what is a part of another product counts as that."""
    found = dict(terms)
    for names in sorted(terms, key=len):
        around = (other for other in terms if len(other) > len(names) and not Counter(names) - Counter(other))
        larger = min(around, key=len, default=None)
        if larger is not None:
            found[larger] += found.pop(names)
    return found


def _can_fault(action: Action) -> bool:
    if isinstance(action, Call):
        code = action.kernel.code
        return action.checks or (code is not None and code.checks)
    if isinstance(action, FindSizes):
        return action.least is not None or action.limit is not None
    return isinstance(action, Check) and action.status == FAULT


def used_helpers(text: str) -> list[str]:
    """The functions of sizes that a text calls."""
    found: list[str] = []
    for part in re.split(r"(?<=\n}\n)", HELPERS):
        name = re.search(r"IG_FUNCTION_(\w+)\(", part)
        if name and f"IG_FUNCTION_{name[1]}(" in text:
            found.append(part)
    return found


def plain_sizes(text: str) -> str:
    """The text of a driver with names of C's own."""
    text = text.replace("IG_FUNCTION_", "size_").replace("__INT64_MAX__", "INT64_MAX")
    return text.replace("__builtin_memcpy", "memcpy").replace("(unsigned long)", "(size_t)")
