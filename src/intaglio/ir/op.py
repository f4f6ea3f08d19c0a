"""The base class of all operators, and the table of them.

An operator is a record whose fields are the ONNX attributes with the schema's defaults. What it means stands beside
them, in methods that each consumer looks for:

`infer(self, *inputs: Value) -> Type | tuple[Type, ...]`
    the types of all outputs, from the inputs' types, known contents and constants;
`reference(self, *inputs: Array) -> Array | tuple[Array, ...]`
    the meaning in NumPy, slow and obvious;
`expand(self, b: Builder, *inputs: Value) -> Value | tuple[Value, ...]`
    the same in simpler operators; `infer` and `reference` then follow from it and need not be written;
`pullback(self, b: Builder, inputs, outputs, output_bars) -> gradients of the inputs (None where there is none)`;
    an UnsupportedError in the place of one is raised where that one is wanted;
`smooth_form(self, b: Builder, *inputs: Value) -> Value | tuple[Value | None, ...]`
    instead of `pullback`, the outputs in operators that have gradients: it is built in the backward pass, to be
    differentiated there, while the operator itself stays where it is;
`interpret(self, run, *inputs)`
    instead of `reference`, for operators with subgraphs: `run(graph, arrays)` evaluates one.

The parameter names of the first of infer, reference, expand that is written are ONNX's formal input names: a default of
None marks an optional input, a star parameter a variadic one. Absent inputs arrive as None.

Floating-point attributes are single-precision numbers, as in ONNX: whoever makes an operator, they are rounded, so that
equal operators compare equal.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import MISSING, Field, field, fields, replace
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from intaglio.errors import UnsupportedError
from intaglio.ir.dtype import DType, from_numpy
from intaglio.record import Record

if TYPE_CHECKING:
    from intaglio.ir.build import Builder

Array: TypeAlias = NDArray[Any]


class Tensor:
    """A constant tensor as an attribute: immutable, compared and hashed by content."""

    __slots__ = ("_hash", "array")

    def __init__(self, array: Any) -> None:
        copied = np.array(array)
        copied.flags.writeable = False
        self.array: Array = copied
        self._hash: int | None = None

    @property
    def dtype(self) -> DType:
        """The element type."""
        return from_numpy(self.array.dtype)

    def _key(self) -> tuple[Any, ...]:
        content = tuple(self.array.ravel().tolist()) if self.array.dtype == object else self.array.tobytes()
        return self.array.shape, str(self.array.dtype), content

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tensor) and self._key() == other._key()

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self._key())
        return self._hash

    def __repr__(self) -> str:
        return f"Tensor({self.array!r})"


def single(number: float) -> float:
    """A number rounded to single precision.

    >>> single(0.2)
    0.20000000298023224
    """
    return ctypes.c_float(number).value


def _is_float(annotation: str) -> bool:
    return annotation in ("float", "<class 'float'>", "float | None", "tuple[float, ...]", "tuple[float, ...] | None")


class Work(Enum):
    """How long the reference takes, as far as the sizes of what it reads and makes tell."""

    UNKNOWN = "it may take long"
    SHORT = "linear in the data, and no longer than moving it"
    LINEAR = "linear in the data"
    UNBOUNDED = "not bounded by the sizes of the data"


class Rows(Enum):
    """What an operator does with rows that lie along one axis: `f` of joined rows is the joined `f` of each."""

    MIXED = "it may mix them"
    FIRST = "it keeps them apart along the first axis, which it takes for a batch"
    RECURRENT = "it keeps them apart along the axis of the batch, which its layout names"
    BY_AXES = "it keeps them apart along axes that it does not compute along"


ALL_OPERANDS = 1 << 31
"""A number of operands that no node has."""


class Parameter(Record):
    """A formal input of an operator."""

    name: str
    kind: Literal["single", "optional", "variadic"]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Op(Record):
    """The base of every operator; see the module's docstring for what a subclass may define."""

    domain: ClassVar[str] = ""
    output_names: ClassVar[tuple[str, ...]] = ()
    """The names of the outputs where there are several, and which of them a reference returns, in order."""
    variadic_outputs: ClassVar[bool] = False
    """Whether the number of outputs is the node's to say; such an operator has a field `output_count`."""
    symbolic: ClassVar[bool] = False
    """Whether `reference` also works on arrays of symbolic dimensions, so that small shapes can be tracked."""
    pullback_outputs: ClassVar[int] = 0
    """How many outputs `pullback` reads; those that the node does not ask for are added before it is called."""
    no_gradient: ClassVar[str] = ""
    """Why the operator cannot be differentiated, or why its gradient is zero; empty where it has one."""
    is_random: ClassVar[bool] = False
    """Whether two evaluations may differ; such a node is never folded or merged."""
    host_reason: ClassVar[str] = ""
    """Why the operator is not compiled, where `reference` is a user's function; its results are then checked."""
    is_elementwise: ClassVar[bool] = False
    """Whether each element of the result depends on one element of each operand, as broadcasting pairs them."""
    is_view: ClassVar[bool] = False
    """Whether the results can be the data itself, in other sizes, strides and offsets."""
    keeps_order: ClassVar[bool] = False
    """Whether the result has all elements of the data in their order, in other sizes at most."""
    moves_only: ClassVar[bool] = False
    """Whether the elements of the results are those of operands or fixed ones, whatever their bits mean."""
    number_operand: ClassVar[int | None] = None
    """Which operand of an operator that moves is read as numbers, such as indices."""
    chooses_from: ClassVar[int] = 0
    """Of how many operands, the first ones, each element of the first result is one; 0 where others come in."""
    is_exact: ClassVar[bool] = False
    """Whether the result needs no rounding where the operands need none."""
    is_cheap: ClassVar[bool] = False
    """Whether computing an element costs less than keeping it in memory."""
    takes_narrow_apart: ClassVar[bool] = False
    """Whether the operator reads or makes numbers of few bits as such, and does not only move them."""
    takes_complex_as_pairs: ClassVar[bool] = False
    """Whether the operator treats a complex number as it would two real ones."""
    carries_quantized: ClassVar[bool] = False
    """Whether integers that stand for quantized numbers go in and come out as such."""
    never_fails: ClassVar[bool] = False
    """Whether no data makes it fail whose types fit, so that it may run where it need not."""
    keeps_rows: ClassVar[Rows] = Rows.MIXED
    """Along which axes it maps over rows; operators that are elementwise do so along all axes."""
    work: ClassVar[Work] = Work.UNKNOWN
    """How long the reference takes."""
    is_bounded: ClassVar[bool] = False
    """Whether a result whose size only data tells is no larger than a few times the data."""
    repeats: ClassVar[bool] = False
    """Whether results that are larger than the data are made in less time than they are read."""
    _floats: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, abstract: bool = False, **options: Any) -> None:
        own = [name for name, type in inspect.get_annotations(cls).items() if _is_float(str(type))]
        for name in own:
            if isinstance(cls.__dict__.get(name), float):
                setattr(cls, name, single(cls.__dict__[name]))
        cls._floats = (*cls._floats, *own)
        super().__init_subclass__(**options)
        if not abstract:
            OPERATORS[(cls.domain, cls.__name__)] = cls

    def __post_init__(self) -> None:
        for name in self._floats:
            value = getattr(self, name)
            if value is not None:
                rounded = tuple(map(single, value)) if isinstance(value, tuple) else single(value)
                object.__setattr__(self, name, rounded)

    @classmethod
    def is_single(cls, attribute: str) -> bool:
        """Whether the numbers of an attribute are rounded to single precision, as ONNX stores them."""
        return attribute in cls._floats

    def infer(self, *inputs: Any, **named: Any) -> Any:
        """The types of all outputs; follows from `expand` unless a subclass says otherwise."""
        from intaglio.ir.build import infer_by_expansion

        return infer_by_expansion(self, inputs)

    def reference(self, *inputs: Any, **named: Any) -> Any:
        """The outputs in NumPy; follows from `expand` unless a subclass says otherwise."""
        from intaglio.ir.build import reference_by_expansion

        return reference_by_expansion(self, inputs)

    def element_types(self, given: Mapping[str, Any]) -> Sequence[DType]:
        """The element types of the outputs where `infer` follows from `expand`, which needs a rank that is not known.

        `given` are the inputs by name. Unless a subclass says otherwise, all outputs are like the first input.
        """
        first = next(iter(given.values()))
        return [first.dtype] * max(1, len(self.output_names))

    def prepare(self, *constants: Array | None) -> Callable[..., Any]:
        """`reference` as a function of those inputs that are no constants, for a node that runs often.

        Gets the constants in the places of the inputs, and None in those of others. What can be worked out from them
        and from the attributes is worked out once. The function may leave out checks, as long as it raises something
        where `reference` would.
        """
        if all(constant is None for constant in constants):
            return self.reference
        return lambda *arrays: self.reference(*_merged(constants, arrays))

    def expand(self, b: Builder, *inputs: Any, **named: Any) -> Any:
        """The outputs in simpler operators, for composite operators only."""
        raise UnsupportedError(f"{self.name} has no expansion into simpler operators")

    def takes_pullback(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> bool:
        """Whether `pullback` is for a node with these inputs and outputs; where it is not, the node is expanded."""
        del inputs, outputs
        return True

    def dims(self, *inputs: Any) -> Any:
        """The outputs as object arrays of dimensions, from values; None where they are not known.

        Called only where `symbolic`. Follows from `reference`, which then must work on object arrays.
        """
        arrays = [None if value is None else value.contents for value in inputs]
        if any(array is None and value is not None for array, value in zip(arrays, inputs, strict=True)):
            return None
        return self.reference(*arrays)

    if TYPE_CHECKING:

        def __getattr__(self, attribute: str) -> Any:
            """The attributes of an operator that is known by its name only."""

    def changed(self, **attributes: Any) -> Self:
        """The same operator with other attributes."""
        return replace(self, **attributes)  # pyright: ignore[reportArgumentType]

    @property
    def name(self) -> str:
        """The operator's ONNX name."""
        return type(self).__name__

    @classmethod
    def has(cls, method: str) -> bool:
        """Whether the class defines one of the optional methods itself."""
        return getattr(cls, method, None) is not getattr(Op, method, None)

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """The formal inputs, read from the first defined method's signature."""
        cached = cls.__dict__.get("_parameters")
        if cached is None:
            cached = tuple(_read_parameters(cls))
            cls._parameters = cached  # pyright: ignore[reportAttributeAccessIssue]
        return cached

    @classmethod
    def attributes(cls) -> tuple[Field[Any], ...]:
        """The dataclass fields that are ONNX attributes."""
        return tuple(f for f in fields(cls) if f.metadata.get("attribute", True))  # pyright: ignore[reportArgumentType]

    def subgraphs(self) -> Iterator[tuple[str, Any]]:
        """The attributes that are graphs, by name."""
        for name in type(self)._graph_attributes():
            value = getattr(self, name)
            if value is not None:
                yield name, value

    @classmethod
    def _graph_attributes(cls) -> tuple[str, ...]:
        cached = cls.__dict__.get("_graphs")
        if cached is None:
            cached = tuple(each.name for each in cls.attributes() if "Graph" in str(each.type))
            cls._graphs = cached  # pyright: ignore[reportAttributeAccessIssue]
        return cached


def _merged(constants: Sequence[Array | None], arrays: Sequence[Array]) -> list[Array]:
    """The inputs in order: constants where there are some, else the next of the arrays."""
    rest = iter(arrays)
    return [next(rest) if constant is None else constant for constant in constants]


def _read_parameters(cls: type[Op]) -> Iterator[Parameter]:
    written = [name for name in ("infer", "reference", "interpret", "expand") if cls.has(name)]
    if not written:
        return
    skipped = {"infer": 1, "reference": 1, "interpret": 2, "expand": 2}[written[0]]
    for parameter in list(inspect.signature(getattr(cls, written[0])).parameters.values())[skipped:]:
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            yield Parameter(parameter.name, "variadic")
        elif parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            is_required = parameter.default is inspect.Parameter.empty
            yield Parameter(parameter.name, "single" if is_required else "optional")


def output_count() -> Any:
    """The field of an operator with variadic outputs that holds how many its node has; not an ONNX attribute."""
    return field(default=1, metadata={"attribute": False})


def is_required(attribute: Field[Any]) -> bool:
    """Whether an attribute has no default."""
    return attribute.default is MISSING and attribute.default_factory is MISSING


class OperatorTable(MutableMapping[tuple[str, str], type[Op]]):
    """Operators by domain and name, where each enters itself.

    The families of ONNX's operators are imported when somebody first looks for what is not there yet.
    """

    families = "intaglio.ops.families"

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], type[Op]] = {}
        self.is_complete = False
        """Whether all families are imported; the package of them says so."""

    def entered(self) -> list[type[Op]]:
        """The operators that are there by now."""
        return list(self._known.values())

    def _complete(self) -> dict[tuple[str, str], type[Op]]:
        if not self.is_complete:
            import_module(self.families)
        return self._known

    def __getitem__(self, key: tuple[str, str]) -> type[Op]:
        found = self._known.get(key)
        return self._complete()[key] if found is None else found

    def __setitem__(self, key: tuple[str, str], operator: type[Op]) -> None:
        self._known[key] = operator

    def __delitem__(self, key: tuple[str, str]) -> None:
        del self._complete()[key]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._complete())

    def __len__(self) -> int:
        return len(self._complete())

    def __copy__(self) -> dict[tuple[str, str], type[Op]]:
        return dict(self._complete())


OPERATORS = OperatorTable()
"""Every operator by domain and name; a test checks that it is complete."""
