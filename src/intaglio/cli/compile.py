"""`intaglio compile`: compile a model into the cache, or into a file that can be loaded without a compiler."""

from __future__ import annotations

from typing import Annotated

from intaglio.cli.options import Option
from intaglio.cli.session import (
    DisableOption,
    DonateOption,
    ExactOption,
    LoadRequest,
    QuickOption,
    StrictOption,
    load_timed,
)
from intaglio.cli.terminal import EngineChoice, JsonOption, ModelArgument, print_json, print_pairs, seconds


def compile_model(
    model: ModelArgument,
    output: Annotated[
        str | None,
        Option("--output", "-o", metavar="FILE", help="Write the compiled model here, such as model.intaglio."),
    ] = None,
    strict: StrictOption = False,
    exact: ExactOption = False,
    quick: QuickOption = False,
    disable: DisableOption = None,
    donate: DonateOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compile a model into the cache and show what was compiled.

    With -o the model is also written to one file with its machine code, graph and weights, which loads without a
    compiler. Such a file is code: load only what you trust.
    """
    passes, given = tuple(disable or ()), tuple(donate or ())
    request = LoadRequest(EngineChoice.native, strict=strict, exact=exact, quick=quick, disable=passes, donate=given)
    loaded, taken = load_timed(model, request)
    size = None if output is None else loaded.save_compiled(output)
    explanation = loaded.explain()
    host = [{"node": call.title, "reason": call.reason} for call in explanation.host_nodes]
    if as_json:
        data = {"model": model, "kernels": explanation.kernels, "host_nodes": host, "seconds": taken}
        print_json(data if output is None else data | {"output": output, "bytes": size})
        return
    pairs = [("kernels", str(explanation.kernels)), ("host nodes", str(len(host)))]
    pairs += [("", f"{entry['node']}: {entry['reason']}") for entry in host]
    pairs += [("donated", f"{given} becomes {made}") for given, made in loaded.options.donate]
    pairs += [("target", explanation.target), ("time", seconds(taken))]
    if output is not None and size is not None:
        pairs.append(("written", f"{output}, {size:,} bytes"))
    print_pairs(pairs)
