# pyright: reportMissingImports=false, reportUnknownParameterType=false
"""Modules and exported programs of PyTorch as graphs of ours: what `intaglio.load` takes them by."""

from __future__ import annotations

import json
import traceback
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node

from intaglio.errors import LoadError, UnsupportedError
from intaglio.ir.graph import Graph
from intaglio.runtime.model.state import FIXED, LOST_DROPOUT
from intaglio.torch.decompositions import decompositions
from intaglio.torch.partition import classify, is_size
from intaglio.torch.translate import Translator, operator_name


def export(
    module: torch.nn.Module,
    example_inputs: Any,
    example_keywords: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> ExportedProgram:
    """A module exported by PyTorch; raises LoadError with PyTorch's reason where that fails."""
    arguments = _as_arguments(example_inputs)
    try:
        with torch.no_grad(), quiet():
            return torch.export.export(
                module, arguments, dict(example_keywords or {}), dynamic_shapes=dynamic_shapes, strict=False
            )
    except Exception as error:  # whatever PyTorch raises
        raise LoadError(f"PyTorch cannot export {type(module).__name__}: {reason(error)}") from error


@contextmanager
def quiet() -> Generator[None]:
    """Without PyTorch's warnings of what will change in PyTorch itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _as_arguments(example_inputs: Any) -> tuple[Any, ...]:
    if isinstance(example_inputs, tuple):
        return example_inputs
    return tuple(example_inputs) if isinstance(example_inputs, list) else (example_inputs,)


def reason(error: BaseException) -> str:
    """What PyTorch says: the fault, its explanation and the line of the user's code, without the pages around them."""
    fault = inner(error)
    lines = [line.strip() for line in str(fault).splitlines() if line.strip()]
    first = lines[0] if lines else "no message"
    label = "Developer debug context:" if first == "Observed exception" else "Explanation:"
    why = next((line.removeprefix(label) for line in lines if line.startswith(label)), "")
    text = f"{type(fault).__name__}: {first}{':' if why else ''}{why}"
    place = _place(lines) or _place(str(error).splitlines())
    return f"{text} ({place})" if place else text


def inner(error: BaseException) -> BaseException:
    """The exception that made a backend of torch.compile fail; any other one is itself."""
    found = getattr(error, "inner_exception", None)
    return found if isinstance(found, BaseException) else error


def _place(lines: Sequence[str]) -> str:
    """The innermost line of the user's code that is named among the lines of a message."""
    named = [line.strip() for line in lines if line.strip().startswith('File "')]
    return next((line for line in reversed(named) if not any(home in line for home in _HOMES)), "")


_FILES = [Path(file) for file in (torch.__file__, sympy.__file__, str(Path(__file__).parent))]
_HOMES = {str(home) for file in _FILES for home in (file.parent, file.resolve().parent)}
"""Where the code of PyTorch and SymPy lies, and ours."""


def is_users(error: BaseException) -> bool:
    """Whether an exception was raised by code that is neither PyTorch's nor ours."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and not any(home in frames[-1].filename for home in _HOMES)


def module_graph(module: torch.nn.Module, example_inputs: Any, dynamic_shapes: Any = None) -> Graph:
    """The graph of a module for inputs like these, with its weights as constants."""
    graph = program_graph(export(module, example_inputs, None, dynamic_shapes))
    kinds = (torch.nn.MultiheadAttention, torch.nn.RNNBase)
    lost = [name for name, each in module.named_modules() if isinstance(each, kinds) and each.dropout > 0]
    if lost:
        graph.metadata[LOST_DROPOUT] = json.dumps(lost)
    return graph


def program_graph(program: ExportedProgram) -> Graph:
    """The graph of an exported program, with its weights as constants.

    Raises UnsupportedError with all operators that we do not have, and for programs that change their buffers.
    """
    from intaglio.torch.dropouts import kept_dropouts

    with quiet(), kept_dropouts(program):
        flat = program.run_decompositions(_table())
    _check_outputs(flat)
    classified = classify(flat.graph_module)
    constants = _constants(flat)
    missing = {operator_name(node): why for node, why in classified.eager.items() if "getitem" not in node.name}
    if missing:
        listed = "; ".join(f"{name}: {why}" for name, why in missing.items())
        raise UnsupportedError(f"the program has operators that cannot be compiled: {listed}")
    return _assemble(flat, constants)


def _table() -> dict[Any, Any]:
    """All that PyTorch can take apart, but for what we say ourselves."""
    from intaglio.torch.aten import TABLE

    found = dict(torch.export.default_decompositions().items()) | decompositions()
    return {each: how for each, how in found.items() if str(each) not in TABLE}


def _check_outputs(program: ExportedProgram) -> None:
    changed = [spec.target for spec in program.graph_signature.output_specs if spec.kind != OutputKind.USER_OUTPUT]
    if changed:
        raise UnsupportedError(
            f"the program changes {', '.join(map(str, changed))} when it runs, which a model cannot: export it after "
            "`module.eval()`, or use intaglio.torch.Module"
        )


def _constants(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """The tensors of the program by the names of their inputs."""
    found: dict[str, torch.Tensor] = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            target = str(spec.target)
            held = program.constants if target in program.constants else program.state_dict
            found[spec.arg.name] = cast("torch.Tensor", held[target])
    return found


def _own_names(program: ExportedProgram) -> dict[str, str]:
    """The names that the module has for its tensors, by the names of their inputs."""
    return {spec.arg.name: str(spec.target) for spec in program.graph_signature.input_specs if spec.target}


def _fixed(program: ExportedProgram, constants: Mapping[str, torch.Tensor]) -> list[str]:
    """The tensors that PyTorch's optimizers leave as they are: buffers, and weights that need no gradient."""
    specs = [spec for spec in program.graph_signature.input_specs if spec.arg.name in constants]
    trained = [spec.kind == InputKind.PARAMETER and constants[spec.arg.name].requires_grad for spec in specs]
    return [str(spec.target) for spec, is_trained in zip(specs, trained, strict=True) if not is_trained]


def _assemble(program: ExportedProgram, constants: Mapping[str, torch.Tensor]) -> Graph:
    translator = Translator(type(program.graph_module).__name__)
    names = _own_names(program)
    users = {spec.arg.name for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT}
    for node in program.graph_module.graph.nodes:
        if node.op == "placeholder":
            _add_placeholder(translator, node, constants, users, names)
        elif node.op == "call_function":
            translator.add(node)
        elif node.op == "output":
            _set_outputs(translator, list(node.args[0]))
    translator.graph.name = "module"
    fixed = _fixed(program, constants)
    if fixed:
        translator.graph.metadata[FIXED] = json.dumps(fixed)
    return translator.graph


def _add_placeholder(
    translator: Translator,
    node: Node,
    constants: Mapping[str, torch.Tensor],
    users: set[str],
    names: Mapping[str, str],
) -> None:
    if node.name in constants:
        value = translator.constant(node, constants[node.name])
        value.name = translator.graph.unique_name(names[node.name])
    elif node.name in users and isinstance(node.meta.get("val"), torch.Tensor):
        translator.add_input(node)
    elif is_size(node):
        translator.values[node] = translator.sizes.dim(node.meta["val"])


def _set_outputs(translator: Translator, outputs: Sequence[Any]) -> None:
    """Each output a value of its own; None and numbers are left out."""
    kept = [each for each in outputs if isinstance(each, Node) and isinstance(each.meta.get("val"), torch.Tensor)]
    if not kept:
        raise UnsupportedError("the program gives no tensor")
    taken: list[Any] = []
    for place, each in enumerate(kept):
        value = translator.values[each]
        if value.producer is None or value in taken:
            value = translator.builder.Identity(value)
        value.name = translator.graph.unique_name("output" if len(kept) == 1 else f"output_{place}")
        taken.append(value)
    translator.graph.set_outputs(taken)
