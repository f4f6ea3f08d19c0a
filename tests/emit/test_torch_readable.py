"""PyTorch source that reads well where models have no names, names that are taken, or integers."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.emit.models import drawn, parse
from tests.emit.readable_models import READABLE, READABLE_FEEDS, without_names
from tests.emit.test_python import SNAPSHOTS, check_snapshot

import intaglio
from intaglio.conformance.exported import import_exported
from intaglio.emit.torch.naming import Marks

torch = pytest.importorskip("torch", reason="exported PyTorch code needs PyTorch, which development does not install")
from tests.emit.torch_models import exported_network  # noqa: E402

LINT = ["ruff", "check", "--isolated", "--select", "E,F,W,I,B,UP,SIM,A,N801", "--line-length", "120", "model.py"]


def exported(model: onnx.ModelProto, folder: Path) -> tuple[str, Any]:
    intaglio.export(model, "torch", folder)
    return (folder / "model.py").read_text(), import_exported(folder).load()


def results(loaded: Any, feeds: list[np.ndarray]) -> list[Any]:
    found = loaded(*(torch.from_numpy(feed) for feed in feeds))
    return list(found) if isinstance(found, tuple) else [found]


def classes(text: str) -> list[str]:
    return [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]


def locals_of(text: str) -> set[str]:
    """All names that forward passes assign."""
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    found = [node for each in functions if each.name == "forward" for node in ast.walk(each)]
    return {node.id for node in found if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


@pytest.mark.parametrize("name", sorted(READABLE))
def test_source_is_as_it_was_right_and_clean(name: str, tmp_path: Path) -> None:
    text, loaded = exported(READABLE[name](), tmp_path)
    check_snapshot(text, SNAPSHOTS / f"{name}.torch.txt", update=False)
    expected = intaglio.load(READABLE[name](), engine="reference")(*READABLE_FEEDS[name])
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for left, right in zip(results(loaded, READABLE_FEEDS[name]), wanted, strict=True):
        if right.dtype.kind in "iu":
            np.testing.assert_array_equal(left.numpy(), right)
        else:
            np.testing.assert_allclose(left.detach().numpy(), right, rtol=1e-4, atol=1e-6)
    done = subprocess.run([sys.executable, "-m", *LINT], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", sorted(READABLE))
def test_weights_come_back_and_train(name: str, tmp_path: Path) -> None:
    _, loaded = exported(READABLE[name](), tmp_path)
    other = type(loaded)()
    other.load_state_dict(loaded.state_dict())
    for left, right in zip(results(loaded, READABLE_FEEDS[name]), results(other, READABLE_FEEDS[name]), strict=True):
        assert torch.equal(left, right)
    floats = [each for each in results(loaded, READABLE_FEEDS[name]) if each.is_floating_point()]
    loss = torch.stack([each.square().mean() for each in floats]).sum()
    loss.backward()
    assert all(parameter.grad is not None for parameter in loaded.parameters())


def test_blocks_without_names_are_one_class(tmp_path: Path) -> None:
    text, _ = exported(READABLE["blocks"](), tmp_path)
    assert classes(text) == ["ResidualBlock", "Model"]
    assert "self.blocks = nn.Sequential(*(ResidualBlock() for _ in range(3)))" in text
    assert not re.search(r"\bv\d+", text)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("residual", ["ResidualBlock", "ProjectionResidualBlock", "Model"]),
        ("transformer", ["TransformerLayer", "Model"]),
    ],
)
def test_networks_without_names_have_their_blocks(name: str, expected: list[str], tmp_path: Path) -> None:
    network, inputs, model = exported_network(name, False)
    text, loaded = exported(without_names(model), tmp_path)
    assert classes(text) == expected
    assert locals_of(text) <= {"hidden", "shortcut", "pooled", "mlp", "attention", "query", "key", "value", "embedding",
                               "logits", "mask"}  # fmt: skip
    torch.testing.assert_close(loaded(*inputs), network(*inputs), rtol=1e-4, atol=1e-5)
    intaglio.export(without_names(model), "torch", tmp_path / "again")
    assert (tmp_path / "again" / "model.py").read_text() == text


def test_taken_names_get_an_underscore(tmp_path: Path) -> None:
    text, loaded = exported(READABLE["reserved"](), tmp_path)
    assert "def forward(self, input_: Tensor, self_: Tensor)" in text
    taken = set(dir(builtins)) | set(keyword.kwlist) | {"self", "torch", "nn", "functional"}
    assert taken.isdisjoint(locals_of(text))
    own = set(dir(torch.nn.Module())) - {"forward"}
    assert all(name.partition(".")[0] not in own for name in loaded.state_dict())


def test_quantised_layers_are_modules(tmp_path: Path) -> None:
    _, loaded = exported(READABLE["whole_numbers"](), tmp_path)
    kinds = {type(each).__name__ for each in loaded.modules()}
    assert {"Quantize", "Dequantize", "QuantizedConv2d", "QuantizedLinear", "DynamicQuantizedLinear"} <= kinds
    state = loaded.state_dict()
    assert state["conv.weight"].dtype == torch.int8
    assert state["conv.input_zero_point"].dtype == torch.uint8
    assert state["conv.weight_scale"].tolist() == pytest.approx([0.01, 0.02, 0.015, 0.03])


def test_rounding_lets_gradients_pass_within_its_range(tmp_path: Path) -> None:
    model = parse(
        """net (float[4] x) => (float[4] y) {
        a = QuantizeLinear (x, s, z) y = DequantizeLinear (a, s, z) }""",
        s=np.array(0.5, np.float32),
        z=np.array(-100, np.int8),
    )
    _, loaded = exported(model, tmp_path)
    x = torch.tensor([1.3, -100.0, 1000.0, float("nan")], requires_grad=True)
    y = loaded(x)
    y.sum().backward()
    assert y.tolist() == [1.5, -14.0, 113.5, 0.0]
    assert x.grad is not None
    assert x.grad[:3].tolist() == [1.0, 0.0, 0.0]


def test_a_name_serves_again_when_nothing_reads_it() -> None:
    marks = Marks()
    x, a, b, c = (marks.give(name) for name in ("x", "hidden", "hidden", "hidden"))
    lines = [[f"{a} = f({x})"], [f"{b} = g({a})"], [f"{c} = h({a}, {b})"]]
    naming = marks.named([x], lines, [c])
    assert [naming.text(line[0]) for line in lines] == [
        "hidden = f(x)", "hidden_2 = g(hidden)", "hidden = h(hidden, hidden_2)",
    ]  # fmt: skip


def test_what_several_lines_read_is_not_overwritten_by_them() -> None:
    marks = Marks()
    a, b = marks.give("hidden"), marks.give("hidden")
    lines = [[f"{b} = {a}", "for _ in range(3):", f"    {b} = {b} + {a}"]]
    naming = marks.named([a], lines, [b])
    assert naming.text(b) != naming.text(a)


def test_results_that_nothing_reads_keep_their_own_names() -> None:
    marks = Marks()
    a, b, c = marks.give("x"), marks.give("part"), marks.give("part")
    naming = marks.named([a], [[f"{b}, {c} = {a}.chunk(2)"]], [b])
    assert (naming.text(b), naming.text(c)) == ("part", "part_2")


def test_a_part_of_a_list_is_no_loop_over_it(tmp_path: Path) -> None:
    """Layers that take another operand from the middle of the list on."""
    text = " ".join(
        f"a{i} = Gemm (h{i}, w{i}) b{i} = Tanh (a{i}) c{i} = Gemm (b{i}, u{i}) d{i} = Add (c{i}, h{i}) "
        f"h{i + 1} = Mul (d{i}, {'m' if i < 2 else 'k'})"
        for i in range(4)
    )
    weights = {f"{name}{i}": drawn(3 + i, 3 + i)[:3, :3].copy() for name in "wu" for i in range(4)}
    model = parse(
        f"net (float[n, 3] x, float[n, 3] m, float[n, 3] l) => (float[n, 3] h4) {{ h0 = Relu (x) k = Neg (l) {text} }}",
        **weights,
    )
    feeds = [drawn(2, 3), drawn(3, 2).T.copy(), drawn(6).reshape(2, 3)]
    _, loaded = exported(model, tmp_path)
    expected = intaglio.load(model, engine="reference")(*feeds)
    np.testing.assert_allclose(results(loaded, feeds)[0].detach().numpy(), expected, rtol=1e-4, atol=1e-6)


def test_long_chains_take_little_time(tmp_path: Path) -> None:
    """Layers that all read a value of the beginning; work that grew with the square would take minutes."""
    layers = " ".join(f"a{i} = MatMul (h{i}, w) b{i} = Mul (a{i}, s) h{i + 1} = Tanh (b{i})" for i in range(500))
    text, _ = exported(
        parse(
            f"net (float[n, 3] x, float[3] t) => (float[n, 3] h500) {{ s = Exp (t) h0 = Relu (x) {layers} }}",
            w=drawn(3, 3),
        ),
        tmp_path,
    )
    assert len(classes(text)) == 2
    assert len(text.splitlines()) < 70
    assert "in range(500)" in text
