"""The driver of a segment: C that computes sizes, calls the kernels in order, and decides branches and loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from intaglio.ir.dim import Dim, product
from intaglio.kernels.kernel import Kernel
from intaglio.kernels.plan import (
    CANCELLED,
    FAULT,
    OVERFLOW,
    Action,
    Allocate,
    Assign,
    Branch,
    Call,
    Check,
    Commit,
    Described,
    Fill,
    FindSizes,
    Grow,
    Move,
    Operand,
    Pair,
    Repeat,
    SegmentBody,
    Settle,
    Swap,
    operands_of,
    walk,
)
from intaglio.kernels.segment_sizes import late_buffers, offset_bytes, segment_symbols
from intaglio.kernels.view import Buffer
from intaglio.targets.c.assembler import Assembler
from intaglio.targets.c.lines import WIDTH, comment, filled, folded_line, indented
from intaglio.targets.c.size_text import OVERFLOWS, THREADS, Variables, Words, cost_text, helper_text, safe_text


def driver_source(segment: SegmentBody, kernels: Mapping[Kernel, int], *, is_marked: bool = False) -> str:
    """The C text of a segment's driver; `kernels` gives each kernel's place in `call->kernel`.

    Where it `is_marked`, the compiler calls the place of the i-th action (in the order of `walk`) `action<i>`.
    """
    pointers = {kernel: f"call->kernel[{place}]" for kernel, place in kernels.items()}
    return Driver(segment, pointers, is_marked=is_marked).text()


class Driver:
    """Prints the driver of a segment. Others who print one say in their own way what this one asks `call` for.

    `kernels` has a pointer to the function of each kernel, in C.
    """

    threads = THREADS
    words = Words()

    def __init__(
        self,
        segment: SegmentBody,
        kernels: Mapping[Kernel, str],
        function: str = "IG_FUNCTION",
        is_marked: bool = False,
    ) -> None:
        self.segment = segment
        self.is_marked = is_marked
        self.kernels = kernels
        self.function = function
        given = self.given_symbols()
        self.names = Variables(given, segment.late, self.threads, self.words)
        self.given = len(given)
        self.out = Assembler(self.names, self.status(OVERFLOW))
        self.places = {id(action): place for place, action in enumerate(walk(segment.actions))}
        self.releases = _releases(segment.actions)

    def given_symbols(self) -> list[str]:
        """The sizes that are known before the segment runs."""
        return list(segment_symbols(self.segment))

    def text(self) -> str:
        """The helpers that expressions call, and the function."""
        self.checks()
        self._block(self.segment.actions)
        self.tail()
        body = list(self.out.lines())
        beginning = [*self.head(), *indented(list(self._declarations()))]  # which know what the body uses
        lines = [*beginning, *indented(body), "    return 0;", "}", ""]
        return "\n".join([*self.helpers(), *(part for line in lines for part in folded_line(line))])

    def _declarations(self) -> Iterator[str]:
        for index, (name, variable) in enumerate(self.names.items()):
            value = self.given_size(index) if index < self.given else "0"
            if value != variable:
                constant = "const " if index < self.given else ""
                yield f"{constant}int64_t {variable} = {value}; /* {comment(name)} */"
                yield f"(void){variable};"
        for buffer in (*late_buffers(self.segment.actions), *_places(self.segment.actions)):
            yield f"void *{self.buffer(buffer)} = 0; /* {comment(buffer.name)} */"
        yield from self.names.declarations()

    def helpers(self) -> list[str]:
        """The functions in front of the driver."""
        return ["".join(helper_text(self.words))]

    def head(self) -> list[str]:
        """The function's head, and what stands before its sizes."""
        head = f"int32_t {self.function}(const ig_call *call)"
        return [head, "{", "    int64_t overflow = 0;", "    (void)overflow;"]

    def checks(self) -> None:
        """Add what stands between the sizes and the actions."""

    def tail(self) -> None:
        """Add what stands behind the actions."""
        sizes = f"((int64_t *)call->output[{len(self.segment.output_buffers)}])"
        for place, name in enumerate(self.segment.late[: self.segment.told]):
            self.out.add(f"{sizes}[{place}] = {self.names[name]};")

    def given_size(self, index: int) -> str:
        """The value of a symbol that the caller knows."""
        return f"call->dim[{index}]"

    def status(self, status: int) -> str:
        """What the driver returns, in C."""
        return f"{status}"

    def amounts(self, call: Call) -> None:
        """Declare how much a kernel has to do and needs."""
        tasks, scratch = self.out.size(call.tasks), self.out.size(call.scratch)
        cost = cost_text(call.cost, self.names)
        self.out.add(f"const int64_t tasks = {tasks}, cost = {cost}, scratch = {scratch};")

    def run(self, call: Call) -> None:
        """Run a kernel, whose arguments are variables by now."""
        arguments = f"buffer, (const int64_t *)&size, tasks, cost, scratch, {self.places[id(call)]}"
        self.out.refuse(f"call->parallel(call, {self.kernels[call.kernel]}, {arguments})", self.status(CANCELLED))

    def mark(self, action: Action) -> None:
        """Add what follows an action that the driver does itself, so that somebody may take its time."""
        self.out.add("if (call->mark)", f"    call->mark(call, {self.places[id(action)]});")

    def release(self, text: str) -> str:
        """Give memory back."""
        return f"call->release(call, {text});"

    def memory(self, size: str) -> str:
        """Memory of so many bytes, or NULL."""
        return f"call->allocate(call, {size})"

    def more_memory(self, text: str, needed: str) -> str:
        """Memory of so many bytes that begins with the first `used` of other memory, or NULL."""
        return f"call->grow(call, {text}, used, {needed})"

    def result_memory(self, buffer: Buffer, rank: int) -> str:
        """The memory of an output whose `shape` is a variable by now, or NULL."""
        return f"call->result(call, {buffer.index}, {rank}, shape)"

    def begin_round(self, counter: str) -> None:
        """Add what comes first in each round of a loop."""
        self.out.add(f"const int32_t stop = call->round(call, {counter});")
        self.out.refuse("stop", "stop")

    def commit(self) -> None:
        """Add what makes sure that nothing stops the run from here on."""
        with self.out.block("{ /* from here on nothing stops the run */"):
            self.begin_round("-1")

    def refused(self, action: Action) -> str:
        """What the driver returns where an action gets no memory, or a value that its operator forbids."""
        return self.status(FAULT + self.places[id(action)])

    def _block(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if self.is_marked:
                self.out.add(f'#line 1 "action{self.places[id(action)]}"')
            self._action(action)
            for buffer in self.releases.get(id(action), ()):
                self.out.add(self.release(self.buffer(buffer)), f"{self.buffer(buffer)} = 0;")

    def _action(self, action: Action) -> None:
        match action:
            case Call():
                self.call(action)
            case Fill():
                self._fill(action)
            case FindSizes():
                self._find_sizes(action)
            case Assign():
                self._assign(action)
            case Allocate():
                self._allocate(action)
            case Grow():
                self._grow(action)
            case Move():
                source, target = self.buffer(action.source), self.buffer(action.target)
                self.out.add(self.release(target), f"{target} = {source};", f"{source} = 0;")
            case Pair():
                for place, home in ((action.now, action.first), (action.following, action.second)):
                    self.out.add(f"{self.buffer(place)} = {self.pointer(Operand(home))};")
                self.out.check()
            case Swap():
                now, following = self.buffer(action.now), self.buffer(action.following)
                with self.out.block():
                    self.out.add(f"void *const other = {now};", f"{now} = {following};", f"{following} = other;")
            case Settle():
                self._settle(action.pair)
            case Check():
                self.compare(action)
            case Commit():
                self.commit()
            case Branch():
                self._branch(action)
            case Repeat():
                self._repeat(action)

    def compare(self, check: Check) -> None:
        """Add a return for where all pairs of sizes differ."""
        status = self.refused(check) if check.status == FAULT else self.status(check.status)
        can_overflow = any(self.names.can_overflow(dim) for pair in check.pairs for dim in pair)
        differ = " && ".join(f"{self.out.dim(left)} != {self.out.dim(right)}" for left, right in check.pairs)
        if not can_overflow:
            self.out.refuse(differ, status)
            return
        with self.out.block():
            self.out.add(f"const int32_t differ = {differ};")
            self.out.check()
            self.out.refuse("differ", status)

    def call(self, call: Call) -> None:
        """Call a kernel by arrays of its arguments."""
        out = self.out
        out.add(*heading(call))
        with out.block():
            if call.checks:
                out.add("int64_t fault = 0;")
            with out.block("void *const buffer[] = {", "};"):
                for operand in call.operands:
                    about = f" /* {comment(operand.buffer.name)} */" if operand.buffer.name else ""
                    out.add(f"{self.pointer(operand)},{about}")
                if call.checks:
                    out.add("&fault,")
            self._sizes(call)
            self.amounts(call)
            out.check()
            self.run(call)
            if call.checks:
                out.refuse("fault", self.refused(call))

    def _sizes(self, call: Call) -> None:
        """Declare the sizes of a call by name; a kernel sees them as one array in this order."""
        if not call.sizes:
            self.out.add("const int64_t size = 0;")
            return
        names = [name for name, _ in call.sizes]
        values = [f".{name} = {self.out.size(size)}" for name, size in call.sizes]
        line = f"const struct {{ int64_t {', '.join(names)}; }} size = {{{', '.join(values)}}};"
        if len(line) <= WIDTH - 8:
            self.out.add(line)
        else:
            self.out.add(*filled("const struct { int64_t ", names, "; } size = {"), *filled("    ", values, ""), "};")

    def _find_sizes(self, found: FindSizes) -> None:
        """Give symbols the values of numbers in memory."""
        out = self.out
        out.add(*heading(found))
        with out.block():
            out.add(f"const int64_t *const number = {self.numbers(found.numbers)};")
            out.check()
            if found.limit is not None:
                out.add(f"const int64_t limit = {out.size(found.limit)};")
                out.check()
            tests = [f"number[{place}] < {found.least}" for place in range(len(found.names)) if found.least is not None]
            tests += [f"number[{place}] > limit" for place in range(len(found.names)) if found.limit is not None]
            if tests:
                out.refuse(" || ".join(tests), self.refused(found))
            for place, name in enumerate(found.names):
                if name is not None:
                    out.add(f"{self.names[name]} = number[{place}];")
        out.settle(found.symbols)
        self.mark(found)

    def _assign(self, assign: Assign) -> None:
        out = self.out
        if len(assign.items) == 1:
            name, dim = assign.items[0]
            out.add(f"{self.names[name]} = {out.dim(dim)};")
        else:
            with out.block():
                for index, (_, dim) in enumerate(assign.items):
                    out.add(f"const int64_t value{index} = {out.dim(dim)};")
                for index, (name, _) in enumerate(assign.items):
                    out.add(f"{self.names[name]} = value{index};")
        out.check()
        out.settle([name for name, _ in assign.items])

    def _allocate(self, action: Allocate) -> None:
        buffer = action.buffer
        text = self.buffer(buffer)
        if buffer.kind == "output":
            self._result(buffer, buffer.shape)
        else:
            self.out.add(self.release(text), f"{text} = {self.memory(safe_text(buffer.bytes, self.names))};")
        self.out.refuse(f"!{text}", self.refused(action))

    def _grow(self, grow: Grow) -> None:
        text, item = self.buffer(grow.buffer), grow.buffer.dtype.itemsize
        if grow.buffer.kind == "output":
            self._result(grow.buffer, grow.shape)
        else:
            needed = safe_text(product(grow.shape) * item, self.names)
            with self.out.block():
                self.out.add(f"const int64_t used = {self.out.dim(grow.used * item)};")
                self.out.check()
                self.out.add(f"{text} = {self.more_memory(text, needed)};")
        self.out.refuse(f"!{text}", self.refused(grow))

    def _result(self, buffer: Buffer, shape: Sequence[Dim]) -> None:
        """Ask for an output's memory; a later request for more keeps what is there."""
        with self.out.block():
            self.out.add(f"const int64_t shape[] = {{{', '.join(map(self.out.dim, shape)) or '0'}}};")
            self.out.check()
            self.out.add(f"{self.buffer(buffer)} = {self.result_memory(buffer, len(shape))};")

    def _settle(self, pair: Pair) -> None:
        now, home = self.buffer(pair.now), self.pointer(Operand(pair.first))
        size = self.out.dim(pair.first.bytes)
        copy = f"{self.words.copy}({home}, {now}, ({self.words.bytes}){size});"
        self.out.add(f"if ({now} != (void *)({home}))", f"    {copy}")
        self.out.check()

    def _branch(self, branch: Branch) -> None:
        out = self.out
        with out.block(f"{{ /* {comment(branch.title)} */"):
            out.add(f"const uint8_t is_true = {self._read('uint8_t', branch.condition)};")
            out.check()
            with out.block("if (is_true) {", "" if branch.otherwise else "}"):
                self._block(branch.then)
            if branch.otherwise:
                with out.block("} else {"):
                    self._block(branch.otherwise)

    def _read(self, element: str, operand: Operand) -> str:
        """The number at an operand; nothing is read from a place that cannot be worked out."""
        offset = offset_bytes(operand)
        if not self.names.can_overflow(offset):
            return f"*(const {element} *)({self.pointer(operand)})"
        place = f"{self.names.function('place')}({self.out.dim(offset)}, {OVERFLOWS})"
        return f"*(const {element} *)((char *){self.buffer(operand.buffer.home)} + {place})"

    def _repeat(self, repeat: Repeat) -> None:
        counter, out = self.names[repeat.counter], self.out
        if repeat.limit is None:
            limit = self.words.most
        elif isinstance(repeat.limit, Operand):
            limit = self._read("int64_t", repeat.limit)
        else:
            limit = out.dim(repeat.limit)
        first = "1" if repeat.condition is None else self._read("uint8_t", repeat.condition)
        with out.block(f"{{ /* {comment(repeat.title)} */"):
            out.add(f"const int64_t limit = {limit};", f"int32_t goes_on = {first};")
            out.check()
            with out.block(f"for ({counter} = 0; goes_on && {counter} < limit; {counter}++) {{"):
                out.settle([repeat.counter])
                self.begin_round(counter)
                self._block(repeat.body)
                if repeat.again is not None:
                    out.add(f"goes_on = {self._read('uint8_t', repeat.again)};")
                    out.check()
        out.settle([repeat.counter])

    def _fill(self, fill: Fill) -> None:
        element = {"bool": "uint8_t"}.get(fill.operand.buffer.dtype.name, f"{fill.operand.buffer.dtype.name}_t")
        with self.out.block(f"{{ /* {comment(fill.title)} */"):
            self.out.add(f"{element} *out = (void *){self.pointer(fill.operand)};")
            for place, item in enumerate(fill.items):
                self.out.add(f"out[{place}] = ({element})({self.out.dim(item)});")
            self.out.add("(void)out;")
        self.out.check()
        self.mark(fill)

    def pointer(self, operand: Operand) -> str:
        """Where an operand lies, in C."""
        text, offset = self.buffer(operand.buffer.home), offset_bytes(operand)
        return text if offset == 0 else f"(char *){text} + ({self.out.dim(offset)})"

    def numbers(self, operand: Operand) -> str:
        """A pointer to int64 numbers that are read."""
        return f"(const void *){self.pointer(operand)}"

    def buffer(self, buffer: Buffer) -> str:
        """Where a buffer lies, in C."""
        return buffer_text(buffer)


_NAMED_NODES = 6
"""So many nodes of a call are named by their path."""


def heading(action: Described) -> list[str]:
    """A comment: what an action is, and the paths of its nodes in the model."""
    lines = [action.title, *[path for path in action.paths if path not in action.title][:_NAMED_NODES]]
    *texts, last = [comment(line) for line in lines if line] or [""]
    return ["/* " * (place == 0) + "   " * (place > 0) + line for place, line in enumerate([*texts, last + " */"])]


def _places(actions: Sequence[Action]) -> list[Buffer]:
    """The pointers that loops exchange."""
    pairs = [action for action in walk(actions) if isinstance(action, Pair)]
    return [place for pair in pairs for place in (pair.now, pair.following)]


def _releases(actions: Sequence[Action]) -> dict[int, list[Buffer]]:
    """The buffers to give back after each action: the last that touches them in the innermost block around all uses."""
    blocks: dict[Buffer, list[tuple[int, ...]]] = {}
    chain: dict[tuple[int, ...], Action] = {}
    for path, action in _paths(actions, ()):
        chain[path] = action
        for operand in operands_of(action):
            if operand.buffer.home.kind == "late":
                blocks.setdefault(operand.buffer.home, []).append(path)
    found: dict[int, list[Buffer]] = {}
    for buffer, paths in blocks.items():
        depth = 0
        while all(len(path) > depth + 2 and path[: depth + 2] == paths[0][: depth + 2] for path in paths):
            depth += 2
        last = max(path[: depth + 1] for path in paths)
        found.setdefault(id(chain[last]), []).append(buffer)
    return found


def _paths(actions: Sequence[Action], prefix: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Action]]:
    """Each action with its place: index, then the number of a block inside and the index there, and so on."""
    for index, action in enumerate(actions):
        yield (*prefix, index), action
        if isinstance(action, (Branch, Repeat)):
            for number, block in enumerate(action.blocks):
                yield from _paths(block, (*prefix, index, number))


def buffer_text(buffer: Buffer) -> str:
    """Where a buffer lies, in C."""
    if buffer.kind == "arena":
        return f"(call->arena + call->offset[{buffer.index}])"
    if buffer.kind == "place":
        return f"p{buffer.index}"
    if buffer.is_late:
        return f"{'r' if buffer.kind == 'output' else 'b'}{buffer.index}"
    return f"call->{buffer.kind}[{buffer.index}]"
