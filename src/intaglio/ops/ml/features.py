"""Operators that prepare features: scale, normalise, impute, encode, and convert maps."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir import dim as dims
from intaglio.ir.build import Builder
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import DTYPES, FLOAT32, FLOAT64, INT64, STRING
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op
from intaglio.ir.requirements import need_at_most
from intaglio.ir.types import MapType, SequenceType, TensorType
from intaglio.ops.ml.labels import Lookup
from intaglio.ops.ml.scores import as_rows, label_list, row_values, rows_of
from intaglio.ops.shared.gradient import root
from intaglio.ops.shared.indices import check_size, integers, need_integers, need_rank, unify
from intaglio.ops.shared.operand import cast


class ArrayFeatureExtractor(Op):
    """The columns of the last axis at the indices Y."""

    domain: ClassVar[str] = "ai.onnx.ml"

    def infer(self, X: Value, Y: Value) -> TensorType:
        need_integers(Y)
        need_rank(X, 1)
        if X.tensor.shape is None:
            return X.tensor
        count = dims.fresh() if Y.tensor.shape is None else Y.tensor.size
        need_at_most(1, count, f"{count} indices, expected at least one")
        return X.tensor.with_shape((*(X.shape[:-1] or (1,)), count))

    def reference(self, X: Array, Y: Array) -> Array:
        places, size = integers(Y), X.shape[-1]
        wrong = [place for place in places if not 0 <= place < size]
        if wrong or not places:
            raise OperatorError(f"indices {wrong or places}: expected some of 0 to {size - 1}")
        return (X if X.ndim > 1 else X.reshape(1, -1))[..., places]

    def expand(self, b: Builder, X: Value, Y: Value) -> Value:
        rows, places = b.Unsqueeze(X, [0]) if X.rank == 1 else X, cast(b, b.Reshape(Y, [-1]), INT64)
        if Y.constant is None or (Y.constant < 0).any():
            # Unlike here, Gather counts negative indices from the end: they are made too large.
            size = b.Squeeze(b.Shape(rows, start=-1), [0])
            places = b.Where(b.Less(places, 0), size, places)
        return b.Gather(rows, places, axis=-1)


class Binarizer(Op):
    """1 where the element is above the threshold, else 0."""

    no_gradient = "it is constant between steps, so its gradient is zero"
    domain: ClassVar[str] = "ai.onnx.ml"
    threshold: float = 0.0

    def infer(self, X: Value) -> TensorType:
        return X.tensor

    def reference(self, X: Array) -> Array:
        return np.greater(X, self.threshold).astype(X.dtype)

    def expand(self, b: Builder, X: Value) -> Value:
        data = X if X.dtype.is_float else cast(b, X, FLOAT64)
        return b.Cast(b.Greater(data, self.threshold), to=X.dtype.number)


class Scaler(Op):
    """(X - offset) * scale, each for all features or one for each."""

    domain: ClassVar[str] = "ai.onnx.ml"
    offset: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None

    def infer(self, X: Value) -> TensorType:
        return TensorType(FLOAT32, X.tensor.shape)

    def reference(self, X: Array) -> Array:
        offset = _per_feature("offsets", self.offset or (0.0,), X.shape)
        scale = _per_feature("scales", self.scale or (1.0,), X.shape)
        return ((X.astype(np.float32) - offset) * scale).astype(np.float32)

    def expand(self, b: Builder, X: Value) -> Value:
        offset = _per_feature("offsets", self.offset or (0.0,), X.shape)
        scale = _per_feature("scales", self.scale or (1.0,), X.shape)
        return (cast(b, X, FLOAT32) - b.constant(offset)) * b.constant(scale)


def _per_feature(name: str, values: tuple[Any, ...], shape: tuple[Dim, ...], dtype: Any = np.float32) -> Array:
    """One value for all features or one for each; raises where there are certainly others."""
    size = shape[-1] if shape else 1
    if len(values) != 1 and dims.compare(size, len(values)) in (-1, 1):
        raise OperatorError(f"{len(values)} {name} for {size} features, expected 1 or {size}")
    return np.array(values if shape else values[0], dtype)


class Normalizer(Op):
    """Each row divided by its maximum, its sum of absolute values or its length; unchanged where that is zero."""

    domain: ClassVar[str] = "ai.onnx.ml"
    norm: str = "MAX"

    def infer(self, X: Value) -> TensorType:
        if self.norm not in ("MAX", "L1", "L2"):
            raise ShapeError(f"norm {self.norm!r} is none of MAX, L1, L2")
        return TensorType(FLOAT32, X.tensor.shape)

    def reference(self, X: Array) -> Array:
        data = X.astype(np.float32)
        axis = -1 if X.ndim else None
        if data.size == 0:
            return data
        match self.norm:
            case "MAX":
                size = data.max(axis=axis, keepdims=True)
            case "L1":
                size = np.abs(data).sum(axis=axis, keepdims=True)
            case _:
                size = np.sqrt((data * data).sum(axis=axis, keepdims=True))
        return (data / np.where(size == 0, 1, size)).astype(np.float32)

    def expand(self, b: Builder, X: Value) -> Value:
        data, axes = cast(b, X, FLOAT32), [-1] if X.rank else None
        match self.norm:
            case "MAX":
                size = b.ReduceMax(data, axes)
            case "L1":
                size = b.ReduceSum(b.Abs(data), axes)
            case _:
                size = root(b, b.ReduceSum(data * data, axes))
        return data / b.Where(b.Equal(size, 0.0), b.constant(1, FLOAT32), size)


class Imputer(Op):
    """Elements that equal a given value (NaN equals NaN) replaced by another, for all features or one for each."""

    domain: ClassVar[str] = "ai.onnx.ml"
    imputed_value_floats: tuple[float, ...] | None = None
    imputed_value_int64s: tuple[int, ...] | None = None
    replaced_value_float: float = 0.0
    replaced_value_int64: int = 0

    def infer(self, X: Value) -> TensorType:
        if bool(self.imputed_value_floats) == bool(self.imputed_value_int64s):
            raise ShapeError("expected one of imputed_value_floats and imputed_value_int64s")
        if bool(self.imputed_value_floats) != X.dtype.is_float:
            raise ShapeError(f"{X.name} is {X.dtype}, the imputed values are of another kind")
        return X.tensor

    def _values(self, shape: tuple[Dim, ...], dtype: Any) -> tuple[Array, Array]:
        """The value that is replaced, and those that replace it."""
        is_float = dtype.kind == "f"
        values = (self.imputed_value_floats if is_float else self.imputed_value_int64s) or ()
        old = np.asarray(self.replaced_value_float if is_float else self.replaced_value_int64, dtype)
        return old, _per_feature("imputed values", values, shape, dtype)

    def reference(self, X: Array) -> Array:
        old, values = self._values(X.shape, X.dtype)
        is_old = np.isnan(X) if X.dtype.kind == "f" and np.isnan(old) else np.equal(X, old)
        return np.where(is_old, values, X)

    def expand(self, b: Builder, X: Value) -> Value:
        old, values = self._values(X.shape, X.dtype.numpy)
        is_old = b.IsNaN(X) if X.dtype.is_float and np.isnan(old) else b.Equal(X, b.constant(old))
        return b.Where(is_old, b.constant(values), X)


class FeatureVectorizer(Op):
    """The inputs side by side as float32, each cut or filled up with zeros to its entry of `inputdimensions`."""

    domain: ClassVar[str] = "ai.onnx.ml"
    inputdimensions: tuple[int, ...] | None = None

    def infer(self, *X: Value) -> TensorType:
        rows = reduce(lambda a, b: unify(a, b, "the numbers of rows"), (rows_of(value) for value in X))
        if self.inputdimensions is not None and len(self.inputdimensions) != len(X):
            raise ShapeError(f"{len(self.inputdimensions)} inputdimensions for {len(X)} inputs")
        if self.inputdimensions is None and any(value.tensor.shape is None for value in X):
            return TensorType(FLOAT32, (rows, dims.fresh()))
        widths = self.inputdimensions or tuple(value.shape[-1] for value in X)
        return TensorType(FLOAT32, (rows, sum(widths, 0)))

    def reference(self, *X: Array) -> Array:
        parts = [as_rows(array).astype(np.float32) for array in X]
        for i, width in enumerate(self.inputdimensions or ()):
            kept = parts[i][:, :width]
            check_size((len(kept), width), kept.dtype)
            parts[i] = np.pad(kept, ((0, 0), (0, width - kept.shape[1])))
        return np.concatenate(parts, axis=1)

    def expand(self, b: Builder, *X: Value) -> Value:
        parts = [cast(b, row_values(b, value), FLOAT32) for value in X]
        for i, width in enumerate(self.inputdimensions or ()):
            parts[i] = _with_width(b, parts[i], width)
        return b.Concat(*parts, axis=1)


def _with_width(b: Builder, rows: Value, width: int) -> Value:
    """Rows cut, or filled up with zeros, to a width."""
    if rows.shape[1] == width:
        return rows
    kept = b.Slice(rows, [0], [width], [1])
    if kept.shape[1] == width:
        return kept
    missing = b.constant([width]) - b.Shape(kept, start=1, end=2)
    zeros = b.Expand(b.constant(0, FLOAT32), b.Concat(b.Shape(kept, end=1), missing, axis=0))
    return b.Concat(kept, zeros, axis=1)


class OneHotEncoder(Op):
    """A new last axis with a 1 at the element's category and 0 elsewhere."""

    no_gradient = "it looks up labels"
    domain: ClassVar[str] = "ai.onnx.ml"
    cats_int64s: tuple[int, ...] | None = None
    cats_strings: tuple[str, ...] | None = None
    zeros: int = 1

    def infer(self, X: Value) -> TensorType:
        categories = label_list(self.cats_int64s, self.cats_strings)
        if (categories.dtype == object) != (X.dtype == STRING):
            raise ShapeError(f"{X.name} is {X.dtype}, the categories are of another kind")
        shape = X.tensor.shape
        return TensorType(FLOAT32, None if shape is None else (*shape, len(categories)))

    def reference(self, X: Array) -> Array:
        categories = label_list(self.cats_int64s, self.cats_strings)
        keys = X if X.dtype == object else np.trunc(X).astype(np.int64)
        found = (keys[..., None] == categories).astype(np.float32)
        if not self.zeros and not found.any(axis=-1).all():
            raise OperatorError("an element is of no known category, and zeros is 0")
        return found.reshape(*X.shape, len(categories))

    def expand(self, b: Builder, X: Value) -> Value:
        listed = label_list(self.cats_int64s, self.cats_strings)
        categories = b.constant(listed)
        keys = X if X.dtype in (STRING, INT64) else cast(b, X, INT64)
        if X.dtype == STRING and len(set(listed.tolist())) == len(listed):
            # The place of the text is a number, which is compared fast.
            places = np.arange(len(listed))
            keys = b.apply(Lookup, X, categories, b.constant(places), None if not self.zeros else b.constant([-1]))
            categories = b.constant(places)
        elif not self.zeros:
            keys = b.apply(Lookup, keys, categories, categories)
        return b.Cast(b.Equal(b.Unsqueeze(keys, [-1]), categories), to=FLOAT32.number)


class CastMap(Op):
    """The values of a map in the order of their keys, or each at its key's index."""

    no_gradient = "it works on maps"
    domain: ClassVar[str] = "ai.onnx.ml"
    cast_to: str = "TO_FLOAT"
    map_form: str = "DENSE"
    max_map: int = 1

    def infer(self, X: Value) -> TensorType:
        if not isinstance(X.type, MapType) or not X.type.key.is_integer:
            raise ShapeError(f"{X.name} is {X.type}, expected a map from integers")
        if self.cast_to not in _CASTS or self.map_form not in ("DENSE", "SPARSE"):
            raise ShapeError(f"cast_to {self.cast_to!r} and map_form {self.map_form!r}")
        return TensorType(_CASTS[self.cast_to], (1, dims.fresh() if self.map_form == "DENSE" else self.max_map))

    def reference(self, X: dict[int, Any]) -> Array:
        cast = {"TO_FLOAT": float, "TO_INT64": _to_integer, "TO_STRING": _to_text}[self.cast_to]
        dtype = _CASTS[self.cast_to].numpy
        if self.map_form == "DENSE":
            return np.array([[cast(_scalar(X[key])) for key in sorted(X)]], dtype).reshape(1, len(X))
        if any(key < 0 for key in X):
            raise OperatorError(f"the key {min(X)} is below 0")
        result = np.full(check_size((1, self.max_map), dtype), "" if dtype.kind == "O" else 0, dtype)
        for key, value in X.items():
            if key < self.max_map:
                result[0, key] = cast(_scalar(value))
        return result


_CASTS = {"TO_FLOAT": FLOAT32, "TO_INT64": INT64, "TO_STRING": STRING}


def _scalar(item: Any) -> Any:
    return item.item() if isinstance(item, (np.ndarray, np.generic)) else item


def _to_integer(item: Any) -> int:
    return int(item)


def _to_text(item: Any) -> str:
    return item if isinstance(item, str) else f"{item:f}"


class DictVectorizer(Op):
    """A row with each value of a map at its key's place in the vocabulary, zero or "" elsewhere."""

    no_gradient = "it works on maps"
    domain: ClassVar[str] = "ai.onnx.ml"
    int64_vocabulary: tuple[int, ...] | None = None
    string_vocabulary: tuple[str, ...] | None = None

    def infer(self, X: Value) -> TensorType:
        words = label_list(self.int64_vocabulary, self.string_vocabulary)
        if not isinstance(X.type, MapType) or not isinstance(X.type.value, TensorType):
            raise ShapeError(f"{X.name} is {X.type}, expected a map to tensors")
        if (X.type.key == STRING) != (words.dtype == object):
            raise ShapeError(f"{X.name} is {X.type}, the vocabulary is of another kind")
        return TensorType(X.type.value.dtype, (1, len(words)))

    def reference(self, X: dict[Any, Any]) -> Array:
        words = label_list(self.int64_vocabulary, self.string_vocabulary).tolist()
        values = {key: _scalar(value) for key, value in X.items()}
        dtype = _map_dtype(X)
        empty = "" if dtype.kind == "O" else 0
        return np.array([[values.get(word, empty) for word in words]], dtype)


def _map_dtype(X: dict[Any, Any]) -> np.dtype[Any]:
    """The element type of a map's values at run time; plain Python numbers are float32 and int64."""
    first = next(iter(X.values()), 0.0)
    if isinstance(first, (np.ndarray, np.generic)):
        return first.dtype
    return (STRING if isinstance(first, str) else INT64 if isinstance(first, int) else FLOAT32).numpy


class ZipMap(Op):
    """For each row a map from the class labels to its scores."""

    no_gradient = "it works on maps"
    domain: ClassVar[str] = "ai.onnx.ml"
    classlabels_int64s: tuple[int, ...] | None = None
    classlabels_strings: tuple[str, ...] | None = None

    def infer(self, X: Value) -> SequenceType:
        rows_of(X)
        labels = label_list(self.classlabels_int64s, self.classlabels_strings)
        if X.tensor.shape is not None and dims.compare(X.shape[-1], len(labels)) in (-1, 1):
            raise ShapeError(f"{X.name} has {X.shape[-1]} columns, there are {len(labels)} labels")
        key = STRING if labels.dtype == object else DTYPES["int64"]
        return SequenceType(MapType(key, TensorType(FLOAT32, ())))

    def reference(self, X: Array) -> list[dict[Any, Any]]:
        return self.prepare(None)(X)

    def prepare(self, *constants: Array | None) -> Callable[[Array], list[dict[Any, Any]]]:
        labels = label_list(self.classlabels_int64s, self.classlabels_strings).tolist()

        def zipped(X: Array) -> list[dict[Any, Any]]:
            rows = as_rows(X)
            if rows.shape[1] != len(labels):
                raise OperatorError(f"{rows.shape[1]} columns, there are {len(labels)} labels")
            return [dict(zip(labels, row)) for row in rows.astype(np.float32, copy=False).tolist()]  # noqa: B905

        return zipped
