"""Faults planted in a kernel, a fusion, a pass and a weight: `compare` names them, `reduce` cuts to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from intaglio.errors import InputError
from intaglio.ir.build import Builder
from intaglio.ir.graph import Node
from intaglio.kernels import elementwise
from intaglio.kernels.language import Apply, Expr
from intaglio.passes import pipeline
from intaglio.passes.driver import Result, rule
from intaglio.targets.c import cache, kernel_file
from intaglio.targets.c.kernel_source import kernel_source
from intaglio.tools import compare, reduce

LAYER = """
    p{i} = MatMul (h{i}, w)
    q{i} = Add (p{i}, b)
    r{i} = {act} (q{i})
    s{i} = Mul (r{i}, c)
    t{i} = LayerNormalization (s{i}, g)
    h{j} = Add (t{i}, h{i})
"""
START = """<ir_version: 10, opset_import: ["" : 21]>
m (float[n, 8] h0) => (float[n, 8] y, float[n, 8] z)
<float[8] b = {0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.7, -0.8}, float c = {0.5}, float[8] g = {1, 1, 1, 1, 1, 1, 1, 1},
 float[8, 8] w = {WEIGHTS}> {
"""


def network(middle: str = "Tanh", layers: int = 6, tail: str = "") -> onnx.ModelProto:
    """A chain of layers whose middle one has another activation."""
    weights = np.random.default_rng(3).standard_normal(64).round(3)
    text = START.replace("WEIGHTS", ", ".join(map(str, weights)))
    for i in range(layers):
        text += LAYER.format(i=i, j=i + 1, act=middle if i == layers // 2 else "Sigmoid")
    text += tail or f"y = Softmax (h{layers})\n"
    return onnx.parser.parse_model(text + f"z = Neg (h{layers}) }}")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Programs of models with planted faults must not be found by others, nor theirs here."""
    monkeypatch.setenv("INTAGLIO_CACHE", str(tmp_path / "cache"))
    cache.default_cache.cache_clear()
    yield
    cache.default_cache.cache_clear()


def wrong_tanh(node: Node, arguments: list[Expr]) -> Expr:
    """The kernel of Tanh as sin."""
    return Apply("sin", (arguments[0],), arguments[0].type)


def test_nothing_is_found_in_a_right_model() -> None:
    found = compare(network(), "ort", samples=2, tensors=True)
    assert found.is_equal, found
    assert len(found.tensors) == 38
    with pytest.raises(InputError, match="does not fail"):
        reduce(network(), against="reference")


def test_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(elementwise.TRANSLATIONS, "Tanh", wrong_tanh)
    found = compare(network(), "ort", bisection=True)
    assert not found.is_equal
    assert found.first is not None
    assert (found.first.operator, found.first.tensor, found.first.opset) == ("Tanh", "r3", 21)
    assert [each.name for each in found.first.inputs] == ["q3"]
    least, largest = found.first.inputs[0].least, found.first.inputs[0].largest
    assert least is not None
    assert largest is not None
    assert least < largest
    assert found.bisection is not None
    assert found.bisection.kind == "kernel"
    assert found.bisection.guilty[0] == "Tanh"
    small = reduce(network(), against="ort")
    assert small.operators == ["Tanh"]
    assert small.is_complete
    assert [array.size for array in small.feeds.values()] == [1]
    assert small.nodes_before == 38


def test_the_text_of_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    read = kernel_file._whole_text
    model = network(tail="u = Trilu (h6)\nv = Exp (u)\ny = Softmax (v)\n")
    monkeypatch.setattr(kernel_file, "_whole_text", wrong_text(read))
    forget_texts()
    try:
        found = compare(model, "reference", bisection=True, dims={"n": 8})
        assert found.first is not None
        assert found.first.operator == "Trilu"
        assert found.bisection is not None
        assert found.bisection.guilty[0] == "Trilu"
        small = reduce(model, against="reference", dims={"n": 8})
        assert small.operators == ["Trilu"]
    finally:
        forget_texts()


def forget_texts() -> None:
    """Have the texts of kernels made again."""
    kernel_file.instance.cache_clear()
    kernel_source.cache_clear()


def wrong_text(read):
    """The text of kernels with a fault in that of Trilu."""
    return lambda name, folder: read(name, folder).replace("? place :", "? place + 1 :")


def test_what_is_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    right = elementwise.TRANSLATIONS["Mul"]

    def wrong(node: Node, arguments: list[Expr]) -> Expr:
        found = right(node, arguments)
        data = node.inputs[0]
        assert data is not None
        is_fused = data.producer is not None and data.producer.op.name == "Tanh" and not data.is_output
        return Apply("neg", (found,), found.type) if is_fused else found

    monkeypatch.setitem(elementwise.TRANSLATIONS, "Mul", wrong)
    found = compare(network(), "reference", bisection=True)
    assert found.first is not None
    assert found.first.operator == "Mul"
    assert found.first.is_seen_alone
    assert found.bisection is not None
    assert found.bisection.kind == "fusion", found.bisection
    assert any("Tanh" in node for node in found.bisection.guilty)
    small = reduce(network(), against="reference")
    assert small.operators == ["Tanh", "Mul"]


@rule("Mul")
def square_wrongly(b: Builder, node: Node) -> Result:
    """tanh(x) * c -> tanh(x) * tanh(x)"""
    data = node.inputs[0]
    if data is None or data.producer is None or data.producer.op.name != "Tanh" or data is node.inputs[1]:
        return None
    return data * data


def test_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = tuple(
        replace(each, rules=(*each.rules, square_wrongly)) if each.name == "algebra" else each
        for each in pipeline.PIPELINE
    )
    monkeypatch.setattr(pipeline, "PIPELINE", changed)
    defaults = {**(pipeline.simplify.__kwdefaults__ or {}), "pipeline": changed}
    monkeypatch.setattr(pipeline.simplify, "__kwdefaults__", defaults)
    found = compare(network(), "ort", bisection=True)
    assert found.first is not None
    assert (found.first.operator, found.first.tensor) == ("Mul", "s3")
    assert found.bisection is not None
    assert (found.bisection.kind, found.bisection.guilty) == ("pass", ("algebra", "square-wrongly"))
    small = reduce(network(), against="ort")
    assert small.operators == ["Tanh", "Mul"]


def test_a_weight(tmp_path: Path) -> None:
    right, wrong = network(), network()
    weight = wrong.graph.initializer[3]
    array = numpy_helper.to_array(weight).copy()
    array[2, 5] += 0.5
    weight.CopyFrom(numpy_helper.from_array(array, weight.name))
    onnx.save(wrong, tmp_path / "other.onnx")
    found = compare(right, tmp_path / "other.onnx", bisection=True)
    assert found.first is not None
    assert found.first.tensor == "p0"
    assert [each.name for each in found.weights] == ["w"]
    assert "1 of 64 elements differ, first at [2, 5]" in found.weights[0].text
    assert found.bisection is not None
    assert (found.bisection.kind, found.bisection.guilty) == ("weight", ("w",))
    small = reduce(right, against=tmp_path / "other.onnx")
    assert small.operators == ["MatMul"]
    assert small.other is not None
    files = small.save(tmp_path / "small.onnx")
    assert [file.name for file in files] == ["small.onnx", "small.npz", "small.other.onnx"]
    assert not compare(files[0], files[2], feeds=dict(np.load(files[1]))).is_equal
