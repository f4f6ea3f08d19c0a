"""The driver of a segment: C that computes sizes and calls the kernels in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from intaglio.ir.dim import Atom, Dim, Expr, Symbol, symbols
from intaglio.kernels.plan import Action, Call, Fill, Kernel, NativeStep, Operand, Size, SizeTerm
from intaglio.kernels.view import Buffer

FAULT = 16
"""A driver returns FAULT + i when action i met a value that its operator forbids."""


def segment_symbols(step: NativeStep) -> list[str]:
    """The symbols whose values the driver reads from `call->dim`, in order."""
    found: set[str] = set()
    for action in step.actions:
        for dim in _dims(action):
            found |= symbols(dim)
    return sorted(found)


def _dims(action: Action) -> list[Dim]:
    if isinstance(action, Fill):
        return [action.operand.offset, *action.items]
    sizes = [size for _, size in action.sizes] + [action.tasks, action.cost, action.scratch]
    found: list[Dim] = [operand.offset for operand in action.operands]
    for size in sizes:
        found += size.dims if isinstance(size, SizeTerm) else (size,)
    return found


def driver_source(step: NativeStep, kernels: Mapping[Kernel, int]) -> str:
    """The C text of a segment's driver; `kernels` gives each kernel's place in `call->kernel`."""
    names = {name: f"n{index}" for index, name in enumerate(segment_symbols(step))}
    lines = ["int32_t IG_FUNCTION(const ig_call *call)", "{"]
    for index, (name, variable) in enumerate(names.items()):
        lines.append(f"    const int64_t {variable} = call->dim[{index}]; /* {comment(name)} */")
        lines.append(f"    (void){variable};")
    for index, action in enumerate(step.actions):
        lines += _call_lines(action, index, names, kernels) if isinstance(action, Call) else _fill_lines(action, names)
    lines += ["    return 0;", "}", ""]
    return "\n".join([_HELPERS, *lines])


_HELPERS = """\
static inline int64_t IG_FUNCTION_floordiv(int64_t a, int64_t b)
{
    return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int64_t IG_FUNCTION_mod(int64_t a, int64_t b)
{
    return b == 0 ? 0 : a - b * IG_FUNCTION_floordiv(a, b);
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
"""


def _call_lines(call: Call, index: int, names: Mapping[str, str], kernels: Mapping[Kernel, int]) -> list[str]:
    pointers = [_pointer(operand, names) for operand in call.operands]
    lines = [f"    {{ /* {comment(call.title)} */"]
    if call.checks:
        lines.append("        int64_t fault = 0;")
        pointers.append("&fault")
    lines += [f"        const int64_t {name} = {_size_text(size, names)};" for name, size in call.sizes]
    lines.append(f"        void *const buffer[] = {{{', '.join(pointers)}}};")
    order = [name for name, _ in call.sizes] if call.order is None else call.order
    lines += [f"        (void){name};" for name, _ in call.sizes]
    lines.append(f"        const int64_t size[] = {{{', '.join(order) or '0'}}};")
    arguments = ", ".join(_size_text(size, names) for size in (call.tasks, call.cost, call.scratch))
    lines.append(f"        if (call->parallel(call, call->kernel[{kernels[call.kernel]}], buffer, size, {arguments}))")
    lines.append("            return 1;")
    if call.checks:
        lines += ["        if (fault)", f"            return {FAULT + index};"]
    return [*lines, "    }"]


def _fill_lines(fill: Fill, names: Mapping[str, str]) -> list[str]:
    element = {"bool": "uint8_t"}.get(fill.operand.buffer.dtype.name, f"{fill.operand.buffer.dtype.name}_t")
    lines = [
        f"    {{ /* {comment(fill.title)} */",
        f"        {element} *out = (void *){_pointer(fill.operand, names)};",
    ]
    lines += [f"        out[{i}] = ({element})({dim_text(item, names)});" for i, item in enumerate(fill.items)]
    return [*lines, "        (void)out;", "    }"]


def _pointer(operand: Operand, names: Mapping[str, str]) -> str:
    text = buffer_text(operand.buffer)
    if operand.offset == 0:
        return text
    bytes = dim_text(operand.offset * operand.buffer.dtype.itemsize, names)
    return f"(char *){text} + ({bytes})"


def buffer_text(buffer: Buffer) -> str:
    """Where a buffer lies, in C."""
    if buffer.kind == "arena":
        return f"(call->arena + call->offset[{buffer.index}])"
    return f"call->{buffer.kind}[{buffer.index}]"


def _size_text(size: Size, names: Mapping[str, str]) -> str:
    if isinstance(size, SizeTerm):
        return size.template.format(*(dim_text(dim, names) for dim in size.dims)) if size.dims else size.template
    return dim_text(size, names)


def dim_text(dim: Dim, names: Mapping[str, str]) -> str:
    """A dimension as a C expression over the driver's variables."""
    if not isinstance(dim, Expr):
        return f"{dim}" if abs(dim) < 2**31 else _long_text(dim)
    terms = [_term_text(monomial, factor, names) for monomial, factor in dim.terms]
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
    return f"IG_FUNCTION_{atom.function}({dim_text(atom.left, names)}, {dim_text(atom.right, names)})"


def comment(text: str) -> str:
    """Any text made safe for the inside of a C comment: one line of plain ASCII that cannot end it."""
    plain = "".join(c if " " <= c <= "~" and c not in "\\?" else "." for c in text)
    return plain.replace("*/", "* /").replace("/*", "/ *")[:200]
