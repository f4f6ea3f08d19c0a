"""`intaglio export`: a model as source that people read, change and own."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from intaglio.cli.options import Option
from intaglio.cli.session import DisableOption, source_of
from intaglio.cli.terminal import JsonOption, ModelArgument, print_json, print_pairs, tell
from intaglio.ir.limits import parse_bytes


class Language(StrEnum):
    """What the option `--to` takes."""

    python = "python"
    torch = "torch"
    onnx = "onnx"


class WeightsFormat(StrEnum):
    """What the option `--weights` takes."""

    npz = "npz"
    safetensors = "safetensors"


def export_model(
    model: ModelArgument,
    output: Annotated[str, Option("--output", "-o", metavar="FOLDER", help="Write the files into this folder.")],
    to: Annotated[Language, Option("--to", help="The language.")] = Language.python,
    weights: Annotated[
        WeightsFormat | None, Option("--weights", help="The format of the weights; default: what suits the language.")
    ] = None,
    simplify: Annotated[bool, Option("--simplify/--no-simplify", help="Simplify the model first.")] = True,
    disable: DisableOption = None,
    opset: Annotated[int | None, Option("--opset", least=1, help="The operator set of an ONNX file.")] = None,
    external_data: Annotated[
        int | None,
        Option(
            "--external-data",
            metavar="BYTES",
            parse=parse_bytes,
            help="Put tensors of at least so many bytes into a file beside the ONNX file.",
        ),
    ] = None,
    debug: Annotated[bool, Option("--debug", help="Write the graph after each phase beside the source.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a model as source: python is a module that needs NumPy alone, torch modules of PyTorch, onnx a file.

    ONNX is written at any operator set from 9 on: what it does not have is written in what it has, or told.
    """
    from intaglio.emit import export

    found = export(
        source_of(model),
        to.value,
        output,
        simplify=simplify,
        disable=tuple(disable or ()),
        weights=None if weights is None else weights.value,
        opset=opset,
        external_data=external_data,
        debug=debug,
    )
    for note in found.notes:
        tell(f"note: {note}")
    if as_json:
        print_json({"model": model, "to": to.value, "folder": str(found.folder), "files": found.files})
        return
    print_pairs([("folder", str(found.folder)), *(("", name) for name in found.files)])
