"""Operators that map labels to labels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from intaglio.errors import OperatorError, ShapeError
from intaglio.ir.build import Builder
from intaglio.ir.dtype import INT64, STRING
from intaglio.ir.graph import Value
from intaglio.ir.op import Array, Op, Tensor
from intaglio.ir.types import TensorType


class CategoryMapper(Op):
    """Strings as the integers that belong to them, or integers as their strings."""

    no_gradient = "it works on maps"
    domain: ClassVar[str] = "ai.onnx.ml"
    cats_int64s: tuple[int, ...] | None = None
    cats_strings: tuple[str, ...] | None = None
    default_int64: int = -1
    default_string: str = "_Unused"

    def infer(self, X: Value) -> TensorType:
        if len(self.cats_int64s or ()) != len(self.cats_strings or ()):
            raise ShapeError(
                f"{len(self.cats_int64s or ())} cats_int64s and {len(self.cats_strings or ())} cats_strings"
            )
        return TensorType(INT64 if X.dtype == STRING else STRING, X.tensor.shape)

    def reference(self, X: Array) -> Array:
        numbers, texts = self.cats_int64s or (), self.cats_strings or ()
        if X.dtype == object:
            return mapped(X, dict(zip(texts, numbers, strict=True)), self.default_int64, INT64.numpy)
        return mapped(X, dict(zip(numbers, texts, strict=True)), self.default_string, STRING.numpy)


class LabelEncoder(Op):
    """Each element replaced by the value that belongs to it, or by a default; the last of equal keys counts."""

    no_gradient = "it looks up labels"
    domain: ClassVar[str] = "ai.onnx.ml"
    default_float: float = -0.0
    default_int64: int = -1
    default_string: str = "_Unused"
    default_tensor: Tensor | None = None
    keys_floats: tuple[float, ...] | None = None
    keys_int64s: tuple[int, ...] | None = None
    keys_strings: tuple[str, ...] | None = None
    keys_tensor: Tensor | None = None
    values_floats: tuple[float, ...] | None = None
    values_int64s: tuple[int, ...] | None = None
    values_strings: tuple[str, ...] | None = None
    values_tensor: Tensor | None = None

    def infer(self, X: Value) -> TensorType:
        keys, values = self._list("keys"), self._list("values")
        if len(keys) != len(values):
            raise ShapeError(f"{len(keys)} keys and {len(values)} values")
        if Tensor(keys).dtype != X.dtype:
            raise ShapeError(f"{X.name} is {X.dtype}, the keys are {Tensor(keys).dtype}")
        return TensorType(Tensor(values).dtype, X.tensor.shape)

    def reference(self, X: Array) -> Array:
        keys, values = self._list("keys"), self._list("values")
        table = dict(zip((_key(item) for item in keys.tolist()), values.tolist(), strict=True))
        return mapped(X, table, self._default(values.dtype), values.dtype)

    def expand(self, b: Builder, X: Value) -> Value:
        keys, values = self._list("keys"), self._list("values")
        default = np.array([self._default(values.dtype)], values.dtype)
        if values.dtype != object:
            return b.apply(Lookup, X, b.constant(keys), b.constant(values), b.constant(default))
        # The place of the key is a number, which is found fast; only the text at that place is looked up last.
        places = b.apply(Lookup, X, b.constant(keys), b.constant(np.arange(len(keys))), b.constant([len(keys)]))
        return b.Gather(b.constant(np.concatenate([values, default])), places)

    def _list(self, kind: str) -> Array:
        """The keys or values, of whichever type is given."""
        dtypes: dict[str, Any] = {"floats": np.float32, "int64s": np.int64, "strings": object, "tensor": None}
        given = {suffix: getattr(self, f"{kind}_{suffix}") for suffix in dtypes}
        found = {suffix: item for suffix, item in given.items() if item is not None}
        if len(found) != 1:
            raise ShapeError(f"expected one attribute {kind}_*, got {', '.join(found) or 'none'}")
        suffix, item = found.popitem()
        return item.array.reshape(-1) if isinstance(item, Tensor) else np.array(item, dtypes[suffix])

    def _default(self, dtype: np.dtype[Any]) -> Any:
        if self.default_tensor is not None:
            return self.default_tensor.array.reshape(-1)[0]
        return {"O": self.default_string, "f": self.default_float}.get(dtype.kind, self.default_int64)


def _key(item: Any) -> Any:
    return "NaN" if isinstance(item, float) and math.isnan(item) else item


def mapped(X: Array, table: dict[Any, Any], default: Any, dtype: np.dtype[Any]) -> Array:
    """Each element looked up in a table; NaN finds the key NaN."""
    result = np.empty(X.size, dtype)
    result[:] = [table.get(_key(item), default) for item in X.reshape(-1).tolist()]
    return result.reshape(X.shape)


class Lookup(Op):
    """The value of each key, of the last where keys are equal, or the default; without one, keys must be found."""

    no_gradient = "it looks up labels"
    domain: ClassVar[str] = "intaglio"

    def infer(self, X: Value, keys: Value, values: Value, default: Value | None = None) -> TensorType:
        return TensorType(values.dtype, X.tensor.shape)

    def reference(self, X: Array, keys: Array, values: Array, default: Array | None = None) -> Array:
        table = dict(zip((_key(item) for item in keys.tolist()), values.tolist(), strict=True))
        missing = [] if default is not None else [item for item in X.reshape(-1).tolist() if _key(item) not in table]
        if missing:
            raise OperatorError(f"{missing[0]} is no known key")
        return mapped(X, table, None if default is None else default[0], values.dtype)

    def prepare(self, *constants: Array | None) -> Callable[..., Any]:
        data, keys, values, default = (*constants, None)[:4]
        if data is not None or keys is None or values is None or keys.dtype != object:
            return super().prepare(*constants)
        table, dtype = dict(zip(keys.tolist(), values.tolist(), strict=True)), values.dtype
        if default is None:
            return lambda X: np.array([table[item] for item in X.reshape(-1).tolist()], dtype).reshape(X.shape)
        get, other = table.get, default.tolist()[0]
        return lambda X: np.array([get(item, other) for item in X.reshape(-1).tolist()], dtype).reshape(X.shape)
