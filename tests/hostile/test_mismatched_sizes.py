"""Models of ONNX's suite with every input size left open, fed with sizes that do not fit each other.

What the reference engine refuses the native one must refuse too, and what it computes must agree: sizes that a model's
types leave open are nobody's promise.
"""

import contextlib
import re
import warnings
from collections.abc import Iterator

import numpy as np
import onnx
import pytest

import intaglio
from intaglio.conformance.suite import cases
from intaglio.errors import IntaglioError
from intaglio.onnx.reader import read_model
from intaglio.passes import simplify
from intaglio.runtime.engine.native import NativeEngine
from intaglio.runtime.model.batch import compile_together
from intaglio.runtime.model.model import Model

PARTS = 16

SKIPPED = re.compile(r"random|bernoulli|dropout|multinomial|image_decoder|string|strnorm|tfidf|regex|sequence|optional")
"""Random numbers differ between engines, and what is no tensor has no sizes to change."""


def node_models() -> list[tuple[str, onnx.ModelProto, list[np.ndarray]]]:
    """The suite's single-node models that feed tensors only, with their first inputs."""
    found: list[tuple[str, onnx.ModelProto, list[np.ndarray]]] = []
    for name, case in cases().items():
        data = case.source.data_sets
        if SKIPPED.search(name) or not data or case.source.kind != "node":
            continue
        arrays = [np.asarray(item) if isinstance(item, np.generic) else item for item in data[0][0]]
        if arrays and all(isinstance(item, np.ndarray) and item.dtype.kind != "O" for item in arrays):
            found.append((name, case.model(), arrays))
    return found


def opened(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with a symbol of its own for every size of its inputs, and outputs of which nothing is said."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for number, value in enumerate(copy.graph.input):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f"d{number}_{axis}"
    for value in copy.graph.output:
        value.type.tensor_type.ClearField("shape")
    return copy


def changed(arrays: list[np.ndarray], generator: np.random.Generator) -> Iterator[list[np.ndarray]]:
    """The inputs with one size of one of them changed: one more, one less, one, none."""
    for place, array in enumerate(arrays):
        for axis in range(array.ndim):
            size = array.shape[axis]
            for wanted in {size + 1, max(size - 1, 0), 1, 0} - {size}:
                rows = generator.integers(0, size, wanted) if size else np.zeros(0, np.int64)
                if len(rows) == wanted:
                    yield [*arrays[:place], np.take(array, rows, axis=axis), *arrays[place + 1 :]]


def outcome(model: Model, arrays: list[np.ndarray]) -> list[np.ndarray] | IntaglioError:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = model(*arrays)
    except IntaglioError as error:
        return error
    return list(result) if isinstance(result, tuple) else [result]


def differences(name: str, model: onnx.ModelProto, arrays: list[np.ndarray]) -> list[str]:
    """What the engines disagree about."""
    try:
        native, reference = intaglio.load(model, engine="native"), intaglio.load(model, engine="reference")
    except IntaglioError:
        return []
    generator = np.random.default_rng(len(name))
    found: list[str] = []
    for feeds in changed(arrays, generator):
        mine, right = outcome(native, feeds), outcome(reference, feeds)
        shapes = [list(array.shape) for array in feeds]
        if isinstance(mine, IntaglioError) != isinstance(right, IntaglioError):
            found.append(f"{name} {shapes}: native {_shown(mine)}, reference {_shown(right)}")
        elif isinstance(mine, list) and isinstance(right, list) and not _agree(mine, right):
            found.append(f"{name} {shapes}: other numbers")
    return found


def _engines(models: list[onnx.ModelProto]) -> Iterator[NativeEngine]:
    for model in models:
        with contextlib.suppress(IntaglioError):
            graph = read_model(model).graph
            simplify(graph)
            yield NativeEngine(graph, 1)


def _shown(result: list[np.ndarray] | IntaglioError) -> str:
    return str(result).splitlines()[0][:150] if isinstance(result, IntaglioError) else str([a.shape for a in result])


def _agree(mine: list[np.ndarray], right: list[np.ndarray]) -> bool:
    for left, other in zip(mine, right, strict=True):
        if left.shape != other.shape or left.dtype != other.dtype:
            return False
        if left.dtype.kind in "fcV" or left.dtype.num >= 256:
            wide = [np.asarray(a, np.complex128 if left.dtype.kind == "c" else np.float64) for a in (left, other)]
            tolerance = 1e-2 if left.dtype.itemsize <= 2 else 1e-3
            if not np.allclose(*wide, rtol=tolerance, atol=tolerance, equal_nan=True):
                return False
        elif not np.array_equal(left, other) and np.abs(left.astype(np.float64) - other.astype(np.float64)).max() > 1:
            return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_sizes_that_do_not_fit(part):
    models = [(name, opened(model), arrays) for name, model, arrays in node_models()[part::PARTS]]
    compile_together(_engines([model for _, model, _ in models]))
    found: list[str] = []
    for name, model, arrays in models:
        found += differences(name, model, arrays)
    assert not found, "\n".join(found)
