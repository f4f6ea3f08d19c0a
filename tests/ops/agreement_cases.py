"""Strategies that generate one-node models: what `test_agreement` asks our engine and its judges.

A case is valid by ONNX's text and defined by it: no division of integers by zero, no float out of range of the integer
it is cast to, no index out of range. What ONNX leaves open is decided and tested by the page on semantics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st
from onnx import helper

FLOATS = ("float32", "float64", "float16", "bfloat16")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTEGERS
ANY = (*NUMBERS, "bool")
SIZES = (2, 3, 1, 5, 0)


@dataclass(frozen=True)
class Case:
    """One node and what is fed to it; None is an input left out."""

    operator: str
    inputs: list[Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    rtol: float = 0.0

    def __repr__(self) -> str:
        inputs = ", ".join("None" if a is None else f"{a.dtype}{list(a.shape)} {a.tolist()}" for a in self.inputs)
        return f"{self.operator}({inputs}; {self.attributes})"


class Chooser:
    """The choices of one case."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw
        self.random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def of(self, options: Sequence[Any]) -> Any:
        """One of the options, the first being the simplest."""
        return self.draw(st.sampled_from(options))

    def integer(self, low: int, high: int) -> int:
        """A number from low to high, both counted."""
        return self.draw(st.integers(low, high))

    def flag(self) -> int:
        """0 or 1."""
        return self.integer(0, 1)

    def shape(self, low: int = 0, high: int = 3, sizes: Sequence[int] = SIZES) -> tuple[int, ...]:
        """A shape with a rank from low to high."""
        return tuple(self.of(sizes) for _ in range(self.integer(low, high)))

    def axis(self, rank: int) -> int:
        """An axis, from the front or from the end."""
        return self.integer(-rank, rank - 1) if rank else 0

    def axes(self, rank: int) -> list[int]:
        """Some axes, each at most once."""
        chosen = [axis for axis in range(rank) if self.flag()]
        return [axis - rank if self.flag() else axis for axis in chosen]

    def operands(self, shape: tuple[int, ...], count: int) -> list[tuple[int, ...]]:
        """Shapes that broadcast to one that is at most the given one."""
        cut = [self.integer(0, len(shape)) for _ in range(count - 1)]
        return [shape, *(tuple(self.of((size, 1)) for size in shape[start:]) for start in cut)]

    def array(self, dtype: str, shape: Sequence[int], special: bool = True, low: float = -4, high: float = 4) -> Any:
        """An array of small numbers; with `special` some elements are infinities, NaN, zeros or ends of the type."""
        kind = numpy_type(dtype)
        if dtype == "bool":
            return self.random.integers(0, 2, shape).astype(bool)
        if dtype in INTEGERS:
            least = 0 if dtype in UNSIGNED and low < 0 else int(low)
            values = self.random.integers(least, int(high) + 1, shape).astype(kind)
            ends: list[Any] = [np.iinfo(kind).min, np.iinfo(kind).max, 0]
        else:
            values = np.asarray(self.random.uniform(low, high, shape)).astype(kind)
            ends = [np.nan, np.inf, -np.inf, -0.0, 0.5, -2.5]
        if special and self.flag():
            chosen = np.array([ends[i] for i in self.random.integers(0, len(ends), values.size)], kind)
            values = np.where(self.random.random(shape) < 0.4, chosen.reshape(shape), values)
        return np.asarray(values, kind)


def numpy_type(name: str) -> np.dtype[Any]:
    """The NumPy type of an element type's name."""
    return np.dtype(getattr(ml_dtypes, name)) if name == "bfloat16" else np.dtype(name)


def number_of(name: str) -> int:
    """ONNX's number of an element type."""
    return helper.np_dtype_to_tensor_dtype(numpy_type(name))


def int64(values: Any) -> Any:
    """A list of integers as ONNX wants them."""
    return np.array(values, np.int64)


Maker = Callable[[Chooser, str], Case]
MAKERS: dict[str, Maker] = {}
"""How the cases of each operator are made."""


def cases(*operators: str) -> Callable[[Maker], Maker]:
    """Register how cases of operators are made."""

    def register(maker: Maker) -> Maker:
        MAKERS.update(dict.fromkeys(operators, maker))
        return maker

    return register


def case_strategy(operator: str) -> st.SearchStrategy[Case]:
    """Cases of one operator."""

    @st.composite
    def build(draw: Any) -> Case:
        return MAKERS[operator](Chooser(draw), operator)

    return build()


_UNARY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("Abs", "Sign"), NUMBERS),
    "Neg": FLOATS + SIGNED,
    "Relu": FLOATS + SIGNED,
    "Identity": ANY,
    "Not": ("bool",),
    "BitwiseNot": INTEGERS,
    "IsNaN": FLOATS,
    **dict.fromkeys(
        ("Ceil", "Floor", "Round", "Sqrt", "Exp", "Log", "Reciprocal", "Erf", "Sigmoid", "Sin", "Cos", "Tan", "Asin",
         "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atanh", "Softplus", "Softsign", "Mish",
         "HardSwish"),
        FLOATS,
    ),
}  # fmt: skip


@cases(*_UNARY)
def _unary(c: Chooser, operator: str) -> Case:
    dtype = c.of(_UNARY[operator])
    is_special = (operator, dtype) != ("Sign", "float16")  # ONNX Runtime makes NaN 0 there
    return Case(operator, [c.array(dtype, c.shape(), is_special)])


_PARAMETERS: dict[str, tuple[str, ...]] = {
    "LeakyRelu": ("alpha",), "Elu": ("alpha",), "Celu": ("alpha",), "ThresholdedRelu": ("alpha",),
    "Selu": ("alpha", "gamma"), "HardSigmoid": ("alpha", "beta"), "Shrink": ("lambd", "bias"),
}  # fmt: skip


@cases(*_PARAMETERS)
def _activation(c: Chooser, operator: str) -> Case:
    dtypes = ("float32",) if operator == "Celu" else FLOATS
    chosen = {name: c.of((0.25, 1.0, 1.5)) for name in _PARAMETERS[operator] if c.flag()}
    return Case(operator, [c.array(c.of(dtypes), c.shape())], chosen)


@cases("Gelu")
def _gelu(c: Chooser, operator: str) -> Case:
    return Case(operator, [c.array(c.of(FLOATS), c.shape())], {"approximate": c.of(("none", "tanh"))})


@cases("IsInf")
def _is_inf(c: Chooser, operator: str) -> Case:
    signs = {"detect_negative": c.flag(), "detect_positive": c.flag()}
    return Case(operator, [c.array(c.of(FLOATS), c.shape())], signs)


_BINARY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"), NUMBERS),
    "Equal": ANY,
    **dict.fromkeys(("And", "Or", "Xor"), ("bool",)),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), INTEGERS),
    "PRelu": FLOATS,
}


@cases(*_BINARY)
def _binary(c: Chooser, operator: str) -> Case:
    dtype, shapes = c.of(_BINARY[operator]), c.operands(c.shape(), 2)
    is_special = operator != "PRelu"  # the evaluator multiplies slopes that are infinite or NaN by zero
    return Case(operator, [c.array(dtype, shapes[0]), c.array(dtype, shapes[1], is_special)])


@cases("Div", "Mod")
def _division(c: Chooser, operator: str) -> Case:
    dtype = c.of(NUMBERS)
    flags = {} if operator == "Div" else {"fmod": 1 if dtype in FLOATS else c.flag()}
    is_special = not (flags.get("fmod") and dtype.endswith("int64"))  # ONNX Runtime computes these as doubles
    x, y = (c.array(dtype, shape, is_special) for shape in c.operands(c.shape(), 2))
    if dtype in INTEGERS:
        y = np.where((y == 0) | (y == np.array(-1).astype(y.dtype)), np.array(3, y.dtype), y)
    return Case(operator, [x, y], flags)


@cases("Pow")
def _power(c: Chooser, operator: str) -> Case:
    base, exponent = c.of(("float32", "float64", "int32", "int64")), c.of(("float32", "float64", "int32", "int64"))
    shapes = c.operands(c.shape(), 2)
    is_float = base in FLOATS
    data = c.array(base, shapes[0], is_float, -4 if is_float or exponent in INTEGERS else 0)
    return Case(operator, [data, c.array(exponent, shapes[1], False, 0)])


@cases("BitShift")
def _shift(c: Chooser, operator: str) -> Case:
    dtype, shapes = c.of(UNSIGNED), c.operands(c.shape(), 2)
    amount = c.array(dtype, shapes[1], False, 0, np.dtype(dtype).itemsize * 8 - 1)
    return Case(operator, [c.array(dtype, shapes[0]), amount], {"direction": c.of(("LEFT", "RIGHT"))})


@cases("Min", "Max", "Sum", "Mean")
def _variadic(c: Chooser, operator: str) -> Case:
    dtype = c.of(NUMBERS if operator in ("Min", "Max") else FLOATS)
    return Case(operator, [c.array(dtype, shape) for shape in c.operands(c.shape(), c.integer(1, 3))])


@cases("Where")
def _where(c: Chooser, operator: str) -> Case:
    dtype, shapes = c.of(ANY), c.operands(c.shape(), 3)
    return Case(operator, [c.array("bool", shapes[0]), c.array(dtype, shapes[1]), c.array(dtype, shapes[2])])


@cases("Clip")
def _clip(c: Chooser, operator: str) -> Case:
    dtype = c.of(NUMBERS)
    ends = [c.array(dtype, (), False, *limits) if c.flag() else None for limits in ((0, 1), (2, 3))]
    is_special = dtype in INTEGERS or not any(end is None for end in ends)  # a missing bound: see the semantics page
    return Case(operator, [c.array(dtype, c.shape(), is_special), *ends])


@cases("Cast")
def _cast(c: Chooser, operator: str) -> Case:
    given, wanted = c.of(ANY), c.of(ANY)
    is_safe = not (given in FLOATS and wanted in INTEGERS)
    data = c.array(given, c.shape(), is_safe, 0 if wanted in UNSIGNED else -100, 100)
    return Case(operator, [data], {"to": number_of(wanted)})


_REDUCTIONS = ("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceL1", "ReduceL2",
               "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")  # fmt: skip


@cases(*_REDUCTIONS)
def _reduction(c: Chooser, operator: str) -> Case:
    shape = c.shape(sizes=SIZES if operator in ("ReduceSum", "ReduceProd") else SIZES[:-1])
    axes = int64(c.axes(len(shape))) if c.flag() else None
    if axes is not None and 0 in shape:  # from the end, ONNX Runtime does not reduce sizes of 0
        axes = axes % len(shape)
    dtypes = ("float32", "float64", "float16") if operator == "ReduceLogSumExp" else (*FLOATS[:3], "int32", "int64")
    dtype = c.of(dtypes)
    is_special = dtype in FLOATS and operator not in (
        "ReduceMax",
        "ReduceMin",
        "ReduceLogSumExp",
    )  # ONNX Runtime may lose NaN
    data = c.array(dtype, shape, is_special, low=1 if operator == "ReduceLogSum" else -4)
    flags = {"keepdims": c.flag(), "noop_with_empty_axes": c.flag()}
    return Case(operator, [data, axes], flags, rtol=1e-2 if dtype == "float16" else 1e-5)


@cases("ArgMax", "ArgMin")
def _arg_extreme(c: Chooser, operator: str) -> Case:
    shape = c.shape(1, 3, SIZES[:-1])
    data = c.array(c.of(("float32", "float64", "int8", "uint8", "int32", "float16")), shape, special=False)
    return Case(
        operator, [np.round(data)], {"axis": c.axis(len(shape)), "keepdims": c.flag(), "select_last_index": c.flag()}
    )


@cases("CumSum")
def _running(c: Chooser, operator: str) -> Case:
    shape = c.shape(1)
    data = c.array(c.of(("float32", "float64", "int32", "int64")), shape)
    axis = np.array(c.axis(len(shape)), c.of((np.int64, np.int32)))
    return Case(operator, [data, axis], {"exclusive": c.flag(), "reverse": c.flag()})


@cases("TopK")
def _top(c: Chooser, operator: str) -> Case:
    shape = c.shape(1, 3, SIZES[:-1])
    axis = c.axis(len(shape))
    data = c.array(c.of(("float32", "float64", "int32", "int64", "int8")), shape, special=False)
    count = int64([c.integer(0, shape[axis])])
    return Case(operator, [np.round(data), count], {"axis": axis, "largest": c.flag(), "sorted": 1}, 2)


@cases("Transpose")
def _transpose(c: Chooser, operator: str) -> Case:
    shape = c.shape(0, 4)
    order = {"perm": [int(i) for i in c.random.permutation(len(shape))]} if c.flag() and shape else {}
    return Case(operator, [c.array(c.of(ANY), shape)], order)


@cases("Reshape")
def _reshape(c: Chooser, operator: str) -> Case:
    shape = c.shape(0, 4)
    cut, size = c.integer(0, len(shape)), int(np.prod(shape, dtype=np.int64))
    if not size:
        return Case(operator, [c.array(c.of(ANY), shape), int64(shape[::-1])], {"allowzero": 1})
    head = [0 if c.flag() else n for n in shape[:cut]]
    return Case(
        operator,
        [c.array(c.of(ANY), shape), int64([*head, *((-1,) if c.flag() else (size // int(np.prod(shape[:cut])), 1))])],
    )


@cases("Flatten")
def _flatten(c: Chooser, operator: str) -> Case:
    shape = c.shape()
    return Case(operator, [c.array(c.of(ANY), shape)], {"axis": c.integer(-len(shape), len(shape))})


@cases("Squeeze")
def _squeeze(c: Chooser, operator: str) -> Case:
    shape = c.shape(sizes=(1, 2, 0))
    ones = [axis for axis, size in enumerate(shape) if size == 1 and c.flag()]
    return Case(operator, [c.array(c.of(ANY), shape), int64(ones) if ones else None])


@cases("Unsqueeze")
def _unsqueeze(c: Chooser, operator: str) -> Case:
    shape, count = c.shape(), c.integer(1, 2)
    rank = len(shape) + count
    axes = c.random.choice(rank, count, replace=False)
    return Case(operator, [c.array(c.of(ANY), shape), int64([a - rank if c.flag() else a for a in axes])])


@cases("Concat")
def _concat(c: Chooser, operator: str) -> Case:
    shape, dtype = c.shape(1), c.of(ANY)
    axis = c.axis(len(shape))
    shapes = [
        (*shape[: axis % len(shape)], c.of(SIZES), *shape[axis % len(shape) + 1 :]) for _ in range(c.integer(1, 3))
    ]
    return Case(operator, [c.array(dtype, item) for item in shapes], {"axis": axis})


@cases("Split")
def _split(c: Chooser, operator: str) -> Case:
    shape = c.shape(1, 3, SIZES[:-1])
    axis, count = c.axis(len(shape)), c.integer(1, 3)
    ends = np.sort(c.random.integers(0, shape[axis] + 1, count - 1))
    parts = np.diff([0, *ends, shape[axis]])
    return Case(operator, [c.array(c.of(ANY), shape), int64(parts)], {"axis": axis}, count)


@cases("Slice")
def _slice(c: Chooser, operator: str) -> Case:
    shape = c.shape(1)
    axes = c.axes(len(shape)) or [0]
    starts, ends = ([c.integer(-7, 7) for _ in axes] for _ in range(2))
    steps = int64([c.of((1, 2, -1, -3)) for _ in axes]) if c.flag() else None
    return Case(operator, [c.array(c.of(ANY), shape), int64(starts), int64(ends), int64(axes), steps])


@cases("Pad")
def _pad(c: Chooser, operator: str) -> Case:
    mode = c.of(("constant", "edge", "reflect", "wrap"))
    shape = c.shape(1, 3, SIZES if mode == "constant" else (3, 5))
    pads = [c.integer(0 if mode != "constant" else -1 if size > 1 else 0, 2) for size in shape * 2]
    dtype = c.of(("float32", "float64", "int32", "int64", "uint8", "bool"))
    fill = c.array(dtype, ()) if mode == "constant" and c.flag() else None
    return Case(operator, [c.array(dtype, shape), int64(pads), fill], {"mode": mode})


@cases("Tile", "Expand")
def _repeat(c: Chooser, operator: str) -> Case:
    shape = c.shape()
    counts = [c.integer(0, 3) for _ in shape]
    if operator == "Expand":
        extra = c.shape(0, 1)
        counts = [*extra, *(n if n == 1 and k else 1 if c.flag() else n for n, k in zip(shape, counts, strict=True))]
    return Case(operator, [c.array(c.of(ANY), shape), int64(counts)])


@cases("DepthToSpace", "SpaceToDepth")
def _blocks(c: Chooser, operator: str) -> Case:
    block, n, ch, h, w = (c.of((2, 1, 3)), *(c.of((1, 2, 3)) for _ in range(4)))
    is_depth = operator == "DepthToSpace"
    shape = (n, ch * block**2, h, w) if is_depth else (n, ch, h * block, w * block)
    mode = {"mode": c.of(("DCR", "CRD"))} if is_depth else {}
    return Case(operator, [c.array(c.of(("float32", "float64")), shape)], {"blocksize": block, **mode})


@cases("Trilu")
def _triangle(c: Chooser, operator: str) -> Case:
    data = c.array(c.of(("float32", "float64", "int64", "int32", "bool")), c.shape(2, 3))
    return Case(operator, [data, np.array(c.integer(-3, 3), np.int64) if c.flag() else None], {"upper": c.flag()})


@cases("EyeLike")
def _eye(c: Chooser, operator: str) -> Case:
    return Case(operator, [c.array(c.of(("float32", "int64", "float64")), c.shape(2, 2))], {"k": c.integer(-3, 3)})


@cases("Shape", "Size")
def _shape(c: Chooser, operator: str) -> Case:
    ends = {name: c.integer(-5, 5) for name in ("start", "end") if operator == "Shape" and c.flag()}
    return Case(operator, [c.array(c.of(ANY), c.shape())], ends)


@cases("ReverseSequence")
def _reverse(c: Chooser, operator: str) -> Case:
    shape, batch = c.shape(2, 3, SIZES[:-1]), c.flag()
    lengths = int64([c.integer(1, shape[1 - batch]) for _ in range(shape[batch])])
    return Case(operator, [c.array("float32", shape), lengths], {"batch_axis": batch, "time_axis": 1 - batch})


@cases("Gather")
def _gather(c: Chooser, operator: str) -> Case:
    shape = c.shape(1, 3, SIZES[:-1])
    axis = c.axis(len(shape))
    places = c.random.integers(-shape[axis], shape[axis], c.shape(0, 2)).astype(c.of((np.int64, np.int32)))
    return Case(operator, [c.array(c.of(ANY), shape), np.asarray(places)], {"axis": axis})


@cases("GatherElements", "ScatterElements")
def _elements(c: Chooser, operator: str) -> Case:
    shape = c.shape(1, 3, SIZES[:-1])
    axis = c.axis(len(shape))
    reduction = c.of(("none", "add", "mul", "min", "max")) if operator == "ScatterElements" else "none"
    data = c.array(c.of(("float32", "int64", "int32", "float64")), shape, special=reduction == "none")
    smaller = tuple(c.integer(0, size) for size in shape)
    if operator == "GatherElements":
        places = c.random.integers(-shape[axis], shape[axis], smaller)
        return Case(operator, [data, int64(places)], {"axis": axis})
    places = c.random.integers(0, shape[axis], smaller)
    if reduction == "none":  # which of two writes wins is not defined
        order = c.random.permuted(
            np.broadcast_to(
                np.arange(shape[axis]), (*shape[: axis % len(shape)], *shape[axis % len(shape) + 1 :], shape[axis])
            ),
            axis=-1,
        )
        places = np.moveaxis(order, -1, axis)[tuple(map(slice, smaller))]
    updates = c.array(str(data.dtype), smaller, special=False)
    return Case(operator, [data, int64(places), updates], {"axis": axis, "reduction": reduction})


@cases("GatherND")
def _gather_nd(c: Chooser, operator: str) -> Case:
    shape = c.shape(1, 3, SIZES[:-1])
    batch = c.integer(0, len(shape) - 1)
    last = c.integer(1, len(shape) - batch)
    outer = (*shape[:batch], *c.shape(0 if batch else 1, 1))
    places = [c.random.integers(-size, size, (*outer, 1)) for size in shape[batch : batch + last]]
    return Case(operator, [c.array(c.of(ANY), shape), int64(np.concatenate(places, -1))], {"batch_dims": batch})


@cases("ScatterND")
def _scatter_nd(c: Chooser, operator: str) -> Case:
    shape = c.shape(1, 3, SIZES[:-1])
    last, reduction = c.integer(1, len(shape)), c.of(("none", "add", "mul", "min", "max"))
    count = int(np.prod(shape[:last]))
    chosen = c.random.choice(count, c.integer(0, count), replace=False)
    places = np.stack(np.unravel_index(chosen, shape[:last]), -1)
    dtype = c.of(("float32", "int64", "int32", "float64"))
    updates = c.array(dtype, (len(chosen), *shape[last:]), special=False)
    return Case(
        operator, [c.array(dtype, shape, reduction == "none"), int64(places), updates], {"reduction": reduction}
    )


@cases("OneHot")
def _one_hot(c: Chooser, operator: str) -> Case:
    shape, depth = c.shape(0, 2), c.integer(1, 4)
    values = c.array(c.of(("float32", "int64", "int32")), (2,), special=False)
    places = np.asarray(c.random.integers(-depth - 1, depth + 1, shape)).astype(np.int64)
    return Case(operator, [places, np.array(depth, np.int64), values], {"axis": c.integer(-len(shape) - 1, len(shape))})


@cases("Compress")
def _compress(c: Chooser, operator: str) -> Case:
    shape = c.shape(1, 3, SIZES[:-1])
    axis = {"axis": c.axis(len(shape))} if c.flag() else {}
    size = shape[axis["axis"]] if axis else int(np.prod(shape))
    return Case(operator, [c.array(c.of(ANY), shape), c.array("bool", (c.integer(0, size),))], axis)


@cases("NonZero")
def _non_zero(c: Chooser, operator: str) -> Case:
    return Case(operator, [c.array(c.of(("float32", "int32", "int64", "bool", "uint8")), c.shape(1))])


@cases("Unique")
def _unique(c: Chooser, operator: str) -> Case:
    shape = c.shape(1, 3, SIZES[:-1])
    axis = {"axis": c.axis(len(shape))} if c.flag() else {}
    data = c.array(c.of(("float32", "int64", "int8", "float64")), shape, special=False, high=2, low=-2)
    return Case(operator, [np.round(data)], {"sorted": c.flag(), **axis}, 4)
