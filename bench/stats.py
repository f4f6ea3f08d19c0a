"""`python -m bench.stats`: multiplications that `intaglio stats` counts beside those of onnx-tool.

onnx-tool is run by the Python that `--peers` names. Sums over all Conv, Gemm and MatMul nodes must be equal, with
the additions of biases, which onnx-tool counts as multiplications.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

COMPARED = ("Conv", "Gemm", "MatMul")
SIZES: dict[str, dict[str, tuple[int, ...]]] = {
    "resnet50": {"image": (1, 3, 224, 224)},
    "mobilenet_v2": {"image": (2, 3, 224, 224)},
    "torch-resnet18": {"image": (1, 3, 224, 224)},
    "light-squeezenet": {},
    "light-inception_v1": {},
    "light-resnet50": {},
    "light-shufflenet": {},
    "light-vgg19": {},
    "ppocr4-det": {"x": (1, 3, 480, 640)},
    "ppocr6-rec": {"x": (1, 3, 48, 320)},
    "nudenet": {"images": (1, 3, 320, 320)},
    "ppocr2-cls": {"x": (1, 3, 48, 192)},
    "bert_base": {"input_ids": (1, 128), "attention_mask": (1, 128), "token_type_ids": (1, 128)},
    "lstm": {"x": (1, 50, 64)},
}


def main() -> int:
    """Compare. 0: all are equal; 1: some differ; 2: wrong usage."""
    from bench.models import select

    command = argparse.ArgumentParser(prog="python -m bench.stats", description=__doc__)
    command.add_argument("--peers", default=sys.executable, metavar="PYTHON", help="the Python that has onnx-tool")
    command.add_argument("--select", nargs="+", default=list(SIZES), choices=list(SIZES), metavar="NAME")
    command.add_argument("--one", nargs=2, metavar=("NAME", "IN"), help=argparse.SUPPRESS)
    options = command.parse_args()
    if options.one is not None:
        print(json.dumps(theirs(*options.one)))
        return 0
    print("| model | operator | ours with biases | onnx-tool |")
    print("|---|---|---|---|")
    differ = 0
    for name in options.select:
        (model,) = select([name])
        path = model.path()
        done = subprocess.run([options.peers, "-m", "bench.stats", "--one", name, str(path)],
                              capture_output=True, text=True)  # fmt: skip
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        found = json.loads(lines[-1]) if lines else {}
        counted = ours(name, path)
        for operator in [each for each in (*COMPARED, "LSTM") if counted.get(each) or found.get(each)]:
            mine, other = counted.get(operator, 0), found.get(operator, "fails" if not lines else 0)
            differ += operator in COMPARED and mine != other
            print(
                f"| {name} | {operator} | {mine:,} | {other if isinstance(other, str) else f'{other:,}'} |", flush=True
            )
        if not lines:
            print(f"{name}: {done.stderr.strip()[-300:]}", file=sys.stderr)
    print(f"\n{differ} sums of {', '.join(COMPARED)} differ")
    return 1 if differ else 0


def ours(name: str, path: Path) -> dict[str, int]:
    """What we count by operator, with the additions of biases, which onnx-tool counts as multiplications."""
    from intaglio.tools import stats

    return {row.name: row.macs + row.biases for row in stats(path, shapes=SIZES[name]).operators}


def theirs(name: str, path: str) -> dict[str, int]:
    """What onnx-tool counts by operator."""
    import numpy
    import onnx
    import onnx_tool

    model = onnx_tool.Model(path)
    kinds = {
        value.name: value.type.tensor_type.elem_type for value in onnx.load(path, load_external_data=False).graph.input
    }
    inputs: dict[str, Any] = {}
    for given, shape in SIZES[name].items():
        inputs[given] = numpy.zeros(shape, onnx.helper.tensor_dtype_to_np_dtype(kinds[given]))
    model.graph.shape_infer(inputs or None)
    model.graph.profile()
    counts: Counter[str] = Counter()
    for node in model.graph.nodemap.values():
        counts[node.op_type] += int(node.macs[0] if hasattr(node.macs, "__len__") else node.macs)
    return dict(counts)


if __name__ == "__main__":
    sys.exit(main())
