"""What a caller sees: the entry function's parameters, with the names of the model."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from intaglio.emit.c.lowered import Lowered, shape_text
from intaglio.emit.c.names import CNames
from intaglio.emit.c.options import COptions
from intaglio.emit.c.types import c_type, parts
from intaglio.errors import UnsupportedError
from intaglio.ir.dim import Dim, Symbol, lone_atom, product, symbols
from intaglio.ir.graph import Value
from intaglio.ir.op import Array
from intaglio.targets.c.lines import comment


@dataclass(frozen=True)
class Port:
    """An input or output of the model, and the parameter that it is."""

    value: Value
    name: str
    title: str
    """Its name in the model."""
    is_output: bool = False
    is_late: bool = False
    declared: tuple[Dim, ...] | None = None
    """The sizes of an input in the model, where the plan may write one as what it is assumed to equal."""

    @property
    def type(self) -> str:
        """The C type of its elements."""
        return c_type(self.value.dtype)

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Its sizes."""
        return tuple(self.value.shape) if self.declared is None else self.declared

    @property
    def count(self) -> Dim:
        """How many numbers of C it has."""
        return product(self.shape) * parts(self.value.dtype)

    @property
    def default(self) -> Array | None:
        """What an input is where the caller gives nothing."""
        return None if self.is_output else self.value.default

    @property
    def about(self) -> str:
        """Its name in the model, type and shape, for a comment."""
        return comment(f"{self.title}: {self.value.dtype}{shape_text(self.shape)}")

    def parameters(self) -> list[str]:
        """The parameters of the entry function."""
        constant = "" if self.is_output else "const "
        is_known = isinstance(self.count, int) and self.count > 0 and not self.is_late
        text = f"{constant}{self.type} {self.name}[{self.count}]" if is_known else f"{constant}{self.type} *{self.name}"
        if not self.is_late:
            return [text]
        rank = max(1, len(self.shape))
        return [text, f"int64_t {self.name}_room", f"int64_t {self.name}_shape[{rank}]"]


@dataclass
class Interface:
    """All parameters, and the names that the code around gives."""

    prefix: str
    names: CNames
    sizes: dict[str, str]
    """The sizes that the caller gives, by their names in the model."""
    inputs: list[Port]
    outputs: list[Port]
    copies: list[tuple[Port, Port]]
    """Outputs that are the same value as another one."""
    takes_arena: bool
    takes_weights: bool

    @property
    def macro(self) -> str:
        """What begins the names of macros."""
        return self.prefix.upper()

    @property
    def flash(self) -> str:
        """The macro that names the program memory of AVR."""
        return f"{self.macro}_FLASH"

    @property
    def ports(self) -> list[Port]:
        """Inputs, then outputs."""
        return [*self.inputs, *self.outputs]

    def place_of(self, size: str, *, are_all_given: bool = False) -> tuple[int, int]:
        """The input and its axis that tell a size; one with a default tells it only where all inputs are given.

        Raises UnsupportedError where no input has it alone.
        """
        for index, port in enumerate(self.inputs):
            for axis, dim in enumerate(port.shape):
                if lone_atom(dim) == Symbol(size) and (are_all_given or port.default is None):
                    return index, axis
        raise UnsupportedError(f"the size {comment(size)} is an axis of no input by itself: fix it with --dim")

    def parameters(self) -> list[tuple[str, str]]:
        """The parameters with what is to be said of each."""
        found = [(f"int64_t {name}", comment(symbol)) for symbol, name in self.sizes.items()]
        for port in self.ports:
            first, *rest = port.parameters()
            found.append((first, port.about + (" (NULL: as the model says)" if port.default is not None else "")))
            found += zip(rest, ("how many numbers there is room for", "its sizes are written here"), strict=False)
        if self.takes_arena:
            found.append(("void *arena", f"{self.macro}_ARENA_BYTES bytes" if not self.sizes else "memory"))
        if self.takes_weights:
            found.append(("const void *weights", "the content of the file of weights"))
        return found


def interface_of(lowered: Lowered, options: COptions, is_bin: bool) -> Interface:
    """The parameters of the entry function of a model."""
    segment = lowered.segment
    names = CNames(options.prefix)
    sizes = {symbol: names.give(symbol, "size") for symbol in lowered.sizes}
    inputs = [
        Port(value, names.give(value.name, "input"), value.name, declared=_declared(value, source, sizes))
        for value, source in zip(lowered.plan.inputs, lowered.graph.inputs, strict=True)
    ]
    outputs: list[Port] = []
    copies: list[tuple[Port, Port]] = []
    for value, title in zip(lowered.plan.outputs, lowered.outputs, strict=True):
        is_late = segment.output_buffers[segment.outputs.index(value)].is_late
        port = Port(value, names.give(title, "output"), title, True, is_late)
        if is_late:
            names.take(f"{port.name}_room")
            names.take(f"{port.name}_shape")
        same = next((other for other in outputs if other.value is value), None)
        if same is not None:
            copies.append((same, port))
        outputs.append(port)
    takes_arena = not options.globals or bool(symbols(lowered.memory.total))
    return Interface(options.prefix, names, sizes, inputs, outputs, copies, takes_arena, is_bin)


def _declared(value: Value, source: Value, sizes: Collection[str]) -> tuple[Dim, ...]:
    """The sizes of an input: those of the model where the caller gives them, else what the plan assumes them to be."""
    pairs = zip(value.shape, source.shape, strict=True)
    return tuple(given if symbols(given) <= set(sizes) else planned for planned, given in pairs)
