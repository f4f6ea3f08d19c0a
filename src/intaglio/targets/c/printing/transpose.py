"""Blocked transposes: copies whose input is contiguous along another axis than their output.

The two contiguous axes are cut into tiles that stay in the first cache. Within a tile squares of lanes by lanes go
through registers, four at a time so that whole cache lines are read and written; single bytes, elements of 16 bytes,
and what is left at the edges, go one by one.
"""

from __future__ import annotations

from string import Template

from intaglio.ir.dim import Dim, floordiv, less, maximum, minimum, pieces, product, select
from intaglio.ir.graph import Value
from intaglio.kernels.kernel import Kernel, LibraryCall
from intaglio.kernels.plan import Call, Operand, Size
from intaglio.kernels.view import Loops, View, collapse
from intaglio.targets.c.printing.register import with_headers

SIDE = 64
"""Elements along each side of a tile, where both sides of the matrix are that long."""


def transpose_call(value: Value, view: View, target: View, vector_bytes: int) -> Call | None:
    """The call that copies a view into another of the same shape, or None where no transpose is needed for that."""
    loops = collapse(view.shape, [view, target])
    inner = _inner_loops(loops)
    if inner is None:
        return None
    along, across = inner
    outer = [loop for loop in range(loops.rank) if loop not in inner]
    columns, rows = loops.extents[along], loops.extents[across]
    tile_height, tile_width = _tile(columns), _tile(rows)
    row_tiles, column_tiles = pieces(rows, tile_height), pieces(columns, tile_width)
    sizes: list[tuple[str, Size]] = [
        ("columns", columns), ("rows", rows),
        ("in_step", loops.strides[0][along]), ("out_step", loops.strides[1][across]),
        ("tile_height", tile_height), ("tile_width", tile_width),
        ("row_tiles", row_tiles), ("column_tiles", column_tiles),
    ]  # fmt: skip
    for number, loop in enumerate(outer):
        sizes.append((f"extent{number}", loops.extents[loop]))
        sizes += [(f"in{number}", loops.strides[0][loop]), (f"out{number}", loops.strides[1][loop])]
    itemsize = value.dtype.itemsize
    return Call(
        Kernel(
            f"transpose{itemsize}",
            LibraryCall("transpose", (("itemsize", itemsize), ("outer", len(outer)), ("vector_bytes", vector_bytes))),
        ),
        [Operand(view.buffer, view.offset), Operand(target.buffer, target.offset, True)],
        sizes,
        product(loops.extents[loop] for loop in outer) * column_tiles * row_tiles,
        1 + floordiv(minimum(rows, tile_height) * minimum(columns, tile_width), 3),
        title=f"transposed copy of {value.name}",
        flops=product(view.shape),
    )


def _inner_loops(loops: Loops) -> tuple[int, int] | None:
    """The loop along which the output is contiguous, and that along which the input is, where they differ."""
    along = loops.rank - 1
    if along < 1 or loops.strides[1][along] != 1 or loops.strides[0][along] in (0, 1, -1):
        return None
    across = [loop for loop in range(along) if loops.strides[0][loop] == 1 and loops.strides[1][loop] != 0]
    return (along, across[-1]) if across else None


def _tile(other: Dim) -> Dim:
    """One side of a tile: longer where the other side of the matrix is short, so that a tile is worth its overhead."""
    return select(less(other, SIDE), floordiv(SIDE * SIDE, maximum(other, 1) * SIDE) * SIDE, SIDE)


def transpose_source(itemsize: int, outer: int, vector_bytes: int) -> str:
    """The C for elements of so many bytes, with so many loops around the two that change places."""
    names = ["columns", "rows", "in_step", "out_step", "tile_height", "tile_width", "row_tiles", "column_tiles"]
    names += [f"{name}{number}" for number in range(outer) for name in ("extent", "in", "out")]
    decode: list[str] = []
    for number in reversed(range(outer)):
        decode.append(f"        x += rest % extent{number} * in{number};")
        decode.append(f"        y += rest % extent{number} * out{number};")
        decode.append(f"        rest /= extent{number};")
    lanes = {1: 0, 2: 8, 16: 0}.get(itemsize, vector_bytes // itemsize)
    source = Template(_KERNEL).substitute(
        sizes=", ".join(names),
        declarations="\n".join(f"    const int64_t {name} = size[{index}];" for index, name in enumerate(names)),
        element=f"uint{8 * itemsize}_t",
        decode="\n".join(decode),
        square=_square(lanes, itemsize) if lanes else "",
        blocks=_BLOCKS.replace("LANES", str(lanes)) if lanes else "",
    )
    return with_headers(source)


_KERNEL = """\
static inline void IG_FUNCTION_edge(const $element *x, int64_t in_step, $element *y, int64_t out_step, int64_t height,
                                    int64_t width)
{
    if (width < height) {
        for (int64_t c = 0; c < width; c++)
            for (int64_t r = 0; r < height; r++)
                y[r * out_step + c] = x[r + c * in_step];
    } else {
        for (int64_t r = 0; r < height; r++)
            for (int64_t c = 0; c < width; c++)
                y[r * out_step + c] = x[r + c * in_step];
    }
}
$square/* transposed copy
   buffers: in, out; sizes: $sizes */
void IG_FUNCTION(void *const *buffer, const int64_t *size, int64_t begin, int64_t end, void *scratch)
{
$declarations
    for (int64_t task = begin; task < end; task++) {
        int64_t rest = task;
        const int64_t r0 = rest % row_tiles * tile_height;
        rest /= row_tiles;
        const int64_t c0 = rest % column_tiles * tile_width;
        rest /= column_tiles;
        const int64_t height = rows - r0 < tile_height ? rows - r0 : tile_height;
        const int64_t width = columns - c0 < tile_width ? columns - c0 : tile_width;
        const $element *x = buffer[0];
        $element *y = buffer[1];
$decode
        x += r0 + c0 * in_step;
        y += r0 * out_step + c0;
        int64_t c = 0;
$blocks
        IG_FUNCTION_edge(x + c * in_step, in_step, y + c, out_step, height, width - c);
    }
}
"""

_BLOCKS = """\
        for (; c + 2 * LANES <= width; c += 2 * LANES) {
            int64_t r = 0;
            for (; r + 2 * LANES <= height; r += 2 * LANES)
                for (int part = 0; part < 4; part++) {
                    const int64_t down = r + part / 2 * LANES, right = c + part % 2 * LANES;
                    IG_FUNCTION_square(x + down + right * in_step, in_step, y + down * out_step + right, out_step);
                }
            IG_FUNCTION_edge(x + r + c * in_step, in_step, y + r * out_step + c, out_step, height - r, 2 * LANES);
        }
        for (; c + LANES <= width; c += LANES) {
            int64_t r = 0;
            for (; r + LANES <= height; r += LANES)
                IG_FUNCTION_square(x + r + c * in_step, in_step, y + r * out_step + c, out_step);
            IG_FUNCTION_edge(x + r + c * in_step, in_step, y + r * out_step + c, out_step, height - r, LANES);
        }"""


def _square(lanes: int, itemsize: int) -> str:
    """C of a function that transposes a square of elements in registers."""
    lines = [
        f"typedef uint{8 * itemsize}_t IG_FUNCTION_vector",
        f"    __attribute__((vector_size({lanes * itemsize}), aligned({itemsize}), may_alias));",
        f"static inline void IG_FUNCTION_square(const uint{8 * itemsize}_t *x, int64_t in_step,",
        f"                                      uint{8 * itemsize}_t *y, int64_t out_step)",
        "{",
    ]
    names = [f"v{row}" for row in range(lanes)]
    for row, name in enumerate(names):
        lines.append(f"    const IG_FUNCTION_vector {name} = *(const IG_FUNCTION_vector *)(x + {row} * in_step);")
    unit = min(16 // itemsize, lanes)
    for low, high, picks in exchanges(lanes, unit):
        new = [f"w{len(lines)}_{end}" for end in (0, 1)]
        for name, pick in zip(new, picks, strict=True):
            text = f"__builtin_shufflevector({names[low]}, {names[high]}, {', '.join(map(str, pick))})"
            lines.append(f"    const IG_FUNCTION_vector {name} = {text};")
        names[low], names[high] = new
    for row, place in enumerate(final_rows(lanes, unit)):
        lines.append(f"    *(IG_FUNCTION_vector *)(y + {row} * out_step) = {names[place]};")
    return "\n".join([*lines, "}", ""])


Picks = tuple[list[int], list[int]]


def exchanges(lanes: int, unit: int) -> list[tuple[int, int, Picks]]:
    """Pairs of rows, and what each becomes: lanes picked from both, numbered as in the one row behind the other.

    Within each unit, which is what one instruction interleaves, rows are interleaved by ever longer pieces; then units
    change places. Afterwards row i of the transpose stands in the row that `final_rows` names.
    """
    rounds: list[tuple[int, int, Picks]] = []
    step = 1
    while step < unit:
        piece = [
            lane for at in range(0, unit // 2, step) for row in (0, lanes) for lane in range(row + at, row + at + step)
        ]
        low = [start + lane for start in range(0, lanes, unit) for lane in piece]
        picks = low, [lane + unit // 2 for lane in low]
        rounds += [(row, row + step, picks) for row in range(lanes) if not row & step]
        step *= 2
    while step < lanes:
        low = [lane if not lane & step else lanes + lane - step for lane in range(lanes)]
        rounds += [(row, row + step, (low, [lane + step for lane in low])) for row in range(lanes) if not row & step]
        step *= 2
    return rounds


def final_rows(lanes: int, unit: int) -> list[int]:
    """Where each row of the transpose stands after the exchanges: interleaving reverses the bits of its number."""
    bits = unit.bit_length() - 1
    reverse = [int(format(row, f"0{bits}b")[::-1], 2) if bits else 0 for row in range(unit)]
    return [start + row for start in range(0, lanes, unit) for row in reverse]
