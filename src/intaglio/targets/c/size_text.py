"""Sizes as C: expressions over a driver's variables, and statements that find out whether one overflows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from string import Template

from intaglio.ir.dim import Atom, Dim, DimFunction, Expr, Symbol, function_symbols, lone_atom, symbols
from intaglio.record import Record

THREADS = "call->threads"
"""The number of threads of a run, in a driver that the runtime calls."""

OVERFLOWS = "&overflow"
"""What functions of sizes are given that find out whether they overflow."""


FIND_OVERFLOW = frozenset({"product", "sum", "place"})
"""The functions that are given it."""


class Words(Record):
    """What a driver calls the things that C's compilers have under several names."""

    prefix: str = "IG_FUNCTION_"
    """How the functions of sizes are called, before the name of each."""
    most: str = "__INT64_MAX__"
    copy: str = "__builtin_memcpy"
    bytes: str = "unsigned long"


_OWN = Words()


class Variables(dict[str, str]):
    """The driver's variables: those of symbols by name, and one for every function of sizes that its text uses.

    Such a size is computed once: at the top, or again wherever a symbol in it is given a value. `read` has the
    symbols that the text uses, `functions` the functions of sizes that it calls.
    """

    def __init__(self, given: Sequence[str], late: Sequence[str], threads: str, words: Words = _OWN) -> None:
        super().__init__((name, f"n{index}") for index, name in enumerate((*given, *late)))
        self.threads = threads
        self.words = words
        self.read = set[str]()
        self.functions = set[str]()
        self._late = set(late)
        self._calls: dict[DimFunction, tuple[str, str]] = {}

    def __getitem__(self, name: str) -> str:
        self.read.add(name)
        return super().__getitem__(name)

    def of(self, call: DimFunction) -> str:
        """The variable of a function of sizes."""
        if call not in self._calls:
            text = _call_text(call, self, self.threads)  # which names those inside first
            self._calls[call] = "threads" if call.function == "threads" else f"calc{len(self._calls)}", text
        return self._calls[call][0]

    def declarations(self) -> Iterator[str]:
        """All sizes, those inside of others first; what is not known at the top is computed by `settled`."""
        for call, (name, text) in self._calls.items():
            if self._late.isdisjoint(function_symbols(call)):
                yield f"const int64_t {name} = {text};"
            else:
                yield f"int64_t {name} = 0;"

    def settled(self, names: Sequence[str]) -> tuple[list[str], bool]:
        """The statements that follow where symbols were given values, and whether one of them can overflow."""
        changed = set(names)
        calls = {call: each for call, each in self._calls.items() if not changed.isdisjoint(function_symbols(call))}
        unsure = any(self.can_overflow(operand) for call in calls for operand in call.operands)
        return [f"{name} = {text};" for name, text in calls.values()], unsure

    def is_late(self, dim: Expr) -> bool:
        """Whether a size depends on a symbol that the driver binds, so that nobody has checked it before."""
        return not self._late.isdisjoint(symbols(dim))

    def can_overflow(self, dim: Dim) -> bool:
        """Whether the text of a size finds out if it overflows: one of a late symbol that multiplies or adds."""
        if not isinstance(dim, Expr) or not self.is_late(dim):
            return False
        monomial, factor = dim.terms[0]
        return len(dim.terms) > 1 or len(monomial) + (factor != 1) > 1

    def function(self, name: str) -> str:
        """What a function of sizes is called, in a text that calls it."""
        self.functions.add(name)
        return self.words.prefix + name


def _function(name: str, names: Mapping[str, str]) -> str:
    return names.function(name) if isinstance(names, Variables) else _OWN.prefix + name


def helper_text(words: Words = _OWN, names: Collection[str] | None = None) -> list[str]:
    """The functions of sizes that are named, or all."""
    found = [name for name in _HELPERS if names is None or name in names]
    return [Template(_HELPERS[name]).substitute(name=words.prefix + name, most=words.most) for name in found]


# Divisions stay calls: with thousands of them inlined, the compiler took ten times as long for larger code.
_HELPERS = {
    "floordiv": """\
static __attribute__((noinline, const)) int64_t $name(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return b == 0 ? 0 : (int64_t)-(uint64_t)a;
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
""",
    "ceildiv": """\
static __attribute__((noinline, const)) int64_t $name(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return b == 0 ? 0 : (int64_t)-(uint64_t)a;
    return a / b + (a % b != 0 && (a < 0) == (b < 0));
}
""",
    "mod": """\
static __attribute__((noinline, const)) int64_t $name(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return 0;
    const int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
""",
    "min": """\
static inline int64_t $name(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
""",
    "max": """\
static inline int64_t $name(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
""",
    "broadcast": """\
static inline int64_t $name(int64_t a, int64_t b)
{
    return a == 1 ? b : a;
}
""",
    "times": """\
static inline int64_t $name(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) || product > $most / 4 ? $most / 4 : product;
}
""",
    "product": """\
static __attribute__((noinline)) int64_t $name(int64_t a, int64_t b, int64_t *overflow)
{
    int64_t found;
    *overflow |= __builtin_mul_overflow(a, b, &found);
    return found;
}
""",
    "sum": """\
static __attribute__((noinline)) int64_t $name(int64_t a, int64_t b, int64_t *overflow)
{
    int64_t found;
    *overflow |= __builtin_add_overflow(a, b, &found);
    return found;
}
""",
    "place": """\
static inline int64_t $name(int64_t offset, const int64_t *overflow)
{
    return *overflow ? 0 : offset;
}
""",
    "cost": """\
static inline int64_t $name(double ns)
{
    return ns < 1e15 ? (int64_t)ns : 1000000000000000;
}
""",
}
"""What expressions of drivers call."""


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
    return f"{_function('cost', names)}({_rough_text(cost, names)})"


def _rough_text(dim: Dim, names: Mapping[str, str]) -> str:
    if isinstance(dim, int):
        return f"{float(dim)!r}"
    terms: list[str] = []
    for monomial, factor in dim.terms:
        parts = [_rough_atom(atom, names) for atom in monomial]
        terms.append(" * ".join(parts if factor == 1 and parts else [f"{float(factor)!r}", *parts]))
    return " + ".join(terms)


def _rough_atom(atom: Atom, names: Mapping[str, str]) -> str:
    if isinstance(atom, DimFunction) and atom.function in ("floordiv", "ceildiv"):
        left, right = (_rough_text(operand, names) for operand in atom.operands)
        return f"(({left}) / ({right}))"
    return f"(double){_atom_text(atom, names)}"


def dim_text(dim: Dim, names: Mapping[str, str]) -> str:
    """A dimension as a C expression over the driver's variables."""
    if not isinstance(dim, Expr):
        return _number_text(dim)
    if isinstance(names, Variables) and names.is_late(dim):
        return _checked_text(dim, names)
    terms = [_term_text(monomial, factor, names) for monomial, factor in dim.terms]
    return terms[0] if lone_atom(dim) is not None else "(" + " + ".join(terms) + ")"


def _checked_text(dim: Expr, names: Variables) -> str:
    """A dimension as C that finds out whether it overflows."""
    terms: list[str] = []
    for monomial, factor in dim.terms:
        known = _long_text(factor) if abs(factor) < 2**63 else _folded("sum", [names.words.most, "1"], names)
        parts = [known, *(_atom_text(atom, names) for atom in monomial)]
        terms.append(_folded("product", parts[1:] if factor == 1 and monomial else parts, names))
    return _folded("sum", terms, names)


def _folded(function: str, parts: Sequence[str], names: Variables) -> str:
    text = parts[0]
    for part in parts[1:]:
        text = f"{names.function(function)}({text}, {part}, {OVERFLOWS})"
    return text


def safe_text(dim: Dim, names: Mapping[str, str]) -> str:
    """A size in C that no overflow makes small: products that are too large become a size that cannot be had."""
    if not isinstance(dim, Expr):
        return dim_text(dim, names)
    terms: list[str] = []
    for monomial, factor in dim.terms:
        text = _long_text(factor)
        for atom in monomial:
            text = f"{_function('times', names)}({text}, {_atom_text(atom, names)})"
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
    return names.of(atom) if isinstance(names, Variables) else _call_text(atom, names)


def _call_text(call: DimFunction, names: Mapping[str, str], threads: str = THREADS) -> str:
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
            return f"{_function(call.function, names)}({', '.join(operands)})"
