"""The driver of a segment: C that computes sizes, calls the kernels in order, and decides branches and loops."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from intaglio.ir.dim import Dim, product
from intaglio.kernels.plan import (
    FAULT,
    Action,
    Allocate,
    Assign,
    Branch,
    Call,
    Check,
    Described,
    Fill,
    FindSizes,
    Grow,
    Kernel,
    Move,
    Operand,
    Pair,
    Repeat,
    Segment,
    Settle,
    Swap,
    operands_of,
    walk,
)
from intaglio.kernels.segment_sizes import late_buffers, offset_bytes, segment_symbols
from intaglio.kernels.view import Buffer
from intaglio.targets.c.lines import WIDTH, comment, filled, folded_line, indented
from intaglio.targets.c.size_text import (
    HELPERS,
    OVERFLOWS,
    THREADS,
    Variables,
    checked,
    cost_text,
    dim_text,
    safe_text,
    size_text,
)


def driver_source(segment: Segment, kernels: Mapping[Kernel, int], *, is_marked: bool = False) -> str:
    """The C text of a segment's driver; `kernels` gives each kernel's place in `call->kernel`.

    Where it `is_marked`, the compiler calls the place of the i-th action (in the order of `walk`) `action<i>`.
    """
    return Driver(segment, kernels, is_marked).text()


_SETTLE = "@sizes "
"""The mark of a line that stands for statements which are known when the whole text is."""


class Driver:
    """Prints the driver of a segment. Others who print one say in their own way what this one asks `call` for."""

    threads = THREADS

    def __init__(self, segment: Segment, kernels: Mapping[Kernel, int], is_marked: bool = False) -> None:
        self.segment = segment
        self.is_marked = is_marked
        self.kernels = kernels
        given = self.given_symbols()
        self.names = Variables(given, segment.late, self.threads)
        self.given = len(given)
        self.places = {id(action): place for place, action in enumerate(walk(segment.actions))}
        self.releases = _releases(segment.actions)

    def given_symbols(self) -> list[str]:
        """The sizes that are known before the segment runs."""
        return list(segment_symbols(self.segment))

    def text(self) -> str:
        """The helpers that expressions call, and the function."""
        body = indented([*self.checks(), *self._block(self.segment.actions), *self.tail()])
        lines = [*self.head(), *indented(list(self._declarations()))]  # which know what the body uses
        for line in body:
            lines += self._settled(line) if _SETTLE in line else [line]
        lines += ["    return 0;", "}", ""]
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
        return [HELPERS]

    def head(self) -> list[str]:
        """The function's head, and what stands before its sizes."""
        return ["int32_t IG_FUNCTION(const ig_call *call)", "{", "    int64_t overflow = 0;", "    (void)overflow;"]

    def checks(self) -> list[str]:
        """What stands between the sizes and the actions."""
        return []

    def tail(self) -> list[str]:
        """What stands behind the actions."""
        told = enumerate(self.segment.late[: self.segment.told])
        sizes = f"((int64_t *)call->output[{len(self.segment.outputs)}])"
        return [f"{sizes}[{place}] = {self.names[name]};" for place, name in told]

    def given_size(self, index: int) -> str:
        """The value of a symbol that the caller knows."""
        return f"call->dim[{index}]"

    def amounts(self, call: Call) -> list[str]:
        """Variables for how much a kernel has to do and needs."""
        tasks, scratch = (size_text(size, self.names) for size in (call.tasks, call.scratch))
        cost = cost_text(call.cost, self.names)
        return [f"const int64_t tasks = {tasks}, cost = {cost}, scratch = {scratch};"]

    def run(self, call: Call) -> list[str]:
        """The statements that run a kernel, whose arguments are variables by now."""
        arguments = f"buffer, (const int64_t *)&size, tasks, cost, scratch, {self.places[id(call)]}"
        return [f"if (call->parallel(call, call->kernel[{self.kernels[call.kernel]}], {arguments}))", "    return 1;"]

    def mark(self, action: Action) -> list[str]:
        """What follows an action that the driver does itself, so that somebody may take its time."""
        return ["if (call->mark)", f"    call->mark(call, {self.places[id(action)]});"]

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

    def begin_round(self, counter: str) -> list[str]:
        """What comes first in each round of a loop."""
        return [f"const int32_t stop = call->round(call, {counter});", "if (stop)", "    return stop;"]

    def refused(self, action: Action) -> str:
        """What the driver returns where an action gets no memory, or a value that its operator forbids."""
        return f"{FAULT + self.places[id(action)]}"

    def _settled(self, line: str) -> Iterator[str]:
        """The statements that a marked line stands for."""
        indent, _, names = line.partition(_SETTLE)
        for statement in self.names.settled(json.loads(names)):
            yield indent + statement

    def _block(self, actions: Sequence[Action]) -> list[str]:
        lines: list[str] = []
        for action in actions:
            if self.is_marked:
                lines.append(f'#line 1 "action{self.places[id(action)]}"')
            lines += self._action(action)
            for buffer in self.releases.get(id(action), ()):
                lines += [self.release(self.buffer(buffer)), f"{self.buffer(buffer)} = 0;"]
        return lines

    def _action(self, action: Action) -> list[str]:
        match action:
            case Call():
                return self.call(action)
            case Fill():
                return [*checked(self._fill(action)), *self.mark(action)]
            case FindSizes():
                return [*self.bind(action), *self.mark(action)]
            case Assign():
                return self._assign(action)
            case Allocate():
                return self._allocate(action)
            case Grow():
                return self._grow(action)
            case Move():
                source, target = self.buffer(action.source), self.buffer(action.target)
                return [self.release(target), f"{target} = {source};", f"{source} = 0;"]
            case Pair():
                pairs = ((action.now, action.first), (action.following, action.second))
                return checked([f"{self.buffer(place)} = {self.pointer(Operand(home))};" for place, home in pairs])
            case Swap():
                now, following = self.buffer(action.now), self.buffer(action.following)
                lines = [f"void *const other = {now};", f"{now} = {following};", f"{following} = other;"]
                return ["{", *indented(lines), "}"]
            case Settle():
                return self._settle(action.pair)
            case Check():
                status = action.status + (self.places[id(action)] if action.status == FAULT else 0)
                pairs = [[dim_text(dim, self.names) for dim in pair] for pair in action.pairs]
                differ = " && ".join(f"{left} != {right}" for left, right in pairs)
                if OVERFLOWS not in differ:
                    return [f"if ({differ})", f"    return {status};"]
                lines = checked([f"const int32_t differ = {differ};"])
                return ["{", *indented([*lines, "if (differ)", f"    return {status};"]), "}"]
            case Branch():
                return self._branch(action)
            case Repeat():
                return self._repeat(action)

    def call(self, call: Call) -> list[str]:
        """The statements of a call."""
        pointers = [(self.pointer(operand), operand.buffer.name) for operand in call.operands]
        lines = ["int64_t fault = 0;"] if call.checks else []
        pointers += [("&fault", "")] if call.checks else []
        lines += ["void *const buffer[] = {"]
        lines += [f"    {text}, /* {comment(name)} */" if name else f"    {text}," for text, name in pointers]
        lines += ["};", *self._sizes(call)]
        lines = checked([*lines, *self.amounts(call)])
        lines += self.run(call)
        if call.checks:
            lines += ["if (fault)", f"    return {self.refused(call)};"]
        return [*heading(call), "{", *indented(lines), "}"]

    def _sizes(self, call: Call) -> list[str]:
        """The sizes of a call by name; a kernel sees them as one array in this order."""
        if not call.sizes:
            return ["const int64_t size = 0;"]
        names = [name for name, _ in call.sizes]
        values = [f".{name} = {size_text(size, self.names)}" for name, size in call.sizes]
        line = f"const struct {{ int64_t {', '.join(names)}; }} size = {{{', '.join(values)}}};"
        if len(line) <= WIDTH - 8:
            return [line]
        return [*filled("const struct { int64_t ", names, "; } size = {"), *filled("    ", values, ""), "};"]

    def bind(self, bind: FindSizes) -> list[str]:
        """The statements that give symbols the values of numbers in memory."""
        lines = checked([f"const int64_t *const number = {self.numbers(bind.numbers)};"])
        if bind.limit is not None:
            lines += checked([f"const int64_t limit = {size_text(bind.limit, self.names)};"])
        tests = [f"number[{place}] < {bind.least}" for place in range(len(bind.names)) if bind.least is not None]
        tests += [f"number[{place}] > limit" for place in range(len(bind.names)) if bind.limit is not None]
        if tests:
            lines += [f"if ({' || '.join(tests)})", f"    return {self.refused(bind)};"]
        taken = [(place, name) for place, name in enumerate(bind.names) if name is not None]
        lines += [f"{self.names[name]} = number[{place}];" for place, name in taken]
        return [*heading(bind), "{", *indented(lines), "}", _settle_mark(bind.symbols)]

    def _assign(self, assign: Assign) -> list[str]:
        if len(assign.items) == 1:
            name, dim = assign.items[0]
            return [*checked([f"{self.names[name]} = {dim_text(dim, self.names)};"]), _settle_mark([name])]
        items = list(enumerate(assign.items))
        lines = [f"    const int64_t value{index} = {dim_text(dim, self.names)};" for index, (_, dim) in items]
        lines += [f"    {self.names[name]} = value{index};" for index, (name, _) in items]
        return [*checked(["{", *lines, "}"]), _settle_mark([name for name, _ in assign.items])]

    def _allocate(self, action: Allocate) -> list[str]:
        buffer = action.buffer
        text, refused = self.buffer(buffer), f"    return {self.refused(action)};"
        if buffer.kind == "output":
            return [*self._result(buffer, buffer.shape), f"if (!{text})", refused]
        size = safe_text(buffer.bytes, self.names)
        lines = [self.release(text), f"{text} = {self.memory(size)};"]
        return [*lines, f"if (!{text})", refused]

    def _grow(self, grow: Grow) -> list[str]:
        text, item = self.buffer(grow.buffer), grow.buffer.dtype.itemsize
        refused = [f"if (!{text})", f"    return {self.refused(grow)};"]
        if grow.buffer.kind == "output":
            return [*self._result(grow.buffer, grow.shape), *refused]
        needed = safe_text(product(grow.shape) * item, self.names)
        lines = checked([f"const int64_t used = {dim_text(grow.used * item, self.names)};"])
        return ["{", *indented([*lines, f"{text} = {self.more_memory(text, needed)};"]), "}", *refused]

    def _result(self, buffer: Buffer, shape: Sequence[Dim]) -> list[str]:
        """The request for an output's memory; a later one for more keeps what is there."""
        dims = ", ".join(dim_text(dim, self.names) for dim in shape) or "0"
        lines = checked([f"const int64_t shape[] = {{{dims}}};"])
        lines.append(f"{self.buffer(buffer)} = {self.result_memory(buffer, len(shape))};")
        return ["{", *indented(lines), "}"]

    def _settle(self, pair: Pair) -> list[str]:
        now, home = self.buffer(pair.now), self.pointer(Operand(pair.first))
        size = dim_text(pair.first.bytes, self.names)
        return [f"if ({now} != (void *)({home}))", f"    __builtin_memcpy({home}, {now}, (unsigned long){size});"]

    def _branch(self, branch: Branch) -> list[str]:
        lines = checked([f"const uint8_t is_true = {self._read('uint8_t', branch.condition)};"])
        then, otherwise = (indented(self._block(block)) for block in branch.blocks)
        lines += ["if (is_true) {", *then, *(["} else {", *otherwise] if otherwise else []), "}"]
        return [f"{{ /* {comment(branch.title)} */", *indented(lines), "}"]

    def _read(self, element: str, operand: Operand) -> str:
        """The number at an operand; nothing is read from a place that cannot be worked out."""
        home, offset = self.buffer(operand.buffer.home), dim_text(offset_bytes(operand), self.names)
        if OVERFLOWS not in offset:
            return f"*(const {element} *)({self.pointer(operand)})"
        return f"*(const {element} *)((char *){home} + IG_FUNCTION_place({offset}, &overflow))"

    def _repeat(self, repeat: Repeat) -> list[str]:
        counter, names = self.names[repeat.counter], self.names
        if repeat.limit is None:
            limit = "__INT64_MAX__"
        elif isinstance(repeat.limit, Operand):
            limit = self._read("int64_t", repeat.limit)
        else:
            limit = dim_text(repeat.limit, names)
        first = "1" if repeat.condition is None else self._read("uint8_t", repeat.condition)
        lines = [
            f"{{ /* {comment(repeat.title)} */",
            *indented(checked([f"const int64_t limit = {limit};", f"int32_t goes_on = {first};"])),
            f"    for ({counter} = 0; goes_on && {counter} < limit; {counter}++) {{",
            f"        {_settle_mark([repeat.counter])}",
            *indented(indented(self.begin_round(counter))),
            *indented(indented(self._block(repeat.body))),
        ]
        if repeat.again is not None:
            lines += indented(indented(checked([f"goes_on = {self._read('uint8_t', repeat.again)};"])))
        return [*lines, "    }", "}", _settle_mark([repeat.counter])]

    def _fill(self, fill: Fill) -> list[str]:
        element = {"bool": "uint8_t"}.get(fill.operand.buffer.dtype.name, f"{fill.operand.buffer.dtype.name}_t")
        lines = [
            f"{{ /* {comment(fill.title)} */",
            f"    {element} *out = (void *){self.pointer(fill.operand)};",
        ]
        lines += [f"    out[{i}] = ({element})({dim_text(item, self.names)});" for i, item in enumerate(fill.items)]
        return [*lines, "    (void)out;", "}"]

    def pointer(self, operand: Operand) -> str:
        """Where an operand lies, in C."""
        text, offset = self.buffer(operand.buffer.home), offset_bytes(operand)
        return text if offset == 0 else f"(char *){text} + ({dim_text(offset, self.names)})"

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
    paths = dict.fromkeys(str(node.origin) for node in action.nodes if node.origin)
    lines = [action.title, *[path for path in paths if path not in action.title][:_NAMED_NODES]]
    *texts, last = [comment(line) for line in lines if line] or [""]
    return ["/* " * (place == 0) + "   " * (place > 0) + line for place, line in enumerate([*texts, last + " */"])]


def _settle_mark(names: Sequence[str]) -> str:
    return _SETTLE + json.dumps(list(names))


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
