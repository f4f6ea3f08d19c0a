"""The header and the source of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from intaglio.emit.c.driver import HEAP_GROW, STATUSES, ModelDriver
from intaglio.emit.c.flash import avr_prelude
from intaglio.emit.c.interface import Interface
from intaglio.emit.c.kernels import KernelTexts
from intaglio.emit.c.lowered import Lowered
from intaglio.emit.c.options import COptions
from intaglio.emit.c.tasks import RUN_TASKS, shared_tasks
from intaglio.emit.c.weights import Constant, CWeights, comment_text, definition
from intaglio.ir.dim import symbols
from intaglio.targets.c.size_text import helper_text
from intaglio.targets.plain.printing import wrapped

HEAP = """\
/* Memory for tensors whose sizes depend on data: pieces of one array, one behind the other. */
typedef struct heap_piece heap_piece;
struct heap_piece {
    heap_piece *next;
    int64_t bytes; /* of the piece, these lines included */
    int64_t is_used;
};
enum { HEAP_HEADER = 64 };

static heap_piece *heap_begin(unsigned char *memory, int64_t bytes)
{
    heap_piece *const first = (heap_piece *)(void *)memory;
    first->next = 0;
    first->bytes = bytes;
    first->is_used = 0;
    return first;
}

static void *heap_allocate(heap_piece *piece, int64_t bytes)
{
    if (bytes < 0 || bytes > INT64_MAX / 4)
        return 0;
    const int64_t needed = (bytes + 2 * HEAP_HEADER - 1) / HEAP_HEADER * HEAP_HEADER;
    for (; piece; piece = piece->next) {
        while (!piece->is_used && piece->next && !piece->next->is_used) {
            piece->bytes += piece->next->bytes;
            piece->next = piece->next->next;
        }
        if (piece->is_used || piece->bytes < needed)
            continue;
        if (piece->bytes - needed >= 2 * HEAP_HEADER) {
            heap_piece *const rest = (heap_piece *)(void *)((unsigned char *)piece + needed);
            rest->next = piece->next;
            rest->bytes = piece->bytes - needed;
            rest->is_used = 0;
            piece->next = rest;
            piece->bytes = needed;
        }
        piece->is_used = 1;
        return (unsigned char *)piece + HEAP_HEADER;
    }
    return 0;
}

static void heap_release(void *memory)
{
    if (memory)
        ((heap_piece *)(void *)((unsigned char *)memory - HEAP_HEADER))->is_used = 0;
}
"""

GROW = """\
static void *heap_grow(heap_piece *heap, void *memory, int64_t used, int64_t needed)
{
    const heap_piece *const piece = (heap_piece *)(void *)((unsigned char *)memory - HEAP_HEADER);
    const int64_t had = memory ? piece->bytes - HEAP_HEADER : 0;
    if (memory && needed <= had)
        return memory;
    void *more = heap_allocate(heap, needed > 2 * had ? needed : 2 * had);
    if (!more)
        more = heap_allocate(heap, needed);
    if (more && used > 0)
        memcpy(more, memory, (size_t)used);
    if (more)
        heap_release(memory);
    return more;
}
"""

OUTPUT = """\
/* The caller's memory for an output, if there is room for its elements. */
static void *output_memory(void *memory, int64_t room, int64_t *told, int32_t rank, const int64_t *shape)
{
    int64_t count = 1;
    for (int32_t i = 0; i < rank; i++) {
        if (shape[i] < 0 || (shape[i] > 0 && count > INT64_MAX / shape[i]))
            return 0;
        count *= shape[i];
        told[i] = shape[i];
    }
    return count <= room ? memory : 0;
}
"""

_QUIET = ("unused-parameter", "unused-variable", "unused-but-set-variable", "unused-function", "psabi", "pragmas")


def header(lowered: Lowered, interface: Interface, options: COptions, weights: CWeights, weight_bytes: int) -> str:
    """`model.h`."""
    macro, prefix, memory = interface.macro, interface.prefix, lowered.memory
    lines = [f"/* {comment_text(lowered.graph.name)}: a model as C, written by Intaglio. */"]
    lines += [f"#ifndef {macro}_H", f"#define {macro}_H", "", "#include <stdbool.h>", "#include <stdint.h>", ""]
    lines += ["#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
    if memory.heap:
        known = "enough for this model" if memory.has_bounded_heap else "more where the status says that it is full"
        lines += [f"/* Bytes for tensors whose sizes depend on data: {known}. */", f"#ifndef {macro}_HEAP_BYTES"]
        lines += [f"#define {macro}_HEAP_BYTES {memory.heap}", "#endif", ""]
    if not symbols(memory.total):
        heap = f" + {macro}_HEAP_BYTES" if memory.heap else ""
        total = f"({memory.total}{heap})" if heap else str(memory.total)
        lines += [f"/* Bytes of memory that a run needs, aligned to {options.alignment}. */"]
        lines += [f"#define {macro}_ARENA_BYTES {total}", ""]
    if interface.takes_weights:
        lines += [f"/* Bytes of the file of weights, which is given aligned to {options.alignment}. */"]
        lines += [f"#define {macro}_WEIGHTS_BYTES {weight_bytes}", ""]
    lines += [*_macros(interface), *_statuses(interface), *_entry(lowered, interface)]
    lines += [f"/* What a status means. */\nconst char *{prefix}_error(int status);", ""]
    lines += ["#ifdef __cplusplus", "}", "#endif", "", "#endif", ""]
    return "\n".join(lines)


def _macros(interface: Interface) -> list[str]:
    """How many numbers inputs and outputs have, where that is known."""
    lines: list[str] = []
    for port in interface.ports:
        if isinstance(port.count, int) and not port.is_late:
            lines.append(f"#define {interface.macro}_{port.name.upper()}_COUNT {port.count}")
    unique = list(dict.fromkeys(lines))
    names = [line.split()[1] for line in unique]
    kept = [line for line, name in zip(unique, names, strict=True) if names.count(name) == 1]
    return [*kept, ""] if kept else []


def _statuses(interface: Interface) -> list[str]:
    lines = ["/* What a run returns: 0, one of these, or more where a node met a value that it forbids. */", "enum {"]
    lines.append(f"    {interface.macro}_OK = 0,")
    lines += [f"    {interface.macro}_{name} = {status}, /* {text} */" for status, (name, text) in STATUSES.items()]
    return [*lines, "};", ""]


def _entry(lowered: Lowered, interface: Interface) -> list[str]:
    parameters = interface.parameters()
    lines = [
        "/* Runs the model." + (" Memory is shared by all runs: one at a time." if not interface.takes_arena else "")
    ]
    lines += [f"   {text}: {about}" for text, about in parameters]
    lines[-1] += " */"
    lines += wrapped(f"int {interface.prefix}_run({', '.join(text for text, _ in parameters) or 'void'});")
    if symbols(lowered.memory.total) or interface.takes_arena:
        sizes = ", ".join(f"int64_t {name}" for name in interface.sizes.values()) or "void"
        lines += ["", "/* Bytes of memory that a run needs for these sizes; below 0 for sizes that it refuses. */"]
        lines.append(f"int64_t {interface.prefix}_arena_bytes({sizes});")
    return [*lines, ""]


def source(
    lowered: Lowered,
    interface: Interface,
    options: COptions,
    constants: Mapping[int, Constant],
    defaults: Sequence[Constant],
    weights: CWeights,
) -> str:
    """`model.c`."""
    flash = {index for index, each in constants.items() if each.is_flash}
    texts = KernelTexts(lowered.plan, lowered.segment, not options.is_fast, flash, interface.flash)
    driver = ModelDriver(lowered, interface, options, constants, weights, texts)
    run = driver.text()
    size = _arena_bytes(driver, lowered, interface)
    parts = [_start(lowered, interface, options, texts, weights)]
    parts += helper_text(driver.words, driver.names.functions)
    parts += texts.texts()
    if lowered.memory.heap:
        parts += [HEAP, *([GROW] if HEAP_GROW in driver.used else [])]
    if any(port.is_late for port in interface.outputs):
        parts.append(OUTPUT)
    if options.threads > 1 and RUN_TASKS in driver.used:
        parts.append(shared_tasks(options.target, interface.prefix, options.threads))
    parts += [definition(each, "static ", options.alignment) for each in defaults]
    parts += [_memory(driver, options), run, size, _errors(driver, interface)]
    if options.program_memory:
        parts.insert(1, avr_prelude("\n".join(parts)))
    return "\n".join(part for part in parts if part)


def _start(lowered: Lowered, interface: Interface, options: COptions, texts: KernelTexts, weights: CWeights) -> str:
    lines = [f"/* {comment_text(lowered.graph.name)}: a model as C, written by Intaglio. */"]
    lines += [f'#include "{interface.prefix}.h"', ""]
    if options.is_fast:
        quiet = [f'#pragma GCC diagnostic ignored "-W{name}"' for name in _QUIET]
        lines += [
            "#ifdef __GNUC__",
            *quiet,
            "#endif",
            "#include <math.h>",
            "#include <stddef.h>",
            "#include <string.h>",
            "",
        ]
        lines += ["#ifndef IG_LANES", f"#define IG_LANES {options.machine.lanes}", "#endif"]
        defined = [flag.removeprefix("-D") for flag in options.machine.flags if flag.startswith("-D")]
        lines += [line for name in defined for line in (f"#ifndef {name}", f"#define {name} 1", "#endif")]
        lines += [f'#include "{name}"' for name in ("ig.h", "ig_math.h", "ig_loop.h", *texts.headers())]
    else:
        lines += ["#include <math.h>", "#include <stddef.h>", "#include <string.h>"]
    if weights in ("c", "extern"):
        lines.append('#include "weights.h"')
    elif not interface.takes_weights:
        lines.append(f"extern const unsigned char {interface.prefix}_weights[];")
    return "\n".join([*lines, ""])


def _memory(driver: ModelDriver, options: COptions) -> str:
    interface, memory = driver.interface, driver.memory_plan
    is_empty = not symbols(memory.total) and memory.total == 0 and not memory.heap
    if interface.takes_arena or (is_empty and not driver.locals):
        return ""
    bytes = "1" if is_empty else f"{interface.macro}_ARENA_BYTES"  # a place for tensors without elements
    return f"static _Alignas({options.alignment}) unsigned char {interface.prefix}_arena[{bytes}];\n"


def _arena_bytes(driver: ModelDriver, lowered: Lowered, interface: Interface) -> str:
    if not (symbols(lowered.memory.total) or interface.takes_arena):
        return ""
    sizes = ", ".join(f"int64_t {name}" for name in interface.sizes.values()) or "void"
    heap = f" + {interface.macro}_HEAP_BYTES" if lowered.memory.heap else ""
    lines = [f"int64_t {interface.prefix}_arena_bytes({sizes})", "{"]
    lines += [f"    (void){name};" for name in interface.sizes.values()]
    lines += [f"    {line}" for line in driver.size_lines(lowered.memory.total, "total")]
    return "\n".join([*lines, f"    return total{heap};", "}", ""])


def _errors(driver: ModelDriver, interface: Interface) -> str:
    lines = [f"const char *{interface.prefix}_error(int status)", "{", "    switch (status) {", "    case 0:"]
    lines.append('        return "done";')
    for status, (_, text) in STATUSES.items():
        lines += [f"    case {status}:", f'        return "{text}";']
    for status, text in driver.faults():
        safe = comment_text(text).replace("%", "?")
        lines += [f"    case {status}:", f'        return "{safe}";']
    return "\n".join([*lines, "    default:", '        return "no status of this model";', "    }", "}", ""])
