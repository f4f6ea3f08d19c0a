"""Resampling along axes, as C text: tables of places and weights first, then one or two axes in one pass."""

from dataclasses import dataclass
from typing import Literal

Mode = Literal["nearest", "linear", "cubic"]

COORDINATES = {
    "half_pixel": "return (x + 0.5f) / scale - 0.5f;",
    "asymmetric": "return x / scale;",
    "align_corners": "return resized > 1 ? x * (size - 1) / (length - 1) : 0;",
    "pytorch_half_pixel": "return resized > 1 ? (x + 0.5f) / scale - 0.5f : 0;",
    "half_pixel_symmetric": """\
const volatile float moved = size / 2 * (1 - resized / (scale * size));
    return moved + ((x + 0.5f) / scale - 0.5f);""",
    "tf_crop_and_resize": """\
const volatile float begin = from * (size - 1), middle = 0.5f * (from + to) * (size - 1);
    const volatile float way = x * (to - from) * (size - 1) / (resized - 1);
    return resized > 1 ? begin + way : middle;""",
}
"""Where a resized element lies, in float32 without fused operations: the rounding decides at ties.

`length` is the resized size before it is rounded down."""

NEAREST_COORDINATES = {
    "half_pixel": "return IG_FUNCTION_back(x + 0.5, size, resized, scale) - 0.5;",
    "asymmetric": "return IG_FUNCTION_back(x, size, resized, scale);",
    "align_corners": "return resized > 1 ? x * (size - 1) / (length - 1) : 0;",
    "pytorch_half_pixel": "return resized > 1 ? IG_FUNCTION_back(x + 0.5, size, resized, scale) - 0.5 : 0;",
    "half_pixel_symmetric": """\
const volatile double moved = scale > 0 ? size / 2 * (1 - resized / (scale * size)) : 0;
    return moved + (IG_FUNCTION_back(x + 0.5, size, resized, scale) - 0.5);""",
    "tf_crop_and_resize": """\
const volatile double begin = from * (size - 1), middle = 0.5 * (from + to) * (size - 1);
    const volatile double way = x * (to - from) * (size - 1) / (resized - 1);
    return resized > 1 ? begin + way : middle;""",
}
"""The same in double precision for the nearest element: halves and whole numbers come out exactly of given sizes.

`scale` is 0 there."""

_ROUNDING = {
    "round_prefer_floor": "__builtin_ceil(place - 0.5)",
    "round_prefer_ceil": "__builtin_floor(place + 0.5)",
    "floor": "__builtin_floor(place)",
    "ceil": "__builtin_ceil(place)",
}

_KERNEL = {
    "linear": "const double t = distance, w = t < 1 ? 1 - t : 0;\n    return w;",
    "cubic": """\
const double a = cubic, t = distance;
    return t <= 1 ? ((a + 2) * t - (a + 3)) * t * t + 1 : t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;""",
}


@dataclass(frozen=True)
class Sampling:
    """How places become weights; `element` is the C type of weights, `excludes` renormalises those inside."""

    mode: Mode
    coordinates: str
    nearest: str = "floor"
    excludes: bool = False

    @property
    def crops(self) -> bool:
        """Whether a place outside of the input takes another value than its nearest."""
        return self.coordinates == "tf_crop_and_resize"


_CHECKED = """\
    (void)scratch;
    if (extent < 1) {
        *fault = 1;
        return;
    }"""


def table_marks(sampling: Sampling, element: str) -> dict[str, str]:
    """What the table's C leaves open."""
    test = "if (place < 0 || place > (double)(extent - 1)) {"
    outside = f"{test}\n            index[i * taps] = -1;\n            continue;\n        }}"
    return {
        "element": element,
        "checked": _CHECKED,
        "coordinate": (NEAREST_COORDINATES if sampling.mode == "nearest" else COORDINATES)[sampling.coordinates],
        "number": "double" if sampling.mode == "nearest" else "float",
        "is_rounded": "1" if sampling.crops else "scale > 0",
        "kernel": _KERNEL.get(sampling.mode, "(void)distance, (void)cubic;\n    return 1;"),
        "rounding": _ROUNDING[sampling.nearest],
        "outside": outside if sampling.crops else "",
        "excludes": "1" if sampling.excludes else "0",
    }


TABLE_HELPERS = """\
/* A length of the result as one of the input; without a scale by the ratio of the sizes, rounded once. */
static inline $number IG_FUNCTION_back($number x, $number size, $number resized, $number scale)
{
    return scale > 0 ? x / scale : x * size / resized;
}

static inline $number
IG_FUNCTION_place($number x, $number size, $number resized, $number length, $number scale, $number from, $number to)
{
    (void)size, (void)resized, (void)length, (void)scale, (void)from, (void)to, (void)IG_FUNCTION_back;
    $coordinate
}

static inline double IG_FUNCTION_weight(double distance, double cubic)
{
    (void)cubic;
    $kernel
}
"""

NEAREST_TABLE = """\
$checked
    const int64_t taps = 1;
    const double scale = parameter[0] > 0 ? parameter[0] : 0;
    const double length = parameter[5] > 0 ? (double)((float)extent * (float)parameter[0]) : (double)resized;
    (void)taps;
    for (int64_t i = begin * 256; i < end * 256 && i < resized; i++) {
        const double found = IG_FUNCTION_place((double)i, (double)extent, (double)resized, length, scale, parameter[1],
                                               parameter[2]);
        const double place = $is_rounded ? (double)(float)found : found;
        const double nearest = $rounding, last = (double)(extent - 1);
        $outside
        index[i] = (int32_t)(nearest < 0 ? 0 : nearest > last ? last : nearest);
    }
"""
"""A scale is a rounded number, and so is a region of interest: their places are rounded likewise."""

WEIGHT_TABLE = """\
$checked
    const float scale = parameter[0] > 0 ? (float)parameter[0] : (float)((double)resized / (double)extent);
    const float length = parameter[5] > 0 ? (float)extent * scale : (float)resized;
    const double stretch = parameter[4], cubic = parameter[3];
    for (int64_t i = begin * 256; i < end * 256 && i < resized; i++) {
        const float place =
            IG_FUNCTION_place((float)i, (float)extent, (float)resized, length, scale, (float)parameter[1],
                              (float)parameter[2]);
        const double first = __builtin_floor((double)place) - (double)(taps / 2 - 1);
        double total = 0;
        $outside
        for (int64_t k = 0; k < taps; k++) {
            const double at = first + (double)k, last = (double)(extent - 1);
            const int is_outside = at < 0 || at > last;
            const double weight = $excludes && is_outside
                                      ? 0 : IG_FUNCTION_weight(__builtin_fabs(at - (double)place) / stretch, cubic);
            total += weight;
            index[i * taps + k] = (int32_t)(at < 0 ? 0 : at > last ? last : at);
            weights[i * taps + k] = ($element)weight;
        }
        for (int64_t k = 0; k < taps; k++)
            weights[i * taps + k] = ($element)((double)weights[i * taps + k] / (total == 0 ? 1 : total));
    }
"""


def late_taps(mode: Mode, place: int) -> str:
    """C for the number of taps along an axis, from what LATE_NUMBERS finds; nothing is mixed where it is not finite."""
    reach = f"{2 if mode == 'cubic' else 1} * (double)numbers[{6 * place + 4}]"
    return f"{reach} < 0x1p40 ? 2 * (int64_t)__builtin_ceil({reach}) : 2"


LATE_NUMBERS = """\
    (void)begin, (void)end, (void)scratch, (void)size;
    const int64_t given[] = {$given}, policy = $policy;
    double common = 0;
    for (int64_t i = 0; i < $count && policy != 0; i++) {
        const double ratio = given[i] > 0 ? (double)($size) / (double)given[i] : 0;
        common = i == 0 || (policy == 1 ? ratio < common : ratio > common) ? ratio : common;
    }
    for (int64_t i = 0; i < $count; i++) {
        const float scale = $is_scaled ? $scale : (float)common;
        const volatile float length = (float)given[i] * scale;
        const double resized = $is_scaled ? __builtin_floor((double)length)
                                          : __builtin_floor(common * (double)given[i] + 0.5);
        const int is_computed = $is_scaled || policy != 0;
        if (is_computed ? !(resized >= 0 && resized < 0x1p62) || ($is_scaled && !(scale > 0)) : $size < 0) {
            *fault = 1;
            return;
        }
        wanted[i] = is_computed ? (int64_t)resized : $size;
        const double factor = is_computed ? (double)scale : given[i] > 0 ? (double)wanted[i] / (double)given[i] : 1;
        numbers[6 * i] = is_computed ? scale : 0;
        numbers[6 * i + 1] = $start;
        numbers[6 * i + 2] = $end;
        numbers[6 * i + 3] = $cubic;
        numbers[6 * i + 4] = $antialias && factor < 1 ? 1 / factor : 1;
        numbers[6 * i + 5] = $is_scaled;
    }
"""
"""Sizes and the numbers of the tables, from scales or sizes that are known only in the run."""

MIX_HELPERS = """\
/* out[j] = over taps: weight x row[j]. */
static inline __attribute__((always_inline)) void
IG_FUNCTION_mix_all(const $element *const *row, const $element *weight, const int64_t taps, int64_t count,
                    $element *out)
{
    int64_t j = 0;
    for (; j + IG_LANES <= count; j += IG_LANES) {
        ig_$kind sum = ig_load_$kind(row[0] + j) * ig_set_$kind(weight[0]);
        for (int64_t k = 1; k < taps; k++)
            sum += ig_load_$kind(row[k] + j) * ig_set_$kind(weight[k]);
        ig_store_$kind(out + j, sum);
    }
    if (j < count) {
        ig_$kind sum = ig_load_n_$kind(row[0] + j, count - j) * ig_set_$kind(weight[0]);
        for (int64_t k = 1; k < taps; k++)
            sum += ig_load_n_$kind(row[k] + j, count - j) * ig_set_$kind(weight[k]);
        ig_store_n_$kind(out + j, sum, count - j);
    }
}

/* The same; an element with weight 0 adds nothing, whatever it is. */
static inline __attribute__((always_inline)) void
IG_FUNCTION_mix(const $element *const *row, const $element *weight, const int64_t taps, int64_t count, $element *out)
{
    const $element *kept[$most];
    $element weights[$most];
    int64_t used = 0;
    kept[0] = row[0];
    weights[0] = 0;
    for (int64_t k = 0; k < taps; k++)
        if (weight[k] != 0) {
            kept[used] = row[k];
            weights[used++] = weight[k];
        }
    if (used == taps)
        IG_FUNCTION_mix_all(row, weight, taps, count, out);
    else
        IG_FUNCTION_mix_all(kept, weights, used > 0 ? used : 1, count, out);
}

static inline void IG_FUNCTION_fill($element *out, int64_t count, const $element *value)
{
    for (int64_t j = 0; j < count; j++)
        out[j] = value[j % $parts];
}
"""


def mix_body(has_rows: bool, has_columns: bool, crops: bool) -> str:
    """C that mixes rows of `in_b` x `inner` elements of x, then elements of such a row.

    Buffers: x, out, (index_a, weights_a), (index_b, weights_b), fill. A task is one row of the output.
    """
    lines = [_TASK]
    if has_rows:
        lines += [_CROPPED_ROW if crops else "", _ROWS]
    else:
        lines.append("        const $element *line = image + a * row_size;\n")
    lines += [_COLUMNS.replace("/*crop*/", _CROPPED_COLUMN if crops else "") if has_columns else _NO_COLUMNS, "    }\n"]
    target = "($element *)scratch" if has_columns else "out + task * inner * out_b"
    return "".join(lines).replace("/*target*/", target)


_TASK = """\
    const int64_t row_size = in_b * inner;
    (void)scratch, (void)out_b, (void)fill;
    for (int64_t task = begin; task < end; task++) {
        const int64_t a = task % out_a;
        const $element *image = x + task / out_a * in_a * row_size;
"""

_CROPPED_ROW = """\
        if (index_a[a * $taps_a] < 0) {
            IG_FUNCTION_fill(out + task * out_b * inner, out_b * inner, fill);
            continue;
        }
"""

_ROWS = """\
        const $element *rows[$taps_a] = {image};
        $element *line = /*target*/;
        for (int64_t k = 0; k < $taps_a; k++)
            rows[k] = image + index_a[a * $taps_a + k] * row_size;
        IG_FUNCTION_mix(rows, weights_a + a * $taps_a, $taps_a, row_size, line);
"""

_NO_COLUMNS = "        (void)line;\n"

_CROPPED_COLUMN = """\
            if (index_b[b * $taps_b] < 0) {
                IG_FUNCTION_fill(to, inner, fill);
                continue;
            }
"""

_COLUMNS = """\
        const $element *pixels[$taps_b] = {line};
        $element *to = out + task * out_b * inner;
        for (int64_t b = 0; b < out_b; b++, to += inner) {
            const int32_t *index = index_b + b * $taps_b;
            const $element *weight = weights_b + b * $taps_b;
/*crop*/            if (inner == 1) {
                $element sum = 0;
                for (int64_t k = 0; k < $taps_b; k++)
                    sum += line[index[k]] * weight[k];
                if (__builtin_expect(!(sum - sum == 0), 0)) { /* not finite, perhaps by elements of weight 0 */
                    sum = 0;
                    for (int64_t k = 0; k < $taps_b; k++)
                        sum += weight[k] == 0 ? 0 : line[index[k]] * weight[k];
                }
                *to = sum;
                continue;
            }
            for (int64_t k = 0; k < $taps_b; k++)
                pixels[k] = line + index[k] * inner;
            IG_FUNCTION_mix(pixels, weight, $taps_b, inner, to);
        }
"""

SPREAD_BODY = """\
    (void)scratch, (void)fill;
    for (int64_t task = begin; task < end; task++) {
        const int64_t a = task % out_a;
        const $element *const image = x + task / out_a * in_a * inner, *const weight = weights_a + a * taps_a;
        const int32_t *const index = index_a + a * taps_a;
        $element *const to = out + task * inner;
        if ($crops && index[0] < 0) {
            for (int64_t j = 0; j < inner; j++)
                to[j] = fill[j % $parts];
            continue;
        }
        if (inner == 1) {
            $element sum = 0;
            for (int64_t k = 0; k < taps_a; k++)
                sum += weight[k] == 0 ? 0 : image[index[k]] * weight[k];
            *to = sum;
        }
        for (int64_t j = 0; inner > 1 && j < inner; j += IG_LANES) {
            const int64_t left = inner - j < IG_LANES ? inner - j : IG_LANES;
            ig_$kind sum = ig_set_$kind(0);
            for (int64_t k = 0; k < taps_a; k++)
                if (weight[k] != 0)
                    sum += ig_load_n_$kind(image + index[k] * inner + j, left) * ig_set_$kind(weight[k]);
            ig_store_n_$kind(to + j, sum, left);
        }
    }
"""
"""One axis, with a number of taps that only the run tells. A task is one of the resized places."""

NEAREST_BODY = """\
    (void)scratch, (void)fill;
    for (int64_t task = begin; task < end; task++) {
        const int64_t a = task % out_a, from = index_a[a];
        $element *to = out + task * out_b * inner;
        if ($crops && from < 0) {
            for (int64_t j = 0; j < out_b * inner; j++)
                to[j] = *fill;
            continue;
        }
        if (task > begin && a > 0 && index_a[a - 1] == from) {
            __builtin_memcpy(to, to - out_b * inner, (uint64_t)(out_b * inner) * sizeof *to);
            continue;
        }
        const $element *line = x + (task / out_a * in_a + from) * in_b * inner;
        if (inner == 1 && !$crops) {
            for (int64_t b = 0; b < out_b; b++)
                to[b] = line[index_b[b]];
            continue;
        }
        for (int64_t b = 0; b < out_b; b++, to += inner) {
            if ($crops && index_b[b] < 0)
                for (int64_t j = 0; j < inner; j++)
                    to[j] = *fill;
            else
                __builtin_memcpy(to, line + index_b[b] * inner, (uint64_t)inner * sizeof *to);
        }
    }
"""


def tap_count(mode: Mode, stretch: float) -> int:
    """Elements that a resized one may be mixed from.

    >>> tap_count("linear", 1.0), tap_count("cubic", 1.0), tap_count("linear", 2.5)
    (2, 4, 6)
    """
    reach = (2 if mode == "cubic" else 1) * stretch
    return 2 * int(-(-reach // 1))
