"""`python -m bench.simplify`: `intaglio simplify` beside onnxsim and onnxslim, by nodes, time and memory.

The others are run by the Python that `--peers` names, which must have onnxsim 0.8.1 and onnxslim 0.1.98. What we write
is run by ONNX Runtime without optimisations and compared with the original.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx


def _words(text: str) -> list[str]:
    return text.split()


BENCH = _words("""resnet50 mobilenet_v2 lstm torch-resnet18 torch-encoder light-bvlc_alexnet light-densenet121
light-inception_v1 light-inception_v2 light-resnet50 light-shufflenet light-squeezenet light-vgg19 light-zfnet512 magika
silero-vad silero-vad-18 nudenet ppocr4-det ppocr4-rec ppocr2-cls ppocr6-det ppocr6-rec""")
FIELD = _words("""bert.script distilbert.script gpt2.script llama.script llama.dynamo qwen3.dynamo t5.script bart.script
hf-vit.script hf-swin.script hf-segformer.script hf-mobilevit.script hf-convnext.dynamo hf-dinov2.dynamo detr.script
whisper-encoder.script shufflenet.script unet.script deeplab.script lstm-tagger.script""")
TOOLS = ("intaglio", "onnxsim", "onnxslim")
TOLERANCE = 1e-3


def main() -> int:
    """Compare. 0: never more nodes, and all equal; 1: a model has more, or differs; 2: wrong usage."""
    command = argparse.ArgumentParser(prog="python -m bench.simplify", description=__doc__)
    command.add_argument("--peers", default=sys.executable, metavar="PYTHON", help="the Python that has the others")
    command.add_argument("--select", nargs="+", default=[], metavar="NAME", help="only these models")
    command.add_argument("--patience", type=float, default=300, help="seconds for one tool on one model")
    command.add_argument("--one", nargs=3, metavar=("TOOL", "IN", "OUT"), help=argparse.SUPPRESS)
    options = command.parse_args()
    if options.one is not None:
        print(json.dumps(measure(*options.one)))
        return 0
    print("| model | opset | nodes | ours | onnxsim | onnxslim | seconds | MB | difference | kept |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    verdicts = [_row(name, path, cases, options) for name, path, cases in _models(options.select)]
    print(f"\n{sum(verdicts)} of {len(verdicts)}: no more nodes than the better of both, equal, and names kept")
    return 0 if all(verdicts) else 1


def _models(names: list[str]) -> Iterator[tuple[str, Path, list[dict[str, Any]]]]:
    """The models that are there, each with its inputs."""
    from bench.field.catalogue import by_name
    from bench.models import Unavailable, select

    for name in [name for name in BENCH if not names or name in names]:
        (model,) = select([name])
        try:
            yield name, model.path(), [model.feeds(1)]
        except Unavailable as error:
            print(f"{name}: {error}", file=sys.stderr)
    for name in [name for name in FIELD if not names or name in names]:
        specimen = by_name(name)
        if specimen.path.exists():
            yield name, specimen.path, specimen.cases()
        else:
            print(f"{name}: make it with python -m bench field --generate-only --select {name}", file=sys.stderr)


def _row(name: str, path: Path, cases: list[dict[str, Any]], options: argparse.Namespace) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        targets = {tool: Path(folder) / f"{tool}.onnx" for tool in TOOLS}
        found = {tool: _run(tool, path, targets[tool], options) for tool in TOOLS}
        original = onnx.load(path, load_external_data=False)
        ours = onnx.load(targets["intaglio"], load_external_data=False)
        distance = max(_distance(path, targets["intaglio"], case) for case in cases)
    others = [found[tool]["nodes"] for tool in TOOLS[1:] if "nodes" in found[tool]]
    kept = signature(original) == signature(ours) and _is_of_same_set(original, ours)
    is_right = all(found["intaglio"]["nodes"] <= count for count in others) and distance <= TOLERANCE and kept
    times = " / ".join(f"{found[tool].get('seconds', float('nan')):.1f}" for tool in TOOLS)
    memory = " / ".join(f"{found[tool].get('mb', 0)}" for tool in TOOLS)
    cells = [name, opset(original), nodes(original), *(found[tool].get("nodes", "fails") for tool in TOOLS), times]
    cells += [memory, f"{distance:.1e}", "yes" if kept else "NO"]
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    return is_right


def _run(tool: str, path: Path, target: Path, options: argparse.Namespace) -> dict[str, Any]:
    python = sys.executable if tool == "intaglio" else options.peers
    command = [python, "-m", "bench.simplify", "--one", tool, str(path), str(target)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.patience)
    except subprocess.TimeoutExpired:
        return {}
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"nodes"')]
    if not lines:
        print(f"{tool}: {done.stderr.strip()[-500:]}", file=sys.stderr)
    return json.loads(lines[-1]) if lines else {}


def measure(tool: str, source: str, target: str) -> dict[str, Any]:
    """Simplify with one tool, imports counted in; the nodes of what it writes, seconds and the largest memory."""
    start = time.perf_counter()
    if tool == "intaglio":
        from intaglio.tools import simplify

        simplify(source).save(target)
    elif tool == "onnxsim":
        import onnxsim

        onnx.save(onnxsim.simplify(source)[0], target)
    else:
        import onnxslim

        onnx.save(onnxslim.slim(source), target)
    seconds = time.perf_counter() - start
    return {"nodes": nodes(onnx.load(target, load_external_data=False)), "seconds": seconds, "mb": _largest_memory()}


def _largest_memory() -> int:
    """The most megabytes that this program had; what the system counts for a child begins with those of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


def nodes(model: onnx.ModelProto) -> int:
    """The nodes of a model with those of bodies and functions, without Constant."""
    return _count(model.graph.node) + sum(_count(function.node) for function in model.functions)


def _count(found: Iterable[onnx.NodeProto]) -> int:
    total = 0
    for node in found:
        total += node.op_type != "Constant"
        total += sum(_count(attribute.g.node) for attribute in node.attribute if attribute.HasField("g"))
    return total


def opset(model: onnx.ModelProto) -> int:
    """The version of ONNX's own operators."""
    return next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))


def signature(model: onnx.ModelProto) -> list[Any]:
    """Names, types and names of sizes of inputs and outputs, and metadata."""
    weights = {tensor.name for tensor in model.graph.initializer}
    values = [value for value in model.graph.input if value.name not in weights] + list(model.graph.output)
    sizes = [[size.dim_param for size in value.type.tensor_type.shape.dim] for value in values]
    kinds = [value.type.tensor_type.elem_type for value in values]
    return [[value.name for value in values], sizes, kinds, [(each.key, each.value) for each in model.metadata_props]]


def _is_of_same_set(original: onnx.ModelProto, ours: onnx.ModelProto) -> bool:
    """Whether the operator set is that of the original, and no operator of ours came in."""
    domains = {entry.domain for entry in original.opset_import}
    return opset(ours) == opset(original) and {node.domain for node in ours.graph.node} <= domains | {""}


def _distance(original: Path, ours: Path, feeds: dict[str, Any]) -> float:
    """How far the answers are apart, by the largest value of each output."""
    answers = [_answer(path, feeds) for path in (original, ours)]
    return max((_apart(*pair) for pair in zip(*answers, strict=True)), default=0.0)


def _answer(path: Path, feeds: dict[str, Any]) -> list[Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def _apart(expected: Any, found: Any) -> float:
    left, right = np.asarray(expected), np.asarray(found)
    if left.shape != right.shape or left.dtype != right.dtype:
        return float("inf")
    if left.dtype.kind not in "fiub":
        return 0.0 if bool((left == right).all()) else float("inf")
    left, right = left.astype(np.float64), right.astype(np.float64)
    gap = np.where(left == right, 0.0, np.abs(left - right)).max(initial=0.0)
    return 0.0 if gap == 0 else float(gap / max(np.abs(left).max(), 1e-30))


if __name__ == "__main__":
    sys.exit(main())
