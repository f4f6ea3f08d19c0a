"""What every structured kernel is made of: its description, its tile, its epilogue."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from intaglio.ir.dim import Dim
from intaglio.kernels.kernel import FileKernel
from intaglio.targets.c.kernel_file import Instance, Value, kernel

Element = Literal["float32", "float64", "int32", "uint32", "int64", "uint64"]

_C_NAME: dict[Element, str] = {
    "float32": "float",
    "float64": "double",
    "int32": "uint32_t",
    "uint32": "uint32_t",
    "int64": "uint64_t",
    "uint64": "uint64_t",
}
_RESULT: dict[Element, str] = {
    "float32": "ig_f32",
    "float64": "ig_f64_half",
    "int32": "ig_i32",
    "uint32": "ig_u32",
    "int64": "ig_i64_half",
    "uint64": "ig_u64_half",
}


class VectorTarget(Protocol):
    """The part of a target description that structured kernels depend on."""

    @property
    def vector_bytes(self) -> int:
        """Bytes in a vector register."""
        ...

    @property
    def vector_registers(self) -> int:
        """Number of vector registers."""
        ...

    @property
    def l1(self) -> int:
        """Bytes of a core's first data cache."""
        ...

    @property
    def l2(self) -> int:
        """Bytes of a core's second cache."""
        ...


Sizes = Mapping[str, Dim]
Formula = Callable[[Sizes], Dim]


def _nothing(sizes: Sizes) -> Dim:
    return 0


def _no_defaults(sizes: Sizes) -> dict[str, Dim]:
    return {}


@dataclass(frozen=True)
class Work:
    """The sizes of a call in the kernel's order, its tasks, nanoseconds of a task, and bytes of scratch memory."""

    sizes: dict[str, Dim]
    tasks: Dim
    cost: Dim
    scratch: Dim


@dataclass(frozen=True)
class StructuredKernel:
    """A kernel's file, and how to call it.

    `buffers` and `sizes` name the entries of the kernel's two arguments in order; an epilogue finds its own behind
    them, from `buffer[len(buffers)]` and `size[len(sizes)]` on. `defaults` works out, of the other sizes by name, those
    that only steer the blocking. `tasks`, `cost` (nanoseconds of a task, roughly) and `scratch` (bytes for a thread,
    64-byte aligned) are worked out of all sizes by name.
    """

    hint: str
    instance: Instance
    tasks: Formula
    cost: Formula
    scratch: Formula = _nothing
    defaults: Callable[[Sizes], dict[str, Dim]] = _no_defaults
    tile: str = ""
    """What is computed in registers at a time, for people."""

    @property
    def buffers(self) -> tuple[str, ...]:
        """The kernel's own buffers."""
        return self.instance.buffers

    @property
    def sizes(self) -> tuple[str, ...]:
        """The kernel's own sizes."""
        return self.instance.sizes

    def work(self, given: Sizes) -> Work:
        """All sizes of a call, and how its work is cut, for the sizes that have no default."""
        blocks = self.defaults(given)
        sizes = {name: blocks[name] if name in blocks else given[name] for name in self.sizes}
        return Work(sizes, self.tasks(sizes), self.cost(sizes), self.scratch(sizes))

    def named(self, name: str, epilogue: str) -> str:
        """The whole source of the kernel as the function `name`; its static functions share that prefix."""
        text = f"{epilogue}\n{self.instance.text}" if epilogue else self.instance.text
        return text.replace("ig_epilogue", f"{name}_epilogue").replace("IG_FUNCTION", name)


@dataclass(frozen=True)
class Tile:
    """Rows by columns of the result that a core keeps in registers, and the element they are computed in."""

    element: Element
    lanes: int
    rows: int
    vectors: int = 2

    @property
    def columns(self) -> int:
        """Columns of a panel of packed weights."""
        return self.lanes * self.vectors

    @property
    def bytes(self) -> int:
        """Bytes of one element."""
        return element_bytes(self.element)

    @property
    def parameters(self) -> dict[str, Value]:
        """What the files of kernels call the parts of the tile."""
        return {
            "ELEMENT": c_name(self.element),
            "LANES": self.lanes,
            "ROWS": self.rows,
            "VECTORS": self.vectors,
            "RESULT": result_name(self.element),
        }


def register_tile(target: VectorTarget, element: Element = "float32", *, narrow: bool = False) -> Tile:
    """The tile whose sums, one row of weights and one broadcast value fit the target's vector registers.

    A narrow one is one vector wide: for results of few columns, of which a wide one would compute twice as many.
    """
    lanes = target.vector_bytes // element_bytes(element)
    if narrow:
        return Tile(element, lanes, 14 if target.vector_registers >= 32 else 12, vectors=1)
    rows = 14 if target.vector_registers >= 32 else 6
    return Tile(element, lanes, rows)


def is_narrow(target: VectorTarget, element: Element, columns: object) -> bool:
    """Whether results of so many columns, where that is known, fit one vector."""
    return isinstance(columns, int) and columns <= target.vector_bytes // element_bytes(element)


def fill(target: VectorTarget, channels: object) -> int:
    """The parameter FILL of kernels that take float32 channels by vectors: 1 where so many are whole vectors alone, 2
    where they are less than one, 0 where they are both or not known.

    >>> from intaglio.targets.c.target import TARGETS
    >>> [fill(TARGETS["avx2"], channels) for channels in (16, 5, 12, None)]
    [1, 2, 0, 0]
    """
    lanes = target.vector_bytes // 4
    if not isinstance(channels, int):
        return 0
    return 1 if channels % lanes == 0 else 2 if channels < lanes else 0


def element_bytes(element: Element) -> int:
    """Bytes of one element.

    >>> element_bytes("int64")
    8
    """
    return 8 if element.endswith("64") else 4


def c_name(element: Element) -> str:
    """The C type in which an element is computed: unsigned for integers, which wrap.

    >>> c_name("float64")
    'double'
    """
    return _C_NAME[element]


def result_name(element: Element) -> str:
    """The C type of a register full of elements as the epilogue gets them.

    >>> result_name("int32")
    'ig_i32'
    """
    return _RESULT[element]


def plain_epilogue(element: Element, buffers: int, sizes: int, *, has_bias: bool = False) -> FileKernel:
    """The epilogue that only stores: to buffer[buffers], whose rows are size[sizes] elements apart.

    With `has_bias`, the next buffer holds one value for each column, which is added first.
    """
    return kernel(
        "plain_epilogue",
        ELEMENT=c_name(element),
        RESULT=result_name(element),
        OUT=buffers,
        STEP=sizes,
        HAS_BIAS=has_bias,
    ).kernel
