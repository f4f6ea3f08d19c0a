"""Conversion between element types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import ml_dtypes
import numpy as np

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dtype import BOOL, FLOAT8E8M0, INT32, STRING, DType, from_numpy
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op, Work
from intaglio.ir.types import Type
from intaglio.ops.shared.elementwise import map_sizes
from intaglio.ops.shared.indices import numbered_dtype

_SATURATING = ("float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz")
_FINITE = ("float6e2m3", "float6e3m2", "float4e2m1")  # without infinity and NaN: they always saturate
_SPECIAL = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}
_TRUTHS = {"true": 1, "false": 0}
_ROUND_MODES = ("up", "down", "nearest")


def convert(array: Array, dtype: DType, saturate: bool = True, round_mode: str = "up") -> Array:
    """The array in another element type.

    Integers wrap around. What ONNX leaves open is defined here: a float out of range becomes the nearest integer of
    types of 32 and 64 bits, and NaN becomes 0; to narrower types it is converted by way of int32.
    """
    given = from_numpy(array.dtype)
    if given == dtype:
        return array
    if given == STRING:
        return _parse(array, dtype)
    with np.errstate(all="ignore"):
        if dtype == STRING:
            return _format(array, given)
        if dtype == BOOL:
            return np.asarray(_plain(array, given) != 0)
        if dtype.is_integer:
            return np.asarray(_to_integer(_plain(array, given), dtype))
        return np.asarray(_to_float(_plain(array, given), dtype, saturate, round_mode))


def _plain(array: Array, dtype: DType) -> Array:
    """The array in a type of NumPy's own that holds every value of it."""
    if dtype == BOOL:
        return array.astype(np.uint8)
    if not dtype.is_narrow:
        return array
    return array.astype(np.float32) if dtype.is_float else array.astype(np.int8 if dtype.kind == "int" else np.uint8)


def _to_integer(array: Array, dtype: DType) -> Array:
    if array.dtype.kind == "f":
        if dtype.bits >= 32:
            return _saturated(array, dtype)
        array = _saturated(array, INT32)
    if dtype.bits >= 8:
        return array.astype(dtype.numpy)
    low = array.astype(np.int64) & ((1 << dtype.bits) - 1)
    is_negative = (dtype.kind == "int") & (low >> (dtype.bits - 1) == 1)
    wrapped = np.where(is_negative, low - (1 << dtype.bits), low)
    return wrapped.astype(np.int8).astype(dtype.numpy)  # ml_dtypes converts from bytes


def _saturated(array: Array, dtype: DType) -> Array:
    """Floats rounded towards zero, or to the nearest end of the range; NaN becomes 0."""
    low, high = integer_limits(dtype)
    whole = np.trunc(array.astype(np.float64))
    is_inside = (whole >= low) & (whole < high + 1)  # high + 1 is a power of two, so a float holds it
    ends = np.where(whole > 0, np.array(high, dtype.numpy), np.array(low, dtype.numpy))
    ends = np.where(np.isnan(whole), np.zeros((), dtype.numpy), ends)
    return np.where(is_inside, np.where(is_inside, whole, 0).astype(dtype.numpy), ends)


def integer_limits(dtype: DType) -> tuple[int, int]:
    """The least and the greatest value of an integer type.

    >>> from intaglio.ir.dtype import INT4
    >>> integer_limits(INT4)
    (-8, 7)
    """
    if dtype.kind == "uint":
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


def _to_float(array: Array, dtype: DType, saturate: bool, round_mode: str) -> Array:
    if dtype == FLOAT8E8M0:
        return to_power_of_two(array.astype(np.float64), saturate, round_mode)
    if array.dtype.kind != "f" and dtype.is_narrow:
        array = array.astype(np.float64)
    if dtype.name in _FINITE or (saturate and dtype.name in _SATURATING):
        limit = float(ml_dtypes.finfo(dtype.numpy).max)
        array = np.clip(array, -limit, limit)
    if array.dtype == np.float64 and dtype.is_narrow:
        array = _rounded_to_odd(array)  # ml_dtypes would round twice
    return array.astype(dtype.numpy)


def _rounded_to_odd(array: Array) -> Array:
    """Doubles in single precision, towards zero and with the last bit set where that is not exact.

    Rounding the result once more, to a type of fewer bits, gives what rounding the double to that type would.
    """
    near = np.asarray(array.astype(np.float32))
    back = near.astype(np.float64)
    bits = (near.view(np.int32) - (np.abs(back) > np.abs(array))) | (back != array)
    return np.where(np.isnan(array), near, np.asarray(bits, np.int32).view(np.float32))


def to_power_of_two(array: Array, saturate: bool, round_mode: str) -> Array:
    """The nearest powers of two as float8e8m0; zero and negative numbers count as below the least one."""
    fraction, exponent = np.frexp(array)  # array = fraction * 2**exponent, fraction in [1/2, 1)
    is_rounded_up = {"up": fraction > 0.5, "nearest": fraction >= 0.75, "down": fraction > 1}[round_mode]
    power = np.where(array > 0, exponent - 1 + is_rounded_up, -1000)
    power = np.where(np.isposinf(array), 1000, power)
    is_nan = np.isnan(array) if saturate else np.isnan(array) | (power < -127) | (power > 127)
    code = np.where(is_nan, 255, np.clip(power, -127, 127) + 127)
    return np.asarray(code.astype(np.uint8)).view(FLOAT8E8M0.numpy)


def _format(array: Array, given: DType) -> Array:
    """Numbers as the shortest text that is read back as the same number; truth values as 1 and 0."""
    texts = [_SPECIAL.get(text, text.removesuffix(".0")) for text in map(str, _plain(array, given).ravel())]
    return np.array(texts, dtype=object).reshape(array.shape)


def _parse(array: Array, dtype: DType) -> Array:
    """Texts as numbers; raises OperatorError for one that is none."""
    items = [_parse_item(str(item), dtype) for item in array.ravel()]
    if dtype.is_integer or dtype == BOOL:
        carrier = np.uint64 if dtype.name == "uint64" else np.int64
        return convert(np.array(items, dtype=carrier).reshape(array.shape), dtype)
    return convert(np.array(items, dtype=np.float64).reshape(array.shape), dtype)


def _parse_item(text: str, dtype: DType) -> Any:
    try:
        if "_" in text or not text.isascii():
            raise ValueError  # Python would read these
        if dtype == BOOL:
            return _TRUTHS[text.strip().lower()] if text.strip().lower() in _TRUTHS else int(float(text) != 0)
        return _parse_integer(text, dtype) if dtype.is_integer else float(text)
    except (ValueError, OverflowError):
        raise OperatorError(f"the text {text[:40]!r} is not a number of type {dtype}") from None


def _parse_integer(text: str, dtype: DType) -> int:
    try:
        value = int(text)
    except ValueError:
        value = int(float(text))
    low, high = integer_limits(dtype)
    if not low <= value <= high:
        raise OverflowError
    return value


class Cast(Op):
    """The elements in another type; see `convert` for what happens to values out of its range.

    `saturate` and `round_mode` matter for 8-bit floats only.
    """

    is_elementwise = True
    is_cheap = True
    takes_narrow_apart = True
    carries_quantized = True
    never_fails = True
    work = Work.SHORT
    round_mode: str = "up"
    saturate: int = 1
    to: int
    symbolic: ClassVar[bool] = True

    def infer(self, input: Value) -> Type:
        if self.round_mode not in _ROUND_MODES:
            raise ShapeError(f"round_mode is {self.round_mode!r}, it must be one of {', '.join(_ROUND_MODES)}")
        return input.tensor.with_dtype(_castable(numbered_dtype(self.to)))

    def reference(self, input: Array) -> Array:
        return convert(input, numbered_dtype(self.to), bool(self.saturate), self.round_mode)

    def dims(self, *inputs: Any) -> Any:
        return _cast_sizes(inputs[0], numbered_dtype(self.to))

    def pullback(self, b: Builder, inputs: Sequence[Any], outputs: Sequence[Value], output_bars: Sequence[Any]) -> Any:
        is_smooth = inputs[0].dtype.is_float and outputs[0].dtype.is_float
        return (b.CastLike(output_bars[0], inputs[0]) if is_smooth else None,)


def _castable(dtype: DType) -> DType:
    if dtype.kind == "complex":
        raise ShapeError(f"there is no conversion to {dtype}")
    return dtype


def _cast_sizes(input: Value, dtype: DType) -> Array | None:
    if input.dtype.kind not in ("int", "uint", "bool") or dtype.bits < 8:
        return None
    if dtype == BOOL:
        return map_sizes(lambda item: not dims.decide_equal(item, 0), BOOL, input)
    return map_sizes(lambda item: int(item) if isinstance(item, int) else item, dtype, input)


class CastLike(Op):
    """The elements in the type of `target_type`."""

    is_elementwise = True
    takes_narrow_apart = True
    work = Work.SHORT
    round_mode: str = "up"
    saturate: int = 1
    symbolic: ClassVar[bool] = True

    def infer(self, input: Value, target_type: Value) -> Type:
        return input.tensor.with_dtype(_castable(target_type.dtype))

    def reference(self, input: Array, target_type: Array) -> Array:
        return convert(input, from_numpy(target_type.dtype), bool(self.saturate), self.round_mode)

    def expand(self, b: Builder, input: Value, target_type: Value) -> Value:
        return b.Cast(input, to=target_type.dtype.number, saturate=self.saturate, round_mode=self.round_mode)

    def dims(self, *inputs: Any) -> Any:
        return _cast_sizes(inputs[0], inputs[1].dtype)


class BitCast(Op):
    """The same bits as elements of another type of the same width; as bool, whether any is set."""

    is_elementwise = True
    moves_only = True
    no_gradient = "it reads the bits of numbers as those of another type"
    to: int

    def infer(self, input: Value) -> Type:
        given, wanted = input.dtype, numbered_dtype(self.to)
        if STRING in (given, wanted) or given.bits != wanted.bits:
            raise ShapeError(f"the bits of {given} cannot be read as {wanted}: the widths differ")
        return input.tensor.with_dtype(wanted)

    def reference(self, input: Array) -> Array:
        wanted, bits = numbered_dtype(self.to), np.ascontiguousarray(input).reshape(input.shape)
        return bits.view(np.uint8) != 0 if wanted == BOOL else bits.view(wanted.numpy)
