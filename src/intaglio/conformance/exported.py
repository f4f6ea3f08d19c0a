"""Exported source under tests: what a language can say, and whether it is right."""
# pyright: reportMissingImports=false

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from intaglio.conformance.result import Result
from intaglio.conformance.suite import Subject
from intaglio.conformance.zig_programs import ZigBackend, compile_together
from intaglio.emit import export
from intaglio.emit.c.build import build
from intaglio.runtime.engine.engine import Progress
from intaglio.runtime.model.loading import load

_NUMBERS = count()

STYLES = ("c:readable", "c:fast")
"""Languages in a style of theirs."""

UNSAID = "UnsupportedError"
"""What the reason of a test begins with whose model a language has no words for."""


class ExportedModel:
    """A model that was exported, imported again and loaded."""

    def __init__(self, language: str, model: Any) -> None:
        self.language = language
        self.model = model

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs for arrays."""
        given = [_to_torch(item) for item in inputs] if self.language == "torch" else inputs
        found = self.model(*given)
        results = found if isinstance(found, tuple) else (found,)
        return [_checked(_from_torch(item) if self.language == "torch" else item) for item in results]


def _checked(item: Any) -> Any:
    """An output as the suite compares it, which takes a NumPy scalar for an array that it is not."""
    assert not isinstance(item, np.generic), f"a scalar {type(item).__name__}, expected an array"
    return item


def _to_torch(item: Any) -> Any:
    """An input as a tensor; PyTorch reads no bfloat16 of NumPy's."""
    import torch

    if not isinstance(item, np.ndarray):
        return None if item is None else [_to_torch(each) for each in item]
    if item.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(np.array(item, order="C").view(np.int16)).reshape(item.shape).view(torch.bfloat16)
    return torch.from_numpy(np.array(item, order="C")).reshape(item.shape)


def _from_torch(item: Any) -> Any:
    """An output as an array."""
    import torch

    if not isinstance(item, torch.Tensor):
        return None if item is None else [_from_torch(each) for each in item]
    plain = item.detach().contiguous()
    if plain.dtype == torch.bfloat16:
        return plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return plain.numpy()


class ExportBackend:
    """An ONNX backend that writes each model as source and runs that.

    What is compiled is run once by most tests, and not optimised unless that is asked for.
    """

    def __init__(self, language: str, is_optimised: bool = False) -> None:
        self.language = language
        self.is_optimised = is_optimised

    def prepare(self, model: Any, device: str = "CPU", **options: Any) -> ExportedModel:
        """Export a model and load what was written."""
        del device, options
        with tempfile.TemporaryDirectory(prefix="intaglio-export-") as folder:
            language, _, style = self.language.partition(":")
            if language == "c":
                return ExportedModel(language, _compiled(model, Path(folder), style or "readable", self.is_optimised))
            if language == "wasm":
                from intaglio.conformance.wasm import WasmModel

                return ExportedModel(language, WasmModel(model, "-O3" if self.is_optimised else "-O1"))
            export(model, self.language, folder)
            if self.language == "onnx":
                return ExportedModel(self.language, load(Path(folder) / "model.onnx", engine="reference"))
            return ExportedModel(self.language, import_exported(Path(folder)).load())


C_FLAGS = {
    "readable": ("-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1", "-fno-strict-aliasing"),
    "fast": ("-std=gnu11", "-Wall", "-Werror", "-O0", "-fno-strict-aliasing"),
}
"""What exported C is compiled with; it is run once."""


def _compiled(model: Any, folder: Path, style: str, is_optimised: bool) -> Any:
    """The model as exported C, compiled as a library and loaded; optimised as its Makefile says."""
    build(model, folder, style=style, compiler_flags=None if is_optimised else C_FLAGS[style])
    return import_exported(folder).load()


def import_exported(folder: Path) -> ModuleType:
    """The module `model.py` of an exported folder, under a name of its own."""
    name = f"intaglio_exported_{next(_NUMBERS)}"
    spec = importlib.util.spec_from_file_location(name, folder / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


def prepare_exports(language: str, models: Iterable[Any], progress: Progress | None = None) -> None:
    """Compile small models together, where a language has a compiler that takes long to start."""
    if language == "zig":
        compile_together(models, progress)


def export_subject(language: str, is_optimised: bool = False) -> Subject:
    """A language to be tested."""
    if language == "zig":
        return Subject("exported zig", ZigBackend("ReleaseFast" if is_optimised else "Debug"))
    return Subject(f"exported {language}", ExportBackend(language, is_optimised))


def export_row(language: str, results: Sequence[Result]) -> tuple[str, int, int, int]:
    """A line of the table: the language, tests passed (random ones included), sayable models, and all tests."""
    passed = sum(result.outcome in ("passed", "random") for result in results)
    unsaid = sum(result.outcome == "failed" and result.reason.startswith(UNSAID) for result in results)
    return language, passed, len(results) - unsaid, len(results)
