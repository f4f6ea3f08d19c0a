"""Files that ONNX Runtime's own tools and the float16 converter made out of other models of the corpus."""

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from bench.field.specimen import Feeds, Made, NotExported, Specimen


def _source(name: str) -> tuple[Path, list[Feeds]]:
    """Another model of the corpus, made now if it is not there."""
    from bench.field.catalogue import by_name
    from bench.field.generation import generate

    specimen: Specimen = by_name(name)
    facts = specimen.facts() or generate(specimen)
    if facts["failure"]:
        raise NotExported(f"{name}: {facts['failure']}")
    return specimen.path, specimen.cases()


def optimised(name: str, level: str) -> Made:
    """What ONNX Runtime writes after its optimisations: its own fused and blocked operators."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    path, cases = _source(name)
    levels = {"basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
              "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
              "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = levels[level]
        options.optimized_model_filepath = str(Path(folder) / "optimised.onnx")
        onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return Made(onnx.load(options.optimized_model_filepath), cases)


def half(name: str, keep: str = "inner") -> Made:
    """Converted to float16 by ONNX Runtime's tool; `inner` keeps the inputs and outputs as they are."""
    from onnxruntime.transformers import float16

    path, cases = _source(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = float16.convert_float_to_float16(onnx.load(path), keep_io_types=keep == "inner")
    if keep != "inner":
        cases = [{n: a.astype(np.float16) if a.dtype == np.float32 else a for n, a in case.items()} for case in cases]
    return Made(model, cases)


def dynamic(name: str, kind: str = "int8") -> Made:
    """Weights quantised, values when they are there."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    path, cases = _source(name)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        target = Path(folder) / "model.onnx"
        ready = _preprocessed(path, Path(folder))
        weight = QuantType.QInt8 if kind == "int8" else QuantType.QUInt8
        quantize_dynamic(ready, target, weight_type=weight, per_channel=kind == "channels")
        return Made(onnx.load(target), cases)


class _Reader:
    """The cases, one after the other, for calibration."""

    def __init__(self, cases: list[Feeds]) -> None:
        self.waiting = list(cases)

    def get_next(self) -> Feeds | None:
        return self.waiting.pop(0) if self.waiting else None


def static(name: str, form: str = "qdq") -> Made:
    """Everything quantised after calibration: with QuantizeLinear pairs, or with QLinear operators."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    path, cases = _source(name)

    class Reader(_Reader, CalibrationDataReader):
        pass

    settings: dict[str, Any] = {"quant_format": QuantFormat.QOperator if form == "operators" else QuantFormat.QDQ,
                                "per_channel": form == "channels", "activation_type": QuantType.QUInt8,
                                "weight_type": QuantType.QInt8}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        target = Path(folder) / "model.onnx"
        ready = _preprocessed(path, Path(folder))
        quantize_static(ready, target, Reader(cases[:1]), **settings)
        return Made(onnx.load(target), cases)


def _preprocessed(path: Path, folder: Path) -> Path:
    """What ONNX Runtime asks to do first: shapes and folded normalisations."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    target = folder / "ready.onnx"
    try:
        quant_pre_process(path, target, skip_symbolic_shape=True)
    except Exception:  # then as it is
        return path
    return target


def blocks(name: str) -> Made:
    """Weights in blocks of four bits: MatMulNBits."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    path, cases = _source(name)
    quantiser: Any = MatMulNBitsQuantizer(onnx.load(path), block_size=32, is_symmetric=True)
    quantiser.process()
    return Made(quantiser.model.model, cases)


def fused(name: str, kind: str) -> Made:
    """What ONNX Runtime's transformer optimiser writes: Attention, SkipLayerNormalization, FastGelu."""
    from onnxruntime.transformers import optimizer

    path, cases = _source(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = optimizer.optimize_model(str(path), model_type=kind, num_heads=4, hidden_size=64, opt_level=0)
    with tempfile.TemporaryDirectory() as folder:
        model.save_model_to_file(str(Path(folder) / "fused.onnx"))
        return Made(onnx.load(Path(folder) / "fused.onnx"), cases)
