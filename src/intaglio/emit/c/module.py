"""A graph as a folder of C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intaglio.emit.c.building import cmake, makefile
from intaglio.emit.c.example import example_of
from intaglio.emit.c.flash import check_limits, flash_constants, flash_macro, flash_notes
from intaglio.emit.c.interface import Interface, interface_of
from intaglio.emit.c.lowered import Lowered, lower_model
from intaglio.emit.c.options import COptions, options_of
from intaglio.emit.c.program import Example, program, test_data
from intaglio.emit.c.report import readme
from intaglio.emit.c.source import header, source
from intaglio.emit.c.weights import (
    Constant,
    chosen_format,
    file_content,
    object_source,
    placed,
    weights_header,
    weights_source,
)
from intaglio.emit.export import CWeights, ExportRequest, Source
from intaglio.kernels.plan import operands_of, walk
from intaglio.targets.c.toolchain import RUNTIME_FOLDER

WEIGHTS = None
LEFT_OUT = ()


def write(request: ExportRequest) -> Source:
    """All files of the folder."""
    return write_model(request).source


@dataclass
class Written:
    """The files of a model, and what it looks like to a caller."""

    source: Source
    interface: Interface
    options: COptions
    weights: CWeights
    lowered: Lowered
    weight_bytes: int
    """The size of the file of weights, where there is one."""
    example: Example | None
    """What the folder tests itself with."""


def write_model(request: ExportRequest, *, has_program: bool = True, has_example: bool = True) -> Written:
    """The files of a model, and the interface of what is in them.

    Without a program there is only what belongs to the model: no test of itself, no Makefile, no README. Without an
    example, which a program needs, nothing is computed by the reference.
    """
    options = options_of(request.options, request.weights)
    lowered = lower_model(request.graph, options, request.outputs)
    total = sum(int(array.nbytes) for array in lowered.plan.constants)
    weights = chosen_format(options, total)
    interface = interface_of(lowered, options, weights == "bin")
    constants = _constants(lowered, interface)
    defaults = [
        Constant(f"{options.prefix}_default_{port.name}", port.default, port.value.name)
        for port in interface.inputs
        if port.default is not None
    ]
    if options.program_memory:
        check_limits(lowered, constants)
        for index in flash_constants(lowered):
            constants[index].is_flash = True
    weight_bytes = placed(list(constants.values()))
    example = example_of(request.graph, lowered.sizes) if has_program or has_example else None
    files = {
        f"{options.prefix}.h": header(lowered, interface, options, weights, weight_bytes),
        f"{options.prefix}.c": source(lowered, interface, options, constants, defaults, weights),
        **_weight_files(constants, interface, options, weights),
        **(_runtime_headers() if options.is_fast else {}),
        **(_program_files(interface, example, options, weights) if has_program else {}),
    }
    content = file_content(list(constants.values())) if weights in ("bin", "object") else None

    def save(folder: Path) -> list[str]:
        if content is None:
            return []
        (folder / "weights.bin").write_bytes(content)
        return ["weights.bin"]

    text = readme(request.name, lowered, interface, options, weights, constants, files) if has_program else ""
    notes = flash_notes(constants, files[f"{options.prefix}.c"]) if options.program_memory else []
    return Written(Source(files, {}, text, notes, save), interface, options, weights, lowered, weight_bytes, example)


def _program_files(
    interface: Interface, example: Example | None, options: COptions, weights: CWeights
) -> dict[str, str]:
    """The program that tests the model, and what builds it."""
    return {
        "main.c": program(interface, example, 64),
        "Makefile": makefile(options, weights),
        "CMakeLists.txt": cmake(options, weights),
        **({} if example is None else {"test_data.h": test_data(interface, example)}),
    }


def _weight_files(
    constants: Mapping[int, Constant], interface: Interface, options: COptions, weights: str
) -> dict[str, str]:
    if weights == "object":
        return {"weights.S": object_source(options.prefix)}
    if weights == "bin":
        return {}
    items = list(constants.values())
    more = flash_macro(interface, constants) if options.program_memory else ""
    return {"weights.h": weights_header(items, interface, more), "weights.c": weights_source(items, interface, options)}


def _runtime_headers() -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(RUNTIME_FOLDER.glob("ig*.h"))}


def _constants(lowered: Lowered, interface: Interface) -> dict[int, Constant]:
    """The constants that the segment reads, by their place in the plan, with the names that the model gives them."""
    known: dict[int, str] = {}
    for node in lowered.graph.all_nodes():
        for value in node.inputs:
            if value is not None and value.constant is not None:
                known.setdefault(id(value.constant), value.name)
    found: dict[int, Constant] = {}
    for action in walk(lowered.segment.actions):
        for operand in operands_of(action):
            home = operand.buffer.home
            if home.kind == "constant" and home.index not in found:
                array: Any = lowered.plan.constants[home.index]
                title = known.get(id(array)) or next((node.outputs[0].name for node in action.nodes), "constant")
                name = interface.names.take(f"{interface.prefix}_w_{_plain(title)}")
                found[home.index] = Constant(name, array, title)
    return found


def _plain(title: str) -> str:
    from intaglio.emit.names import identifier

    return identifier(title, "weight")
