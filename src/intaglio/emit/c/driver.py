"""The entry function of a model: calls of kernels in order, branches and loops, with no runtime behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    operands_of,
    walk,
)
from intaglio.kernels.segment_sizes import given_dims
from intaglio.kernels.view import Buffer
from intaglio.record import Record
from intaglio.targets.c.driver import Driver, heading
from intaglio.targets.c.lines import comment, indented
from intaglio.targets.c.size_text import FIND_OVERFLOW, Variables, Words, cost_text, dim_text, size_text

NO_ROOM, NO_MEMORY = 6, 7
"""What the entry function returns where an output is larger than the caller's memory for it, or the heap is full."""

ENOUGH = 2**31 - 1
"""Where each size may be as large as this, no matter how large the others are, nobody needs larger ones."""

STATUSES = {
    ASSUMPTION: ("OTHER_SIZES", "the code was made for other relations between sizes: fix them when exporting"),
    REQUIREMENT: ("BAD_SIZES", "sizes do not fit each other"),
    OVERFLOW: ("OVERFLOW", "sizes are negative or too large"),
    NO_ROOM: ("NO_ROOM", "an output is larger than the room for it"),
    NO_MEMORY: ("NO_MEMORY", "the heap is too small for tensors whose sizes depend on data"),
}
"""What statuses are called, and mean."""


HEAP_GROW = "heap_grow"
"""The function that makes a piece of the heap larger."""


class _Argument(Record):
    """An argument of a kernel that is called by its own parameters, and the size in its text."""

    type: str
    text: str
    dim: Dim


class ModelDriver(Driver):
    """Prints the entry function. All that the runtime is asked for elsewhere is in the function or beside it.

    It notes the parameters, constants and functions that its statements use: of the others it says so.
    """

    words = Words("size_", "INT64_MAX", "memcpy", "size_t")

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
        self.used = set[str]()
        """Names of parameters, constants and functions that statements use."""
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

    def status(self, status: int) -> str:
        """The macro of a status, or the number of one that is an action's own."""
        return f"{self.interface.macro}_{STATUSES[status][0]}" if status in STATUSES else str(status)

    def _use(self, name: str) -> str:
        self.used.add(name)
        return name

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
        """The function's head, and the places of everything."""
        parameters = ", ".join(text for text, _ in self.interface.parameters()) or "void"
        lines = [f"int {self.interface.prefix}_run({parameters})", "{"]
        lines += indented(list(self._beginning()))
        return lines

    def _beginning(self) -> Iterator[str]:
        interface = self.interface
        defaults = {port.name for port in interface.inputs if port.default is not None}
        yield from (f"(void){name};" for name in self._parameters() if name not in self.used | defaults)
        if interface.takes_arena:
            yield "unsigned char *const memory = arena;"
            if "memory" not in self.used:
                yield "(void)memory;"
        if self.weights in ("bin", "object"):
            source = "weights" if interface.takes_weights else f"{interface.prefix}_weights"
            for each in self.constants.values():
                place = f"((const unsigned char *){source} + {each.offset})"
                yield f"const {each.type} *const {each.name} = (const void *){place}; /* {comment(each.title)} */"
                if each.name not in self.used:
                    yield f"(void){each.name};"
        if self.out.has_checks or not self.names.functions.isdisjoint(FIND_OVERFLOW):
            yield from ("int64_t overflow = 0;", "(void)overflow;")

    def given_size(self, index: int) -> str:
        """A parameter."""
        return self.names[self.given_names[index]]

    def checks(self) -> None:
        """Add what sizes must be, and the pointers to everything in memory."""
        self._size_checks()
        self.out.add(*self._defaults(), *self._pointers(), *self._heap())

    def _defaults(self) -> Iterator[str]:
        """What the model says of inputs that are NULL, where the sizes that the caller gives are those of that."""
        for port in self.interface.inputs:
            if port.default is None:
                continue
            pairs = zip(port.shape, port.default.shape, strict=True)
            differs = [f"{dim_text(dim, self.names)} != {size}" for dim, size in pairs if symbols(dim)]
            yield f"if (!{port.name}) {{"
            if differs:
                yield from (f"    if ({' || '.join(differs)})", f"        return {self.status(REQUIREMENT)};")
            yield from (f"    {port.name} = {self.interface.prefix}_default_{port.name};", "}")

    def _size_checks(self) -> None:
        self.out.add(*self._limits(self.status(OVERFLOW)))
        known = set(self.interface.sizes)
        for left, right in self.lowered.plan.assumptions:
            if symbols(left) | symbols(right) <= known:
                self.compare(Check([(left, right)], ASSUMPTION))
        for each in self.lowered.plan.requirements:
            if each.symbols <= known:
                self.compare(Check(each.pairs, REQUIREMENT))

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
        return self._use("memory") if self.interface.takes_arena else f"{self.interface.prefix}_arena"

    def _heap(self) -> Iterator[str]:
        if self.memory_plan.heap:
            macro = f"{self.interface.macro}_HEAP_BYTES"
            yield f"heap_piece *const heap = heap_begin({self._place(self.memory_plan.total)}, {macro});"

    def tail(self) -> None:
        """Copy outputs that the model gives twice."""
        for source, target in self.interface.copies:
            self._copy(source, target)

    def _copy(self, source: Port, target: Port) -> None:
        self.used |= {source.name, target.name}
        bytes = dim_text(product(source.shape) * source.value.dtype.itemsize, self.names)
        if source.is_late:
            self.used |= {f"{target.name}_room", f"{target.name}_shape", f"{source.name}_shape"}
            self.out.refuse(f"{target.name}_room < {dim_text(source.count, self.names)}", self.status(NO_ROOM))
        self.out.add(f"memcpy({target.name}, {source.name}, (size_t){bytes});")
        if source.is_late:
            size = f"sizeof *{source.name}_shape * {len(source.shape)}"
            self.out.add(f"memcpy({target.name}_shape, {source.name}_shape, {size});")

    def buffer(self, buffer: Buffer) -> str:
        """Where a buffer lies: a parameter, a constant, or a variable of the function."""
        if buffer.kind == "arena":
            return self.locals[buffer]
        if buffer.kind == "constant":
            return self._use(self.constants[buffer.index].name)
        if buffer.kind == "input":
            return self._use(self.inputs[self.lowered.segment.inputs[buffer.index]].name)
        if buffer.kind == "output" and not buffer.is_late:
            return self._use(self.outputs[self.lowered.segment.outputs[buffer.index]].name)
        return super().buffer(buffer)

    def call(self, call: Call) -> None:
        """A kernel of the neutral language is called by its own parameters, any other by arrays of them."""
        if self.texts.is_direct(call):
            self.out.add(*heading(call))
            self._direct(call)
        else:
            super().call(call)

    def _direct(self, call: Call) -> None:
        kernel, elements, out = call.kernel.loops, self.texts.elements(call.kernel), self.out
        sizes = dict(call.sizes)
        if kernel is not None and kernel.checks:
            reduced = out.dim(product(sizes[loop.name] for loop in kernel.reduced))
            kept = out.dim(product(sizes[loop.name] for loop in kernel.kept))
            out.refuse(f"{reduced} == 0 && {kept} > 0", self.refused(call))
            out.check()
        arguments = [
            _Argument(f"{self._kind(operand)}{element} *const", self._typed(operand, element), _offset(operand))
            for operand, element in zip(call.operands, elements, strict=True)
        ]
        more = [sizes[name] for name in self.texts.open_sizes(call.kernel)]
        arguments += [_Argument("const int64_t", out.dim(size), size) for size in more]
        self._checked_call(self.texts.name(call), arguments)

    def _checked_call(self, name: str, arguments: Sequence[_Argument]) -> None:
        """A call that is not made where one of its arguments cannot be worked out: such are variables first."""
        is_unsure = [self.names.can_overflow(each.dim) for each in arguments]
        texts = [f"argument{place}" if is_unsure[place] else each.text for place, each in enumerate(arguments)]
        run = f"{name}({', '.join(texts)});"
        if not any(is_unsure):
            self.out.add(run)
            return
        with self.out.block():
            for place, each in enumerate(arguments):
                if is_unsure[place]:
                    self.out.add(f"{each.type} argument{place} = {each.text};")
            self.out.check()
            self.out.add(run)

    def _typed(self, operand: Operand, element: str) -> str:
        """A pointer to elements of a type."""
        home, offset = operand.buffer.home, _offset(operand)
        text, own = self.buffer(home), self._element_of(home)
        if own != element and (own or offset != 0):
            kind = self._kind(operand) if own else ""
            text = f"({kind}{element} *){text}"
        return text if offset == 0 else f"{text} + {self.out.dim(offset)}"

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

    def run(self, call: Call) -> None:
        """The kernel itself, or our small function that shares its tasks out."""
        name, place = self.texts.name(call), self._scratch_place(call)
        if place is None:
            self.out.add(f"void *const scratch_memory = heap_allocate(heap, scratch * {self.threads});")
            self.out.refuse("!scratch_memory", self.status(NO_MEMORY))
        is_known = isinstance(call.tasks, int)
        tasks = size_text(call.tasks, self.names) if is_known else "tasks"
        arguments = "buffer, (const int64_t *)&size"
        if self.options.threads > 1:
            share = self._use(RUN_TASKS)
            runs = f"{share}({name}, {arguments}, {tasks}, cost, {place or 'scratch_memory'}, scratch);"
        else:
            runs = f"{name}({arguments}, 0, {tasks}, {place or 'scratch_memory'});"
        self.out.add(*([runs] if is_known else ["if (tasks > 0)", f"    {runs}"]))
        if place is None:
            self.out.add("heap_release(scratch_memory);")

    def numbers(self, operand: Operand) -> str:
        """A pointer to int64 numbers, of the type that the memory has."""
        return self._typed(operand, "int64_t")

    def amounts(self, call: Call) -> None:
        """Only those that are no numbers, or that threads are told."""
        is_shared = self.options.threads > 1
        if not isinstance(call.tasks, int):
            self.out.add(f"const int64_t tasks = {self.out.size(call.tasks)};")
        if is_shared:
            self.out.add(f"const int64_t cost = {cost_text(call.cost, self.names)};")
        if is_shared or is_late_scratch(self.segment, call):
            self.out.add(f"const int64_t scratch = {self.out.size(call.scratch)};")

    def _scratch_place(self, call: Call) -> str | None:
        if is_late_scratch(self.segment, call):
            return None
        offset = self.memory_plan.scratch.get(id(call))
        return "0" if offset is None else self._place(offset)

    def mark(self, action: Action) -> None:
        """Nothing: nobody takes times in a program of its own."""

    def release(self, text: str) -> str:
        """Give a piece of the heap back."""
        return f"heap_release({text});"

    def memory(self, size: str) -> str:
        """A piece of the heap."""
        return f"heap_allocate(heap, {size})"

    def more_memory(self, text: str, needed: str) -> str:
        """A larger piece of the heap."""
        return f"{self._use(HEAP_GROW)}(heap, {text}, used, {needed})"

    def result_memory(self, buffer: Buffer, rank: int) -> str:
        """The caller's memory."""
        port = self.outputs[self.lowered.segment.outputs[buffer.index]]
        numbers = parts(port.value.dtype)
        self.used |= {port.name, f"{port.name}_room", f"{port.name}_shape"}
        room = f"{port.name}_room" if numbers == 1 else f"{port.name}_room / {numbers}"
        return f"output_memory({port.name}, {room}, {port.name}_shape, {rank}, shape)"

    def begin_round(self, counter: str) -> None:
        """Nothing: nobody stops a run."""

    def refused(self, action: Action) -> str:
        """Statuses of their own for memory, and one for each action that checks what it is given."""
        if isinstance(action, (Allocate, Grow)):
            return self.status(NO_ROOM if action.buffer.kind == "output" else NO_MEMORY)
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
        alone = Variables((), (), self.threads, self.words)
        alone.update(self.interface.sizes)
        text = dim_text(size, alone)
        refused = list(self._limits("-1"))
        self.names.functions |= alone.functions
        return [*refused, *alone.declarations(), f"const int64_t {name} = {text};"]


def _offset(operand: Operand) -> Dim:
    """How many elements behind the start of its memory an operand lies."""
    return operand.offset + operand.buffer.home_offset


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
        loops = action.kernel.loops
        return action.checks or (loops is not None and loops.checks)
    if isinstance(action, FindSizes):
        return action.least is not None or action.limit is not None
    return isinstance(action, Check) and action.status == FAULT
