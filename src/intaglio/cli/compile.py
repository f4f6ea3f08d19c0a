"""`intaglio compile`: compile a model into the cache, so that loading it later takes no compiler run."""

from __future__ import annotations

from intaglio.cli.session import load_timed
from intaglio.cli.terminal import EngineChoice, JsonOption, ModelArgument, print_json, print_pairs, seconds


def compile_model(model: ModelArgument, as_json: JsonOption = False) -> None:
    """Compile a model into the cache and show what was compiled."""
    loaded, taken = load_timed(model, EngineChoice.native)
    explanation = loaded.explain()
    host = [{"node": call.title, "reason": call.reason} for call in explanation.host_nodes]
    if as_json:
        print_json({"model": model, "kernels": explanation.kernels, "host_nodes": host, "seconds": taken})
        return
    pairs = [("kernels", str(explanation.kernels)), ("host nodes", str(len(host)))]
    pairs += [("", f"{entry['node']}: {entry['reason']}") for entry in host]
    print_pairs([*pairs, ("target", explanation.target), ("time", seconds(taken))])
