"""What is compiled and when: once, for every size, together, and from the cache afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

import intaglio
from intaglio.onnx.reader import read_model
from intaglio.passes import simplify
from intaglio.runtime.engine.native import NativeEngine
from intaglio.runtime.model.batch import compile_together
from intaglio.targets.c import cache
from intaglio.targets.c.compiler import Compiler

Y = np.array([1, -1, 2], np.float32)


@pytest.fixture
def compilations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """An empty cache, and the lengths of the sources that were compiled into it."""
    monkeypatch.setenv("INTAGLIO_CACHE", str(tmp_path / "cache"))
    cache.default_cache.cache_clear()
    counted: list[int] = []
    compile_unit = Compiler.compile_unit

    def counting(self: Compiler, source: str, *rest: object) -> None:
        counted.append(len(source))
        compile_unit(self, source, *rest)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(Compiler, "compile_unit", counting)
    yield counted
    cache.default_cache.cache_clear()


def test_another_size_compiles_nothing(affine: onnx.ModelProto, compilations: list[int]) -> None:
    model = intaglio.load(affine, engine="native")
    first = len(compilations)
    assert first > 0
    for rows in (1, 2, 7, 0, 100):
        assert model(np.ones((rows, 3), np.float32), Y).shape == (rows, 3)
    assert len(compilations) == first


def test_a_second_load_compiles_nothing(affine: onnx.ModelProto, compilations: list[int]) -> None:
    intaglio.load(affine, engine="native")
    first = len(compilations)
    cache.default_cache.cache_clear()
    intaglio.load(affine, engine="native")
    assert len(compilations) == first


def test_progress_counts_functions(affine: onnx.ModelProto, compilations: list[int]) -> None:
    seen: list[tuple[int, int]] = []
    intaglio.load(affine, engine="native", progress=lambda done, total: seen.append((done, total)))
    assert seen
    assert seen[-1][0] == seen[-1][1]


def test_models_compiled_together_need_no_compiler_later(affine: onnx.ModelProto, compilations: list[int]) -> None:
    other = onnx.ModelProto()
    other.CopyFrom(affine)
    other.graph.node[3].op_type = "Sigmoid"

    def engines() -> Iterator[NativeEngine]:
        for model in (affine, other):
            graph = read_model(model).graph
            simplify(graph)
            yield NativeEngine(graph, 1)

    assert compile_together(engines()) >= 3
    first = len(compilations)
    for model in (affine, other):
        assert intaglio.load(model, engine="native")(np.ones((2, 3), np.float32), Y).shape == (2, 3)
    assert len(compilations) == first
