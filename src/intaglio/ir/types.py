"""The types of values: tensors, sequences, optionals, maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from intaglio.ir import dim as dims
from intaglio.ir.dim import Dim
from intaglio.ir.dtype import DType
from intaglio.record import Record

Shape: TypeAlias = tuple[Dim, ...]


@dataclass(frozen=True)
class TensorType:
    """A tensor; `shape` is None only where not even the rank can be known before the run."""

    dtype: DType
    shape: Shape | None

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.dtype}[...]"
        return f"{self.dtype}[{', '.join(str(dim) for dim in self.shape)}]"

    @property
    def dims(self) -> Shape:
        """The shape of a tensor whose rank is known; raises ShapeError otherwise."""
        if self.shape is None:
            from intaglio.errors import ShapeError

            raise ShapeError("the rank of this tensor is not known before the run")
        return self.shape

    @property
    def rank(self) -> int:
        """The number of dimensions; raises ShapeError where it is not known."""
        return len(self.dims)

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return dims.product(self.dims)

    @property
    def is_static(self) -> bool:
        """Whether every dimension is a plain integer."""
        return self.shape is not None and all(isinstance(dim, int) for dim in self.shape)

    def with_shape(self, shape: Shape | None) -> TensorType:
        """The same element type with another shape."""
        return TensorType(self.dtype, None if shape is None else tuple(shape))

    def with_dtype(self, dtype: DType) -> TensorType:
        """The same shape with another element type."""
        return TensorType(dtype, self.shape)


class SequenceType(Record):
    """A list of any length whose elements have one type."""

    element: Type

    def __str__(self) -> str:
        return f"seq({self.element})"


class OptionalType(Record):
    """A value that may be absent."""

    element: Type

    def __str__(self) -> str:
        return f"optional({self.element})"


class MapType(Record):
    """A dictionary from strings or integers to values of one type."""

    key: DType
    value: Type

    def __str__(self) -> str:
        return f"map({self.key}, {self.value})"


Type: TypeAlias = TensorType | SequenceType | OptionalType | MapType
