"""`python -m bench.make_dynamic`: networks exported with a fixed batch, opened by `intaglio make-dynamic`."""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import onnx

from bench.field.catalogue import by_name
from bench.field.specimen import NotExported


def _words(text: str) -> list[str]:
    return text.split()


NAMES = _words("""unet.script deeplab.script shufflenet.script hf-resnet.script hf-mobilenet-v2.script
hf-convnext.dynamo hf-vit.script hf-swin.script hf-segformer.script hf-mobilevit.script bert.script distilbert.script
gpt2.script llama.dynamo t5.script whisper-encoder.script lstm-tagger.script detr.script""")


def main() -> int:
    """Open each. 0: at least 13 of 15 are proven, in that share; 1: fewer; 2: wrong usage."""
    command = argparse.ArgumentParser(prog="python -m bench.make_dynamic", description=__doc__)
    command.add_argument("--select", nargs="+", default=NAMES, metavar="NAME", help="models of the field corpus")
    command.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the static exports there")
    options = command.parse_args()
    print("| model | static inputs | nodes that follow | sizes run | largest difference | seconds |")
    print("|---|---|---|---|---|---|")
    verdicts = [_row(name, options.keep) for name in options.select]
    proven, tried = verdicts.count(True), len([each for each in verdicts if each is not None])
    print(f"\n{proven} of {tried} proven")
    return 0 if proven * 15 >= tried * 13 else 1


def static_model(name: str) -> onnx.ModelProto:
    """A network of the field corpus, exported with all sizes fixed."""
    from bench.field import exporting

    writers = {writer: getattr(exporting, writer) for writer in ("_script", "_dynamo")}

    def fixed(writer: Any) -> Any:
        def write(module: Any, example: Any, names: Any, subject: Any) -> onnx.ModelProto:
            subject.axes = {}
            return writer(module, example, names, subject)

        return write

    try:
        for writer, function in writers.items():
            setattr(exporting, writer, fixed(function))
        return by_name(name).make().model
    finally:
        for writer, function in writers.items():
            setattr(exporting, writer, function)


def _row(name: str, keep: Path | None) -> bool | None:
    from intaglio.errors import IntaglioError
    from intaglio.tools import make_dynamic

    try:
        model = static_model(name)
    except NotExported as error:
        print(f"{name}: {error}", file=sys.stderr)
        return None
    shapes = ", ".join(str([d.dim_value for d in v.type.tensor_type.shape.dim]) for v in model.graph.input)
    with tempfile.TemporaryDirectory() as folder:
        path = (keep or Path(folder)) / f"{name}.onnx"
        onnx.save(model, path)
        start = time.perf_counter()
        try:
            found = make_dynamic(path)
        except IntaglioError as error:
            print(f"| {name} | {shapes} | {str(error)[:300]} | | | |", flush=True)
            return False
    sizes = ", ".join(str(proof.size) for proof in found.proofs)
    largest = max(each.relative for proof in found.proofs for each in proof.differences)
    seconds = time.perf_counter() - start
    print(f"| {name} | {shapes} | {len(found.changed)} | {sizes} | {largest:.1e} | {seconds:.1f} |", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
