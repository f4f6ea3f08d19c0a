"""Sums of products of bytes: how a processor forms them, weights packed for that, and a tile of sums in registers."""

from dataclasses import dataclass
from math import prod
from string import Template
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from intaglio.targets.c.structured.source import VectorTarget

Byte = Literal["uint8", "int8"]

HEADER_ROWS = 2
"""Rows of int32 in front of each panel: what the left zero point is multiplied by, and the zero points of columns."""


class IntegerTarget(VectorTarget, Protocol):
    """The part of a target description that integer kernels depend on."""

    @property
    def features(self) -> frozenset[str]:
        """Extensions beyond the baseline, as /proc/cpuinfo spells them."""
        ...


@dataclass(frozen=True)
class IntegerTile:
    """Rows by columns of int32 sums in registers.

    With `quads`, one instruction multiplies four unsigned by four signed bytes and adds them to a sum; one operand of
    the two is kept with its sign flipped where it has the wrong one. Otherwise the left operand is widened to 16 bits
    with its zero point taken off, and pairs are multiplied. Both are exact: no partial sum is limited to 16 bits.
    """

    left: Byte
    quads: bool
    lanes: int
    rows: int
    vectors: int = 2
    matrices: bool = False
    """Whether the processor has registers of 16 rows by 64 bytes and multiplies them."""

    @property
    def block_rows(self) -> int:
        """The most rows whose sums are kept at once."""
        return max(self.rows, 32) if self.matrices else self.rows

    @property
    def group(self) -> int:
        """Neighbours along the depth that one instruction multiplies."""
        return 4 if self.quads else 2

    @property
    def columns(self) -> int:
        """Columns of a panel of packed weights."""
        return self.lanes * self.vectors

    @property
    def stored_signed(self) -> bool:
        """Whether packed weights are signed bytes."""
        return not self.quads or self.left == "uint8"

    @property
    def left_type(self) -> str:
        """The C type of the left operand as the tile reads it."""
        return f"{self.left}_t" if self.quads else "int16_t"

    @property
    def left_bytes(self) -> int:
        """Bytes of one element of the left operand as the tile reads it."""
        return 1 if self.quads else 2

    @property
    def header(self) -> int:
        """Bytes in front of each panel."""
        return 4 * HEADER_ROWS * self.columns

    @property
    def names(self) -> dict[str, object]:
        """What templates of kernels call the parts of the tile."""
        return {
            "raw": f"{self.left}_t",
            "type": self.left_type,
            "columns": self.columns,
            "group": self.group,
            "header": self.header,
        }


def integer_tile(target: IntegerTarget, left: Byte = "uint8") -> IntegerTile:
    """The tile for a left operand of that type on a target."""
    quads = bool(target.features & {"avx512_vnni", "avx_vnni"})
    rows = 6 if target.vector_registers < 32 else 14 if quads else 12
    matrices = "amx_int8" in target.features and target.vector_bytes == 64 and quads
    return IntegerTile(left, quads, target.vector_bytes // 4, rows, matrices=matrices)


def panel_bytes(tile: IntegerTile, depth: Any) -> Any:
    """Bytes of one packed panel of that depth, a number or a dimension."""
    return (depth + tile.group - 1) // tile.group * (tile.group * tile.columns) + tile.header


def has_shift(tile: IntegerTile, right: Byte) -> bool:
    """Whether packing weights of this type flips their sign, which is a zero point of its own."""
    return tile.stored_signed != (right == "int8")


def pack_integer(array: npt.NDArray[Any], zero: Any, tile: IntegerTile) -> npt.NDArray[np.uint8]:
    """A matrix (K, N) of bytes with a zero point for all or each column, as panels with their headers."""
    depth, width = array.shape
    is_flipped = has_shift(tile, "int8" if array.dtype == np.int8 else "uint8")
    shift = 0 if not is_flipped else -128 if tile.stored_signed else 128
    groups, panels = -(-depth // tile.group), -(-width // tile.columns)
    stored = np.zeros((groups * tile.group, panels * tile.columns), np.int16)
    stored[:depth, :width] = array.astype(np.int16) + shift
    zeros = np.zeros(panels * tile.columns, np.int32)
    zeros[:width] = np.asarray(zero).astype(np.int32) + shift
    sums = stored.sum(0, dtype=np.int64) - depth * zeros.astype(np.int64)
    header = np.stack([sums.astype(np.int32), zeros]).reshape(HEADER_ROWS, panels, tile.columns).swapaxes(0, 1)
    blocks = stored.reshape(groups, tile.group, panels, tile.columns).transpose(2, 0, 3, 1).astype(np.uint8)
    rows = (np.ascontiguousarray(header).view(np.uint8), blocks)
    parts = [each.reshape(panels, prod(each.shape[1:])) for each in rows]
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


def integer_tile_source(tile: IntegerTile, *, has_zero: bool, row_zero: bool) -> str:
    """C of the tile's sums, of the row sums that zero points of the weights need, and of the way to the epilogue.

    `has_zero`: some packed column may have a zero point; `row_zero`: each row of the left operand has its own.
    """
    first, second = ("value", "weight") if tile.left == "uint8" else ("weight", "value")
    names = tile.names | {
        "lanes": tile.lanes,
        "vectors": tile.vectors,
        "rows": tile.rows,
        "unsigned": first,
        "signed": second,
        "one": "0x01010101" if tile.quads else "0x00010001",
        "per_vector": tile.lanes * tile.group,
        "cases": _cases(tile),
    }
    finish = _FINISH.substitute(
        names,
        zero_of_row="zero_point[r * zero_step]" if row_zero else "zero_point[0]",
        zero_type=f"{tile.left}_t",
        takes_zero="1" if tile.quads else "0",
        takes_sums="1" if has_zero else "0",
    )
    matrices = _MATRICES.substitute(names, product="tdpbusd" if tile.left == "uint8" else "tdpbsud")
    finish = (matrices if tile.matrices else _NO_MATRICES.substitute(names)) + finish
    dot = _QUADS.substitute(names) if tile.quads else pair_source() + _PAIR_OPERANDS.substitute(names)
    return dot + _SUM.substitute(names) + finish


def pair_source() -> str:
    """C of `IG_FUNCTION_dot`, which multiplies pairs of 16-bit numbers and adds them to sums."""
    return _PAIRS.substitute()


def _cases(tile: IntegerTile) -> str:
    """A case for each row count that has code of its own: few rows have several sums a column, to hide the latency."""
    lines: list[str] = []
    for rows in sorted({1, 2, 3, 4, 5, 6, tile.rows}):
        unroll = 4 if rows == 1 else 2 if rows == 2 or (rows <= 6 and tile.rows > 6) else 1
        lines.append(f"    case {rows}: IG_FUNCTION_sum({rows}, {unroll}, a, a_step, b, depth, sum, is_first); break;")
    return "\n".join(lines)


_QUADS = Template("""\
/* sum + four products of bytes in each lane. */
static inline __attribute__((always_inline)) ig_u32 IG_FUNCTION_dot(ig_u32 sum, ig_u32 value, ig_u32 weight)
{
#if IG_LANES == 16
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"($unsigned), "v"($signed));
#else
    __asm__("{vex} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"($unsigned), "x"($signed));
#endif
    return sum;
}

static inline __attribute__((always_inline)) ig_u32 IG_FUNCTION_weights(const uint8_t *b)
{
    return ig_load_u32(b);
}

/* $group neighbours of the left operand, in every lane. */
static inline __attribute__((always_inline)) ig_u32 IG_FUNCTION_value(const $type *a)
{
    uint32_t bits;
    __builtin_memcpy(&bits, a, sizeof bits);
    return ig_set_u32(bits);
}
""")

_PAIRS = Template("""\
typedef int16_t IG_FUNCTION_words __attribute__((vector_size(4 * IG_LANES)));

/* sum + two products of 16-bit numbers in each lane; the numbers are small enough that the products do not wrap. */
static inline __attribute__((always_inline)) ig_u32 IG_FUNCTION_dot(ig_u32 sum, ig_u32 value, ig_u32 weight)
{
#if !defined(IG_PORTABLE) && defined(__AVX512BW__) && IG_LANES == 16
    ig_u32 products;
    __asm__("vpmaddwd %2, %1, %0" : "=v"(products) : "v"(value), "v"(weight));
    return sum + products;
#elif !defined(IG_PORTABLE) && defined(__AVX2__) && IG_LANES == 8
    return sum + (ig_u32)__builtin_ia32_pmaddwd256((IG_FUNCTION_words)value, (IG_FUNCTION_words)weight);
#elif !defined(IG_PORTABLE) && defined(__SSE2__) && IG_LANES == 4
    return sum + (ig_u32)__builtin_ia32_pmaddwd128((IG_FUNCTION_words)value, (IG_FUNCTION_words)weight);
#else
    const ig_i32 low = ((ig_i32)(value << 16) >> 16) * ((ig_i32)(weight << 16) >> 16);
    return sum + (ig_u32)low + (ig_u32)(((ig_i32)value >> 16) * ((ig_i32)weight >> 16));
#endif
}

""")

_PAIR_OPERANDS = Template("""\

typedef int8_t IG_FUNCTION_bytes __attribute__((vector_size(2 * IG_LANES)));

static inline __attribute__((always_inline)) ig_u32 IG_FUNCTION_weights(const uint8_t *b)
{
    IG_FUNCTION_bytes bytes;
    __builtin_memcpy(&bytes, b, sizeof bytes);
    return (ig_u32)__builtin_convertvector(bytes, IG_FUNCTION_words);
}

/* $group neighbours of the left operand, in every lane. */
static inline __attribute__((always_inline)) ig_u32 IG_FUNCTION_value(const $type *a)
{
    uint32_t bits;
    __builtin_memcpy(&bits, a, sizeof bits);
    return ig_set_u32(bits);
}

/* A row of bytes as 16-bit numbers less their zero point, filled with zeros to whole groups. */
static inline void IG_FUNCTION_widen(const $raw *from, int64_t depth, int32_t zero, int16_t *to)
{
    int64_t k = 0;
    for (; k + $lanes <= depth; k += $lanes) {
        $raw raw __attribute__((vector_size($lanes)));
        __builtin_memcpy(&raw, from + k, sizeof raw);
        typedef int16_t narrow __attribute__((vector_size(2 * $lanes)));
        const narrow words = __builtin_convertvector(raw, narrow) - (int16_t)zero;
        __builtin_memcpy(to + k, &words, sizeof words);
    }
    for (; k < depth; k++)
        to[k] = (int16_t)(from[k] - zero);
    for (; k % $group; k++)
        to[k] = 0;
}
""")

_SUM = Template("""\

/* The last depth % $group neighbours of the left operand. */
static inline ig_u32 IG_FUNCTION_tail(const $type *a, int64_t count)
{
    $type some[$group] = {0};
    for (int64_t k = 0; k < count; k++)
        some[k] = a[k];
    return IG_FUNCTION_value(some);
}

/* sum[r][c] (+)= row r of the left operand x column c of a panel. */
static inline __attribute__((always_inline)) void
IG_FUNCTION_sum(const int rows, const int unroll, const $type *a, int64_t a_step, const uint8_t *b, int64_t depth,
                uint32_t *sum, int is_first)
{
    enum { STEP = $group * $columns };
    ig_u32 c[$rows][$vectors];
    IG_UNROLL for (int r = 0; r < rows * unroll; r++)
        IG_UNROLL for (int v = 0; v < $vectors; v++)
            c[r][v] = (ig_u32){0};
    const int64_t groups = depth / $group;
    int64_t k = 0;
    for (; k + unroll <= groups; k += unroll)
        IG_UNROLL for (int u = 0; u < unroll; u++, b += STEP) {
            ig_u32 weight[$vectors];
            IG_UNROLL for (int v = 0; v < $vectors; v++) {
                weight[v] = IG_FUNCTION_weights(b + v * $lanes * $group);
                __builtin_prefetch(b + 16 * STEP + v * $lanes * $group);
            }
            IG_UNROLL for (int r = 0; r < rows; r++) {
                const ig_u32 value = IG_FUNCTION_value(a + r * a_step + (k + u) * $group);
                IG_UNROLL for (int v = 0; v < $vectors; v++)
                    c[u * rows + r][v] = IG_FUNCTION_dot(c[u * rows + r][v], value, weight[v]);
            }
        }
    for (int64_t left; k * $group < depth; k++, b += STEP) {
        left = depth - k * $group;
        IG_UNROLL for (int r = 0; r < rows; r++) {
            const $type *x = a + r * a_step + k * $group;
            const ig_u32 value = left < $group ? IG_FUNCTION_tail(x, left) : IG_FUNCTION_value(x);
            IG_UNROLL for (int v = 0; v < $vectors; v++)
                c[r][v] = IG_FUNCTION_dot(c[r][v], value, IG_FUNCTION_weights(b + v * $lanes * $group));
        }
    }
    IG_UNROLL for (int r = 0; r < rows; r++)
        IG_UNROLL for (int v = 0; v < $vectors; v++) {
            ig_u32 total = is_first ? c[r][v] : c[r][v] + ig_load_u32(sum + r * $columns + v * $lanes);
            IG_UNROLL for (int u = 1; u < unroll; u++)
                total += c[u * rows + r][v];
            ig_store_u32(sum + r * $columns + v * $lanes, total);
        }
}

static __attribute__((noinline)) void
IG_FUNCTION_tile(int64_t rows, const $type *a, int64_t a_step, const uint8_t *b, int64_t depth, uint32_t *sum,
                 int is_first)
{
    switch (rows) {
$cases
    default: {
        const int64_t half = rows / 2;
        IG_FUNCTION_tile(half, a, a_step, b, depth, sum, is_first);
        IG_FUNCTION_tile(rows - half, a + half * a_step, a_step, b, depth, sum + half * $columns, is_first);
    }
    }
}

/* The sum of a row of the left operand as the tile reads it. */
static inline uint32_t IG_FUNCTION_row_sum(const $type *a, int64_t depth)
{
    ig_u32 lanes = {0};
    int64_t k = 0;
    for (; k + $per_vector <= depth; k += $per_vector) {
        const ig_u32 value = ig_load_u32(a + k), weight = ig_set_u32($one);
        lanes = IG_FUNCTION_dot(lanes, value, weight);
    }
    uint32_t total = 0;
    for (int l = 0; l < $lanes; l++)
        total += lanes[l];
    for (; k < depth; k++)
        total += (uint32_t)a[k];
    return total;
}
""")

_NO_MATRICES = Template("""\

static inline int64_t IG_FUNCTION_matrices(int64_t rows, const $type *a, int64_t a_step, const uint8_t *b,
                                           int64_t depth, uint32_t *sum)
{
    (void)rows, (void)a, (void)a_step, (void)b, (void)depth, (void)sum;
    return 0;
}

static inline void IG_FUNCTION_begin(void) {}
static inline void IG_FUNCTION_end(void) {}
""")

_MATRICES = Template("""\

/* Whether this process may use the matrix registers: 1 yes, -1 no, 0 not asked yet. The kernel of the system gives them
   to a whole process, once, when it asks. */
static int IG_FUNCTION_allowed;

static inline void IG_FUNCTION_begin(void)
{
    int allowed = __atomic_load_n(&IG_FUNCTION_allowed, __ATOMIC_RELAXED);
    if (!allowed) {
        int64_t result;
        __asm__ volatile("syscall" : "=a"(result) : "a"(158LL), "D"(0x1023LL), "S"(18LL) : "rcx", "r11", "memory");
        allowed = result == 0 ? 1 : -1;
        __atomic_store_n(&IG_FUNCTION_allowed, allowed, __ATOMIC_RELAXED);
    }
    if (allowed < 0)
        return;
    /* palette 1; eight registers of 16 rows by 64 bytes */
    static const struct { uint8_t palette, start, zero[14]; uint16_t bytes[16]; uint8_t rows[16]; } shape = {
        1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    __asm__ volatile("ldtilecfg %0" : : "m"(shape));
}

static inline void IG_FUNCTION_end(void)
{
    if (__atomic_load_n(&IG_FUNCTION_allowed, __ATOMIC_RELAXED) > 0)
        __asm__ volatile("tilerelease");
}

/* 32 or 16 rows by one panel; the number of rows done, 0 where there are too few. */
static inline int64_t IG_FUNCTION_matrices(int64_t rows, const $type *a, int64_t a_step, const uint8_t *b,
                                           int64_t depth, uint32_t *sum)
{
    if (rows < 16 || depth < 64 || IG_FUNCTION_allowed < 0)
        return 0;
    const int64_t whole = depth / 64 * 64, b_step = $group * $columns, sum_step = 4 * $columns;
    const int64_t count = rows < 32 ? 16 : 32;
    const uint8_t *w = b;
    if (count == 32) {
        __asm__ volatile("tilezero %%tmm0; tilezero %%tmm1; tilezero %%tmm2; tilezero %%tmm3" ::: "memory");
        for (int64_t k = 0; k < whole; k += 64, w += 16 * b_step) {
            IG_UNROLL for (int line = 0; line < 32; line++)
                __builtin_prefetch(w + 32 * b_step + 64 * line);
            __asm__ volatile("tileloadd (%2, %3, 1), %%tmm6; "
                             "tileloadd (%0, %4, 1), %%tmm4; "
                             "tileloadd 64(%2, %3, 1), %%tmm7; "
                             "$product %%tmm6, %%tmm4, %%tmm0; "
                             "tileloadd (%1, %4, 1), %%tmm5; "
                             "$product %%tmm7, %%tmm4, %%tmm1; "
                             "$product %%tmm6, %%tmm5, %%tmm2; "
                             "$product %%tmm7, %%tmm5, %%tmm3"
                             : : "r"(a + k), "r"(a + 16 * a_step + k), "r"(w), "r"(b_step), "r"(a_step) : "memory");
        }
        __asm__ volatile("tilestored %%tmm0, (%0, %2, 1); tilestored %%tmm1, 64(%0, %2, 1); "
                         "tilestored %%tmm2, (%1, %2, 1); tilestored %%tmm3, 64(%1, %2, 1)"
                         : : "r"(sum), "r"(sum + 16 * $columns), "r"(sum_step) : "memory");
    } else {
        __asm__ volatile("tilezero %%tmm0; tilezero %%tmm1" ::: "memory");
        for (int64_t k = 0; k < whole; k += 64, w += 16 * b_step)
            __asm__ volatile("tileloadd (%1, %2, 1), %%tmm6; "
                             "tileloadd (%0, %3, 1), %%tmm4; "
                             "tileloadd 64(%1, %2, 1), %%tmm7; "
                             "$product %%tmm6, %%tmm4, %%tmm0; "
                             "$product %%tmm7, %%tmm4, %%tmm1"
                             : : "r"(a + k), "r"(w), "r"(b_step), "r"(a_step) : "memory");
        __asm__ volatile("tilestored %%tmm0, (%0, %1, 1); tilestored %%tmm1, 64(%0, %1, 1)"
                         : : "r"(sum), "r"(sum_step) : "memory");
    }
    if (whole < depth)
        IG_FUNCTION_tile(count, a + whole, a_step, w, depth - whole, sum, 0);
    return count;
}
""")

_FINISH = Template("""\

/* `rows` rows by one panel: sums, less what the zero points add, to the epilogue. `row_sum` is of these rows. */
static inline void
IG_FUNCTION_panel(void *const *buffer, const int64_t *size, const $type *a, int64_t a_step, const uint8_t *panel,
                  int64_t rows, int64_t depth, const $zero_type *zero_point, int64_t zero_step,
                  const uint32_t *row_sum, int64_t row, int64_t col, int64_t columns, uint32_t *sum)
{
    for (int64_t first = 0, count; first < rows; first += count) {
        const int64_t left = rows - first;
        count = IG_FUNCTION_matrices(left, a + first * a_step, a_step, panel + $header, depth, sum);
        if (!count) {
            count = left <= $rows ? left : left >= $rows + 4 ? $rows : (left + 1) / 2;
            IG_FUNCTION_tile(count, a + first * a_step, a_step, panel + $header, depth, sum, 1);
        }
        for (int64_t at = 0; at < count; at++) {
            const int64_t r = first + at;
            const uint32_t zero = $takes_zero ? (uint32_t)$zero_of_row : 0;
            for (int64_t c = 0; c < columns; c += $lanes) {
                ig_u32 total = ig_load_u32(sum + at * $columns + c);
                if ($takes_zero)
                    total -= zero * ig_load_u32(panel + c * 4);
                if ($takes_sums)
                    total -= row_sum[r] * ig_load_u32(panel + ($columns + c) * 4);
                if (c + $lanes <= columns)
                    ig_epilogue(buffer, size, row + r, col + c, (ig_i32)total);
                else
                    ig_epilogue_n(buffer, size, row + r, col + c, (ig_i32)total, columns - c);
            }
        }
    }
    (void)row_sum, (void)zero_point, (void)zero_step;
}
""")
