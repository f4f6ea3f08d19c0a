"""The process that makes models: `python -m bench.field.generation NAME...` tells on each line how far it is."""

import json
import os
import re
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import onnx

from bench.field.specimen import CASES, FACTS, Feeds, Made, NotExported, Specimen, flat, save_cases

LARGEST = 1_500_000_000  # bytes of a file without external data


def generate(specimen: Specimen) -> dict[str, Any]:
    """Make one model and keep it with its cases; the facts tell why there is none."""
    start = time.time()
    specimen.forget()
    specimen.folder.mkdir(parents=True)
    facts: dict[str, Any] = {"made": start, "failure": ""}
    try:
        made = specimen.make()
        _save_model(made, specimen.path)
        facts["dropped"] = _save_answers(specimen.path, made.cases)
    except (NotExported, ImportError, OSError, ValueError) as error:
        facts["failure"] = f"{type(error).__name__}: {error}"
    except Exception:  # a builder's own fault is a row too
        facts["failure"] = traceback.format_exc()[-1500:]
    facts["seconds"] = time.time() - start
    (specimen.folder / FACTS).write_text(json.dumps(facts, indent=1))
    return facts


def _save_model(made: Made, path: Path) -> None:
    if isinstance(made.model, Path):
        path.write_bytes(made.model.read_bytes())
        return
    if made.model.ByteSize() < LARGEST:
        onnx.save(made.model, path)
    else:
        onnx.save(made.model, path, save_as_external_data=True, location="weights.bin")


def _save_answers(path: Path, cases: list[Feeds]) -> list[str]:
    """Keep the cases that ONNX Runtime answers, with its answers; tells of those that it does not."""
    session = judge(path)
    taken = {item.name for item in session.get_inputs()}
    kept, dropped = [], []
    for place, feeds in enumerate(cases):
        feeds = {name: array for name, array in feeds.items() if name in taken}
        try:
            answers = session.run(None, feeds)
        except Exception as error:  # whatever it raises
            dropped.append(f"case {place}: {_line(error)}")
            continue
        expected = [array for answer in answers for array in flat(answer)]
        kept.append({"feeds": feeds, "expected": {str(number): array for number, array in enumerate(expected)}})
    if not kept:
        raise NotExported(f"ONNX Runtime does not run it: {dropped[0]}")
    save_cases(path.with_name(CASES), kept)
    return dropped


def judge(path: Path) -> Any:
    """A session without optimisations."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime has a dozen kinds
        raise NotExported(f"ONNX Runtime does not load it: {_line(error)}") from error


def _line(error: Exception) -> str:
    return re.sub(r"\s+", " ", re.sub(r"(/[\w.+-]+)+/(?=model\.onnx)", "", str(error)))[:300]


def main(names: list[str]) -> None:
    """Make the models of these names, one after the other."""
    from bench.field.catalogue import by_name

    for name in names:
        print(f"start {name}", flush=True)
        facts = generate(by_name(name))
        print(f"done {name} {facts['seconds']:.1f} {facts['failure'].splitlines()[-1:] or 'made'}", flush=True)


if __name__ == "__main__":
    import warnings

    warnings.filterwarnings("ignore")
    main(sys.argv[1:])
