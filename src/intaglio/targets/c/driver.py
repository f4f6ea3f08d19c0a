"""The driver of a segment: C that computes sizes, calls the kernels in order, and decides branches and loops."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from intaglio.ir.dim import Atom, Dim, Expr, Symbol, call_symbols, lone_atom, product, symbols
from intaglio.ir.dim import Call as DimCall
from intaglio.kernels.plan import (
    FAULT,
    OVERFLOW,
    Action,
    Allocate,
    Assign,
    Bind,
    Branch,
    Call,
    Check,
    Described,
    Fill,
    Grow,
    Kernel,
    Move,
    NativeStep,
    Operand,
    Pair,
    Repeat,
    Settle,
    Swap,
    operands_of,
    walk,
)
from intaglio.kernels.segment_sizes import late_buffers, offset_bytes, segment_symbols
from intaglio.kernels.view import Buffer

_OVERFLOWS = "&overflow"
"""What stands in expressions that find out whether they overflow."""
_STOP_ON_OVERFLOW = ["if (overflow)", f"    return {OVERFLOW};"]


def driver_source(step: NativeStep, kernels: Mapping[Kernel, int], *, is_marked: bool = False) -> str:
    """The C text of a segment's driver; `kernels` gives each kernel's place in `call->kernel`.

    Where it `is_marked`, the compiler calls the place of the i-th action (in the order of `walk`) `action<i>`.
    """
    return Driver(step, kernels, is_marked).text()


class _Variables(dict[str, str]):
    """The driver's variables: those of symbols by name, and one for every function of sizes that its text uses.

    Such a size is computed once: at the top, or again wherever a symbol in it is given a value.
    """

    def __init__(self, given: Sequence[str], late: Sequence[str], threads: str) -> None:
        super().__init__((name, f"n{index}") for index, name in enumerate((*given, *late)))
        self.threads = threads
        self._late = set(late)
        self._calls: dict[DimCall, tuple[str, str]] = {}

    def of(self, call: DimCall) -> str:
        """The variable of a function of sizes."""
        if call not in self._calls:
            text = _call_text(call, self, self.threads)  # which names those inside first
            self._calls[call] = "threads" if call.function == "threads" else f"calc{len(self._calls)}", text
        return self._calls[call][0]

    def declarations(self) -> Iterator[str]:
        """All sizes, those inside of others first; what is not known at the top is computed behind `changed`."""
        for call, (name, text) in self._calls.items():
            if self._late.isdisjoint(call_symbols(call)):
                yield f"const int64_t {name} = {text};"
            else:
                yield f"int64_t {name} = 0;"

    def settled(self, names: Sequence[str]) -> list[str]:
        """The statements that follow where symbols were given values."""
        changed = set(names)
        calls = [each for call, each in self._calls.items() if not changed.isdisjoint(call_symbols(call))]
        return checked([f"{name} = {text};" for name, text in calls])

    def is_late(self, dim: Expr) -> bool:
        """Whether a size depends on a symbol that the driver binds, so that nobody has checked it before."""
        return not self._late.isdisjoint(symbols(dim))


def checked(lines: list[str]) -> list[str]:
    """Statements, and behind them a return where one of them overflowed."""
    return [*lines, *_STOP_ON_OVERFLOW] if any(_OVERFLOWS in line for line in lines) else lines


_SETTLE = "@sizes "
"""The mark of a line that stands for statements which are known when the whole text is."""


class Driver:
    """Prints the driver of a segment. Others who print one say in their own way what this one asks `call` for."""

    threads = "call->threads"

    def __init__(self, step: NativeStep, kernels: Mapping[Kernel, int], is_marked: bool = False) -> None:
        self.step = step
        self.is_marked = is_marked
        self.kernels = kernels
        given = self.given_symbols()
        self.names = _Variables(given, step.late, self.threads)
        self.given = len(given)
        self.places = {id(action): place for place, action in enumerate(walk(step.actions))}
        self.releases = _releases(step.actions)

    def given_symbols(self) -> list[str]:
        """The sizes that are known before the segment runs."""
        return list(segment_symbols(self.step))

    def text(self) -> str:
        """The helpers that expressions call, and the function."""
        body = indented([*self.checks(), *self._block(self.step.actions), *self.tail()])
        lines = [*self.head(), *indented(list(self._declarations()))]  # which know what the body uses
        for line in body:
            lines += self._settled(line) if _SETTLE in line else [line]
        lines += ["    return 0;", "}", ""]
        return "\n".join([*self.helpers(), *(part for line in lines for part in _folded_line(line))])

    def _declarations(self) -> Iterator[str]:
        for index, (name, variable) in enumerate(self.names.items()):
            value = self.given_size(index) if index < self.given else "0"
            if value != variable:
                constant = "const " if index < self.given else ""
                yield f"{constant}int64_t {variable} = {value}; /* {comment(name)} */"
                yield f"(void){variable};"
        for buffer in (*late_buffers(self.step.actions), *_places(self.step.actions)):
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
        told = enumerate(self.step.late[: self.step.told])
        sizes = f"((int64_t *)call->output[{len(self.step.outputs)}])"
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
            case Bind():
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
                if _OVERFLOWS not in differ:
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
        if len(line) <= _WIDTH - 8:
            return [line]
        return [*_filled("const struct { int64_t ", names, "; } size = {"), *_filled("    ", values, ""), "};"]

    def bind(self, bind: Bind) -> list[str]:
        """The statements that find out sizes."""
        lines = [*heading(bind), "{"]
        lines.append(f"    int64_t fault = 0, value[{max(1, len(bind.symbols))}] = {{0}};")
        for name, element, operand in bind.operands:
            lines.append(f"    const {element} *const {name} = (const void *){self.pointer(operand)};")
        lines += [f"    int64_t {name} = {size_text(size, self.names)};" for name, size in bind.sizes]
        if any(_OVERFLOWS in line for line in lines):
            lines += indented(_STOP_ON_OVERFLOW)
        lines += indented(bind.body.strip("\n").split("\n"))
        lines += ["    if (fault)", f"        return {self.refused(bind)};"]
        lines += [f"    {self.names[name]} = value[{index}];" for index, name in enumerate(bind.symbols)]
        return [*lines, "}", _settle_mark(bind.symbols)]

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
        if _OVERFLOWS not in offset:
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

    def buffer(self, buffer: Buffer) -> str:
        """Where a buffer lies, in C."""
        return buffer_text(buffer)


_WIDTH = 120
"""Columns of the text; what stands far inside of loops is folded at its spaces."""


def _filled(start: str, items: Sequence[str], end: str) -> list[str]:
    """Lines of items with commas between them."""
    lines, indent = [start], " " * 4 * (1 + (len(start) - len(start.lstrip())) // 4)
    for place, item in enumerate(items):
        part = item + (end if place + 1 == len(items) else ",")
        is_first = lines[-1] in (start, indent)
        if len(lines[-1]) + len(part) + 1 > _WIDTH - 16 and not is_first:
            lines.append(indent if start.strip() else start)
            is_first = True
        lines[-1] += part if is_first else " " + part
    return lines


def _folded_line(line: str) -> Iterator[str]:
    """A line in pieces of at most so many columns, cut where spaces stand."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    while len(line) > _WIDTH:
        place = line.rfind(" ", len(indent), _WIDTH + 1)
        cut = place if place >= 0 else line.rfind("(", len(indent), _WIDTH) + 1 or line.find(" ", _WIDTH)
        if cut <= 0 or line.lstrip().startswith("#"):
            break
        yield line[:cut]
        line = indent + line[cut:].lstrip()
    yield line


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


def indented(lines: Sequence[str]) -> list[str]:
    """Lines one level deeper."""
    return [f"    {line}" for line in lines]


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


# Divisions stay calls: with thousands of them inlined, the compiler took ten times as long for larger code.
HELPERS = """\
static __attribute__((noinline, const)) int64_t IG_FUNCTION_floordiv(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return b == 0 ? 0 : (int64_t)-(uint64_t)a;
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static __attribute__((noinline, const)) int64_t IG_FUNCTION_ceildiv(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return b == 0 ? 0 : (int64_t)-(uint64_t)a;
    return a / b + (a % b != 0 && (a < 0) == (b < 0));
}
static __attribute__((noinline, const)) int64_t IG_FUNCTION_mod(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return 0;
    const int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
static inline int64_t IG_FUNCTION_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline int64_t IG_FUNCTION_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static inline int64_t IG_FUNCTION_broadcast(int64_t a, int64_t b)
{
    return a == 1 ? b : a;
}
static inline int64_t IG_FUNCTION_times(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) || product > __INT64_MAX__ / 4 ? __INT64_MAX__ / 4 : product;
}
static __attribute__((noinline)) int64_t IG_FUNCTION_product(int64_t a, int64_t b, int64_t *overflow)
{
    int64_t found;
    *overflow |= __builtin_mul_overflow(a, b, &found);
    return found;
}
static __attribute__((noinline)) int64_t IG_FUNCTION_sum(int64_t a, int64_t b, int64_t *overflow)
{
    int64_t found;
    *overflow |= __builtin_add_overflow(a, b, &found);
    return found;
}
static inline int64_t IG_FUNCTION_place(int64_t offset, const int64_t *overflow)
{
    return *overflow ? 0 : offset;
}
static inline int64_t IG_FUNCTION_cost(double ns)
{
    return ns < 1e15 ? (int64_t)ns : 1000000000000000;
}
"""
"""What expressions of drivers call."""


def buffer_text(buffer: Buffer) -> str:
    """Where a buffer lies, in C."""
    if buffer.kind == "arena":
        return f"(call->arena + call->offset[{buffer.index}])"
    if buffer.kind == "place":
        return f"p{buffer.index}"
    if buffer.is_late:
        return f"{'r' if buffer.kind == 'output' else 'b'}{buffer.index}"
    return f"call->{buffer.kind}[{buffer.index}]"


_FAR = 2**62
"""A size beyond all that memory can hold."""


def size_text(size: Dim, names: Mapping[str, str]) -> str:
    """A size in C; one that is known and beyond all memory is brought near, since the compiler refuses it else."""
    return _number_text(max(-_FAR, min(size, _FAR))) if isinstance(size, int) else dim_text(size, names)


def _number_text(number: int) -> str:
    return f"{int(number)}" if abs(number) < 2**31 else _long_text(number)  # a truth value is a number too


_MOST_NS = 10**15
"""More than any task takes."""


def cost_text(cost: Dim, names: Mapping[str, str]) -> str:
    """A cost in C, computed in floating point: it is rough and must not overflow."""
    if isinstance(cost, int):
        return _number_text(max(0, min(cost, _MOST_NS)))
    return f"IG_FUNCTION_cost({_rough_text(cost, names)})"


def _rough_text(dim: Dim, names: Mapping[str, str]) -> str:
    if isinstance(dim, int):
        return f"{float(dim)!r}"
    terms: list[str] = []
    for monomial, factor in dim.terms:
        parts = [_rough_atom(atom, names) for atom in monomial]
        terms.append(" * ".join(parts if factor == 1 and parts else [f"{float(factor)!r}", *parts]))
    return " + ".join(terms)


def _rough_atom(atom: Atom, names: Mapping[str, str]) -> str:
    if isinstance(atom, DimCall) and atom.function in ("floordiv", "ceildiv"):
        left, right = (_rough_text(operand, names) for operand in atom.operands)
        return f"(({left}) / ({right}))"
    return f"(double){_atom_text(atom, names)}"


def dim_text(dim: Dim, names: Mapping[str, str]) -> str:
    """A dimension as a C expression over the driver's variables."""
    if not isinstance(dim, Expr):
        return _number_text(dim)
    if isinstance(names, _Variables) and names.is_late(dim):
        return _checked_text(dim, names)
    terms = [_term_text(monomial, factor, names) for monomial, factor in dim.terms]
    return terms[0] if lone_atom(dim) is not None else "(" + " + ".join(terms) + ")"


def _checked_text(dim: Expr, names: Mapping[str, str]) -> str:
    """A dimension as C that finds out whether it overflows."""
    terms: list[str] = []
    for monomial, factor in dim.terms:
        known = _long_text(factor) if abs(factor) < 2**63 else f"IG_FUNCTION_sum(__INT64_MAX__, 1, {_OVERFLOWS})"
        parts = [known, *(_atom_text(atom, names) for atom in monomial)]
        terms.append(_folded("product", parts[1:] if factor == 1 and monomial else parts))
    return _folded("sum", terms)


def _folded(function: str, parts: Sequence[str]) -> str:
    text = parts[0]
    for part in parts[1:]:
        text = f"IG_FUNCTION_{function}({text}, {part}, {_OVERFLOWS})"
    return text


def safe_text(dim: Dim, names: Mapping[str, str]) -> str:
    """A size in C that no overflow makes small: products that are too large become a size that cannot be had."""
    if not isinstance(dim, Expr):
        return dim_text(dim, names)
    terms: list[str] = []
    for monomial, factor in dim.terms:
        text = _long_text(factor)
        for atom in monomial:
            text = f"IG_FUNCTION_times({text}, {_atom_text(atom, names)})"
        terms.append(text)
    return "(" + " + ".join(terms) + ")"


def _term_text(monomial: Sequence[Atom], factor: int, names: Mapping[str, str]) -> str:
    parts = [_atom_text(atom, names) for atom in monomial]
    if factor != 1 or not parts:
        parts.insert(0, _long_text(factor))
    return " * ".join(parts)


def _long_text(number: int) -> str:
    """A constant in C, brought into the range of int64 as the driver's arithmetic would."""
    wrapped = (number + 2**63) % 2**64 - 2**63
    if wrapped == -(2**63):
        return f"({wrapped + 1}LL - 1)"
    return f"{wrapped}LL" if wrapped >= 0 else f"({wrapped}LL)"


def _atom_text(atom: Atom, names: Mapping[str, str]) -> str:
    if isinstance(atom, Symbol):
        return names[atom.name]
    return names.of(atom) if isinstance(names, _Variables) else _call_text(atom, names)


def _call_text(call: DimCall, names: Mapping[str, str], threads: str = Driver.threads) -> str:
    operands = [dim_text(operand, names) for operand in call.operands]
    match call.function:
        case "threads":
            return threads
        case "less":
            return f"({operands[0]} < {operands[1]})"
        case "equal":
            return f"({operands[0]} == {operands[1]})"
        case "select":
            return f"({operands[0]} != 0 ? {operands[1]} : {operands[2]})"
        case _:
            return f"IG_FUNCTION_{call.function}({', '.join(operands)})"


def comment(text: str) -> str:
    """Any text made safe for the inside of a C comment: one line of plain ASCII that cannot end it."""
    plain = "".join(c if " " <= c <= "~" and c not in "\\?" else "." for c in text)
    return plain.replace("*/", "* /").replace("/*", "/ *")[:200]
