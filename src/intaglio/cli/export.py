"""`intaglio export`: a model as source that people read, change and own."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from intaglio.cli.arguments import parse_dims
from intaglio.cli.options import Option
from intaglio.cli.session import DisableOption, source_of
from intaglio.cli.terminal import JsonOption, ModelArgument, print_json, print_pairs, tell
from intaglio.ir.limits import parse_bytes


class Language(StrEnum):
    """What the option `--to` takes."""

    python = "python"
    torch = "torch"
    c = "c"
    wasm = "wasm"
    onnx = "onnx"
    zig = "zig"


class WeightsFormat(StrEnum):
    """What the option `--weights` takes."""

    npz = "npz"
    safetensors = "safetensors"
    c = "c"
    object = "object"
    bin = "bin"
    extern = "extern"


class FunctionsOption(StrEnum):
    """What the option `--functions` takes."""

    inline = "inline"
    keep = "keep"


class CodeStyle(StrEnum):
    """What the option `--style` takes."""

    readable = "readable"
    fast = "fast"


class Processor(StrEnum):
    """What the option `--target` takes."""

    c = "c"
    sse2 = "sse2"
    avx2 = "avx2"
    avx512 = "avx512"
    neon = "neon"
    wasm = "wasm"


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
    functions: Annotated[
        FunctionsOption | None,
        Option("--functions", help="Inline the functions of an ONNX model, or keep them; keep needs --no-simplify."),
    ] = None,
    dims: Annotated[
        list[str] | None,
        Option("--dim", "-d", metavar="NAME=NUMBER", help="Give a number to a size that has a name; may be repeated."),
    ] = None,
    style: Annotated[
        CodeStyle | None, Option("--style", help="C as in a textbook, or with our kernels; default: readable.")
    ] = None,
    target: Annotated[
        Processor | None, Option("--target", help="The processor of fast C; default: c, which is any.")
    ] = None,
    threads: Annotated[
        int | None, Option("--threads", least=1, help="Threads of fast C (OpenMP) or of wasm (workers); default: 1.")
    ] = None,
    name: Annotated[
        str | None, Option("--name", metavar="PREFIX", help="Begins the names of C and its files; default: model.")
    ] = None,
    no_globals: Annotated[
        bool, Option("--no-globals", help="The caller of C gives memory and weights; nothing is global.")
    ] = False,
    heap: Annotated[
        int | None,
        Option(
            "--heap",
            metavar="BYTES",
            parse=parse_bytes,
            help="Memory of C for tensors whose sizes depend on data; default: enough, or 1M where that is not known.",
        ),
    ] = None,
    measure: Annotated[
        bool, Option("--measure/--no-measure", help="Compile C to measure the size of its code.")
    ] = True,
    program_memory: Annotated[
        bool, Option("--program-memory", help="Constants of readable C lie where AVR has its code, and not in its RAM.")
    ] = False,
    debug: Annotated[bool, Option("--debug", help="Write the graph after each phase beside the source.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a model as source: python is a module that needs NumPy alone, torch modules of PyTorch, c C11, onnx a file.

    wasm is a folder for browsers: a module, a loader in JavaScript and a page.

    C allocates nothing and prints nothing; `make test` in its folder compares it with stored answers.

    zig is the graph as one anonymous struct, and a library that walks it while it is compiled.

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
        functions=None if functions is None else functions.value,
        debug=debug,
        dims=parse_dims(dims or ()),
        style=None if style is None else style.value,
        target=None if target is None else target.value,
        threads=threads,
        prefix=name,
        globals=False if no_globals else None,
        heap=heap,
        measure=None if measure else False,
        program_memory=True if program_memory else None,
    )
    for note in found.notes:
        tell(f"note: {note}")
    if as_json:
        print_json({"model": model, "to": to.value, "folder": str(found.folder), "files": found.files})
        return
    print_pairs([("folder", str(found.folder)), *(("", name) for name in found.files)])
